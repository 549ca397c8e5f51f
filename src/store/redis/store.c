/* store/redis/store.c — the store table: opening, stepping, freeing.
 *
 * Every step ends in the same way: what can be sent is sent, and a connection
 * whose buffer found no memory is cut. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/redis/redis_i.h"

static struct snib__redis *store_of(const struct snib__store *store)
{
    return (struct snib__redis *)(uintptr_t)store;
}

static void store_settle(struct snib__redis *s, snib_instant now)
{
    if (s->out->listens && snib__session_wanted(s, SUBS)) {
        snib__session_want(s, now, SUBS); /* does nothing if it is there */
    }
    snib__send_flush(s, now);
    for (int i = 0; i < SESSIONS; i++) {
        if (s->out->conn[i].out.failed) {
            snib__session_cut(s, now, i, true, SNIB_ERR_NOMEM, "out of memory",
                              false);
        }
    }
}

/* -- open ------------------------------------------------------------------ */

static bool store_parse_db(const char *text, uint32_t *ret)
{
    char *end;
    if (!*text) {
        return true;
    }
    unsigned long v = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || v > 65535) {
        return false;
    }
    *ret = (uint32_t)v;
    return true;
}

/* redis://host[:port][/db], redis+unix:///path?db=N, redis://…?socket=/path */
static snib_err store_addresses(struct snib__redis *s,
                                const struct snib__url *url,
                                struct snib_error *reterr)
{
    const char *path = url->path ? url->path : "";
    const char *db = snib__url_query(url, "db");
    const char *socket = snib__url_query(url, "socket");
    const char *wait = snib__url_query(url, "wait");
    char address[sizeof s->out->conn[0].address];
    size_t size = sizeof address;
    int n;
    for (uint32_t i = 0; i < url->queries; i++) {
        if (strcmp(url->query[i].key, "db") != 0 &&
            strcmp(url->query[i].key, "socket") != 0 &&
            strcmp(url->query[i].key, "wait") != 0) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%.60s: redis knows db=, socket= and wait=, not "
                              "%.40s=",
                              url->safe, url->query[i].key);
        }
    }
    if (wait && strcmp(wait, "spin") != 0 && strcmp(wait, "queue") != 0) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: wait is queue (as without it) or spin",
                          url->safe);
    }
    s->spin = wait && !strcmp(wait, "spin");
    if (!strcmp(url->scheme, "redis+unix")) {
        socket = path;
        path = "";
    }
    if (socket) {
        n = *socket == '/' ? snprintf(address, size, "%s", socket) : -1;
    } else if (!url->host) {
        n = -1;
    } else {
        n = snprintf(address, size,
                     strchr(url->host, ':') ? "[%s]:%u" : "%s:%u", url->host,
                     url->port ? url->port : 6379u);
    }
    if (n <= 0 || (socket && n > 107)) { /* a host has at most 253 bytes */
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: no usable host or socket path", url->safe);
    }
    if (!db && *path == '/') {
        db = path + 1;
    } else if (*path && strcmp(path, "/") != 0 && *path != '/') {
        db = "?";
    }
    if (db && !store_parse_db(db, &s->db)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: the database is a number, 0 to 65535",
                          url->safe);
    }
    for (int i = 0; i < SESSIONS; i++) {
        s->out->conn[i].used = true;
        memcpy(s->out->conn[i].address, address, size);
    }
    return SNIB_ERR_OK;
}

static void store_wipe(char *secret)
{
    if (secret) {
        explicit_bzero(secret, strlen(secret));
        snib__free(secret);
    }
}

static void store_redis_free(struct snib__store *store)
{
    struct snib__redis *s = store_of(store);
    if (!s) {
        return;
    }
    while (!snib__list_empty(&s->inspections)) {
        struct inspection *k = SNIB__CONTAINER(
            snib__list_first(&s->inspections), struct inspection, link);
        snib__inspect_end(s, k->rq);
    }
    for (int i = 0; i < SESSIONS; i++) {
        snib__resp_free(s->session[i].resp);
        struct flight f;
        while (snib__session_pop(&s->session[i], &f)) {
            snib__free(f.safe);
        }
        snib__free(s->session[i].ring);
    }
    snib__heap_free(&s->timers);
    snib__free(s->user);
    store_wipe(s->password);
    snib__free(s);
}

static snib_err store_redis_open(const struct snib__store_config *cfg,
                                 struct snib__store **ret,
                                 struct snib_error *reterr)
{
    const struct snib__url *url = cfg->url;
    struct snib__redis *s = snib__alloc(sizeof *s);
    *ret = NULL;
    if (!s) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    s->out = cfg->out;
    s->patience = cfg->request;
    s->wall_offset_ns = cfg->wall_offset_ns;
    snib__rng_init(&s->rng, &cfg->seed);
    snib__encode_hex(s->client, cfg->client);
    snib__list_init(&s->unsent[0]);
    snib__list_init(&s->unsent[1]);
    snib__list_init(&s->inspections);
    for (int k = 0; k < BUCKETS; k++) {
        snib__list_init(&s->waiting[k]);
    }
    snib__queue_channel(s);
    snib_err err = store_addresses(s, url, reterr);
    if (err) {
        store_redis_free((struct snib__store *)s);
        return err;
    }
    s->user = snib__strdup(url->user && *url->user ? url->user : NULL);
    s->password = snib__strdup(url->password);
    bool ok = (s->user || !url->user || !*url->user) &&
              (s->password || !url->password) && s->channel[0];
    for (int i = 0; i < SESSIONS && ok; i++) {
        s->session[i].rest = snib__ms(REST_FIRST_MS);
        ok = !snib__resp_new(SNIB__RESP_UNREAD_L, &s->session[i].resp);
        if (!cfg->out->conn[i].out.limit) {
            snib__buf_init(&cfg->out->conn[i].out, OUT_LIMIT);
        }
    }
    if (!ok) {
        store_redis_free((struct snib__store *)s);
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    if (s->user && !s->password) {
        store_redis_free((struct snib__store *)s);
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: a user without a password; expected "
                          "redis://:PASSWORD@HOST or "
                          "redis://USER:PASSWORD@HOST",
                          url->safe);
    }
    *ret = (struct snib__store *)s;
    return snib__ok(reterr);
}

/* -- steps ----------------------------------------------------------------- */

static void store_redis_start(struct snib__store *store, snib_instant now,
                              struct snib__list *chain)
{
    struct snib__redis *s = store_of(store);
    struct snib__link *l;
    while ((l = snib__list_pop(chain))) {
        snib__send_start(s, now,
                         SNIB__CONTAINER(l, struct snib__request, link));
    }
    store_settle(s, now);
}

static void store_tick(struct snib__redis *s, snib_instant now)
{
    struct snib__timer *t;
    for (int i = 0; i < SESSIONS; i++) {
        snib__session_tick(s, now, i);
    }
    while ((t = snib__heap_min(&s->timers)) && snib__reached(now, t->at)) {
        snib__heap_remove(&s->timers, t);
        snib__send_due(s, now, SNIB__CONTAINER(t, struct snib__request, timer));
    }
}

/* Why the connection is down, for people. A refusal names the address, because
 * the reader may have several stores. */
static void store_why_down(const struct snib__redis *s,
                           const struct snib__input *in, char *ret, size_t size)
{
    char raw[sizeof s->session[0].text];
    const char *why = in->bytes ? in->bytes : "";
    int length = (int)(in->bytes ? in->size : 0);
    if (in->kind == SNIB__IN_REFUSED) {
        snprintf(raw, sizeof raw, "no connection to %.*s: %.*s", ADDRESS_SHOWN,
                 s->out->conn[in->conn].address, length, why);
    } else {
        snprintf(raw, sizeof raw, "%.*s", length, why);
    }
    if (!*raw) {
        snprintf(raw, sizeof raw, "the connection was closed");
    }
    snib__redis_error_text(ret, size, raw, (uint32_t)strlen(raw));
}

static void store_redis_input(struct snib__store *store, snib_instant now,
                              const struct snib__input *in)
{
    struct snib__redis *s = store_of(store);
    int i = in->conn;
    char text[sizeof s->session[0].text];
    switch (in->kind) {
    case SNIB__IN_OPENED:
        if (i < SESSIONS && s->session[i].state == SESSION_OPENING) {
            snib__session_opened(s, now, i);
        }
        break;
    case SNIB__IN_BYTES:
        if (i < SESSIONS) {
            snib__session_bytes(s, now, i, in->bytes, in->size);
        }
        break;
    case SNIB__IN_CLOSED:
    case SNIB__IN_REFUSED:
        if (i >= SESSIONS || s->session[i].state == SESSION_DOWN ||
            s->session[i].state == SESSION_RESTING) {
            break;
        }
        if (s->session[i].state == SESSION_CLOSING) {
            s->session[i].state = SESSION_RESTING;
            break;
        }
        store_why_down(s, in, text, sizeof text);
        snib__session_cut(s, now, i, false, SNIB_ERR_UNREACHABLE, text, false);
        /* A server that was reached before is likely to come back: its name may
         * vanish while it restarts. */
        if (in->hopeless && i != SUBS && !s->ever) {
            snib__request_fail_callers(s, SNIB_ERR_UNREACHABLE, text);
        }
        break;
    case SNIB__IN_NOTIFIED:
        break;
    case SNIB__IN_TICK:
        store_tick(s, now);
        break;
    }
    store_settle(s, now);
}

static snib_instant store_redis_due(const struct snib__store *store)
{
    const struct snib__redis *s = store_of(store);
    snib_instant due = snib__heap_due(&s->timers);
    for (int i = 0; i < SESSIONS; i++) {
        due = snib__sooner(due, snib__session_due(s, i));
    }
    return due;
}

static void store_redis_state(const struct snib__store *store, snib_instant now,
                              struct snib__store_state *ret)
{
    snib__state_read(store_of(store), now, ret);
}

const struct snib__store_ops snib__redis_store_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__store_ops),
    .scheme = "redis",
    .caps = SNIB__CAN_QUEUE | SNIB__CAN_PUSH,
    .open = store_redis_open,
    .start = store_redis_start,
    .input = store_redis_input,
    .due = store_redis_due,
    .state = store_redis_state,
    .free = store_redis_free,
};
