/* api/testing.h — the inside of a client, for tests linked with the static
 * library. The shared library does not export it. */
#ifndef SNIB__TESTING_H
#define SNIB__TESTING_H

#include "core/engine.h"
#include "snib.h"

/* ret_awaited: answers due on each connection. ret_reader: 0 nobody, 1 the
 * background thread, 2 a call. Any of the three may be NULL. */
void snib__client_counts(struct snib_client *, struct snib__counts *,
                         uint32_t ret_awaited[SNIB__CONNS_MAX],
                         int ret_reader[SNIB__CONNS_MAX]);

/* snib_acquire and snib_release with limits below a millisecond. */
snib_err snib__acquire_within(struct snib_lock *, int64_t ns,
                              struct snib_grant *ret,
                              struct snib_error *reterr);
snib_err snib__release_within(struct snib_lock *, struct snib_grant, int64_t ns,
                              struct snib_error *reterr);

#endif
