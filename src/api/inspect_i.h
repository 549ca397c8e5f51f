/* api/inspect_i.h — inspecting one lock as a part of another call, for those
 * that show it in their own way: ring_read (membership.c), elect_leader
 * (elect_watch.c). */
#ifndef SNIB__INSPECT_I_H
#define SNIB__INSPECT_I_H

#include "api/client.h"
#include "driver/client.h"
#include "snib/inspect.h"

/* Fill *d, to be run or started. The name is borrowed until then. Errors: USAGE
 * (the name). */
snib_err snib__inspect_prepare(struct snib__direct_op *, struct snib_client *,
                               const char *name, size_t size,
                               const struct snib__direct_rules *,
                               struct snib_error *reterr);
/* For the rules' decode, when the store has answered: the view, which the
 * caller frees. Errors: NOMEM. */
snib_err snib__inspect_view(const struct snib__direct_op *,
                            struct snib_view **ret, struct snib_error *reterr);

#endif
