/* sim/kept.h — the list of worlds whose numbers are kept (sim/same.c). */
#ifndef SNIB_SIM_KEPT_H
#define SNIB_SIM_KEPT_H

#include "sim/draw.h"

/* Run the worlds of the list and compare; 0, 1 (not as it is written there; said
 * on stdout), 64. */
int sim_kept_compare(const char *file, uint64_t jobs);
/* Write the list: so many of each kind, and the scenarios beside the file. */
int sim_kept_record(const char *file, uint64_t jobs);

#endif
