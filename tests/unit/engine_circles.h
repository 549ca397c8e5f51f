/* tests/unit/engine_circles.h — who else is there: others that hold a name and
 * wait for one, and what a look at all that is waited for shows of them and of
 * us. */
#ifndef SNIB_TESTS_ENGINE_CIRCLES_H
#define SNIB_TESTS_ENGINE_CIRCLES_H

#include "engine_world.h"

static void make_foreigners(void)
{
    w.foreigns = 0;
    if (!w.mood.circles) {
        return;
    }
    w.foreigns = 1 + (int)below(4);
    bool row = one_in(5); /* each waits for the next, the last one for us     */
    if (row) {
        w.foreigns = 6 + (int)below(FOREIGN_MAX - 5);
        w.names = w.foreigns + 2;
    }
    for (int i = 0; i < w.foreigns; i++) {
        struct foreign *f = &w.foreign[i];
        *f = (struct foreign){
            .grant = some_bits(),
            .request = {some_bits(), some_bits()},
            .holds = one_in(2) ? 1 : 1 + (int)below((uint32_t)w.names - 1),
            .waits = one_in(5)   ? -1
                     : one_in(2) ? 0
                                 : (int)below((uint32_t)w.names),
            .since = INT64_C(1790001000000) + below(9000) - 4000,
            .left = 200 + below(2800),
            .kind = one_in(5) ? (snib_kind)below(KINDS) : SNIB_KIND_MUTEX};
        if (row) {
            f->holds = 1 + i;
            f->waits = i + 1 < w.foreigns ? 2 + i : 0;
            f->kind = SNIB_KIND_MUTEX;
        }
    }
}

static bool of_others(int name)
{
    for (int i = 0; i < w.foreigns; i++) {
        if (w.foreign[i].holds == name) {
            return true;
        }
    }
    return false;
}

static struct standing *standing_of(const uint64_t id[2])
{
    for (int i = 0; i < STANDING_MAX; i++) {
        struct standing *s = &w.standing[i];
        if (s->used && s->id[0] == id[0] && s->id[1] == id[1]) {
            return s;
        }
    }
    return NULL;
}

static void forget_wait(const uint64_t id[2])
{
    struct standing *s = standing_of(id);
    if (s) {
        s->used = false;
    }
}

static void remember_wait(const struct snib__request *r)
{
    struct standing *s = standing_of(r->id);
    for (int i = 0; !s && i < STANDING_MAX; i++) {
        s = w.standing[i].used ? NULL : &w.standing[i];
    }
    if (s && r->text_size <= sizeof s->text) {
        *s = (struct standing){.id = {r->id[0], r->id[1]},
                               .name = index_of(r->name),
                               .kind = r->acquire.kind,
                               .rank = r->acquire.priority,
                               .size = r->text_size,
                               .used = true};
        memcpy(s->text, r->text, r->text_size);
    }
}

static void put_id(struct snib__buf *b, uint64_t high, uint64_t low)
{
    char text[40];
    snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, high, low);
    snib__rec_text(b, SNIB__F_REQUEST, text);
}

static void put_owner(struct snib__buf *b, int foreign)
{
    char text[40];
    uint64_t id[2] = {0xf00d, (uint64_t)foreign};
    if (foreign < 0) {
        snib__engine_client_id(w.e, id);
    }
    snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, id[0], id[1]);
    snib__rec_text(b, SNIB__F_CLIENT, text);
}

static void put_holders(struct snib__buf *b, int name)
{
    for (int i = 0; i < GRANTS_MAX; i++) {
        const struct grant *g = &w.grant[i];
        if (g->stands && g->name == name) {
            snib__rec_row(b, SNIB__ROW_HOLDER);
            put_owner(b, -1);
            put_id(b, g->id[0], g->id[1]);
            snib__rec_i64(b, SNIB__F_KIND, g->kind);
        }
    }
    for (int i = 0; i < w.foreigns; i++) {
        const struct foreign *f = &w.foreign[i];
        if (f->holds == name) {
            snib__rec_row(b, SNIB__ROW_HOLDER);
            put_owner(b, i);
            put_id(b, f->grant, 1);
            snib__rec_i64(b, SNIB__F_KIND, f->kind);
        }
    }
}

static void put_foreign_wait(struct snib__buf *b, int i)
{
    static const char *const hosts[] = {
        "ci-7", "a\x1b[1m", "a-host-with-a-very-long-name-indeed.x", ""};
    const struct foreign *f = &w.foreign[i];
    char about[200];
    snprintf(about, sizeof about,
             "host=%s&pid=%d&since=%" PRId64 "&owner=%d&held=%016" PRIx64,
             hosts[i % 4], 40 + i, f->since, i + 1, f->grant);
    snib__rec_row(b, SNIB__ROW_WAITER);
    put_owner(b, i);
    put_id(b, f->request[0], f->request[1]);
    snib__rec_i64(b, SNIB__F_RANK, 0);
    snib__rec_i64(b, SNIB__F_KIND, SNIB_KIND_MUTEX);
    snib__rec_i64(b, SNIB__F_LEFT, f->left);
    snib__rec_text(b, SNIB__F_ABOUT, about);
}

static void put_waiters(struct snib__buf *b, int name)
{
    static const int64_t left[] = {3000, 3000, 2900, 2500, 1500, 100, 0, 3001};
    for (int i = 0; i < w.foreigns; i++) {
        if (w.foreign[i].waits == name) {
            put_foreign_wait(b, i);
        }
    }
    for (int i = 0; i < STANDING_MAX; i++) {
        const struct standing *s = &w.standing[i];
        if (s->used && s->name == name) {
            snib__rec_row(b, SNIB__ROW_WAITER);
            put_owner(b, -1);
            put_id(b, s->id[0], s->id[1]);
            snib__rec_i64(b, SNIB__F_RANK, -s->rank);
            snib__rec_i64(b, SNIB__F_KIND, s->kind);
            snib__rec_i64(b, SNIB__F_LEFT, ONE_OF(left));
            snib__rec_bytes(b, SNIB__F_ABOUT, s->text, s->size);
        }
    }
}

/* As a store shows them: names as they are, or longer than can be told. */
static void list_waits(struct snib__buf *b)
{
    for (int i = 0; i < w.names; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s%s", name_text(i),
                 same.run % 7 ? ""
                              : "\x01 with a name of more than forty \xe2"
                                "\x82\xac\xe2\x82\xac characters");
        snib__rec_row(b, SNIB__ROW_LOCK);
        snib__rec_text(b, SNIB__F_NAME, name);
        put_holders(b, i);
        put_waiters(b, i);
    }
    if (one_in(20) && w.foreigns) {
        w.foreign[below((uint32_t)w.foreigns)].request[1]++; /* asks anew */
    }
}

#endif
