/* side_rules.c — clients of the memory store, with its virtual clock. */
#include <stdio.h>
#include <stdlib.h>

#include "side.h"
#include "store/memory/memory.h"

enum { WAITING = 64 };

static struct {
    void *client[CLIENTS];
    struct snib__out out[CLIENTS];
    struct asked *waiting[WAITING];
} rules;

void side_prepare(struct asked *a)
{
    a->error = (struct snib_error){0};
    a->r.said.reterr = &a->error;
    a->r.said.result = &a->rows;
    a->r.said.answer = SNIB__PENDING;
    a->r.said.err = SNIB_ERR_OK;
    a->told = false;
    snib__buf_free(&a->rows);
    snib__buf_init(&a->rows, 1 << 20);
}

static void side_rules_open(void)
{
    struct snib__url *url;
    struct snib_error e;
    memset(rules.waiting, 0, sizeof rules.waiting);
    if (snib__url_parse("memory:lua_rules?clock=virtual", &url, &e)) {
        abort();
    }
    for (int i = 0; i < CLIENTS; i++) {
        struct snib__store_config config = {
            .url = url, .out = &rules.out[i], .request = snib__ms(2000)};
        side_client_id(i, config.client);
        if (snib__memory_ops.open(&config, &rules.client[i], &e)) {
            abort();
        }
    }
    snib__url_free(url);
}

static void side_rules_close(void)
{
    for (int i = 0; i < CLIENTS; i++) {
        snib__memory_ops.free(rules.client[i]);
    }
}

static void side_rules_pass(int64_t ms)
{
    struct snib_error e;
    if (snib__memory_advance(rules.client[0], ms, &e)) {
        abort();
    }
}

static snib_instant side_rules_now(void)
{
    snib_instant now;
    if (!snib__memory_clock(rules.client[0], &now)) {
        abort();
    }
    return now;
}

static struct asked **side_rules_place(const struct asked *a)
{
    for (int i = 0; i < WAITING; i++) {
        if (rules.waiting[i] == a) {
            return &rules.waiting[i];
        }
    }
    return NULL;
}

/* Keep the one that waits where notified() can find it; forget any other. */
static void side_rules_answered(struct asked *a)
{
    struct asked **place = side_rules_place(a);
    bool waits = a->r.verb == SNIB__ACQUIRE && a->r.said.answer == SNIB__QUEUED;
    a->told = true;
    a->owned = waits;
    if (waits && !place && (place = side_rules_place(NULL))) {
        *place = a;
    } else if (!waits && place) {
        *place = NULL;
    }
}

static void side_rules_ask(int client, struct asked *const *a, int count)
{
    struct snib__list chain;
    snib__list_init(&chain);
    for (int i = 0; i < count; i++) {
        snib__link_init(&a[i]->r.link);
        snib__list_push(&chain, &a[i]->r.link);
    }
    snib__memory_ops.exec(rules.client[client], side_rules_now(), &chain);
    for (int i = 0; i < count; i++) {
        snib__unlink(&a[i]->r.link);
        side_rules_answered(a[i]);
    }
}

/* A poll is a repeat of the request. Started as one (PENDING) it arms the lease
 * of a grant anew, as the scripts do; a waiter that was notified (QUEUED) reads
 * its grant first. */
static void side_rules_poll(int client, struct asked *a)
{
    a->r.said.answer = SNIB__PENDING;
    side_rules_ask(client, &a, 1);
}

static struct asked *side_rules_waiting(const uint64_t id[2])
{
    for (int i = 0; i < WAITING; i++) {
        struct asked *a = rules.waiting[i];
        if (a && a->r.id[0] == id[0] && a->r.id[1] == id[1]) {
            return a;
        }
    }
    return NULL;
}

static void side_rules_hear(int client, bool lost, struct heard *h)
{
    uint64_t ids[HEARD][2];
    uint32_t n = snib__memory_ops.notified(rules.client[client], ids, HEARD);
    for (uint32_t i = 0; i < n && !lost; i++) {
        struct asked *a = side_rules_waiting(ids[i]);
        if (a) {
            side_rules_ask(client, &a, 1);
        } else {
            h->ended[h->count][0] = ids[i][0];
            h->ended[h->count++][1] = ids[i][1];
        }
    }
}

const struct side side_rules = {
    .name = "rules",
    .open = side_rules_open,
    .close = side_rules_close,
    .pass = side_rules_pass,
    .now = side_rules_now,
    .ask = side_rules_ask,
    .poll = side_rules_poll,
    .hear = side_rules_hear,
};
