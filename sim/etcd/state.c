/* sim/etcd/state.c — what a cluster of this world has, read from its keys into the
 * books.
 *
 * etcd tells no time: what is there is alive, and goes with its lease. So the
 * `until` of a row, which is by the clock of whoever wrote it, is not looked at.
 * A grant ends when its lease does, its lock-delay before that. One whose lease
 * is over, but was not ended so far, still stands. */
#include <string.h>

#include "sim/etcd/model.h"

static int64_t wall_ns(const struct sim_world *w, int64_t t)
{
    return w->wall_base_us * 1000 + t;
}

static int64_t ms(int64_t ns)
{
    return ns / 1000000;
}

/* For rows without a lease. */
#define FOREVER (INT64_C(1) << 61)

/* until: as the lease says; ret_sure: … at the earliest, in ms. */
static struct snib__stored_claim claim_of(const struct sim_world *w,
                                          const struct sim_etcd_key *k,
                                          int64_t *ret_sure)
{
    const struct sim_etcd_lease *l = sim_etcd_lease_of(w, k->lease);
    struct snib__stored_claim c = k->c;
    int64_t next_ms = (ms(wall_ns(w, w->t)) + 1) * 1000000;
    int64_t delay = snib__rules_claim_holds(&c) ? c.delay.ns : 0;
    int64_t over = l ? wall_ns(w, l->over) : FOREVER;
    c.until.ns = (over > next_ms ? over : next_ms) - delay;
    *ret_sure = ms((l ? wall_ns(w, l->sure) : FOREVER) - delay);
    return c;
}

void sim_etcd_book(const struct sim_world *w, int name, struct sim_book *b)
{
    const struct sim_etcd_keys *keys = &w->etcd->keys;
    b->size = -1;
    b->gate = 0;
    for (int i = 0; i < keys->count; i++) {
        const struct sim_etcd_key *k = &keys->key[i];
        int64_t sure;
        int before = b->holders;
        if (k->name != name) {
            continue;
        }
        if (k->kind == SNIB__KEY_LOCK) {
            b->size = k->l.params.size;
            b->gate = k->l.params.latch;
        } else if (k->kind == SNIB__KEY_CLAIM) {
            struct snib__stored_claim c = claim_of(w, k, &sure);
            sim_book_add(b, &c);
            if (b->holders > before) {
                b->holder[before].sure = sure;
            }
        }
    }
}

bool sim_etcd_held(const struct sim_world *w, int name)
{
    const struct sim_etcd_keys *keys = &w->etcd->keys;
    for (int i = 0; i < keys->count; i++) {
        const struct sim_etcd_key *k = &keys->key[i];
        if (k->name == name && k->kind == SNIB__KEY_CLAIM &&
            snib__rules_claim_holds(&k->c)) {
            return true;
        }
    }
    return false;
}

bool sim_etcd_reaches(const struct sim_world *w, int client)
{
    int at = sim_etcd_at(w, client);
    const struct sim_client *c = &w->client[client];
    const struct sim_etcd_conn *conn =
        sim_etcd_conn(&w->etcd->member[at], c->wire[at].server_conn);
    char key[SIM_ETCD_KEY];
    snprintf(key, sizeof key, "snib/b/%.32s", c->hex);
    return conn && !strcmp(conn->watched, key) && sim_etcd_serves_at(w, at);
}

const struct sim_etcd_keys *sim_etcd_keys(const struct sim_world *w)
{
    return &w->etcd->keys;
}

/* A day and two hours, or thirty days. */
enum { MEMORY_S = 31 * 86400, LONGER_S = 40 };

void sim_etcd_residue(struct sim_world *w)
{
    const struct sim_etcd_keys *keys = &w->etcd->keys;
    int64_t lease_s = (sim_lease_most(&w->opt) + w->opt.delay_ms) / 1000 + 1;
    for (int i = 0; i < keys->count; i++) {
        const struct sim_etcd_key *k = &keys->key[i];
        const struct sim_etcd_lease *l = sim_etcd_lease_of(w, k->lease);
        bool memory = k->name >= 0 && k->kind != SNIB__KEY_CLAIM;
        if (!l) {
            sim_fail(w, "nothing left behind", "key %.90s never expires",
                     k->text);
        } else if (l->ttl > (memory ? MEMORY_S : lease_s + LONGER_S)) {
            sim_fail(w, "nothing left behind", "key %.90s lives for %lld s",
                     k->text, (long long)l->ttl);
        }
    }
}
