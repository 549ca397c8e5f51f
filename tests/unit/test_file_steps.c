/* tests/unit/test_file_steps.c — two processes take turns inside a mapped file,
 * in every order of their accesses with a few changes from one to the other;
 * one of them dies before any access, or stops there until the other is done.
 *
 * How: file_orders.h. wraps: fdatasync */
#include "driver/park.h"
#include "file_orders.h"

int __wrap_fdatasync(int fd);

int __wrap_fdatasync(int fd)
{
    (void)fd;
    return 0;
}

/* -- programs -------------------------------------------------------------------------- */

static struct snib__name name[2];
static int inside[2];      /* by name: who; NOBODY */
static int64_t last_of[2]; /* by name: the last token */
static int sections, granted;
static char wrong[200];

static void section(int who, int which)
{
    struct snib_error e;
    struct snib__request r = request(SNIB__ACQUIRE, &name[which]);
    r.said.reterr = &e;
    r.acquire.may_queue = false;
    r.lease = snib__ms(1000000);
    if (run(who, &r) != SNIB__DONE) {
        if (r.said.answer != SNIB__NO) {
            snprintf(wrong, sizeof wrong, "refused: %s", e.text);
        }
        return;
    }
    granted++;
    if (inside[which] != NOBODY) {
        snprintf(wrong, sizeof wrong, "two are inside");
    }
    if (r.token <= last_of[which]) {
        snprintf(wrong, sizeof wrong, "a token did not rise");
    }
    inside[which] = who;
    last_of[which] = r.token;
    struct snib__request v = turn_into(&r, SNIB__RELEASE);
    v.said.reterr = &e;
    snib__file_before("leave"); /* a change here: the other tries */
    inside[which] = NOBODY;
    if (run(who, &v) != SNIB__DONE) {
        snprintf(wrong, sizeof wrong, "not released: %s", e.text);
    }
}

static void same_name(int who)
{
    for (int i = 0; i < sections; i++) {
        section(who, 0);
    }
}

static void same_bucket(int who)
{
    for (int i = 0; i < sections; i++) {
        section(who, who);
    }
}

/* The versions that were told, and how often each was what a put expected. */
static int64_t versions[2];

static void put_value(int who)
{
    struct snib_error e;
    struct snib__request r = request(SNIB__VALUE_PUT, &name[0]);
    r.said.reterr = &e;
    r.lease = snib__ms(1000000);
    r.text = who ? "from b" : "from a";
    r.text_size = 6;
    run(who, &r);
    if (r.said.answer == SNIB__DONE) {
        granted++;
        versions[who] = r.token;
    } else if (r.said.answer != SNIB__NO) {
        snprintf(wrong, sizeof wrong, "refused: %s", e.text);
    }
}

/* B waits for what A holds, and goes to sleep twice: the first time its limit
 * comes at once. */
static struct snib__request held, waiting;
static struct {
    _Atomic uint32_t *word;
    uint32_t value;
    bool heard;
} sleeper;

/* That this request was granted, or that any may have been. */
static bool hears(void)
{
    uint64_t ids[16][2];
    return kit.ops->notified(kit.peer[B].inst, ids, 16) > 0;
}

static void release_or_sleep(int who)
{
    if (who == A) {
        struct snib__request v = turn_into(&held, SNIB__RELEASE);
        if (run(A, &v) != SNIB__DONE) {
            snprintf(wrong, sizeof wrong, "not released");
        }
        return;
    }
    for (int i = 0; i < 2 && !sleeper.heard; i++) {
        snib__file_before("again");
        sleeper.word = kit.ops->notifier_word(kit.peer[B].inst, &sleeper.value);
        snib__file_before("asleep");
        if (i == 0) {
            (void)snib__park_leave_shared(sleeper.word, sleeper.value);
            sleeper.heard = hears();
        }
    }
}

/* Who was granted the lock does not sleep on. */
static void no_wake_is_lost(void)
{
    if (!s.dead[A] && !sleeper.heard) {
        assert_int_not_equal(*sleeper.word, sleeper.value);
        assert_true(hears());
    }
}

/* Blocks that a process has; nobody else may be given them meanwhile. */
static uint32_t blocks_of[2][3];

static void take_block(int who, int at)
{
    bool reserved;
    uint32_t unit = snib__block_take(&self_of(who)->map, 0, true, &reserved);
    for (int i = 0; i < 3; i++) {
        if (unit && unit == blocks_of[!who][i]) {
            snprintf(wrong, sizeof wrong, "block %u was given twice", unit);
        }
    }
    blocks_of[who][at] = unit;
}

static void give_block(int who, int at)
{
    struct snib__map *m = &self_of(who)->map;
    uint32_t unit = blocks_of[who][at];
    blocks_of[who][at] = 0;
    snib__block_push(m, &m->head->stack[0], unit, 0);
}

/* The first block comes back while the second one is away: who has read the
 * stack before finds the same block on top, and another one below it. */
static void blocks_come_back(int who)
{
    take_block(who, 0);
    take_block(who, 1);
    give_block(who, 0);
    take_block(who, 2);
}

/* Each value that would be found after a power failure is in the index, or was
 * there and is retired. */
static void no_value_is_outside(void)
{
    struct snib__map *m = &self_of(0)->map;
    uint32_t known[16], n = 0;
    assert_int_equal(snib__root_copy(m, &self_of(0)->copy, SNIB__FILE_INDEX, 0),
                     0);
    const struct snib__file_entry *e = (const void *)self_of(0)->copy.bytes;
    for (size_t i = 0; i < self_of(0)->copy.used / sizeof *e; i++) {
        known[n++] = e[i].block;
    }
    for (uint32_t unit = (uint32_t)atomic_load(&m->head->retired); unit;
         unit = (uint32_t)atomic_load(&snib__block_at(m, unit, 0)->next)) {
        known[n++] = unit;
    }
    uint64_t end = atomic_load(&m->head->top);
    for (uint32_t unit = m->first; unit < end; unit += 8) {
        const struct snib__file_block *b = snib__block_at(m, unit, 0);
        bool found = !b || b->use != SNIB__FILE_VALUE;
        for (uint32_t i = 0; i < n; i++) {
            found = found || known[i] == unit;
        }
        assert_true(found);
    }
}

/* -- looking at the outcome -------------------------------------------------------------- */

static void check_outcome(void)
{
    bool died = s.dead[A] || s.dead[B];
    if (wrong[0]) {
        char text[DEEP + 1];
        for (int i = 0; i < s.depth; i++) {
            text[i] = (char)('0' + s.path[i]);
        }
        text[s.depth] = 0;
        fail_msg("%s; decisions %s", wrong, text);
    }
    struct owned n = owners_of(0); /* fails if a block is owned twice */
    if (!died && s.program != blocks_come_back) {
        assert_int_equal(lost_of(n), 0);
        assert_int_equal(content_of(0).holders, s.program == release_or_sleep);
    }
    (void)content_of(0);
}

static void explore(void (*program)(int who), int changes, int deaths,
                    int least)
{
    int runs = 0;
    s.program = program;
    s.known = 0;
    s.runs = NOBODY;
    keep_state();
    snib__file_hook.before = before_access;
    do {
        s.changes_left = changes;
        s.deaths_left = deaths;
        inside[0] = inside[1] = NOBODY;
        last_of[0] = last_of[1] = 0;
        versions[0] = versions[1] = 0;
        memset(blocks_of, 0, sizeof blocks_of);
        memset(&sleeper, 0, sizeof sleeper);
        granted = 0;
        wrong[0] = 0;
        run_both();
        check_outcome();
        if (program == put_value) {
            if (!s.dead[A] && !s.dead[B]) {
                assert_int_equal(granted, 1); /* both expected none */
            }
            no_value_is_outside();
        } else if (program == release_or_sleep) {
            no_wake_is_lost();
        }
        restore_state();
        runs++;
    } while (next_path());
    snib__file_hook.before = NULL;
    free(as_it_was);
    print_message("%d orders\n", runs);
    assert_true(runs >= least);
}

/* -- cases -------------------------------------------------------------------------------- */

static void set_up(void)
{
    static char text[2][16] = {"one", "two"};
    shape.roots = 1; /* both names in one bucket */
    shape.value_roots = 1;
    open_peers(2);
    shape.roots = 4;
    shape.value_roots = 2;
    self_of(0)->no_ear = self_of(1)->no_ear = true;
    for (int i = 0; i < 2; i++) {
        name[i] = name_of(text[i]);
        struct snib__request r = acquire(0, &name[i]);
        end(0, &r);
    }
    snib__block_give_spares(&self_of(0)->map);
}

static void one_name_two_sections_each(void **state)
{
    (void)state;
    set_up();
    sections = 2;
    explore(same_name, 3, 0, 1000);
}

static void one_name_and_one_of_them_dies(void **state)
{
    (void)state;
    set_up();
    sections = 1;
    explore(same_name, 2, 1, 1000);
}

static void two_names_of_one_bucket_and_one_of_them_dies(void **state)
{
    (void)state;
    set_up();
    sections = 1;
    explore(same_bucket, 2, 1, 1000);
}

static void a_stack_of_blocks(void **state)
{
    (void)state;
    set_up();
    for (int i = 0; i < 4; i++) { /* and more below them */
        struct snib__map *m = &self_of(0)->map;
        bool reserved;
        blocks_of[0][0] = snib__block_take(m, 3, true, &reserved);
        for (uint32_t part = 0; part < 8; part++) {
            snib__block_push(m, &m->head->stack[0], blocks_of[0][0] + 8 * part,
                             0);
        }
    }
    explore(blocks_come_back, 3, 0, 1000);
}

/* The disk is not asked. */
static void no_sync(void)
{
    atomic_store(&self_of(0)->map.head->sync_begun,
                 (uint64_t)lease_now(0).ns + 1000000000000);
}

static void two_puts_of_one_value(void **state)
{
    (void)state;
    set_up();
    no_sync();
    explore(put_value, 3, 0, 1000);
}

static void two_puts_and_one_of_them_dies(void **state)
{
    (void)state;
    set_up();
    no_sync();
    explore(put_value, 2, 1, 1000);
}

static void hold_and_wait(void)
{
    set_up();
    self_of(B)->no_ear = false;
    held = request(SNIB__ACQUIRE, &name[0]);
    waiting = request(SNIB__ACQUIRE, &name[0]);
    held.lease = waiting.lease = snib__ms(1000000);
    assert_int_equal(run(A, &held), SNIB__DONE);
    assert_int_equal(run(B, &waiting), SNIB__QUEUED);
    assert_int_not_equal(self_of(B)->ear.owner, 0);
}

static void a_release_and_who_goes_to_sleep(void **state)
{
    (void)state;
    hold_and_wait();
    explore(release_or_sleep, 3, 0, 500);
}

static void a_release_that_dies_and_who_goes_to_sleep(void **state)
{
    (void)state;
    hold_and_wait();
    s.spared = B; /* it would keep the mutex of its own memory */
    explore(release_or_sleep, 2, 1, 300);
    s.spared = NOBODY;
}

/* The last block of a stack, and who comes second finds none. */
static void an_empty_stack_and_a_full_disk(void **state)
{
    (void)state;
    set_up();
    struct snib__map *m = &self_of(0)->map;
    for (uint32_t c = 0; c < SNIB__FILE_CLASSES; c++) {
        while (snib__block_pop(m, &m->head->stack[c], c)) {
        }
    }
    /* No more room than up to here; fallocate() is not asked for less than the
     * largest file. */
    self_of(0)->map.limit = self_of(1)->map.limit =
        (size_t)atomic_load(&m->head->top) * SNIB__FILE_UNIT;
    keep_state();
    s.program = same_name;
    s.known = 0;
    snib__file_hook.before = before_access;
    sections = 1;
    int runs = 0;
    do {
        s.changes_left = 2;
        s.deaths_left = 0;
        inside[0] = inside[1] = NOBODY;
        last_of[0] = last_of[1] = 0;
        wrong[0] = 0;
        run_both();
        if (strstr(wrong, "not released")) {
            fail_msg("%s", wrong);
        }
        (void)owners_of(0);
        assert_int_equal(content_of(0).holders, 0);
        restore_state();
        runs++;
    } while (next_path());
    snib__file_hook.before = NULL;
    free(as_it_was);
    self_of(0)->map.limit = self_of(1)->map.limit = SNIB__FILE_MOST;
    assert_true(runs > 100);
}

int main(void)
{
    set_kit();
    s.spared = NOBODY;
    const struct CMUnitTest cases[] = {
        CASE(one_name_two_sections_each),
        CASE(one_name_and_one_of_them_dies),
        CASE(two_names_of_one_bucket_and_one_of_them_dies),
        CASE(a_stack_of_blocks),
        CASE(two_puts_of_one_value),
        CASE(two_puts_and_one_of_them_dies),
        CASE(a_release_and_who_goes_to_sleep),
        CASE(a_release_that_dies_and_who_goes_to_sleep),
        CASE(an_empty_stack_and_a_full_disk),
    };
    return RUN(cases);
}
