/* sim/see.h — requests of a store that works on snapshots, in the words of
 * sim/seen.h. */
#ifndef SIM_SEE_H
#define SIM_SEE_H

#include "core/snapshot/snapshot.h"
#include "sim/world.h"

/* Which lock of this world; -1: none. */
int sim_name_of(const struct snib__name *);
/* OTHER: it changes no claims. */
enum sim_deed sim_deed_of(const struct snib__request *);
/* The batch that it is tried in; one that was sent before is tried alone. */
static inline uint32_t sim_batch_of(const struct snib__request *r)
{
    return r->verb == SNIB__ACQUIRE && !r->resent ? r->batch.number : 0;
}
/* One request and its answer. asked: the token with which it was asked, before
 * the answer came over it. */
void sim_see(const uint64_t client[2], const struct snib__request *,
             int64_t asked, int64_t now_ms, struct sim_seen *ret);
/* A step that has decided: its requests, and whether they are one. */
void sim_see_step(const uint64_t client[2], struct snib__request *const r[],
                  const struct snib__snapshot *, int64_t now_ms,
                  struct sim_act *ret);
/* Are the parts of this step several as one, and which was refused first? */
void sim_see_as_one(struct snib__request *const r[], struct sim_act *);
/* One that it tells of something. */
void sim_see_told(const struct snib__snapshot *, uint32_t told,
                  struct sim_seen *ret);

/* book_rows.c: a claim, as a holder or a waiter; or nothing. */
void sim_book_add(struct sim_book *, const struct snib__stored_claim *);

#endif
