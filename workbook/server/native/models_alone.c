/* Two refusals for a server whose models run in sandboxes (WORKBOOK_JAIL is set, see jail.py).

   - A model cannot load or unload models: Triton's Python backend does that for
     `pb_utils.load_model` and `unload_model` by the calls below. The server's own endpoints make the
     same calls and are not refused.
   - No environment of a model's own: for the parameter EXECUTION_ENV_PATH the Python backend starts
     a shell that reads the environment's `activate` before the stub, outside of any sandbox, and
     sets LD_LIBRARY_PATH. Here the shell starts the stub alone. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JAIL_VARIABLE "WORKBOOK_JAIL"
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

#define REFUSED(name, parameters, arguments)                                  \
    Error *name parameters {                                                  \
        Error *(*real) parameters;                                            \
        if (from_a_model(__builtin_return_address(0))) return refusal();      \
        *(void **)&real = dlsym(RTLD_NEXT, #name);                            \
        return real arguments;                                                \
    }

REFUSED(TRITONSERVER_ServerLoadModel, (void *server, const char *model), (server, model))
REFUSED(TRITONSERVER_ServerLoadModelWithParameters,
        (void *server, const char *model, const void **parameters, uint64_t count),
        (server, model, parameters, count))
REFUSED(TRITONSERVER_ServerUnloadModel, (void *server, const char *model), (server, model))
REFUSED(TRITONSERVER_ServerUnloadModelAndDependents, (void *server, const char *model),
        (server, model))

int execvp(const char *file, char *const words[]) {
    int (*real)(const char *, char *const *);
    *(void **)&real = dlsym(RTLD_NEXT, "execvp");
    if (getenv(JAIL_VARIABLE) == NULL || words[1] == NULL || words[2] == NULL ||
        strstr(words[2], "source ") == NULL)
        return real(file, words);
    /* bash -c "source …/activate && exec env LD_LIBRARY_PATH=… …/triton_python_backend_stub …" */
    const char *stub = strstr(words[2], "/triton_python_backend_stub ");
    while (stub != NULL && stub > words[2] && stub[-1] != ' ') stub--;
    char *command = NULL;
    if (stub == NULL || asprintf(&command, "exec %s", stub) < 0) {
        errno = EACCES;
        return -1;
    }
    fprintf(stderr, "The environment in EXECUTION_ENV_PATH is not used here.\n");
    char *const alone[] = {words[0], words[1], command, NULL};
    return real(file, alone);
}
