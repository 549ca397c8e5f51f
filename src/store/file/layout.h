/* store/file/layout.h — what is in a lock file.
 *
 *   head     4 KiB: what the file is, its size, the heads of the free stacks
 *   slots    256 bytes for each client that may have to be woken
 *   roots    8 bytes for each bucket of names
 *   value roots  the same for versioned values
 *   blocks   512 bytes << class
 *
 * A root is version << 32 | block, and so is the head of a stack; a block is
 * named by its offset in units of 64 bytes, and 0 is none. The version makes a
 * compare-and-swap fail when the block is the same one again but something
 * happened in between. All numbers are in the byte order of the host: nobody
 * else can use the file. */
#ifndef SNIB__FILE_LAYOUT_H
#define SNIB__FILE_LAYOUT_H

#include "core/version.h"
#include "store/file/access.h"

#define SNIB__FILE_MAGIC  "snibfile"  /* 8 bytes, without the NUL */
#define SNIB__FILE_MAKING "snib\0new" /* in its place while the file is made */
#define SNIB__FILE_LAYOUT 1

enum {
    SNIB__FILE_UNIT = 64,
    SNIB__FILE_LEAST = 512, /* the smallest block */
    SNIB__FILE_CLASSES = 17 /* the largest: 32 MiB */
};

/* The parts of a file of production; tests make smaller ones. */
struct snib__file_shape {
    uint32_t slots, roots, value_roots; /* roots: powers of two */
};

struct snib__file_head {
    char magic[8]; /* written first and last, when the file is made */
    uint32_t layout;
    struct snib__file_shape shape;
    uint64_t key; /* random: goes into the sums of this file's blocks */
    int64_t made_ms;
    uint64_t sum;  /* of all above, and of `host` */
    char host[64]; /* only to be shown */
    char boot[40]; /* claims of another boot count no more */
    /* Words that are changed often lie in lines of their own. */
    _Alignas(64) snib__file_word size;  /* bytes for which there is room */
    _Alignas(64) snib__file_word top;   /* first unit that was never used */
    _Alignas(64) snib__file_word floor; /* no token is below it */
    /* No less than what was given some time ago; raised now and then. */
    snib__file_word mark;
    snib__file_word version_floor; /* of values that were forgotten */
    /* Up to here changes of any value may have been lost by a power failure. */
    snib__file_word version_least;
    snib__file_word sync_begun;          /* when the last fdatasync began */
    snib__file_word synced_from;         /* when the last complete one began */
    snib__file_word waiting;             /* bytes on `retired` and `kept` */
    _Alignas(64) snib__file_word owners; /* numbers of owners of slots */
    /* Clients that came, and that went in good order. If they differ when
     * nobody lives, some were killed, and blocks are missing. */
    snib__file_word opened, closed;
    snib__file_word cursor; /* of the cleaner */
    _Alignas(64) snib__file_word stack[SNIB__FILE_CLASSES];
    /* For steps that only give back, when the disk is full. */
    _Alignas(64) snib__file_word reserve[SNIB__FILE_CLASSES];
    /* Blocks of values that were replaced: they must stay as they are until a
     * later fdatasync is complete (keep.c). */
    _Alignas(64) snib__file_word retired;
    /* Those of them that a client has looked at and found too young, until it has
     * looked at all. */
    snib__file_word kept;
};

enum { SNIB__FILE_HEAD = 4096 };
_Static_assert(sizeof(struct snib__file_head) <= SNIB__FILE_HEAD, "one page");

/* What a block is in use for. */
enum snib__file_use {
    SNIB__FILE_FREE = 0,
    SNIB__FILE_LOCKS = 0x6b636f6c, /* "lock": a bucket of locks */
    SNIB__FILE_INDEX = 0x65646e69, /* "inde": a bucket of values */
    SNIB__FILE_VALUE = 0x756c6176  /* "valu": a value */
};

struct snib__file_block {
    snib__file_word next; /* on a stack: the next one */
    uint32_t use;
    uint32_t class;
    uint32_t used;   /* bytes behind this head */
    uint32_t bucket; /* whose */
    uint64_t when;   /* of a value, retired: since when (BOOTTIME) */
};

/* -- locks ------------------------------------------------------------------ */

/* A name, followed by its bytes and its claims, each of which is padded to a
 * multiple of 8. */
struct snib__file_lock {
    uint32_t size; /* of all of that */
    uint32_t claims;
    uint32_t name_size;
    uint32_t sum; /* of what outlives a boot: name, token, params */
    uint64_t hash;
    int64_t token; /* the last one, reserve included */
    int64_t permits, latch;
    int64_t arrivals;
};

struct snib__file_claim {
    uint32_t size; /* with its text, padded */
    uint16_t text_size;
    uint8_t state, kind;
    uint64_t request[2], client[2], upgrade_of[2];
    int64_t id, token, floor, lease, delay, since, until;
    int64_t pid, start, pidns;
    uint64_t owner; /* of the slot to be woken; 0: none */
    uint32_t index; /* of that slot */
    uint32_t permits, reserve, slot;
    int32_t rank;
    uint32_t unused;
    /* the text: about; of REVOKED: who forced it, and why */
};

/* -- values ----------------------------------------------------------------- */

/* An entry of an index. The value itself is a block that says all about
 * itself, so that it is found again after a power failure, which may leave
 * roots and indexes as they never were together. */
struct snib__file_entry {
    uint64_t hash;
    uint32_t block, class;
};

/* Behind the block's head; the name and the bytes follow. */
struct snib__file_value {
    uint64_t sum; /* of all behind it, of the key and of the block's place */
    uint64_t hash;
    int64_t until_ms; /* Unix time: a value outlives a boot */
    uint32_t name_size, bytes;
    uint8_t record[SNIB__VERSION_BYTES];
};

/* -- slots ------------------------------------------------------------------ */

enum { SNIB__FILE_TOLD = 7 };

struct snib__file_slot {
    snib__file_word owner; /* never the same twice; 0: free */
    /* Two futexes; raised by whoever wakes. `call` is odd while a caller's
     * thread of that client sleeps on it; then `word` is left alone. */
    _Atomic uint32_t word, call;
    snib__file_word told;      /* how many ids were told */
    int64_t pid, start, pidns; /* of the owner `whose`, who may be gone */
    snib__file_word whose;
    uint64_t spare;
    struct {
        snib__file_word turn; /* which one of `told` is here */
        snib__file_word id[2];
    } tell[SNIB__FILE_TOLD];
    uint64_t end[3];
};
_Static_assert(sizeof(struct snib__file_slot) == 256, "four lines");

#endif
