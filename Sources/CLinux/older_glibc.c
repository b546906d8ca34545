// Functions that Swift's own libraries may have been built with and that glibc has only since 2.38. Defined here they let
// libraries of a newer release be linked for an older one (scripts/cross-root). Hidden, so that no shared library finds them.
#include <features.h>

#if !__GLIBC_PREREQ(2, 38)
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT __attribute__((visibility("hidden")))

// What C23 changed: these take binary numbers too (0b1).
REPLACEMENT long __isoc23_strtol(const char *text, char **end, int base) { return strtol(text, end, base); }

REPLACEMENT long long __isoc23_strtoll(const char *text, char **end, int base) { return strtoll(text, end, base); }

REPLACEMENT int __isoc23_sscanf(const char *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int count = vsscanf(text, format, arguments);
    va_end(arguments);
    return count;
}

REPLACEMENT size_t strlcpy(char *target, const char *source, size_t size) {
    size_t length = strlen(source);
    if (size > 0) {
        size_t kept = length < size ? length : size - 1;
        memcpy(target, source, kept);
        target[kept] = 0;
    }
    return length;
}
#endif
