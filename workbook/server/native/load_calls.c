/* What happens at the calls that load and unload models.

   - A server that its guard starts again (guard.py) has to know its models. WORKBOOK_LOADED names a
     file for it: each load adds a line "+NAME", each unload a line "-NAME".
   - In a server whose models run in sandboxes (WORKBOOK_JAIL is set, see jail.py) a model cannot load
     or unload models: Triton's Python backend does that for `pb_utils.load_model` and `unload_model`
     by the calls below. The server's own endpoints make the same calls and are not refused. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JAIL_VARIABLE "WORKBOOK_JAIL"
#define LOADED_VARIABLE "WORKBOOK_LOADED"
#define UNSUPPORTED 5 /* TRITONSERVER_ERROR_UNSUPPORTED */

typedef struct Error Error;

/* Whether a call comes from the Python backend, and models run in sandboxes. */
static int from_a_model(void *caller) {
    Dl_info place;
    if (getenv(JAIL_VARIABLE) == NULL || dladdr(caller, &place) == 0) return 0;
    return strstr(place.dli_fname, "libtriton_python") != NULL;
}

static Error *refusal(void) {
    Error *(*make)(int, const char *);
    *(void **)&make = dlsym(RTLD_NEXT, "TRITONSERVER_ErrorNew");
    return make(UNSUPPORTED, "a model cannot load or unload models here");
}

/* revive.cc: is told of an unload. It is not there where there is no C++ compiler. */
__attribute__((weak)) void workbook_unloaded(const char *model);

/* Notes a load (+) or an unload (-) that has succeeded. */
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
        if (from_a_model(__builtin_return_address(0))) return refusal();      \
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
