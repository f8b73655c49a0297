/* Starts a stub: as a copy of the fork server (forkserver.c) if there is one and it agrees, else
   as a program of its own.

   Triton starts this program in the stub's place, waits for it, and may kill it. So it stays until
   the copy has ended, and then ends in the same way. If it is killed, the fork server sees its
   socket closed and kills the copy.

   A request is one message: the number of arguments, the arguments, the working directory and the
   environment, each with a zero byte at its end. With it go descriptors: a socket for the answer,
   and for the ONNX Runtime stand-in the file of its offers (fastpath.cc). The answer is `p` (start
   a plain process) or `f` (a copy is made); after `f` comes the copy's wait status, an int. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOCKET_VARIABLE "WORKBOOK_FORKSERVER"
#define JAIL_VARIABLE "WORKBOOK_JAIL" /* set: every stub in a sandbox of its own (jail.py) */
#define NO_SANDBOX 125 /* the exit status of a copy for which no sandbox could be made */
#define MOST 131072 /* bytes of a request; for a longer one, the stub is a program of its own */

extern char **environ;

static char request[MOST];
static size_t size;

static int add(const char *word) {
    size_t length = strlen(word) + 1;
    if (length > MOST - size) return 0;
    memcpy(request + size, word, length);
    size += length;
    return 1;
}

static int write_request(int argc, char **argv) {
    char number[16], folder[4096];
    snprintf(number, sizeof number, "%d", argc);
    if (!add(number)) return 0;
    for (int i = 0; i < argc; i++)
        if (!add(argv[i])) return 0;
    if (getcwd(folder, sizeof folder) == NULL || !add(folder)) return 0;
    for (char **entry = environ; *entry != NULL; entry++)
        if (!add(*entry)) return 0;
    return 1;
}

/* The descriptor of the file of offers, or -1: only the ONNX Runtime stand-in may write there. */
static int offers(const char *backend) {
    const char *name = strrchr(backend, '/');
    if (name == NULL || strcmp(name, "/onnxruntime") != 0) return -1;
    for (int i = 3; i < 1024; i++) {
        char line[16];
        if (pread(i, line, sizeof line, 0) == sizeof line &&
            memcmp(line, "triton-fastpath\n", sizeof line) == 0)
            return i;
    }
    return -1;
}

/* Sends the request; returns the socket for the answer, or -1. */
static int ask(int server, int extra) {
    int ends[2], count = extra >= 0 ? 2 : 1;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return -1;
    struct iovec part = {request, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room,
                             .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int))};
    memset(control.room, 0, sizeof control.room);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
    int sent[2] = {ends[1], extra};
    memcpy(CMSG_DATA(head), sent, (size_t)count * sizeof(int));
    ssize_t done = sendmsg(server, &message, MSG_NOSIGNAL);
    close(ends[1]);
    if (done >= 0) return ends[0];
    close(ends[0]);
    return -1;
}

/* Waits for the copy's end, and ends in the same way. Returns if the copy got no sandbox. */
static void end_as_the_copy(int answer) {
    int status;
    if (read(answer, &status, sizeof status) != sizeof status) _exit(1);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SANDBOX) return;
    if (WIFSIGNALED(status)) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(WTERMSIG(status), SIG_DFL);
        kill(getpid(), WTERMSIG(status));
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* Takes a model of ours in place of the model; ours raises an error. (If no stub is started, Triton
   24.10 waits for it for ever.) */
static void replace(int argc, char **argv, const char *ours) {
    static char file[4096], kind[] = "DEFAULT";
    const char *program = argv[1], *name = strstr(program, "/bin/triton_python_backend_stub");
    if (name == NULL || argc < 4) _exit(1);
    snprintf(file, sizeof file, "%.*s/in_place/%s/1/model.py", (int)(name - program), program, ours);
    argv[2] = file;
    argv[argc - 1] = kind;
}

int main(int argc, char **argv) {
    const char *number = getenv(SOCKET_VARIABLE);
    /* Triton tries the stub without arguments first. If it does not end with 1, Triton removes the
     * right to read the file (chmod 0100), and no other user can start a stub any more. */
    if (argc < 3) return 1; /* start_stub PROGRAM ARGUMENTS… */
    /* DEFAULT is the Python backend. (A stand-in checks its files itself.) */
    if (strcmp(argv[argc - 1], "DEFAULT") == 0 && access(argv[2], F_OK) != 0)
        replace(argc, argv, "absent");
    int server = number ? atoi(number) : -1, extra = offers(argv[argc - 1]);
    unsetenv(SOCKET_VARIABLE);
    if (server > 2 && write_request(argc - 1, argv + 1)) {
        int answer = ask(server, extra);
        char kind, name[16];
        int copy;
        if (answer >= 0 && read(answer, &kind, 1) == 1 && kind == 'f' &&
            read(answer, &copy, sizeof copy) == sizeof copy) {
            snprintf(name, sizeof name, "stub %d", copy);
            prctl(PR_SET_NAME, name);
            syscall(SYS_close_range, (unsigned)answer + 1, ~0u, 0u);
            end_as_the_copy(answer);
        }
    }
    if (getenv(JAIL_VARIABLE) != NULL) replace(argc, argv, "refused");
    /* Of the server's open files the stub gets only its log, and no connection of a client. */
    int keep = extra >= 0 ? dup2(extra, 3) : 2;
    setpgid(0, 0); /* revive.cc ends by this group what the stub has started */
    syscall(SYS_close_range, (unsigned)keep + 1, ~0u, 0u);
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}
