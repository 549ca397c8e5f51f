/* tests/unit/test_file_several.c — the mapped file: several locks as one batch,
 * and the check-up, which looks at all. */
#include "file_store.h"

/* -- the check-up ---------------------------------------------------------------------------- */

static void doctor_says(const char *text)
{
    struct snib__name n = name_of("");
    struct snib__request r = request(SNIB__DOCTOR, &n);
    struct snib__buf out;
    snib__buf_init(&out, 1 << 16);
    r.said.result = &out;
    assert_int_equal(run(0, &r), SNIB__DONE);
    if (!memmem(snib__buf_bytes(&out), snib__buf_size(&out), text,
                strlen(text))) {
        print_error("the check-up does not say \"%s\"\n", text);
        fail();
    }
    snib__buf_free(&out);
}

static void the_check_up_counts_what_is_there(void **state)
{
    struct snib__name a = name_of("a"), b = name_of("b");
    (void)state;
    open_peers(2);
    doctor_says("0 names, 0 holders, 0 waiters, 0 values");
    acquire(0, &a);
    acquire(1, &a);
    acquire(1, &b);
    struct snib__request p = request(SNIB__VALUE_PUT, &a);
    run(0, &p);
    doctor_says("2 names, 2 holders, 1 waiters, 1 values");
    assert_int_equal(chmod(path, 0666), 0);
    doctor_says("others can end or forge your leases");
    assert_int_equal(chmod(path, 0600), 0);
    close(self_of(0)->place.users);
    self_of(0)->place.users = -1; /* as where it may not be read */
    doctor_says("it cannot be read or locked by this user");
    self_of(0)->map.cut = true; /* by a stranger */
    doctor_says("the file was cut off while in use");
    self_of(0)->map.cut = false;
}

/* -- several at once ------------------------------------------------------------------------- */

/* What peer 1 does before a swap of peer 0's. */
static struct {
    int swaps; /* of peer 0 so far */
    bool inside;
    uint64_t root; /* of the first name's bucket, before all */
    struct snib__name first, second;
    struct snib__request taken;
} between;

static uint64_t root_of_first(void)
{
    const struct snib__map *m = &self_of(1)->map;
    return m->roots[snib__file_bucket_of(m, &between.first)];
}

/* Peer 0 has the first one: peer 1 takes the second, and then changes the bucket
 * of the first before each swap, some times. */
static void come_between(void *data, const char *what)
{
    (void)data;
    if (between.inside || strcmp(what, "swap") != 0) {
        return;
    }
    between.inside = true;
    between.swaps++;
    if (!between.taken.name && root_of_first() != between.root) {
        between.taken = acquire(1, &between.second);
        between.swaps = 0;
    } else if (between.taken.name && between.swaps < 60) {
        struct snib__request r = acquire(1, &between.first);
        struct snib__request x = turn_into(&r, SNIB__CANCEL);
        x.token = 0;
        run(1, &x);
    }
    between.inside = false;
}

static void run_batch(struct snib__request *r, int count)
{
    struct snib__list chain;
    snib__list_init(&chain);
    for (int i = 0; i < count; i++) {
        r[i].batch.number = 1;
        r[i].batch.index = (uint8_t)i;
        r[i].batch.all = true;
        r[i].acquire.may_queue = false;
        r[i].exec.patience = (snib_instant){1}; /* over */
        snib__link_init(&r[i].link);
        snib__list_push(&chain, &r[i].link);
    }
    kit.ops->exec(kit.peer[0].inst, (snib_instant){0}, &chain);
    while (snib__list_pop(&chain)) {
    }
}

/* One of them is taken by another just then, and others change the first one's
 * bucket without end: it is given back all the same. */
static void a_batch_that_is_refused_gives_all_back(void **state)
{
    (void)state;
    open_peers(2);
    between.first = name_of("batch-a");
    between.second = name_of("batch-b");
    while (snib__file_bucket_of(&self_of(0)->map, &between.second) ==
           snib__file_bucket_of(&self_of(0)->map, &between.first)) {
        between.second.hash++;
    }
    struct snib__request r[2] = {request(SNIB__ACQUIRE, &between.first),
                                 request(SNIB__ACQUIRE, &between.second)};
    between.root = root_of_first();
    between.taken.name = NULL;
    snib__file_hook.before = come_between;
    run_batch(r, 2);
    snib__file_hook.before = NULL;
    assert_true(between.swaps > 2 * SNIB__FILE_LOST_MANY);
    assert_int_equal(between.taken.said.answer, SNIB__DONE);
    assert_int_equal(r[0].said.answer, SNIB__NO);
    assert_int_equal(r[0].said.err, SNIB_ERR_CANCELLED);
    assert_int_equal(r[1].said.answer, SNIB__NO);
    assert_int_equal(look(1, &between.first, SNIB__ROW_HOLDER, NULL), 0);
}

/* What is seen to be taken before anything is written is no step at all. */
static void a_batch_that_cannot_be_is_seen_by_nobody(void **state)
{
    (void)state;
    open_peers(2);
    struct snib__name a = name_of("batch-a"), b = name_of("batch-b");
    struct snib__request held = acquire(1, &b);
    assert_int_equal(held.said.answer, SNIB__DONE);
    struct snib__request r[2] = {request(SNIB__ACQUIRE, &a),
                                 request(SNIB__ACQUIRE, &b)};
    between.first = a;
    between.taken = held;
    between.swaps = 100; /* it only counts */
    snib__file_hook.before = come_between;
    run_batch(r, 2);
    snib__file_hook.before = NULL;
    assert_int_equal(between.swaps, 100);
    assert_int_equal(r[0].said.err, SNIB_ERR_CANCELLED);
    assert_int_equal(r[1].said.answer, SNIB__NO);
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(the_check_up_counts_what_is_there),
        CASE(a_batch_that_is_refused_gives_all_back),
        CASE(a_batch_that_cannot_be_is_seen_by_nobody),
    };
    return RUN(cases);
}
