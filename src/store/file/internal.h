/* store/file/internal.h — the pieces of one open lock file.
 *
 *   layout.h  what is in the file
 *   access.h  how memory is touched that other processes change
 *   shared.c  which file is the default, and who shares it (shared.h)
 *   stage.c   making a file that a group shares
 *   place.c   the path: which file is it, may it be trusted
 *   guard.c   does anybody use another file of that path
 *   map.c     opening: make it, check it, join those who use it
 *   room.c    room on the disk
 *   sweep.c   what a client does that is alone: find lost blocks, a new boot
 *   block.c   take a block, give one back
 *   root.c    copy a bucket; the one compare-and-swap that commits a step
 *   bucket.c  the records of a bucket
 *   book.c    the book of claims (core/rules/rules.h) over a copy
 *   lock.c    the last token and the params in it
 *   slot.c    slots, waking, deaths
 *   open.c    opens and frees an instance; the store's table
 *   exec.c    takes requests, makes steps, wakes, answers
 *   answer.c  what a request is told that could not be done
 *   look.c    inspect and list
 *   value.c   versioned values
 *   keep.c    what a power failure leaves of them
 *   doctor.c  the check-up
 *   cleaner.c forgets names that nobody used for a day
 *
 * A step: (1) read the root of the name's bucket; (2) copy its block into
 * memory of our own and look whether the root is still the same; (3) run the
 * rules on the copy; (4) write the outcome into a block that nobody else knows;
 * (5) swap the root, if it is still the same; (6) give the old block back; (7)
 * wake. A process that is killed or stopped before 5 has done nothing, and one
 * behind it everything but 6 and 7: the old block is lost until a sweep, and the
 * waiter finds its grant by its poll. Nobody ever waits for another.
 *
 * Threads: one thread at a time calls exec() and free(). Another one may call
 * notified() meanwhile; it touches struct snib__file_ear only. */
#ifndef SNIB__FILE_INTERNAL_H
#define SNIB__FILE_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>

#include "base/unset.h"
#include "core/rules/rules.h"
#include "store/file/file.h"
#include "store/file/layout.h"
#include "store/host.h"

#define SNIB__FILE_REMEDY "name another: file:PATH"
/* An open waits so long for another one that is alone in the file. */
#define SNIB__FILE_OPEN_MS 5000
/* The file grows by so much. */
#define SNIB__FILE_GROWTH (256 * 1024)
/* The largest file. */
#define SNIB__FILE_MOST                                                        \
    (sizeof(void *) > 4 ? (size_t)1 << 30 : (size_t)64 << 20)
/* So many blocks of the smallest classes are kept back. */
enum { SNIB__FILE_RESERVED = 8, SNIB__FILE_SMALL = 5 };
/* At most each so many ns, and at least each 10 ms more, since the clock may be
 * behind by so much, a client that works looks whether the file is still at its
 * path. */
#define SNIB__FILE_LOOK_NS INT64_C(5000000)
/* Between the look at a root and its change lies less than this; else the step
 * begins anew. Within it no bucket's version can come round. (While the machine
 * is suspended nobody makes steps, so that need not be counted.) */
#define SNIB__FILE_STALE_NS INT64_C(60000000000)
#define SNIB__FILE_NS_MOST  (INT64_MAX / 4)

/* -- place.c --------------------------------------------------------------- */

struct snib__place {
    char *path;  /* real directory + "/" + base */
    char *given; /* its directory as it was named; NULL: as in path */
    int dir;     /* O_PATH */
    int users;   /* the same, with a lock (guard.c); -1: it cannot be locked */
    int fd;
    uint64_t dev, ino;
    bool is_default; /* it was the default when its opening began */
    bool shared;     /* a group shares it */
    gid_t group;     /* the group, if shared */
    char fs[24];     /* "ext2/3/4", for doctor */
};

/* Find and check the file; make an empty one if there is none. "": the default
 * file; its directories are made, too. Errors: CONFIG, with the remedy in the
 * text; LIMIT, NOMEM, STORE. */
snib_err snib__place_open(struct snib__place *, const char *path,
                          const struct snib__host *, struct snib_error *reterr);
/* forked: this process is a child; leave what belongs to its parent. */
void snib__place_close(struct snib__place *, bool forked);
/* Does the path lead to another file by now, or to none? If not, *ret_size is
 * the file's. */
bool snib__place_moved(const struct snib__place *, uint64_t *ret_size);

/* -- guard.c --------------------------------------------------------------- */

/* From now on this client uses the file. CONFIG: others use another one of this
 * path, which was removed or replaced. LIMIT, NOMEM, STORE. */
snib_err snib__guard_enter(struct snib__place *, struct snib_error *reterr);
void snib__guard_leave(struct snib__place *);
/* Does any client, of this process too, use a file of this path, be it one that
 * was removed? ret_who: a process in words, or "". A directory that cannot be
 * reached or locked says no. Errors: CONFIG, LIMIT, NOMEM, STORE. */
snib_err snib__guard_is_used(const char *path, bool *ret,
                             char ret_who[SNIB__WHO],
                             struct snib_error *reterr);

/* -- the mapping ----------------------------------------------------------- */

struct snib__map {
    int fd;         /* the place's */
    uint8_t *base;  /* NULL: not mapped */
    size_t limit;   /* bytes that are mapped; the file may be shorter */
    uint32_t first; /* the first unit of the blocks */
    /* So long the file is known to be, whatever its head says: what lies
     * behind its end must not be touched. */
    _Atomic uint64_t there;
    struct snib__file_head *head;
    struct snib__file_slot *slots;
    snib__file_word *roots, *value_roots;
    uint32_t slot_count, root_count, value_root_count;
    int full; /* errno of the last try to get room; 0: none failed */
    /* Blocks of this client alone, one a class. */
    uint32_t spare[SNIB__FILE_SMALL];
    bool joined; /* it holds the shared flock, and is counted in `opened` */
    bool cut;    /* snib__map_is_cut() was true */
};

/* Map the file; make it or check it; join those who use it. While another
 * client is alone in it, or clients of another boot live, it tries again until
 * patience is over. Errors: CONFIG, LIMIT, NOMEM, STORE. */
snib_err snib__map_open(struct snib__map *, const struct snib__place *,
                        const struct snib__host *,
                        const struct snib__file_shape *, uint64_t key,
                        snib_duration patience, struct snib_error *reterr);
/* forked: this process is a child; leave what belongs to its parent. */
void snib__map_close(struct snib__map *, bool forked);
/* Has a stranger cut the file off, which had this size just now? To touch what
 * is gone ends the process. So from then on memory of our own stands in place of
 * all but the blocks, which nobody asks for any more. */
bool snib__map_is_cut(struct snib__map *, uint64_t size);
/* What the file's size is now; UINT64_MAX: it cannot be told. */
uint64_t snib__map_size(const struct snib__map *);
/* room.c: make room for these bytes. 0, or errno. */
int snib__map_allocate(const struct snib__map *, uint64_t from, uint64_t to);
/* A file that is still empty shall keep the room that is made for it, where that
 * has to be said (btrfs). Does it? */
void snib__map_keep_room(const struct snib__map *);
bool snib__map_keeps_room(const struct snib__map *);
/* Make sure that there is room for so many bytes. False: map->full says why
 * not. */
bool snib__map_room(struct snib__map *, uint64_t bytes);
/* Note in the head what time it is: see head->mark. */
void snib__map_mark(struct snib__map *, const struct snib__host *);
/* The sum over the constant part of the head. */
uint64_t snib__map_head_sum(const struct snib__file_head *);
uint64_t snib__map_hash(uint64_t start, const void *bytes, size_t size);

/* sweep.c: this client is alone, and holds the exclusive flock. Drop what a new
 * boot has made void, make the free stacks anew, and set what does not belong
 * to anybody free. */
snib_err snib__sweep(struct snib__map *, const struct snib__host *,
                     bool new_boot, struct snib_error *reterr);

/* Blocks that are in use, as a sweep finds them. */
struct snib__extents {
    struct snib__extent {
        uint32_t unit, class;
        uint64_t hash; /* of a value's name; else 0 */
        int64_t last;  /* its version */
        bool locks;    /* named by a root of locks */
        uint32_t bucket;
    } * v;
    size_t count, room;
};
/* False: no memory. */
bool snib__extents_add(struct snib__extents *, struct snib__extent);

/* -- block.c --------------------------------------------------------------- */

static inline uint32_t snib__block_units(uint32_t class)
{
    return (uint32_t)(SNIB__FILE_LEAST / SNIB__FILE_UNIT) << class;
}
static inline size_t snib__block_room(uint32_t class)
{
    return ((size_t)SNIB__FILE_LEAST << class) -
           sizeof(struct snib__file_block);
}
/* The class of a block for so many bytes; SNIB__FILE_CLASSES: there is none. */
uint32_t snib__block_class(size_t bytes);
/* NULL: there can be no block. */
struct snib__file_block *snib__block_at(struct snib__map *, uint32_t unit,
                                        uint32_t class);
/* Take a block. may_reserve: if there is no room otherwise, from the reserve;
 * *ret_reserved tells. 0: there is none. */
uint32_t snib__block_take(struct snib__map *, uint32_t class, bool may_reserve,
                          bool *ret_reserved);
/* Give a block back that nobody can reach any more. owed: the class of the
 * reserve that a block is owed to; SNIB__FILE_CLASSES: none. */
void snib__block_give(struct snib__map *, uint32_t unit, uint32_t class,
                      uint32_t owed);
/* The same, past the client's spare ones. */
void snib__block_push(struct snib__map *, snib__file_word *stack, uint32_t unit,
                      uint32_t class);
/* Take the first one off. 0: the stack is empty, or damaged. */
uint32_t snib__block_pop(struct snib__map *, snib__file_word *stack,
                         uint32_t class);
/* All spare blocks go back. */
void snib__block_give_spares(struct snib__map *);

/* -- root.c ---------------------------------------------------------------- */

/* A private copy of a bucket. */
struct snib__copy {
    uint8_t *bytes; /* ours */
    size_t used, room;
    snib__file_word *root;
    uint32_t bucket;
    enum snib__file_use use;
    uint64_t seen; /* the root as of the copy */
    uint32_t class;
};

typedef enum snib__root_end {
    SNIB__ROOT_DONE,
    SNIB__ROOT_LOST, /* another step came first: begin anew */
    SNIB__ROOT_FULL  /* there is no block for it: nothing has changed */
} snib__root_end;

/* Errors: NOMEM; CORRUPT: what is there is not a bucket; BUSY: others change it
 * so fast that no copy was whole. */
snib_err snib__root_copy(struct snib__map *, struct snib__copy *,
                         enum snib__file_use, uint32_t bucket);
/* Make the copy's bytes the bucket. gives_back: it may use the reserve. The
 * block that was the bucket before is the caller's then, *ret_old, 0: none; it
 * is given back already unless the bucket is one of values. */
snib__root_end snib__root_swap(struct snib__map *, struct snib__copy *,
                               bool gives_back, uint32_t *ret_old);
/* Is the root still what it was? */
bool snib__root_same(const struct snib__copy *);
bool snib__copy_room(struct snib__copy *, size_t bytes);

/* -- bucket.c -------------------------------------------------------------- */

#define SNIB__FILE_NONE SIZE_MAX

static inline struct snib__file_lock *snib__bucket_lock(struct snib__copy *c,
                                                        size_t at)
{
    return (struct snib__file_lock *)(void *)(c->bytes + at);
}
static inline struct snib__file_claim *snib__bucket_claim(struct snib__copy *c,
                                                          size_t at)
{
    return (struct snib__file_claim *)(void *)(c->bytes + at);
}
static inline size_t snib__file_padded(size_t n)
{
    return (n + 7) & ~(size_t)7;
}
/* Where the claims of a lock begin, as an offset from the lock. */
static inline size_t snib__bucket_claims(const struct snib__file_lock *l)
{
    return sizeof *l + snib__file_padded(l->name_size);
}
/* Do all records lie within the bytes, and say of each other what is true? */
bool snib__bucket_whole(const uint8_t *bytes, size_t used);
/* Where a name is; SNIB__FILE_NONE: nowhere. */
size_t snib__bucket_find(struct snib__copy *, const struct snib__name *);
/* The same; it is made if it is not there. NONE: no memory. */
size_t snib__bucket_make(struct snib__copy *, const struct snib__name *,
                         int64_t token);
void snib__bucket_drop(struct snib__copy *, size_t lock);
/* The sum of a lock as it is. */
uint32_t snib__bucket_sum(const struct snib__file_lock *);
/* Add a claim behind the others of the lock; NONE: no memory. */
size_t snib__bucket_add(struct snib__copy *, size_t lock,
                        const struct snib__file_claim *, const void *text);
void snib__bucket_remove(struct snib__copy *, size_t lock, size_t claim);
/* Give the claim another text; false: no memory, and nothing has changed. */
bool snib__bucket_retext(struct snib__copy *, size_t lock, size_t claim,
                         const void *text, size_t size);
static inline const void *snib__bucket_text(const struct snib__file_claim *c)
{
    return c + 1;
}

/* -- slot.c ---------------------------------------------------------------- */

enum { SNIB__FILE_WATCHES = 8 };

/* What this client hears: the ids that it was told, and deaths. */
struct snib__file_ear {
    pthread_mutex_t mutex; /* for all but the listening thread's own */
    _Atomic int epoll;     /* -1 until made */
    int event;             /* the same */
    uint32_t index;        /* of the slot */
    uint64_t owner;        /* 0: there is no slot */
    uint64_t taken;        /* how many of `told` were taken */
    struct snib__file_slot *slot;
    pthread_t thread; /* listens, once somebody polls */
    bool running;
    atomic_bool failed; /* it could not be started */
    atomic_bool stop;
    atomic_uint watching; /* so many watches */
    struct {
        uint64_t request[2]; /* 0: none waits behind it now */
        int64_t pid, start;
        int fd; /* pidfd; -1: free */
    } watch[SNIB__FILE_WATCHES];
};

bool snib__ear_init(struct snib__file_ear *);
void snib__ear_free(struct snib__file_ear *, bool forked);
/* Take a slot. Without success the client polls. */
void snib__ear_make(struct snib__file_ear *, struct snib__map *,
                    const struct snib__host *);
int snib__ear_fd(struct snib__file_ear *);
/* As notifier_word and notifier_polled in core/store.h. */
_Atomic uint32_t *snib__ear_word(struct snib__file_ear *, uint32_t *ret_value);
void snib__ear_polled(struct snib__file_ear *);
uint32_t snib__ear_take(struct snib__file_ear *, uint64_t (*ids)[2],
                        uint32_t max);
void snib__ear_watch(struct snib__file_ear *, const struct snib__host *,
                     const uint64_t request[2], int64_t pid, int64_t start,
                     int64_t pidns);
void snib__ear_unwatch(struct snib__file_ear *, const uint64_t request[2]);
/* Tell a client. False: it lives no more. */
bool snib__ear_tell(struct snib__map *, const struct snib__host *,
                    uint32_t index, uint64_t owner, const uint64_t id[2]);
/* How many slots are in use. */
uint32_t snib__ear_count(struct snib__map *);

/* -- the instance ---------------------------------------------------------- */

/* Whom to wake after a step. */
struct snib__file_told {
    uint64_t owner;
    uint32_t index;
    uint64_t request[2];
    int64_t token;
};
enum { SNIB__FILE_TELLS = 128 };

struct snib__file {
    struct snib__host host;
    struct snib__place place;
    struct snib__map map;
    struct snib__file_ear ear;
    uint64_t client[2];
    snib_duration patience;
    bool no_ear;         /* none could be made */
    snib_instant looked; /* when the path was looked at last */
    bool moved;          /* it leads elsewhere, or the file was cut off */
    uint64_t steps;
    snib_instant marked; /* when head->mark was raised last */
    /* The step under way. */
    struct snib__book book;
    struct snib__copy copy;
    const struct snib__name *name;
    size_t lock;        /* of that name, in the copy */
    snib_instant begun; /* snib__host_coarse() */
    bool changed, want_ear;
    int64_t floor; /* of all tokens, as of this step */
    /* Where the last walk through the claims has come to. */
    size_t cursor;
    int64_t cursor_id;
    bool thorough;                     /* the request has waited before */
    struct snib__stored_claim blocker; /* what the last request waits for */
    bool blocker_gone;                 /* … unless its pid is 0 */
    uint32_t tolds;
    struct snib__file_told told[SNIB__FILE_TELLS];
    struct snib__copy value; /* a value as it was read */
};

static inline struct snib__file *snib__book_file(struct snib__book *b)
{
    return SNIB__CONTAINER(b, struct snib__file, book);
}
static inline int64_t snib__file_bounded(int64_t n, int64_t least, int64_t most)
{
    return n < least ? least : n > most ? most : n;
}
static inline int64_t snib__file_sane_token(int64_t t)
{
    return snib__is_token(t) ? t : SNIB__TOKEN_END;
}

/* lock.c: operations of the book. */
int64_t snib__lock_token(struct snib__book *, const struct snib__name *);
void snib__lock_set_token(struct snib__book *, const struct snib__name *,
                          int64_t);
void snib__lock_mend_token(struct snib__book *, const struct snib__name *,
                           int64_t);
int64_t snib__lock_highest(struct snib__book *);
void snib__lock_params(struct snib__book *, const struct snib__name *,
                       struct snib__params *ret);
void snib__lock_set_params(struct snib__book *, const struct snib__name *,
                           const struct snib__params *);
/* The lock's record, made if it is not there; NULL: no memory. */
struct snib__file_lock *snib__lock_make(struct snib__file *);
/* The last token of a lock; SNIB__TOKEN_END: what is there is not one. */
int64_t snib__file_token_of(const struct snib__file_lock *);

/* book.c: begin a book over self->copy, which is that name's bucket. */
void snib__file_book(struct snib__file *, const struct snib__name *);
/* A record as a claim; numbers are held within their bounds. */
void snib__file_read_claim(const struct snib__file_claim *,
                           struct snib__stored_claim *ret);

uint32_t snib__file_bucket_of(const struct snib__map *,
                              const struct snib__name *);

/* exec.c */
void snib__file_exec(void *instance, snib_instant now,
                     struct snib__list *chain);
/* answer.c */
/* After so many lost swaps the limit is looked at, and others are let run. */
#define SNIB__FILE_LOST_MANY 8
/* Begin: read the coarse clock. Answer NOT_APPLIED: the file was removed,
 * replaced or cut off, or a link in its path was switched. True: it was. */
bool snib__file_moved(struct snib__file *, struct snib__request *);
/* Answer NOT_APPLIED: err of a copy, or SNIB_ERR_OK: there is no room. */
void snib__file_fail(struct snib__file *, struct snib__request *, snib_err);
void snib__file_no_token(const struct snib__file *, struct snib__request *);
/* Another step came first, for the n-th time. False: the request's limit has
 * come, and it is answered. */
bool snib__file_again(struct snib__file *, struct snib__request *, uint32_t n);

/* look.c, doctor.c, value.c: fill answer and result. */
void snib__file_look(struct snib__file *, struct snib__request *);
void snib__file_doctor(struct snib__file *, struct snib__request *);
void snib__file_value(struct snib__file *, struct snib__request *);

/* cleaner.c: visit some buckets. */
void snib__file_cleaner(struct snib__file *);

/* -- keep.c ---------------------------------------------------------------- */

/* A value block that is no longer in the index; now: read after the swap. last:
 * nothing is in its place, the name was forgotten. */
void snib__keep_retire(struct snib__map *, snib_instant now, uint32_t unit,
                       uint32_t class, bool last);
/* Write all to the disk, if that is due. */
void snib__keep_sync(struct snib__map *, const struct snib__host *);
/* Is there a whole value of this file in this block? *ret: it. */
bool snib__keep_is_value(struct snib__map *, uint32_t unit, uint32_t class,
                         const struct snib__file_value **ret);
/* Is this a whole value, of so many bytes, of the block `unit`? */
bool snib__keep_is_whole(const struct snib__map *, uint32_t unit,
                         const struct snib__file_value *, size_t used);
uint64_t snib__keep_sum(const struct snib__map *, uint32_t unit,
                        const struct snib__file_value *);
/* The value with its name and its bytes. */
static inline size_t snib__keep_size(uint32_t name_size, uint32_t bytes)
{
    return sizeof(struct snib__file_value) + snib__file_padded(name_size) +
           bytes;
}
/* The client is alone, after a power failure perhaps: make the indexes anew out
 * of the values that are there. *ret_last: the highest version seen. */
snib_err snib__keep_find(struct snib__map *, struct snib__extents *,
                         int64_t *ret_last);

/* open.c: as ops->open, with the facts of the host and the shape of a new file
 * given by a test. */
snib_err snib__file_open_on(const struct snib__store_config *,
                            const struct snib__host *,
                            const struct snib__file_shape *, void **ret,
                            struct snib_error *reterr);

#endif
