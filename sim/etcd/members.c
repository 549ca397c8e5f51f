/* sim/etcd/members.c — the members of the cluster: who leads, who is cut off, and
 * what happens to them.
 *
 * A member takes part while it runs, is not stopped, and reaches the others. As
 * long as a majority does, and the leader is of it, all is served, by whichever of
 * them is asked. A leader that is away for longer than an election takes is
 * followed by another one, and all leases have their time anew. If it comes back
 * sooner it goes on, and nobody notices. Who was cut off has the keys of then
 * until it is back (calls.c says what it may answer from them).
 *
 * How entries of the log get from member to member is not modelled: what is
 * executed is executed at once, and what is not, is gone or comes when the member
 * is back. */
#include <stdlib.h>
#include <string.h>

#include "sim/etcd/model.h"

enum { ELECTION_MS = 1000, AFTER_LOSS_MS = 2 };

/* -- elections --------------------------------------------------------------- */

static void look_again(struct sim_world *w, int64_t at)
{
    sim_push(w, (struct sim_event){.at = at, .kind = SIM_EV_MEMBERS});
}

static void elect(struct sim_world *w)
{
    struct sim_etcd *e = w->etcd;
    int next = (int)sim_etcd_upto(e, e->members);
    while (!sim_etcd_takes_part(w, next)) {
        next = (next + 1) % e->members;
    }
    sim_note(w, "    etcd: member %d leads now", next);
    e->leader = next;
    e->term++;
    e->lost_at = 0;
    e->led_at = w->t;
    sim_etcd_leases_anew(w);
}

static void leader_lost(struct sim_world *w)
{
    struct sim_etcd *e = w->etcd;
    if (e->lost_at) {
        return;
    }
    sim_note(w, "    etcd: nobody leads");
    e->lost_at = w->t;
    e->elect_at = w->t + (ELECTION_MS + sim_etcd_upto(e, ELECTION_MS)) * SIM_MS;
    for (int k = 0; k < e->members; k++) {
        e->member[k].led = k == e->leader;
    }
    look_again(w, e->elect_at);
}

/* What it knows stays as it is; who watches there is told nothing. */
static void cut_off(struct sim_world *w, struct sim_etcd_member *m)
{
    m->alone = true;
    sim_etcd_keys_copy(&m->old, &w->etcd->keys);
}

static void come_back(struct sim_world *w, struct sim_etcd_member *m)
{
    bool led = m->led && w->etcd->leader != m->node;
    m->alone = m->led = false;
    sim_etcd_waits_done(m);
    if (led) {
        sim_etcd_leases_old(w);
    }
}

void sim_etcd_settle(struct sim_world *w)
{
    struct sim_etcd *e = w->etcd;
    if (sim_etcd_is_led(w) && e->lost_at) {
        e->lost_at = 0; /* it was away for a moment */
        sim_etcd_leases_due(w);
    } else if (!sim_etcd_is_led(w)) {
        leader_lost(w);
        if (w->t >= e->elect_at && sim_etcd_has_majority(w)) {
            elect(w);
        }
    }
    for (int k = 0; k < e->members; k++) {
        struct sim_etcd_member *m = &e->member[k];
        bool serves = sim_etcd_serves_at(w, k);
        if (m->alone && serves) {
            come_back(w, m);
        } else if (!m->alone && !serves) {
            cut_off(w, m);
        }
    }
}

/* -- life -------------------------------------------------------------------- */

void sim_etcd_start(struct sim_world *w)
{
    struct sim_etcd *e = calloc(1, sizeof *e);
    if (!e) {
        abort();
    }
    w->etcd = e;
    snib__rng_init(&e->rng, &(struct snib__seed){{w->opt.seed, 61, 0, 0}});
    e->members = w->opt.etcd;
    e->cluster = 77;
    e->term = e->keys.revision = 1;
    for (int k = 0; k < e->members; k++) {
        struct sim_etcd_member *m = &e->member[k];
        m->world = w;
        m->cluster = e;
        m->node = k;
        m->ppm =
            (int)sim_etcd_upto(e, 2 * w->opt.rate_ppm + 1) - w->opt.rate_ppm;
        w->node[k].world = w;
        w->node[k].etcd = m;
    }
    e->leader = (int)sim_etcd_upto(e, e->members);
}

static void close_all(struct sim_etcd_member *m)
{
    while (m->conns) {
        struct sim_etcd_conn *c = m->conns;
        m->conns = c->next;
        sim_etcd_conn_free(c);
    }
}

void sim_etcd_free(struct sim_world *w)
{
    struct sim_etcd *e = w->etcd;
    if (!e) {
        return;
    }
    for (int k = 0; k < e->members; k++) {
        close_all(&e->member[k]);
        sim_etcd_waits_free(&e->member[k]);
        sim_etcd_keys_free(&e->member[k].old);
        w->node[k].etcd = NULL;
    }
    sim_etcd_keys_free(&e->keys);
    sim_etcd_keys_free(&e->backup);
    free(e->leases.lease);
    free(e->backup_leases.lease);
    sim_etcd_notes_free(e);
    free(e);
    w->etcd = NULL;
}

/* -- for the network ---------------------------------------------------------- */

int sim_etcd_connect(struct sim_etcd_member *m)
{
    struct sim_etcd_conn *c = sim_etcd_conn_new(m, ++m->cluster->last_conn);
    c->next = m->conns;
    m->conns = c;
    return c->id;
}

void sim_etcd_disconnect(struct sim_etcd_member *m, int id)
{
    for (struct sim_etcd_conn **at = &m->conns; *at; at = &(*at)->next) {
        struct sim_etcd_conn *c = *at;
        if (c->id == id) {
            *at = c->next;
            sim_etcd_conn_free(c);
            return;
        }
    }
}

bool sim_etcd_is_open(const struct sim_etcd_member *m, int id)
{
    return sim_etcd_conn(m, id) != NULL;
}

bool sim_etcd_is_closing(const struct sim_etcd_member *m, int id)
{
    const struct sim_etcd_conn *c = sim_etcd_conn(m, id);
    return c && c->broken;
}

void sim_etcd_input(struct sim_etcd_member *m, int id, const void *bytes,
                    size_t size)
{
    sim_etcd_settle(m->world);
    sim_etcd_conn_input(sim_etcd_conn(m, id), bytes, size);
}

size_t sim_etcd_pending(struct sim_etcd_member *m, int *ids, size_t most)
{
    size_t n = 0;
    for (struct sim_etcd_conn *c = m->conns; c && n < most; c = c->next) {
        sim_etcd_conn_flush(c);
        if (snib__buf_size(&c->out) || c->broken) {
            ids[n++] = c->id;
        }
    }
    return n;
}

const struct snib__buf *sim_etcd_output(const struct sim_etcd_member *m, int id)
{
    return &sim_etcd_conn(m, id)->out;
}

void sim_etcd_consume(struct sim_etcd_member *m, int id, size_t size)
{
    snib__buf_consume(&sim_etcd_conn(m, id)->out, size);
}

/* -- what can happen to it ----------------------------------------------------- */

/* A member restarts with its data. What waited there is gone; if it has led, there
 * is an election. */
void sim_etcd_restart(struct sim_etcd_member *m)
{
    close_all(m);
    sim_etcd_waits_free(m);
    if (m->cluster->leader == m->node) {
        m->cluster->leader = -1;
    }
}

/* Whoever deletes keys takes so long: the tokens of one tick of the clients' clocks
 * are told apart by what the keys remember, and by nothing else. */
static void take_time(struct sim_world *w)
{
    for (int k = 0; k < w->etcd->members; k++) {
        struct sim_server *s = &w->node[k];
        int64_t until = w->t + AFTER_LOSS_MS * SIM_MS;
        s->paused_until = until > s->paused_until ? until : s->paused_until;
    }
    w->p2_off |= w->opt.rate_ppm || w->opt.skew_ms;
    look_again(w, w->t + AFTER_LOSS_MS * SIM_MS);
    sim_etcd_settle(w);
}

/* Somebody deletes the keys of a name; -1: all keys. */
void sim_etcd_delete_keys(struct sim_world *w, int name)
{
    struct sim_etcd_keys *keys = &w->etcd->keys;
    keys->revision++;
    for (int i = keys->count; i-- > 0;) {
        if (name < 0 || keys->key[i].name == name) {
            sim_etcd_tell_watches(w, &keys->key[i], true);
            sim_etcd_delete(keys, &keys->key[i]);
        }
    }
    take_time(w);
}

static void copy_leases(struct sim_etcd_leases *to,
                        const struct sim_etcd_leases *from)
{
    size_t size = (size_t)from->count * sizeof *from->lease;
    free(to->lease);
    to->lease = malloc(size + 1);
    if (!to->lease) {
        abort();
    }
    if (size) {
        memcpy(to->lease, from->lease, size);
    }
    to->count = to->room = from->count;
}

void sim_etcd_back_up(struct sim_world *w)
{
    struct sim_etcd *e = w->etcd;
    sim_etcd_keys_copy(&e->backup, &e->keys);
    copy_leases(&e->backup_leases, &e->leases);
    e->has_backup = true;
}

bool sim_etcd_has_backup(const struct sim_world *w)
{
    return w->etcd->has_backup;
}

/* All members begin anew with the keys of then: another cluster, or one that calls
 * itself as before. Each lease has its whole time. */
void sim_etcd_restore(struct sim_world *w, bool renamed)
{
    struct sim_etcd *e = w->etcd;
    sim_etcd_keys_copy(&e->keys, &e->backup);
    copy_leases(&e->leases, &e->backup_leases);
    e->has_backup = false;
    e->cluster += renamed;
    e->term++;
    for (int k = 0; k < e->members; k++) {
        e->member[k].alone = e->member[k].led = false;
    }
    sim_etcd_leases_anew(w);
    take_time(w);
    look_again(w, w->node[0].down_until);
}

static void end_watches(struct sim_etcd_member *m)
{
    for (struct sim_etcd_conn *c = m->conns; c; c = c->next) {
        struct sim_etcd_stream *s =
            c->watch ? sim_etcd_stream(c, c->watch) : NULL;
        struct snib__buf b;
        snib__buf_init(&b, 256);
        snib__pb_put_int(&b, 4, 1);
        snib__pb_put_text(&b, 6, "mvcc: watcher is canceled");
        if (s) {
            sim_etcd_answer(s, &b);
        }
        c->watched[0] = 0;
        snib__buf_free(&b);
    }
}

void sim_etcd_fault(struct sim_world *w, const struct sim_fault *f, int node,
                    int64_t until)
{
    struct sim_etcd_member *m = &w->etcd->member[node];
    switch (f->kind) {
    case SIM_APART:
        m->apart_until = until > m->apart_until ? until : m->apart_until;
        break;
    case SIM_LEADER: /* it hands over in order */
        if (sim_etcd_is_led(w)) {
            elect(w);
        }
        break;
    case SIM_UNWATCH:
        end_watches(m);
        break;
    case SIM_GOAWAY:
        for (struct sim_etcd_conn *c = m->conns; c; c = c->next) {
            sim_etcd_goes_away(c, f->a % 2);
        }
        break;
    default:
        break;
    }
    sim_etcd_settle(w);
    look_again(w, until);
}

/* Something may have ended that kept a member from taking part. */
void sim_etcd_event(struct sim_world *w, const struct sim_event *ev)
{
    if (ev->kind == SIM_EV_LEASE) {
        sim_etcd_lease_ends(w, ev->a);
    } else {
        sim_etcd_settle(w);
    }
}

void sim_etcd_set_fault(struct sim_world *w, unsigned fault)
{
    w->etcd->faults |= fault;
}

void sim_etcd_heal(struct sim_world *w)
{
    w->etcd->faults = 0;
    for (int k = 0; k < w->etcd->members; k++) {
        w->etcd->member[k].apart_until = 0;
    }
    look_again(w, w->t);
    look_again(w, w->t + 2 * ELECTION_MS * SIM_MS);
}
