/* snib/elect.h — leader election: one of many candidates leads at a time.
 *
 * An election is a mutex seen in another way. The leader is its holder, a
 * *term* is one grant of it, and the number of the term is the fencing token.
 * So the number rises from term to term for ever, and whatever the leader
 * writes to can refuse a lower one (docs/FENCING.md). `snib elect`, `snib
 * status`, and programs that acquire a lock of that name all work on the same
 * mutex.
 *
 *   for (;;) {
 *       if (snib_elect_campaign(e, &term, &err)) ...
 *       while (snib_elect_leading(e)) {
 *           do_a_step(term);
 *       }
 *   }
 *
 *   FOLLOWER --campaign--> LEADER <--> AT_RISK --> LOST
 *      ^                      |            |         |
 *      +-------- resign ------+------------+---------+
 *
 * From LOST a campaign leads to LEADER again.
 *
 * The promises P1 to P10 hold as for a mutex (docs/PROOF.md). A leader knows
 * that its term is over before anybody else can lead; if its process was frozen
 * it knows at its first instruction. Candidates lead in the order of their
 * arrival. A leader that resigns hands over to the next candidate at once; one
 * that dies delays it by the rest of its lease (not at all in a lock file, where
 * its end is seen).
 *
 * Threads. All functions may be called from any thread, but one candidate has
 * one campaign at a time. The calls that wait are refused in a pull client
 * (USAGE); in an event loop use the started forms (snib/event.h). */
#ifndef SNIB_ELECT_H
#define SNIB_ELECT_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snib_elect; /* a candidate or observer of an election */

/* What this candidate is. AT_RISK: still the leader, but a renewal failed or
 * the machine slept. LOST: stop; the term ended though nobody resigned. */
typedef enum snib_elect_state {
    SNIB_ELECT_FOLLOWER,
    SNIB_ELECT_LEADER,
    SNIB_ELECT_LEADER_AT_RISK,
    SNIB_ELECT_LEADER_LOST
} snib_elect_state;

/* "follower", "leader", "at risk", "lost". The strings are static. */
SNIB_API const char *snib_elect_state_text(snib_elect_state);

struct snib_elect_options {
    size_t size;
    size_t name_size; /* bytes in name; 0: strlen */
    /* How long the others wait when the leader dies. 0: 30 000. */
    int64_t lease_ms;
    const char *id; /* shown to others; NULL: the client's reason */
    /* Called for each change of this candidate's state, in order, one at a
     * time. LEADER and FOLLOWER are told on the thread that campaigns or
     * resigns (of a campaign that was started: in the snib_client_next that
     * takes its event), the others on the client's background thread (in a pull
     * client in snib_client_process). term is the term
     * concerned. No lock is held. Renewals wait meanwhile, so keep it short. It
     * may resign; it must not campaign, watch or free. */
    void (*on_change)(void *data, snib_elect_state, int64_t term);
    void *data;
};

/* Make a candidate. This does no I/O, and nothing happens until it campaigns,
 * so an observer is made the same way. The client is borrowed: it must live
 * longer. Strings are copied. options may be NULL. *ret is NULL after an error.
 * Errors: USAGE (name, options), NOMEM, CLOSED, FORKED. */
SNIB_API SNIB_CHECK snib_err snib_elect_new(struct snib_client *,
                                            const char *name,
                                            const struct snib_elect_options *,
                                            struct snib_elect **ret,
                                            struct snib_error *reterr);

/* Free the candidate. A term that runs is given up in the background. NULL is
 * allowed. No other thread may use it meanwhile. No on_change runs any more
 * when this returns. */
SNIB_API void snib_elect_free(struct snib_elect *);

/* Wait until this candidate leads: without a limit, not at all, or for at most
 * wait_ms. *ret_term is set on OK. When it leads already, the answer is OK at
 * once, with the same term. After a loss this is a fresh campaign.
 *
 * Errors of snib_elect_campaign: CANCELLED (snib_elect_resign by another
 * thread), USAGE (another campaign of this candidate is under way; a pull
 * client), and those
 * of snib_acquire, never LOST (a lost term is given back first), DEADLOCK (a
 * candidate holds nothing while it waits), UNSUPPORTED, TOO_MANY (it is a plain
 * mutex). Errors of snib_elect_try: BUSY, and those of snib_elect_campaign.
 * Errors of snib_elect_try_for: BUSY (wait_ms <= 0), TIMEOUT, and those of
 * snib_elect_campaign. */
SNIB_API SNIB_CHECK snib_err snib_elect_campaign(struct snib_elect *,
                                                 int64_t *ret_term,
                                                 struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_elect_try(struct snib_elect *,
                                            int64_t *ret_term,
                                            struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_elect_try_for(struct snib_elect *,
                                                int64_t wait_ms,
                                                int64_t *ret_term,
                                                struct snib_error *reterr);

/* Start a campaign. Its event is SNIB_EVENT_DONE, and *ret_term is written when
 * that is taken: this candidate leads from then on, not before, although others
 * may see it as the holder already. When it leads already the event is there at
 * once. On OK the event's grant is the term's, its state HELD, and
 * SNIB_EVENT_STATE tells what becomes of it, with the same user. The campaign
 * is under way until its event was taken. snib_client_cancel ends it
 * (CANCELLED, or UNKNOWN), as it ends an acquire; snib_elect_resign and
 * snib_elect_resign_start end it, too: then its event is CANCELLED (or UNKNOWN)
 * whatever it had got. So it is when the candidate is freed first; nothing is
 * written then. No event of a candidate may be taken by another thread while it
 * is freed.
 *
 * Errors of snib_elect_campaign_start: USAGE (another campaign is under way),
 * LIMIT (no thread or file descriptor is left), CLOSED, FORKED, NOMEM. Errors
 * of snib_elect_try_start: BUSY (another owner of this client has the lock,
 * which is known at once), and those of snib_elect_campaign_start. Errors of
 * snib_elect_try_for_start: BUSY (the same, and wait_ms <= 0), and those of
 * snib_elect_campaign_start. */
SNIB_API SNIB_CHECK snib_err
snib_elect_campaign_start(struct snib_elect *, int64_t *ret_term, void *user,
                          uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_elect_try_start(struct snib_elect *,
                                                  int64_t *ret_term, void *user,
                                                  uint64_t *ret_ticket,
                                                  struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_elect_try_for_start(
    struct snib_elect *, int64_t wait_ms, int64_t *ret_term, void *user,
    uint64_t *ret_ticket, struct snib_error *reterr);

/* Stop leading, and hand over to the next candidate at once; or end a campaign
 * that another thread waits in. Blocks up to request_ms. Whatever it returns,
 * this candidate is a follower afterwards. A campaign that was started is ended
 * as by snib_client_cancel; its event tells. Errors: LOST (the term had ended
 * before), NOT_HELD (neither leader nor candidate), UNKNOWN (no answer;
 * repeated in the background until the lease's end), USAGE (a pull client),
 * CLOSED (after or during snib_client_stop, which has given it up), FORKED. */
SNIB_API snib_err snib_elect_resign(struct snib_elect *,
                                    struct snib_error *reterr);

/* Start the same: it ends in SNIB_EVENT_DONE. This candidate is a follower as
 * soon as the start has returned OK, or an error that says so (NOT_HELD,
 * CLOSED). It cannot be cancelled. Errors: USAGE (a call campaigns in another
 * thread: only snib_elect_resign can end that), NOT_HELD (neither leader nor
 * candidate), LIMIT (no file descriptor is left), CLOSED (as
 * snib_elect_resign), FORKED, NOMEM; all others come with the event. */
SNIB_API SNIB_CHECK snib_err snib_elect_resign_start(struct snib_elect *,
                                                     void *user,
                                                     uint64_t *ret_ticket,
                                                     struct snib_error *reterr);

/* What a candidate is. term is that of the leadership, the lost one when LOST,
 * 0 for a follower. left_ms is the time until the local deadline, 0 when it has
 * passed. */
struct snib_elect_status {
    snib_elect_state state;
    snib_cause cause;
    int64_t term;
    int64_t left_ms;
};

/* What this candidate is at this instant. This compares the clock and does no
 * I/O. */
SNIB_API void snib_elect_status(struct snib_elect *,
                                struct snib_elect_status *ret, size_t ret_size);

/* True while this candidate leads, at risk or not, with its deadline ahead. */
SNIB_API bool snib_elect_leading(struct snib_elect *);

/* A file descriptor that becomes readable when the present term is over. It
 * belongs to the library: do not close or read it. -1 with errno as for
 * snib_grant_fd. */
SNIB_API int snib_elect_fd(struct snib_elect *);

/* -- observing ------------------------------------------------------------- */

/* Somebody leads, and the store does not show the tokens of others: locks that are
 * the server's own (?dialect=advisory, getlock). */
enum { SNIB_TERM_NOT_KNOWN = -1 };

/* The leader, as the store saw it at one moment. Strings are never NULL. */
struct snib_leader {
    int64_t term;          /* 0: nobody leads; or SNIB_TERM_NOT_KNOWN */
    const char *id;        /* as given to snib_elect_new */
    const char *client_id; /* client id, hexadecimal */
    const char *host;
    const char *user;
    const char *program;
    int64_t pid;       /* 0: not known                                    */
    int64_t since_ms;  /* Unix time; 0: not known                         */
    int64_t left_ms;   /* of the lease, which is renewed                  */
    size_t candidates; /* that wait */
    bool self;         /* this very candidate                             */
};

/* Who leads now? The store is asked once, for up to request_ms. Free the answer
 * with snib_leader_free. *ret is NULL after an error. Errors: those of
 * snib_client_inspect, of which USAGE is for a pull client only. */
SNIB_API SNIB_CHECK snib_err snib_elect_leader(struct snib_elect *,
                                               struct snib_leader **ret,
                                               struct snib_error *reterr);

/* The same, started: it ends in SNIB_EVENT_DONE (snib/event.h). Errors: LIMIT
 * (no thread or file descriptor is left), CLOSED, FORKED, NOMEM; all others
 * come with the event. */
SNIB_API SNIB_CHECK snib_err snib_elect_leader_start(struct snib_elect *,
                                                     struct snib_leader **ret,
                                                     void *user,
                                                     uint64_t *ret_ticket,
                                                     struct snib_error *reterr);

/* Wait until another term than known_term runs (0: nobody leads): without a
 * limit, or for at most wait_ms (<= 0: ask the store once). *ret says which
 * one. The store is asked five times a second: a change is seen 200 ms and a
 * round trip late at most, a change by this candidate itself at once. Several
 * changes between two requests are seen as one, and so are two terms of which the
 * number is not known. The call does not wait for a
 * store that is away. Errors of snib_elect_watch: those of snib_elect_leader.
 * Errors of snib_elect_watch_for: TIMEOUT (still known_term), and those of
 * snib_elect_watch. */
SNIB_API SNIB_CHECK snib_err snib_elect_watch(struct snib_elect *,
                                              int64_t known_term,
                                              struct snib_leader **ret,
                                              struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_elect_watch_for(struct snib_elect *,
                                                  int64_t known_term,
                                                  int64_t wait_ms,
                                                  struct snib_leader **ret,
                                                  struct snib_error *reterr);

/* The same, started: it ends in SNIB_EVENT_DONE (snib/event.h). Between two
 * looks 200 ms pass, and it looks when events are taken; a change by this
 * candidate itself is seen no sooner. snib_client_cancel ends it, and so does
 * snib_elect_free (CANCELLED). Errors of snib_elect_watch_start: those of
 * snib_elect_leader_start. Errors of snib_elect_watch_for_start: those of
 * snib_elect_leader_start. */
SNIB_API SNIB_CHECK snib_err snib_elect_watch_start(
    struct snib_elect *, int64_t known_term, struct snib_leader **ret,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_elect_watch_for_start(
    struct snib_elect *, int64_t known_term, int64_t wait_ms,
    struct snib_leader **ret, void *user, uint64_t *ret_ticket,
    struct snib_error *reterr);

SNIB_API void snib_leader_free(struct snib_leader *); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
