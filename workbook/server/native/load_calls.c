/* Records or refuses calls that load models, unload models, or load libraries.

   - If its guard starts a server again (guard.py), the server's models must be known.
     WORKBOOK_LOADED names a file for that: each load adds a line "+NAME", each unload a line
     "-NAME".
   - If models run in sandboxes (WORKBOOK_JAIL is set, see jail.py), a model cannot load or unload
     models. For `pb_utils.load_model` and `unload_model`, Triton's Python backend makes the calls
     below, and they are refused. The server's own endpoints make the same calls and are not
     refused.
   - Such a server does not run a library that comes with a model, either. Triton looks for a
     backend (libtriton_python.so) and for batchstrategy.so in the folder of a model's version
     first, and the parameter TRITON_BATCH_STRATEGY_PATH can name any file. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JAIL_VARIABLE "WORKBOOK_JAIL"
#define LOADED_VARIABLE "WORKBOOK_LOADED"
#define UNSUPPORTED 5 /* TRITONSERVER_ERROR_UNSUPPORTED */

typedef struct Error Error;

/* Whether a call comes from a library of this name, and models run in sandboxes. */
static int calls(const char *library, void *caller) {
    Dl_info place;
    if (getenv(JAIL_VARIABLE) == NULL || dladdr(caller, &place) == 0) return 0;
    return strstr(place.dli_fname, library) != NULL;
}

static Error *refusal(void) {
    Error *(*make)(int, const char *);
    *(void **)&make = dlsym(RTLD_NEXT, "TRITONSERVER_ErrorNew");
    return make(UNSUPPORTED, "a model cannot load or unload models here");
}

/* In revive.cc; called for each unload. Without a C++ compiler it is missing. */
__attribute__((weak)) void workbook_unloaded(const char *model);

/* Records a load (+) or an unload (-) that has succeeded. */
static void note(char sign, const char *model) {
    const char *name = getenv(LOADED_VARIABLE);
    char line[1024];
    if (sign == '-' && workbook_unloaded != NULL) workbook_unloaded(model);
    if (name == NULL || strchr(model, '\n') != NULL) return;
    const int size = snprintf(line, sizeof line, "%c%s\n", sign, model);
    const int file = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) return;
    if (size < (int)sizeof line && write(file, line, (size_t)size) != size)
        fprintf(stderr, "%s cannot be written.\n", name); /* the disk is full */
    close(file);
}

#define CALL(sign, name, parameters, arguments)                               \
    Error *name parameters {                                                  \
        Error *(*real) parameters;                                            \
        if (calls("libtriton_python", __builtin_return_address(0)))          \
            return refusal();                                                 \
        *(void **)&real = dlsym(RTLD_NEXT, #name);                            \
        Error *error = real arguments;                                        \
        if (error == NULL) note(sign, model);                                 \
        return error;                                                         \
    }

CALL('+', TRITONSERVER_ServerLoadModel, (void *server, const char *model), (server, model))
CALL('+', TRITONSERVER_ServerLoadModelWithParameters,
     (void *server, const char *model, const void **parameters, uint64_t count),
     (server, model, parameters, count))
CALL('-', TRITONSERVER_ServerUnloadModel, (void *server, const char *model), (server, model))
CALL('-', TRITONSERVER_ServerUnloadModelAndDependents, (void *server, const char *model),
     (server, model))

/* Whether a file is below this folder. */
static int below(const char *folder, const char *file) {
    char real[PATH_MAX];
    if (realpath(folder, real) == NULL) return 0;
    const size_t size = strlen(real);
    return strncmp(file, real, size) == 0 && file[size] == '/';
}

/* Whether a library comes with the server: it lies below the backends' folder, where this library
   is, or below the folder above the program's folder bin. */
static int is_of_the_server(const char *file) {
    Dl_info self;
    char real[PATH_MAX], folder[PATH_MAX];
    if (realpath(file, real) == NULL || dladdr((void *)is_of_the_server, &self) == 0) return 0;
    snprintf(folder, sizeof folder, "%s", self.dli_fname);
    if (below(dirname(folder), real)) return 1;
    snprintf(folder, sizeof folder, "%s", program_invocation_name);
    return below(dirname(dirname(folder)), real);
}

void *dlopen(const char *file, int flags) {
    static void *(*real)(const char *, int);
    if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    if (file != NULL && strchr(file, '/') != NULL &&
        calls("libtritonserver", __builtin_return_address(0)) && !is_of_the_server(file)) {
        fprintf(stderr, "A library that comes with a model is not loaded here.\n");
        file = "/a library that comes with a model"; /* dlerror says that it is not there */
    }
    return real(file, flags);
}
