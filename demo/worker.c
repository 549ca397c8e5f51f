/* demo/worker.c — serve purchase requests: read, work, write.
 *
 * One lock per product, "sale:{product}": it protects the product's stock and
 * the decision to insert an order (a user wants one product only, so the lock
 * also covers "has this user ordered already").
 *
 * The worker does not ask snib_grant_held before it writes. A careful program
 * does, and it narrows the window; but a pause can always come between that
 * question and the write, so the last word is the shop's: it compares the
 * token. This worker leans on that alone, to show that it is enough. */
#include "demo.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <snib.h>

enum outcome { SOLD, SOLD_OUT, ALREADY, STALE };

struct worker {
    struct board *board;
    struct slot *slot;
    struct shop *shop;
    struct snib_client *client;
    struct snib_lock *lock[PRODUCTS];
};

int64_t clock_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void enter_phase(struct worker *w, enum phase phase)
{
    atomic_store(&w->slot->phase, phase);
}

/* What the lock protects. token 0: there is no lock. */
static enum outcome purchase(struct worker *w, const struct request *r,
                             int64_t token)
{
    if (token && !shop_enter(w->shop, r->product, token)) {
        return STALE;
    }
    int64_t left = shop_left(w->shop, r->product);
    if (shop_has_order(w->shop, r->user)) {
        return ALREADY;
    }
    if (left <= 0) {
        return SOLD_OUT;
    }
    enter_phase(w, PHASE_WORKING);
    usleep(r->work_us);
    enter_phase(w, PHASE_WRITING);
    return shop_sell(w->shop, r->product, left - 1, r->user, token) ? SOLD
                                                                    : STALE;
}

static void note(struct worker *w, uint32_t index, enum outcome outcome,
                 int64_t wait_us)
{
    if (outcome == SOLD) {
        atomic_fetch_add(&w->board->sold, 1);
        atomic_store(&w->board->last_sale_us, clock_us());
    }
    atomic_store(&w->board->wait_us[index], (unsigned)wait_us + 1);
    atomic_fetch_add(&w->board->served, 1);
}

/* Serve under the lock; again after a stale write. False: not served. */
static bool serve_locked(struct worker *w, const struct request *r,
                         uint32_t index)
{
    struct snib_lock *lock = w->lock[r->product];
    struct snib_grant grant;
    struct snib_error e;
    for (int tries = 0; tries < 5; tries++) {
        int64_t start = clock_us();
        enter_phase(w, PHASE_WAITING);
        if (snib_try_for(lock, 30000, NULL, &grant, &e)) {
            fprintf(stderr, "worker %d: %s: %s\n", (int)getpid(),
                    snib_err_name(e.code), e.text);
            continue;
        }
        int64_t wait = clock_us() - start;
        atomic_store(&w->slot->product, (int)r->product);
        atomic_store(&w->slot->token, grant.token);
        enum outcome outcome = purchase(w, r, grant.token);
        enter_phase(w, PHASE_IDLE);
        if (outcome == STALE) {
            atomic_fetch_add(&w->slot->refused, 1);
            atomic_fetch_add(&w->slot->told, !snib_grant_held(lock, grant));
        }
        (void)snib_release(lock, grant, NULL);
        if (outcome != STALE) {
            note(w, index, outcome, wait);
            return true;
        }
    }
    return false;
}

static void serve(struct worker *w, uint32_t index)
{
    const struct request *r = &w->board->request[index];
    if (!w->client) {
        note(w, index, purchase(w, r, 0), 0);
        enter_phase(w, PHASE_IDLE);
    } else if (!serve_locked(w, r, index)) {
        atomic_fetch_add(&w->board->failed, 1);
    }
}

static bool open_locks(struct worker *w, const char *url)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_lock_options lock = SNIB_INIT(snib_lock_options);
    struct snib_error e = {0};
    o.url = url;
    o.program = "flash-sale";
    lock.lease_ms = LEASE_MS;
    snib_err err = snib_client_open(&o, &w->client, &e);
    for (uint32_t i = 0; !err && i < PRODUCTS; i++) {
        char name[32];
        snprintf(name, sizeof name, "sale:%u", i);
        err = snib_lock_new(w->client, name, &lock, &w->lock[i], &e);
    }
    if (err) {
        fprintf(stderr, "worker: %s: %s\n", snib_err_name(err), e.text);
    }
    return err == SNIB_ERR_OK;
}

int work(struct board *board, uint32_t me, const char *shop_path,
         const char *url)
{
    struct worker w = {.board = board, .slot = &board->slot[me]};
    w.shop = shop_open(shop_path);
    if (!w.shop || (url && !open_locks(&w, url))) {
        return 1;
    }
    atomic_fetch_add(&board->ready, 1);
    while (!atomic_load(&board->go)) {
        usleep(200);
    }
    uint32_t index;
    while ((index = atomic_fetch_add(&board->next, 1)) < board->count) {
        serve(&w, index);
    }
    for (uint32_t i = 0; i < PRODUCTS; i++) {
        snib_lock_free(w.lock[i]);
    }
    snib_client_free(w.client);
    shop_close(w.shop);
    return 0;
}
