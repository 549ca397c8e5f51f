/* store/redis/node.h — a Redis store as one node of a cluster: what the store
 * made of nodes (store/cluster/) asks of it besides its methods. It has been
 * opened with `slots`, whose map its connections keep up to date. */
#ifndef SNIB__REDIS_NODE_H
#define SNIB__REDIS_NODE_H

#include "core/store.h"

/* Ask it who serves which slot; connect for that, if need be. */
void snib__node_look(struct snib__store *, snib_instant now);
/* Is a connection for requests up? */
bool snib__node_answers(const struct snib__store *);
/* Why none is up, or does not answer; OK: one does, or none was tried. barred:
 * refused for good. */
snib_err snib__node_trouble(const struct snib__store *, bool *ret_barred,
                            const char **ret_text);
/* How many attempts to connect have failed. */
uint32_t snib__node_failures(const struct snib__store *);
/* Does it own the ACQUIRE with this id? */
bool snib__node_owns(struct snib__store *, const uint64_t id[2]);
/* Close the connections on which an answer is due: it is UNKNOWN. */
void snib__node_cut(struct snib__store *, snib_instant now);
/* Let go of all requests for which no answer is due, without an answer. */
void snib__node_take_back(struct snib__store *, struct snib__list *to);
/* Close its connections, those too that came up since; it owns no request. */
void snib__node_leave(struct snib__store *, snib_instant now);
/* Are they closed? */
bool snib__node_has_left(const struct snib__store *);

#endif
