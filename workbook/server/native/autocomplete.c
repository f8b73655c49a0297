/* Ends the auto-completion of a Python model's configuration without its second of waiting.

   Triton 24.10's Python backend starts a process (a stub) only for `auto_complete_config`. When it
   has the stub's answer it clears a flag in shared memory, calls sleep(1), checks whether the stub
   has set the flag again, and ends the stub: by a message if the flag is set, by SIGKILL if not.
   Every load of a Python-based model waits for that second. This stub may end in either way: it has
   made no instance of the model, so no `finalize` is skipped.

   This library is preloaded into tritonserver (LD_PRELOAD) and replaces sleep(). It ends that one
   sleep as soon as every thread of the stub sleeps. By then the stub has written its answer and
   holds no lock in the memory that it shares with the server. (If the stub were killed while it
   holds such a lock, the server would fail with it: the next to ask for the lock gets EOWNERDEAD,
   and throws.) While the stub works, the sleep lasts its full second, as without this library.

   How the sleep is recognised: the calling thread has a child process that is a stub for
   auto-completion. That stub's command line has the model's name; a stub that serves requests has
   its instance's name in that place. (If the stub is a copy of the fork server, the child is
   start_stub, with the same command line after its own name; its name has the copy's process id.)
   Every other sleep is passed on to libc. This one is passed on, too, if the kernel does not list
   the children of a thread. See proc(5). */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_NS 2000000 /* between two looks at a stub; three in a row must find it asleep */

/* Takes this library out of LD_PRELOAD, so that stubs, and programs of models, do not load it. */
__attribute__((constructor)) static void leave_the_environment(void) {
    Dl_info self;
    const char *list = getenv("LD_PRELOAD");
    if (list == NULL || dladdr(&leave_the_environment, &self) == 0) return;
    size_t length = strlen(self.dli_fname);
    if (strncmp(list, self.dli_fname, length) != 0) return;
    if (list[length] == '\0')
        unsetenv("LD_PRELOAD");
    else if (list[length] == ':') {
        char *rest = strdup(list + length + 1);
        if (rest != NULL) setenv("LD_PRELOAD", rest, 1);
        free(rest);
    }
}

/* Whether a command line is the command line of a stub for auto-completion. Its arguments are
   .../MODEL/VERSION/FILE  …  NAME  LAST, where NAME is the same as MODEL. start_stub has the stub's
   path as its first argument. */
static int completes(const char *line, size_t size) {
    const char *words[32];
    size_t count = 0;
    for (size_t at = 0; at < size && count < 32; at += strlen(line + at) + 1)
        words[count++] = line + at;
    const size_t at = count > 4 && strstr(words[0], "start_stub") != NULL;
    if (count < 4 || strstr(words[at], "triton_python_backend_stub") == NULL) return 0;
    const char *path = words[at + 1], *end = path + strlen(path);
    for (int parts = 0; parts < 2; parts++) {
        while (end > path && *end != '/') end--;
        if (end == path) return 0;
        if (parts == 0) end--;
    }
    const char *start = end;
    while (start > path && start[-1] != '/') start--;
    const char *name = words[count - 2];
    return strlen(name) == (size_t)(end - start) && strncmp(name, start, strlen(name)) == 0;
}

/* The stub for auto-completion that this thread has started, or 0. failed_models.cc uses it, too. */
__attribute__((visibility("hidden"))) int completing_child(void) {
    FILE *children = fopen("/proc/thread-self/children", "re");
    int pid, found = 0;
    if (children == NULL) return 0;
    while (!found && fscanf(children, "%d", &pid) == 1) {
        char name[64], line[32768];
        snprintf(name, sizeof name, "/proc/%d/cmdline", pid);
        FILE *command = fopen(name, "re");
        if (command == NULL) continue;
        size_t size = fread(line, 1, sizeof line - 1, command);
        fclose(command);
        line[size] = '\0';
        if (completes(line, size)) found = pid;
    }
    fclose(children);
    return found;
}

/* The number after a word in a file below /proc, such as "stub 123" in a process's name; or 0. */
static int number_in(const char *file, int pid, const char *form) {
    char name[64];
    int number = 0;
    snprintf(name, sizeof name, file, pid, pid);
    FILE *text = fopen(name, "re");
    if (text == NULL) return 0;
    if (fscanf(text, form, &number) != 1) number = 0;
    fclose(text);
    return number;
}

/* The process in which a child's stub runs: the copy that start_stub waits for, or the child. If
   the copy is in a sandbox (jail.py), its child is the stub. */
static int where_it_runs(int child) {
    int copy = number_in("/proc/%d/comm", child, "stub %d"), inside = 0;
    char name[64], word[16] = "";
    if (copy == 0) return child;
    snprintf(name, sizeof name, "/proc/%d/comm", copy);
    FILE *comm = fopen(name, "re");
    if (comm != NULL) {
        if (fgets(word, sizeof word, comm) != NULL && strcmp(word, "jail\n") == 0)
            inside = number_in("/proc/%d/task/%d/children", copy, "%d");
        fclose(comm);
    }
    return inside ? inside : copy;
}

/* Whether all threads of a process sleep, or it has ended. */
static int all_sleep(int pid) {
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/task", pid);
    DIR *tasks = opendir(name);
    if (tasks == NULL) return 1;
    int sleep_all = 1;
    for (struct dirent *task; sleep_all && (task = readdir(tasks)) != NULL;) {
        char line[512];
        if (task->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "/proc/%d/task/%.16s/stat", pid, task->d_name);
        FILE *stat = fopen(name, "re");
        if (stat == NULL) continue; /* the thread has ended */
        size_t size = fread(line, 1, sizeof line - 1, stat);
        fclose(stat);
        line[size] = '\0';
        const char *state = strrchr(line, ')'); /* the name before it may have any character */
        sleep_all = state != NULL && (state[2] == 'S' || state[2] == 'Z');
    }
    closedir(tasks);
    return sleep_all;
}

unsigned int sleep(unsigned int seconds) {
    const struct timespec look = {0, LOOK_NS};
    int pid = seconds == 1 ? completing_child() : 0;
    if (pid != 0) {
        for (int looks = 0, still = 0; looks < 1000000000 / LOOK_NS && still < 3; looks++) {
            nanosleep(&look, NULL);
            still = all_sleep(where_it_runs(pid)) ? still + 1 : 0;
        }
        return 0;
    }
    unsigned int (*libc)(unsigned int);
    *(void **)&libc = dlsym(RTLD_NEXT, "sleep");
    return libc(seconds);
}
