/* tests/fuzz/witness.h — who was granted what, by one who only reads along.
 *
 * The witness sees the bytes of each connection in both directions. It knows
 * the protocol (docs/REDIS.md) and nothing of the engine. For each id of a
 * request it notes every answer and every pushed message that grants it: which
 * server, which token, and until when the client may believe in it. The rule of
 * exclusion is: the lease counts from the sending of what was answered, or of the poll
 * that the message names, it is never longer than was asked for, less the
 * allowance for clock rates.
 *
 * Replies and commands are matched as on any such stream: the oldest reply
 * answers the oldest command. So whatever a liar says, in whatever pieces, the
 * witness knows what was said. What it cannot follow (more than it has room
 * for, bytes that the client reads though they are no RESP2) is not held
 * against the client: that server counts as one that has said everything. */
#ifndef SNIB_TESTS_WITNESS_H
#define SNIB_TESTS_WITNESS_H

#include "commands.h"
#include "reply.h"

enum {
    SEEN_CONNS = 9, /* three of each server                                */
    SEEN_SERVERS = SEEN_CONNS / 3,
    SEEN_DUE = 128, /* unanswered commands of a connection                 */
    SEEN_LOCKS = 8, /* of one command                                      */
    SEEN_NOTES = 1024,
    SEEN_POLLS = 512,
    SEEN_BYTES = 1 << 15 /* of an unfinished reply                          */
};

/* A request in a command. till: in a packet, e. */
struct seen_request {
    uint64_t id[2];
    int64_t token, lease_ms, till;
};

struct seen_command {
    asked what;
    uint32_t locks;
    int64_t sent_ns;
    struct seen_request request[SEEN_LOCKS];
};

struct seen_line {
    struct seen_command due[SEEN_DUE];
    uint32_t first, count;
    uint32_t sets; /* of a packet                                           */
    struct seen_request set[SEEN_LOCKS];
    bool broken; /* nothing more of it is understood                       */
    size_t size;
    char bytes[SEEN_BYTES];
};

/* A grant that a server has told of. */
struct seen_grant {
    uint64_t id[2];
    uint32_t server;
    int64_t token, reserve, until_ns;
};

struct seen_poll {
    uint64_t id[2];
    uint32_t server;
    int64_t number, sent_ns, lease_ms;
};

struct witness {
    int64_t now_ns; /* the driver's to set                                  */
    struct seen_line line[SEEN_CONNS];
    struct seen_grant grant[SEEN_NOTES];
    struct seen_poll poll[SEEN_POLLS];
    uint32_t grants, polls;
    bool lost[SEEN_SERVERS]; /* what it said is not known any more          */
};

static inline void witness_begins(struct witness *w)
{
    w->grants = w->polls = 0;
    memset(w->lost, 0, sizeof w->lost);
    for (int i = 0; i < SEEN_CONNS; i++) {
        w->line[i].count = w->line[i].first = 0;
        w->line[i].size = 0;
        w->line[i].broken = false;
    }
}

/* A new connection: nothing of an old one is answered on it. */
static inline void witness_connects(struct witness *w, uint32_t conn)
{
    struct seen_line *l = &w->line[conn];
    l->count = l->first = 0;
    l->size = 0;
    l->broken = false;
}

/* -- what was asked ------------------------------------------------------------- */

static inline bool seen_id(struct word from, uint64_t ret[2])
{
    char half[17];
    for (int i = 0; i < 2; i++) {
        if (from.n != 32) {
            return false;
        }
        memcpy(half, from.p + (i ? 16 : 0), 16);
        half[16] = 0;
        ret[i] = strtoull(half, NULL, 16);
    }
    return true;
}

static inline bool same_id(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

static inline void saw_poll(struct witness *w, uint32_t server,
                            const struct seen_request *rq, int64_t number)
{
    struct seen_poll *p = &w->poll[w->polls++ % SEEN_POLLS];
    memcpy(p->id, rq->id, sizeof p->id);
    p->server = server;
    p->number = number;
    p->sent_ns = w->now_ns;
    p->lease_ms = rq->lease_ms;
}

/* arg: the key, the record, NX, PXAT, e. The record begins with the request,
 * its client, the lease. */
static inline void saw_set(struct witness *w, struct seen_line *l,
                           uint32_t server, const struct word *arg)
{
    struct seen_request rq = {.till = word_number(arg[4])};
    struct word id = {arg[1].p, 32};
    MUST(arg[1].n > 66 && seen_id(id, rq.id));
    struct word lease = {arg[1].p + 66, arg[1].n - 66};
    const char *end = memchr(lease.p, ' ', lease.n);
    MUST(end);
    lease.n = (size_t)(end - lease.p);
    rq.lease_ms = word_number(lease);
    if (l->sets == SEEN_LOCKS) {
        w->lost[server] = l->broken = true;
    } else {
        l->set[l->sets++] = rq;
    }
}

/* arg: of the script, behind its keys; of a SET, behind its word. */
static inline void witness_hears(struct witness *w, uint32_t conn, asked what,
                                 uint32_t locks, const struct word *arg)
{
    struct seen_line *l = &w->line[conn];
    struct seen_command *c = &l->due[(l->first + l->count) % SEEN_DUE];
    if (l->count == SEEN_DUE || locks > SEEN_LOCKS) {
        w->lost[conn / 3] = l->broken = true;
        return;
    }
    l->count++;
    *c = (struct seen_command){.what = what, .sent_ns = w->now_ns};
    if (what == ASKED_MULTI) {
        l->sets = 0;
    } else if (what == ASKED_QUEUED && arg) {
        saw_set(w, l, conn / 3, arg);
    } else if (what == ASKED_EXEC) {
        c->locks = locks;
        memcpy(c->request, l->set, sizeof c->request);
    }
    if (what != ASKED_ACQUIRE && what != ASKED_SEVERAL && what != ASKED_RENEW &&
        what != ASKED_KEEP) {
        return;
    }
    c->locks = locks;
    for (uint32_t i = 0; i < locks; i++) {
        struct seen_request *rq = &c->request[i];
        const struct word *a = what == ASKED_ACQUIRE   ? arg
                               : what == ASKED_SEVERAL ? arg + 1 + 16 * i
                               : what == ASKED_RENEW   ? arg + 3 * i
                                                       : arg;
        MUST(seen_id(a[1], rq->id));
        if (what == ASKED_ACQUIRE || what == ASKED_SEVERAL) {
            rq->lease_ms = word_number(a[2]);
            saw_poll(w, conn / 3, rq, word_number(a[4]));
        } else {
            rq->token = word_number(a[2]);
            rq->lease_ms = word_number(a[what == ASKED_KEEP ? 4 : 3]);
        }
    }
}

/* -- grants ---------------------------------------------------------------------- */

/* 1 % of the lease and 5 ms, for clock rates. */
static inline int64_t seen_until(int64_t sent_ns, int64_t lease_ms)
{
    return sent_ns + lease_ms * 1000000 - (lease_ms * 10000 + 5000000);
}

static inline void saw_grant(struct witness *w, const struct seen_grant *g)
{
    for (uint32_t i = 0; i < w->grants; i++) {
        struct seen_grant *old = &w->grant[i];
        if (old->server == g->server && old->token == g->token &&
            same_id(old->id, g->id)) {
            old->reserve =
                g->reserve > old->reserve ? g->reserve : old->reserve;
            old->until_ns =
                g->until_ns > old->until_ns ? g->until_ns : old->until_ns;
            return;
        }
    }
    if (w->grants == SEEN_NOTES) {
        w->lost[g->server] = true;
        return;
    }
    w->grant[w->grants++] = *g;
}

static inline bool is_token(int64_t token, int64_t reserve, int64_t lease_ms)
{
    return token > 0 && token < INT64_C(1) << 53 && reserve >= 0 &&
           reserve <= 1024 && lease_ms > 0;
}

/* {1, now, token, room, lease, …} */
static inline void saw_acquired(struct witness *w, uint32_t server,
                                const struct seen_command *c, uint32_t k,
                                const struct seen_cell *reply)
{
    const struct seen_request *rq = &c->request[k];
    struct seen_grant g = {.id = {rq->id[0], rq->id[1]}, .server = server};
    int64_t code, clock, lease;
    if (!seen_int(reply, 0, &code) || code != 1 ||
        !seen_int(reply, 1, &clock) || !seen_int(reply, 2, &g.token) ||
        !seen_int(reply, 3, &g.reserve) || !seen_int(reply, 4, &lease) ||
        !is_token(g.token, g.reserve, lease)) {
        return;
    }
    g.until_ns =
        seen_until(c->sent_ns, lease < rq->lease_ms ? lease : rq->lease_ms);
    saw_grant(w, &g);
}

/* {now, code, …}: 1, or 5 and a slot. A lease of 0 only asks. */
static inline void saw_renewed(struct witness *w, uint32_t server,
                               const struct seen_command *c, uint32_t k,
                               const struct seen_cell *reply)
{
    const struct seen_request *rq = &c->request[k];
    struct seen_grant g = {.id = {rq->id[0], rq->id[1]},
                           .server = server,
                           .token = rq->token,
                           .until_ns = INT64_MIN};
    int64_t code;
    if (!seen_int(reply, 1 + k, &code) || (code != 1 && code < 5)) {
        return;
    }
    if (rq->lease_ms) {
        g.until_ns = seen_until(c->sent_ns, rq->lease_ms);
    }
    saw_grant(w, &g);
}

/* The k-th SET's OK, and the id that XADD gave behind all of them. */
static inline void saw_packet(struct witness *w, uint32_t server,
                              const struct seen_command *c, uint32_t k,
                              const struct seen_cell *reply)
{
    const struct seen_request *rq = &c->request[k];
    const struct seen_cell *set = seen_at(reply, k);
    const struct seen_cell *id =
        reply->type == '*' ? seen_at(reply, (uint32_t)reply->n - 1) : NULL;
    struct seen_grant g = {.id = {rq->id[0], rq->id[1]}, .server = server};
    char text[48];
    int64_t ms, sequence;
    int end = 0;
    if (!set || set->size != 2 || memcmp(set->p, "OK", 2) != 0 || !id ||
        id->type != '$' || id->size >= sizeof text) {
        return;
    }
    memcpy(text, id->p, id->size);
    text[id->size] = 0;
    if (sscanf(text, "%17" SCNd64 "-%17" SCNd64 "%n", &ms, &sequence, &end) !=
            2 ||
        text[end] || ms < 0 || sequence < 0 || sequence > 1023 ||
        ms >= INT64_C(1) << 43 || rq->till <= ms) {
        return;
    }
    int64_t left = rq->till - ms;
    g.token = ms * 1024 + sequence;
    g.until_ns =
        seen_until(c->sent_ns, left < rq->lease_ms ? left : rq->lease_ms);
    saw_grant(w, &g);
}

static inline void saw_reply(struct witness *w, uint32_t conn,
                             const struct seen_cell *reply)
{
    struct seen_line *l = &w->line[conn];
    if (!l->count) {
        return; /* to nothing: the client hangs up */
    }
    const struct seen_command *c = &l->due[l->first];
    l->first = (l->first + 1) % SEEN_DUE;
    l->count--;
    for (uint32_t k = 0; k < c->locks; k++) {
        if (c->what == ASKED_RENEW || c->what == ASKED_KEEP) {
            saw_renewed(w, conn / 3, c, k, reply);
        } else if (c->what == ASKED_EXEC) {
            saw_packet(w, conn / 3, c, k, reply);
        } else {
            saw_acquired(w, conn / 3, c, k,
                         c->what == ASKED_SEVERAL ? seen_at(reply, k) : reply);
        }
    }
}

/* The next of some words with a space behind each. */
static inline bool next_number(const char **p, const char *end, int64_t *ret)
{
    const char *from = *p;
    const char *to =
        from < end ? memchr(from, ' ', (size_t)(end - from)) : NULL;
    if (!to || to == from || to - from > 17) {
        return false;
    }
    *ret = 0;
    for (; from < to; from++) {
        if (*from < '0' || *from > '9') {
            return false;
        }
        *ret = *ret * 10 + (*from - '0');
    }
    *p = to + 1;
    return true;
}

/* The last two polls of a request prove a grant that names them. */
static inline const struct seen_poll *
poll_of(const struct witness *w, const struct seen_grant *g, int64_t number)
{
    uint32_t kept = w->polls < SEEN_POLLS ? w->polls : SEEN_POLLS, own = 0;
    for (uint32_t i = 1; i <= kept && own < 2; i++) {
        const struct seen_poll *p = &w->poll[(w->polls - i) % SEEN_POLLS];
        if (p->server != g->server || !same_id(p->id, g->id)) {
            continue;
        }
        own++;
        if (p->number == number) {
            return p;
        }
    }
    return NULL;
}

/* "g <request> <token> <reserve> <push lease ms> <poll> …" */
static inline void saw_message(struct witness *w, uint32_t conn,
                               const struct seen_cell *text)
{
    struct seen_grant g = {.server = conn / 3};
    int64_t claim, number;
    const char *p = text->p, *end = p + text->size;
    if (text->type != '$' || text->size < 36 || memcmp(p, "g ", 2) ||
        p[34] != ' ' || !seen_id((struct word){p + 2, 32}, g.id)) {
        return;
    }
    p += 35;
    if (!next_number(&p, end, &g.token) || !next_number(&p, end, &g.reserve) ||
        !next_number(&p, end, &claim) || !next_number(&p, end, &number) ||
        !is_token(g.token, g.reserve, claim)) {
        return;
    }
    const struct seen_poll *poll = poll_of(w, &g, number);
    if (poll) {
        g.until_ns = seen_until(
            poll->sent_ns, claim < poll->lease_ms ? claim : poll->lease_ms);
        saw_grant(w, &g);
    }
}

static inline bool is_message(const struct seen_cell *reply)
{
    const struct seen_cell *what = seen_at(reply, 0);
    return what && what->size == 7 && !memcmp(what->p, "message", 7) &&
           seen_at(reply, 2);
}

/* What a client was given to read. False: it cannot be followed any more. */
static inline bool witness_reads(struct witness *w, uint32_t conn,
                                 const char *p, size_t size)
{
    static struct seen_reply r;
    struct seen_line *l = &w->line[conn];
    enum seen_result got = SEEN_MORE;
    if (l->broken || size > sizeof l->bytes - l->size) {
        l->broken = true;
        return false;
    }
    memcpy(l->bytes + l->size, p, size);
    l->size += size;
    r.p = l->bytes;
    r.end = l->bytes + l->size;
    while (r.p < r.end) {
        const char *begin = r.p;
        r.cells = 0;
        got = seen_value(&r, 0);
        if (got != SEEN_WHOLE) {
            r.p = begin;
            break;
        }
        if (conn % 3 == 2 && is_message(r.cell)) {
            saw_message(w, conn, seen_at(r.cell, 2));
        } else {
            saw_reply(w, conn, r.cell);
        }
    }
    l->size = (size_t)(r.end - r.p);
    memmove(l->bytes, r.p, l->size);
    l->broken = got == SEEN_BROKEN;
    return !l->broken;
}

/* Has `need` of the servers said that this id was granted under this token, and
 * for so long? *ret_room: how many tokens more came with it. */
static inline bool witness_saw(const struct witness *w, uint32_t need,
                               const uint64_t id[2], int64_t token,
                               int64_t until_ns, int64_t *ret_room)
{
    uint32_t said = 0;
    *ret_room = 0;
    for (uint32_t k = 0; k < SEEN_SERVERS; k++) {
        bool has = w->lost[k];
        int64_t until = has ? INT64_MAX : INT64_MIN;
        int64_t reserve = has ? 1024 : 0;
        for (uint32_t i = 0; i < w->grants && !w->lost[k]; i++) {
            const struct seen_grant *g = &w->grant[i];
            if (g->server != k || !same_id(g->id, id)) {
                continue;
            }
            until = g->until_ns > until ? g->until_ns : until;
            has = has || g->token == token;
            reserve = g->token == token && g->reserve > reserve ? g->reserve
                                                                : reserve;
        }
        *ret_room = reserve > *ret_room ? reserve : *ret_room;
        said += has && until >= until_ns;
    }
    return said >= need;
}

#endif
