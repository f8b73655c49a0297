/* A model whose process has ended is loaded again.

   Each instance of a Python-based model runs in a process of its own, the stub. If a stub ends
   unexpectedly (it is killed, memory is short, a native library crashes), Triton 24.10 keeps the
   model: its state is READY, every request fails, and a load changes nothing, because the model's
   folder has not changed. This library is preloaded into tritonserver. Four times a
   second it looks at the stubs that serve. When one has ended:

   - A line in the log says that the stub has ended, and how.
   - The processes that the stub had started are killed, by its process group (start_stub.c and
     forkserver.py give each stub a group of its own).
   - Requests that still wait for answers of that stub (a decoupled model) get an error. Those that
     it was executing get an error from the Python backend, within a second.
   - The folders of the model's versions get a new modification time, and the model is loaded. The
     server then treats it as a changed model: it starts a new one beside the old, and removes the
     old one. If other instances of the model live, they serve until then. In poll mode the server
     loads it at its next look at the repository; with model control "none" it cannot be loaded, and
     the log says so.
   - A request that arrives before the new model is ready is refused with an error that says why
     (fastpath.cc). The request is not passed to the dead stub: Triton could not remove the old model
     after that.

   A model that ends four times within a minute is unloaded, so that it does not say READY; so is one
   that cannot be loaded again.

   Nothing is loaded again in a server whose models run in sandboxes (jail.py): there the grader
   judges a model, and a model that crashes has failed. */

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "next.h"

using Error = struct TRITONSERVER_Error;
using Clock = std::chrono::steady_clock;

extern "C" {
Error *TRITONSERVER_ErrorNew(int code, const char *message);
void TRITONSERVER_ErrorDelete(Error *);
const char *TRITONSERVER_ErrorMessage(Error *);
Error *TRITONSERVER_LogMessage(int level, const char *file, int line, const char *message);
Error *TRITONSERVER_ServerLoadModel(void *server, const char *model);
Error *TRITONSERVER_ServerUnloadModel(void *server, const char *model);
Error *TRITONBACKEND_ModelInstanceName(void *instance, const char **name);
Error *TRITONBACKEND_ModelInstanceModel(void *instance, void **model);
Error *TRITONBACKEND_ModelName(void *model, const char **name);
Error *TRITONBACKEND_ModelRepository(void *model, int *kind, const char **folder);

/* failed_models.cc */
int workbook_stub_named(const char *name);
void workbook_serves(int stub);
int workbook_served();
bool workbook_has_ended(int child, siginfo_t *how);
}

namespace {

constexpr auto LOOK = std::chrono::milliseconds(250);   /* between two looks at the stubs */
constexpr auto GATHER = std::chrono::milliseconds(300); /* for answers that are on their way */
constexpr int TRIES = 10;                               /* of GATHER */
constexpr auto MINUTE = std::chrono::seconds(60);
constexpr size_t TIMES = 3;                             /* a model is loaded again in a minute */
constexpr int INFO = 0, WARN = 1, ERROR = 2;            /* TRITONSERVER_LogLevel */
constexpr int UNAVAILABLE = 4;                          /* TRITONSERVER_Error_Code */
constexpr int NONE = 0, POLL = 1;                       /* TRITONSERVER_ModelControlMode */
constexpr uint32_t FINAL = 1;                           /* TRITONSERVER_RESPONSE_COMPLETE_FINAL */

/* An instance of a Python-based model, by Triton's handle. */
struct Instance {
    int stub;           /* the server's child: the stub, or start_stub, which ends as it ends */
    void *model;        /* Triton's handle of the loaded model */
    std::string name;   /* the model's */
    std::string folder; /* the model's, in the repository */
    bool replaced;      /* a new model is on its way */
};

std::mutex lock; /* guards what follows */
std::unordered_map<void *, Instance> instances;
std::map<std::string, std::vector<Clock::time_point>> revived; /* by model: when */
std::map<std::string, int> unloads; /* by model: how often it was unloaded */
void *server = nullptr;
int control = NONE;
bool stops = false;
int under_way = 0; /* loads */

/* A request of a decoupled model whose last answer is not sent yet, by its response factory. */
struct OpenAnswers {
    int stub;
    bool executed; /* until then the backend may answer without the factory */
};
std::mutex answers_lock; /* guards the next two */
std::unordered_map<void *, OpenAnswers> open_answers;
std::unordered_map<void *, void *> made_by; /* the factory of a response that is being made */
std::atomic<size_t> open_count{0};

/* Of the requests that this thread executes: those with their factories, and those for which the
   backend has made an answer without. It does for each request of a model that is not decoupled, and
   where a request cannot be executed. */
thread_local std::vector<std::pair<void *, void *>> with_factory;
thread_local std::vector<void *> answered;

void log(int level, const std::string &words) {
    if (Error *error = TRITONSERVER_LogMessage(level, __FILE__, __LINE__, words.c_str()))
        TRITONSERVER_ErrorDelete(error);
}

/* The message of an error, which is deleted; "" without an error. */
std::string words_of(Error *error) {
    if (error == nullptr) return "";
    std::string words = TRITONSERVER_ErrorMessage(error);
    TRITONSERVER_ErrorDelete(error);
    return words;
}

/* How a process has ended: "signal 9 (SIGKILL)", "exit status 1". */
std::string how_it_ended(const siginfo_t &state) {
    const std::string number = std::to_string(state.si_status);
    if (state.si_code == CLD_EXITED) return "exit status " + number;
    const char *name = sigabbrev_np(state.si_status);
    return "signal " + number + (name == nullptr ? "" : std::string(" (SIG") + name + ")");
}

/* Kills what a stub has started and left. The group's number is the stub's process id, which is in
   start_stub's name ("stub 123") where the stub is a copy of the fork server. */
void kill_its_group(int stub) {
    char file[64];
    int copy = 0;
    snprintf(file, sizeof file, "/proc/%d/comm", stub);
    if (FILE *name = fopen(file, "re")) {
        if (fscanf(name, "stub %d", &copy) != 1) copy = 0;
        fclose(name);
    }
    const pid_t group = copy != 0 ? copy : stub;
    if (group > 1 && group != getpgrp()) kill(-group, SIGKILL);
}

/* No more answers are expected from this factory. Call it with answers_lock. */
void forget(void *factory) {
    open_answers.erase(factory);
    open_count = open_answers.size();
}

/* Deletes a factory that the backend has left: as long as it is there, Triton cannot remove the model. */
void remove(void *factory) {
    static const auto real = next<Error *(*)(void *)>("TRITONBACKEND_ResponseFactoryDelete");
    forget(factory);
    words_of(real(factory));
}

/* Answers all requests that wait for this stub with an error. Returns whether all are answered: for
   requests that are being executed, the backend itself notices that the stub has ended. */
bool end_its_answers(int stub, const std::string &words) {
    static const auto make = next<Error *(*)(void **, void *)>("TRITONBACKEND_ResponseNewFromFactory");
    static const auto send = next<Error *(*)(void *, uint32_t, Error *)>("TRITONBACKEND_ResponseSend");
    const std::lock_guard<std::mutex> hold(answers_lock);
    std::vector<void *> ended;
    bool all = true;
    for (const auto &[factory, answers] : open_answers) {
        if (answers.stub != stub) continue;
        if (answers.executed)
            ended.push_back(factory);
        else
            all = false;
    }
    for (void *factory : ended) {
        void *response = nullptr;
        if (words_of(make(&response, factory)).empty()) {
            Error *error = TRITONSERVER_ErrorNew(UNAVAILABLE, words.c_str());
            words_of(send(response, FINAL, error));
            TRITONSERVER_ErrorDelete(error);
        }
        remove(factory);
    }
    return all;
}

/* Whether a model may be loaded again now; if so, it counts. Call it with the lock. */
bool may_come_back(const std::string &model) {
    auto &times = revived[model];
    const auto now = Clock::now();
    while (!times.empty() && now - times.front() > MINUTE) times.erase(times.begin());
    if (times.size() >= TIMES) return false;
    times.push_back(now);
    return true;
}

void unload(const std::string &model, const std::string &why) {
    log(ERROR, "Model '" + model + "' is unloaded: " + why);
    words_of(TRITONSERVER_ServerUnloadModel(server, model.c_str()));
}

/* Gives the folders of a model's versions a new modification time. (With that of the model's folder
   alone, Triton keeps its instances.) Returns whether it could. */
bool touch(const std::string &folder) {
    bool done = false;
    DIR *entries = opendir(folder.c_str());
    if (entries == nullptr) return false;
    while (const dirent *entry = readdir(entries))
        if (strspn(entry->d_name, "0123456789") == strlen(entry->d_name))
            done = utimensat(dirfd(entries), entry->d_name, nullptr, 0) == 0 || done;
    closedir(entries);
    return done;
}

/* How often a model has been unloaded. */
int unloads_of(const std::string &model) {
    const std::lock_guard<std::mutex> hold(lock);
    return unloads[model];
}

/* Loads a model again whose stub has ended, if nobody unloads it meanwhile. */
void load_again(const Instance &ended, const std::string &how, int unloads_before) {
    const std::string &model = ended.name;
    const std::string what = "The process of model '" + model + "' has ended: " + how;
    kill_its_group(ended.stub);
    bool again;
    {
        const std::lock_guard<std::mutex> hold(lock);
        again = control != NONE && may_come_back(model);
    }
    log(WARN, what + (again ? ". The model is loaded again." : "."));
    int tries = 0;
    do std::this_thread::sleep_for(GATHER);
    while (!end_its_answers(ended.stub, what + ".") && ++tries < TRIES);
    if (unloads_of(model) != unloads_before) {
        log(INFO, "Model '" + model + "' has been unloaded: it is not loaded again.");
    } else if (control == NONE) {
        log(ERROR, "With model control mode \"none\" model '" + model + "' cannot be loaded again: "
            "start the server again.");
    } else if (!again) {
        unload(model, "its process has ended " + std::to_string(TIMES + 1) + " times in a minute.");
    } else {
        const bool changed = touch(ended.folder);
        if (control != POLL) {
            if (!changed) words_of(TRITONSERVER_ServerUnloadModel(server, model.c_str()));
            const std::string failed = words_of(TRITONSERVER_ServerLoadModel(server, model.c_str()));
            if (!failed.empty()) unload(model, "it could not be loaded again: " + failed);
        }
    }
    const std::lock_guard<std::mutex> hold(lock);
    under_way--;
}

/* One look at all stubs. */
void look() {
    const std::lock_guard<std::mutex> hold(lock);
    if (stops || server == nullptr) return;
    for (auto &[handle, instance] : instances) {
        siginfo_t how = {};
        if (instance.replaced || !workbook_has_ended(instance.stub, &how)) continue;
        for (auto &[other, of_the_model] : instances)
            if (of_the_model.model == instance.model) of_the_model.replaced = true;
        under_way++;
        std::thread(load_again, instance, how_it_ended(how), unloads[instance.name]).detach();
    }
}

void watch() {
    for (;; std::this_thread::sleep_for(LOOK)) look();
}

}  // namespace

extern "C" {

// -- fastpath.cc calls ------------------------------------------------------------------------

/* This thread has initialised an instance, and started its stub. */
void workbook_started(void *instance) {
    void *model;
    int kind;
    const char *name, *model_name, *folder;
    if (!words_of(TRITONBACKEND_ModelInstanceName(instance, &name)).empty() ||
        !words_of(TRITONBACKEND_ModelInstanceModel(instance, &model)).empty() ||
        !words_of(TRITONBACKEND_ModelName(model, &model_name)).empty() ||
        !words_of(TRITONBACKEND_ModelRepository(model, &kind, &folder)).empty())
        return;
    const int stub = workbook_stub_named(name);
    if (stub == 0) return;
    const std::lock_guard<std::mutex> hold(lock);
    instances[instance] = {stub, model, model_name, folder, false};
    static const bool sandboxes = getenv("WORKBOOK_JAIL") != nullptr;
    static const bool once = [] {
        if (!sandboxes) std::thread(watch).detach();
        return true;
    }();
    (void)once;
}

/* An instance is about to be finalised. Returns its stub, or 0. */
int workbook_ends(void *instance) {
    const std::lock_guard<std::mutex> hold(lock);
    const auto found = instances.find(instance);
    if (found == instances.end()) return 0;
    const int stub = found->second.stub;
    instances.erase(found);
    return stub;
}

/* The instance of this stub has been finalised. The backend does not wait for a stub that had ended
   before, so that it would stay in the table of processes. */
void workbook_ended(int stub) {
    if (stub != 0) waitpid(stub, nullptr, WNOHANG);
}

/* This thread is about to execute requests. Returns 1, and the words of an error for them, where the
   instance's stub has ended; else 0. */
int workbook_executes(void *instance, char *words, size_t size) {
    std::string name;
    {
        const std::lock_guard<std::mutex> hold(lock);
        const auto found = instances.find(instance);
        if (found == instances.end()) return 0;
        siginfo_t how = {};
        if (!workbook_has_ended(found->second.stub, &how)) {
            workbook_serves(found->second.stub);
            return 0;
        }
        name = found->second.name;
    }
    snprintf(words, size, "the process of model '%s' has ended%s", name.c_str(),
             control == NONE ? "" : ", and the server is loading the model again");
    return 1;
}

/* It has executed them. */
void workbook_executed() {
    const int stub = workbook_served();
    workbook_serves(0);
    if (!with_factory.empty() && open_count != 0) {
        siginfo_t how = {};
        const bool ended = workbook_has_ended(stub, &how);
        const std::lock_guard<std::mutex> hold(answers_lock);
        for (const auto &[request, factory] : with_factory) {
            const auto found = open_answers.find(factory);
            if (found == open_answers.end()) continue;
            if (std::find(answered.begin(), answered.end(), request) == answered.end())
                found->second.executed = true;
            else if (ended)
                remove(factory);
            else
                forget(factory);
        }
    }
    with_factory.clear();
    answered.clear();
}

/* load_calls.c: a model has been unloaded. Its stubs end; none of them is missed. */
void workbook_unloaded(const char *model) {
    const std::lock_guard<std::mutex> hold(lock);
    unloads[model]++;
    for (auto &[handle, instance] : instances)
        if (instance.name == model) instance.replaced = true;
}

// -- the server calls -------------------------------------------------------------------------

Error *TRITONSERVER_ServerOptionsSetModelControlMode(void *options, int mode) {
    REAL(TRITONSERVER_ServerOptionsSetModelControlMode);
    control = mode;
    return real(options, mode);
}

Error *TRITONSERVER_ServerNew(void **made, void *options) {
    REAL(TRITONSERVER_ServerNew);
    Error *error = real(made, options);
    const std::lock_guard<std::mutex> hold(lock);
    if (error == nullptr) server = *made;
    return error;
}

Error *TRITONSERVER_ServerStop(void *stopped) {
    REAL(TRITONSERVER_ServerStop);
    for (int steps = 0; steps < 30; steps++) { /* three seconds for loads that are under way */
        {
            const std::lock_guard<std::mutex> hold(lock);
            stops = true;
            if (under_way == 0) break;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return real(stopped);
}

// -- the Python backend calls, for the answers of decoupled models ------------------------------

Error *TRITONBACKEND_ResponseFactoryNew(void **factory, void *request) {
    REAL(TRITONBACKEND_ResponseFactoryNew);
    Error *error = real(factory, request);
    const int stub = workbook_served();
    if (error != nullptr || stub == 0) return error;
    with_factory.emplace_back(request, *factory);
    const std::lock_guard<std::mutex> hold(answers_lock);
    open_answers[*factory] = {stub, false};
    open_count = open_answers.size();
    return nullptr;
}

Error *TRITONBACKEND_ResponseFactoryDelete(void *factory) {
    REAL(TRITONBACKEND_ResponseFactoryDelete);
    if (open_count != 0) {
        const std::lock_guard<std::mutex> hold(answers_lock);
        forget(factory);
    }
    return real(factory);
}

Error *TRITONBACKEND_ResponseFactorySendFlags(void *factory, uint32_t flags) {
    REAL(TRITONBACKEND_ResponseFactorySendFlags);
    if ((flags & FINAL) != 0 && open_count != 0) {
        const std::lock_guard<std::mutex> hold(answers_lock);
        forget(factory);
    }
    return real(factory, flags);
}

Error *TRITONBACKEND_ResponseNewFromFactory(void **response, void *factory) {
    REAL(TRITONBACKEND_ResponseNewFromFactory);
    Error *error = real(response, factory);
    if (error != nullptr || open_count == 0) return error;
    const std::lock_guard<std::mutex> hold(answers_lock);
    if (open_answers.count(factory) != 0) made_by[*response] = factory;
    return nullptr;
}

Error *TRITONBACKEND_ResponseNew(void **response, void *request) {
    REAL(TRITONBACKEND_ResponseNew);
    if (workbook_served() != 0) answered.push_back(request);
    return real(response, request);
}

Error *TRITONBACKEND_ResponseSend(void *response, uint32_t flags, Error *failed) {
    REAL(TRITONBACKEND_ResponseSend);
    if (open_count != 0) {
        const std::lock_guard<std::mutex> hold(answers_lock);
        const auto made = made_by.find(response);
        if (made != made_by.end()) {
            if ((flags & FINAL) != 0) forget(made->second);
            made_by.erase(made);
        }
    }
    return real(response, flags, failed);
}

}  // extern "C"
