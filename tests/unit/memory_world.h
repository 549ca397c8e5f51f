/* tests/unit/memory_world.h — spaces in memory, their clients, what is asked of
 * them and what that shows: see test_memory_same.c. */
#ifndef SNIB_TESTS_UNIT_MEMORY_WORLD_H
#define SNIB_TESTS_UNIT_MEMORY_WORLD_H

#include "same_dice.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "core/rules/rules.h"
#include "store/memory/memory.h"

enum { CLIENTS = 6, ASKED = 20, NAMES = 6 };

struct client {
    void *inst; /* NULL: not open                                           */
    int space;
    struct snib__out out;
    uint64_t id[2];
};

struct asked {
    struct snib__request r, was;
    struct snib_error error;
    struct snib__buf rows;
    int client;
    bool used, holds;
};

static struct {
    struct client client[CLIENTS];
    struct asked asked[ASKED];
    struct snib__name name[NAMES];
    struct asked other; /* what is asked of one that is there               */
    struct asked value[2];
    int64_t now_us, version[NAMES], highest;
    uint64_t ids;
    int64_t ns, grid; /* grid: time goes by in multiples of it; 0: anyhow   */
    uint32_t batches;
    int names;  /* so many of them are used                                 */
    bool reads; /* mostly readers and writers                               */
    bool fails, no_bells, old;
} w;

/* -- the host ---------------------------------------------------------------------- */

int __real_eventfd(unsigned value, int flags);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    int64_t us = w.now_us + (clock == CLOCK_REALTIME ? 1790000000000000 : 0);
    *ret = (struct timespec){.tv_sec = us / 1000000,
                             .tv_nsec = us % 1000000 * 1000 + w.ns};
    return 0;
}

int __wrap_eventfd(unsigned value, int flags)
{
    say("eventfd", value);
    say("flags", flags == (EFD_CLOEXEC | EFD_NONBLOCK));
    errno = EMFILE;
    return w.no_bells ? -1 : __real_eventfd(value, flags);
}

/* -- clients ------------------------------------------------------------------------- */

static void open_one(int i)
{
    static const char *const spaces[] = {"one", "", NULL, "two"};
    static char clock[] = "clock", other[] = "clocks", real[] = "real",
                virtual[] = "virtual", wrong[] = "virtuals", empty[] = "";
    struct client *c = &w.client[i];
    struct snib__url url = {0};
    struct snib_error e = {0};
    c->space = (int)below(4);
    url.path = (char *)(uintptr_t)spaces[c->space];
    if (c->space % 2 == 0 || one_in(9)) {
        url.query[url.queries].key = one_in(20) ? other : clock;
        url.query[url.queries++].value = one_in(12)   ? wrong
                                         : one_in(20) ? empty
                                                      : virtual;
    }
    if (one_in(9)) {
        url.query[url.queries].key = clock;
        url.query[url.queries++].value = real;
    }
    c->id[0] = below(4);
    c->id[1] = below(2);
    memset(&c->out, 0, sizeof c->out);
    struct snib__store_config cfg = {.url = &url,
                                     .out = &c->out,
                                     .request = snib__ms(2000),
                                     .client = {c->id[0], c->id[1]}};
    w.no_bells = one_in(40);
    if (w.fails && one_in(3)) {
        snib__mem_fail_at(1 + (int64_t)below(4), false);
    }
    snib_err err = snib__memory_ops.open(&cfg, &c->inst, &e);
    snib__mem_fail_at(0, false);
    w.no_bells = false;
    say_line("opens", i);
    say("space", c->space);
    say("err", err);
    say("code", e.code);
    say_text("text", err == SNIB_ERR_LIMIT ? "" : e.text);
    assert_true(err ? !c->inst : c->inst != NULL);
}

static void close_one(int i)
{
    struct client *c = &w.client[i];
    say_line("closes", i);
    snib__memory_ops.free(c->inst);
    c->inst = NULL;
    for (int k = 0; k < ASKED; k++) {
        struct asked *a = &w.asked[k];
        a->used = a->used && a->client != i;
    }
    say("alive", snib__mem_alive());
}

/* Whose bell has something to read; and what some of them hear. */
static void bells(void)
{
    for (int i = 0; i < CLIENTS; i++) {
        struct client *c = &w.client[i];
        if (!c->inst) {
            continue;
        }
        struct pollfd p = {.fd = snib__memory_ops.notifier_fd(c->inst),
                           .events = POLLIN};
        say("bell", poll(&p, 1, 0));
        if (one_in(8)) {
            uint64_t ids[64][2];
            uint32_t n = snib__memory_ops.notified(c->inst, ids,
                                                   (uint32_t)ANY_OF(0, 1, 64));
            say("hears", n);
            for (uint32_t k = 0; k < n; k++) {
                say("id", (int64_t)ids[k][0]);
                say(".", (int64_t)ids[k][1]);
            }
            say("still", poll(&p, 1, 0));
        }
    }
}

static int any_client(void)
{
    int i = (int)below(CLIENTS);
    for (int n = 0; n < CLIENTS; n++) {
        if (w.client[(i + n) % CLIENTS].inst) {
            return (i + n) % CLIENTS;
        }
    }
    return -1;
}

static int64_t now_ms(int client)
{
    snib_instant at;
    if (snib__memory_clock(w.client[client].inst, &at)) {
        return at.ns / MS + INT64_C(1700000000000);
    }
    return w.now_us / 1000 + INT64_C(1790000000000);
}

/* -- asking -------------------------------------------------------------------------- */

/* What stands in its fields was said to another request. */
static void prepare(struct asked *a)
{
    struct snib__request *r = &a->r;
    snib__buf_free(&a->rows);
    snib__buf_init(&a->rows, one_in(20) ? 100 : 1 << 20);
    a->error = (struct snib_error){SNIB_ERR_INTERNAL, "of another"};
    r->said.reterr = one_in(12) ? NULL : &a->error;
    r->said.result = &a->rows;
    r->said.answer =
        r->said.answer == SNIB__QUEUED ? SNIB__QUEUED : SNIB__PENDING;
    r->said.err = SNIB_ERR_INTERNAL;
    r->said.revoked = one_in(2);
    r->said.valid_from = (snib_instant){77};
    r->said.left = snib__ms(77);
    r->said.position = 9;
    r->said.slot = 9;
    r->said.granted = 9;
    say_line("asks", a->client);
    say_request(&a->r);
    say("amount", a->r.params.amount);
}

static void hear(struct asked *a)
{
    struct snib__request *r = &a->r;
    say_line("  is", a->client);
    say_answer(r);
    assert_int_not_equal(r->said.answer, SNIB__PENDING);
    if (r->said.answer == SNIB__DONE && r->verb == SNIB__ACQUIRE) {
        assert_true(r->token > 0);
    }
    if (r->verb < SNIB__PARAMS && r->token > w.highest) {
        w.highest = r->token;
    }
}

static void execute(int client, struct asked *v[], int n)
{
    struct snib__list chain;
    snib__list_init(&chain);
    for (int i = 0; i < n; i++) {
        v[i]->client = client;
        prepare(v[i]);
        snib__link_init(&v[i]->r.link);
        snib__list_push(&chain, &v[i]->r.link);
    }
    if (w.fails && one_in(4)) {
        int64_t nth = 1 + (int64_t)below(5);
        snib__mem_fail_at(nth, one_in(4));
    }
    snib__memory_ops.exec(w.client[client].inst, (snib_instant){0}, &chain);
    snib__mem_fail_at(0, false);
    for (int i = 0; i < n; i++) {
        snib__unlink(&v[i]->r.link);
        hear(v[i]);
    }
    say("alive", snib__mem_alive());
}

#endif
