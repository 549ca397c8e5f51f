/* calls.h — what a thread of a program does. */
#ifndef THREADS_CALLS_H
#define THREADS_CALLS_H

#include "judge.h"

void calls_act(struct world *, struct actor *, const struct step *);
/* Take events of its client until the one of this start has come. */
void calls_await(struct world *, struct actor *, struct start *);
/* At its end it gives back what it holds and ends what it has started. */
void calls_clean_up(struct world *, struct actor *);
/* The on_change of letter c; data: the handle. */
void calls_told(void *data, struct snib_grant, snib_state, snib_cause);

#endif
