/* net/tls.h — TLS as a filter on bytes: no socket, no clock, no thread.
 *
 *     the store's bytes --seal--> wire --> the socket
 *     the socket's bytes --feed--> open --> the store
 *
 * Whoever owns a filter calls it from one thread at a time (the driver: with the
 * client's mutex held). Nothing here blocks or waits: a handshake goes on by
 * what is fed, as far as that reaches. TLS 1.2 or later; the chain and the name
 * are verified unless that was switched off; no renegotiation, no compression,
 * no early data. Whatever a server sends, a filter keeps no more than a record
 * of it, a handshake of 256 KB and 256 KB that are still to be sent.
 *
 * Without OpenSSL, in the build or on this host, there are no filters:
 * snib__tls_shared_new is UNSUPPORTED, and says what to do. */
#ifndef SNIB__TLS_H
#define SNIB__TLS_H

#include <stddef.h>
#include <stdint.h>

#include "snib.h"

/* All may be NULL. The strings are borrowed for the call. */
struct snib__tls_files {
    const char *ca;   /* file or directory; NULL: those of the system */
    const char *cert; /* the client's own, a chain in PEM; NULL: none */
    const char *key;  /* its key; NULL: it stands in cert */
    const char *name; /* in the certificate; NULL: the host of the address */
    bool unverified;  /* anybody may answer */
    const char
        *alpn; /* what will be spoken inside, "h2": a server that does not
                         say so, too, is refused; NULL: not said */
    const char *scheme; /* of the URL, "rediss", for words; NULL: not said */
};

/* What the filters of one client share: certificates, and for each server the
 * last session, which the next connection resumes. */
struct snib__tls_shared;

/* Reads the files. Errors: CONFIG (one is missing, or unfit), NOMEM,
 * UNSUPPORTED. */
snib_err snib__tls_shared_new(const struct snib__tls_files *,
                              struct snib__tls_shared **ret,
                              struct snib_error *reterr);
/* After all of its filters. NULL allowed. */
void snib__tls_shared_free(struct snib__tls_shared *);

struct snib__tls; /* one connection's filter */

/* address as in struct snib__conn. NULL: no memory. */
struct snib__tls *snib__tls_new(struct snib__tls_shared *, const char *address);
void snib__tls_free(struct snib__tls *); /* NULL allowed */

/* These bytes came. They are borrowed until the next snib__tls_shake that says
 * SHAKES, or snib__tls_open that says 0 or less. */
void snib__tls_feed(struct snib__tls *, const void *bytes, size_t size);

typedef enum snib__tls_progress {
    SNIB__TLS_SHAKES, /* more bytes are needed */
    SNIB__TLS_UP,
    SNIB__TLS_BROKEN /* snib__tls_why; send what is on the wire: an alert */
} snib__tls_progress;
/* Begin the handshake, or go on with it. */
snib__tls_progress snib__tls_shake(struct snib__tls *);
/* The next bytes for the store, at most size. 0: none until more is fed. -1: the
 * peer has closed, or it is broken (snib__tls_why). */
long snib__tls_open(struct snib__tls *, void *to, size_t size);
/* Encrypt these for the wire. Returns how many were taken; 0: none now, or it is
 * broken. */
size_t snib__tls_seal(struct snib__tls *, const void *bytes, size_t size);
/* Say that we close; what is on the wire ends with that. */
void snib__tls_bye(struct snib__tls *);

/* The bytes to be sent, and so many of them were. */
const void *snib__tls_wire(const struct snib__tls *, size_t *ret_size);
void snib__tls_sent(struct snib__tls *, size_t size);

/* Why it is broken, one line that says what to do; "": it is not. *ret_err:
 * CONFIG, DENIED (the server refuses us), STORE (nonsense came), NOMEM. The text
 * lives as long as the filter. */
const char *snib__tls_why(const struct snib__tls *, snib_err *ret_err);
/* What to do where the port is the one without TLS: the scheme to write. Lives as
 * long as what the filters share. */
const char *snib__tls_instead(const struct snib__tls *);
/* Was an earlier session resumed? For tests and measurements. */
bool snib__tls_resumed(const struct snib__tls *);

#endif
