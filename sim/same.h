/* sim/same.h — a number made of all that a world's servers and callers see. */
#ifndef SNIB_SIM_SAME_H
#define SNIB_SIM_SAME_H

#include "sim/world.h"

/* A server has executed a command. */
void sim_same_step(struct sim_world *, int node,
                   const struct sim_redis_event *);
/* A table has heard or said this. */
void sim_same_bytes(struct sim_world *, int conn, const void *, size_t);
/* News of an acquisition, before its owner hears them. */
void sim_same_told(struct sim_world *, int client,
                   const struct snib__acquisition *, uint8_t news);
/* The answer to a direct request. */
void sim_same_direct(struct sim_world *, int client,
                     const struct snib__direct *);
/* After each call into a client's engine. */
void sim_same_after(struct sim_world *, int client);
/* A client is about to be freed: closes its engine. */
void sim_same_closed(struct sim_world *, int client);

#endif
