/* Keeps the server running when a model fails.

   Triton 24.10 has three faults. If a model cannot be loaded, crashes or is late, the whole server
   may end, wait for ever, or give a wrong answer. This library is preloaded into tritonserver and
   replaces three functions of libc and libstdc++.

   1. An instance cannot be initialised, or its warm-up fails. Triton starts a thread for each
   instance. The loading thread asks it to initialise the instance, and waits for a std::future. The
   instance's thread sets the std::promise, and then writes the instance into its list
   (TritonBackendThread::BackendThread). After a failure the loading thread reads the list's last
   entry (StopBackendThread). If it is woken before the list is written, it reads the address 0x1f8,
   and the server ends with SIGSEGV. On two busy cores that happened in one of ten failed loads. So
   here the loading thread is woken some milliseconds later. The core waits for futures only while
   it loads and unloads.

   2. A stub dies while it reads the model's file (os._exit, a crash in a native library, no memory
   left). The server waits for its answer to auto_complete_config by sem_wait, without end: the load
   hangs, and the server cannot end, either. So here that wait ends when the stub has ended, by the
   exception that the caller expects (StubLauncher::Launch catches it; the load fails).

   3. A stub stands still for a second while a request waits for its answer: it is stopped
   (SIGSTOP), or gets no processor time on a crowded machine. The server then answers the request
   with an error and frees its memory (ModelInstanceState::ReceiveMessageFromStub). When the stub
   goes on, it still answers. The server takes that answer for the answer to the next request, or
   ends with SIGSEGV. So here the wait (sem_timedwait) has no time limit: it ends when the stub has
   answered or has ended. */

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

/* An exception is caught by the name of its type. This type has the name of the Python backend's
   own type, and `what`, the only function of it that the backend calls. */
namespace triton { namespace backend { namespace python {
struct PythonBackendException : std::exception {
    const char *what() const noexcept override { return "Stub process is not healthy."; }
};
}}}  // namespace triton::backend::python

namespace {

constexpr auto LATER = std::chrono::milliseconds(5);
constexpr long LOOK_NS = 100'000'000; /* between two looks at a stub that reads its model's file */

/* Whether a child of this process has ended. The Python backend waits for it, not this function. */
bool has_ended(int child) {
    siginfo_t how = {};
    return waitid(P_PID, child, &how, WEXITED | WNOHANG | WNOWAIT) != 0 || how.si_pid == child;
}

/* Whether the stub that this thread waits for still runs. (In a thread that loads a model, the stub
   is its child.) */
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

/* Whether code at this address belongs to the Python backend, or to the library in its place. */
bool is_of_python_backend(void *code) {
    Dl_info found;
    return dladdr(code, &found) != 0 && strstr(found.dli_fname, "libtriton_python") != nullptr;
}

}  // namespace

/* The private function by which std::promise wakes the threads that wait for it, since GCC 5. */
#define NOTIFY_ALL _ZNSt28__atomic_futex_unsigned_base19_M_futex_notify_allEPj
#define TEXT(name) TEXT_(name)
#define TEXT_(name) #name

extern "C" {

void NOTIFY_ALL(unsigned *future) { /* a static function: it has no `this` */
    static const auto real = next<decltype(&NOTIFY_ALL)>(TEXT(NOTIFY_ALL));
    /* The Python backend sets promises for answers to BLS requests. They must not be delayed. */
    if (is_of_python_backend(__builtin_return_address(0))) return real(future);
    /* If the future does not exist any more by then, the kernel finds no waiting thread. */
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
        const bool ended = has_ended(stub); /* before the wait: the stub may answer, and then end */
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
        const int error = errno; /* the callers read it */
        if (status == 0 || error != ETIMEDOUT || !its_stub_lives()) {
            errno = error;
            break;
        }
        later = from_now(LOOK_NS);
    } while (true);
    return status;
}

}  // extern "C"
