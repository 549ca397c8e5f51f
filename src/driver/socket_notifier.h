/* driver/socket_notifier.h — the notifier of a store that blocks: its socket
 * (SNIB__NOTIFIER_SOCKET), and how a call sleeps at it. All are called with the
 * client's mutex held. */
#ifndef SNIB__SOCKET_NOTIFIER_H
#define SNIB__SOCKET_NOTIFIER_H

#include "driver/client.h"

/* Take over the descriptor of its notifier, which may have come into being. Not
 * while its exec() runs. */
void snib__socket_notifier(struct snib_client *);
/* The notifier has been notified. */
void snib__socket_notified(struct snib__step *);
/* The notifier's descriptor is polled from now on. */
void snib__socket_polled(struct snib_client *);
/* The call, which reads the notifier, sleeps on the notifier's word, at most so
 * long. False: it has no such word, and the call has not slept. Only where
 * exec.ops is set. */
bool snib__socket_sleep(struct snib__step *, struct snib__call *, int64_t ns);

#endif
