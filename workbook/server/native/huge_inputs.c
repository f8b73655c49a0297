/* Refuses an input that no memory could hold.

   Triton 24.10 multiplies the dimensions of an input's shape without a look at the size of the
   product. One JSON request with the shape [1,4611686018427387904] ends the whole server, also a
   plain one. The HTTP and the gRPC endpoint add the inputs to a request by a function of the core,
   before they read the data. This library is preloaded, and its function of that name refuses a
   shape whose data would be larger than the machine's memory. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define INVALID_ARGUMENT 3 /* TRITONSERVER_ERROR_INVALID_ARG */
#define LENGTH_OF_A_STRING 4 /* bytes in front of each string: the least that one takes */

typedef struct TRITONSERVER_Error Error;
typedef Error *AddInput(void *, const char *, int, const int64_t *, uint64_t);

/* The functions of the server, and this machine's memory in bytes: looked up at the first request. */
static AddInput *real;
static uint32_t (*size_of)(int);
static Error *(*new_error)(int, const char *);
static uint64_t memory;

static void look_up(void) {
    *(void **)&real = dlsym(RTLD_NEXT, "TRITONSERVER_InferenceRequestAddInput");
    *(void **)&size_of = dlsym(RTLD_NEXT, "TRITONSERVER_DataTypeByteSize");
    *(void **)&new_error = dlsym(RTLD_NEXT, "TRITONSERVER_ErrorNew");
    memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Whether data of a shape would take more bytes than this machine has memory. A dimension of 0 is
   left out: there are no data then, but numpy ends a Python model's process by its exception where
   the product of the others is too large. */
static int is_huge(const int64_t *shape, uint64_t dims, uint64_t bytes) {
    int over = 0;
    for (uint64_t i = 0; i < dims; i++) {
        if (shape[i] < 0) return 0; /* for the core to refuse */
        if (shape[i] == 0) continue;
        over |= __builtin_mul_overflow(bytes, (uint64_t)shape[i], &bytes);
    }
    return over || bytes > memory;
}

Error *TRITONSERVER_InferenceRequestAddInput(
    void *request, const char *name, int type, const int64_t *shape, uint64_t dims) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_up);
    const uint32_t size = size_of(type);
    if (is_huge(shape, dims, size != 0 ? size : LENGTH_OF_A_STRING)) {
        char words[512];
        int at = snprintf(words, sizeof words, "input '%.128s' has the shape [", name);
        for (uint64_t i = 0; i < dims && at < 400; i++)
            at += snprintf(words + at, sizeof words - (size_t)at, "%s%" PRId64, i ? "," : "", shape[i]);
        snprintf(words + at, sizeof words - (size_t)at,
                 "], which is larger than this machine's memory");
        return new_error(INVALID_ARGUMENT, words);
    }
    return real(request, name, type, shape, dims);
}
