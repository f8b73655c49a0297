/* A model that cannot be loaded does not end the server, and does not keep it waiting for ever.

   Triton 24.10 has two such faults. This library is preloaded into tritonserver, and replaces the two
   functions in which they show.

   1. An instance cannot be initialised, or its warm-up fails. Triton starts a thread for each
   instance. The loading thread asks it to initialise the instance, and waits for a std::future. The
   instance's thread sets the std::promise, and then writes the instance into its list
   (TritonBackendThread::BackendThread). After a failure the loading thread removes the instance at
   once, and for that it reads the list's last entry (StopBackendThread). If the instance's thread is
   interrupted between its two steps, the list is still empty, and the server ends with SIGSEGV. On two
   busy cores one failed load in ten did this. The remedy here: the loading thread is woken five
   milliseconds later. The server's core waits for futures only when it loads and unloads.

   2. A model's process (the stub) ends while it reads the model's file (os._exit, a crash in a native
   library, no memory left). The server waits for its answer to auto_complete_config with sem_wait,
   without a limit: the load hangs, and the server cannot end. The remedy here: that wait ends when the
   stub has ended, with the exception that the caller expects (StubLauncher::Launch catches it, and the
   load fails). */

#include <dlfcn.h>
#include <semaphore.h>
#include <sys/wait.h>

#include <chrono>
#include <cstring>
#include <ctime>
#include <exception>
#include <thread>

#include "next.h"

/* autocomplete.c: the stub for auto-completion that this thread has started, or 0. */
extern "C" int completing_child();

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

/* Whether a child of this process has ended. It is not waited for: that is the Python backend's to
   do. */
bool has_ended(int child) {
    siginfo_t how = {};
    return waitid(P_PID, child, &how, WEXITED | WNOHANG | WNOWAIT) != 0 || how.si_pid == child;
}

timespec next_look() {
    timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / 1'000'000'000;
    until.tv_nsec %= 1'000'000'000;
    return until;
}

/* Whether the code at this address belongs to the Python backend, or to a library that wraps it. */
bool is_of_python_backend(void *code) {
    Dl_info found;
    return dladdr(code, &found) != 0 && strstr(found.dli_fname, "libtriton_python") != nullptr;
}

}  // namespace

/* std::promise wakes the threads that wait for its std::future by this private function, since GCC 5. */
#define NOTIFY_ALL _ZNSt28__atomic_futex_unsigned_base19_M_futex_notify_allEPj
#define TEXT(name) TEXT_(name)
#define TEXT_(name) #name

extern "C" {

void NOTIFY_ALL(unsigned *future) { /* static: it gets no object */
    static const auto real = next<decltype(&NOTIFY_ALL)>(TEXT(NOTIFY_ALL));
    /* The Python backend sets promises for the answers to BLS requests: those are not delayed. */
    if (is_of_python_backend(__builtin_return_address(0))) return real(future);
    /* The address may be free by then. The kernel only looks who waits there. */
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
        const timespec until = next_look();
        const bool ended = has_ended(stub); /* before the wait: it may answer, and then end */
        if (timed(semaphore, &until) == 0) return 0;
        if (ended) throw triton::backend::python::PythonBackendException();
    }
    return real(semaphore);
}

}  // extern "C"
