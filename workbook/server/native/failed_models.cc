/* A model that fails does not end the server.

   Triton 24.10 has three faults by which a model that cannot be loaded, crashes or is late ends the
   whole server, keeps it waiting for ever, or gets a wrong answer. This library is preloaded into
   tritonserver and replaces three functions of libc and libstdc++.

   1. An instance that cannot be initialised (also: whose warm-up fails). Triton starts a thread for
   each instance. The loading thread asks it to initialise the instance, and waits for a
   std::future. The instance's thread sets the std::promise, and then writes the instance into its
   list (TritonBackendThread::BackendThread). After a failure the loading thread reads the list's
   last entry (StopBackendThread). Where it is woken before the list is written, it reads the address
   0x1f8, and the server ends with SIGSEGV. On two busy cores that was one of ten failed loads. So
   here the loading thread is woken some milliseconds later. The core waits for futures only where it
   loads and unloads.

   2. A stub that dies while it reads the model's file (os._exit, a crash in a native library, no
   memory left). For its answer to auto_complete_config the server waits by sem_wait, without end:
   the load hangs, and so does the server's own end. So here that wait ends when the stub has ended,
   by the exception that the caller expects (StubLauncher::Launch catches it; the load fails).

   3. A stub that stands still for a second while a request waits for its answer: it is stopped
   (SIGSTOP), or gets no processor time on a crowded machine. The server then answers the request
   with an error and frees its memory (ModelInstanceState::ReceiveMessageFromStub). When the stub goes
   on, it answers all the same. The server takes that answer for the next request's, or ends with
   SIGSEGV. So here the wait (sem_timedwait) ends when the stub has answered or has ended, and not by
   the clock. */

#include <dlfcn.h>
#include <semaphore.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <thread>

#include "next.h"

/* autocomplete.c: the stub for auto-completion that this thread has started, or 0. */
extern "C" int completing_child();
/* revive.cc: the stub whose answer this thread waits for while it executes requests, or 0. */
extern "C" int workbook_served();

/* An exception is caught by the name of its type. This is the name, and `what` the one function,
   that Triton's Python backend uses of its own type. */
namespace triton { namespace backend { namespace python {
struct PythonBackendException : std::exception {
    const char *what() const noexcept override { return "Stub process is not healthy."; }
};
}}}  // namespace triton::backend::python

namespace {

constexpr auto LATER = std::chrono::milliseconds(5);
constexpr long LOOK_NS = 100'000'000; /* between two looks at a stub that reads its model's file */

/* Whether a child of this process has ended. It is not waited for: that is the Python backend's. */
bool has_ended(int child) {
    siginfo_t how = {};
    return waitid(P_PID, child, &how, WEXITED | WNOHANG | WNOWAIT) != 0 || how.si_pid == child;
}

/* Whether the stub that this thread waits for lives. A thread that loads a model has started it. */
bool its_stub_lives() {
    if (const int stub = workbook_served()) return !has_ended(stub);
    FILE *children = fopen("/proc/thread-self/children", "re");
    int pid;
    bool lives = false;
    if (children == nullptr) return false;
    while (!lives && fscanf(children, "%d", &pid) == 1) lives = !has_ended(pid);
    fclose(children);
    return lives;
}

timespec from_now(long ns) {
    timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ns;
    until.tv_sec += until.tv_nsec / 1'000'000'000;
    until.tv_nsec %= 1'000'000'000;
    return until;
}

/* Whether code at this address is the Python backend's, or a library's that stands in front of it. */
bool is_of_python_backend(void *code) {
    Dl_info found;
    return dladdr(code, &found) != 0 && strstr(found.dli_fname, "libtriton_python") != nullptr;
}

}  // namespace

/* std::promise wakes who waits for its std::future by this private function, since GCC 5. */
#define NOTIFY_ALL _ZNSt28__atomic_futex_unsigned_base19_M_futex_notify_allEPj
#define TEXT(name) TEXT_(name)
#define TEXT_(name) #name

extern "C" {

void NOTIFY_ALL(unsigned *future) { /* static: it gets no object */
    static const auto real = next<decltype(&NOTIFY_ALL)>(TEXT(NOTIFY_ALL));
    /* The Python backend sets promises for answers to BLS requests: those are not to be late. */
    if (is_of_python_backend(__builtin_return_address(0))) return real(future);
    /* Where the future is gone by then, the kernel finds nobody that waits there. */
    std::thread([future] {
        std::this_thread::sleep_for(LATER);
        real(future);
    }).detach();
}

int sem_wait(sem_t *semaphore) {
    static const auto real = next<int (*)(sem_t *)>("sem_wait");
    static const auto timed = next<int (*)(sem_t *, const timespec *)>("sem_timedwait");
    if (sem_trywait(semaphore) == 0) return 0;
    const int stub = completing_child();
    while (stub != 0) {
        const timespec until = from_now(LOOK_NS);
        const bool ended = has_ended(stub); /* before the wait: it may answer, and then end */
        if (timed(semaphore, &until) == 0) return 0;
        if (ended) throw triton::backend::python::PythonBackendException();
    }
    return real(semaphore);
}

int sem_timedwait(sem_t *semaphore, const timespec *until) {
    static const auto real = next<int (*)(sem_t *, const timespec *)>("sem_timedwait");
    timespec later = *until;
    int status;
    do {
        status = real(semaphore, &later);
        const int error = errno; /* the callers look at it */
        if (status == 0 || error != ETIMEDOUT || !its_stub_lives()) {
            errno = error;
            break;
        }
        later = from_now(LOOK_NS);
    } while (true);
    return status;
}

}  // extern "C"
