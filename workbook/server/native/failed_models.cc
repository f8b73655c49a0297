/* A model that fails does not end the server.

   Triton 24.10 has four faults: a model that cannot be loaded, crashes or answers late sometimes ends
   the whole server, or makes it wait for ever. This library is preloaded into tritonserver, and
   replaces the functions of libc and libstdc++ in which the faults show.

   1. An instance cannot be initialised, or its warm-up fails. Triton starts a thread for each
   instance. The loading thread asks it to initialise the instance, and waits for a std::future. The
   instance's thread sets the std::promise, and then writes the instance into its list
   (TritonBackendThread::BackendThread). After a failure the loading thread removes the instance at
   once, and for that it reads the list's last entry (StopBackendThread). If the instance's thread is
   interrupted between its two steps, the list is still empty. The loading thread then reads address
   0x1f8, and the server ends with SIGSEGV. This interruption is frequent: a thread that wakes another
   often loses the processor to it. The remedy here: the woken thread continues only when the thread
   that woke it has reached its next wait (pthread_cond_wait) or has ended, at the latest after a
   second. The instance's thread waits only after it has written its list. The server's core waits for
   futures only when it loads and unloads. The Python backend also waits for futures, for the answers
   to BLS requests: those waits are not delayed.

   2. A stub dies while it holds a lock. The mutexes in the memory that the server shares with a stub
   are robust: if the owner dies, the next thread that asks for the lock gets it, with the status
   EOWNERDEAD (pthread_mutexattr_setrobust(3)). The backend's library, boost, treats this status as an
   error and throws an exception, which nobody catches. The remedy here: the lock is declared usable.
   It protects only that stub's data: a flag, its queues of messages, its list of free memory. The
   server reads only the part that shows it that the stub has ended.

   3. A stub dies while it reads the model's file (os._exit, a crash in a native library, no memory
   left). The server waits for its answer to auto_complete_config with sem_wait, without a limit: the
   load hangs, and the server cannot end. The remedy here: that wait ends when the stub has ended, with
   the exception that the caller expects (StubLauncher::Launch catches it, and the load fails).

   4. A stub does nothing for a second while a request waits for its answer: it is stopped (SIGSTOP),
   or gets no processor time on a crowded machine. A thread of each stub sets a flag in the shared
   memory several times a second. While the server waits for an answer, it clears that flag every
   second. If the flag is still cleared a second later, the server gives the stub up
   (ModelInstanceState::ReceiveMessageFromStub): the request gets an error, and its memory is freed.
   The stub answers nevertheless when it continues. The server then uses that answer for the next
   request, or reads memory that now has another content, and ends with SIGSEGV. The remedy here: this
   wait (sem_timedwait), and the waits for the flag's lock, end when the stub has answered or has
   ended, and not after a time. revive.cc knows which stub executes the requests of a thread. */

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>

#include "next.h"

/* autocomplete.c: the stub for auto-completion that this thread has started, or 0. */
extern "C" int completing_child();

/* Whether a child of this process has ended, and how. It is not waited for: that is its parent's to
   do. revive.cc uses it, too. */
extern "C" bool workbook_has_ended(int child, siginfo_t *how) {
    const int failed = waitid(P_PID, child, how, WEXITED | WNOHANG | WNOWAIT);
    return failed != 0 || how->si_pid == child;
}

/* An exception is caught by the name of its type. This is the name, and `what` the one function,
   that Triton's Python backend uses of its own type. */
namespace triton { namespace backend { namespace python {
struct PythonBackendException : std::exception {
    const char *what() const noexcept override { return "Stub process is not healthy."; }
};
}}}  // namespace triton::backend::python

namespace {

constexpr int FUTURES = 256; /* in the table; if two share a place, one loses the extra wait */
constexpr long STEP_NS = 100'000;
constexpr int STEPS = 10'000; /* of STEP_NS: a second */
constexpr long LOOK_NS = 100'000'000; /* between two looks at a stub that reads its model's file */

/* A future that was set: its address, and the thread that has set it; 0 once that thread waits. */
struct {
    std::atomic<uintptr_t> address;
    std::atomic<pid_t> setter;
} futures[FUTURES];

/* The place in the table of the future that this thread has set last, while it has not waited. */
thread_local int set_last = -1;

int place(const unsigned *future) { return (reinterpret_cast<uintptr_t>(future) >> 4) % FUTURES; }

/* This thread waits now: the threads that it has woken may continue. */
void waits() {
    if (set_last < 0) return;
    pid_t self = gettid();
    futures[set_last].setter.compare_exchange_strong(self, 0);
    set_last = -1;
}

/* The status of a call that gave a lock to its caller, for a caller that knows only success. */
int given(pthread_mutex_t *mutex, int status) {
    return status == EOWNERDEAD ? pthread_mutex_consistent(mutex) : status;
}

bool has_ended(int child) {
    siginfo_t how = {};
    return workbook_has_ended(child, &how);
}

/* A second from now. */
timespec a_second_later() {
    timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    return until;
}

/* The stub whose answer this thread waits for, while it executes requests; else 0. */
thread_local int serving = 0;

/* Calls `wanted` with each child of this thread until it accepts one. Returns that child, or 0. */
template <typename Wanted>
int child_of_this_thread(Wanted wanted) {
    FILE *children = fopen("/proc/thread-self/children", "re");
    int pid, found = 0;
    if (children == nullptr) return 0;
    while (found == 0 && fscanf(children, "%d", &pid) == 1)
        if (wanted(pid)) found = pid;
    fclose(children);
    return found;
}

/* Whether the stub that this thread waits for lives. A thread that loads a model has started it. (The
   main thread's child is the fork server, but the main thread waits for no stub.) */
bool its_stub_lives() {
    if (serving != 0) return !has_ended(serving);
    return child_of_this_thread([](int child) { return !has_ended(child); }) != 0;
}

/* Whether a wait that has failed must be repeated: its time was up, and the stub lives. */
bool goes_on(int error) {
    const int before = errno; /* the callers look at it */
    const bool lives = error == ETIMEDOUT && its_stub_lives();
    errno = before;
    return lives;
}

/* Whether the code at this address belongs to the Python backend, or to a library that wraps it. */
bool is_of_python_backend(void *code) {
    Dl_info found;
    return dladdr(code, &found) != 0 && strstr(found.dli_fname, "libtriton_python") != nullptr;
}

}  // namespace

/* The names are those of std::promise's and std::future's private functions since GCC 5. */
#define NOTIFY_ALL _ZNSt28__atomic_futex_unsigned_base19_M_futex_notify_allEPj
#define WAIT_UNTIL                                                                            \
    _ZNSt28__atomic_futex_unsigned_base19_M_futex_wait_untilEPjjbNSt6chrono8durationIlSt5ratio\
ILl1ELl1EEEENS2_IlS3_ILl1ELl1000000000EEEE
#define TEXT(name) TEXT_(name)
#define TEXT_(name) #name

extern "C" {

/* revive.cc: the stub of this name that this thread has started, or 0. The second-last word on a
   stub's command line is its instance's name. */
int workbook_stub_named(const char *name) {
    return child_of_this_thread([name](int child) {
        char file[64], line[32768];
        snprintf(file, sizeof file, "/proc/%d/cmdline", child);
        FILE *command = fopen(file, "re");
        if (command == nullptr) return false;
        size_t size = fread(line, 1, sizeof line, command);
        fclose(command);
        for (int words = 0; words < 2; words++) { /* back to the start of the last, then of NAME */
            if (size == 0) return false;
            line[--size] = '\0';
            while (size > 0 && line[size - 1] != '\0') size--;
        }
        return strcmp(line + size, name) == 0;
    });
}

/* revive.cc: this thread now waits for answers of this stub; 0 when it has them. */
void workbook_serves(int stub) { serving = stub; }

/* revive.cc: that stub, or 0. */
int workbook_served() { return serving; }

void NOTIFY_ALL(unsigned *future) { /* static: it gets no object */
    static const auto real = next<decltype(&NOTIFY_ALL)>(TEXT(NOTIFY_ALL));
    set_last = place(future);
    futures[set_last].setter = gettid();
    futures[set_last].address = reinterpret_cast<uintptr_t>(future);
    real(future);
}

bool WAIT_UNTIL(void *self, unsigned *future, unsigned value, bool has_end, int64_t s, int64_t ns) {
    static const auto real = next<decltype(&WAIT_UNTIL)>(TEXT(WAIT_UNTIL));
    const bool ready = real(self, future, value, has_end, s, ns);
    if (is_of_python_backend(__builtin_return_address(0))) return ready;
    const int at = place(future);
    const timespec step = {0, STEP_NS};
    for (int steps = 0; ready && steps < STEPS; steps++) {
        if (futures[at].address != reinterpret_cast<uintptr_t>(future)) break;
        const pid_t setter = futures[at].setter;
        if (setter == 0 || tgkill(getpid(), setter, 0) != 0) break; /* it waits, or has ended */
        nanosleep(&step, nullptr);
    }
    return ready;
}

int pthread_mutex_lock(pthread_mutex_t *mutex) noexcept {
    static const auto real = next<int (*)(pthread_mutex_t *)>("pthread_mutex_lock");
    return given(mutex, real(mutex));
}

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const timespec *until) noexcept {
    static const auto real =
        next<int (*)(pthread_mutex_t *, const timespec *)>("pthread_mutex_timedlock");
    int status = given(mutex, real(mutex, until));
    while (goes_on(status)) {
        const timespec later = a_second_later();
        status = given(mutex, real(mutex, &later));
    }
    return status;
}

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
    /* glibc has another function of this name, for programs from before 2003. */
    static const auto real =
        next<int (*)(pthread_cond_t *, pthread_mutex_t *)>("pthread_cond_wait", "GLIBC_2.3.2");
    waits();
    return given(mutex, real(condition, mutex));
}

int sem_wait(sem_t *semaphore) {
    static const auto real = next<int (*)(sem_t *)>("sem_wait");
    if (sem_trywait(semaphore) == 0) return 0;
    static const auto timed = next<int (*)(sem_t *, const timespec *)>("sem_timedwait");
    const int stub = completing_child();
    while (stub != 0) {
        timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_NS;
        until.tv_sec += until.tv_nsec / 1'000'000'000;
        until.tv_nsec %= 1'000'000'000;
        const bool ended = has_ended(stub); /* before the wait: it may answer, and then end */
        if (timed(semaphore, &until) == 0) return 0;
        if (ended) throw triton::backend::python::PythonBackendException();
    }
    return real(semaphore);
}

int sem_timedwait(sem_t *semaphore, const timespec *until) {
    static const auto real = next<int (*)(sem_t *, const timespec *)>("sem_timedwait");
    int status = real(semaphore, until);
    while (status != 0 && goes_on(errno)) {
        const timespec later = a_second_later();
        status = real(semaphore, &later);
    }
    return status;
}

}  // extern "C"
