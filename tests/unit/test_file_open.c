/* tests/unit/test_file_open.c — a mapped file is opened, or refused; it is
 * removed while in use. */
#include "file_store.h"

#include <limits.h>

/* -- opening ------------------------------------------------------------ */

static pid_t opener_process(uint64_t i)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct peer p = {.client = {i, (uint64_t)getpid()}};
        struct snib_error e = {0};
        if (open_at(&p, path, &e)) {
            dprintf(2, "open: %s\n", e.text);
            _exit(1);
        }
        kit.ops->free(p.inst);
        _exit(0);
    }
    return pid;
}

/* Everybody makes the file at once, and some are killed at it. */
static void first_opens_race_each_other_and_kill(void **state)
{
    enum { N = 20, KILLS = 12, ROUNDS = 12 };
    uint64_t seed = 99;
    pid_t pid[N];
    int status;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        remove_dir(NULL);
        assert_int_equal(fresh_dir(NULL), 0);
        for (int i = 0; i < N; i++) {
            pid[i] = opener_process((uint64_t)i + 1);
        }
        for (int k = 0; k < KILLS; k++) {
            int i = (int)(dice(&seed) % N);
            usleep(dice(&seed) % 1500);
            kill(pid[i], SIGKILL);
            waitpid(pid[i], &status, 0);
            pid[i] = opener_process((uint64_t)(100 + k));
        }
        for (int i = 0; i < N; i++) {
            waitpid(pid[i], &status, 0);
            assert_int_equal(status, 0);
        }
        open_peers(1);
        struct snib__name n = name_of("after");
        assert_int_equal(acquire(0, &n).said.answer, SNIB__DONE);
        assert_int_equal(lost_of(owners_of(0)), 0);
        close_peer(0);
    }
}

static long accesses, dies_at;

static void die_at_access(void *data, const char *what)
{
    (void)data;
    (void)what;
    if (++accesses == dies_at) {
        kill(getpid(), SIGKILL);
    }
}

/* A client that is alone makes the file, and is killed at each of its accesses:
 * the next one makes it anew. */
static void a_file_whose_maker_was_killed_is_made_anew(void **state)
{
    struct snib__name n = name_of("after");
    int status = 0;
    (void)state;
    snib__file_hook.before = die_at_access;
    for (dies_at = 1; !status || WIFSIGNALED(status); dies_at++) {
        unlink(path);
        accesses = 0;
        waitpid(opener_process(1), &status, 0);
        if (!WIFSIGNALED(status)) {
            break;
        }
        accesses = LONG_MIN; /* this one lives */
        open_peers(1);
        struct snib__request r = acquire(0, &n);
        assert_int_equal(r.said.answer, SNIB__DONE);
        assert_int_equal(end(0, &r), SNIB__DONE);
        assert_int_equal(lost_of(owners_of(0)), 0);
        close_peer(0);
    }
    snib__file_hook.before = NULL;
    assert_int_equal(status, 0);
    assert_true(dies_at > 100);
}

static void urls_with_more_than_a_path_are_refused(void **state)
{
    struct peer p = {.client = {1, 2}};
    struct snib__url url = {.path = path, .host = (char[]){"h"}};
    struct snib__store_config config = {.url = &url, .request = snib__ms(100)};
    (void)state;
    assert_int_equal(kit.ops->open(&config, &p.inst, NULL), SNIB_ERR_USAGE);
    url.host = NULL;
    url.nodes = 2; /* file://a,b/path */
    assert_int_equal(kit.ops->open(&config, &p.inst, NULL), SNIB_ERR_USAGE);
    url.nodes = 0;
    url.queries = 1;
    url.query[0].key = (char[]){"mode"};
    assert_int_equal(kit.ops->open(&config, &p.inst, NULL), SNIB_ERR_USAGE);
}

static void no_memory_at_open_leaves_nothing(void **state)
{
    (void)state;
    for (int64_t nth = 1; nth < 8; nth++) {
        struct peer p = {.client = {1, 2}};
        snib__mem_fail_at(nth, true);
        snib_err err = open_at(&p, path, NULL);
        snib__mem_fail_at(0, false);
        assert_true(err == SNIB_ERR_OK || err == SNIB_ERR_NOMEM);
        kit.ops->free(p.inst);
    }
}

static void write_file(const char *where, const void *bytes, size_t size)
{
    int fd = open(where, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

static void files_of_others_are_refused_in_words_and_left_alone(void **state)
{
    char other[160], text[64] = "";
    (void)state;
    snprintf(other, sizeof other, "%s/other", dir);
    write_file(other, "hello", 5);
    refused(other, SNIB_ERR_CONFIG, "not a lock file of snib");
    int fd = open(other, O_RDONLY);
    assert_int_equal(read(fd, text, sizeof text), 5);
    close(fd);
    write_file(other, "SQLite format 3\0 and more", 25);
    refused(other, SNIB_ERR_CONFIG, "is an SQLite database; older snibs");
    unlink(other);
    assert_int_equal(symlink(path, other), 0);
    refused(other, SNIB_ERR_CONFIG, "symbolic link");
    unlink(other);
    assert_int_equal(mkfifo(other, 0600), 0);
    refused(other, SNIB_ERR_CONFIG, "not a regular file");
    unlink(other);
    refused(dir, SNIB_ERR_CONFIG, "is a directory");
    open_peers(1);
    assert_int_equal(link(path, other), 0);
    refused(other, SNIB_ERR_CONFIG, "second hard link");
    unlink(other);
    host.fs_magic = 0x6969;
    refused(path, SNIB_ERR_CONFIG, "NFS");
    host.fs_magic = 0;
    refused("/proc/locks-of-snib", SNIB_ERR_CONFIG, "proc");
    refused("/no/such/directory/file", SNIB_ERR_CONFIG, "make it or");
    host.timens = true;
    refused(path, SNIB_ERR_CONFIG, "time namespace");
    host.timens = false;
    host.boot[0] = 0;
    refused(path, SNIB_ERR_CONFIG, "boot_id");
}

static void another_layout_is_refused_in_words(void **state)
{
    (void)state;
    open_peers(1);
    self_of(0)->map.head->layout = 2;
    refused(path, SNIB_ERR_CONFIG, "layout 2, this snib knows 1");
    self_of(0)->map.head->layout = 1;
    self_of(0)->map.head->shape.roots = 8;
    refused(path, SNIB_ERR_CONFIG, "damaged (its head)");
    self_of(0)->map.head->shape.roots = shape.roots;
    close_peer(0);
    assert_int_equal(truncate(path, 5000), 0);
    refused(path, SNIB_ERR_CONFIG, "cut off");
}

/* -- larger while it is looked at ------------------------------------------------------------ */

static int growths;

/* Peer 0 makes the file grow between a look at its length and one at its head. */
static void grow_between(void *data, const char *what)
{
    struct snib__map *m = &self_of(0)->map;
    (void)data;
    if (strcmp(what, "check") == 0) {
        growths++;
        assert_true(snib__map_room(m, snib__map_size(m) + 1));
    }
}

static void a_newcomer_takes_no_growth_for_a_cut(void **state)
{
    struct snib__name n = name_of("grows");
    (void)state;
    open_peers(1);
    growths = 0;
    snib__file_hook.before = grow_between;
    struct peer p = {.client = {3, 3}};
    kit.peer[1].inst = open_file(&p);
    snib__file_hook.before = NULL;
    assert_true(growths > 0);
    assert_non_null(kit.peer[1].inst);
    assert_int_equal(acquire(1, &n).said.answer, SNIB__DONE);
}

static void who_works_takes_no_growth_for_a_cut(void **state)
{
    struct snib__name n = name_of("grows");
    (void)state;
    open_peers(2);
    uint64_t size = snib__map_size(&self_of(1)->map);
    assert_true(snib__map_room(&self_of(0)->map, size + 1));
    assert_false(snib__map_is_cut(&self_of(1)->map, size));
    assert_int_equal(acquire(1, &n).said.answer, SNIB__DONE);
}

/* -- removed while in use ------------------------------------------------------------------- */

static void a_removed_file_is_told_within_ten_ms(void **state)
{
    struct snib__name n = name_of("gone");
    (void)state;
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    assert_int_equal(a.said.answer, SNIB__DONE);
    assert_int_equal(unlink(path), 0);
    usleep(11000);
    struct snib__request v = turn_into(&a, SNIB__RENEW);
    assert_int_equal(run(0, &v), SNIB__NOT_APPLIED);
    assert_int_equal(v.said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(v.said.reterr->text, "removed or replaced"));
    struct snib__request l = request(SNIB__INSPECT, &n);
    struct snib__buf out;
    snib__buf_init(&out, 1 << 16);
    l.said.result = &out;
    assert_int_equal(run(0, &l), SNIB__NOT_APPLIED);
    snib__buf_free(&out);
}

/* A newcomer by the same path meets another file, and is told nothing. Who works
 * in the old one is, until the link is switched back. */
static void a_switched_link_in_the_path_is_told(void **state)
{
    struct snib__name n = name_of("switched");
    char real[2][80], link[80];
    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(real[i], sizeof real[i], "%s/r%d", dir, i);
        assert_int_equal(mkdir(real[i], 0700), 0);
    }
    snprintf(link, sizeof link, "%s/cur", dir);
    snprintf(path, sizeof path, "%s/locks", link);
    assert_int_equal(symlink(real[0], link), 0);
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    assert_int_equal(a.said.answer, SNIB__DONE);
    assert_int_equal(unlink(link) | symlink(real[1], link), 0);
    usleep(11000);
    struct snib__request v = turn_into(&a, SNIB__RENEW);
    assert_int_equal(run(0, &v), SNIB__NOT_APPLIED);
    assert_int_equal(v.said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(v.said.reterr->text, "a link in it was switched"));
    assert_non_null(strstr(v.said.reterr->text, link));
    assert_int_equal(unlink(link) | symlink("r0", link), 0);
    usleep(11000);
    v = turn_into(&a, SNIB__RENEW);
    assert_int_equal(run(0, &v), SNIB__DONE);
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(first_opens_race_each_other_and_kill),
        CASE(a_file_whose_maker_was_killed_is_made_anew),
        CASE(urls_with_more_than_a_path_are_refused),
        CASE(no_memory_at_open_leaves_nothing),
        CASE(files_of_others_are_refused_in_words_and_left_alone),
        CASE(another_layout_is_refused_in_words),
        CASE(a_newcomer_takes_no_growth_for_a_cut),
        CASE(who_works_takes_no_growth_for_a_cut),
        CASE(a_removed_file_is_told_within_ten_ms),
        CASE(a_switched_link_in_the_path_is_told),
    };
    return RUN(cases);
}
