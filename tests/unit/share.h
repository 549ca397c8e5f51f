/* tests/unit/share.h — SNIB_SHARE=N: of a list of runs one in N.
 *
 * Of each N lines that follow each other one is compared, of the first N the
 * first. Which one of the others is drawn, and always the same: what a run is
 * about is often its number modulo 2, 3, 4, 16, …, and every Nth would leave out
 * whole kinds of them. */
#ifndef SNIB_TESTS_SHARE_H
#define SNIB_TESTS_SHARE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mix.h"

/* Ends the program if it says anything but a whole number of 1 or more. */
static inline uint64_t share(void)
{
    const char *text = getenv("SNIB_SHARE");
    uint64_t n = text ? strtoull(text, NULL, 10) : 1;
    if (!n || (text && text[strspn(text, "0123456789")])) {
        fprintf(stderr, "SNIB_SHARE='%s': not a whole number of 1 or more\n",
                text);
        exit(2);
    }
    return n;
}

/* With a share of n; lines count from 0. */
static inline bool is_left_out(uint64_t line, uint64_t n)
{
    return line % n != mix(line / n) % n;
}

#endif
