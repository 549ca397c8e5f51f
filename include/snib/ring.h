/* snib/ring.h — who is responsible for a key: consistent hashing.
 *
 * A *ring* is a set of members (strings). For any key it says which member owns
 * the key. All that have the same set agree, on every host, in every language
 * and release (docs/RING.md has the formula). When a member joins or leaves,
 * only the keys that it takes or gives away change their owner; all others stay
 * where they are. Use it to split work (partitions, caches, tenants) among the
 * workers that are alive.
 *
 * A ring does not exclude. Two processes may have different sets for a while,
 * because one has not heard yet of a member that came or went, and both may
 * think that they own a key. Where that would do harm the owner takes the lock
 * of the key, too. That is nearly always granted at once, since nearly always
 * nobody else wants it.
 *
 * A ring is immutable: make a new one when the set changes. Rings do no I/O and
 * read no clock. Any number of threads may use one at a time, also after fork.
 * Memberships (below) keep the set itself, by leases in a store. */
#ifndef SNIB_RING_H
#define SNIB_RING_H

#include "snib.h"
#include "snib/inspect.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIB_RING_MEMBERS_MAX ((size_t)4096)
#define SNIB_RING_ID_MAX      ((size_t)512)
#define SNIB_RING_WEIGHT_MAX  UINT32_C(100)

/* Returned for "no member", as when the ring is empty. */
#define SNIB_RING_NOBODY SIZE_MAX

struct snib_ring;

struct snib_ring_member {
    const char *id; /* any bytes, 1 to SNIB_RING_ID_MAX */
    size_t id_size; /* 0: strlen                                           */
    /* Share of the keys, 1 to SNIB_RING_WEIGHT_MAX; 0: 1. */
    uint32_t weight;
};

/* Make a ring of these members. Everything is copied. Their order does not
 * matter. With count 0 nobody owns any key. *ret is NULL on error. Errors:
 * USAGE (an id that is empty, too long or there twice, a weight out of bounds),
 * LIMIT (too many members), NOMEM. */
SNIB_API SNIB_CHECK snib_err snib_ring_new(const struct snib_ring_member *,
                                           size_t count, struct snib_ring **ret,
                                           struct snib_error *reterr);

/* Make a ring of the holders of a lock, as snib_client_inspect showed it. A
 * member's id is the holder's reason, or its client id (snib_party.client_id)
 * when the reason is "". An id that is there twice counts once. All weights are
 * 1. Errors: LIMIT, NOMEM (as snib_ring_new), USAGE (a NULL). */
SNIB_API SNIB_CHECK snib_err snib_ring_of_view(const struct snib_view *,
                                               struct snib_ring **ret,
                                               struct snib_error *reterr);

/* Free the ring. NULL is allowed. */
SNIB_API void snib_ring_free(struct snib_ring *);

/* The members, numbered by their ids in ascending order of bytes: the same
 * numbers for all that have the same set. snib_ring_id gives the id of a
 * number: NUL-terminated, valid as long as the ring, NULL for a number out of
 * range. *ret_size may be NULL. */
SNIB_API size_t snib_ring_count(const struct snib_ring *);
SNIB_API const char *snib_ring_id(const struct snib_ring *, size_t number,
                                  size_t *ret_size);
/* The number of this id, or SNIB_RING_NOBODY. id_size 0: strlen. */
SNIB_API size_t snib_ring_find(const struct snib_ring *, const char *id,
                               size_t id_size);

/* The number of the key's owner, or SNIB_RING_NOBODY. key_size is exact (0: the
 * empty key). The time is proportional to the sum of the weights, some ns
 * each. */
SNIB_API size_t snib_ring_owner(const struct snib_ring *, const void *key,
                                size_t key_size);

/* The first max owners in order: the owner, then the member that would own the
 * key if the owner left, and so on. Returns how many (at most the members). */
SNIB_API size_t snib_ring_owners(const struct snib_ring *, const void *key,
                                 size_t key_size, size_t *ret, size_t max);

/* The fingerprint of a set: equal sets of ids and weights have equal numbers,
 * others nearly always different ones. Log it, or compare what two hosts
 * believe. */
SNIB_API uint64_t snib_ring_fingerprint(const struct snib_ring *);

/* -- membership by lease
 * -------------------------------------------------------
 *
 * A membership is a SNIB_KIND_READ lock of the ring's name with the member's id
 * as its reason, renewed in the background. A member that dies, freezes or is
 * cut off leaves the ring when its lease ends. An owner that takes the ring's
 * name with SNIB_KIND_WRITE has it without members: that is how to stop all of
 * them. */

struct snib_ring_membership;

/* Longest id in a membership. Allowed are A-Z a-z 0-9 . _ : @ / + - */
#define SNIB_RING_MEMBER_ID_MAX 64

struct snib_ring_options {
    size_t size;      /* SNIB_INIT(snib_ring_options)                       */
    int64_t lease_ms; /* 0: 10 000. How long a dead member stays */
    /* As in snib_lock_options: called when the membership is at risk, held
     * again, or lost. The caller leaves a lost membership, and joins anew. */
    void (*on_change)(void *data, struct snib_grant, snib_state, snib_cause);
    void *data;
};

/* Join the ring. Only a writer of its name delays that: snib_ring_join waits
 * for it without a limit, snib_ring_try does not, snib_ring_try_for waits for
 * at most wait_ms. Each may take one request_ms more. A client may have several
 * memberships, under different ids. options may be NULL. *ret is NULL on error.
 *
 * Errors of snib_ring_join: BUSY (a live member has this id), USAGE (the id),
 * LIMIT (what the store shows of a holder has no room for the id), and those of
 * snib_lock_new, snib_acquire and snib_client_inspect, never LOST, DEADLOCK
 * (each membership has an owner of its own, which holds nothing else),
 * CANCELLED (nobody else has the handle), TOO_MANY (it is a read lock). Errors
 * of snib_ring_try: BUSY (or a writer has the ring: the text says which), and
 * those of snib_ring_join. Errors of snib_ring_try_for: BUSY (or a writer has
 * the ring, and wait_ms <= 0), TIMEOUT, and those of snib_ring_join. */
SNIB_API SNIB_CHECK snib_err snib_ring_join(struct snib_client *,
                                            const char *name, size_t name_size,
                                            const char *id,
                                            const struct snib_ring_options *,
                                            struct snib_ring_membership **ret,
                                            struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_ring_try(struct snib_client *,
                                           const char *name, size_t name_size,
                                           const char *id,
                                           const struct snib_ring_options *,
                                           struct snib_ring_membership **ret,
                                           struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_ring_try_for(
    struct snib_client *, const char *name, size_t name_size, const char *id,
    int64_t wait_ms, const struct snib_ring_options *,
    struct snib_ring_membership **ret, struct snib_error *reterr);

/* The same, started: it ends in SNIB_EVENT_DONE (snib/event.h), and *ret is
 * written when that is taken. For pull clients, too. snib_client_cancel ends it
 * (CANCELLED, or UNKNOWN). After an error nothing is held. Errors of
 * snib_ring_join_start: USAGE, LIMIT (no thread or file descriptor is left),
 * CLOSED, FORKED, NOMEM; all others come with the event. Errors of
 * snib_ring_try_start: those of snib_ring_join_start. Errors of
 * snib_ring_try_for_start: those of snib_ring_join_start. */
SNIB_API SNIB_CHECK snib_err snib_ring_join_start(
    struct snib_client *, const char *name, size_t name_size, const char *id,
    const struct snib_ring_options *, struct snib_ring_membership **ret,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_ring_try_start(
    struct snib_client *, const char *name, size_t name_size, const char *id,
    const struct snib_ring_options *, struct snib_ring_membership **ret,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_ring_try_for_start(
    struct snib_client *, const char *name, size_t name_size, const char *id,
    int64_t wait_ms, const struct snib_ring_options *,
    struct snib_ring_membership **ret, void *user, uint64_t *ret_ticket,
    struct snib_error *reterr);

/* Read the ring as the store has it now, by snib_client_inspect and
 * snib_ring_of_view. For members and others. Ask again each second or so, and
 * compare fingerprints: hand over then what moved meanwhile. Errors: those of
 * snib_client_inspect and snib_ring_new. */
SNIB_API SNIB_CHECK snib_err snib_ring_read(struct snib_client *,
                                            const char *name, size_t name_size,
                                            struct snib_ring **ret,
                                            struct snib_error *reterr);

/* The same, started: it ends in SNIB_EVENT_DONE (snib/event.h). For pull
 * clients, too. Errors: those of snib_client_inspect_start. */
SNIB_API SNIB_CHECK snib_err
snib_ring_read_start(struct snib_client *, const char *name, size_t name_size,
                     struct snib_ring **ret, void *user, uint64_t *ret_ticket,
                     struct snib_error *reterr);

/* True when the membership is held at this instant (by the clock, no I/O) and
 * its member owns the key in this ring. */
SNIB_API bool snib_ring_mine(const struct snib_ring_membership *,
                             const struct snib_ring *, const void *key,
                             size_t key_size);

/* Leave the ring and free the membership, whatever is returned. NULL is
 * allowed: OK. Call it before the client is freed. In a pull client it gives
 * the membership back in the background, and answers USAGE. Errors: those of
 * snib_release, never WRONG_OWNER (any thread may leave), NOT_HELD (a
 * membership ends once). */
SNIB_API snib_err snib_ring_leave(struct snib_ring_membership *,
                                  struct snib_error *reterr);

/* The same, started: it ends in SNIB_EVENT_DONE, and is not cancelled. On OK the
 * membership is the library's; after an error it still is the caller's. Errors:
 * USAGE (NULL: there is no client to have the event), LIMIT (no file descriptor
 * is left), CLOSED (as snib_release), FORKED, NOMEM; all others come with the
 * event. */
SNIB_API SNIB_CHECK snib_err
snib_ring_leave_start(struct snib_ring_membership *, void *user,
                      uint64_t *ret_ticket, struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
