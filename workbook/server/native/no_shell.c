/* Starts stubs without a shell, so that no shell reads a name in a model's folder or config.

   Triton 24.10's Python backend starts a stub by `bash -c`, and writes the paths and names of the
   stub's command line into bash's text without quotes. If default_model_filename is
   `x$(touch owned).py`, this runs `touch`, as a command of the server and with its rights. Before
   that, the backend tries the stub by `system`. There the path of a stub in the model's folder is
   unquoted, too.

   This library is preloaded into tritonserver and replaces both calls. It splits the text at its
   spaces. If that gives the words of a stub's command line, and each word has harmless characters
   only, it executes the program with these words as its arguments. Anything else is refused: a
   model of ours is started instead (server/assemble.py), which raises an error that says why. (If
   no stub is started, Triton 24.10 waits for it for ever.)

   With the parameter EXECUTION_ENV_PATH the text first reads the environment's `activate`. Only
   bash can do that, so bash gets the text if all of its words are harmless. If models run in
   sandboxes (WORKBOOK_JAIL is set, see jail.py), a model can have no environment and no stub of its
   own: both would run outside of its sandbox. The backend asks for the environment's real path
   before it unpacks the environment, and gets none. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JAIL_VARIABLE "WORKBOOK_JAIL"
#define HARMLESS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"
#define TEXT 65536 /* bytes of a command line that is started */
#define STUB "triton_python_backend_stub"

/* A stub's command line. */
enum { PROGRAM, MODEL, REGION, SIZE, GROWTH, SERVER, FOLDER, HANDLE, NAME, LAST, WORDS };

static int in_the_server, in_sandboxes;
static char folder[PATH_MAX]; /* of the Python backend */
static char stub[PATH_MAX + 64], starter[PATH_MAX + 64], program[PATH_MAX + 64];
static char unsafe[PATH_MAX + 64];
static int (*real_execvp)(const char *, char *const *);
static int (*real_system)(const char *);
static char *(*real_realpath)(const char *, char *, size_t);

/* All look-ups are here: the calls come in a process just forked, where locks cannot be used. */
__attribute__((constructor)) static void prepare(void) {
    Dl_info self;
    *(void **)&real_execvp = dlsym(RTLD_NEXT, "execvp");
    *(void **)&real_system = dlsym(RTLD_NEXT, "system");
    *(void **)&real_realpath = dlsym(RTLD_NEXT, "__realpath_chk");
    if (strcmp(program_invocation_short_name, "tritonserver") != 0) return;
    if (dladdr(&prepare, &self) == 0 || strrchr(self.dli_fname, '/') == NULL) return;
    int length = (int)(strrchr(self.dli_fname, '/') - self.dli_fname);
    snprintf(folder, sizeof folder, "%.*s/python", length, self.dli_fname);
    snprintf(stub, sizeof stub, "%s/" STUB, folder);
    snprintf(starter, sizeof starter, "%s/bin/start_stub", folder);
    snprintf(program, sizeof program, "%s/bin/" STUB, folder);
    snprintf(unsafe, sizeof unsafe, "%s/in_place/unsafe/1/model.py", folder);
    in_sandboxes = getenv(JAIL_VARIABLE) != NULL;
    in_the_server = 1;
}

/* Whether the first bytes of a text are harmless. UTF-8 is harmless, except in the grader. */
static int harmless(const char *text, size_t size) {
    for (const char *at = text; at < text + size; at++)
        if (strchr(HARMLESS, *at) == NULL && (in_sandboxes || (unsigned char)*at < 0x80)) return 0;
    return size > 0;
}

/* Splits a text into its words. Returns whether it is the command line of a stub, and harmless. */
static int split(const char *text, char **words) {
    static char room[TEXT];
    int count = 0;
    if (strlen(text) >= sizeof room) return 0;
    for (char *word = strcpy(room, text); word != NULL; count++) {
        char *space = strchr(word, ' ');
        if (space != NULL) *space++ = '\0';
        if (count == WORDS || !harmless(word, strlen(word))) return 0;
        words[count] = word;
        word = space;
    }
    words[WORDS] = NULL;
    return count == WORDS;
}

static int start(char **words) {
    if (strcmp(words[PROGRAM], stub) != 0) return execv(words[PROGRAM], words);
    char *started[WORDS + 2] = {starter, program};
    memcpy(started + 2, words + MODEL, WORDS * sizeof *words); /* with NULL at the end */
    return execv(starter, started);
}

/* Starts a model of ours. It needs REGION SIZE GROWTH SERVER FOLDER HANDLE from the command line.
   These are numbers and names of ours, and are found by SERVER and FOLDER in the middle. */
static int refuse(const char *text) {
    static char middle[PATH_MAX + 32], found[PATH_MAX + 512];
    static char name[] = "unsafe", last[] = "DEFAULT";
    char *words[WORDS + 1] = {stub, unsafe};
    dprintf(2, "A model's process was not started: a name on its command line has a character "
               "that is not allowed.\n");
    snprintf(middle, sizeof middle, " %d %s ", (int)getppid(), folder);
    const char *at = strstr(text, middle), *end = at;
    if (at == NULL) return errno = EACCES, -1;
    for (int spaces = 0; at > text && (spaces += at[-1] == ' ') < 3;) at--;
    end += strlen(middle);
    end += strcspn(end, " ");
    snprintf(found, sizeof found, "%.*s", (int)(end - at), at);
    char *word = strtok(found, " ");
    for (int i = REGION; i <= HANDLE; i++, word = strtok(NULL, " ")) words[i] = word;
    words[NAME] = name;
    words[LAST] = last;
    return start(words);
}

/* Whether a command line has the usual program, a file within the model's folder, and DEFAULT or
   the folder of a stand-in. (A sandbox of jail.py shows the model's folder: two levels above the
   file.) */
static int is_usual(char **words) {
    const char *last = words[LAST];
    const size_t size = strlen(folder) - strlen("python");
    if (strcmp(words[PROGRAM], stub) != 0 || strstr(words[MODEL], "/../") != NULL) return 0;
    if (strcmp(last, "DEFAULT") == 0) return 1;
    return strncmp(last, folder, size) == 0 && last[size] != '.' && !strchr(last + size, '/');
}

/* bash -c " exec PROGRAM MODEL …"
   bash -c "source …/activate && exec env LD_LIBRARY_PATH=…:$LD_LIBRARY_PATH PROGRAM MODEL …" */
int execvp(const char *file, char *const words[]) {
    static const char exec[] = " exec ", source[] = "source ", paths[] = ":$LD_LIBRARY_PATH ",
                      env[] = " && exec env LD_LIBRARY_PATH=";
    char *stub_words[WORDS + 1];
    if (!in_the_server) return real_execvp(file, words);
    const char *text = words[0] && words[1] && words[2] ? words[2] : "";
    if (strncmp(text, exec, strlen(exec)) == 0) {
        if (!split(text + strlen(exec), stub_words)) return refuse(text);
        return in_sandboxes && !is_usual(stub_words) ? refuse(text) : start(stub_words);
    }
    if (in_sandboxes || strncmp(text, source, strlen(source)) != 0) return refuse(text);
    const char *activate = text + strlen(source), *library = strstr(activate, env);
    const char *rest = library ? strstr(library, paths) : NULL;
    if (rest == NULL || !harmless(activate, (size_t)(library - activate))) return refuse(text);
    library += strlen(env);
    if (library > rest || !harmless(library, (size_t)(rest - library)) ||
        !split(rest + strlen(paths), stub_words))
        return refuse(text);
    return real_execvp(file, words);
}

/* Triton calls "…/triton_python_backend_stub> /dev/null 2>&1". If the status is not 1, Triton
   changes the file's rights. Our stub would end with 1, so this returns 1 without running it. */
int system(const char *command) {
    const char *end = command ? strstr(command, "> /dev/null") : NULL;
    if (!in_the_server || command == NULL) return real_system(command);
    const size_t size = end ? (size_t)(end - command) : strlen(command);
    const int ours = size == strlen(stub) && memcmp(command, stub, size) == 0;
    return ours || in_sandboxes || !harmless(command, size) ? 1 << 8 : real_system(command);
}

char *__realpath_chk(const char *path, char *resolved, size_t size) {
    Dl_info caller;
    if (in_the_server && in_sandboxes && dladdr(__builtin_return_address(0), &caller) != 0 &&
        strstr(caller.dli_fname, "libtriton_python") != NULL) {
        dprintf(2, "The environment in EXECUTION_ENV_PATH is not used here.\n");
        errno = EACCES;
        return NULL;
    }
    return real_realpath(path, resolved, size);
}
