/* tests/unit/test_file_kill.c — processes are killed or stopped inside a mapped
 * file, at an access drawn by dice. SNIB_KILLS: how many, 500 otherwise. wraps: fdatasync */
#include "file_store.h"

int __wrap_fdatasync(int fd);

int __wrap_fdatasync(int fd)
{
    (void)fd; /* nobody pulls the plug here */
    return 0;
}

enum { LOCKS = 3, WORKERS = 4, VALUES = 2 };

/* What all processes of a test see besides the file. */
static struct seen {
    _Atomic int64_t inside[LOCKS]; /* pid; 0: nobody */
    _Atomic int64_t token[LOCKS];
    _Atomic int64_t version[VALUES];
    _Atomic int64_t sections, puts;
    _Atomic int two_inside, token_fell, version_fell, odd;
} * seen;

static long accesses, dies_at, stops_at;

static void count_access(void *data, const char *what)
{
    (void)data;
    (void)what;
    accesses++;
    if (accesses == dies_at) {
        kill(getpid(), SIGKILL);
    }
    if (accesses == stops_at) {
        raise(SIGSTOP);
    }
}

static void raise_to(_Atomic int64_t *at, int64_t v)
{
    int64_t was = atomic_load(at);
    while (was < v && !atomic_compare_exchange_weak(at, &was, v)) {
    }
}

static void enter(int which, int64_t token)
{
    int64_t was = 0, me = getpid();
    while (!atomic_compare_exchange_strong(&seen->inside[which], &was, me)) {
        /* the one before may have been killed in there */
        if (!snib__host_gone(&host, was, 0, host.pidns, false)) {
            atomic_fetch_add(&seen->two_inside, 1);
            return;
        }
        if (atomic_compare_exchange_strong(&seen->inside[which], &was, me)) {
            break;
        }
        was = 0;
    }
    atomic_fetch_add(&seen->token_fell,
                     token <= atomic_load(&seen->token[which]));
    raise_to(&seen->token[which], token);
}

static void section(uint64_t *seed)
{
    static char text[LOCKS][8] = {"kill-0", "kill-1", "kill-2"};
    int which = (int)(dice(seed) % LOCKS);
    struct snib__name n = name_of(text[which]);
    struct snib__request r = request(SNIB__ACQUIRE, &n);
    r.id[1] = (uint64_t)getpid();
    r.acquire.may_queue = dice(seed) % 2;
    r.lease = snib__ms(60000);
    for (int i = 0; i < 3 && run(0, &r) == SNIB__QUEUED; i++) {
        usleep(50);
    }
    if (r.said.answer == SNIB__QUEUED) {
        struct snib__request x = turn_into(&r, SNIB__CANCEL);
        x.token = 0;
        run(0, &x);
        return;
    }
    if (r.said.answer != SNIB__DONE) {
        atomic_fetch_add(&seen->odd, r.said.answer != SNIB__NO);
        return;
    }
    enter(which, r.token);
    atomic_fetch_add(&seen->sections, 1);
    atomic_store(&seen->inside[which], 0);
    struct snib__request v = turn_into(&r, SNIB__RELEASE);
    atomic_fetch_add(&seen->odd, run(0, &v) != SNIB__DONE);
}

static void put(uint64_t *seed)
{
    static char text[VALUES][8] = {"kill-a", "kill-b"};
    int which = (int)(dice(seed) % VALUES);
    struct snib__name n = name_of(text[which]);
    struct snib__buf out;
    struct snib__request g = request(SNIB__VALUE_GET, &n);
    snib__buf_init(&out, 1 << 17);
    g.said.result = &out;
    atomic_fetch_add(&seen->odd, run(0, &g) != SNIB__DONE);
    snib__buf_free(&out);
    struct snib__request p = request(SNIB__VALUE_PUT, &n);
    p.id[1] = (uint64_t)getpid();
    p.token = g.token;
    p.lease = snib__ms(1000000);
    p.text_size = dice(seed) % 25;
    int64_t known = atomic_load(&seen->version[which]);
    if (run(0, &p) == SNIB__DONE) {
        atomic_fetch_add(&seen->puts, 1);
        atomic_fetch_add(&seen->version_fell,
                         p.token <= g.token || p.token <= known);
        raise_to(&seen->version[which], p.token);
    } else {
        atomic_fetch_add(&seen->odd, p.said.answer != SNIB__NO);
    }
}

static pid_t worker(uint64_t seed)
{
    pid_t pid = fork();
    if (pid) {
        return pid;
    }
    seed = seed * 2654435761u + 1;
    next_id = seed << 20;
    snib__host_read(&host);
    open_peers(1);
    dies_at = 1 + dice(&seed) % 4000;
    snib__file_hook.before = count_access;
    for (;;) {
        if (dice(&seed) % 8 == 0) {
            put(&seed);
        } else {
            section(&seed);
        }
    }
}

static void see_nothing(void)
{
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(seen != MAP_FAILED);
}

static void nothing_wrong(void)
{
    assert_int_equal(atomic_load(&seen->two_inside), 0);
    assert_int_equal(atomic_load(&seen->token_fell), 0);
    assert_int_equal(atomic_load(&seen->version_fell), 0);
    assert_int_equal(atomic_load(&seen->odd), 0);
}

static void everything_works(void)
{
    static const char *const text[] = {"kill-0", "kill-1", "kill-2"};
    open_peers(1);
    assert_int_equal(lost_of(owners_of(0)), 0);
    for (int i = 0; i < LOCKS; i++) {
        struct snib__name n = name_of(text[i]);
        struct snib__request r = acquire(0, &n);
        for (int k = 0; k < 100 && r.said.answer == SNIB__QUEUED; k++) {
            poll_again(0, &r); /* a grant to one that was killed is told off */
        }
        assert_int_equal(r.said.answer, SNIB__DONE);
        assert_true(r.token > atomic_load(&seen->token[i]));
        end(0, &r);
    }
    close_peer(0);
}

static int kills_wanted(void)
{
    const char *text = getenv("SNIB_KILLS");
    return text && atoi(text) > 0 ? atoi(text) : 500;
}

static void killed_at_any_access_nothing_is_lost(void **state)
{
    int wanted = kills_wanted(), kills = 0, status;
    pid_t pid[WORKERS];
    uint64_t n = 1;
    (void)state;
    see_nothing();
    for (int i = 0; i < WORKERS; i++) {
        pid[i] = worker(n++);
    }
    while (kills < wanted) {
        pid_t who = waitpid(-1, &status, 0);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        kills++;
        for (int i = 0; i < WORKERS; i++) {
            if (pid[i] == who) {
                pid[i] = worker(n++);
            }
        }
        if (kills % 100 == 0) { /* all of them: then a sweep */
            for (int i = 0; i < WORKERS; i++) {
                kill(pid[i], SIGKILL);
                waitpid(pid[i], &status, 0);
            }
            nothing_wrong();
            everything_works();
            for (int i = 0; i < WORKERS; i++) {
                pid[i] = worker(n++);
            }
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        kill(pid[i], SIGKILL);
        waitpid(pid[i], &status, 0);
    }
    nothing_wrong();
    everything_works();
    print_message("%d kills, %lld sections, %lld puts\n", kills,
                  (long long)atomic_load(&seen->sections),
                  (long long)atomic_load(&seen->puts));
    assert_true(atomic_load(&seen->sections) > kills);
    munmap(seen, sizeof *seen);
}

/* A process that stands still inside a step is in nobody's way, and goes on
 * when it is continued. */
static void stopped_at_any_access_it_is_in_nobodys_way(void **state)
{
    struct snib__name x = name_of("kill-0"), y = name_of("other");
    bool through = false;
    (void)state;
    see_nothing();
    open_peers(1);
    for (int at = 1; !through; at++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            kit.peer[0].inst = NULL; /* the parent's */
            snib__host_read(&host);
            next_id = 1000000 + (uint64_t)at * 100;
            open_peers(1);
            snib__file_hook.before = count_access;
            stops_at = at;
            struct snib__request r = acquire(0, &x);
            if (r.said.answer == SNIB__QUEUED) { /* the parent has it */
                struct snib__request c = turn_into(&r, SNIB__CANCEL);
                c.token = 0;
                _exit(run(0, &c) == SNIB__DONE ? 0 : 1);
            }
            int bad = r.said.answer != SNIB__DONE;
            bad = bad || end(0, &r) != SNIB__DONE;
            stops_at = 0;
            _exit(bad);
        }
        waitpid(pid, &status, WUNTRACED);
        through = !WIFSTOPPED(status); /* it has fewer accesses */
        snib_instant from = snib__host_now();
        struct snib__request a = acquire(0, &y);
        assert_int_equal(a.said.answer, SNIB__DONE);
        assert_int_equal(end(0, &a), SNIB__DONE);
        struct snib__request b = request(SNIB__ACQUIRE, &x);
        b.acquire.may_queue = false;
        run(0, &b);
        assert_true(b.said.answer == SNIB__DONE || b.said.answer == SNIB__NO);
        assert_true(snib__between(from, snib__host_now()).ns < 1000000000);
        if (!through) {
            kill(pid, SIGCONT);
            waitpid(pid, &status, 0);
        }
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        if (b.said.answer == SNIB__DONE) {
            assert_int_equal(end(0, &b), SNIB__DONE);
        }
        assert_true(at < 500);
        assert_true(!through || at > 20);
    }
    munmap(seen, sizeof *seen);
}

/* Blocks that a killed process took are found when nobody lives; until then
 * each kill costs little. */
static void a_kill_costs_little_room(void **state)
{
    int status;
    uint64_t n = 1;
    (void)state;
    see_nothing();
    open_peers(2); /* somebody lives all the time: no sweep */
    for (int i = 0; i < 100; i++) {
        pid_t pid = worker(n++);
        waitpid(pid, &status, 0);
    }
    uint64_t lost = lost_of(owners_of(0)) * SNIB__FILE_UNIT;
    print_message("%llu bytes a kill\n", (unsigned long long)lost / 100);
    assert_true(lost / 100 < 8192);
    nothing_wrong();
    close_peer(0);
    close_peer(1);
    everything_works();
    munmap(seen, sizeof *seen);
}

static bool sync_seen;

/* As count_access, from the first sync on. */
static void count_after_sync(void *data, const char *what)
{
    sync_seen = sync_seen || strcmp(what, "sync") == 0;
    if (sync_seen) {
        count_access(data, what);
    }
}

/* So does one that is killed while it looks which replaced values are free. */
static void a_kill_among_replaced_values_costs_one(void **state)
{
    enum { KILLS = 100, REPLACED = 100 };
    struct snib__map *m;
    uint64_t seed = 1;
    int status;
    (void)state;
    see_nothing();
    open_peers(2);
    m = &self_of(0)->map;
    for (int i = 0; i < KILLS; i++) {
        atomic_store(&m->head->sync_begun, (uint64_t)INT64_MAX);
        for (int k = 0; k < REPLACED; k++) {
            put(&seed);
        }
        atomic_store(&m->head->sync_begun, 0); /* it is due */
        pid_t pid = fork();
        if (pid == 0) {
            kit.peer[0].inst = kit.peer[1].inst = NULL; /* the parent's */
            snib__host_read(&host);
            next_id = (uint64_t)(i + 1) << 40;
            open_peers(1);
            dies_at = 1 + dice(&seed) % (4 * REPLACED);
            snib__file_hook.before = count_after_sync;
            for (;;) {
                put(&seed);
            }
        }
        waitpid(pid, &status, 0);
        (void)dice(&seed);
    }
    uint64_t lost = lost_of(owners_of(0)) * SNIB__FILE_UNIT;
    print_message("%llu bytes a kill\n", (unsigned long long)lost / KILLS);
    assert_true(lost / KILLS < 2 * SNIB__FILE_LEAST);
    nothing_wrong();
    close_peer(0);
    close_peer(1);
    everything_works();
    munmap(seen, sizeof *seen);
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(killed_at_any_access_nothing_is_lost),
        CASE(stopped_at_any_access_it_is_in_nobodys_way),
        CASE(a_kill_costs_little_room),
        CASE(a_kill_among_replaced_values_costs_one),
    };
    return RUN(cases);
}
