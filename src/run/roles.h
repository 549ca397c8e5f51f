/* run/roles.h — who reads which line. Pure: no sockets, no clock, no mutex
 * (the caller holds the client's); tests/unit/test_roles.c runs this very
 * code through all interleavings of three threads.
 *
 * A *line* is a connection, or the bell of a blocking store. Its reader is
 * NOBODY, the background thread, or one waiting CALL. A waiting call is
 *
 *     running    its thread is on its way and will look again by itself
 *     parked     asleep on its own word (it reads nothing)
 *     polling    asleep in ppoll on the lines that it leads
 *
 * What needs a reader is computed by the caller of these functions, as two
 * masks: `replies` (an answer is due, or a connect is under way) and `pushes`
 * (the line may speak unasked). A call that still expects the answer to its
 * own command (`wants`) leaves pushes alone: it will be gone in a moment. */
#ifndef SNIB__ROLES_H
#define SNIB__ROLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define SNIB__SOCKETS_MAX 24

typedef enum snib__reader {
    SNIB__NOBODY,
    SNIB__BACKGROUND,
    SNIB__CALL
} snib__reader;

typedef enum snib__posture {
    SNIB__RUNNING,
    SNIB__PARKED,
    SNIB__POLLING
} snib__posture;

struct snib__waiter {
    struct snib__link link; /* among the waiting, in order of arrival       */
    uint32_t leads;         /* lines it reads                               */
    uint32_t wants;         /* lines on which its own answer is expected    */
    uint8_t posture;        /* snib__posture                                */
    bool done;              /* settled; leaves as soon as it runs           */
};

struct snib__roles {
    struct {
        uint8_t reader;            /* snib__reader                          */
        struct snib__waiter *call; /* when CALL                             */
    } sock[SNIB__SOCKETS_MAX];
    uint32_t socks;
    struct snib__list waiting; /* those not done                            */
};

/* A thread that must be woken, and how: a parked one by its word, a polling
 * one by the bell that it polls, of a line that it led when it fell asleep.
 * Collected by the caller and done after unlocking (rule 2). */
typedef void snib__wake(void *data, struct snib__waiter *);

void snib__roles_init(struct snib__roles *, uint32_t socks);

/* Begin to wait; running. */
void snib__roles_enter(struct snib__roles *, struct snib__waiter *,
                       uint32_t wants);
/* Running: give up lines that need no reader, take those that need one and
 * that no other call reads. A polling background thread loses its role at once. Returns
 * the mask led from now on; 0: park. */
uint32_t snib__roles_take(struct snib__roles *, struct snib__waiter *,
                          uint32_t replies, uint32_t pushes);
/* The call has its answer: nobody passes it a role any more. Rouses it when
 * it sleeps. */
void snib__roles_done(struct snib__roles *, struct snib__waiter *, snib__wake *,
                      void *data);
/* Detach it, then pass its roles on (rule 1). Each led line goes to a call
 * that still waits; else, if anything is due, to the background thread; else to nobody
 * (rule 4). Returns the lines that went to the background thread. */
uint32_t snib__roles_leave(struct snib__roles *, struct snib__waiter *,
                           uint32_t replies, uint32_t pushes, snib__wake *,
                           void *data);
/* After a step whose thread will not read: whatever needs a reader and has
 * none goes to the background thread; without a background thread's thread to a call that sleeps,
 * if there is one. Returns the background thread's lines that it has to look at: those
 * it was given now, and its own with an answer due. */
uint32_t snib__roles_assign(struct snib__roles *, uint32_t replies,
                            uint32_t pushes, bool background_runs, snib__wake *,
                            void *data);
/* The background thread takes a line that no call reads. False: a call does. */
bool snib__roles_keep(struct snib__roles *, uint32_t sock);
/* Nobody reads it any more (closed, or nothing is due), unless a call does. */
void snib__roles_idle(struct snib__roles *, uint32_t sock);
/* First waiting call that is parked, or NULL. */
struct snib__waiter *snib__roles_parked(const struct snib__roles *);

#endif
