/* tests/unit/store_cases.h — cases that every blocking store must pass, and
 * the kit to drive ops->exec by hand.
 *
 * The including file sets `kit` up: the ops, how to open a peer (a client of
 * its own) and how to move the clock of leases. */
#ifndef SNIB_TESTS_STORE_CASES_H
#define SNIB_TESTS_STORE_CASES_H

#include "base/record.h"
#include "core/name.h"
#include "core/rules/rules.h"
#include "snib/inspect.h"
#include "unit.h"

enum { PEERS = 6 };

struct peer {
    void *inst;
    uint64_t client[2];
    struct snib__out out;
};

static struct kit {
    const struct snib__blocking_ops *ops;
    void *(*open)(struct peer *);
    void (*advance)(int64_t ms);
    snib_instant (*now)(int peer);
    struct peer peer[PEERS];
} kit;

static uint64_t next_id = 1;

static struct snib__name name_of(const char *text)
{
    uint64_t h = 14695981039346656037u;
    for (const char *p = text; *p; p++) {
        h = (h ^ (uint8_t)*p) * 1099511628211u;
    }
    return (struct snib__name){.raw = text,
                               .safe = text,
                               .raw_size = (uint32_t)strlen(text),
                               .safe_size = (uint32_t)strlen(text),
                               .hash = h};
}

static void open_peers(int n)
{
    for (int i = 0; i < n; i++) {
        struct peer *p = &kit.peer[i];
        memset(p, 0, sizeof *p);
        p->client[0] = 0xc11e47 + next_id++;
        p->client[1] = (uint64_t)i + 1;
        p->inst = kit.open(p);
        assert_non_null(p->inst);
    }
}

static void close_peer(int i)
{
    if (kit.peer[i].inst) {
        kit.ops->free(kit.peer[i].inst);
        kit.peer[i].inst = NULL;
    }
}

static int close_peers(void **state)
{
    (void)state;
    for (int i = 0; i < PEERS; i++) {
        close_peer(i);
    }
    return 0;
}

static snib__answer run(int peer, struct snib__request *r)
{
    struct snib__list chain;
    snib__list_init(&chain);
    snib__link_init(&r->link);
    snib__list_push(&chain, &r->link);
    kit.ops->exec(kit.peer[peer].inst, (snib_instant){0}, &chain);
    assert_ptr_equal(snib__list_pop(&chain), &r->link);
    return r->said.answer;
}

static struct snib__request request(snib__verb verb,
                                    const struct snib__name *name)
{
    static struct snib_error error;
    return (struct snib__request){
        .name = name,
        .id = {next_id++, 77},
        .verb = verb,
        .acquire.permits = 1,
        .acquire.may_queue = true,
        .lease = snib__ms(1000),
        .limit = SNIB__NEVER,
        .exec.patience = SNIB__NEVER,
        .text = "host=h&pid=1&program=test",
        .text_size = 25,
        .said.reterr = &error,
    };
}

static struct snib__request acquire(int peer, const struct snib__name *n)
{
    struct snib__request r = request(SNIB__ACQUIRE, n);
    run(peer, &r);
    return r;
}

/* Another verb for the same grant. */
static struct snib__request turn_into(const struct snib__request *r,
                                      snib__verb verb)
{
    struct snib__request v = *r;
    v.verb = verb;
    v.said.answer = SNIB__PENDING;
    return v;
}

static snib__answer end(int peer, const struct snib__request *r)
{
    struct snib__request v = turn_into(r, SNIB__RELEASE);
    return run(peer, &v);
}

static snib__answer poll_again(int peer, struct snib__request *r)
{
    return run(peer, r);
}

static bool is_notified(int peer, const struct snib__request *r)
{
    uint64_t ids[16][2];
    uint32_t n = kit.ops->notified(kit.peer[peer].inst, ids, 16);
    for (uint32_t i = 0; i < n && n <= 16; i++) {
        if (ids[i][0] == r->id[0] && ids[i][1] == r->id[1]) {
            return true;
        }
    }
    return false;
}

/* How many rows of a kind inspect shows; *ret_token the lock's. */
static int look(int peer, const struct snib__name *n, int row,
                int64_t *ret_token)
{
    struct snib__request r = request(SNIB__INSPECT, n);
    struct snib__buf b;
    struct snib__rec rec;
    int count = 0;
    snib__buf_init(&b, 1 << 20);
    r.said.result = &b;
    assert_int_equal(run(peer, &r), SNIB__DONE);
    snib__rec_begin(&rec, snib__buf_bytes(&b), snib__buf_size(&b));
    while (snib__rec_next_row(&rec)) {
        count += rec.row == row;
        while (snib__rec_next_field(&rec)) {
            if (ret_token && rec.row == SNIB__ROW_LOCK &&
                rec.field == SNIB__F_TOKEN) {
                *ret_token = snib__rec_value_i64(&rec);
            }
        }
    }
    snib__buf_free(&b);
    return count;
}

static int list_count(int peer, const char *glob)
{
    struct snib__request r = request(SNIB__LIST, NULL);
    struct snib__buf b;
    struct snib__rec rec;
    int count = 0;
    snib__buf_init(&b, 1 << 20);
    r.said.result = &b;
    r.text = glob;
    r.text_size = glob ? (uint32_t)strlen(glob) : 0;
    assert_int_equal(run(peer, &r), SNIB__DONE);
    snib__rec_begin(&rec, snib__buf_bytes(&b), snib__buf_size(&b));
    while (snib__rec_next_row(&rec)) {
        count += rec.row == SNIB__ROW_LOCK;
    }
    snib__buf_free(&b);
    return count;
}

/* -- cases ---------------------------------------------------------------------- */

static void free_lock_is_granted_and_released(void **state)
{
    (void)state;
    struct snib__name n = name_of("free");
    open_peers(1);
    struct snib__request r = acquire(0, &n);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_true(r.token > 0);
    assert_int_equal(r.said.left.ns, snib__ms(1000).ns);
    assert_true(r.said.valid_from.ns > 0);
    assert_int_equal(look(0, &n, SNIB__ROW_HOLDER, NULL), 1);
    assert_int_equal(end(0, &r), SNIB__DONE);
    assert_int_equal(look(0, &n, SNIB__ROW_HOLDER, NULL), 0);
    assert_int_equal(end(0, &r), SNIB__NO);
}

static void held_lock_refuses_a_try_and_queues_a_wait(void **state)
{
    (void)state;
    struct snib__name n = name_of("held");
    open_peers(3);
    struct snib__request a = acquire(0, &n);
    struct snib__request t = request(SNIB__ACQUIRE, &n);
    t.acquire.may_queue = false;
    assert_int_equal(run(1, &t), SNIB__NO);
    assert_int_equal(t.said.err, SNIB_ERR_BUSY);
    assert_true(t.said.left.ns > 0 && t.said.left.ns <= snib__ms(1000).ns);
    struct snib__request b = acquire(1, &n), c = acquire(2, &n);
    assert_int_equal(b.said.answer, SNIB__QUEUED);
    assert_int_equal(b.said.position, 1);
    assert_int_equal(c.said.position, 2);
    assert_int_equal(look(0, &n, SNIB__ROW_WAITER, NULL), 2);
    assert_int_equal(end(0, &a), SNIB__DONE);
}

/* Each waiter asks once a second. To count all that are ahead of a thousand
 * would be a million steps, and only the first two need to know. */
static void who_is_far_behind_is_not_counted_out(void **state)
{
    enum { FAR_BEHIND = 100 };
    (void)state;
    struct snib__name n = name_of("far");
    open_peers(2);
    struct snib__request a = acquire(0, &n), last = {0};
    for (uint32_t i = 1; i <= FAR_BEHIND; i++) {
        last = acquire(1, &n);
        assert_int_equal(last.said.answer, SNIB__QUEUED);
        assert_true(i > 2 || last.said.position == i);
    }
    assert_true(last.said.position > 2);
    assert_true(last.said.position < FAR_BEHIND);
    assert_int_equal(end(0, &a), SNIB__DONE);
}

static void release_grants_the_first_and_rings_only_him(void **state)
{
    (void)state;
    struct snib__name n = name_of("order");
    open_peers(4);
    struct snib__request a = acquire(0, &n);
    struct snib__request b = acquire(1, &n), c = acquire(2, &n);
    int64_t before = a.token;
    assert_int_equal(end(0, &a), SNIB__DONE);
    assert_true(is_notified(1, &b));
    assert_false(is_notified(2, &c));
    /* Nobody barges, not even with a try. */
    struct snib__request d = request(SNIB__ACQUIRE, &n);
    d.acquire.may_queue = false;
    assert_int_equal(run(3, &d), SNIB__NO);
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
    assert_true(b.token > before);
    assert_int_equal(poll_again(2, &c), SNIB__QUEUED);
    assert_int_equal(c.said.position, 1);
    assert_int_equal(end(1, &b), SNIB__DONE);
    assert_int_equal(poll_again(2, &c), SNIB__DONE);
    assert_true(c.token > b.token);
}

static void pushed_grant_counts_from_the_grant(void **state)
{
    (void)state;
    struct snib__name n = name_of("pushed");
    open_peers(2);
    struct snib__request a = acquire(0, &n);
    struct snib__request b = request(SNIB__ACQUIRE, &n);
    b.lease = snib__ms(30000);
    assert_int_equal(run(1, &b), SNIB__QUEUED);
    end(0, &a);
    kit.advance(1000);
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
    int64_t end_ns = b.said.valid_from.ns + b.said.left.ns;
    if (b.said.left.ns <
        b.lease.ns) { /* by looking: the push lease, from then */
        assert_true(b.said.left.ns <= snib__ms(SNIB__PUSH_LEASE_MS).ns);
    }
    /* At that very instant the store gives it to somebody else, not before. */
    struct snib__request t = request(SNIB__ACQUIRE, &n);
    t.acquire.may_queue = false;
    assert_int_equal(run(0, &t), SNIB__NO);
    kit.advance(snib__to_ms((snib_duration){end_ns - b.said.valid_from.ns}));
    t.said.answer = SNIB__PENDING;
    assert_int_equal(run(0, &t), SNIB__DONE);
}

static void expired_holder_gives_way_to_the_queue_not_to_newcomers(void **state)
{
    (void)state;
    struct snib__name n = name_of("expire");
    open_peers(3);
    struct snib__request a = acquire(0, &n);
    struct snib__request b = acquire(1, &n);
    kit.advance(1001);
    struct snib__request c = acquire(2, &n); /* H08 */
    assert_int_equal(c.said.answer, SNIB__QUEUED);
    assert_true(is_notified(1, &b));
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
    struct snib__request late = turn_into(&a, SNIB__RENEW);
    assert_int_equal(run(0, &late), SNIB__NO);
    assert_int_equal(late.said.err, SNIB_ERR_LOST);
    assert_false(late.said.revoked);
    assert_int_equal(end(0, &a), SNIB__NO);
}

static void silent_waiter_is_passed_over_and_keeps_its_rank(void **state)
{
    (void)state;
    struct snib__name n = name_of("deaf");
    open_peers(4);
    struct snib__request a = request(SNIB__ACQUIRE, &n);
    a.lease = snib__ms(20000);
    run(0, &a);
    struct snib__request b = acquire(1, &n);
    kit.advance(2000);
    struct snib__request c = acquire(2, &n);
    kit.advance(2000); /* b is silent for 4 s, c for 2 */
    end(0, &a);
    assert_false(is_notified(1, &b));
    assert_true(is_notified(2, &c));
    assert_int_equal(poll_again(2, &c), SNIB__DONE);
    struct snib__request d = acquire(3, &n);
    assert_int_equal(poll_again(1, &b), SNIB__QUEUED);
    assert_int_equal(b.said.position, 1); /* before d, who came later */
    end(2, &c);
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
    assert_int_equal(poll_again(3, &d), SNIB__QUEUED);
}

static void repeat_of_a_grant_returns_the_token_and_rearms(void **state)
{
    (void)state;
    struct snib__name n = name_of("repeat");
    open_peers(2);
    struct snib__request a = acquire(0, &n), first = a;
    kit.advance(800);
    a.said.answer = SNIB__PENDING;
    a.token = 0;
    assert_int_equal(run(0, &a), SNIB__DONE);
    assert_int_equal(a.token, first.token);
    assert_true(a.said.valid_from.ns >= first.said.valid_from.ns + 800000000);
    kit.advance(800); /* 1.6 s after the first: still ours (H13) */
    struct snib__request t = request(SNIB__ACQUIRE, &n);
    t.acquire.may_queue = false;
    assert_int_equal(run(1, &t), SNIB__NO);
    assert_int_equal(end(0, &a), SNIB__DONE);
}

static void renewal_never_creates_and_compares_the_token(void **state)
{
    (void)state;
    struct snib__name n = name_of("renew");
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    struct snib__request v = turn_into(&a, SNIB__RENEW);
    v.lease = snib__ms(5000);
    assert_int_equal(run(0, &v), SNIB__DONE);
    assert_int_equal(v.said.left.ns, snib__ms(5000).ns);
    v.token++;
    assert_int_equal(run(0, &v), SNIB__NO);
    struct snib__request other = turn_into(&a, SNIB__RELEASE);
    other.token++;
    assert_int_equal(run(0, &other), SNIB__NO);
    assert_int_equal(end(0, &a), SNIB__DONE);
    v.token = a.token; /* H15 */
    assert_int_equal(run(0, &v), SNIB__NO);
    assert_int_equal(look(0, &n, SNIB__ROW_HOLDER, NULL), 0);
}

static void cancel_removes_a_waiter(void **state)
{
    (void)state;
    struct snib__name n = name_of("cancel-wait");
    open_peers(3);
    struct snib__request a = acquire(0, &n);
    struct snib__request b = acquire(1, &n), c = acquire(2, &n);
    struct snib__request x = turn_into(&b, SNIB__CANCEL);
    x.token = 0;
    assert_int_equal(run(1, &x), SNIB__DONE);
    end(0, &a);
    assert_false(is_notified(1, &b));
    assert_true(is_notified(2, &c));
}

static void cancel_releases_what_was_granted_meanwhile(void **state)
{
    (void)state;
    struct snib__name n = name_of("cancel-grant");
    open_peers(3);
    struct snib__request a = acquire(0, &n);
    struct snib__request b = acquire(1, &n), c = acquire(2, &n);
    end(0, &a); /* b is granted */
    struct snib__request x = turn_into(&b, SNIB__CANCEL);
    x.token = 0;
    assert_int_equal(run(1, &x), SNIB__DONE); /* H11 */
    assert_true(is_notified(2, &c));
    assert_int_equal(poll_again(2, &c), SNIB__DONE);
}

static void cancelled_request_is_refused_until_its_tombstone_ends(void **state)
{
    (void)state;
    struct snib__name n = name_of("tomb");
    open_peers(1);
    struct snib__request a = request(SNIB__ACQUIRE, &n);
    struct snib__request x = turn_into(&a, SNIB__CANCEL);
    assert_int_equal(run(0, &x), SNIB__DONE);
    assert_int_equal(run(0, &a), SNIB__NO); /* H12: the late copy */
    assert_int_equal(a.said.err, SNIB_ERR_CANCELLED);
    struct snib__request other = acquire(0, &n);
    assert_int_equal(other.said.answer, SNIB__DONE);
    end(0, &other);
    kit.advance(SNIB__TOMBSTONE_MS + 1);
    struct snib__request y = request(SNIB__CANCEL, &n); /* sweeps */
    run(0, &y);
    assert_int_equal(run(0, &a), SNIB__DONE);
}

static void resent_release_is_remembered(void **state)
{
    (void)state;
    struct snib__name n = name_of("resent");
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    struct snib__request x = turn_into(&a, SNIB__RELEASE);
    x.resent = true;
    assert_int_equal(run(0, &x), SNIB__DONE);
    assert_int_equal(run(0, &x), SNIB__DONE); /* an earlier copy did it */
    a.said.answer = SNIB__PENDING;
    assert_int_equal(run(0, &a), SNIB__NO);
}

static void yield_grants_the_head_and_queues_us_behind(void **state)
{
    (void)state;
    struct snib__name n = name_of("yield");
    open_peers(2);
    struct snib__request a = acquire(0, &n);
    struct snib__request b = acquire(1, &n);
    struct snib__request again = request(SNIB__ACQUIRE, &n);
    again.token = a.token;
    assert_int_equal(run(0, &again), SNIB__QUEUED);
    assert_true(is_notified(1, &b));
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
    end(1, &b);
    assert_true(is_notified(0, &again));
    assert_int_equal(poll_again(0, &again), SNIB__DONE);
    /* With nobody waiting a yield is a new token at once. */
    struct snib__request more = request(SNIB__ACQUIRE, &n);
    more.token = again.token;
    assert_int_equal(run(0, &more), SNIB__DONE);
    assert_true(more.token > again.token);
    assert_int_equal(end(0, &again), SNIB__NO);
    assert_int_equal(end(0, &more), SNIB__DONE);
}

/* It ends its own write grant, a read grant beside is left, and its rank is
 * ahead of the waiting reader's; but it does not stay in the queue. */
static void try_that_does_not_fit_keeps_nobody_waiting(void **state)
{
    (void)state;
    struct snib__name n = name_of("trying");
    open_peers(2);
    struct snib__request a = acquire(0, &n);
    struct snib__request r = request(SNIB__ACQUIRE, &n);
    r.acquire.kind = SNIB_KIND_READ;
    r.acquire.upgrade_of[0] = a.id[0];
    r.acquire.upgrade_of[1] = a.id[1];
    assert_int_equal(run(0, &r), SNIB__DONE);
    struct snib__request b = request(SNIB__ACQUIRE, &n);
    b.acquire.kind = SNIB_KIND_READ;
    assert_int_equal(run(1, &b), SNIB__QUEUED);
    struct snib__request t = request(SNIB__ACQUIRE, &n);
    t.token = a.token;
    t.acquire.may_queue = false;
    t.acquire.priority = 28;
    assert_int_equal(run(0, &t), SNIB__NO);
    assert_true(is_notified(1, &b));
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
}

static void anothers_prior_is_left_alone(void **state)
{
    (void)state;
    struct snib__name n = name_of("prior");
    open_peers(2);
    struct snib__request a = acquire(0, &n);
    struct snib__request b = request(SNIB__ACQUIRE, &n);
    b.token = a.token; /* of another client: it ends only what is its own */
    assert_int_equal(run(1, &b), SNIB__QUEUED);
    struct snib__request x = request(SNIB__CANCEL, &n);
    x.token = a.token;
    assert_int_equal(run(1, &x), SNIB__DONE);
    struct snib__request v = turn_into(&a, SNIB__RENEW);
    assert_int_equal(run(0, &v), SNIB__DONE);
}

static void forced_release_tells_the_holder_revoked(void **state)
{
    (void)state;
    struct snib__name n = name_of("force");
    struct snib__buf out;
    struct snib__rec rec;
    open_peers(3);
    struct snib__request a = acquire(0, &n), b = acquire(1, &n);
    struct snib__request f = request(SNIB__FORCE, &n);
    snib__buf_init(&out, 1000);
    f.said.result = &out;
    f.text = "stuck since noon";
    f.text_size = 16;
    assert_int_equal(run(2, &f), SNIB__DONE);
    snib__rec_begin(&rec, snib__buf_bytes(&out), snib__buf_size(&out));
    assert_true(snib__rec_next_row(&rec));
    assert_int_equal(rec.row, SNIB__ROW_COUNT);
    assert_true(snib__rec_next_field(&rec));
    assert_int_equal(snib__rec_value_i64(&rec), 1);
    snib__buf_free(&out);
    assert_true(is_notified(1, &b));
    struct snib__request v = turn_into(&a, SNIB__RENEW);
    assert_int_equal(run(0, &v), SNIB__NO);
    assert_true(v.said.revoked);
    assert_non_null(strstr(v.said.reterr->text, "stuck since noon"));
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
    assert_true(b.token > a.token);
    f.said.result = NULL; /* nobody asks how many */
    assert_int_equal(run(2, &f), SNIB__DONE);
}

static void tokens_rise_with_room_and_floor(void **state)
{
    (void)state;
    struct snib__name n = name_of("token"), m = name_of("other");
    int64_t last = 0, shown = 0;
    open_peers(2);
    for (int i = 0; i < 50; i++) {
        struct snib__request r = request(SNIB__ACQUIRE, &n);
        r.acquire.reserve = i % 2 ? 31 : 4000;
        assert_int_equal(run(i % 2, &r), SNIB__DONE);
        assert_true(r.token > last); /* H21 */
        assert_int_equal(r.acquire.reserve, SNIB__RESERVE_MAX);
        last = r.token + r.acquire.reserve;
        assert_int_equal(end(i % 2, &r), SNIB__DONE);
    }
    look(0, &n, SNIB__ROW_LOCK, &shown);
    assert_int_equal(shown, last);
    struct snib__request g = request(SNIB__ACQUIRE, &n);
    g.floor = last + 1; /* just what would come next */
    assert_int_equal(run(0, &g), SNIB__DONE);
    assert_true(g.token > g.floor);
    last = g.token;
    assert_int_equal(end(0, &g), SNIB__DONE);
    struct snib__request f = request(SNIB__ACQUIRE, &m);
    f.floor = last + 5000000; /* some 5 s ahead */
    assert_int_equal(run(0, &f), SNIB__DONE);
    assert_int_equal(f.token, last + 5000001);
    struct snib__request bad = request(SNIB__ACQUIRE, &n);
    bad.floor = SNIB__TOKEN_END - 1; /* H20 */
    assert_int_equal(run(0, &bad), SNIB__NOT_APPLIED);
    assert_int_equal(bad.said.err, SNIB_ERR_USAGE);
    assert_int_equal(look(0, &n, SNIB__ROW_HOLDER, NULL), 0);
}

static void chain_is_executed_in_order(void **state)
{
    (void)state;
    struct snib__name n = name_of("chain");
    struct snib__list chain;
    open_peers(1);
    struct snib__request a = request(SNIB__ACQUIRE, &n);
    struct snib__request x = turn_into(&a, SNIB__CANCEL);
    struct snib__request b = request(SNIB__ACQUIRE, &n);
    struct snib__request *all[] = {&a, &x, &b};
    snib__list_init(&chain);
    for (int i = 0; i < 3; i++) {
        snib__link_init(&all[i]->link);
        snib__list_push(&chain, &all[i]->link);
    }
    kit.ops->exec(kit.peer[0].inst, (snib_instant){0}, &chain);
    assert_int_equal(a.said.answer, SNIB__DONE);
    assert_int_equal(x.said.answer, SNIB__DONE);
    assert_int_equal(b.said.answer, SNIB__DONE);
    assert_true(b.token > a.token);
}

/* A yield and a first wait in one chain: whatever a store has to do twice,
 * the yield still ends its prior grant. */
static void yield_and_first_wait_share_a_chain(void **state)
{
    (void)state;
    struct snib__name n = name_of("chain-y"), m = name_of("chain-w");
    struct snib__list chain;
    open_peers(2);
    struct snib__request other = acquire(1, &m);
    assert_int_equal(other.said.answer, SNIB__DONE);
    struct snib__request a = acquire(0, &n);
    struct snib__request yield = request(SNIB__ACQUIRE, &n);
    struct snib__request wait = request(SNIB__ACQUIRE, &m);
    yield.token = a.token;
    snib__list_init(&chain);
    snib__list_push(&chain, &yield.link);
    snib__list_push(&chain, &wait.link);
    kit.ops->exec(kit.peer[0].inst, (snib_instant){0}, &chain);
    assert_int_equal(yield.said.answer, SNIB__DONE);
    assert_true(yield.token > a.token);
    assert_int_equal(wait.said.answer, SNIB__QUEUED);
}

static void two_hundred_renewals_in_one_chain(void **state)
{
    (void)state;
    enum { N = 200 };
    static char text[N][16];
    static struct snib__name names[N];
    static struct snib__request r[N];
    struct snib__list chain;
    open_peers(1);
    for (int i = 0; i < N; i++) {
        snprintf(text[i], sizeof text[i], "r%d", i);
        names[i] = name_of(text[i]);
        r[i] = acquire(0, &names[i]);
        assert_int_equal(r[i].said.answer, SNIB__DONE);
    }
    assert_int_equal(end(0, &r[7]), SNIB__DONE);
    snib__list_init(&chain);
    for (int i = 0; i < N; i++) {
        r[i].verb = SNIB__RENEW;
        snib__link_init(&r[i].link);
        snib__list_push(&chain, &r[i].link);
    }
    kit.ops->exec(kit.peer[0].inst, (snib_instant){0}, &chain);
    for (int i = 0; i < N; i++) { /* one lost does not touch the others, H16 */
        assert_int_equal(r[i].said.answer, i == 7 ? SNIB__NO : SNIB__DONE);
    }
    assert_int_equal(list_count(0, "r1[0-9]"), 10);
    assert_int_equal(list_count(0, NULL), N - 1);
}

static void permits_without_a_size_are_refused(void **state)
{
    (void)state;
    struct snib__name n = name_of("kind");
    open_peers(1);
    struct snib__request r = request(SNIB__ACQUIRE, &n);
    r.acquire.kind = SNIB_KIND_PERMITS;
    assert_int_equal(run(0, &r), SNIB__NO);
    assert_int_equal(r.said.err, SNIB_ERR_CONFIG);
}

static void doctor_tells_something(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__DOCTOR, NULL);
    struct snib__buf b;
    struct snib__rec rec;
    int n = 0;
    open_peers(1);
    snib__buf_init(&b, 1 << 20);
    r.said.result = &b;
    assert_int_equal(run(0, &r), SNIB__DONE);
    snib__rec_begin(&rec, snib__buf_bytes(&b), snib__buf_size(&b));
    while (snib__rec_next_row(&rec)) {
        assert_int_equal(rec.row, SNIB__ROW_FINDING);
        while (snib__rec_next_field(&rec)) {
            if (rec.field == SNIB__F_LEVEL) {
                assert_int_equal(snib__rec_value_i64(&rec), SNIB_LEVEL_OK);
            }
        }
        n++;
    }
    assert_true(n >= 2);
    snib__buf_free(&b);
}

/* Random verbs by four clients: what each may believe by its own account
 * (valid_from + left) never overlaps with another's, tokens rise, and a
 * refusal comes only when that account is over. */
static void random_walk_keeps_exclusion_and_tokens(void **state)
{
    (void)state;
    struct snib__name n = name_of("walk");
    struct snib__request r[4];
    bool live[4] = {false};
    int64_t ends[4] = {0}, last = 0;
    uint64_t seed = 4711;
    open_peers(4);
    for (int step = 0; step < 6000; step++) {
        int i = (int)(dice(&seed) % 4);
        uint32_t what = dice(&seed) % 8;
        if (!live[i]) {
            r[i] = request(SNIB__ACQUIRE, &n);
            r[i].lease = snib__ms(100 + dice(&seed) % 400);
            r[i].acquire.may_queue = dice(&seed) % 4 != 0;
            live[i] = true;
        }
        bool holds = r[i].said.answer == SNIB__DONE;
        if (what < 4 && !holds) {
            if (run(i, &r[i]) == SNIB__DONE) {
                for (int k = 0; k < 4; k++) {
                    assert_false(k != i && live[k] &&
                                 r[k].said.answer == SNIB__DONE &&
                                 r[i].said.valid_from.ns < ends[k]);
                }
                assert_true(r[i].token > last);
                last = r[i].token + r[i].acquire.reserve;
                ends[i] = snib__after(r[i].said.valid_from, r[i].said.left).ns;
            } else if (r[i].said.answer == SNIB__NO) {
                live[i] = false;
            }
        } else if (what == 4 && holds) {
            struct snib__request v = turn_into(&r[i], SNIB__RENEW);
            if (run(i, &v) == SNIB__DONE) {
                ends[i] = snib__after(v.said.valid_from, v.said.left).ns;
            } else {
                assert_true(kit.now(i).ns >= ends[i]);
                live[i] = false;
            }
        } else if (what == 5 && holds) {
            assert_true(end(i, &r[i]) == SNIB__DONE ||
                        kit.now(i).ns >= ends[i]);
            live[i] = false;
        } else if (what == 6) {
            struct snib__request v = turn_into(&r[i], SNIB__CANCEL);
            v.token = 0;
            v.resent = dice(&seed) % 2;
            assert_int_equal(run(i, &v), SNIB__DONE);
            live[i] = false;
        } else {
            kit.advance(dice(&seed) % 120);
        }
    }
}

#define CASE(f) cmocka_unit_test_teardown(f, close_peers)
#define STORE_CASES                                                            \
    CASE(free_lock_is_granted_and_released),                                   \
        CASE(held_lock_refuses_a_try_and_queues_a_wait),                       \
        CASE(who_is_far_behind_is_not_counted_out),                            \
        CASE(release_grants_the_first_and_rings_only_him),                     \
        CASE(pushed_grant_counts_from_the_grant),                              \
        CASE(expired_holder_gives_way_to_the_queue_not_to_newcomers),          \
        CASE(silent_waiter_is_passed_over_and_keeps_its_rank),                 \
        CASE(repeat_of_a_grant_returns_the_token_and_rearms),                  \
        CASE(renewal_never_creates_and_compares_the_token),                    \
        CASE(cancel_removes_a_waiter),                                         \
        CASE(cancel_releases_what_was_granted_meanwhile),                      \
        CASE(cancelled_request_is_refused_until_its_tombstone_ends),           \
        CASE(resent_release_is_remembered),                                    \
        CASE(yield_grants_the_head_and_queues_us_behind),                      \
        CASE(try_that_does_not_fit_keeps_nobody_waiting),                      \
        CASE(anothers_prior_is_left_alone),                                    \
        CASE(forced_release_tells_the_holder_revoked),                         \
        CASE(tokens_rise_with_room_and_floor),                                 \
        CASE(chain_is_executed_in_order),                                      \
        CASE(yield_and_first_wait_share_a_chain),                              \
        CASE(two_hundred_renewals_in_one_chain),                               \
        CASE(permits_without_a_size_are_refused),                              \
        CASE(doctor_tells_something),                                          \
        CASE(random_walk_keeps_exclusion_and_tokens)

#endif
