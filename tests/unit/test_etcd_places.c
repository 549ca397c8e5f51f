/* tests/unit/test_etcd_places.c — under which keys the claims of a client of the
 * store etcd: stand (place.c). */
#include "etcd_world.h"

static void put_key(const struct snib__request *r, char ret[KEY_MAX])
{
    const struct model_key *k = claim_of(r);
    assert_non_null(k);
    snprintf(ret, KEY_MAX, "%.*s", (int)k->size, k->key);
}

static struct snib__request holds(uint64_t id)
{
    struct snib__request r = asks(SNIB__ACQUIRE, id);
    assert_int_equal(ask(&r), SNIB__DONE);
    return r;
}

static void let_go(const struct snib__request *r)
{
    struct snib__request end = ends(SNIB__RELEASE, r);
    assert_int_equal(ask(&end), SNIB__DONE);
    assert_null(claim_of(r));
}

static void drop_claim(const struct snib__request *r)
{
    const struct model_key *k = claim_of(r);
    assert_non_null(k);
    drop_key((uint32_t)(k - w.key));
}

static void one_key_serves_all_sections(void **state)
{
    char first[KEY_MAX], key[KEY_MAX];
    (void)state;
    for (uint64_t i = 1; i < 9; i++) {
        struct snib__request r = holds(i);
        put_key(&r, i == 1 ? first : key);
        assert_true(i == 1 || !strcmp(first, key));
        let_go(&r);
    }
}

/* Two of one client: there are two keys, and never a third one. */
static void who_waits_has_a_place_of_his_own(void **state)
{
    static struct snib__request r[8];
    (void)state;
    r[0] = holds(1);
    for (uint64_t i = 1; i < 8; i++) {
        r[i] = asks(SNIB__ACQUIRE, i + 1);
        assert_int_equal(ask(&r[i]), SNIB__QUEUED);
        assert_non_null(claim_of(&r[i - 1]));
        assert_non_null(claim_of(&r[i]));
        let_go(&r[i - 1]);
        pass(2000);
        assert_true(answered(&r[i]));
        assert_int_equal(r[i].said.answer, SNIB__DONE);
    }
    assert_true(w.e->places.next <= 2);
    let_go(&r[7]);
}

static void who_gives_up_leaves_the_place(void **state)
{
    static struct snib__request waits;
    (void)state;
    struct snib__request r = holds(1);
    for (uint64_t i = 2; i < 9; i++) {
        waits = asks(SNIB__ACQUIRE, i);
        assert_int_equal(ask(&waits), SNIB__QUEUED);
        struct snib__request cancel = ends(SNIB__CANCEL, &waits);
        assert_int_equal(ask(&cancel), SNIB__DONE);
        assert_true(answered(&waits));
    }
    assert_true(w.e->places.next <= 2);
    let_go(&r);
}

/* Its write may be done later. Until then the cancel stands in its way, and nobody
 * else stands there, ever. */
static void what_was_lost_keeps_its_place(void **state)
{
    char lost[KEY_MAX], key[KEY_MAX];
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    w.loses = true;
    assert_int_equal(ask(&r), SNIB__UNKNOWN);
    w.loses = false;
    put_key(&r, lost);
    drop_claim(&r); /* as if it had not been done yet */
    struct snib__request cancel = ends(SNIB__CANCEL, &r);
    cancel.resent = true;
    assert_int_equal(ask(&cancel), SNIB__DONE);
    put_key(&r, key);
    assert_string_equal(key, lost);
    for (uint64_t i = 2; i < 6; i++) {
        struct snib__request other = holds(i);
        put_key(&other, key);
        assert_string_not_equal(key, lost);
        let_go(&other);
        pass(20000);
    }
}

/* The write of this one, which is not done, and of which no answer comes. */
static void lose_the_write(struct snib__request *r, struct snib__buf *ret)
{
    struct etcd_call *write = NULL;
    start(r);
    for (int i = 0; i < 10 && !write; i++) {
        SNIB__LIST_EACH_SAFE (l, next, &w.e->session.calls) {
            struct etcd_call *c = SNIB__CONTAINER(l, struct etcd_call, link);
            bool open = !c->heard && c->stream.end == SNIB__H2_OPEN;
            if (open && c->changes) {
                write = c;
            } else if (open) {
                answer(c);
            }
        }
        if (!write) {
            tick();
        }
    }
    assert_non_null(write);
    struct snib__h2_stream *s = &write->stream;
    snib__buf_add(ret, snib__buf_bytes(&s->out), snib__buf_size(&s->out));
    s->end = SNIB__H2_LOST;
    snib__list_push(&w.e->session.h2.changed, &s->changed);
    tick();
    assert_true(answered(r));
    assert_int_equal(r->said.answer, SNIB__UNKNOWN);
}

static void a_late_copy_finds_the_tombstone_in_its_way(void **state)
{
    struct snib__buf copy, b;
    struct snib__pb p;
    int status = 0;
    (void)state;
    snib__buf_init(&copy, 1 << 16);
    snib__buf_init(&b, 1 << 16);
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    lose_the_write(&r, &copy);
    assert_null(claim_of(&r));
    struct snib__request cancel = ends(SNIB__CANCEL, &r);
    cancel.resent = true;
    assert_int_equal(ask(&cancel), SNIB__DONE);
    int64_t before = claim_of(&r)->mod;
    snib__pb_open(&p, (const uint8_t *)snib__buf_bytes(&copy) + 5,
                  snib__buf_size(&copy) - 5);
    assert_null(do_txn(p, &b, &status));
    assert_int_equal(claim_of(&r)->mod, before);
    assert_int_equal(w.keys, 1);
    snib__buf_free(&copy);
    snib__buf_free(&b);
}

static void a_repeat_asks_for_the_same_place(void **state)
{
    char lost[KEY_MAX], key[KEY_MAX];
    (void)state;
    struct snib__request other = holds(7); /* so that there is a free one */
    let_go(&other);
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    w.loses = true;
    assert_int_equal(ask(&r), SNIB__UNKNOWN);
    w.loses = false;
    put_key(&r, lost);
    drop_claim(&r);
    r = asks(SNIB__ACQUIRE, 1);
    r.resent = true;
    assert_int_equal(ask(&r), SNIB__DONE);
    put_key(&r, key);
    assert_string_equal(key, lost);
    let_go(&r);
    other = holds(8);
    put_key(&other, key);
    assert_string_not_equal(key, lost);
}

/* Another process with this client's identity, say. */
static void who_stands_where_it_was_lost_is_in_nobodys_way(void **state)
{
    char lost[KEY_MAX], key[KEY_MAX];
    struct model_key theirs;
    (void)state;
    struct snib__request other = holds(7);
    theirs = *claim_of(&other);
    let_go(&other);
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    w.loses = true;
    assert_int_equal(ask(&r), SNIB__UNKNOWN);
    w.loses = false;
    put_key(&r, lost);
    drop_claim(&r);
    memcpy(theirs.key, lost, sizeof theirs.key);
    theirs.mod = theirs.made = ++w.revision;
    w.key[w.keys++] = theirs;
    struct snib__request cancel = ends(SNIB__CANCEL, &r);
    cancel.resent = true;
    assert_int_equal(ask(&cancel), SNIB__DONE);
    put_key(&r, key); /* its tombstone */
    assert_string_not_equal(key, lost);
    put_key(&other, key);
    assert_string_equal(key, lost);
}

/* As a backup has it: a row of this client's that it does not know of. */
static void a_place_where_somebody_stands_is_passed_over(void **state)
{
    char key[KEY_MAX], next[KEY_MAX];
    struct model_key before;
    (void)state;
    struct snib__request r = holds(1);
    before = *claim_of(&r);
    put_key(&r, key);
    let_go(&r);
    before.mod = before.made = ++w.revision;
    w.key[w.keys++] = before;
    snib__etcd_guesses_forget(w.e);
    struct snib__request end = ends(SNIB__FORCE, &r);
    end.id[0] = 77;
    end.text = "{}";
    end.text_size = 2;
    end.said.result = &w.rows;
    (void)ask(&end);
    struct snib__request other = asks(SNIB__ACQUIRE, 2);
    assert_int_equal(ask(&other), SNIB__DONE);
    put_key(&other, next);
    assert_string_not_equal(key, next);
}

/* -- who queues -------------------------------------------------------------------- */

/* The calls of one who queues, between whose fetch and write the lock row is
 * written; gone: and this one's claim has gone; other: and this one's is another by
 * now, a tombstone say. */
static int calls_beside(struct snib__request *r,
                        const struct snib__request *gone,
                        const struct snib__request *other)
{
    w.calls = 0;
    start(r);
    SNIB__LIST_EACH (l, &w.e->session.calls) {
        struct etcd_call *c = SNIB__CONTAINER(l, struct etcd_call, link);
        if (!c->heard && c->stream.end == SNIB__H2_OPEN) {
            answer(c);
        }
    }
    find_key((struct snib__etcd_text){"snib/l/n/!", 10})->mod = ++w.revision;
    if (gone) {
        drop_claim(gone);
    }
    if (other) {
        const struct model_key *k = claim_of(other);
        find_key((struct snib__etcd_text){k->key, k->size})->mod = ++w.revision;
    }
    tick();
    serve();
    assert_true(answered(r));
    assert_int_equal(r->said.answer, SNIB__QUEUED);
    return w.calls;
}

static void who_queues_behind_somebody_lets_the_lock_row_change(void **state)
{
    static struct snib__request waits[2];
    struct snib__request r = holds(1);
    (void)state;
    (void)r;
    for (uint64_t i = 0; i < 2; i++) {
        waits[i] = asks(SNIB__ACQUIRE, i + 2);
    }
    assert_int_equal(ask(&waits[0]), SNIB__QUEUED);
    assert_int_equal(calls_beside(&waits[1], NULL, NULL), 2);
}

static void who_queues_behind_nobody_does_not(void **state)
{
    static struct snib__request waits;
    struct snib__request r = holds(1);
    (void)state;
    (void)r;
    waits = asks(SNIB__ACQUIRE, 2);
    assert_int_equal(calls_beside(&waits, NULL, NULL), 3);
}

static void nor_who_does_behind_one_who_has_left(void **state)
{
    static struct snib__request waits[2];
    struct snib__request r = holds(1);
    (void)state;
    (void)r;
    for (uint64_t i = 0; i < 2; i++) {
        waits[i] = asks(SNIB__ACQUIRE, i + 2);
    }
    assert_int_equal(ask(&waits[0]), SNIB__QUEUED);
    assert_int_equal(calls_beside(&waits[1], &waits[0], NULL), 3);
}

/* He may have been let in, or have given up and left a tombstone. */
static void nor_behind_one_who_is_another_by_now(void **state)
{
    static struct snib__request waits[2];
    struct snib__request r = holds(1);
    (void)state;
    (void)r;
    for (uint64_t i = 0; i < 2; i++) {
        waits[i] = asks(SNIB__ACQUIRE, i + 2);
    }
    assert_int_equal(ask(&waits[0]), SNIB__QUEUED);
    assert_int_equal(calls_beside(&waits[1], NULL, &waits[0]), 3);
}

/* Who puts the row anew, since at a closed latch nobody else does, compares it: it
 * has the count that is left. */
static void who_queues_at_a_closed_latch_does_not(void **state)
{
    static struct snib__request waits[2];
    struct snib__request close = asks(SNIB__PARAMS, 77);
    (void)state;
    close.said.result = &w.rows;
    close.params.op = SNIB__PARAMS_CLOSE;
    close.params.amount = 1;
    assert_int_equal(ask(&close), SNIB__DONE);
    for (uint64_t i = 0; i < 2; i++) {
        waits[i] = asks(SNIB__ACQUIRE, i + 2);
    }
    assert_int_equal(ask(&waits[0]), SNIB__QUEUED);
    memset(w.e->kept, 0, sizeof w.e->kept); /* as another client has it */
    find_key((struct snib__etcd_text){"snib/l/n/!", 10})->lease = 0;
    assert_int_equal(calls_beside(&waits[1], NULL, NULL), 3);
}

/* -- whose they are ------------------------------------------------------------------ */

/* Who adopts a grant of another process has its id, and places of its own. */
static void two_with_one_id_have_places_of_their_own(void **state)
{
    char first[KEY_MAX], key[KEY_MAX];
    (void)state;
    struct snib__request r = holds(1);
    put_key(&r, first);
    struct snib__url *url;
    struct snib__store *second;
    struct snib__out out = {.wall_offset_ns = 0};
    snib__list_init(&out.answered);
    snib__list_init(&out.exec);
    snib__conns_init(&out, 1 << 22);
    assert_int_equal(snib__url_parse("etcd://a", &url, NULL), SNIB_ERR_OK);
    struct snib__store_config c = {.url = url,
                                   .out = &out,
                                   .client = {w.e->client[0], w.e->client[1]},
                                   .request = snib__ms(5000)};
    c.seed.v[0] = 2;
    assert_int_equal(snib__etcd_open(&c, &second, NULL), SNIB_ERR_OK);
    const struct snib__etcd *e = (struct snib__etcd *)(void *)second;
    assert_memory_not_equal(e->places.opened, w.e->places.opened,
                            sizeof e->places.opened);
    snib__etcd_id_text(e->places.opened, key);
    assert_null(strstr(first, key));
    snib__etcd_id_text(w.e->places.opened, key);
    assert_non_null(strstr(first, key));
    snib__url_free(url);
    snib__etcd_free(second);
    snib__conns_free(&out);
}

/* It may hold, and nobody can say. */
static void a_key_that_cannot_be_read_lets_nobody_in(void **state)
{
    static const char old[] = "snib/l/n/c/0123456789abcdef0123456789abcdef";
    (void)state;
    struct snib__request r = holds(1);
    struct model_key k = *claim_of(&r);
    let_go(&r);
    memcpy(k.key, old, sizeof old);
    k.size = sizeof old - 1;
    w.key[w.keys++] = k;
    snib__etcd_guesses_forget(w.e);
    struct snib__request next = asks(SNIB__ACQUIRE, 2);
    assert_int_equal(ask(&next), SNIB__NOT_APPLIED);
    assert_int_equal(next.said.err, SNIB_ERR_CONFIG);
    assert_non_null(strstr(w.error.text, old));
    assert_non_null(strstr(w.error.text, "another version of snib"));
    drop_key(w.keys - 1);
    next = asks(SNIB__ACQUIRE, 3);
    assert_int_equal(ask(&next), SNIB__DONE);
    w.key[w.keys++] = k; /* who holds goes on */
    struct snib__request renew = ends(SNIB__RENEW, &next);
    assert_int_equal(ask(&renew), SNIB__DONE);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_world, end_world)
    const struct CMUnitTest cases[] = {
        CASE(one_key_serves_all_sections),
        CASE(who_waits_has_a_place_of_his_own),
        CASE(who_gives_up_leaves_the_place),
        CASE(what_was_lost_keeps_its_place),
        CASE(a_late_copy_finds_the_tombstone_in_its_way),
        CASE(a_repeat_asks_for_the_same_place),
        CASE(who_stands_where_it_was_lost_is_in_nobodys_way),
        CASE(a_place_where_somebody_stands_is_passed_over),
        CASE(who_queues_behind_somebody_lets_the_lock_row_change),
        CASE(who_queues_behind_nobody_does_not),
        CASE(nor_who_does_behind_one_who_has_left),
        CASE(nor_behind_one_who_is_another_by_now),
        CASE(who_queues_at_a_closed_latch_does_not),
        CASE(two_with_one_id_have_places_of_their_own),
        CASE(a_key_that_cannot_be_read_lets_nobody_in),
    };
    return RUN(cases);
}
