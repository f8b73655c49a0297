/* A server that crashes ends.

   At SIGSEGV and SIGABRT tritonserver writes a stack trace into its log, and then ends by that signal
   (ErrorSignalHandler in src/main.cc). To make the trace it allocates memory. Where an allocation is
   what has failed (a damaged heap: `malloc(): unaligned fastbin chunk detected`), the thread that
   crashed still holds the heap's lock, and waits for itself. The server then answers nothing, and does
   not end: its guard cannot start it again.

   This library is preloaded, and its function `signal` puts an alarm before the server's handlers of
   those two signals. Where the trace is not written after some seconds, the alarm ends the server by
   the signal that it has crashed with. All functions that handlers here call may be called in a handler
   (signal-safety(7)). */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#define PATIENCE 3 /* seconds; the trace takes some tenths of one */

typedef void Handler(int);
static Handler *of_server; /* it handles both signals */
static volatile sig_atomic_t crash;

static void end(int alarm) {
    (void)alarm;
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, crash);
    sigaction(crash, &usual, NULL);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL); /* the thread that has crashed blocks it */
    kill(getpid(), crash);
}

static void handle(int number) {
    if (crash == 0) {
        crash = number;
        const struct sigaction late = {.sa_handler = end};
        sigaction(SIGALRM, &late, NULL);
        alarm(PATIENCE);
    }
    of_server(number);
}

Handler *signal(int number, Handler *handler) {
    static Handler *(*libc)(int, Handler *);
    if (libc == NULL) *(void **)&libc = dlsym(RTLD_NEXT, "signal");
    const int crashes = number == SIGSEGV || number == SIGABRT;
    if (!crashes || handler == SIG_DFL || handler == SIG_IGN) return libc(number, handler);
    of_server = handler;
    return libc(number, handle);
}
