/* demo/demo.h — the flash sale: what its files share.
 *
 *   requests.c  who wants what, from a seed
 *   shop.c      the order database (SQLite) and its fence
 *   worker.c    a process that serves requests, with or without a lock
 *   sale.c      starts workers, kills and freezes some, counts, judges
 */
#ifndef DEMO_H
#define DEMO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    PRODUCTS = 5,
    WORKERS_MAX = 64,
    REQUESTS_MAX = 20000,
    LEASE_MS = 1000 /* short, so that the frozen worker need not be so long */
};

/* -- requests ------------------------------------------------------------- */

struct request {
    uint32_t user;
    uint32_t product;
    uint32_t work_us; /* how long the price, the payment … take             */
};

/* Every user wants one product, the first product is the darling, and people
 * who wait press the button again. */
void make_requests(uint64_t seed, struct request *requests, uint32_t count);

/* -- the shop ------------------------------------------------------------- */

struct shop; /* one connection; not across fork()                           */

/* Make the database with this stock; anything there before is removed. */
bool shop_create(const char *path, const uint32_t stock[PRODUCTS]);
struct shop *shop_open(const char *path); /* NULL: said on stderr           */
void shop_close(struct shop *);

/* The fence's first half: raise the product's mark to token. Comes before the
 * first read of a section. False: somebody with a higher token was here. */
bool shop_enter(struct shop *, uint32_t product, int64_t token);
int64_t shop_left(struct shop *, uint32_t product);
bool shop_has_order(struct shop *, uint32_t user);
/* Write what was decided: the new stock and the order, in one transaction.
 * token 0 writes without asking the fence; else false means refused, because
 * the mark is no longer token (the fence's second half). */
bool shop_sell(struct shop *, uint32_t product, int64_t left, uint32_t user,
               int64_t token);
int64_t shop_mark(struct shop *, uint32_t product);

struct tally {
    int64_t sold, oversold, unsold, duplicates;
};
struct tally shop_tally(struct shop *);

/* -- the board: memory that all processes of a sale share ------------------- */

enum phase { PHASE_IDLE, PHASE_WAITING, PHASE_WORKING, PHASE_WRITING };

struct slot { /* one worker; written by it, read by the sale                */
    atomic_int phase;
    atomic_int product;
    atomic_llong token;
    atomic_uint refused; /* stale writes refused by the shop                */
    atomic_uint told;    /* of these: snib, too, had told that it was lost  */
};

struct board {
    atomic_uint ready, next, served, sold, failed;
    atomic_bool go;
    atomic_llong last_sale_us;
    struct slot slot[WORKERS_MAX];
    uint32_t count; /* requests                                             */
    struct request request[REQUESTS_MAX];
    atomic_uint wait_us[REQUESTS_MAX]; /* + 1, 0: not served                 */
};

int64_t clock_us(void);

/* The body of a worker process. url NULL: no lock. Returns the exit status. */
int work(struct board *, uint32_t me, const char *shop_path, const char *url);

#endif
