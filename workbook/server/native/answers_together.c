/* The answers of a batch wake a thread of the HTTP endpoint once, not once each.

   An instance's thread gives each answer to the thread of the HTTP endpoint that has the client's
   connection: libevhtp sends a command of 17 bytes over a pair of sockets, and the thread reads one
   command each time that poll() returns. On two cores the wake-ups take up to a third of the
   server's processor time for small requests. This library is preloaded. Between the two calls below,
   which fastpath.cc makes around the answers of a batch, its send() keeps such commands back. What
   is sent in their place is one command for each thread, whose function calls theirs in turn. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>

/* As many answers wait for the last of them: the endpoint's threads are to begin meanwhile. */
#define MOST 16
/* The endpoint's threads that answers of one batch are kept for; others get theirs at once. */
#define THREADS 16

typedef void Function(void *thread, void *argument, void *shared);

/* libevhtp's struct evthr_cmd: what a thread is to call. */
typedef struct __attribute__((packed)) {
    uint8_t stop;
    void *argument;
    Function *function;
} Command;

/* Commands for one thread. */
typedef struct {
    int socket;
    int count;
    Command commands[MOST];
} Group;

static __thread int keeping;
static __thread Group *groups[THREADS];

static ssize_t real_send(int socket, const void *data, size_t size, int flags) {
    static ssize_t (*real)(int, const void *, size_t, int);
    if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "send");
    return real(socket, data, size, flags);
}

/* Called in the thread of the endpoint. */
static void call_all(void *thread, void *argument, void *shared) {
    Group *group = argument;
    for (int i = 0; i < group->count; i++)
        group->commands[i].function(thread, group->commands[i].argument, shared);
    free(group);
}

/* Send a group, and give it up: its memory is the receiver's, unless it is a single command. */
static void send_group(Group *group) {
    const int single = group->count == 1, socket = group->socket;
    const Command command = single ? group->commands[0] : (Command){0, group, call_all};
    if (single) free(group);
    struct pollfd room = {socket, POLLOUT, 0};
    while (real_send(socket, &command, sizeof command, 0) < 0 && (errno == EAGAIN || errno == EINTR))
        poll(&room, 1, -1);
}

/* Keep a command back; 0 if there is no room or no memory for it. */
static int keep(int socket, const Command *command) {
    int at = 0;
    while (at < THREADS && groups[at] != NULL && groups[at]->socket != socket) at++;
    if (at == THREADS) return 0;
    if (groups[at] == NULL) {
        groups[at] = malloc(sizeof(Group));
        if (groups[at] == NULL) return 0;
        groups[at]->socket = socket;
        groups[at]->count = 0;
    }
    Group *group = groups[at];
    group->commands[group->count++] = *command;
    if (group->count == MOST) {
        int last = at;
        while (last + 1 < THREADS && groups[last + 1] != NULL) last++;
        groups[at] = groups[last];
        groups[last] = NULL;
        send_group(group);
    }
    return 1;
}

/* From here on, this thread's answers are kept. */
void workbook_keep_answers(void) { keeping = 1; }

/* Send what was kept, and keep no more. */
void workbook_send_answers(void) {
    keeping = 0;
    for (int i = 0; i < THREADS && groups[i] != NULL; i++) {
        send_group(groups[i]);
        groups[i] = NULL;
    }
}

ssize_t send(int socket, const void *data, size_t size, int flags) {
    const Command *command = data;
    if (keeping && size == sizeof *command && flags == 0 && !command->stop && keep(socket, command))
        return (ssize_t)size;
    return real_send(socket, data, size, flags);
}
