/* side_lua.c — clients of the Redis store on a model server. Each grant is
 * decided by a script; but what a script has written of a mutex that nobody else
 * wants stands, each second time, as its client would have written it without
 * one (enter.lua). The rules know of no such forms, so nothing may differ by
 * them.
 *
 * Bytes take no time. The subscriptions are up before the first request, since
 * all clients say that they listen, so that each may queue at once. A waiter is
 * made to poll by a message on its channel that names a poll which it never
 * sent: the store does not believe that and asks. */
#include <stdio.h>
#include <stdlib.h>

#include "redis_model.h"
#include "redis_scripts.h"
#include "side.h"
#include "store/redis/redis.h"

enum { CONNS = 3, SUBSCRIPTION = 2 };

static struct {
    struct sim_lua *lua; /* kept from history to history */
    struct sim_redis *server;
    int stranger;       /* a connection of nobody of ours */
    unsigned int soles; /* mutexes that nobody else wants, so far */
    snib_instant now;
    struct {
        struct snib__store *store;
        struct snib__out out;
        int conn[CONNS];
    } client[CLIENTS];
} lua;

static int64_t side_lua_wall_us(void)
{
    return EPOCH_MS * 1000 + lua.now.ns / 1000;
}

static snib_instant side_lua_now(void)
{
    return lua.now;
}

static void side_lua_pass(int64_t ms)
{
    lua.now = snib__after(lua.now, snib__ms(ms));
}

/* The rules know of no mark, which is one for all names. Without it a token is
 * made of its own lock's memory, as by the rules. So the mark is lost as soon as
 * a grant has been written, which ends with that memory. (The command is done
 * with by then, so the server may be changed here.) */
static void side_lua_unmark(void *user, const struct sim_redis_event *ev)
{
    (void)user;
    if (ev->in_script && strcmp(ev->name, "set") == 0) {
        (void)sim_redis_evict(lua.server, 0, "snib:m", 6);
    }
}

static void side_lua_input(int client, struct snib__input in)
{
    snib__redis_store_ops.input(lua.client[client].store, lua.now, &in);
}

static bool side_lua_connect(int client)
{
    struct snib__out *out = &lua.client[client].out;
    bool any = false, wanted[CONNS];
    for (uint8_t i = 0; i < CONNS; i++) {
        wanted[i] = out->conn[i]->open;
        out->conn[i]->open = false;
        any = any || wanted[i];
    }
    for (uint8_t i = 0; i < CONNS; i++) {
        if (wanted[i]) {
            lua.client[client].conn[i] = sim_redis_connect(lua.server);
            side_lua_input(client, (struct snib__input){.kind = SNIB__IN_OPENED,
                                                        .conn = i});
        }
    }
    for (uint8_t i = 0; i < CONNS; i++) {
        if (out->conn[i]->shut) {
            abort(); /* nothing fails here */
        }
    }
    return any;
}

static bool side_lua_send(int client)
{
    bool any = false;
    for (int i = 0; i < CONNS; i++) {
        struct snib__buf *b = &lua.client[client].out.conn[i]->out;
        if (snib__buf_size(b)) {
            sim_redis_input(lua.server, lua.client[client].conn[i],
                            snib__buf_bytes(b), snib__buf_size(b),
                            side_lua_wall_us());
            snib__buf_clear(b);
            any = true;
        }
    }
    return any;
}

static bool side_lua_receive(int client, uint8_t conn)
{
    const void *bytes;
    size_t n;
    int wire = lua.client[client].conn[conn];
    sim_redis_output(lua.server, wire, &bytes, &n);
    if (!n) {
        return false;
    }
    void *copy = malloc(n);
    if (!copy) {
        abort();
    }
    memcpy(copy, bytes, n);
    sim_redis_consume(lua.server, wire, n);
    side_lua_input(client, (struct snib__input){.kind = SNIB__IN_BYTES,
                                                .conn = conn,
                                                .bytes = copy,
                                                .size = n});
    free(copy);
    return true;
}

static void side_lua_take_answers(int client)
{
    struct snib__link *l;
    while ((l = snib__list_pop(&lua.client[client].out.answered))) {
        struct asked *a = SNIB__CONTAINER(
            SNIB__CONTAINER(l, struct snib__request, link), struct asked, r);
        a->told = true;
        a->owned = a->r.said.answer == SNIB__QUEUED;
    }
}

/* Until nothing is under way but what the subscription says. */
static void side_lua_run(int client, bool greet)
{
    bool more = true;
    while (more) {
        more = side_lua_connect(client);
        more = side_lua_send(client) || more;
        for (uint8_t i = 0; i < CONNS; i++) {
            if (i != SUBSCRIPTION || greet) {
                more = side_lua_receive(client, i) || more;
            }
        }
    }
    side_lua_take_answers(client);
}

static void side_lua_stranger(const char *bytes, size_t size)
{
    const void *ignored;
    size_t n;
    sim_redis_input(lua.server, lua.stranger, bytes, size, side_lua_wall_us());
    sim_redis_output(lua.server, lua.stranger, &ignored, &n);
    sim_redis_consume(lua.server, lua.stranger, n);
}

/* -- the other form of a record ------------------------------------------------ */

struct side_lua_sole {
    int count;
    char field[40], record[1200];
};

static void side_lua_note(void *user, const struct sim_redis_item *item)
{
    struct side_lua_sole *s = user;
    s->count++;
    snprintf(s->field, sizeof s->field, "%s", item->name.ptr);
    snprintf(s->record, sizeof s->record, "%s", item->value.ptr);
}

/* A mutex without a token reserve or a lock-delay, held and not awaited: its
 * record becomes a string. */
static void side_lua_thin(const struct snib__name *name)
{
    struct side_lua_sole s = {.count = 0};
    struct sim_redis_key ignored;
    struct snib__buf b;
    char key[600], alive[600], request[33], text[1400];
    long long token, end, since;
    int64_t us = side_lua_wall_us();
    int at = 0;
    int n = snprintf(key, sizeof key, "snib:{%.*s}", (int)name->safe_size,
                     name->safe);
    int m = snprintf(alive, sizeof alive, "%s:a", key);
    sim_redis_each_item(lua.server, 0, key, (size_t)n, us, side_lua_note, &s);
    if (s.count != 1 || strlen(s.field) != 32 ||
        sscanf(s.record, "%32s %lld %lld 0 1 %lld 0 %n", request, &token, &end,
               &since, &at) != 4 ||
        !at || end <= us / 1000 ||
        sim_redis_find(lua.server, 0, alive, (size_t)m, us, &ignored) ||
        lua.soles++ % 2) {
        return;
    }
    int size = snprintf(text, sizeof text, "%s %s %lld %lld %lld %s", request,
                        s.field, end - us / 1000, since, token, s.record + at);
    snib__buf_init(&b, 4096);
    snib__buf_printf(&b, "*2\r\n$3\r\nDEL\r\n$%d\r\n%s\r\n", n, key);
    snib__buf_printf(&b,
                     "*5\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n"
                     "$4\r\nPXAT\r\n$13\r\n%lld\r\n",
                     n, key, size, text, end);
    side_lua_stranger((const char *)snib__buf_bytes(&b), snib__buf_size(&b));
    snib__buf_free(&b);
}

static void side_lua_ask(int client, struct asked *const *a, int count)
{
    struct snib__list chain;
    snib__list_init(&chain);
    for (int i = 0; i < count; i++) {
        snib__link_init(&a[i]->r.link);
        a[i]->r.limit = SNIB__NEVER;
        a[i]->owned = true;
        snib__list_push(&chain, &a[i]->r.link);
    }
    snib__redis_store_ops.start(lua.client[client].store, lua.now, &chain);
    side_lua_run(client, false);
    for (int i = 0; i < count; i++) {
        if (a[i]->r.name) {
            side_lua_thin(a[i]->r.name);
        }
    }
}

static void side_lua_hear(int client, bool lost, struct heard *h)
{
    struct snib__out *out = &lua.client[client].out;
    const void *ignored;
    size_t n;
    if (lost) {
        int wire = lua.client[client].conn[SUBSCRIPTION];
        sim_redis_output(lua.server, wire, &ignored, &n);
        sim_redis_consume(lua.server, wire, n);
        return;
    }
    out->ended_count = out->wanted_count = 0;
    if (side_lua_receive(client, SUBSCRIPTION)) {
        side_lua_run(client, false);
    }
    for (uint32_t i = 0; i < out->ended_count && h->count < HEARD; i++) {
        h->ended[h->count][0] = out->ended[i][0];
        h->ended[h->count++][1] = out->ended[i][1];
    }
    for (uint32_t i = 0; i < out->wanted_count && h->count < HEARD; i++) {
        h->ended[h->count][0] = out->wanted[i][0];
        h->ended[h->count++][1] = out->wanted[i][1];
    }
}

static void side_lua_poll(int client, struct asked *a)
{
    char text[120], bytes[300];
    uint64_t id[2];
    struct heard none = {.count = 0};
    side_client_id(client, id);
    snprintf(text, sizeof text, "g %016llx%016llx 1 0 1 0 1 snib:{}",
             (unsigned long long)a->r.id[0], (unsigned long long)a->r.id[1]);
    int n = snprintf(bytes, sizeof bytes,
                     "*3\r\n$7\r\nPUBLISH\r\n$37\r\nsnib:%016llx%016llx\r\n"
                     "$%zu\r\n%s\r\n",
                     (unsigned long long)id[0], (unsigned long long)id[1],
                     strlen(text), text);
    side_lua_stranger(bytes, (size_t)n);
    side_lua_hear(client, false, &none);
}

/* The server knows the scripts, as it does after the first minute. */
static void side_lua_load(void)
{
    for (int i = 0; i < SNIB__SCRIPTS; i++) {
        const struct snib__redis_script *s = &snib__redis_scripts[i];
        struct snib__buf b;
        snib__buf_init(&b, 1 << 20);
        snib__buf_printf(&b, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n",
                         s->size);
        snib__buf_add(&b, s->text, s->size);
        snib__buf_add(&b, "\r\n", 2);
        side_lua_stranger((const char *)snib__buf_bytes(&b),
                          snib__buf_size(&b));
        snib__buf_free(&b);
    }
}

static void side_lua_open_client(int i, const struct snib__url *url)
{
    struct snib__out *out = &lua.client[i].out;
    struct snib_error e;
    struct snib__list nothing;
    *out = (struct snib__out){.holds = true, .listens = true};
    snib__list_init(&out->answered);
    snib__list_init(&out->exec);
    snib__conns_init(out, 4 << 20);
    struct snib__store_config config = {.url = url,
                                        .seed = {{1, 2, 3, (uint64_t)i}},
                                        .out = out,
                                        .request = snib__ms(2000),
                                        .scripts_only = true};
    side_client_id(i, config.client);
    if (snib__redis_store_ops.open(&config, &lua.client[i].store, &e)) {
        abort();
    }
    snib__list_init(&nothing);
    snib__redis_store_ops.start(lua.client[i].store, lua.now, &nothing);
}

/* A first look opens the callers' connection, and with it the subscription. */
static void side_lua_greet(int client)
{
    static struct asked look;
    struct asked *a = &look;
    look.r = (struct snib__request){.verb = SNIB__LIST};
    side_prepare(a);
    side_lua_ask(client, &a, 1);
    side_lua_run(client, true);
    snib__buf_free(&look.rows);
    if (!look.told || look.r.said.answer != SNIB__DONE) {
        abort();
    }
}

static void side_lua_open(void)
{
    struct snib__url *url;
    struct snib_error e;
    lua.lua = lua.lua ? lua.lua : sim_lua_new();
    lua.server = sim_redis_new(lua.lua, 7);
    lua.soles = 0;
    sim_redis_set_hook(lua.server, side_lua_unmark, NULL);
    lua.stranger = sim_redis_connect(lua.server);
    lua.now = (snib_instant){START_MS * 1000000};
    side_lua_load();
    if (snib__url_parse("redis://model", &url, &e)) {
        abort();
    }
    for (int i = 0; i < CLIENTS; i++) {
        side_lua_open_client(i, url);
        side_lua_greet(i);
    }
    snib__url_free(url);
}

static void side_lua_close(void)
{
    for (int i = 0; i < CLIENTS; i++) {
        snib__redis_store_ops.free(lua.client[i].store);
        snib__conns_free(&lua.client[i].out);
    }
    sim_redis_free(lua.server);
}

const struct side side_lua = {
    .name = "scripts",
    .open = side_lua_open,
    .close = side_lua_close,
    .pass = side_lua_pass,
    .now = side_lua_now,
    .ask = side_lua_ask,
    .poll = side_lua_poll,
    .hear = side_lua_hear,
};
