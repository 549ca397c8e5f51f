/*
 * resp_compare.h — cutting RESP into replies, comparing and showing them
 */
#ifndef SNIB_TESTS_SIM_MODEL_RESP_COMPARE_H
#define SNIB_TESTS_SIM_MODEL_RESP_COMPARE_H

#include "gen.h"

/* Length of the complete reply at p, 0 if it is not all there. */
size_t reply_len(const char *p, size_t n);
/* How many complete replies there are, and their bytes. */
size_t count_replies(const char *p, size_t n, size_t *bytes);
/* One complete reply against another: to the byte; integers that differ by
 * less than 10 000 (NEAR); arrays as multisets (SORTED); all but the numbers
 * (SHAPE); the names of INFO's fields (FIELDS). */
bool replies_equal(enum compare how, const char *a, size_t an, const char *b,
                   size_t bn);
/* On stderr, behind that word. */
void show(const char *what, const char *p, size_t n);

#endif
