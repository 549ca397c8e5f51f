/* snib/sys.h — what tools need that other programs rarely do: exit statuses, the
 * ids of requests, and grants that outlive their process. */
#ifndef SNIB_SYS_H
#define SNIB_SYS_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The exit status that the command line tool has for an error; see the table in
 * snib.h. A value outside the enum is INTERNAL. */
SNIB_API int snib_err_exit(snib_err);

/* Size of the id of a request, NUL included. */
#define SNIB_REQUEST_TEXT 33

/* The id of the grant's request, as others see it (snib_party.request). Any
 * thread; no I/O. size is that of ret_text; SNIB_REQUEST_TEXT is enough.
 * ret_text is "" after an error. Errors: USAGE (size; a grant of another lock),
 * NOT_HELD, LOST, CLOSED, FORKED. */
SNIB_API SNIB_CHECK snib_err snib_grant_request(struct snib_lock *,
                                                struct snib_grant,
                                                char *ret_text, size_t size,
                                                struct snib_error *reterr);

/* -- a store in a database ----------------------------------------------------- */

/* Size that is enough for the text of snib_store_schema, NUL included. */
#define SNIB_SCHEMA_TEXT 8192

/* The statements that make the tables of a store in a database, for its own
 * program (psql): where its owner does not let clients make tables, he runs them
 * himself. url as for snib_client_options, never NULL; only the scheme and
 * ?schema= matter. Any thread; no I/O. size is that of ret_text, which is "" after
 * an error. Errors: USAGE (url, a schema that needs quotes, size), UNSUPPORTED (the
 * store has no tables that others could make; it is not in this build), CONFIG (a
 * store that is no more), NOMEM. */
SNIB_API SNIB_CHECK snib_err snib_store_schema(const char *url, char *ret_text,
                                               size_t size,
                                               struct snib_error *reterr);

/* -- detached grants ----------------------------------------------------------
 *
 * A grant of a fixed lease may outlive its process: export it, abandon it, and
 * keep the text. A later process or another host that has the text adopts the
 * grant, and renews or releases it. Until then nobody watches the grant: it
 * ends with its lease. The text is as good as the grant; keep it as private. */

/* Sizes of the text of a grant and of an identity, NUL included. */
#define SNIB_GRANT_TEXT    96
#define SNIB_IDENTITY_TEXT 33

/* One line that names the grant at its store: "snib1:", the client's id, the
 * request's id (32 hexadecimal digits each) and the token, joined by ':'. The
 * store's URL and the lock's name are not in it. Any thread; no I/O. size is
 * that of ret_text; SNIB_GRANT_TEXT is enough. ret_text is "" after an error.
 * Errors: USAGE (size; not a fixed lease; a grant of another lock), NOT_HELD,
 * LOST, CLOSED, FORKED; UNSUPPORTED (zookeeper:, amqp:, and every store with a
 * dialect, where grants end with their client). */
SNIB_API SNIB_CHECK snib_err snib_grant_export(struct snib_lock *,
                                               struct snib_grant,
                                               char *ret_text, size_t size,
                                               struct snib_error *reterr);

/* The client id in such a text, for snib_client_options.identity. No I/O. size
 * is that of ret_identity; SNIB_IDENTITY_TEXT is enough. Errors: USAGE (not
 * such a text; size). */
SNIB_API SNIB_CHECK snib_err snib_grant_identity(const char *text,
                                                 char *ret_identity,
                                                 size_t size,
                                                 struct snib_error *reterr);

/* Forget the grant, and all holds of it, without releasing it. The store keeps
 * it until its lease ends, and this client then queues behind it like
 * everybody. Call it in the thread that acquired the grant, as snib_release. No
 * I/O. A store in this process' memory forgets the grant with its last client.
 * Errors: USAGE (not a fixed lease: nobody would renew it; a grant of another
 * lock), NOT_HELD, WRONG_OWNER, CLOSED, FORKED, LOST (it was over already; the
 * owner is free again). */
SNIB_API snib_err snib_grant_abandon(struct snib_lock *, struct snib_grant,
                                     struct snib_error *reterr);

/* Adopt the grant that text names. The client must have been opened with the
 * grant's identity, and the handle must be of the lock's name. The grant is the
 * caller's once the store has confirmed it by a renewal to lease_ms from now
 * (0: the lock's lease). When more was left than that, the store keeps the later
 * end, but this client counts with lease_ms and gives the grant back then.
 * Nothing is ever acquired. Then renew, release and status work as usual, and
 * any thread may release it.
 * Blocks up to request_ms. After an error *ret is all zero, and the grant is
 * what it was.
 *
 * Errors: LOST (the store says that it is over: ended, released, forced),
 * UNKNOWN (sent, no answer; it may have been renewed), UNREACHABLE, DENIED,
 * STORE, CORRUPT, CONFIG, BUSY (this client holds or wants that lock itself),
 * USAGE (text, another identity, lease out of bounds, a pull client), CLOSED,
 * FORKED, NOMEM. */
SNIB_API SNIB_CHECK snib_err snib_grant_adopt(struct snib_lock *,
                                              const char *text,
                                              int64_t lease_ms,
                                              struct snib_grant *ret,
                                              struct snib_error *reterr);

/* The same, started: it ends in SNIB_EVENT_DONE (snib/event.h). On OK the
 * event's grant is *ret, its state HELD, and SNIB_EVENT_STATE tells what becomes
 * of it. The grant is held from the event's arrival on, taken or not: if the
 * event is never taken it goes with the handle or the client. Cancelled it ends
 * UNKNOWN: it may have been renewed. Errors: BUSY, USAGE (text, another
 * identity, lease out of bounds), LIMIT (no thread or file descriptor is left),
 * CLOSED, FORKED, NOMEM; all others come with the event. */
SNIB_API SNIB_CHECK snib_err
snib_grant_adopt_start(struct snib_lock *, const char *text, int64_t lease_ms,
                       struct snib_grant *ret, void *user, uint64_t *ret_ticket,
                       struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
