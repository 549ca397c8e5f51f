/* sim/kept.h — the list of worlds whose numbers are kept (sim/same.c). */
#ifndef SNIB_SIM_KEPT_H
#define SNIB_SIM_KEPT_H

#include "sim/draw.h"

/* Run the worlds of the list and compare. 0: all are as it says; 1: some are
 * not, which is said on stdout; 64: usage. */
int sim_kept_compare(const char *file, uint64_t jobs);
/* Write the list: so many worlds of each kind, and the scenarios next to the
 * file. */
int sim_kept_record(const char *file, uint64_t jobs);

#endif
