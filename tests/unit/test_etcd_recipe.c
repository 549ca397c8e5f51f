/* tests/unit/test_etcd_recipe.c — the locks of etcd's own clients (recipe.c): what
 * stands in the keys, who is let in when, and what is told. */
#include "etcd_recipe_world.h"

/* -- what stands in the keys ------------------------------------------------------- */

static void a_free_lock_is_one_key_whose_revision_is_the_token(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 7);
    assert_int_equal(ask(&r), SNIB__DONE);
    assert_int_equal(w.keys, 1);
    assert_int_equal(own_of(&r)->made, r.token);
    assert_true(left_of(own_of(&r)) >= 30);
    assert_int_equal(r.acquire.reserve, 0);
    struct snib__request release = ends(SNIB__RELEASE, &r);
    assert_int_equal(ask(&release), SNIB__DONE);
    assert_int_equal(w.keys, 0);
    struct snib__request again = asks(SNIB__ACQUIRE, 8);
    assert_int_equal(ask(&again), SNIB__DONE);
    assert_true(again.token > r.token);
}

static void a_prefix_stands_before_the_name(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 7);
    end_world(NULL);
    open_world("etcd://a?dialect=concurrency&prefix=/locks");
    assert_int_equal(ask(&r), SNIB__DONE);
    assert_non_null(key_of("/locks/n/00000000000000070000000000000009"));
}

static void theirs_keeps_ours_waiting_until_it_ends(void **state)
{
    (void)state;
    static struct snib__request r;
    put_theirs(THEIRS);
    r = asks(SNIB__ACQUIRE, 7);
    assert_int_equal(ask(&r), SNIB__QUEUED);
    assert_int_equal(r.said.position, 1);
    assert_true(left_of(own_of(&r)) <= 3);
    assert_string_equal(watched(), THEIRS);
    int64_t made = own_of(&r)->made;
    tell_watchers(true);
    assert_int_equal(r.said.answer, SNIB__QUEUED);
    end_theirs(THEIRS);
    answered(&r);
    tell_watchers(false);
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(r.token, made);
    assert_true(left_of(own_of(&r)) >= 30);
    assert_string_equal(watched(), "");
}

/* It ends before the server has said that it watches. */
static void an_end_before_the_watch_is_not_missed(void **state)
{
    (void)state;
    static struct snib__request r;
    put_theirs(THEIRS);
    r = asks(SNIB__ACQUIRE, 7);
    assert_int_equal(ask(&r), SNIB__QUEUED);
    answered(&r);
    end_theirs(THEIRS);
    tell_watchers(true);
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__DONE);
}

/* The one before it only waited, and gave up. */
static void behind_one_that_waits_it_waits_on(void **state)
{
    (void)state;
    static struct snib__request r;
    put_theirs(THEIRS);
    put_theirs("n/2");
    r = asks(SNIB__ACQUIRE, 7);
    assert_int_equal(ask(&r), SNIB__QUEUED);
    assert_int_equal(r.said.position, 2);
    assert_string_equal(watched(), "n/2");
    end_theirs("n/2");
    tell_watchers(false);
    assert_int_equal(r.said.answer, SNIB__QUEUED);
    assert_string_equal(watched(), THEIRS);
    end_theirs(THEIRS);
    answered(&r);
    tell_watchers(false);
    assert_int_equal(r.said.answer, SNIB__DONE);
    answered(&r);
}

static void who_waits_keeps_its_position_by_its_polls(void **state)
{
    (void)state;
    static struct snib__request r;
    struct model_key *theirs = put_theirs(THEIRS);
    w.lease[theirs->lease].ttl = 1000;
    r = asks(SNIB__ACQUIRE, 7);
    assert_int_equal(ask(&r), SNIB__QUEUED);
    int64_t made = own_of(&r)->made;
    for (int i = 0; i < 100; i++) {
        pass(500);
        assert_non_null(own_of(&r));
    }
    assert_int_equal(own_of(&r)->made, made);
    end_theirs(THEIRS);
    pass(1100); /* nobody has told it */
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__DONE);
}

/* It stands nowhere any more, and comes last. */
static void who_was_away_for_too_long_comes_again(void **state)
{
    (void)state;
    static struct snib__request r;
    put_theirs(THEIRS);
    r = asks(SNIB__ACQUIRE, 7);
    assert_int_equal(ask(&r), SNIB__QUEUED);
    int64_t made = own_of(&r)->made;
    w.now = snib__after(w.now, snib__ms(9000));
    end_leases();
    assert_null(own_of(&r));
    put_theirs("n/2");
    pass(1);
    assert_int_equal(r.said.answer, SNIB__QUEUED);
    assert_true(own_of(&r)->made > made);
    assert_string_equal(watched(), "n/2");
    answered(&r);
}

static void a_try_leaves_nothing_behind(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 7);
    r.acquire.may_queue = false;
    put_theirs(THEIRS);
    int64_t before = w.revision;
    assert_int_equal(ask(&r), SNIB__NO);
    assert_int_equal(r.said.err, SNIB_ERR_BUSY);
    assert_int_equal(w.revision, before);
    end_theirs(THEIRS);
    struct snib__request again = asks(SNIB__ACQUIRE, 8);
    again.acquire.may_queue = false;
    assert_int_equal(ask(&again), SNIB__DONE);
}

/* A client that goes on to its next owner: behind those that wait. */
static void the_grant_from_before_ends_in_the_same_step(void **state)
{
    (void)state;
    static struct snib__request next;
    struct snib__request r = asks(SNIB__ACQUIRE, 7);
    assert_int_equal(ask(&r), SNIB__DONE);
    put_theirs(THEIRS);
    next = asks(SNIB__ACQUIRE, 8);
    next.token = r.token;
    memcpy(next.prior_id, r.id, sizeof r.id);
    assert_int_equal(ask(&next), SNIB__QUEUED);
    assert_null(own_of(&r));
    assert_true(own_of(&next)->made > key_of(THEIRS)->made);
    end_theirs(THEIRS);
    answered(&next);
    tell_watchers(false);
    assert_int_equal(next.said.answer, SNIB__DONE);
    assert_true(next.token > r.token);
    answered(&next);
}

/* -- renewals ---------------------------------------------------------------------- */

static void a_renewal_moves_the_same_key_to_a_younger_lease(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 7);
    assert_int_equal(ask(&r), SNIB__DONE);
    struct model_key was = *own_of(&r);
    pass(10000);
    struct snib__request renew = ends(SNIB__RENEW, &r);
    assert_int_equal(ask(&renew), SNIB__DONE);
    assert_int_equal(renew.said.valid_from.ns, w.now.ns);
    const struct model_key *is = own_of(&r);
    assert_true(is->made == was.made && is->lease != was.lease);
    assert_int_equal(is->value_size, was.value_size);
    assert_true(left_of(is) >= 30);
}

/* Its holder believes in the longer one until the answer comes. */
static void a_shorter_renewal_ends_no_earlier_than_is_believed(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 7);
    assert_int_equal(ask(&r), SNIB__DONE);
    struct snib__request renew = ends(SNIB__RENEW, &r);
    pass(4000);
    renew.lease = snib__ms(5000);
    renew.renew.held_until = snib__after(w.now, snib__ms(26000));
    assert_int_equal(ask(&renew), SNIB__DONE);
    assert_lasts_until(own_of(&r), renew.renew.held_until);
}

static void a_key_that_is_gone_is_a_lock_that_is_lost(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 7);
    assert_int_equal(ask(&r), SNIB__DONE);
    pass(60000);
    struct snib__request renew = ends(SNIB__RENEW, &r);
    assert_int_equal(ask(&renew), SNIB__NO);
    assert_int_equal(renew.said.err, SNIB_ERR_LOST);
    assert_true(renew.said.forgotten);
    put_theirs(THEIRS);
    renew = ends(SNIB__RENEW, &r);
    assert_int_equal(ask(&renew), SNIB__NO);
    assert_false(renew.said.forgotten);
    struct snib__request release = ends(SNIB__RELEASE, &r);
    assert_int_equal(ask(&release), SNIB__NO);
    assert_int_equal(w.keys, 1);
}

/* -- tokens ---------------------------------------------------------------------- */

static void a_cluster_that_went_back_gives_no_token(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 7);
    r.floor = 1000;
    assert_int_equal(ask(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(w.error.text, "gone back"));
    assert_int_equal(w.keys, 0);
}

/* What was granted meanwhile, at another name, has a higher one. */
static void who_has_waited_for_long_may_have_an_old_token(void **state)
{
    (void)state;
    static struct snib__request r;
    put_theirs(THEIRS);
    r = asks(SNIB__ACQUIRE, 7);
    assert_int_equal(ask(&r), SNIB__QUEUED);
    struct snib__request other = asks(SNIB__ACQUIRE, 8);
    other.name = &name_m;
    assert_int_equal(ask(&other), SNIB__DONE);
    r.floor = other.token;
    end_theirs(THEIRS);
    answered(&r);
    tell_watchers(false);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_true(r.token < other.token);
    answered(&r);
}

/* -- what it has not, what is shown --------------------------------------------------- */

static void unsupported(struct snib__request r)
{
    assert_int_equal(ask(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_UNSUPPORTED);
    assert_int_equal(w.keys, 0);
}

static void what_etcds_own_clients_have_not_is_refused(void **state)
{
    (void)state;
    static const snib_kind kinds[] = {SNIB_KIND_READ, SNIB_KIND_WRITE,
                                      SNIB_KIND_PERMITS, SNIB_KIND_BARRIER};
    static const snib__verb verbs[] = {SNIB__LIST, SNIB__FORCE, SNIB__PARAMS,
                                       SNIB__VALUE_GET, SNIB__VALUE_PUT};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct snib__request r = asks(SNIB__ACQUIRE, 7 + i);
        r.acquire.kind = kinds[i];
        unsupported(r);
    }
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        struct snib__request r = asks(verbs[i], 20 + i);
        r.said.result = &w.rows;
        unsupported(r);
    }
    struct snib__request r = asks(SNIB__ACQUIRE, 30);
    r.acquire.delay = snib__ms(1000);
    unsupported(r);
    r = asks(SNIB__ACQUIRE, 31);
    r.acquire.priority = 1;
    unsupported(r);
    assert_int_equal(w.out.caps, SNIB__TIED | SNIB__NO_LATCH);
}

static void a_name_among_what_is_snibs_is_refused(void **state)
{
    (void)state;
    static const struct snib__name bad[] = {
        {4, 4, 5, "snib", "snib"},
        {6, 6, 6, "snib/x", "snib%2Fx"},
        {10, 10, 8, "snib/l/a/c", "snib%2Fl%2Fa%2Fc"},
        {8, 8, 9, "snib/new", "snib%2Fnew"}};
    static const struct snib__name good[] = {{3, 3, 7, "sni", "sni"},
                                             {5, 5, 4, "snibs", "snibs"}};
    for (uint32_t i = 0; i < COUNT_OF(bad); i++) {
        struct snib__request r = asks(SNIB__ACQUIRE, 7 + i);
        r.name = &bad[i];
        assert_int_equal(ask(&r), SNIB__NOT_APPLIED);
        assert_int_equal(r.said.err, SNIB_ERR_USAGE);
        assert_int_equal(w.keys, 0);
    }
    for (uint32_t i = 0; i < COUNT_OF(good); i++) {
        struct snib__request r = asks(SNIB__ACQUIRE, 20 + i);
        r.name = &good[i];
        assert_int_equal(ask(&r), SNIB__DONE);
        answered(&r);
    }
}

static void which_right_lacks_is_said(void **state)
{
    (void)state;
    static const snib__verb verbs[] = {SNIB__ACQUIRE, SNIB__INSPECT};
    w.denies = true;
    for (size_t i = 0; i < COUNT_OF(verbs); i++) {
        struct snib__request r = asks(verbs[i], 7 + i);
        r.said.result = &w.rows;
        assert_int_equal(ask(&r), SNIB__NOT_APPLIED);
        assert_int_equal(r.said.err, SNIB_ERR_DENIED);
        assert_non_null(
            strstr(r.said.reterr->text, "keys n/... or snib/x/..."));
        assert_non_null(strstr(r.said.reterr->text, "docs/ETCD.md"));
        answered(&r);
    }
}

static void both_sides_are_shown(void **state)
{
    (void)state;
    static struct snib__request r;
    put_theirs(THEIRS);
    r = asks(SNIB__ACQUIRE, 7);
    r.text = "host=here";
    r.text_size = 9;
    assert_int_equal(ask(&r), SNIB__QUEUED);
    answered(&r);
    struct snib__request look = asks(SNIB__INSPECT, 8);
    look.said.result = &w.rows;
    assert_int_equal(ask(&look), SNIB__DONE);
    const char *text = (const char *)snib__buf_bytes(&w.rows);
    size_t size = snib__buf_size(&w.rows);
    assert_non_null(memmem(text, size, "program=not%20snib", 18));
    assert_non_null(memmem(text, size, "host=here", 9));
    assert_null(memmem(text, size, "client=", 7));
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_recipe, end_world)
    const struct CMUnitTest cases[] = {
        CASE(a_free_lock_is_one_key_whose_revision_is_the_token),
        CASE(a_prefix_stands_before_the_name),
        CASE(theirs_keeps_ours_waiting_until_it_ends),
        CASE(an_end_before_the_watch_is_not_missed),
        CASE(behind_one_that_waits_it_waits_on),
        CASE(who_waits_keeps_its_position_by_its_polls),
        CASE(who_was_away_for_too_long_comes_again),
        CASE(a_try_leaves_nothing_behind),
        CASE(the_grant_from_before_ends_in_the_same_step),
        CASE(a_renewal_moves_the_same_key_to_a_younger_lease),
        CASE(a_shorter_renewal_ends_no_earlier_than_is_believed),
        CASE(a_key_that_is_gone_is_a_lock_that_is_lost),
        CASE(a_cluster_that_went_back_gives_no_token),
        CASE(who_has_waited_for_long_may_have_an_old_token),
        CASE(what_etcds_own_clients_have_not_is_refused),
        CASE(a_name_among_what_is_snibs_is_refused),
        CASE(which_right_lacks_is_said),
        CASE(both_sides_are_shown),
    };
    return RUN(cases);
}
