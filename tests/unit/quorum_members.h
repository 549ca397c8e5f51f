/* tests/unit/quorum_members.h — member stores made of dice.
 *
 * A member is in a mood, which changes, and by which most of its answers are
 * drawn; some are anything. What it is asked, told and given is said. */
#ifndef SNIB_TESTS_UNIT_QUORUM_MEMBERS_H
#define SNIB_TESTS_UNIT_QUORUM_MEMBERS_H

#include "conns.h"
#include "quorum_rows.h"

#include "store/quorum/quorum_i.h"

enum { MEMBERS = 7, JOBS = 8192, VOTES = 1024, AT_ONCE = -1 };

#define TOKEN_TOP (INT64_C(1) << 53)
#define APART     ((int64_t)TOKENS_APART_MS * 1024)

enum mood {
    WELL,
    BUSY,   /* another holds it                                       */
    SLOW,   /* as well, and late                                      */
    DOWN,   /* nothing is sent                                        */
    MUTE,   /* no answer                                              */
    EMPTY,  /* restarted: it knows of no grant                        */
    FORCED, /* every grant was ended by force                         */
    WILD,   /* anything                                               */
    MOODS
};

/* A request at a member, and what it will be told. */
struct job {
    struct snib__link link;
    struct snib__request *rq;
    snib_instant at, hint; /* hint: an interim answer; NEVER: none         */
    snib__answer answer;
    snib_err err;
    bool at_once;
};

struct member {
    struct snib__out *out;
    struct snib__list jobs;
    struct snib__store_state state;
    enum mood mood;
    int64_t clock_ms, memory; /* clock_ms 0: not known                       */
    int index, ways;          /* ways: how it chooses a token                */
};

/* Who has said DONE to an id under a token. */
struct vote {
    uint64_t id[2];
    int64_t token;
    uint32_t members;
};

static struct {
    struct member member[MEMBERS];
    struct job job[JOBS];
    struct snib__list idle;
    struct vote vote[VOTES];
    snib_instant now;
    uint32_t opened, votes;
    enum mood favourite; /* of the run                                      */
    bool coarse;         /* all takes multiples of 25 ms: instants meet     */
} w;

/* -- answers --------------------------------------------------------------------- */

static void note_vote(const struct member *m, const struct snib__request *rq,
                      int64_t token)
{
    struct vote *v = w.vote;
    while (
        v < w.vote + w.votes % VOTES &&
        (v->id[0] != rq->id[0] || v->id[1] != rq->id[1] || v->token != token)) {
        v++;
    }
    if (v == w.vote + w.votes % VOTES) {
        *v = (struct vote){{rq->id[0], rq->id[1]}, token, 0};
        w.votes++;
    }
    v->members |= 1u << m->index;
}

static uint32_t votes_for(const struct snib__request *rq)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < VOTES; i++) {
        const struct vote *v = &w.vote[i];
        if (v->id[0] == rq->id[0] && v->id[1] == rq->id[1] &&
            v->token == rq->token) {
            all |= v->members;
        }
    }
    return (uint32_t)__builtin_popcount(all);
}

static int64_t clock_now(const struct member *m)
{
    return m->clock_ms > 0 ? m->clock_ms + w.now.ns / MS : m->clock_ms;
}

/* As the members of most runs do it: the same for the same floor. */
static int64_t some_token(struct member *m, const struct snib__request *rq)
{
    int64_t token = rq->floor > 0 ? rq->floor + 1 : clock_now(m) * 1024;
    token = token > m->memory ? token : m->memory + 1;
    switch (m->ways) {
    case 0:
        break;
    case 1:
        token += ANY_OF(0, 0, 0, 1, 2);
        break;
    case 2:
        token = rq->floor + 1 + ANY_OF(0, 1, 5000, 90000);
        break;
    case 3:
        token += APART + ANY_OF(0, -1, 1, 2, APART);
        break;
    case 4:
        token = ANY_OF(1, 5, 6, TOKEN_TOP - 1, rq->floor + 1);
        break;
    }
    token = token > 0 ? token : 1;
    m->memory = token + rq->acquire.reserve;
    return token < TOKEN_TOP ? token : TOKEN_TOP - 1;
}

static void say_yes(struct member *m, const struct job *job)
{
    struct snib__request *rq = job->rq;
    bool keeps = rq->verb == SNIB__RENEW && rq->floor > 0;
    int64_t asked = rq->token;
    if (rq->verb == SNIB__ACQUIRE) {
        rq->token = some_token(m, rq);
        rq->said.far = one_in(8);
    } else if (rq->verb == SNIB__RENEW && one_in(20)) {
        rq->token += ANY_OF(1, -1, 1000);
    }
    if (rq->verb == SNIB__ACQUIRE || keeps) {
        note_vote(m, rq, keeps ? asked : rq->token);
    }
    rq->said.left = one_in(6)
                        ? snib__ms(ANY_OF(0, 1, 7, 300, rq->lease.ns / 2 / MS))
                        : rq->lease;
}

static void say_why(const struct job *job)
{
    struct snib__request *rq = job->rq;
    bool speaks = job->err ? !one_in(5) : one_in(30);
    char text[300];
    int size = (int)ANY_OF(0, 3, 12, 12, 40, 89, 90, 91, 250);
    if (speaks) {
        memset(text, 'w', sizeof text);
        snprintf(text, sizeof text, "%d said %d of %d: ", (int)job->answer,
                 (int)job->err, (int)rq->verb);
        text[strlen(text)] = 'w';
        text[size + 20] = 0;
        snib__fail(rq->said.reterr, job->err ? job->err : SNIB_ERR_STORE, "%s",
                   text);
    }
}

static void answer(struct member *m, struct job *job)
{
    struct snib__request *rq = job->rq;
    rq->said.answer = job->answer;
    rq->said.err = job->err;
    if (job->answer == SNIB__DONE) {
        say_yes(m, job);
    } else if (job->answer == SNIB__NO) {
        rq->said.left = snib__ms(ANY_OF(0, 1, 2, 5, 9, 15, 40, 100, 700, 9000));
        rq->said.revoked =
            rq->verb != SNIB__ACQUIRE && (m->mood == FORCED || one_in(12));
    }
    if (rq->said.result && (job->answer == SNIB__DONE || one_in(6))) {
        put_rows(rq);
    }
    if (rq->said.result && rq->said.result->failed) {
        rq->said.answer = job->answer = SNIB__NOT_APPLIED;
        rq->said.err = job->err = SNIB_ERR_NOMEM;
    }
    say_why(job);
    say_line("answers", m->index);
    say_answer(rq);
    snib__unlink(&job->link);
    snib__list_push(&w.idle, &job->link);
    snib__list_push(&m->out->answered, &rq->link);
}

static void answer_all(struct member *m, bool at_once)
{
    SNIB__LIST_EACH_SAFE (l, next, &m->jobs) {
        struct job *job = SNIB__CONTAINER(l, struct job, link);
        if (at_once ? job->at_once : snib__reached(w.now, job->at)) {
            answer(m, job);
        } else if (snib__reached(w.now, job->hint)) {
            job->hint = SNIB__NEVER;
            job->rq->said.answer = one_in(3) ? SNIB__PENDING : SNIB__QUEUED;
            snib__list_push(&m->out->answered, &job->rq->link);
        }
    }
}

/* -- what it will say ------------------------------------------------------------- */

static snib__answer any_answer(void)
{
    return (snib__answer)ANY_OF(SNIB__DONE, SNIB__DONE, SNIB__NO, SNIB__NO,
                                SNIB__NOT_APPLIED, SNIB__UNKNOWN);
}

static snib__answer answer_by(enum mood mood, const struct snib__request *rq)
{
    bool grants =
        rq->verb == SNIB__ACQUIRE || (rq->verb == SNIB__RENEW && rq->floor > 0);
    switch (mood) {
    case WELL:
    case SLOW:
        return SNIB__DONE;
    case BUSY:
        return grants ? SNIB__NO : SNIB__DONE;
    case DOWN:
        return SNIB__NOT_APPLIED;
    case MUTE:
        return SNIB__UNKNOWN;
    case EMPTY:
        return (rq->verb == SNIB__RENEW && !grants) || rq->verb == SNIB__RELEASE
                   ? SNIB__NO
                   : SNIB__DONE;
    case FORCED:
        return rq->verb == SNIB__RENEW || rq->verb == SNIB__RELEASE
                   ? SNIB__NO
                   : SNIB__DONE;
    default:
        return any_answer();
    }
}

static snib_err err_of(const struct snib__request *rq, snib__answer a)
{
    if (a == SNIB__DONE) {
        return SNIB_ERR_OK;
    }
    if (a == SNIB__NO) {
        return one_in(10)                  ? SNIB_ERR_CANCELLED
               : rq->verb == SNIB__ACQUIRE ? SNIB_ERR_BUSY
                                           : SNIB_ERR_LOST;
    }
    if (!one_in(4)) {
        return a == SNIB__UNKNOWN ? SNIB_ERR_UNKNOWN : SNIB_ERR_UNREACHABLE;
    }
    return (snib_err)ANY_OF(SNIB_ERR_DENIED, SNIB_ERR_CONFIG, SNIB_ERR_CORRUPT,
                            SNIB_ERR_STORE, SNIB_ERR_CANCELLED, SNIB_ERR_NOMEM,
                            SNIB_ERR_UNKNOWN, SNIB_ERR_OK);
}

static int64_t delay_by(enum mood mood)
{
    if (w.coarse && mood != MUTE) {
        return mood == SLOW || one_in(6)
                   ? ANY_OF(25, 50, 100, 250, 500, 1000) * MS
                   : ANY_OF(AT_ONCE, 0, 0, 25 * MS, 25 * MS, 50 * MS);
    }
    if (mood == SLOW) {
        return ANY_OF(20, 40, 49, 50, 51, 80, 200, 900, 2500) * MS;
    }
    if (mood == MUTE || (mood == DOWN && one_in(2))) {
        return INT64_MAX;
    }
    if (mood == WILD && one_in(4)) {
        return ANY_OF(30 * MS, 60 * MS, 400 * MS, INT64_MAX);
    }
    return ANY_OF(AT_ONCE, AT_ONCE, 0, 100000, MS, MS, 1500000, 3 * MS, 5 * MS,
                  12 * MS);
}

static void take(struct member *m, struct snib__request *rq)
{
    struct snib__link *l = snib__list_pop(&w.idle);
    enum mood mood = one_in(10) ? WILD : m->mood;
    assert_non_null(l);
    struct job *job = SNIB__CONTAINER(l, struct job, link);
    *job = (struct job){.rq = rq, .hint = SNIB__NEVER};
    snib__link_init(&job->link);
    job->answer = answer_by(mood, rq);
    job->err = err_of(rq, job->answer);
    int64_t delay = delay_by(mood);
    job->at_once = delay == AT_ONCE;
    job->at = snib__after(w.now, (snib_duration){delay});
    if (job->at.ns >= rq->limit.ns) { /* too late, or just not */
        job->at = rq->limit;
        if (!one_in(6)) {
            job->answer = one_in(3) ? SNIB__NOT_APPLIED : SNIB__UNKNOWN;
            job->err = err_of(rq, job->answer);
        }
        if (one_in(25)) {
            job->at = snib__after(job->at, snib__ms(ANY_OF(25, 75, 3000)));
        }
    }
    if (one_in(25)) {
        job->hint = snib__after(w.now, snib__ms((int64_t)below(5)));
    }
    if (!job->at_once || mood != WILD) {
        rq->said.valid_from =
            snib__before(w.now, snib__ms(one_in(8) ? ANY_OF(1, 5, 200) : 0));
    }
    snib__list_push(&m->jobs, &job->link);
}

/* -- the store table --------------------------------------------------------------- */

static struct member *member_of(const struct snib__store *store)
{
    return (struct member *)(uintptr_t)store;
}

static void say_channels(const struct member *m)
{
    say("open", opens(m->out));
    say("shut", shuts(m->out));
    for (int i = 0; i < NODE_CONNS; i++) {
        const struct snib__buf *b = &m->out->conn[i]->out;
        say_bytes("unsent", snib__buf_bytes(b), snib__buf_size(b));
    }
}

/* It has something to send, or a channel to open. */
static void use_channels(struct member *m)
{
    struct snib__conn *conn = m->out->conn[below(NODE_CONNS)];
    if (one_in(4)) {
        char text[24];
        snprintf(text, sizeof text, "%d: %d;", m->index, (int)below(1000));
        snib__buf_add(&conn->out, text, strlen(text));
        conn->awaited = (uint32_t)below(4);
        conn->pushes = one_in(2);
        if (one_in(2)) {
            m->out->conn[below(NODE_CONNS)]->open = true;
        }
        if (one_in(3)) {
            m->out->conn[below(NODE_CONNS)]->shut = true;
        }
    }
    if (one_in(12)) { /* no longer */
        uint64_t open = below(1 << NODE_CONNS), shut = below(1 << NODE_CONNS);
        for (uint32_t i = 0; i < NODE_CONNS; i++) {
            conn = m->out->conn[i];
            conn->open = conn->open && open >> i & 1;
            conn->shut = conn->shut && shut >> i & 1;
        }
    }
}

static snib_err member_open(const struct snib__store_config *cfg,
                            struct snib__store **ret, struct snib_error *reterr)
{
    struct member *m = &w.member[w.opened];
    const struct snib__url *url = cfg->url;
    say_line("opens", w.opened);
    say_text("scheme", url->scheme);
    say_text("user", url->user);
    say_text("password", url->password);
    say_text("host", url->host);
    say("port", url->port);
    say_text("path", url->path);
    say_text("safe", url->safe);
    say("more", url->nodes + url->queries);
    for (int i = 0; i < 4; i++) {
        say("seed", (int64_t)cfg->seed.v[i]);
    }
    say("request", cfg->request.ns);
    say("client", (int64_t)(cfg->client[0] ^ cfg->client[1]));
    say("wall", cfg->wall_offset_ns);
    say("log", cfg->out->log != NULL);
    say("log data", cfg->out->log_data == &w);
    if (one_in(60)) {
        return snib__fail(reterr, SNIB_ERR_CONFIG, "%s: not today", url->host);
    }
    m->out = cfg->out;
    m->index = (int)w.opened++;
    snib__list_init(&m->jobs);
    for (int i = 0; i < NODE_CONNS; i++) {
        char address[264];
        snprintf(address, sizeof address, "%s:%u", url->host, url->port);
        snib_err err = snib__conn_add(cfg->out, SNIB__PLAIN, address);
        if (err) {
            return snib__fail_plain(reterr, err);
        }
    }
    use_channels(m);
    *ret = (struct snib__store *)m;
    return SNIB_ERR_OK;
}

static void member_start(struct snib__store *store, snib_instant at,
                         struct snib__list *chain)
{
    struct member *m = member_of(store);
    struct snib__link *l;
    say_line("asks", m->index);
    say("at", at.ns);
    say_channels(m);
    while ((l = snib__list_pop(chain))) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        say_line("  ", 0);
        say_request(rq);
        assert_int_not_equal(rq->limit.ns, INT64_MAX);
        SNIB__LIST_EACH_SAFE (k, next, &m->jobs) {
            struct job *job = SNIB__CONTAINER(k, struct job, link);
            if (rq->verb == SNIB__CANCEL && job->rq->verb == SNIB__ACQUIRE &&
                job->rq->id[1] == rq->id[1] && job->rq->id[0] == rq->id[0]) {
                job->answer = any_answer();
                job->err = SNIB_ERR_CANCELLED;
                job->at_once = true;
            }
        }
        take(m, rq);
    }
    use_channels(m);
    answer_all(m, true);
}

static void member_input(struct snib__store *store, snib_instant at,
                         const struct snib__input *in)
{
    struct member *m = member_of(store);
    say_line("steps", m->index);
    say("at", at.ns);
    say("kind", in->kind);
    say("chan", in->conn);
    say("hopeless", in->hopeless);
    say_bytes("bytes", in->bytes, in->size);
    say_channels(m);
    use_channels(m);
    answer_all(m, false);
}

static snib_instant member_due(const struct snib__store *store)
{
    const struct member *m = member_of(store);
    snib_instant due = SNIB__NEVER;
    SNIB__LIST_EACH (l, &m->jobs) {
        const struct job *job = SNIB__CONTAINER(l, struct job, link);
        due = snib__sooner(due, snib__sooner(job->at, job->hint));
    }
    return due;
}

static void member_state(const struct snib__store *store, snib_instant at,
                         struct snib__store_state *ret)
{
    const struct member *m = member_of(store);
    say("state at", at.ns);
    say("was", ret->reachable);
    *ret = m->state;
}

static void member_free(struct snib__store *store)
{
    struct member *m = member_of(store);
    struct snib__link *l;
    say_line("frees", m->index);
    say_channels(m);
    while ((l = snib__list_pop(&m->jobs))) {
        snib__list_push(&w.idle, l);
    }
}

static int64_t member_clock(const struct snib__store *store, snib_instant at)
{
    say("clock at", at.ns);
    return clock_now(member_of(store));
}

static const struct snib__store_ops member_ops = {.abi = SNIB__STORE_ABI,
                                                  .size = sizeof member_ops,
                                                  .scheme = "dice",
                                                  .open = member_open,
                                                  .start = member_start,
                                                  .input = member_input,
                                                  .due = member_due,
                                                  .state = member_state,
                                                  .free = member_free};
static const struct snib__node_kind member_kind = {&member_ops, member_clock};

#endif
