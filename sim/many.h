/* sim/many.h — the names of an owner that wants several as one. Each has an
 * acquisition, and each acquisition a struct sim_owner of its own. */
#ifndef SIM_MANY_H
#define SIM_MANY_H

#include "sim/world.h"

/* That of the k-th name. */
struct sim_owner *sim_many_owner(struct sim_world *, int client, int owner,
                                 int k);
/* Its next step comes at that true time, or now. */
void sim_many_wake(struct sim_world *, int client, int owner, int64_t at);
/* Ask for the k-th name: a try of a batch, or for as long as it takes. */
snib_err sim_many_ask(struct sim_world *, int client, int owner, int k,
                      bool is_try, int64_t limit_at);
/* Ask for the names from `from` on, as a batch. */
void sim_many_tries(struct sim_world *, int client, int owner);
/* The k-th name is refused; it is granted. */
void sim_many_refused(struct sim_world *, int client, int owner, int k,
                      snib_err);
void sim_many_granted(struct sim_world *, int client, int owner, int k);
/* Give back what is held from `from` on, the last first; then go on with
 * `next`. */
void sim_many_give_back(struct sim_world *, int client, int owner, int from,
                        int next);
/* Stop waiting for the answers. */
void sim_many_abandon(struct sim_world *, int client, int owner);

#endif
