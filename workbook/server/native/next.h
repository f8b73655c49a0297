/* Finds the original of a function that a preloaded library replaces. */

#pragma once

#include <dlfcn.h>

/* The function of this name in the libraries that come after this one.

   Args:
       version: the symbol's version, if the library has several versions of the name. */
template <typename Function>
static Function next(const char *name, const char *version = nullptr) {
    void *found = version ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);
    return reinterpret_cast<Function>(found);
}

/* Defines `real`: the original of the function with this name. */
#define REAL(name) static const auto real = next<decltype(&name)>(#name)
