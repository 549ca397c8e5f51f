/*
 * script_rig.c — a model server, its listeners and its keys as text; see
 * script_rig.h
 */
#include <stdlib.h>
#include <string.h>

#include "proto/resp.h"
#include "redis_model.h"
#include "script_rig.h"

enum { EARS = 600, NAME = 80 };

struct ear {
    int conn;
    char channel[NAME];
    struct snib__resp *reader;
};

struct rig {
    struct sim_lua *lua;
    struct sim_redis *server;
    struct snib__resp *reader;
    int conn, ears, commands;
    int64_t now_us;
    struct ear ear[EARS];
};

static void must(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "script rig: %s\n", what);
        abort();
    }
}

/* -- text ---------------------------------------------------------------------- */

static size_t run_of(const char *p, size_t size)
{
    size_t n = 1;
    while (n < size && p[n] == p[0]) {
        n++;
    }
    return n;
}

/* How many digits an id at p repeats, 1, 2 or 4; 0: none is there. */
static int id_at(const char *p, size_t size)
{
    size_t hex = 0;
    while (hex < size && strchr("0123456789abcdef", p[hex]) && p[hex]) {
        hex++;
    }
    for (int n = 1; hex == 32 && n <= 4; n *= 2) {
        if (memcmp(p, p + n, 32 - (size_t)n) == 0) {
            return n;
        }
    }
    return 0;
}

static void put_char(FILE *out, char c)
{
    if (c >= 0x20 && c < 0x7f) {
        fputc(c, out);
    } else {
        fprintf(out, "\\x%02x", (unsigned char)c);
    }
}

void rig_text(FILE *out, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size;) {
        bool inside = i && strchr("0123456789abcdef", bytes[i - 1]);
        int digits = inside ? 0 : id_at(bytes + i, size - i);
        size_t run = run_of(bytes + i, size - i);
        if (digits) {
            fprintf(out, "~%.*s", digits, bytes + i);
            i += 32;
        } else if (run > 40) {
            put_char(out, bytes[i]);
            fprintf(out, "*%zu", run);
            i += run;
        } else {
            put_char(out, bytes[i++]);
        }
    }
}

/* Of an error that a command raised in a script the line and the sha1 are left
 * out: both are of the text, not of what it does. */
static void put_cell(FILE *out, const struct snib__resp_cell *c)
{
    const char *script;
    switch (c->type) {
    case SNIB__RESP_NIL:
        fputs("nil", out);
        break;
    case SNIB__RESP_INTEGER:
        fprintf(out, "%lld", (long long)c->integer);
        break;
    case SNIB__RESP_STATUS:
        fprintf(out, "+%s", c->text);
        break;
    case SNIB__RESP_ERROR:
        script = strstr(c->text, " script: ");
        fputc('-', out);
        rig_text(out, c->text, script ? (size_t)(script - c->text) : c->size);
        break;
    case SNIB__RESP_STRING:
        fputc('"', out);
        rig_text(out, c->text, c->size);
        fputc('"', out);
        break;
    case SNIB__RESP_ARRAY:
        fputc('{', out);
        for (uint32_t i = 0; i < c->size; i++) {
            fputs(i ? ", " : "", out);
            put_cell(out, snib__resp_at(c, i));
        }
        fputc('}', out);
        break;
    }
}

/* -- the server ------------------------------------------------------------------ */

static void count_command(void *user, const struct sim_redis_event *ev)
{
    struct rig *r = user;
    r->commands += ev->in_script;
}

struct rig *rig_new(void)
{
    struct rig *r = calloc(1, sizeof *r);
    must(r, "no memory");
    r->lua = sim_lua_new();
    rig_reset(r);
    return r;
}

static void clear(struct rig *r)
{
    for (int i = 0; i < r->ears; i++) {
        snib__resp_free(r->ear[i].reader);
    }
    r->ears = 0;
    snib__resp_free(r->reader);
    sim_redis_free(r->server);
}

void rig_free(struct rig *r)
{
    clear(r);
    sim_lua_free(r->lua);
    free(r);
}

void rig_reset(struct rig *r)
{
    if (r->server) {
        clear(r);
    }
    r->server = sim_redis_new(r->lua, 7);
    sim_redis_set_hook(r->server, count_command, r);
    r->conn = sim_redis_connect(r->server);
    r->now_us = RIG_T0_MS * 1000;
    must(!snib__resp_new(1 << 20, &r->reader), "no memory");
}

void rig_set_now(struct rig *r, int64_t us)
{
    r->now_us = us;
}

int64_t rig_now(const struct rig *r)
{
    return r->now_us;
}

static void feed(struct rig *r, int conn, struct snib__resp *reader)
{
    const void *bytes;
    size_t n;
    sim_redis_output(r->server, conn, &bytes, &n);
    snib__resp_feed(reader, bytes, n);
    sim_redis_consume(r->server, conn, n);
}

static const struct snib__resp_cell *
ask(struct rig *r, int conn, struct snib__resp *reader, struct snib__buf *b)
{
    const struct snib__resp_cell *c;
    must(!b->failed, "a command is too long");
    sim_redis_input(r->server, conn, snib__buf_bytes(b), snib__buf_size(b),
                    r->now_us);
    snib__buf_free(b);
    feed(r, conn, reader);
    must(snib__resp_next(reader, &c) == SNIB__RESP_REPLY, "no reply");
    return c;
}

void rig_listen(struct rig *r, const char *channel)
{
    struct snib__buf b;
    must(r->ears < EARS, "too many ears");
    struct ear *e = &r->ear[r->ears++];
    e->conn = sim_redis_connect(r->server);
    snprintf(e->channel, sizeof e->channel, "%s", channel);
    must(!snib__resp_new(1 << 20, &e->reader), "no memory");
    snib__buf_init(&b, 1000);
    snib__resp_begin(&b, 2);
    snib__resp_text(&b, "SUBSCRIBE");
    snib__resp_text(&b, channel);
    (void)ask(r, e->conn, e->reader, &b);
}

void rig_leave(struct rig *r, const char *channel)
{
    for (int i = 0; i < r->ears; i++) {
        if (strcmp(r->ear[i].channel, channel) == 0) {
            sim_redis_disconnect(r->server, r->ear[i].conn);
            snib__resp_free(r->ear[i].reader);
            r->ear[i] = r->ear[--r->ears];
            return;
        }
    }
    must(false, "nobody listens there");
}

enum { RIG_DENIED = 400 };

bool rig_fault(struct rig *r, const char *name)
{
    static const struct {
        const char *name;
        enum sim_redis_fault fault;
    } all[] = {{"oom", SIM_REDIS_OOM},
               {"readonly", SIM_REDIS_READONLY},
               {"channels", SIM_REDIS_NOPERM_CHANNEL},
               {"keys", SIM_REDIS_NOPERM_KEY}};
    bool known = strcmp(name, "none") == 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bool on = strcmp(name, all[i].name) == 0;
        sim_redis_set_fault(r->server, all[i].fault, on);
        known = known || on;
    }
    sim_redis_deny_command(r->server, NULL);
    if (strncmp(name, "no-", 3) == 0) {
        char words[RIG_DENIED], *save;
        snprintf(words, sizeof words, "%s", name + 3);
        for (char *word = strtok_r(words, ",", &save); word;
             word = strtok_r(NULL, ",", &save)) {
            sim_redis_deny_command(r->server, word);
        }
        known = true;
    }
    return known;
}

void rig_command(struct rig *r, char *const word[], int words, FILE *out)
{
    struct snib__buf b;
    snib__buf_init(&b, 1 << 20);
    snib__resp_begin(&b, (uint32_t)words);
    for (int i = 0; i < words; i++) {
        char *value = rig_value(word[i], r->now_us);
        snib__resp_text(&b, value);
        free(value);
    }
    put_cell(out, ask(r, r->conn, r->reader, &b));
}

void rig_send(struct rig *r, const struct rig_call *c, FILE *out)
{
    struct snib__buf b;
    snib__buf_init(&b, 1 << 20);
    snib__resp_begin(&b, (uint32_t)(3 + c->keys + c->args));
    snib__resp_text(&b, "EVAL");
    snib__resp_text(&b, snib__redis_scripts[c->shape->which].text);
    snib__resp_i64(&b, c->keys);
    for (int i = 0; i < c->keys; i++) {
        snib__resp_text(&b, c->key[i]);
    }
    for (int i = 0; i < c->args; i++) {
        snib__resp_text(&b, c->arg[i]);
    }
    r->commands = 0;
    put_cell(out, ask(r, r->conn, r->reader, &b));
}

int rig_commands(const struct rig *r)
{
    return r->commands;
}

void rig_heard(struct rig *r, FILE *out)
{
    const struct snib__resp_cell *c;
    for (int i = 0; i < r->ears; i++) {
        struct ear *e = &r->ear[i];
        feed(r, e->conn, e->reader);
        while (snib__resp_next(e->reader, &c) == SNIB__RESP_REPLY) {
            const struct snib__resp_cell *at = snib__resp_at(c, 1),
                                         *says = snib__resp_at(c, 2);
            must(at && says, "a strange message");
            fputs("  heard at ", out);
            rig_text(out, at->text, at->size);
            fputs(": ", out);
            rig_text(out, says->text, says->size);
            fputc('\n', out);
        }
    }
}

/* -- the keys ------------------------------------------------------------------- */

struct key {
    char *name, *holds;
    int64_t expire_ms;
};

struct rig_keys {
    struct rig *rig;
    int64_t now_ms;
    size_t count, reserve;
    struct key *key;
};

static void put_item(void *user, const struct sim_redis_item *item)
{
    FILE *out = user;
    fputs("\n      ", out);
    rig_text(out, item->name.ptr, item->name.len);
    if (item->value.ptr && item->value.len) {
        fputs(": ", out);
        rig_text(out, item->value.ptr, item->value.len);
    } else {
        fprintf(out, " at %.17g", item->score);
    }
}

static void add_key(void *user, const struct sim_redis_key *key)
{
    static const char *const types[] = {"none", "string", "hash",
                                        "zset", "list",   "stream"};
    struct rig_keys *all = user;
    struct sim_redis *server = all->rig->server;
    struct sim_redis_arg value;
    size_t size;
    if (all->count == all->reserve) {
        all->reserve = all->reserve ? 2 * all->reserve : 16;
        all->key = realloc(all->key, all->reserve * sizeof *all->key);
        must(all->key, "no memory");
    }
    struct key *k = &all->key[all->count++];
    *k = (struct key){.expire_ms = key->expire_ms};
    FILE *name = open_memstream(&k->name, &size);
    rig_text(name, key->name.ptr, key->name.len);
    (void)fclose(name);
    FILE *holds = open_memstream(&k->holds, &size);
    fputs(types[key->type], holds);
    if (sim_redis_string(server, 0, key->name.ptr, key->name.len,
                         all->rig->now_us, &value)) {
        fputs("\n      ", holds);
        rig_text(holds, value.ptr, value.len);
    } else {
        (void)sim_redis_each_item(server, 0, key->name.ptr, key->name.len,
                                  all->rig->now_us, put_item, holds);
    }
    (void)fclose(holds);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct key *)a)->name, ((const struct key *)b)->name);
}

struct rig_keys *rig_keys_now(struct rig *r)
{
    struct rig_keys *all = calloc(1, sizeof *all);
    must(all, "no memory");
    all->rig = r;
    all->now_ms = r->now_us / 1000;
    sim_redis_each_key(r->server, 0, r->now_us, add_key, all);
    if (all->count) {
        qsort(all->key, all->count, sizeof *all->key, by_name);
    }
    return all;
}

void rig_keys_free(struct rig_keys *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free(all->key[i].name);
        free(all->key[i].holds);
    }
    free(all->key);
    free(all);
}

static const struct key *key_of(const struct rig_keys *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++) {
        if (strcmp(all->key[i].name, name) == 0) {
            return &all->key[i];
        }
    }
    return NULL;
}

static void put_key(FILE *out, const struct key *k, int64_t now_ms)
{
    fprintf(out, "    %s ", k->name);
    if (k->expire_ms < 0) {
        fputs("for ever", out);
    } else {
        fprintf(out, "%lld ms", (long long)(k->expire_ms - now_ms));
    }
    fprintf(out, " %s\n", k->holds);
}

bool rig_keys_differ(const struct rig_keys *before,
                     const struct rig_keys *after, FILE *out)
{
    bool differ = false;
    for (size_t i = 0; i < before->count; i++) {
        if (!key_of(after, before->key[i].name)) {
            fprintf(out, "    %s gone\n", before->key[i].name);
            differ = true;
        }
    }
    for (size_t i = 0; i < after->count; i++) {
        const struct key *now = &after->key[i];
        const struct key *was = key_of(before, now->name);
        if (!was || strcmp(was->holds, now->holds) != 0 ||
            was->expire_ms != now->expire_ms) {
            put_key(out, now, after->now_ms);
            differ = true;
        }
    }
    return differ;
}
