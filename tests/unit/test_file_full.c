/* tests/unit/test_file_full.c — a mapped file whose disk is full: nothing is
 * changed, what is held stays held, and is released; and whose size cannot be
 * told. wraps: fallocate fstat */
#include "file_store.h"

#include <sys/resource.h>

int __real_fallocate(int fd, int mode, off_t from, off_t size);
int __wrap_fallocate(int fd, int mode, off_t from, off_t size);

static int fails_with; /* errno; 0: it does not fail */
static int calls;

int __wrap_fallocate(int fd, int mode, off_t from, off_t size)
{
    calls++;
    if (fails_with) {
        errno = fails_with;
        return -1;
    }
    return __real_fallocate(fd, mode, from, size);
}

int __real_fstat(int fd, struct stat *ret);
int __wrap_fstat(int fd, struct stat *ret);

static int fstat_fails_at; /* so many calls from now; 0: it does not        */

int __wrap_fstat(int fd, struct stat *ret)
{
    if (fstat_fails_at && --fstat_fails_at == 0) {
        errno = EIO;
        return -1;
    }
    return __real_fstat(fd, ret);
}

enum { MANY = 3000 };
static char text[MANY][16];
static struct snib__name names[MANY];
static struct snib__request r[MANY];

/* Acquire until there is no room: how many. */
static int fill_up(void)
{
    for (int i = 0; i < MANY; i++) {
        snprintf(text[i], sizeof text[i], "full-%d", i);
        names[i] = name_of(text[i]);
        r[i] = acquire(0, &names[i]);
        if (i == 20) {
            fails_with = ENOSPC;
        }
        if (r[i].said.answer != SNIB__DONE) {
            return i;
        }
    }
    fail_msg("there is room for %d", MANY);
    return 0;
}

static void what_is_held_stays_held_and_is_released(void **state)
{
    (void)state;
    shape.roots = 256;
    open_peers(2);
    int full = fill_up();
    print_message("full after %d\n", full);
    assert_true(full > 20);
    assert_int_equal(r[full].said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(r[full].said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(r[full].said.reterr->text, "no space left"));
    assert_int_equal(content_of(0).holders, full);
    assert_int_equal(look(0, &names[full], SNIB__ROW_HOLDER, NULL), 0);
    /* renewals, by another client, too, and releases need a block each */
    uint64_t reserve = owners_of(0).reserve;
    assert_true(reserve > 0);
    for (int i = 0; i < full; i++) {
        struct snib__request v = turn_into(&r[i], SNIB__RENEW);
        v.lease = snib__ms(5000);
        assert_int_equal(run(i % 2, &v), SNIB__DONE);
    }
    for (int i = 0; i < full; i++) {
        assert_int_equal(end(i % 2, &r[i]), SNIB__DONE);
    }
    assert_int_equal(owners_of(0).reserve, reserve); /* it was given back */
    assert_int_equal(content_of(0).holders, 0);
    assert_int_equal(lost_of(owners_of(0)), 0);
    /* Without more room most can be taken again. */
    int again = 0;
    for (int i = 0; i < full; i++) {
        r[i].said.answer = SNIB__PENDING;
        r[i].token = 0;
        r[i].id[1]++;
        again += run(0, &r[i]) == SNIB__DONE;
    }
    print_message("%d of %d again\n", again, full);
    assert_true(again > full / 2);
    fails_with = 0; /* there is room again */
    r[full].said.answer = SNIB__PENDING;
    r[full].token = 0;
    assert_int_equal(run(0, &r[full]), SNIB__DONE);
    assert_int_equal(lost_of(owners_of(0)), 0);
    shape.roots = 4;
}

static void values_of_a_full_disk_stay_and_are_deleted(void **state)
{
    static char bytes[4000];
    int64_t version[200];
    int full = 0;
    struct snib__request p = {0};
    (void)state;
    open_peers(1);
    for (; full < 200; full++) {
        snprintf(text[full], sizeof text[full], "value-%d", full);
        names[full] = name_of(text[full]);
        p = request(SNIB__VALUE_PUT, &names[full]);
        p.lease = snib__ms(60000);
        p.text = bytes;
        p.text_size = sizeof bytes;
        fails_with = full > 5 ? ENOSPC : 0;
        if (run(0, &p) != SNIB__DONE) {
            break;
        }
        version[full] = p.token;
    }
    assert_true(full > 5 && full < 200);
    assert_int_equal(p.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(p.said.err, SNIB_ERR_STORE);
    assert_int_equal(p.token, 0); /* what it expected */
    for (int i = 0; i < full; i++) {
        struct snib__buf out;
        snib__buf_init(&out, 1 << 17);
        struct snib__request g = request(SNIB__VALUE_GET, &names[i]);
        g.said.result = &out;
        assert_int_equal(run(0, &g), SNIB__DONE);
        assert_int_equal(g.token, version[i]);
        snib__buf_free(&out);
    }
    struct snib__request d = request(SNIB__VALUE_DELETE, &names[0]);
    d.token = version[0];
    assert_int_equal(run(0, &d), SNIB__DONE);
    fails_with = 0;
    p.said.answer = SNIB__PENDING;
    assert_int_equal(run(0, &p), SNIB__DONE);
    assert_int_equal(lost_of(owners_of(0)), 0);
}

static void a_full_disk_is_named_where_the_file_is_made(void **state)
{
    (void)state;
    fails_with = ENOSPC;
    refused(path, SNIB_ERR_STORE, "no space left");
    fails_with = EOPNOTSUPP;
    refused(path, SNIB_ERR_CONFIG, "cannot keep room");
    fails_with = EIO;
    refused(path, SNIB_ERR_STORE, "cannot make lock file");
    fails_with = 0;
    open_peers(1);
    assert_int_equal(lost_of(owners_of(0)), 0);
}

/* It was taken for an empty one, and made anew: tokens and values were gone. */
static void a_file_whose_size_cannot_be_told_stays_as_it_is(void **state)
{
    struct snib__name n = name_of("size");
    struct peer p = {.client = {7, 8}};
    int64_t shown = 0;
    (void)state;
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    assert_int_equal(a.said.answer, SNIB__DONE);
    close_peer(0);
    for (int at = 3;; at++) { /* behind the looks at what they are           */
        struct snib_error e = {0};
        fstat_fails_at = at;
        snib_err err = open_at(&p, path, &e);
        if (!err) {
            break;
        }
        assert_int_equal(fstat_fails_at, 0);
        assert_int_equal(err, SNIB_ERR_STORE);
        assert_non_null(strstr(e.text, "its size cannot be told"));
    }
    assert_true(fstat_fails_at > 0);
    fstat_fails_at = 0;
    kit.ops->free(p.inst);
    open_peers(1);
    look(0, &n, SNIB__ROW_LOCK, &shown);
    assert_int_equal(shown, a.token);
}

/* The kernel would send a signal to who makes a file larger than it may. */
static void the_limit_of_files_is_told_without_a_signal(void **state)
{
    struct rlimit was, may;
    struct snib__request last = {0};
    (void)state;
    getrlimit(RLIMIT_FSIZE, &was);
    may = was;
    may.rlim_cur = 1024;
    setrlimit(RLIMIT_FSIZE, &may);
    refused(path, SNIB_ERR_LIMIT, "ulimit -f");
    setrlimit(RLIMIT_FSIZE, &was);
    open_peers(1);
    may.rlim_cur = atomic_load(&self_of(0)->map.head->size);
    setrlimit(RLIMIT_FSIZE, &may);
    for (int i = 0; i < MANY; i++) {
        snprintf(text[i], sizeof text[i], "limit-%d", i);
        names[i] = name_of(text[i]);
        last = acquire(0, &names[i]);
        if (last.said.answer != SNIB__DONE) {
            break;
        }
    }
    setrlimit(RLIMIT_FSIZE, &was);
    assert_int_equal(last.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(last.said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(last.said.reterr->text, "ulimit -f"));
}

/* An allocation fails in the middle of each verb: nothing has changed, and it
 * works the next time. */
static void no_memory_changes_nothing(void **state)
{
    static char about[400];
    struct snib__name n = name_of("memory");
    (void)state;
    memset(about, 'a', sizeof about);
    open_peers(1);
    int refusals = 0;
    struct snib__request held = acquire(0, &n);
    for (int i = 0; i < 40; i++) {
        struct snib__request q = request(SNIB__ACQUIRE, &n);
        q.text = about;
        q.text_size = sizeof about;
        snib__mem_fail_at(1, true);
        run(0, &q);
        snib__mem_fail_at(0, false);
        if (q.said.answer == SNIB__NOT_APPLIED) {
            refusals++;
            assert_int_equal(q.said.err, SNIB_ERR_NOMEM);
            q.said.answer = SNIB__PENDING;
            assert_int_equal(run(0, &q), SNIB__QUEUED);
        }
        assert_int_equal(content_of(0).claims, i + 2);
    }
    assert_true(refusals > 2);
    snib__mem_fail_at(1, true);
    assert_int_equal(end(0, &held), SNIB__DONE);
    snib__mem_fail_at(0, false);
    assert_int_equal(lost_of(owners_of(0)), 0);
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(what_is_held_stays_held_and_is_released),
        CASE(values_of_a_full_disk_stay_and_are_deleted),
        CASE(a_full_disk_is_named_where_the_file_is_made),
        CASE(a_file_whose_size_cannot_be_told_stays_as_it_is),
        CASE(the_limit_of_files_is_told_without_a_signal),
        CASE(no_memory_changes_nothing),
    };
    return RUN(cases);
}
