/* Starts stubs as copies of a running process (fork), so that they share the imported modules.

   Triton's Python backend starts a program, the stub, for every model instance and once more for
   auto-completion. Each stub starts Python and imports numpy; many import torch and transformers,
   which takes seconds. With this library one process, the fork server, imports them once. A stub is
   then a copy of it, made within milliseconds.

   The library is in two programs:

   - In tritonserver (LD_PRELOAD). Before main() it starts the fork server: the stub's own program,
     with this library preloaded and one end of a pair of sockets. The other end stays open in
     tritonserver, and every stub that Triton starts inherits it: start_stub.c sends the request.
   - In the fork server. It takes the place of main(): it starts Python as the stub would, and runs
     forkserver.py, which waits for requests and forks. In each copy the stub's real main() then
     runs, with the arguments of the request. Its call that starts Python finds Python started.

   README.md in this folder lists what could go wrong. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SOCKET_VARIABLE "WORKBOOK_FORKSERVER" /* the number of the socket's descriptor */
#define NAME "triton_python_backend_forkserver"
#define ROOM 4095 /* for the command line that `ps` shows for a copy */

/* -- the part of Python's C interface that is used: some machines have no headers for it ------- */

#define PYTHON __attribute__((weak)) /* weak: tritonserver, which loads it, too, has no Python */

typedef struct PyObject PyObject;
typedef struct {
    int config_init, isolated, use_environment, dev_mode, install_signal_handlers;
    char more[16384]; /* its size differs between versions and is below 1 kB */
} PyConfig;
typedef struct {
    int type;
    const char *function, *message;
    int exit_status;
} PyStatus;
#define Py_file_input 257

PYTHON void PyConfig_InitIsolatedConfig(PyConfig *config);
PYTHON PyStatus PyConfig_SetBytesArgv(PyConfig *config, long argc, char *const *argv);
PYTHON void PyConfig_Clear(PyConfig *config);
PYTHON int PyStatus_Exception(PyStatus status);
PYTHON PyStatus PyStatus_Ok(void);
PYTHON PyObject *PyEval_GetBuiltins(void);
PYTHON PyObject *PyDict_New(void);
PYTHON int PyDict_SetItemString(PyObject *dict, const char *key, PyObject *value);
PYTHON PyObject *PyDict_GetItemString(PyObject *dict, const char *key);
PYTHON PyObject *PyRun_FileExFlags(FILE *file, const char *name, int start, PyObject *globals,
                                   PyObject *locals, int close, void *flags);
PYTHON PyObject *PyObject_CallFunction(PyObject *callable, const char *format, ...);
PYTHON long PyList_Size(PyObject *list);
PYTHON PyObject *PyList_GetItem(PyObject *list, long index);
PYTHON char *PyBytes_AsString(PyObject *bytes);
PYTHON PyObject *PyErr_Occurred(void);
PYTHON void PyErr_Print(void);
PyStatus Py_InitializeFromConfig(const PyConfig *config);

/* -- in tritonserver ------------------------------------------------------------------------ */

/* Becomes the fork server: the stub's program with this library preloaded. */
static void become_the_fork_server(const char *library, const char *folder, int end) {
    char stub[PATH_MAX + 64], script[PATH_MAX + 64], room[ROOM + 1], number[16];
    snprintf(stub, sizeof stub, "%s/python/bin/triton_python_backend_stub", folder);
    snprintf(script, sizeof script, "%s/python/forkserver.py", folder);
    memset(room, ' ', ROOM);
    room[ROOM] = '\0';
    /* Of the server's open files the stubs get only its log, and no connection of a client. */
    if (dup2(end, 3) < 0) _exit(1);
    syscall(SYS_close_range, 4u, ~0u, 0u);
    fcntl(3, F_SETFD, 0);
    snprintf(number, sizeof number, "%d", 3);
    setenv(SOCKET_VARIABLE, number, 1);
    setenv("LD_PRELOAD", library, 1);
    execl(stub, NAME, script, room, (char *)NULL);
    _exit(1);
}

__attribute__((constructor)) static void start_the_fork_server(void) {
    Dl_info self;
    char folder[PATH_MAX], number[16];
    int ends[2];
    if (strcmp(program_invocation_short_name, "tritonserver") != 0) return;
    if (dladdr(&start_the_fork_server, &self) == 0) return;
    snprintf(folder, sizeof folder, "%s", self.dli_fname);
    char *slash = strrchr(folder, '/');
    if (slash == NULL) return;
    *slash = '\0';
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return;
    pid_t server = getpid(), child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != server) _exit(1); /* the server ended before the line above */
        become_the_fork_server(self.dli_fname, folder, ends[1]);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return;
    }
    snprintf(number, sizeof number, "%d", ends[0]);
    setenv(SOCKET_VARIABLE, number, 1);
}

/* -- in the fork server, and in its copies ---------------------------------------------------- */

typedef int Main(int, char **, char **);
static Main *stub_main;
static int python_is_started; /* set in a copy, for the stub's own start of Python */

static void fail(const char *what) {
    fprintf(stderr, "The fork server of the Python backend has ended: %s\n", what);
    if (PyErr_Occurred()) PyErr_Print();
    _exit(1);
}

/* Starts Python in the way of pybind11's scoped_interpreter, which the stub uses. */
static void start_python(void) {
    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.isolated = 0;
    config.use_environment = 1;
    config.install_signal_handlers = 1;
    PyStatus status = PyConfig_SetBytesArgv(&config, 0, NULL);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) fail(status.message);
}

/* Runs forkserver.py; returns in a copy only, with the command line of its request. */
static PyObject *serve(char *script, int requests) {
    FILE *file = fopen(script, "re");
    if (file == NULL) fail("forkserver.py is missing");
    PyObject *names = PyDict_New();
    if (names == NULL) fail("no memory");
    PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins());
    PyObject *ran = PyRun_FileExFlags(file, script, Py_file_input, names, names, 1, NULL);
    if (ran == NULL) fail("forkserver.py raised an exception");
    const char *folder = dirname(script);
    PyObject *function = PyDict_GetItemString(names, "serve");
    PyObject *words = function ? PyObject_CallFunction(function, "si", folder, requests) : NULL;
    if (words == NULL) fail("forkserver.py raised an exception");
    return words;
}

/* Shows the copy's command line in place of the fork server's, as setproctitle does: the words with
   spaces between them. The last byte makes the kernel show the first string only. */
static void show(char **argv, int argc, char **words, int count) {
    char *at = argv[0], *end = argv[argc - 1] + strlen(argv[argc - 1]);
    memset(at, 0, (size_t)(end - at));
    for (int i = 0; i < count; i++) {
        size_t left = (size_t)(end - at), length = strlen(words[i]) + 1;
        if (length >= left) break;
        at += snprintf(at, left, "%s%s", i ? " " : "", words[i]);
    }
    *end = 'x';
    prctl(PR_SET_NAME, "triton_python_b"); /* the stub's own name, cut off as the kernel does it */
}

static int in_place_of_main(int argc, char **argv, char **environment) {
    int requests = atoi(getenv(SOCKET_VARIABLE));
    unsetenv(SOCKET_VARIABLE);
    unsetenv("LD_PRELOAD");
    prctl(PR_SET_NAME, "forkserver");
    start_python();
    PyObject *words = serve(argv[1], requests);
    int count = (int)PyList_Size(words);
    char **arguments = calloc((size_t)count + 1, sizeof *arguments);
    if (arguments == NULL) fail("no memory");
    for (int i = 0; i < count; i++) {
        const char *word = PyBytes_AsString(PyList_GetItem(words, i));
        if (word == NULL || (arguments[i] = strdup(word)) == NULL) fail("a bad request");
    }
    show(argv, argc, arguments, count);
    python_is_started = 1;
    int status = stub_main(count, arguments, environment);
    /* Not exit(): destructors of torch and others would run and change memory that is shared with
       the fork server, and so copy it. Python has already run its own exit functions. */
    fflush(NULL);
    _exit(status);
}

int Py_IsInitialized(void) {
    int (*real)(void);
    *(void **)&real = dlsym(RTLD_NEXT, "Py_IsInitialized");
    return python_is_started ? 0 : real();
}

PyStatus Py_InitializeFromConfig(const PyConfig *config) {
    if (python_is_started) {
        python_is_started = 0; /* from here on Py_IsInitialized gives its real answer */
        return PyStatus_Ok();
    }
    PyStatus (*real)(const PyConfig *);
    *(void **)&real = dlsym(RTLD_NEXT, "Py_InitializeFromConfig");
    return real(config);
}

int __libc_start_main(Main *program, int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end) {
    int (*real)(Main *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "__libc_start_main");
    if (argc == 3 && strcmp(argv[0], NAME) == 0 && getenv(SOCKET_VARIABLE) != NULL) {
        stub_main = program;
        program = in_place_of_main;
    }
    return real(program, argc, argv, init, fini, rtld_fini, stack_end);
}
