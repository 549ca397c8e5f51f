/* tests/unit/test_sqlite_notifier.c — one bell by itself: who hears what, how
 * often, and what is left of it in the folder and among the descriptors. */
#include "fds.h"
#include "sqlite_store.h"

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { ROOM = 16 };

static struct snib__lockfile lockfile;
static struct snib__notifier notifier;
static int fds_before;

/* A folder for bells, and a bell that has no socket yet. */
static int fresh(void **state)
{
    if (fresh_dir(state)) {
        return -1;
    }
    fds_before = open_now();
    lockfile = (struct snib__lockfile){.dir = -1};
    lockfile.notifiers = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return lockfile.notifiers >= 0 && snib__notifier_init(&notifier) ? 0 : -1;
}

static int gone(void **state)
{
    close(lockfile.notifiers);
    return remove_dir(state);
}

/* -1: there is none. */
static int mode_of(const char *name)
{
    struct stat st;
    return fstatat(lockfile.notifiers, name, &st, 0) ? -1
                                                     : (int)st.st_mode & 0777;
}

static int entries(void)
{
    DIR *d = opendir(dir);
    int n = -2; /* . and .. */
    assert_non_null(d);
    while (readdir(d)) {
        n++;
    }
    closedir(d);
    return n;
}

static void make_one(struct snib__notifier *b, uint64_t number)
{
    assert_true(snib__notifier_init(b));
    snib__notifier_make(b, &lockfile, (uint64_t[]){number, 2 * number});
    assert_true(b->sock >= 0 && b->epoll >= 0);
}

static struct snib__notification notification_for(const char *name, uint64_t id)
{
    struct snib__notification r = {.size = 64};
    uint64_t both[2] = {id, ~id};
    snprintf(r.address, sizeof r.address, "%s", name);
    memcpy(r.message, SNIB__NOTIFIER_MAGIC, 8);
    memcpy(r.message + 8, both, sizeof both);
    return r;
}

static snib__notify_result send_to(struct snib__notifier *from,
                                   const char *name, uint64_t id)
{
    struct snib__notification r = notification_for(name, id);
    return snib__notifier_notify(from, &lockfile, &r);
}

/* Just these ids are heard, in this order, and no byte behind them written. */
static void hears(uint32_t max, uint32_t count, const uint64_t *expected)
{
    uint64_t ids[ROOM][2];
    memset(ids, 0xa5, sizeof ids);
    assert_int_equal(snib__notifier_take(&notifier, ids, max), count);
    for (uint32_t i = 0; i < ROOM; i++) {
        uint64_t none = UINT64_C(0xa5a5a5a5a5a5a5a5);
        assert_int_equal(ids[i][0], i < count ? expected[i] : none);
        assert_int_equal(ids[i][1], i < count ? ~expected[i] : none);
    }
}

static void each_bell_is_heard_once_in_its_order(void **state)
{
    (void)state;
    struct snib__notifier other;
    make_one(&notifier, 1);
    make_one(&other, 2);
    hears(ROOM, 0, NULL);
    for (uint64_t i = 1; i <= 5; i++) {
        assert_int_equal(send_to(&other, notifier.name, i), SNIB__NOTIFY_TOLD);
    }
    hears(3, 3, (uint64_t[]){1, 2, 3});
    hears(0, 0, NULL);
    hears(ROOM, 2, (uint64_t[]){4, 5});
    hears(ROOM, 0, NULL);
    assert_int_equal(
        snib__notifier_take(&other, (uint64_t[ROOM][2]){{0}}, ROOM), 0);
    snib__notifier_free(&other, &lockfile, false);
    snib__notifier_free(&notifier, &lockfile, false);
    assert_int_equal(entries(), 0);
}

static void what_is_no_bell_is_passed_over(void **state)
{
    (void)state;
    make_one(&notifier, 1);
    for (int i = 0; i < 4; i++) {
        struct snib__notification r = notification_for(notifier.name, 7);
        r.size = i == 0 ? 63 : i == 1 ? 0 : 64;
        r.message[i == 2 ? 0 : 7] ^= i >= 2;
        snib__notifier_notify(&notifier, &lockfile, &r);
    }
    assert_int_equal(send_to(&notifier, notifier.name, 8), SNIB__NOTIFY_TOLD);
    hears(ROOM, 1, (uint64_t[]){8});
    snib__notifier_free(&notifier, &lockfile, false);
}

/* As many as fit lay there, so one may have been turned away: all are to look.
 * However often one reads before they are at an end. */
static void as_many_as_fit_mean_all(void **state)
{
    (void)state;
    uint64_t ids[ROOM][2];
    make_one(&notifier, 1);
    assert_true(notifier.queue_max >= 4);
    notifier.queue_max = 4;
    for (uint32_t count = 3; count <= 5; count++) {
        for (uint32_t max = 1; max <= 6; max++) {
            uint32_t got, heard = 0;
            for (uint64_t i = 1; i <= count; i++) {
                send_to(&notifier, notifier.name, i);
            }
            while ((got = snib__notifier_take(&notifier, ids, max)) == max) {
                heard += got;
            }
            if (count < 4) {
                assert_int_equal(heard + got, count);
            } else {
                assert_int_equal(got, UINT32_MAX);
            }
            hears(ROOM, 0, NULL); /* and then it begins anew */
        }
    }
    snib__notifier_free(&notifier, &lockfile, false);
}

static void who_is_not_there_is_told_apart(void **state)
{
    (void)state;
    struct snib__notifier other;
    char name[40], long_name[108];
    make_one(&notifier, 1);
    make_one(&other, 2);
    snprintf(name, sizeof name, "%s", other.name);
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    assert_int_equal(send_to(&notifier, name, 1), SNIB__NOTIFY_TOLD);
    for (int i = 0; i < 1000; i++) { /* more than fit */
        assert_int_equal(send_to(&notifier, name, 1), SNIB__NOTIFY_TOLD);
    }
    assert_int_equal(send_to(&notifier, "no/such", 1), SNIB__NOTIFY_TOLD);
    assert_int_equal(send_to(&notifier, long_name, 1), SNIB__NOTIFY_TOLD);
    close(other.sock);
    other.sock = -1;
    assert_true(mode_of(name) >= 0);
    assert_int_equal(send_to(&notifier, name, 1), SNIB__NOTIFY_DEAD);
    assert_int_equal(mode_of(name), -1);
    assert_int_equal(send_to(&notifier, name, 1), SNIB__NOTIFY_DEAD);
    assert_true(mode_of(notifier.name) >= 0);
    snib__notifier_free(&other, &lockfile, false);
    snib__notifier_free(&notifier, &lockfile, false);
}

static void a_shared_bell_is_the_groups_to_ring(void **state)
{
    (void)state;
    mode_t mask = umask(077);
    make_one(&notifier, 1);
    assert_int_equal(mode_of(notifier.name) & 077, 0);
    snib__notifier_free(&notifier, &lockfile, false);
    lockfile.shared = true;
    make_one(&notifier, 1);
    assert_int_equal(mode_of(notifier.name), 0660);
    snib__notifier_free(&notifier, &lockfile, false);
    umask(mask);
    assert_int_equal(open_now(), fds_before + 1);
}

/* -- what is left -------------------------------------------------------------- */

static void nothing_is_made(uint64_t number)
{
    int before = open_now(), files = entries();
    snib__notifier_make(&notifier, &lockfile, (uint64_t[]){number, 1});
    assert_int_equal(open_now(), before);
    assert_int_equal(entries(), files);
    assert_int_equal(notifier.sock, -1);
    assert_int_equal(notifier.epoll, -1);
    assert_int_equal(snib__notifier_fd(&notifier), -1);
    assert_string_equal(notifier.name, "");
    snib__notifier_watch(&notifier, &host, (uint64_t[]){1, 1}, getpid(),
                         host.pidns);
    assert_int_equal(notifier.watching, 0);
    hears(ROOM, 0, NULL);
}

static void a_bell_that_cannot_be_made_leaves_nothing(void **state)
{
    (void)state;
    struct rlimit may, less;
    char name[40];
    /* Its name is taken. */
    snprintf(name, sizeof name, "%016x%016x", 5, 1);
    assert_int_equal(mknodat(lockfile.notifiers, name, S_IFREG | 0600, 0), 0);
    nothing_is_made(5);
    assert_true(mode_of(name) >= 0);
    /* No descriptor, or one only, is left. */
    getrlimit(RLIMIT_NOFILE, &may);
    for (int left = 0; left < 2; left++) {
        int lowest = dup(lockfile.notifiers);
        int before = open_now();
        close(lowest);
        less = may;
        less.rlim_cur = (rlim_t)(lowest + left);
        setrlimit(RLIMIT_NOFILE, &less);
        snib__notifier_make(&notifier, &lockfile, (uint64_t[]){6, 1});
        setrlimit(RLIMIT_NOFILE, &may);
        assert_int_equal(open_now(), before - 1);
        assert_int_equal(notifier.sock, -1);
        assert_int_equal(notifier.epoll, -1);
        assert_string_equal(notifier.name, "");
        assert_int_equal(entries(), 1);
    }
    /* No folder. */
    int notifiers = lockfile.notifiers;
    lockfile.notifiers = -1;
    nothing_is_made(7);
    lockfile.notifiers = notifiers;
    snib__notifier_free(&notifier, &lockfile, false);
    assert_int_equal(entries(), 1);
}

static pid_t sits_there(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
    }
    return pid;
}

/* With all that it can have: sockets, a sender, watches. */
static void a_bell_that_is_freed_leaves_nothing(void **state)
{
    (void)state;
    char name[40];
    pid_t pid = sits_there();
    for (int forked = 0; forked < 2; forked++) {
        make_one(&notifier, 1);
        snprintf(name, sizeof name, "%s", notifier.name);
        assert_int_equal(send_to(&notifier, name, 1), SNIB__NOTIFY_TOLD);
        for (uint64_t i = 0; i < SNIB__WATCHES; i++) {
            snib__notifier_watch(&notifier, &host, (uint64_t[]){i, ~i}, pid,
                                 host.pidns);
        }
        assert_int_equal(open_now(), fds_before + 4 + SNIB__WATCHES);
        snib__notifier_free(&notifier, &lockfile, forked);
        assert_int_equal(open_now(), fds_before + 1);
        assert_int_equal(mode_of(name) >= 0, forked);
        unlinkat(lockfile.notifiers, name, 0);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void tidying_removes_what_nobody_hears_and_counts_the_rest(void **state)
{
    (void)state;
    struct snib__notifier v[4], none;
    for (uint64_t i = 0; i < 4; i++) {
        make_one(&v[i], i + 1);
    }
    assert_true(snib__notifier_init(&none));
    assert_int_equal(symlinkat("1:2:3", lockfile.notifiers, "files"), 0);
    assert_int_equal(mknodat(lockfile.notifiers, "text", S_IFREG | 0600, 0), 0);
    int before = open_now();
    for (uint32_t max = 0; max <= 6; max++) {
        assert_int_equal(snib__notifier_tidy(&v[0], &lockfile, max),
                         max < 4 ? max : 4);
    }
    assert_int_equal(open_now(), before);
    assert_int_equal(entries(), 6);
    close(v[2].sock);
    v[2].sock = -1;
    assert_int_equal(snib__notifier_tidy(&v[0], &lockfile, 100), 3);
    assert_int_equal(mode_of(v[2].name), -1);
    assert_int_equal(entries(), 5);
    close(v[0].sock); /* its own is not asked whether it is there */
    v[0].sock = -1;
    assert_int_equal(snib__notifier_tidy(&v[0], &lockfile, 100), 3);
    assert_int_equal(snib__notifier_tidy(&none, &lockfile, 100), 2);
    assert_int_equal(open_now(), before - 2);
    struct snib__lockfile nowhere = {.notifiers = -1};
    assert_int_equal(snib__notifier_tidy(&none, &nowhere, 100), 0);
    for (int i = 0; i < 4; i++) {
        snib__notifier_free(&v[i], &lockfile, false);
    }
    snib__notifier_free(&none, &lockfile, false);
    assert_int_equal(entries(), 2);
}

/* -- watching ------------------------------------------------------------------ */

static void watch(uint64_t id, pid_t pid)
{
    snib__notifier_watch(&notifier, &host, (uint64_t[]){id, ~id}, pid,
                         host.pidns);
}

/* So many at once, in whatever order; the ids as bits. */
static uint32_t heard(uint32_t max, uint32_t count)
{
    uint64_t ids[ROOM][2];
    uint32_t seen = 0;
    assert_int_equal(snib__notifier_take(&notifier, ids, max), count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(ids[i][1], ~ids[i][0]);
        seen |= 1u << ids[i][0];
    }
    return seen;
}

static void the_dead_are_told_with_bells_and_within_the_room(void **state)
{
    (void)state;
    pid_t a = sits_there(), b = sits_there();
    make_one(&notifier, 1);
    int before = open_now();
    watch(1, a);
    watch(1, a); /* as it is */
    assert_int_equal(notifier.watching, 1);
    watch(1, b); /* somebody else holds now */
    assert_int_equal(notifier.watching, 1);
    assert_int_equal(open_now(), before + 1);
    assert_int_equal(notifier.watch[0].pid, b);
    watch(2, a);
    watch(3, a);
    assert_int_equal(notifier.watching, 3);
    snib__notifier_unwatch(&notifier, (uint64_t[]){3, 3}); /* of another */
    snib__notifier_unwatch(&notifier, (uint64_t[]){2, ~UINT64_C(3)});
    assert_int_equal(notifier.watching, 3);
    kill(a, SIGKILL);
    waitpid(a, NULL, 0);
    watch(4, a); /* has ended: who asks finds that out */
    assert_int_equal(notifier.watching, 3);
    assert_int_equal(open_now(), before + 3);
    send_to(&notifier, notifier.name, 9);
    struct pollfd p = {.fd = snib__notifier_fd(&notifier), .events = POLLIN};
    assert_int_equal(poll(&p, 1, 20000), 1);
    assert_int_equal(heard(3, 3), 1u << 2 | 1u << 3 | 1u << 9);
    assert_int_equal(notifier.watching, 1);
    hears(ROOM, 0, NULL);
    assert_int_equal(poll(&p, 1, 0), 0);
    watch(5, b);
    kill(b, SIGKILL);
    waitpid(b, NULL, 0);
    send_to(&notifier, notifier.name, 9);
    /* Room for one at a time. */
    assert_int_equal(heard(1, 1) | heard(1, 1), 1u << 1 | 1u << 5);
    hears(1, 1, (uint64_t[]){9});
    hears(1, 0, NULL);
    assert_int_equal(notifier.watching, 0);
    snib__notifier_free(&notifier, &lockfile, false);
    assert_int_equal(open_now(), fds_before + 1);
}

/* -- number 0 ------------------------------------------------------------------ */

static void becomes_number_0(int *fd)
{
    assert_int_equal(dup2(*fd, 0), 0);
    close(*fd);
    *fd = 0;
}

/* A program may have closed its standard input. */
static void a_descriptor_may_have_number_0(void **state)
{
    (void)state;
    int input = fcntl(0, F_DUPFD_CLOEXEC, 3);
    pid_t pid = sits_there();
    for (int which = 0; which < 4; which++) {
        char name[40];
        close(0);
        int before = open_now();
        assert_int_equal(dup2(lockfile.notifiers, 0), 0);
        make_one(&notifier, 1);
        snprintf(name, sizeof name, "%s", notifier.name);
        assert_int_equal(send_to(&notifier, name, 1), SNIB__NOTIFY_TOLD);
        hears(ROOM, 1, (uint64_t[]){1});
        if (which < 3) {
            becomes_number_0(which == 0   ? &notifier.sock
                             : which == 1 ? &notifier.epoll
                                          : &notifier.sender);
        } else {
            close(0);
        }
        watch(2, pid);
        assert_int_equal(open_now(), before + 4);
        assert_int_equal(notifier.watch[0].fd == 0, which == 3);
        watch(2, pid);
        assert_int_equal(notifier.watching, 1);
        assert_int_equal(send_to(&notifier, name, 3), SNIB__NOTIFY_TOLD);
        assert_int_equal(open_now(), before + 4);
        if (which % 2 == 1) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            assert_int_equal(heard(ROOM, 2), 1u << 2 | 1u << 3);
            pid = sits_there();
            watch(4, pid);
        }
        snib__notifier_unwatch(&notifier, (uint64_t[]){2, ~UINT64_C(2)});
        snib__notifier_unwatch(&notifier, (uint64_t[]){4, ~UINT64_C(4)});
        assert_int_equal(notifier.watching, 0);
        watch(5, pid);
        snib__notifier_free(&notifier, &lockfile, false);
        assert_int_equal(mode_of(name), -1);
        assert_int_equal(open_now(), before);
    }
    dup2(input, 0);
    close(input);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

#undef CASE
#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh, gone)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(each_bell_is_heard_once_in_its_order),
        CASE(what_is_no_bell_is_passed_over),
        CASE(as_many_as_fit_mean_all),
        CASE(who_is_not_there_is_told_apart),
        CASE(a_shared_bell_is_the_groups_to_ring),
        CASE(a_bell_that_cannot_be_made_leaves_nothing),
        CASE(a_bell_that_is_freed_leaves_nothing),
        CASE(tidying_removes_what_nobody_hears_and_counts_the_rest),
        CASE(the_dead_are_told_with_bells_and_within_the_room),
        CASE(a_descriptor_may_have_number_0),
    };
    return RUN(cases);
}
