/* driver/witness.h — what a client and its witness say to each other.
 *
 * The witness (src/witness/main.c) is started by snib__witness_start with three
 * descriptors: one end of a connection, a pidfd of the client's process, and the
 * registry's memory. The client then sends one message: who it is, and the URL of
 * its store, password and all, which so stands in no list of processes. The
 * witness answers with one message, when it is ready or why it is not. No more is
 * said: from then on the connection only shows the one that the other is there. */
#ifndef SNIB__DRIVER_WITNESS_H
#define SNIB__DRIVER_WITNESS_H

#include "core/registry.h"
#include "snib.h"

enum {
    SNIB__WITNESS_LINK = 3, /* its end of the connection */
    SNIB__WITNESS_CLIENT,   /* the client's pidfd */
    SNIB__WITNESS_REGISTRY, /* the memory */
    SNIB__WITNESS_FDS = 3,  /* so many, in that order */
    SNIB__WITNESS_URL_MAX = 60000
};

/* SNIB__REGISTRY_LAYOUT of the client comes first, whatever the rest becomes. */
struct snib__witness_ask {
    uint32_t layout;
    char client[33]; /* its id, hexadecimal */
    int64_t request_ms;
    char url[SNIB__WITNESS_URL_MAX]; /* the message ends with its NUL */
};

struct snib__witness_answer {
    uint32_t layout;
    int32_t pid; /* the witness's */
    struct snib_error error;
};

#endif
