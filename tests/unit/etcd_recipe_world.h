/* tests/unit/etcd_recipe_world.h — both sides of a lock of etcd's own clients
 * (recipe.c), at the server of etcd_world.h. */
#ifndef SNIB_TESTS_UNIT_ETCD_RECIPE_WORLD_H
#define SNIB_TESTS_UNIT_ETCD_RECIPE_WORLD_H

#include "etcd_world.h"

#include "store/etcd/recipe_i.h"

#define THEIRS "n/694d8a1b2c3d4e5f"

static int begin_recipe(void **state)
{
    (void)state;
    return open_world("etcd://a?dialect=concurrency");
}

/* -- their side ------------------------------------------------------------------ */

static struct model_key *put_theirs(const char *key)
{
    struct model_key *k = &w.key[w.keys++];
    *k = (struct model_key){.size = strlen(key),
                            .made = w.revision + 1,
                            .mod = w.revision + 1,
                            .lease = ++w.leases};
    memcpy(k->key, key, k->size);
    w.lease[w.leases].ttl = 60;
    w.lease[w.leases].granted = w.now;
    w.revision++;
    return k;
}

static void end_theirs(const char *key)
{
    for (uint32_t i = 0; i < w.keys; i++) {
        if (&w.key[i] == key_of(key)) {
            drop_key(i);
            w.revision++;
            return;
        }
    }
    fail_msg("no key %s", key);
}

/* -- our side -------------------------------------------------------------------- */

static const struct model_key *own_of(const struct snib__request *r)
{
    char text[100];
    snprintf(text, sizeof text, "%s/%016llx%016llx", r->name->safe,
             (unsigned long long)r->id[0], (unsigned long long)r->id[1]);
    return key_of(text);
}

static const struct model_key *tombstone_of(const struct snib__request *r)
{
    char text[100];
    snprintf(text, sizeof text, "snib/x/%016llx%016llx",
             (unsigned long long)r->id[0], (unsigned long long)r->id[1]);
    return key_of(text);
}

/* The server tells those who watch that something has happened. */
static void tell_watchers(bool created)
{
    SNIB__LIST_EACH (l, &w.e->waits.list) {
        struct etcd_wait *one = SNIB__CONTAINER(l, struct etcd_wait, link);
        struct snib__h2_stream *s = &one->call.stream;
        struct snib__buf b;
        snib__buf_init(&b, 1000);
        if (created) {
            snib__pb_put_int(&b, 3, 1);
        } else {
            size_t event = snib__pb_begin(&b, 11);
            snib__pb_put_int(&b, 1, 1); /* DELETE */
            snib__pb_end(&b, event);
        }
        const uint8_t prefix[5] = {0, 0, 0, 0, (uint8_t)snib__buf_size(&b)};
        snib__buf_add(&s->in, prefix, sizeof prefix);
        snib__buf_add(&s->in, snib__buf_bytes(&b), snib__buf_size(&b));
        snib__buf_free(&b);
        if (!snib__linked(&s->changed)) {
            snib__list_push(&w.e->session.h2.changed, &s->changed);
        }
    }
    tick();
    serve();
}

/* Which key is watched; "": none is. */
static const char *watched(void)
{
    static char text[200];
    text[0] = 0;
    SNIB__LIST_EACH (l, &w.e->waits.list) {
        const struct etcd_wait *one =
            SNIB__CONTAINER(l, struct etcd_wait, link);
        struct snib__pb p;
        snib__pb_open(&p, snib__buf_bytes(&one->call.stream.out) + 5,
                      snib__buf_size(&one->call.stream.out) - 5);
        assert_true(one->ahead && snib__pb_next(&p) && p.field == 1);
        p = snib__pb_inside(&p);
        assert_true(snib__pb_next(&p) && p.field == 1);
        snib__pb_text(&p, text, sizeof text);
    }
    return text;
}

/* What a call has asked for, to be done once more, and later. */
static struct snib__buf late;

/* The server answers until this is asked, and then that as well, or not yet. */
static void keep_the(etcd_ask ask, bool answers)
{
    snib__buf_free(&late);
    snib__buf_init(&late, 1 << 20);
    w.keeps = true;
    for (int i = 0; i < 12 && !snib__buf_size(&late); i++) {
        tick();
        SNIB__LIST_EACH_SAFE (l, next, &w.e->session.calls) {
            struct etcd_call *c = SNIB__CONTAINER(l, struct etcd_call, link);
            const struct etcd_step *k = (const struct etcd_step *)(void *)c;
            bool it = !c->heard && !grants(c) && k->recipe.ask == ask;
            if (it) {
                snib__buf_add(&late, snib__buf_bytes(&c->stream.out),
                              snib__buf_size(&c->stream.out));
            }
            if (!c->heard && c->stream.end == SNIB__H2_OPEN &&
                (!it || answers)) {
                answer(c);
            }
        }
    }
    w.keeps = false;
    assert_true(snib__buf_size(&late) > 5);
}

static void lose_it(void)
{
    lose_connection();
    be_ready();
}

static void it_comes_late(void)
{
    struct snib__buf b;
    struct snib__pb p;
    int status = 0;
    snib__buf_init(&b, 1 << 22);
    end_leases();
    snib__pb_open(&p, snib__buf_bytes(&late) + 5, snib__buf_size(&late) - 5);
    (void)do_txn(p, &b, &status);
    snib__buf_free(&b);
    snib__buf_free(&late);
}

#endif
