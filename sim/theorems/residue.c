/* No residue (P9). Checked at the end of a world: nobody holds or waits, no
 * answer is awaited, and every key that is left has a time to live of at most a
 * day and an hour. The params of a lock, the hash of a closed latch, and a
 * value, may live for 30 days; what is remembered of a value lives a day
 * longer; the mark lives for two days, the number of the layout for a year.
 * Excused: by as much as a server's clock was set back or is ahead. In etcd every
 * key hangs on a lease: what a name remembers for a day and two hours, or for
 * thirty days, all else for as long as a lease that was asked for, and a little.
 *
 * And after every step the key of the holders has a time to live. */
#include <string.h>

#include "sim/table.h"

/* An unresponsive waiter keeps its rank for a minute; a record of an end lives
 * ten seconds longer than the lease would have. */
enum { ROWS_MS = 61000 + 11000 };

static void look_at_key(void *user, const struct sim_redis_key *key)
{
    struct sim_server *s = user;
    struct sim_world *w = s->world;
    int64_t now_ms = sim_wall_us(w, (int)(s - w->node)) / 1000;
    int64_t step = 0; /* its clock back; it may have gone on before */
    for (int i = 0; i < w->opt.fault_count; i++) {
        const struct sim_fault *f = &w->opt.fault[i];
        step += f->kind == SIM_STEP_BACK ? f->ms : 0;
    }
    bool params =
        key->name.len > 2 && !strcmp(key->name.ptr + key->name.len - 2, ":c");
    const char *tail = key->name.ptr + key->name.len - 2;
    int64_t most = params || !strcmp(tail, ":v") ? INT64_C(2592000000)
                   : !strcmp(tail, ":u")         ? INT64_C(2682000000)
                   : !strcmp(key->name.ptr, "snib:layout")
                       ? INT64_C(31536000000)
                   : !strcmp(key->name.ptr, "snib:m") ? INT64_C(176400000)
                   : tail[1] == '}' ? INT64_C(2592000000) /* of a latch */
                                    : INT64_C(90000000);
    most += 2 * w->opt.apart_ms; /* tokens of a server that is ahead */
    if (!strcmp(tail, ":t") && sim_planned(w, SIM_FOREIGN)) {
        most += SIM_FAR_MS; /* somebody may have written it */
    }
    if (key->expire_ms < 0) {
        sim_fail(w, "nothing left behind", "key %.60s never expires",
                 key->name.ptr);
    } else if (key->expire_ms - now_ms > most + step) {
        sim_fail(w, "nothing left behind", "key %.60s lives for %lld s",
                 key->name.ptr, (long long)(key->expire_ms - now_ms) / 1000);
    }
}

/* A table knows no time to live: what is over goes with the next step on its
 * name. But all of it is over some time. */
static void look_at_rows(struct sim_world *w)
{
    const struct sim_rows *t = &w->node[0].table->rows;
    int64_t now_ms = sim_wall_us(w, 0) / 1000, most = ROWS_MS;
    most += w->opt.lease_ms + w->opt.lease2_ms + w->opt.delay_ms;
    for (int i = 0; i < w->opt.fault_count; i++) {
        const struct sim_fault *f = &w->opt.fault[i];
        most += f->kind == SIM_STEP_BACK ? f->ms : 0;
    }
    for (int i = 0; i < t->count; i++) {
        const struct sim_row *row = &t->row[i];
        int64_t till = snib__rules_claim_till(&row->c).ns / 1000000;
        if (row->key.kind == SNIB__KEY_CLAIM && till - now_ms > most) {
            sim_fail(w, "nothing left behind",
                     "name %d: a claim (state %d) lives for %lld ms",
                     row->key.name, row->c.state, (long long)(till - now_ms));
        }
    }
}

void theorem_nothing_left_behind(struct sim_world *w)
{
    if (sim_table(w)) {
        look_at_rows(w);
    } else if (sim_etcd(w)) {
        sim_etcd_residue(w);
    }
    for (int k = 0; k < w->nodes && !sim_snapshots(w); k++) {
        sim_redis_each_key(w->node[k].redis, 0, sim_wall_us(w, k), look_at_key,
                           &w->node[k]);
    }
    for (int c = 0; c < w->opt.clients; c++) {
        struct snib__counts n;
        snib__engine_counts(w->client[c].engine, &n);
        if (n.acquisitions || n.claims || n.requests || n.own_claims) {
            sim_fail(w, "nothing left behind",
                     "client %d: %u acquisitions, %u claims, %u requests, "
                     "%u own claims",
                     c, n.acquisitions, n.claims, n.requests, n.own_claims);
        }
    }
}

void theorem_holders_expire(struct sim_world *w, int name)
{
    struct sim_redis_key key;
    if (!sim_snapshots(w) &&
        sim_redis_find(w->node[0].redis, 0, sim_keys[name],
                       strlen(sim_keys[name]), sim_wall_us(w, 0), &key) &&
        key.expire_ms < 0 && !sim_planned(w, SIM_FOREIGN)) {
        sim_fail(w, "nothing left behind", "key %s has no time to live",
                 sim_keys[name]);
    }
}
