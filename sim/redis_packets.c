/* sim/redis_packets.c — free mutexes, which are taken without a script
 * (store/redis/packet.c) and given back by drop.lua, in the words of sim/seen.h.
 *
 * SET and XADD come in one transaction. Each SET of it is said as an acquire,
 * when EXEC has answered. Where the client does not take the grant it is said as
 * one that is not known to be given. */
#include "sim/redis_reply.h"

enum { SET_ARGS = 6 };

/* The release of one lock by drop.lua: the record has said who holds. Where it
 * does not end the grant, release.lua is asked next, and says what was so. */
static void dropped(const struct sim_world *w, struct reply r, const char *id,
                    struct sim_seen *s)
{
    if (r.at < r.end && r.at[0] == ':' && r.at[1] == '1') {
        const struct sim_holder *h =
            s->name >= 0 ? sim_holder_of(&w->shelf[s->name].book, id) : NULL;
        s->deed = SIM_DID_RELEASE;
        s->said = SIM_SAID_ENDED;
        copy_id(s->request, id);
        if (h) {
            copy_id(s->client, h->client);
            s->token = h->token;
        }
    }
}

/* EVALSHA script n holders… request…; one number, or an array. */
bool sim_redis_drops(const struct sim_world *w,
                     const struct sim_redis_event *ev, struct reply r,
                     struct sim_act *a)
{
    int n = atoi(ev->argv[2].ptr);
    if (n < 1 || n > SIM_PARTS || ev->argc != HEAD + 2 * n || marks(ev, n)) {
        return false;
    }
    if (is_array(r)) {
        r.at = next_line(r);
    }
    for (int k = 0; k < n; k++) {
        struct sim_seen *s = &a->part[a->count++];
        *s = (struct sim_seen){.name = name_of(w, ev->argv[HEAD + k].ptr, ""),
                               .conn = ev->conn,
                               .at = w->t};
        dropped(w, r, ev->argv[HEAD + n + k].ptr, s);
        r.at = skip(r);
    }
    return true;
}

/* SET H "<request> <client> …" NX PXAT e, within a transaction: it is answered
 * by EXEC. */
bool sim_redis_packet(const struct sim_world *w,
                      const struct sim_redis_event *ev, struct sim_packet *p)
{
    if (ev->in_script || strcmp(ev->name, "set") || ev->argc != SET_ARGS ||
        ev->argv[2].len < 2 * SIM_ID + 2 || p->count == SIM_PARTS) {
        return false;
    }
    struct sim_seen *s = &p->part[p->count];
    *s = (struct sim_seen){.deed = SIM_DID_ACQUIRE,
                           .said = SIM_SAID_FAILED,
                           .name = name_of(w, ev->argv[1].ptr, ""),
                           .conn = ev->conn,
                           .at = w->t};
    copy_id(s->request, ev->argv[2].ptr);
    copy_id(s->client, ev->argv[2].ptr + SIM_ID + 1);
    s->class = 128;
    p->end[p->count++] = number(&ev->argv[5]);
    return true;
}

/* What became of one SET: id is that of the mark. */
static void of_a_set(struct sim_seen *s, struct reply set, const char *id,
                     int64_t end)
{
    char *rest;
    int64_t ms = id ? strtoll(id, &rest, 10) : 0;
    int64_t sequence = ms && *rest == '-' ? strtoll(rest + 1, NULL, 10) : -1;
    if (*set.at == '$') {
        s->said = SIM_SAID_NO;
        s->looked = true; /* a script comes behind it */
    } else if (sequence >= 0 && sequence < 1024 && end > ms) {
        s->said = SIM_SAID_GRANTED;
        s->given = ms * 1024 + sequence;
    }
}

static void note_token(struct sim_world *w, const struct sim_seen *s)
{
    if (s->name >= 0 && s->said == SIM_SAID_GRANTED) {
        struct sim_queue *q = &w->queue_at[s->name];
        memcpy(q->thin_id, s->request, SIM_ID);
        q->thin = s->given;
    }
}

/* It took the lock, and its client goes on to a script: an id that is none, in
 * the ms of a whole grant. Who comes meanwhile has come later. */
static void note_holder(struct sim_world *w, const struct sim_seen *s)
{
    if (s->name >= 0 && s->said == SIM_SAID_FAILED &&
        sim_holder_of(&w->shelf[s->name].book, s->request)) {
        memcpy(w->queue_at[s->name].holder, s->request, SIM_ID);
    }
}

void sim_redis_exec(struct sim_world *w, const struct sim_redis_event *ev,
                    struct sim_packet *p, struct sim_act *a)
{
    struct reply r = {ev->reply, (const char *)ev->reply + ev->reply_len};
    struct reply last = r;
    if (!is_array(r)) {
        p->count = 0;
        return;
    }
    last.at = next_line(last);
    for (int k = 0; k < p->count; k++) {
        last.at = skip(last);
    }
    const char *id = last.at < last.end && *last.at == '$' && last.at[1] != '-'
                         ? next_line(last)
                         : NULL;
    r.at = next_line(r);
    for (int k = 0; k < p->count; k++) {
        a->count = 1;
        a->part[0] = p->part[k];
        of_a_set(&a->part[0], r, id, p->end[k]);
        note_token(w, &a->part[0]);
        sim_note(w,
                 "    server: packet for name %d, client %.6s request %.6s: %s",
                 a->part[0].name, a->part[0].client, a->part[0].request,
                 a->part[0].said == SIM_SAID_GRANTED ? "granted"
                 : a->part[0].said == SIM_SAID_NO    ? "taken"
                                                     : "odd");
        sim_watch(w, a);
        note_holder(w, &a->part[0]);
        r.at = skip(r);
    }
    p->count = 0;
}
