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

static bool store_wanted(const struct snib__redis *s, int i)
{
    switch (i) {
    case CALLERS:
        return s->owned > 0;
    case BACKGROUND:
        return !snib__list_empty(&s->unsent[1]);
    default:
        break;
    }
    if (s->queued || s->held ||
        ((s->heard || s->out->listens) && s->out->holds)) {
        return true;
    }
    SNIB__LIST_EACH (l, &s->inspections) {
        if (SNIB__CONTAINER(l, struct inspection, link)->waits_subs) {
            return true;
        }
    }
    return false;
}

static void store_settle(struct snib__redis *s, snib_instant now)
{
    if (s->out->listens && store_wanted(s, SUBS)) {
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
        snib__inspection_end(s, k->rq);
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

/* -- time ------------------------------------------------------------------ */

/* These two say when an overdue answer is noticed, and when it closes the
 * connection. A process that stood still may find that both instants have
 * passed while the answer lies unread in its socket. So the server gets a
 * moment more, counted from the step in which we noticed. */
static snib_instant store_notice_at(const struct snib__redis *s,
                                    const struct session *l)
{
    return snib__after(l->ring[l->head].sent,
                       (snib_duration){s->patience.ns / QUIET_PART});
}

static snib_instant store_close_at(const struct snib__redis *s,
                                   const struct session *l)
{
    return snib__later(snib__after(l->ring[l->head].sent, s->patience),
                       snib__state_silent_at(s, l));
}

static snib_instant store_session_due(const struct snib__redis *s, int i)
{
    const struct session *l = &s->session[i];
    snib_instant due = SNIB__NEVER;
    switch (l->state) {
    case SESSION_OPENING:
    case SESSION_CLOSING:
        return snib__after(l->since, s->patience);
    case SESSION_RESTING:
        return store_wanted(s, i) ? l->rest_until : SNIB__NEVER;
    case SESSION_READY:
        if (i == SUBS && s->queued + s->held > 0) {
            due = l->ping_at;
        }
        break;
    case SESSION_HELLO:
    case SESSION_REPLICA:
    case SESSION_SELECT:
    case SESSION_PROBE:
    case SESSION_TIME:
    case SESSION_SUBSCRIBE:
        break;
    case SESSION_DOWN:
        return SNIB__NEVER;
    }
    if (l->count) {
        due = snib__sooner(due, l->overdue.ns ? store_close_at(s, l)
                                              : store_notice_at(s, l));
    }
    return due;
}

static void store_ping(struct snib__redis *s, snib_instant now)
{
    struct session *l = &s->session[SUBS];
    l->ping_at = snib__after(now, snib__ms(POLL_MS));
    if (l->count || !snib__session_has_room(s, SUBS, 1)) {
        return; /* a PING is awaited: its silence will tell */
    }
    snib__resp_begin(&s->out->conn[SUBS].out, 1);
    snib__resp_arg(&s->out->conn[SUBS].out, "PING", 4);
    snib__session_push(
        s, SUBS, &(struct flight){.job = JOB_PING, .sent = now, .last = true});
}

static void store_session_tick(struct snib__redis *s, snib_instant now, int i)
{
    struct session *l = &s->session[i];
    char text[sizeof l->text];
    if (!snib__reached(now, store_session_due(s, i))) {
        return;
    }
    switch (l->state) {
    case SESSION_OPENING:
        snprintf(text, sizeof text,
                 "no connection to %.*s within the time allowed", ADDRESS_SHOWN,
                 s->out->conn[i].address);
        snib__session_cut(s, now, i, true, SNIB_ERR_UNREACHABLE, text, false);
        break;
    case SESSION_RESTING:
        snib__session_want(s, now, i);
        break;
    case SESSION_HELLO:
    case SESSION_REPLICA:
    case SESSION_SELECT:
    case SESSION_PROBE:
    case SESSION_TIME:
    case SESSION_SUBSCRIBE:
    case SESSION_READY:
        if (l->count && !l->overdue.ns &&
            snib__reached(now, store_notice_at(s, l))) {
            l->overdue = now;
        }
        if (l->count && snib__reached(now, store_close_at(s, l))) {
            snib__session_cut(s, now, i, true, SNIB_ERR_UNREACHABLE,
                              "the server does not answer", false);
        } else if (l->state == SESSION_READY && i == SUBS &&
                   snib__reached(now, l->ping_at)) {
            store_ping(s, now);
        }
        break;
    case SESSION_CLOSING:
        l->state = SESSION_RESTING; /* run has not said that it is closed */
        break;
    case SESSION_DOWN:
        break;
    }
}

static void store_tick(struct snib__redis *s, snib_instant now)
{
    struct snib__timer *t;
    for (int i = 0; i < SESSIONS; i++) {
        store_session_tick(s, now, i);
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
        due = snib__sooner(due, store_session_due(s, i));
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
