/* tests/unit/test_file_store.c — the mapped file: the cases that every store
 * passes, boots, tokens, damage, values.
 * wraps: snib__host_gone */
#include "file_store.h"

#include "gone_cases.h"

/* -- boot ---------------------------------------------------------------------------- */

static void another_boot_ends_all_claims_and_keeps_tokens(void **state)
{
    struct snib__name n = name_of("boot");
    int64_t shown = 0;
    (void)state;
    open_peers(1);
    struct snib__request a = request(SNIB__ACQUIRE, &n);
    a.acquire.reserve = 31;
    run(0, &a);
    close_peer(0);
    snprintf(host.boot, sizeof host.boot, "11111111-another-boot");
    host.skew_ns -= snib__host_now().ns - 40000000000; /* 40 s after boot */
    open_peers(1);
    assert_int_equal(look(0, &n, SNIB__ROW_HOLDER, NULL), 0);
    look(0, &n, SNIB__ROW_LOCK, &shown);
    assert_int_equal(shown, a.token + 31);
    struct snib__request b = acquire(0, &n);
    assert_int_equal(b.said.answer, SNIB__DONE);
    assert_true(b.token > a.token + 31);
    assert_int_equal(lost_of(owners_of(0)), 0);
}

static void another_boot_id_while_in_use_is_refused(void **state)
{
    struct snib__name n = name_of("lxc");
    (void)state;
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    snprintf(host.boot, sizeof host.boot, "22222222-a-container");
    struct snib__place place;
    struct snib__map map;
    struct snib_error e = {0};
    assert_int_equal(snib__place_open(&place, path, &host, &e), 0);
    assert_int_equal(
        snib__map_open(&map, &place, &host, &shape, 1, snib__ms(20), &e),
        SNIB_ERR_CONFIG);
    snib__place_close(&place, false);
    assert_non_null(strstr(e.text, "boot id"));
    struct snib__request v = turn_into(&a, SNIB__RENEW);
    assert_int_equal(run(0, &v), SNIB__DONE);
}

/* -- tokens --------------------------------------------------------------------------- */

static void tokens_rise_though_the_clock_goes_back(void **state)
{
    struct snib__name n = name_of("clock"), m = name_of("clock-2");
    int64_t last = 0;
    (void)state;
    host.wall_skew_ms = 2 * 86400000;
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    last = a.token;
    end(0, &a);
    self_of(0)->host.wall_skew_ms = -INT64_C(30) * 365 * 86400000; /* 1996 */
    for (int i = 0; i < 5; i++) {
        struct snib__request b = acquire(0, &n);
        assert_true(b.token > last);
        last = b.token;
        end(0, &b);
    }
    /* A floor from before the clock went back is honoured. */
    struct snib__request c = request(SNIB__ACQUIRE, &m);
    c.floor = last;
    assert_int_equal(run(0, &c), SNIB__DONE);
    assert_int_equal(c.token, last + 1);
    self_of(0)->host.wall_skew_ms = INT64_C(400) * 365 * 86400000;
    end(0, &c);
    struct snib__request d = request(SNIB__ACQUIRE, &m);
    assert_int_equal(run(0, &d), SNIB__NOT_APPLIED); /* beyond 2^53 */
    assert_int_equal(d.said.err, SNIB_ERR_CONFIG);
}

static void the_cleaner_forgets_old_names_but_not_their_tokens(void **state)
{
    struct snib__name n = name_of("swept"), m = name_of("held");
    int64_t shown = -1;
    (void)state;
    host.wall_skew_ms = 0;
    open_peers(1);
    struct snib__request a = acquire(0, &n), b = acquire(0, &m);
    end(0, &a);
    snib__file_cleaner(self_of(0));
    look(0, &n, SNIB__ROW_LOCK, &shown);
    assert_int_equal(shown, a.token); /* too young */
    self_of(0)->host.wall_skew_ms = 2 * 86400000;
    snib__file_cleaner(self_of(0));
    look(0, &n, SNIB__ROW_LOCK, &shown);
    assert_int_equal(shown, 0);
    assert_int_equal(look(0, &m, SNIB__ROW_HOLDER, NULL), 1);
    self_of(0)->host.wall_skew_ms = -2 * 86400000;
    struct snib__request c = acquire(0, &n);
    assert_true(c.token > a.token);
    end(0, &b);
    end(0, &c);
    /* Claims of the dead on names that nobody asks for again. */
    struct snib__name dead = name_of("dead");
    struct snib__request d = acquire(0, &dead);
    assert_int_equal(d.said.answer, SNIB__DONE);
    advance(SNIB__ASIDE_MS + 2000);
    self_of(0)->host.wall_skew_ms = 2 * 86400000;
    snib__file_cleaner(self_of(0));
    assert_int_equal(content_of(0).names, 0);
    assert_int_equal(lost_of(owners_of(0)), 0);
}

static void the_cleaner_keeps_params_for_thirty_days(void **state)
{
    struct snib__name n = name_of("size");
    (void)state;
    host.wall_skew_ms = 0;
    open_peers(1);
    struct snib__request r = request(SNIB__PARAMS, &n);
    r.params.op = SNIB__PARAMS_SIZE;
    r.params.amount = 3;
    assert_int_equal(run(0, &r), SNIB__DONE);
    advance(SNIB__TOMBSTONE_MS + 1);
    self_of(0)->host.wall_skew_ms = INT64_C(29) * 86400000;
    snib__file_cleaner(self_of(0));
    assert_int_equal(content_of(0).names, 1);
    self_of(0)->host.wall_skew_ms = INT64_C(31) * 86400000;
    snib__file_cleaner(self_of(0));
    assert_int_equal(content_of(0).names, 0);
}

/* -- what is damaged ---------------------------------------------------------------------- */

/* Somebody writes into the block of this name's bucket. */
static struct snib__file_lock *lock_in_file(const struct snib__name *n)
{
    struct snib__file *f = self_of(0);
    uint32_t bucket = snib__file_bucket_of(&f->map, n);
    assert_int_equal(
        snib__root_copy(&f->map, &f->copy, SNIB__FILE_LOCKS, bucket), 0);
    size_t at = snib__bucket_find(&f->copy, n);
    assert_int_not_equal(at, SNIB__FILE_NONE);
    struct snib__file_block *b =
        snib__block_at(&f->map, (uint32_t)f->copy.seen, 0);
    return (void *)((uint8_t *)(b + 1) + at);
}

static void a_damaged_token_is_told_and_mended_by_force(void **state)
{
    struct snib__name n = name_of("damaged");
    (void)state;
    open_peers(2);
    struct snib__request a = acquire(0, &n);
    lock_in_file(&n)->token = 17; /* its sum is wrong now */
    struct snib__request v = turn_into(&a, SNIB__RENEW);
    assert_int_equal(run(0, &v), SNIB__DONE); /* the holder goes on */
    struct snib__request t = request(SNIB__ACQUIRE, &n);
    t.acquire.may_queue = false;
    assert_int_equal(run(1, &t), SNIB__NO); /* held */
    assert_int_equal(end(0, &a), SNIB__DONE);
    t.said.answer = SNIB__PENDING;
    assert_int_equal(run(1, &t), SNIB__NOT_APPLIED);
    assert_int_equal(t.said.err, SNIB_ERR_CORRUPT);
    assert_non_null(strstr(t.said.reterr->text, "force-release"));
    struct snib__request f = request(SNIB__FORCE, &n);
    assert_int_equal(run(1, &f), SNIB__DONE);
    t.said.answer = SNIB__PENDING;
    assert_int_equal(run(1, &t), SNIB__DONE);
    assert_true(t.token > a.token);
}

static void a_damaged_floor_is_told_and_mended_by_force(void **state)
{
    struct snib__name n = name_of("new"), old = name_of("old");
    (void)state;
    open_peers(1);
    struct snib__request o = acquire(0, &old);
    atomic_store(&self_of(0)->map.head->floor, UINT64_MAX);
    struct snib__request a = request(SNIB__ACQUIRE, &n);
    assert_int_equal(run(0, &a), SNIB__NOT_APPLIED);
    assert_int_equal(a.said.err, SNIB_ERR_CORRUPT);
    assert_int_equal(end(0, &o), SNIB__DONE);
    struct snib__request again = acquire(0, &old); /* it has a token itself */
    assert_int_equal(again.said.answer, SNIB__DONE);
    struct snib__request f = request(SNIB__FORCE, &n);
    assert_int_equal(run(0, &f), SNIB__DONE);
    a.said.answer = SNIB__PENDING;
    assert_int_equal(run(0, &a), SNIB__DONE);
    assert_true(a.token > o.token);
}

static void a_damaged_head_gives_no_block(void **state)
{
    static const uint64_t tops[] = {0, 1, 8, UINT32_MAX, UINT64_MAX / 128};
    struct snib__name n = name_of("top");
    (void)state;
    open_peers(1);
    struct snib__file_head *h = self_of(0)->map.head;
    for (int i = 0; i < 5; i++) {
        for (int c = 0; c < SNIB__FILE_CLASSES; c++) {
            atomic_store(&h->stack[c], 0);
            atomic_store(&h->reserve[c], 0);
        }
        atomic_store(&h->top, tops[i]);
        struct snib__request a = acquire(0, &n);
        assert_int_equal(a.said.answer, SNIB__NOT_APPLIED);
        assert_int_equal(a.said.err, SNIB_ERR_STORE);
    }
}

/* Whatever stands in the file, reading stays within it. */
static void bytes_that_are_no_bucket_are_refused_in_words(void **state)
{
    struct snib__name n = name_of("noise");
    uint64_t seed = 7;
    (void)state;
    open_peers(2);
    for (int i = 0; i < 3000; i++) {
        struct snib__request a = acquire(0, &n);
        struct snib__request b = acquire(1, &n);
        if (a.said.answer == SNIB__NOT_APPLIED) {
            assert_int_equal(a.said.err, SNIB_ERR_CORRUPT);
            uint32_t bucket = snib__file_bucket_of(&self_of(0)->map, &n);
            atomic_store(&self_of(0)->map.roots[bucket],
                         (uint64_t)(unsigned)i << 32);
            continue;
        }
        uint8_t *bytes = (void *)lock_in_file(&n);
        bytes[dice(&seed) % 400] = (uint8_t)dice(&seed);
        struct snib__request l = request(SNIB__LIST, NULL);
        struct snib__buf out;
        snib__buf_init(&out, 1 << 20);
        l.said.result = &out;
        l.text_size = 0;
        run(0, &l);
        snib__buf_free(&out);
        end(0, &a);
        struct snib__request x = turn_into(&b, SNIB__CANCEL);
        x.token = 0;
        run(1, &x);
    }
}

/* A walk through them goes on behind the last one's number: it had no end. */
static void claims_of_one_number_are_no_bucket(void **state)
{
    struct snib__name n = name_of("twins");
    (void)state;
    open_peers(3);
    struct snib__request a = acquire(0, &n), b = acquire(1, &n),
                         c = acquire(2, &n);
    assert_int_equal(c.said.answer, SNIB__QUEUED);
    struct snib__file_lock *l = lock_in_file(&n);
    struct snib__file_claim *k =
        (void *)((uint8_t *)l + snib__bucket_claims(l));
    struct snib__file_claim *next = (void *)((uint8_t *)k + k->size);
    struct snib__file_claim *last = (void *)((uint8_t *)next + next->size);
    last->id = next->id;
    assert_int_equal(poll_again(1, &b), SNIB__NOT_APPLIED);
    assert_int_equal(b.said.err, SNIB_ERR_CORRUPT);
    last->id = next->id + 1;
    int64_t arrivals = l->arrivals;
    l->arrivals = last->id - 1; /* the next one would get its number        */
    assert_int_equal(poll_again(2, &c), SNIB__NOT_APPLIED);
    l->arrivals = INT64_MAX;
    assert_int_equal(poll_again(2, &c), SNIB__NOT_APPLIED);
    l->arrivals = arrivals;
    b.said.answer = SNIB__PENDING;
    assert_int_equal(run(1, &b), SNIB__QUEUED);
    assert_int_equal(end(0, &a), SNIB__DONE);
}

/* It is read as the last one of the queue, and stands nowhere else: behind
 * itself it was met again, without end. What it waits beside is not there, so
 * others pass. */
static void a_waiter_of_a_rank_that_is_none_is_met_once(void **state)
{
    struct snib__name n = name_of("rank");
    (void)state;
    open_peers(3);
    (void)acquire(0, &n);
    struct snib__request b = acquire(1, &n);
    assert_int_equal(b.said.answer, SNIB__QUEUED);
    struct snib__file_lock *l = lock_in_file(&n);
    struct snib__file_claim *k =
        (void *)((uint8_t *)l + snib__bucket_claims(l));
    k = (void *)((uint8_t *)k + k->size);
    k->rank = 1000;
    k->upgrade_of[0] = 7;
    alarm(20); /* a step that does not end fails */
    struct snib__request f = request(SNIB__FORCE, &n);
    assert_int_equal(run(0, &f), SNIB__DONE);
    assert_int_equal(look(0, &n, SNIB__ROW_WAITER, NULL), 1);
    struct snib__request c = acquire(2, &n);
    assert_int_equal(c.said.answer, SNIB__DONE);
    assert_int_equal(end(2, &c), SNIB__DONE);
    alarm(0);
}

/* -- fork ------------------------------------------------------------------------------------ */

static void a_child_may_free_and_open_its_own(void **state)
{
    struct snib__name n = name_of("forked");
    int status = -1;
    (void)state;
    open_peers(2);
    struct snib__request a = acquire(0, &n), b = acquire(1, &n);
    assert_int_equal(b.said.answer, SNIB__QUEUED); /* it listens */
    pid_t pid = fork();
    if (pid == 0) {
        kit.ops->free(kit.peer[0].inst);
        kit.ops->free(kit.peer[1].inst);
        snib__host_read(&host);
        struct peer p = {.client = {5, 6}};
        kit.peer[2].inst = open_file(&p);
        struct snib__request t = request(SNIB__ACQUIRE, &n);
        t.acquire.may_queue = false;
        bool ok = kit.peer[2].inst && run(2, &t) == SNIB__NO;
        kit.ops->free(kit.peer[2].inst);
        _exit(ok ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    end(0, &a);
    assert_true(is_notified(1, &b));
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
}

/* -- values ----------------------------------------------------------------------------------- */

static struct snib__request put(const struct snib__name *n, int64_t version,
                                const char *text)
{
    struct snib__request r = request(SNIB__VALUE_PUT, n);
    r.token = version;
    r.lease = snib__ms(60000);
    r.text = text;
    r.text_size = (uint32_t)strlen(text);
    return r;
}

static void values_are_put_read_and_deleted(void **state)
{
    char text[16];
    struct snib__buf out;
    (void)state;
    open_peers(2);
    snib__buf_init(&out, 1 << 17);
    for (int round = 0; round < 40; round++) {
        snprintf(text, sizeof text, "value-%d", round % 10);
        struct snib__name n = name_of(text);
        struct snib__request p = put(&n, 0, "first");
        assert_int_equal(run(0, &p), SNIB__DONE);
        struct snib__request again = put(&n, 0, "again");
        assert_int_equal(run(1, &again), SNIB__NO);
        assert_int_equal(again.token, p.token);
        again = put(&n, p.token, "second");
        assert_int_equal(run(1, &again), SNIB__DONE);
        assert_true(again.token > p.token);
        struct snib__request g = request(SNIB__VALUE_GET, &n);
        snib__buf_clear(&out);
        g.said.result = &out;
        assert_int_equal(run(0, &g), SNIB__DONE);
        assert_int_equal(g.token, again.token);
        assert_string_equal(snib__buf_text(&out), "second");
        struct snib__request d = request(SNIB__VALUE_DELETE, &n);
        d.token = again.token;
        assert_int_equal(run(0, &d), SNIB__DONE);
        snib__buf_clear(&out);
        g.said.answer = SNIB__PENDING;
        assert_int_equal(run(1, &g), SNIB__DONE);
        assert_int_equal(g.token, 0);
        if (round % 10 == 9) { /* what ended a minute ago is forgotten */
            self_of(0)->host.wall_skew_ms += 70000;
            self_of(1)->host.wall_skew_ms += 70000;
        }
        assert_int_equal(lost_of(owners_of(0)), 0);
    }
    snib__buf_free(&out);
}

/* -- a new sweep -------------------------------------------------------------------------------- */

static void what_a_killed_client_had_is_found_again(void **state)
{
    char text[24];
    int status;
    (void)state;
    open_peers(1);
    close_peer(0);
    for (int round = 0; round < 8; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            open_peers(1);
            for (int i = 0; i < 30; i++) {
                snprintf(text, sizeof text, "lock-%d", i);
                struct snib__name n = name_of(text);
                acquire(0, &n);
                struct snib__request p = put(&n, 0, "value");
                run(0, &p);
            }
            kill(getpid(), SIGKILL);
        }
        waitpid(pid, &status, 0);
        open_peers(1);
        struct owned n = owners_of(0);
        assert_int_equal(lost_of(n), 0);
        assert_int_equal(content_of(0).names, 30);
        assert_true(n.units * SNIB__FILE_UNIT < 2 << 20); /* it does not grow */
        struct snib__name v = name_of("lock-7");
        struct snib__request again = put(&v, 0, "value");
        assert_int_equal(run(0, &again), SNIB__NO);
        close_peer(0);
    }
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        STORE_CASES,
        KIND_CASES,
        CASE(parties_of_one_process_are_asked_about_once),
        CASE(another_boot_ends_all_claims_and_keeps_tokens),
        CASE(another_boot_id_while_in_use_is_refused),
        CASE(tokens_rise_though_the_clock_goes_back),
        CASE(the_cleaner_forgets_old_names_but_not_their_tokens),
        CASE(the_cleaner_keeps_params_for_thirty_days),
        CASE(a_damaged_token_is_told_and_mended_by_force),
        CASE(a_damaged_floor_is_told_and_mended_by_force),
        CASE(a_damaged_head_gives_no_block),
        CASE(bytes_that_are_no_bucket_are_refused_in_words),
        CASE(claims_of_one_number_are_no_bucket),
        CASE(a_waiter_of_a_rank_that_is_none_is_met_once),
        CASE(a_child_may_free_and_open_its_own),
        CASE(values_are_put_read_and_deleted),
        CASE(what_a_killed_client_had_is_found_again),
    };
    return RUN(cases);
}
