/* tests/fuzz/fuzz.h — what the fuzz targets share. */
#ifndef SNIB_TESTS_FUZZ_H
#define SNIB_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that must hold; assert() would do, were it always on. */
#define MUST(condition)                                                        \
    do {                                                                       \
        if (!(condition)) {                                                    \
            abort();                                                           \
        }                                                                      \
    } while (0)

/* For LLVMFuzzerInitialize: an option of libFuzzer that this target wants. */
static inline void want_option(int *argc, char ***argv, char *option)
{
    static char *more[64];
    MUST(*argc + 2 < 64);
    if (*argv != more) {
        memcpy(more, *argv, (size_t)*argc * sizeof *more);
    }
    more[(*argc)++] = option;
    *argv = more;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);

/* The input as a string in a block of exactly its size: reading past the NUL
 * shows. */
static inline char *string_of(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    MUST(text);
    if (size) {
        memcpy(text, data, size);
    }
    text[size] = 0;
    return text;
}

#endif
