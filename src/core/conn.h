/* core/conn.h — the connections of a store, as the store sees them.
 *
 * A connection is an object that lives as long as the store. The store makes
 * as many as it needs, when it needs them (snib__conn_add), and says by its
 * fields what it wants of each: `open` and `shut`, bytes in `out`, a login.
 * The driver or the simulator has the other end and carries that out; what
 * happens to a connection is an input that names it by its index.
 *
 * So that no step costs more than what it was about, a store puts each
 * connection that it has changed on the list `touched`; nobody walks past all
 * of them.
 *
 * A store made of stores gives each of its parts a struct snib__out of its own
 * whose `outer` is its own one. A connection that a part adds is the same
 * object in both. Part and whole count them on their own: the first connection
 * of a part has the index 0 there. */
#ifndef SNIB__CONN_H
#define SNIB__CONN_H

#include "base/buf.h"
#include "base/list.h"
#include "snib.h"

#define SNIB__CONNS_MAX 256 /* of one client: three to each of 85 servers */

/* What lies between the bytes of a store and its server. */
typedef enum snib__transport {
    SNIB__PLAIN, /* nothing */
    SNIB__TLS    /* a filter of the driver's (net/tls.h) */
} snib__transport;

struct snib__conn {
    struct snib__link touched; /* on the outermost `touched`, or on none */
    struct snib__buf out;      /* the store appends, the driver takes */
    uint32_t index;            /* in the outermost list */
    uint32_t awaited;          /* answers due; 0: nobody need read */
    uint8_t transport;         /* snib__transport; set once */
    bool pushes;               /* may speak unasked (subscription) */
    /* Wishes, which the driver clears as it takes them up. With both it shuts
     * first. login: ask the program for one (the input is LOGIN); refused: the
     * server has refused the one before. */
    bool open, shut, login, refused;
    /* "host:port", "[v6]:port", or a path that starts with '/' (unix
     * socket). */
    char address[264];
};

struct snib__out;

/* Prepare: no connections. limit: of the bytes unsent on each. */
void snib__conns_init(struct snib__out *, size_t limit);
/* Free them, with what they have not sent overwritten: a login may stand in
 * it. An out with an `outer` frees only its own list of them. */
void snib__conns_free(struct snib__out *);
/* One more, closed, to this address; it is the last of out->conn. Errors:
 * NOMEM; LIMIT: there are SNIB__CONNS_MAX. */
snib_err snib__conn_add(struct snib__out *, snib__transport,
                        const char *address);

#endif
