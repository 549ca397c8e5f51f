/* tests/unit/postgres_answers.h — what a statement of unit.postgres_same answers: rows
 * such as the tables might have, of those who ask and of strangers; and errors.
 * See postgres_world.h. */
#ifndef SNIB_TESTS_POSTGRES_ANSWERS_H
#define SNIB_TESTS_POSTGRES_ANSWERS_H

#include "postgres_clients.h"

/* The columns of SNIB__SQL_DO_FETCH. */
enum {
    F_US,
    F_LIFE,
    F_FLOOR,
    F_FLOOR_STAMP,
    F_HIGHEST,
    F_STAMP,
    F_TOKEN,
    F_SIZE,
    F_LATCH,
    F_ARRIVALS,
    F_ARRIVED,
    F_CLAIMS,
    F_WAITING,
    F_LAST_RANK,
    F_HOLDER,
    F_CLAIM = F_HOLDER + SNIB__SQL_C_ALIVE,
    F_COLUMNS = F_CLAIM + SNIB__SQL_COLUMNS
};

static int64_t server_us(void)
{
    return w.now / 1000 + w.server_us;
}

static int64_t clock_token(void)
{
    int64_t us = server_us();
    return us / 1000 * 1024 + us % 1000 * 1024 / 1000;
}

static int64_t next_token(void)
{
    int64_t clock = clock_token();
    w.token = w.token + 1 > clock ? w.token + 1 : clock;
    return w.token;
}

static int64_t some_number(void)
{
    static const int64_t numbers[] = {0,
                                      1,
                                      -1,
                                      2,
                                      5,
                                      32,
                                      100,
                                      127,
                                      128,
                                      UINT32_MAX,
                                      INT64_C(1) << 32,
                                      SNIB__TOKEN_END - 33,
                                      SNIB__TOKEN_END - 32,
                                      SNIB__TOKEN_END,
                                      INT64_MAX / 4,
                                      INT64_MAX / 4 + 1,
                                      INT64_MAX,
                                      INT64_MIN};
    return numbers[pick("number", COUNT_OF(numbers))];
}

/* -- claims --------------------------------------------------------------------- */

static bool is_name(const struct sent *s, int name)
{
    return (uint32_t)s->name_size == names[name].raw_size &&
           memcmp(s->name, names[name].raw, names[name].raw_size) == 0;
}

/* One of ours at that name; NULL: none. */
static const struct mine *mine_at(const struct sent *s, bool holds)
{
    int first = (int)pick("whose", MINE);
    for (int i = 0; i < MINE; i++) {
        const struct mine *m = &mine[(first + i) % MINE];
        if (m->used && m->holds == holds && is_name(s, m->name)) {
            return m;
        }
    }
    return NULL;
}

static const char *some_notifier(void)
{
    static const char *const texts[] = {
        "",
        "7000.00000000000000ab",
        "x",
        "0.1",
        "99999999999.7",
        "7001.0123456789abcdef0123456789abcdef0123456789"};
    for (int i = 0; i < CLIENTS && chance("of ours", 2); i++) {
        if (clients[i].inst && clients[i].inst->listener.notifier[0]) {
            return clients[i].inst->listener.notifier;
        }
    }
    return texts[pick("notifier", COUNT_OF(texts))];
}

static void spoil_claim(struct snib__stored_claim *c)
{
    int64_t *const fields[] = {&c->token,    &c->floor,    &c->lease.ns,
                               &c->delay.ns, &c->since.ns, &c->until.ns,
                               &c->id};
    size_t i = pick("field", COUNT_OF(fields) + 3);
    if (i < COUNT_OF(fields)) {
        *fields[i] = some_number();
    } else if (i == COUNT_OF(fields)) {
        c->rank = (int)some_number();
    } else if (i == COUNT_OF(fields) + 1) {
        c->kind = (snib_kind)pick("odd kind", 8);
    } else {
        c->permits = (uint32_t)some_number();
    }
}

static void draw_claim(const struct sent *s, int state,
                       struct snib__stored_claim *c)
{
    static const int64_t ms[] = {-70000, -1, 0, 1, 900, 3000, 60000, 60000};
    static const uint64_t strangers[][2] = {{7, 70}, {7, 71}, {8, 0}, {0, 9}};
    bool holds = state == SNIB__HOLDS || state == SNIB__SHARES;
    const struct mine *m = chance("stranger", 3) ? NULL : mine_at(s, holds);
    int64_t until = server_us() / 1000 + ms[pick("until", COUNT_OF(ms))];
    *c = (struct snib__stored_claim){.id = 1 + (int64_t)pick("id of it", 50),
                                     .state = state,
                                     .client = {9, 9},
                                     .permits = 1,
                                     .lease = snib__ms(5000),
                                     .until.ns = until * MS};
    size_t i = pick("which stranger", COUNT_OF(strangers));
    memcpy(c->request, strangers[i], sizeof c->request);
    c->kind = (snib_kind)pick("kind of it", SNIB_KIND_BARRIER + 1);
    c->token = w.token - (int64_t)pick("older", 3);
    if (m) {
        memcpy(c->request, m->r.id, sizeof c->request);
        memcpy(c->client, clients[m->client].id, sizeof c->client);
        c->kind = m->r.acquire.kind;
        c->permits = m->r.acquire.permits;
        c->token = m->r.token;
        c->rank = -m->r.acquire.priority;
        c->lease = m->r.lease;
    } else if (chance("the one who asks", 3)) {
        memcpy(c->request, s->ids[1], sizeof c->request);
        memcpy(c->client, clients[0].id, sizeof c->client);
    }
    c->since.ns = c->until.ns - 5 * S;
    c->delay = snib__ms(chance("delay of it", 6) ? 400 : 0);
    c->floor = chance("floor of it", 5) ? w.token + 1 : 0;
    c->reserve = (uint32_t)(chance("reserve of it", 4) ? 31 : 0);
    c->slot = (uint32_t)pick("slot", 3);
    snprintf(c->notifier, sizeof c->notifier, "%s", some_notifier());
    if (state == SNIB__REVOKED) {
        snprintf(c->note, sizeof c->note, "revoked by anna on ci-7: bad");
    }
    if (chance("spoiled", theme == DAMAGE ? 4 : 60)) {
        spoil_claim(c);
    }
}

static void put_claim(struct result *r, int row, int from,
                      const struct snib__stored_claim *c)
{
    static char far[500];
    int64_t stamp = 1 + (int64_t)pick("stamp", 3);
    const int64_t v[SNIB__SQL_COLUMNS] = {[SNIB__SQL_C_STAMP] = stamp,
                                          [SNIB__SQL_C_ID] = c->id,
                                          [SNIB__SQL_C_STATE] = c->state,
                                          [SNIB__SQL_C_KIND] = c->kind,
                                          [SNIB__SQL_C_PERMITS] = c->permits,
                                          [SNIB__SQL_C_RESERVE] = c->reserve,
                                          [SNIB__SQL_C_SLOT] = c->slot,
                                          [SNIB__SQL_C_TOKEN] = c->token,
                                          [SNIB__SQL_C_FLOOR] = c->floor,
                                          [SNIB__SQL_C_RANK] = c->rank,
                                          [SNIB__SQL_C_LEASE] = c->lease.ns,
                                          [SNIB__SQL_C_DELAY] = c->delay.ns,
                                          [SNIB__SQL_C_SINCE] = c->since.ns,
                                          [SNIB__SQL_C_UNTIL] = c->until.ns,
                                          [SNIB__SQL_C_ALIVE] =
                                              !chance("has left", 6)};
    bool holder = from == F_HOLDER;
    memset(far, 'f', sizeof far - 1);
    for (int i = 0; i < SNIB__SQL_COLUMNS - holder; i++) {
        put_int(r, row, from + i, v[i]);
    }
    put_id(r, row, from + SNIB__SQL_C_REQUEST, c->request);
    put_id(r, row, from + SNIB__SQL_C_CLIENT, c->client);
    put_bytes(r, row, from + SNIB__SQL_C_UPGRADE_OF, "", 0);
    if (c->upgrade_of[0]) {
        put_id(r, row, from + SNIB__SQL_C_UPGRADE_OF, c->upgrade_of);
    }
    put_text(r, row, from + SNIB__SQL_C_NOTIFIER, c->notifier);
    put_text(r, row, from + SNIB__SQL_C_NOTE, c->note);
    put_text(r, row, from + SNIB__SQL_C_ABOUT,
             chance("long about", 9) ? far : "host=h&pid=1");
}

/* -- a fetch ---------------------------------------------------------------------- */

static void put_lock(struct result *r)
{
    static const int64_t sizes[] = {-1, -1, 0, 3, 1000000000, 5};
    int64_t token = w.token ? w.token : next_token();
    if (chance("odd token", theme == DAMAGE ? 4 : 60)) {
        token = some_number();
    }
    put_int(r, 0, F_US, server_us());
    put_int(r, 0, F_LIFE, w.life);
    if (!chance("no floor", 40)) {
        put_int(r, 0, F_FLOOR,
                chance("odd floor", theme == DAMAGE ? 6 : 90) ? some_number()
                : chance("has a floor", 3)                    ? w.token - 5
                                                              : 0);
        put_int(r, 0, F_FLOOR_STAMP, 1 + (int64_t)pick("stamp", 3));
    }
    if (chance("highest", 2)) {
        put_int(r, 0, F_HIGHEST, w.token + 7);
    }
    if (!chance("no row", 5)) { /* of this name                            */
        put_int(r, 0, F_STAMP, (int64_t)pick("stamp of it", 4));
        put_int(r, 0, F_TOKEN, token);
        put_int(r, 0, F_SIZE, sizes[pick("size of it", COUNT_OF(sizes))]);
        put_int(r, 0, F_LATCH, (int64_t)(chance("closed", 6) ? 2 : 0));
        put_int(r, 0, F_ARRIVALS, (int64_t)pick("arrivals", 60));
        put_int(r, 0, F_ARRIVED, (int64_t)pick("arrived", 3));
    }
}

/* More wait than are fetched at first. */
static void put_crowd(struct result *r, const struct sent *s)
{
    int64_t limit = s->ints[2];
    int all = 15 + (int)pick("crowd", 6);
    int shown = limit >= 0 && limit < all ? (int)limit : all;
    struct snib__stored_claim c;
    result_size(r, shown > 0 ? shown : 1, F_COLUMNS);
    put_lock(r);
    for (int i = 0; i < shown; i++) {
        draw_claim(s, SNIB__WAITS, &c);
        c.id = i + 1;
        c.request[1] += (uint64_t)i * 1000;
        c.rank = i / 7;
        put_claim(r, i, F_CLAIM, &c);
    }
    put_int(r, 0, F_CLAIMS, all);
    put_int(r, 0, F_WAITING, all);
    put_int(r, 0, F_LAST_RANK, (all - 1) / 7);
}

static void answer_fetch(struct result *r, const struct sent *s)
{
    static const int states[] = {
        SNIB__WAITS,     SNIB__WAITS,        SNIB__SHARES,  SNIB__SHARES,
        SNIB__TOMBSTONE, SNIB__UNRESPONSIVE, SNIB__REVOKED, 7};
    struct snib__stored_claim c;
    if (chance("a crowd", theme == QUEUES ? 12 : 60)) {
        put_crowd(r, s);
        return;
    }
    if (chance("no rows at all", 400)) {
        result_size(r, 0, F_COLUMNS);
        return;
    }
    int claims = chance("claims", 2) ? 1 + (int)pick("claims", 4) : 0;
    result_size(r, claims ? claims : 1, F_COLUMNS);
    put_lock(r);
    put_int(r, 0, F_CLAIMS, claims);
    if (chance("is held", 2)) {
        draw_claim(s, SNIB__HOLDS, &c);
        put_claim(r, 0, F_HOLDER, &c);
    }
    for (int i = 0; i < claims; i++) {
        draw_claim(s, states[pick("state", COUNT_OF(states))], &c);
        put_claim(r, i, F_CLAIM, &c);
    }
}

/* -- the short way ------------------------------------------------------------------- */

/* acquire: the token, the clock; the others besides reserve, permits and slot. */
static void answer_quick(struct result *r, const struct sent *s, int cols)
{
    int64_t now = server_us();
    if (chance("finds no row", 3)) {
        result_size(r, 0, cols);
        return;
    }
    result_size(r, chance("two rows", 90) ? 2 : 1, cols);
    for (int i = 0; i < r->rows; i++) {
        const int64_t v[] = {cols == 2 && s->statement == SNIB__SQL_DO_ACQUIRE
                                 ? next_token()
                             : s->ints[2] > 0 ? s->ints[2]
                                              : next_token(),
                             now, (int64_t)pick("reserve of it", 33), 1,
                             (int64_t)pick("slot", 3)};
        for (int col = 0; col < cols; col++) {
            put_int(r, i, col, v[col]);
        }
    }
}

/* -- values ---------------------------------------------------------------------------- */

static void put_value(struct result *r, int from, const struct sent *s)
{
    static const int64_t ages[] = {-60001, -60000, -1, 0, 1, 30000};
    struct snib__version v = {.last = w.token, .forgotten = w.token / 2};
    uint8_t record[SNIB__VERSION_BYTES + 1] = {0};
    for (int i = 0; i < NAMES; i++) {
        if (is_name(s, i) && version[i]) {
            v.version = v.last = version[i];
        }
    }
    if (last_change.name && chance("has seen it", 3)) {
        v.count = 1;
        memcpy(v.change[0].id, last_change.id, sizeof v.change[0].id);
        v.change[0].number = chance("refused it", 2) ? 0 : v.last;
    }
    snib__version_pack(&v, record);
    put_int(r, 0, from, 1 + (int64_t)pick("stamp", 3));
    put_int(r, 0, from + 1, server_us() / 1000 + ages[pick("age of it", 6)]);
    put_bytes(r, 0, from + 2, record,
              sizeof record - 1 +
                  (chance("longer", theme == DAMAGE ? 9 : 90) ? 1 : 0));
}

static void answer_value(struct result *r, const struct sent *s)
{
    static char bytes[SNIB_VALUE_MAX + 1];
    result_size(r, 1, 6);
    put_int(r, 0, 0, server_us() / 1000);
    put_int(r, 0, 1, chance("floor of it", 3) ? w.token + 9 : 0);
    if (!chance("no value", 4)) {
        put_value(r, 2, s);
        memset(bytes, 'b', sizeof bytes);
        put_bytes(r, 0, 5, bytes,
                  chance("much", 9) ? SNIB_VALUE_MAX + pick("too much", 2)
                                    : pick("bytes of it", 80));
    }
}

static void answer_locked_value(struct result *r, const struct sent *s)
{
    bool there = !chance("no value", 3);
    result_size(r, there, 3);
    if (there) {
        put_value(r, 0, s);
    }
}

static void answer_numbers(struct result *r, int64_t first, int64_t second)
{
    result_size(r, 1, 2);
    put_int(r, 0, 0, first);
    put_int(r, 0, 1, second);
}

/* -- lists -------------------------------------------------------------------------------- */

static void answer_names(struct result *r)
{
    char text[16];
    int count = chance("a full page", 3) ? 64 : (int)pick("names", 70);
    result_size(r, count, 1);
    for (int i = 0; i < count; i++) {
        snprintf(text, sizeof text, "n%03d", i);
        if (i < NAMES && chance("known", 2)) {
            put_bytes(r, i, 0, names[i].raw, names[i].raw_size);
        } else if (chance("far name", 90)) {
            char far[SNIB_NAME_MAX + 1];
            memset(far, 'z', sizeof far);
            put_bytes(r, i, 0, far, sizeof far - pick("shorter", 2));
        } else {
            put_text(r, i, 0, text);
        }
    }
}

#endif
