/* snib/value.h — values with a version: shared state without a lock.
 *
 * A *value* is up to 64 KiB of bytes under a name. Its *version* is a number
 * that is higher after every change of that name and never comes back. Read the
 * value, compute the next one, and put it "if the version is still the same".
 * If somebody else was faster you are told so, and begin again with the new
 * value. Nobody waits for anybody, and nobody can die holding anything.
 *
 * Use a value where the next state follows from the last one by a short
 * computation that may be done twice (a counter, a configuration, a list of
 * members). Use a lock where the work between reading and writing has effects
 * elsewhere or takes long (docs/VALUES.md).
 *
 * Names are those of locks (1 to SNIB_NAME_MAX bytes, any); a lock and a value
 * of the same name know nothing of each other. The stores are the clients'.
 *
 * Versions. A new version is max(last + 1, the store's Unix ms * 1024):
 * positive, below 2^53, not consecutive. It rises strictly for a name, also
 * across delete and the end of its time to live. It also rises across a loss of
 * the store's data, as long as the store's clock is not set back by more than
 * was lost.
 *
 * Answers. OK: the change is applied, exactly once. BUSY: it is definitely not
 * applied, since the value was changed meanwhile; *ret_version is the version
 * that is there. When a reply is lost the request is repeated under the same
 * id, inside the limit, and the store tells the repeat what became of the first
 * copy. The result is UNKNOWN only if no copy is answered, or if the repeat
 * meets a store that cannot be reached or refuses to work: then the change may
 * be applied now, or within 10 s, or never. Read the value to find out. The
 * other errors say that no copy was applied.
 *
 * Threads: any. These functions block: up to request_ms each, snib_value_update
 * up to its limit. In a pull client (options.pull) they answer USAGE: use the
 * started forms there (snib/event.h). Errors
 * common to all: USAGE (an argument; the text says which), UNREACHABLE, DENIED,
 * STORE, CORRUPT (the store holds something else under that name), CONFIG (the
 * server keeps no values), UNSUPPORTED (a quorum), CLOSED, FORKED, NOMEM. */
#ifndef SNIB_VALUE_H
#define SNIB_VALUE_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most bytes of a value. A value shares its connection with the renewals of
 * locks. Put more into a database, and its key or path into the value. */
#define SNIB_VALUE_MAX ((size_t)65536)

/* Longest life of a value. It ends then unless it is put again: 30 days. */
#define SNIB_VALUE_TTL_MAX_MS INT64_C(2592000000)

/* A value that was read. bytes is never NULL and has a NUL behind its last byte
 * (not counted in size), so that text can be used as such. It is one block;
 * free it with snib_value_free. */
struct snib_value {
    int64_t version; /* 0: absent (size 0 then) */
    size_t size;
    const void *bytes;
};

/* Read a value. An absent one is OK with version 0. A name_size of 0 means
 * strlen. *ret is NULL after an error. Errors: those common to all. */
SNIB_API SNIB_CHECK snib_err snib_value_get(struct snib_client *,
                                            const char *name, size_t name_size,
                                            struct snib_value **ret,
                                            struct snib_error *reterr);
SNIB_API void snib_value_free(struct snib_value *);

/* The same, started: it ends in SNIB_EVENT_DONE (snib/event.h). For pull
 * clients, too. Errors: USAGE (an argument), LIMIT (no thread or file
 * descriptor is left), CLOSED, FORKED, NOMEM; all others come with the
 * event. */
SNIB_API SNIB_CHECK snib_err
snib_value_get_start(struct snib_client *, const char *name, size_t name_size,
                     struct snib_value **ret, void *user, uint64_t *ret_ticket,
                     struct snib_error *reterr);

/* Write these bytes if the version is still `expected` (0: if the value is
 * absent). They are copied; NULL is allowed with size 0 (an empty value is a
 * value). The value is kept for ttl_ms from now, 1 to SNIB_VALUE_TTL_MAX_MS; 0:
 * that maximum. Each put sets it anew. *ret_version (may be NULL) is the new
 * version. After BUSY it is the version that is there, 0: absent. After other
 * errors it is 0. Errors: BUSY (changed meanwhile), UNKNOWN (see above), LIMIT
 * (more than SNIB_VALUE_MAX bytes), and those common to all. */
SNIB_API SNIB_CHECK snib_err snib_value_put(struct snib_client *,
                                            const char *name, size_t name_size,
                                            int64_t expected, const void *bytes,
                                            size_t size, int64_t ttl_ms,
                                            int64_t *ret_version,
                                            struct snib_error *reterr);

/* The same, started; the bytes are copied by the start. Errors: LIMIT (or too
 * many bytes), and those of snib_value_get_start. */
SNIB_API SNIB_CHECK snib_err snib_value_put_start(
    struct snib_client *, const char *name, size_t name_size, int64_t expected,
    const void *bytes, size_t size, int64_t ttl_ms, int64_t *ret_version,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);

/* Remove the value if the version is still `expected` (> 0). The next put gets
 * a higher version all the same. *ret_version (may be NULL) is, after BUSY, the
 * version that is there, 0: it is absent already; else 0. Errors: those of
 * snib_value_put, never LIMIT (it has no bytes). */
SNIB_API SNIB_CHECK snib_err snib_value_delete(
    struct snib_client *, const char *name, size_t name_size, int64_t expected,
    int64_t *ret_version, struct snib_error *reterr);

/* The same, started. Errors: those of snib_value_get_start. */
SNIB_API SNIB_CHECK snib_err snib_value_delete_start(
    struct snib_client *, const char *name, size_t name_size, int64_t expected,
    int64_t *ret_version, void *user, uint64_t *ret_ticket,
    struct snib_error *reterr);

/* What to write; see snib_value_update. bytes belong to the computation. They
 * must stay valid until it is called again or the update returns. */
struct snib_value_next {
    const void *bytes;
    size_t size;
    bool remove; /* delete the value instead */
};

struct snib_value_options {
    size_t size;    /* SNIB_INIT(snib_value_options)                         */
    int64_t ttl_ms; /* as for snib_value_put                                 */
    /* Pause after the n-th time that somebody else was faster: random, between
     * 0 and min(backoff_ms * 2^n, backoff_max_ms). 0: 1 ms, 64 ms. */
    int64_t backoff_ms, backoff_max_ms;
};

/* Read, compute, and write if the version is still the same. If it is not,
 * snib_value_try ends; snib_value_update does so again after a random pause,
 * without a limit, and snib_value_try_for until wait_ms is over (<= 0: it is a
 * try). options may be NULL.
 *
 * compute is called on the calling thread, once a round, with no lock of the
 * library held. now is what is there (version 0: absent), and valid during the
 * call. compute sets *next (all zero when called) and returns 0. If it returns
 * another value the update ends, and writes nothing in this round:
 * the call returns OK, *ret_stopped is that value, and *ret_version
 * the version that was seen. compute may be called several times, so it must
 * have no effect but *next. It may call anything but snib_client_stop and
 * snib_client_free.
 *
 * *ret_stopped (may be NULL) is set to 0 first. *ret_version (may be NULL) is,
 * on OK, the version written, 0 when removed; else the version last seen, 0
 * when none was.
 *
 * Errors of snib_value_update: UNKNOWN (a write was not answered; see above),
 * LIMIT (the computed value is too big), and those common to all, which end it
 * at once. Errors of snib_value_try: BUSY (somebody else was faster), and those
 * of snib_value_update. Errors of snib_value_try_for: BUSY (the same, and
 * wait_ms <= 0), TIMEOUT (others were faster until the limit), and those of
 * snib_value_update. */
SNIB_API SNIB_CHECK snib_err
snib_value_update(struct snib_client *, const char *name, size_t name_size,
                  const struct snib_value_options *,
                  int (*compute)(void *data, const struct snib_value *now,
                                 struct snib_value_next *next),
                  void *data, int *ret_stopped, int64_t *ret_version,
                  struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err
snib_value_try(struct snib_client *, const char *name, size_t name_size,
               const struct snib_value_options *,
               int (*compute)(void *data, const struct snib_value *now,
                              struct snib_value_next *next),
               void *data, int *ret_stopped, int64_t *ret_version,
               struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err
snib_value_try_for(struct snib_client *, const char *name, size_t name_size,
                   int64_t wait_ms, const struct snib_value_options *,
                   int (*compute)(void *data, const struct snib_value *now,
                                  struct snib_value_next *next),
                   void *data, int *ret_stopped, int64_t *ret_version,
                   struct snib_error *reterr);

/* The same, started: it ends in SNIB_EVENT_DONE (snib/event.h), and the results
 * are written when that is taken. compute is called by snib_client_next, on the
 * thread that takes events; never by the start. What it makes must stay valid
 * until it is called again or the event was taken. It may start other calls, and
 * take no events. name and options are copied. snib_client_cancel ends it:
 * CANCELLED between two requests and while it reads, UNKNOWN while it writes.
 *
 * Errors of snib_value_update_start: those of snib_value_get_start. Errors of
 * snib_value_try_start: those of snib_value_get_start. Errors of
 * snib_value_try_for_start: those of snib_value_get_start. */
SNIB_API SNIB_CHECK snib_err snib_value_update_start(
    struct snib_client *, const char *name, size_t name_size,
    const struct snib_value_options *,
    int (*compute)(void *data, const struct snib_value *now,
                   struct snib_value_next *next),
    void *data, int *ret_stopped, int64_t *ret_version, void *user,
    uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_value_try_start(
    struct snib_client *, const char *name, size_t name_size,
    const struct snib_value_options *,
    int (*compute)(void *data, const struct snib_value *now,
                   struct snib_value_next *next),
    void *data, int *ret_stopped, int64_t *ret_version, void *user,
    uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_value_try_for_start(
    struct snib_client *, const char *name, size_t name_size, int64_t wait_ms,
    const struct snib_value_options *,
    int (*compute)(void *data, const struct snib_value *now,
                   struct snib_value_next *next),
    void *data, int *ret_stopped, int64_t *ret_version, void *user,
    uint64_t *ret_ticket, struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
