/* kinds.h — what is no plain lock: its calls, and what they may answer.
 *
 * One file each: gates.c (latch, barrier), elections.c, multis.c, values.c. */
#ifndef THREADS_KINDS_H
#define THREADS_KINDS_H

#include "judge.h"

/* -- kinds.c: to whom a step belongs ------------------------------------------ */

/* False: it is of a handle, or of the client. */
bool kinds_act(struct world *, struct actor *, const struct step *);
bool kinds_out_of_place(const struct world *, const struct actor *,
                        const struct step *);
/* Quiet, and a is in a call: NULL when it has a reason to wait, else what is
 * wrong; kinds_not: it is in no call of these. */
const char *kinds_idle(const struct world *, const struct actor *);
extern const char kinds_not[];
/* Make what this thread needs for calls of that letter. */
void kinds_open(struct world *, struct actor *, char thing);
/* All is there, nothing runs. */
void kinds_opened(struct world *);
void kinds_clean_up(struct world *, struct actor *);
/* All threads are over and the clients stopped; then: freed, but the
 * stranger. */
void kinds_close(struct world *);
void kinds_end(struct world *);

/* -- the kinds ------------------------------------------------------------------ */

void gates_act(struct world *, struct actor *, verb);
const char *gates_idle(const struct world *, const struct actor *);
void gates_end(const struct world *);

void elections_act(struct world *, struct actor *, const struct step *);
const char *elections_idle(const struct world *, const struct actor *);
void elections_open(struct world *, struct actor *, char thing);
void elections_clean_up(struct world *, struct actor *);
void elections_close(struct world *);

void multis_act(struct world *, struct actor *, verb);
bool multis_out_of_place(const struct world *, const struct actor *, verb);
void multis_open(struct world *, struct actor *);
/* Is this handle one of two that are acquired, or given back, by a start? */
bool multis_started(const struct actor *, const struct handle *);
void multis_clean_up(struct world *, struct actor *);
void multis_close(struct world *);
/* Has it this one of its locks at the store, while it waits for the other? */
bool multis_has(const struct world *, const struct actor *,
                const struct handle *);

void values_act(struct world *, struct actor *, verb);
const char *values_idle(const struct world *, const struct actor *);
void values_end(const struct world *);

/* traffic: a change begins; ret: how things stood. */
struct traffic kinds_begin(struct traffic *);
/* It is over. True: nobody else changed anything meanwhile. */
bool kinds_over(struct traffic *, struct traffic was);
/* Has nobody changed anything since (a look that changes nothing itself)? */
bool kinds_calm(const struct traffic *, struct traffic was);

/* -- of program.c, read.c --------------------------------------------------------- */

extern const char handle_letters[];
const char *program_read(const char *text, struct world *);
struct snib_lock *program_lock(struct snib_client *, int letter,
                               struct handle *);
void program_handle(struct world *, struct actor *, int at, int letter);

#endif
