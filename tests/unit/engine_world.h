/* tests/unit/engine_world.h — where an engine of dice lives: its mood, its
 * clock, who has a place in it, and what is seen of it after each step. */
#ifndef SNIB_TESTS_ENGINE_WORLD_H
#define SNIB_TESTS_ENGINE_WORLD_H

#include "core_same.h"

#include "core/blocking.h"
#include "core/engine.h"

enum {
    NAMES_MAX = 44,
    PLACES_MAX = 300,
    GRANTS_MAX = 24,
    QUERIES_MAX = 6,
    FOREIGN_MAX = 13,
    STANDING_MAX = 12,
    KINDS = SNIB_KIND_BARRIER + 1
};

/* How often what happens in a run. */
struct mood {
    uint8_t acquire[5]; /* DONE QUEUED NO NOT_APPLIED UNKNOWN               */
    uint8_t others[4];  /* DONE NO NOT_APPLIED UNKNOWN                      */
    uint8_t kinds[KINDS];
    uint8_t time[9]; /* none, until what is due, just before, behind, some,
                        100 ms, seconds, to a limit, far                    */
    uint32_t odd;    /* one answer in so many has a value that is odd       */
    uint32_t quick;  /* so many answers of a hundred come within start()    */
    uint32_t hints;  /* one input in so many brings one                     */
    uint32_t oom;    /* one call in so many finds no memory; 0: none        */
    uint32_t late;   /* one tick in so many does not come; 0: none          */
    bool circles;    /* others hold some of the names, and wait             */
    bool plain;      /* asks have few options                               */
    bool famine;     /* many hold at once; then there is no memory for long */
};

static struct world {
    struct mood mood;
    struct snib__engine *e;
    struct snib__out *out;
    snib_instant now;
    bool blocking, honest, deadlocks, closed;
    snib_duration request;
    int names, places;
    uint32_t famine; /* so many steps more without memory                  */
    bool crowd;
    struct snib__local_lock *local[NAMES_MAX];
    struct place {
        uint64_t ticket; /* 0: free                                         */
        uint64_t owner;
        int64_t most; /* the longest lease that was asked for               */
        struct snib_error error;
    } place[PLACES_MAX];
    struct grant { /* what the store has given us                           */
        uint64_t id[2];
        int64_t token;
        int name;
        snib_kind kind;
        bool stands;
    } grant[GRANTS_MAX];
    int grants;
    struct left_grant {
        uint64_t id[2];
        int64_t token;
        int name;
        snib_kind kind;
    } left;
    struct asked_query {
        struct snib__direct q;
        bool used;
    } query[QUERIES_MAX];
    struct snib__list owned;  /* by the store that answers, by own          */
    struct snib__list inside; /* the library that blocks, by link           */
    uint32_t owned_count;
    struct snib__store_state state;
    snib_instant wake; /* when the store wants to be called                 */
    int64_t token, version;
    struct foreign { /* another owner, which holds a name and waits          */
        uint64_t grant, request[2];
        int holds, waits; /* waits -1: it does not                          */
        int64_t since, left;
        snib_kind kind;
    } foreign[FOREIGN_MAX];
    int foreigns;
    struct standing { /* ours, in the store's queue                         */
        uint64_t id[2];
        int name;
        snib_kind kind;
        int8_t rank;
        uint32_t size;
        char text[600];
        bool used;
    } standing[STANDING_MAX];
} w;

static const char *name_text(int i)
{
    static char text[NAMES_MAX][12];
    static const char *const odd[] = {"{a}", "%", "\x80\xff"};
    if (i >= 4 && i < 7) {
        return odd[i - 4];
    }
    snprintf(text[i], sizeof text[i], "n%d", i);
    return text[i];
}

static int index_of(const struct snib__name *name)
{
    for (int i = 0; name && i < NAMES_MAX; i++) {
        if (strcmp(name->raw, name_text(i)) == 0) {
            return i;
        }
    }
    return NAMES_MAX - 1;
}

/* -- the clock ---------------------------------------------------------------- */

/* An instant at which something of this acquisition ends. */
static snib_instant limit_of(const struct snib__acquisition *s)
{
    const int64_t more[] = {0, 0, SNIB__RUN_MS * MS,
                            w.request.ns / SNIB__CONFIRM_PART,
                            w.request.ns / SNIB__UNSURE_PART};
    return snib__after(s->limit, (snib_duration){ONE_OF(more)});
}

static snib_instant soon(void)
{
    static const int64_t grains[] = {1, 1000, MS, MS, 5 * MS, 100 * MS};
    const struct place *p = &w.place[below((uint32_t)w.places)];
    const struct snib__acquisition *s =
        p->ticket ? snib__engine_acquisition(w.e, p->ticket) : NULL;
    snib_instant due = snib__engine_due(w.e);
    if (due.ns > w.now.ns + INT64_C(100000000000)) {
        due = snib__after(w.now, snib__ms(200));
    }
    switch (weighted(w.mood.time, COUNT_OF(w.mood.time))) {
    case 0:
        return w.now;
    case 1:
        return due;
    case 2:
        return (snib_instant){due.ns - 1};
    case 3:
        return (snib_instant){due.ns + 1 + below(3) * MS};
    case 4:
        return (snib_instant){w.now.ns + (int64_t)below(8) * ONE_OF(grains)};
    case 5:
        return (snib_instant){w.now.ns + (1 + below(8)) * 100 * MS};
    case 6:
        return (snib_instant){w.now.ns + (1 + below(9)) * 1000 * MS};
    case 7:
        if (s && s->state <= SNIB__ACQ_LEAVING &&
            s->limit.ns < INT64_C(1) << 60) {
            return (snib_instant){limit_of(s).ns + (int64_t)below(3) - 1};
        }
        return due;
    default:
        return (snib_instant){w.now.ns + (1 + below(4)) * 20000 * MS};
    }
}

static void let_pass(void)
{
    w.now = snib__later(w.now, soon());
}

/* -- places --------------------------------------------------------------------- */

static struct snib__acquisition *acquisition_at(const struct place *p)
{
    return p->ticket ? snib__engine_acquisition(w.e, p->ticket) : NULL;
}

static struct place *place_of(uint64_t ticket)
{
    for (int i = 0; i < w.places; i++) {
        if (w.place[i].ticket == ticket) {
            return &w.place[i];
        }
    }
    return NULL;
}

static struct place *some_place(void)
{
    int from = (int)below((uint32_t)w.places);
    for (int i = 0; i < w.places; i++) {
        struct place *p = &w.place[(from + i) % w.places];
        if (p->ticket) {
            return p;
        }
    }
    return &w.place[from];
}

/* Whoever has no acquisition any more has left. */
static void sweep(void)
{
    for (int i = 0; i < w.places; i++) {
        if (w.place[i].ticket && !acquisition_at(&w.place[i])) {
            TELL("left", i);
            w.place[i].ticket = 0;
        }
    }
}

static void take_acquisition(struct snib__acquisition *s)
{
    struct place *p = place_of(s->ticket);
    TELL("ends", p ? (int)(p - w.place) : -1, s->state, s->err, s->token);
    if (p) {
        tell_error(&p->error);
        p->ticket = 0;
    }
    snib__acquisition_done(w.e, s);
}

static void take_news(void)
{
    struct snib__acquisition *s;
    struct snib__direct *q;
    uint8_t news;
    while ((s = snib__engine_told(w.e, &news))) {
        TELL("news", news, s->ticket, s->state, s->err, s->user != NULL);
        assert_true(news != 0);
        if (s->state == SNIB__ACQ_REFUSED || s->state == SNIB__ACQ_GONE) {
            take_acquisition(s);
        }
    }
    while ((q = snib__engine_told_direct(w.e))) {
        struct asked_query *a = SNIB__CONTAINER(q, struct asked_query, q);
        assert_true(a->used && q->done);
        TELL("answered", a - w.query, q->verb, q->err, q->answer, q->version,
             q->took.ns, q->born.ns, (int64_t)q->id[0]);
        tell_error(&q->error);
        tell_bytes("rows", snib__buf_bytes(&q->result),
                   snib__buf_size(&q->result));
        snib__buf_free(&q->result);
        a->used = false;
    }
}

/* -- what is seen ----------------------------------------------------------------- */

static void tell_status(const struct snib__acquisition *s, snib_instant at)
{
    struct snib_status st;
    snib__engine_status(w.e, at, s, &st);
    TELL("status", st.state, st.cause, st.token, st.left_ms, st.held_ms,
         st.holds, st.kind, st.permits, st.slot);
}

static void tell_acquisition(const struct place *p)
{
    const struct snib__acquisition *s = acquisition_at(p);
    char text[300];
    if (!s) {
        return;
    }
    TELL("seat", p - w.place, s->state, s->token, s->holds, s->batch, s->shown,
         s->cause, s->err, s->unawaited, s->unsure, s->since.ns, s->limit.ns,
         s->options.lease.ns, s->options.permits, s->options.slot,
         snib__engine_is_run(w.e, p->ticket));
    if (s->state == SNIB__ACQ_SERVED || s->state == SNIB__ACQ_DEAD) {
        snib_instant due = snib__engine_due(w.e);
        struct snib_status st;
        snib__engine_status(w.e, w.now, s, &st);
        assert_true(s->token > 0 && s->holds > 0);
        assert_true(st.left_ms <= p->most);
        tell_status(s, w.now);
        if (due.ns > w.now.ns && due.ns < INT64_MAX) {
            tell_status(s, due);
            tell_status(s, (snib_instant){due.ns - 1});
            snib__engine_explain(w.e, due, s, text, sizeof text);
            tell_text("then", text);
        }
        snib__engine_explain(w.e, w.now, s, text,
                             one_in(4) ? below(60) + 1 : sizeof text);
        tell_text("why", text);
    } else if (one_in(4)) {
        tell_status(s, w.now);
        text[0] = 'x';
        snib__engine_explain(w.e, w.now, s, text, below(2));
        TELL("first", text[0]);
    }
}

static void tell_counts(void)
{
    struct snib__counts n;
    snib__engine_counts(w.e, &n);
    TELL("counts", n.local_locks, n.own_claims, n.claims, n.acquisitions,
         n.waiting, n.held, n.leaving, n.requests, (int64_t)n.passes,
         (int64_t)n.yields, (int64_t)n.renewals, (int64_t)n.acquires,
         snib__engine_idle(w.e), snib__mem_alive());
    if (!w.blocking && w.e) {
        assert_int_equal(n.requests, w.owned_count);
    }
}

static void tell_all(void)
{
    struct snib__store_state is;
    snib__engine_store_state(w.e, w.now, &is);
    TELL("after", w.now.ns, snib__engine_due(w.e).ns, w.out->holds,
         w.out->listens, w.out->missed, w.out->stuck, w.out->ended_count,
         is.reachable, is.err, is.since.ns, is.nodes, is.nodes_reachable);
    tell_text("store", is.text);
    tell_counts();
    for (int i = 0; i < w.places; i++) {
        tell_acquisition(&w.place[i]);
    }
    SNIB__LIST_EACH (l, &w.owned) {
        const struct snib__request *r =
            SNIB__CONTAINER(l, struct snib__request, store.link);
        TELL("at the store", (int64_t)r->id[0], r->limit.ns, r->acquire.spin,
             r->once);
    }
}

#endif
