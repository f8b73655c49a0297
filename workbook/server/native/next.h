/* The functions that a preloaded library stands in front of. */

#pragma once

#include <dlfcn.h>

/* The function of this name in the libraries that come after this one.

   Args:
       version: the symbol's version, where the library has the name in several. */
template <typename Function>
static Function next(const char *name, const char *version = nullptr) {
    void *found = version ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);
    return reinterpret_cast<Function>(found);
}

/* `real` is the function that the one of this name stands in front of. */
#define REAL(name) static const auto real = next<decltype(&name)>(#name)
