/* snib/ring.h — who is responsible for a key: consistent hashing.
 *
 * A *ring* is a set of members (strings) and answers, for any key, which of
 * them owns it. All who have the same set agree, on every host, in every
 * language and release (docs/RING.md has the formula). When a member joins or
 * leaves only the keys that it takes or gives away change their owner; all
 * others stay where they are. Use it to split work (partitions, caches,
 * tenants) among the workers that are alive.
 *
 * What it is not: exclusion. Two who have different sets, because one has not
 * heard yet of a member that came or went, may both think that they own a key.
 * Where that would do harm the owner takes the lock of the key, too: nearly
 * always at once, since nearly always nobody else wants it.
 *
 * A ring is immutable: make a new one when the set changes. Rings do no I/O and
 * read no clock; any thread, any number of threads at a time; also after fork.
 * Places (below) keep the set itself, by leases in a store. */
#ifndef SNIB_RING_H
#define SNIB_RING_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIB_RING_MEMBERS_MAX ((size_t)4096)
#define SNIB_RING_ID_MAX      ((size_t)512)
#define SNIB_RING_WEIGHT_MAX  UINT32_C(100)

/* Returned for "no member": the ring is empty. */
#define SNIB_RING_NOBODY SIZE_MAX

struct snib_ring;

struct snib_ring_member {
    const char *id;  /* any bytes, 1 to SNIB_RING_ID_MAX                    */
    size_t id_size;  /* 0: strlen                                           */
    uint32_t weight; /* share of the keys, 1 to SNIB_RING_WEIGHT_MAX; 0: 1  */
};

/* Make a ring of these members; everything is copied. Their order does not
 * matter. count 0 is a ring that nobody owns anything of. *ret is NULL on
 * error. Errors: USAGE (an id that is empty, too long or there twice, a
 * weight out of bounds), LIMIT (too many members), NOMEM. */
SNIB_API SNIB_CHECK snib_err snib_ring_new(const struct snib_ring_member *,
                                           size_t count, struct snib_ring **ret,
                                           struct snib_error *reterr);

/* A ring of those who hold a lock, as snib_inspect showed it. The id is the
 * holder's reason, or, when that is "", its client id (snib_party.owner); an
 * id that is there twice counts once; all weights are 1. Errors: LIMIT, NOMEM
 * (as snib_ring_new), USAGE (a NULL). */
SNIB_API SNIB_CHECK snib_err snib_ring_of_view(const struct snib_view *,
                                               struct snib_ring **ret,
                                               struct snib_error *reterr);

/* NULL is allowed. */
SNIB_API void snib_ring_free(struct snib_ring *);

/* The members, numbered by their ids in ascending order of bytes: the same
 * numbers for all who have the same set. id of a number: NUL-terminated, valid
 * as long as the ring; NULL for a number that there is not. *ret_size may be
 * NULL. */
SNIB_API size_t snib_ring_count(const struct snib_ring *);
SNIB_API const char *snib_ring_id(const struct snib_ring *, size_t number,
                                  size_t *ret_size);
/* The number of this id, or SNIB_RING_NOBODY. id_size 0: strlen. */
SNIB_API size_t snib_ring_find(const struct snib_ring *, const char *id,
                               size_t id_size);

/* The number of the key's owner, or SNIB_RING_NOBODY. key_size is exact (0: the
 * empty key). Time: proportional to the sum of the weights, some ns each. */
SNIB_API size_t snib_ring_owner(const struct snib_ring *, const void *key,
                                size_t key_size);

/* The first max owners in order: the owner, who would own the key if that left,
 * and so on. Returns how many (at most the members). */
SNIB_API size_t snib_ring_owners(const struct snib_ring *, const void *key,
                                 size_t key_size, size_t *ret, size_t max);

/* A number of the set: equal sets of ids and weights have equal ones, others
 * nearly always another. To log, and to compare what two hosts believe. */
SNIB_API uint64_t snib_ring_fingerprint(const struct snib_ring *);

/* -- places: membership by lease --------------------------------------------
 *
 * A member has a *place*: a SNIB_READ lock of the ring's name, renewed in the
 * background, with the member's id as its reason. Who dies, freezes or is cut
 * off leaves the ring when its lease ends. Whoever takes the ring's name with
 * SNIB_WRITE has it without members: that is how to stop all of them. */

struct snib_ring_membership;

/* Longest id of a member with a place; of A-Z a-z 0-9 . _ : @ / + - */
#define SNIB_RING_MEMBER_ID_MAX 64

struct snib_ring_options {
    size_t size;      /* SNIB_INIT(snib_ring_options)                       */
    int64_t lease_ms; /* 0: 10 000. How long a dead member is in the ring   */
    int64_t wait_ms;  /* as for snib_acquire; only a writer makes it wait   */
    /* As in snib_lock_options: told when the place is at risk, held again, or
     * lost. A lost place is left, and joined anew, by the caller. */
    void (*on_change)(void *data, struct snib_grant, snib_state, snib_cause);
    void *data;
};

/* Take a place. Blocks up to wait_ms and one request_ms. A client may have
 * several, under different ids. NULL options: waits for ever. Errors: BUSY (a
 * writer has the ring, with wait_ms 0; or a live member has this id: the text
 * says which), USAGE (the id), LIMIT (what the store shows of a holder has no
 * room for the id), and those of snib_lock_new, snib_acquire and snib_inspect,
 * never LOST, DEADLOCK (each place has an owner of its own, which holds nothing
 * else), CANCELLED (nobody else has the handle), TOO_MANY (a place is a read
 * lock). *ret is NULL on error. */
SNIB_API SNIB_CHECK snib_err snib_ring_join(struct snib_client *,
                                            const char *name, size_t name_size,
                                            const char *id,
                                            const struct snib_ring_options *,
                                            struct snib_ring_membership **ret,
                                            struct snib_error *reterr);

/* The ring as the store has it now: snib_inspect and snib_ring_of_view. For
 * members and others. Ask again each second or so, and compare fingerprints:
 * what moved meanwhile is handed over then. Errors: those of snib_inspect and
 * snib_ring_new. */
SNIB_API SNIB_CHECK snib_err snib_ring_read(struct snib_client *,
                                            const char *name, size_t name_size,
                                            struct snib_ring **ret,
                                            struct snib_error *reterr);

/* True when the place is held at this instant (by the clock, no I/O) and its
 * member owns the key in this ring. */
SNIB_API bool snib_ring_mine(const struct snib_ring_membership *,
                             const struct snib_ring *, const void *key,
                             size_t key_size);

/* Leave the ring and free the place, whatever is returned. NULL is allowed: OK.
 * Before its client is freed. Errors: those of snib_release, never WRONG_OWNER
 * (any thread may leave), NOT_HELD (a place is left once), USAGE (it is of a
 * client that blocks). */
SNIB_API snib_err snib_ring_leave(struct snib_ring_membership *,
                                  struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
