/* driver/roles.h — which thread reads which socket. Pure: no system calls, no
 * clock, no mutex (the caller holds the client's). tests/unit/test_roles.c runs
 * this very code through all interleavings of three threads.
 *
 * A socket here is a connection, or the notifier of a blocking store. Its
 * reader is NOBODY, the BACKGROUND thread, or one waiting CALL. A waiting call
 * is
 *
 *     running    its thread is awake and will check again by itself
 *     parked     asleep on its own word (it reads nothing)
 *     polling    asleep in ppoll on the sockets that it leads, which means
 *                reads
 *
 * The caller of these functions keeps which sockets need a reader, as two sets:
 * `replies` (an answer is due, or a connect is under way) and `pushes` (the
 * socket may speak unasked). No socket is in both. A call that still expects the
 * answer to its own command (`wants`) leaves pushes alone: it will be gone in a
 * moment. No function here costs more than these sets have members. */
#ifndef SNIB__ROLES_H
#define SNIB__ROLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "driver/socks.h"

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
    struct snib__link link;   /* in the list of the waiting, by arrival */
    struct snib__socks leads; /* sockets it reads */
    struct snib__socks wants; /* sockets that will bring its own answer */
    uint8_t posture;          /* snib__posture */
    bool done;                /* answered; leaves as soon as it runs */
};

/* Who reads a socket. */
struct snib__role {
    uint8_t reader;            /* snib__reader */
    struct snib__waiter *call; /* when CALL */
};

struct snib__roles {
    struct snib__role *sock;   /* of each socket; the client's memory */
    struct snib__list waiting; /* calls that are not answered */
};

struct snib__need {
    struct snib__socks replies, pushes;
};

/* Called for a thread that must be woken. A parked call is woken by its word. A
 * polling call is woken by the waker that it polls, of a socket that it led
 * when it fell asleep. The caller collects them and wakes them after unlocking
 * (rule 2 in driver.h). */
typedef void snib__wake(void *data, struct snib__waiter *);

void snib__roles_init(struct snib__roles *);

/* Begin to wait; the posture is running, and the call wants nothing yet. */
void snib__roles_enter(struct snib__roles *, struct snib__waiter *);
/* A running call gives up the sockets that need no reader, and takes those that
 * need one and that no other call reads. A polling background thread loses its
 * role at once. True: it leads some from now on; false: it should park. */
bool snib__roles_take(struct snib__roles *, struct snib__waiter *,
                      const struct snib__need *);
/* The call has its answer: nobody passes it a role any more. It is woken when
 * it sleeps. */
static inline void snib__roles_done(struct snib__waiter *w, snib__wake *wake,
                                    void *data)
{
    if (w->done) {
        return;
    }
    w->done = true;
    snib__unlink(&w->link);
    if (w->posture != SNIB__RUNNING) {
        wake(data, w);
    }
}
/* Take the call off the list, then pass its roles on (rule 1). Each led socket
 * goes to a call that still waits; else, if anything is due, to the background
 * thread; else to nobody (rule 4). Returns the sockets that went to the
 * background thread. */
struct snib__socks snib__roles_leave(struct snib__roles *,
                                     struct snib__waiter *,
                                     const struct snib__need *, snib__wake *,
                                     void *data);
/* After a step whose thread will not read: a socket that needs a reader and has
 * none goes to the background thread. If there is no such thread it goes to a
 * call that sleeps, if there is one. Returns the sockets that the background
 * thread has to check: those that it was given now, and its own with an answer
 * due. */
struct snib__socks snib__roles_assign(struct snib__roles *,
                                      const struct snib__need *,
                                      bool background_runs, snib__wake *,
                                      void *data);
/* The background thread takes a socket that no call reads. False: a call reads
 * it. */
bool snib__roles_keep(struct snib__roles *, uint32_t sock);
/* Nobody reads the socket any more (it is closed, or nothing is due), unless a
 * call does. */
void snib__roles_idle(struct snib__roles *, uint32_t sock);
/* The first waiting call that is parked, or NULL. */
struct snib__waiter *snib__roles_parked(const struct snib__roles *);

#endif
