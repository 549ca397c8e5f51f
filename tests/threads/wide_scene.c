/* wide_scene.c — a run from its first client to its last event. */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "redis.h"
#include "snib/event.h"
#include "snib/test.h"
#include "unseen.h"
#include "wide.h"

/* -- clients ------------------------------------------------------------------------ */

static void logged(void *data, int level, const char *line)
{
    int was;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
    tell("log %d of %d, %d: %s", level, (int)(intptr_t)data, was, line);
    pthread_setcancelstate(was, NULL);
}

static const char *url_of(int i)
{
    static const char *const servers[] = {
        REDIS_URL, "redis+unix:///threads?db=0", "redis://127.0.0.1:6379",
        "redis://user:pass@127.0.0.1/0", "redis://127.0.0.1?wait=spin"};
    static const char *const spaces[] = {"memory:wide", "memory:wide",
                                         "memory:wide", "memory:other"};
    if (wide.redis && wide.named) {
        return "redis://db.example:6379";
    }
    return wide.redis           ? ONE_OF("server", servers)
           : wide.is_virtual[i] ? "memory:wide?clock=virtual"
                                : ONE_OF("space", spaces);
}

static void open_client(int i)
{
    static const int64_t patience[] = {0, 0, 0, 10, 100, 600, 5000};
    static const char *const programs[] = {NULL, "prog", "a program"};
    static const char *const reasons[] = {NULL, "why not", "", "é"};
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_error e;
    o.url = url_of(i);
    o.pull = wide.pull[i];
    o.program = ONE_OF("program", programs);
    o.reason = ONE_OF("reason", reasons);
    o.request_ms = ONE_OF("request_ms", patience);
    o.leashed = chance("leashed", 4);
    o.no_deadlock_check = chance("no deadlock check", 4);
    o.identity =
        chance("identity", 6) ? "0123456789abcdefFEDCBA9876543210" : NULL;
    o.log = chance("no log", 4) ? NULL : logged;
    o.data = (void *)(intptr_t)(i + 1);
    wide.memory[i] = !wide.redis && (wide.is_virtual[i] || !wide.faulty);
    wide.dice = !wide.memory[i];
    snib_err err = snib_client_open(&o, &wide.client[i], reserve(&e));
    tell("client %d %s: %s", i, o.url, snib_err_name(err));
    if (err) {
        sched_fail("open: %s", e.text);
    }
    tell("%s %s", snib_client_id(wide.client[i]),
         snib_client_url(wide.client[i]));
    tell_store(i);
}

static void open_all(void)
{
    wide.clients = 1 + (int)pick("clients", WIDE_CLIENTS);
    bool is_virtual = !wide.redis && !wide.slow && chance("virtual", 5);
    for (int i = 0; i < wide.clients; i++) {
        wide.pull[i] = chance("pull", 5);
        wide.is_virtual[i] = is_virtual;
        open_client(i);
    }
    for (int i = 0; i < WIDE_SHARED; i++) {
        wide.shared_client[i] = (int)pick("whose lock", (uint64_t)wide.clients);
        wide.shared[i] = wide_lock_new(wide.shared_client[i], NULL);
    }
    struct snib_lock *both[2] = {wide.shared[0], wide.shared[1]};
    if (both[0] && both[1] &&
        !snib_multi_new(both, 2, NULL, &wide.multi, NULL)) {
        tell("a multi of all");
    }
}

/* -- threads ------------------------------------------------------------------------- */

/* Signals and cancellation are as they were before a call. */
static void check_thread(void)
{
    sigset_t blocked;
    int was;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
    (void)pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    if (was != PTHREAD_CANCEL_ENABLE || sigismember(&blocked, SIGTERM)) {
        sched_fail("a call left its thread without signals or cancellation");
    }
}

static void act(struct wide_actor *a)
{
    static void (*const calls[])(struct wide_actor *) = {
        wide_locks,   wide_locks,  wide_locks,   wide_grants,   wide_grants,
        wide_grants,  wide_starts, wide_kinds,   wide_values,   wide_elects,
        wide_several, wide_looks,  wide_clients, wide_sequences};
    enum { CALLS = sizeof calls / sizeof *calls };
    /* What a run is about it does most of the time. */
    uint64_t topic = wide.run % 16;
    bool topical = topic < CALLS && chance("topic", 2);
    bool fails = wide.oom && chance("no memory", 3);
    snib__mem_fail_at(fails ? 1 + (int64_t)pick("which one", 9) : 0, false);
    calls[topical ? topic : pick("call", CALLS)](a);
    snib__mem_fail_at(0, false);
    check_thread();
    if (chance("looks around", 4)) {
        tell_client((int)pick("whose", (uint64_t)wide.clients));
    }
    if (chance("looks at its own", 6)) {
        tell_grants(a);
    }
    if (chance("sleep", 8)) {
        static const int64_t ms[] = {1, 5, 40, 200, 1100, 4000};
        sched_sleep(sched_now() + ONE_OF("so long", ms) * 1000000);
    }
}

static void *actor_body(void *arg)
{
    struct wide_actor *a = arg;
    for (int i = 0; i < WIDE_LOCKS; i++) {
        if (i < WIDE_SHARED) {
            a->lock[i] = wide.shared[i];
            a->client_of[i] = wide.shared_client[i];
        } else {
            a->client_of[i] = (int)pick("whose lock", (uint64_t)wide.clients);
            a->lock[i] = wide_lock_new(a->client_of[i], a);
        }
    }
    for (int i = 0; i < a->steps; i++) {
        act(a);
    }
    a->over = true;
    return NULL;
}

static bool all_over(void)
{
    for (int i = 0; i < wide.actors; i++) {
        if (!wide.actor[i].over) {
            return false;
        }
    }
    return true;
}

static void cancel_crowds(void)
{
    for (int i = 0; i < wide.actors; i++) {
        struct snib_multi *crowd = wide.actor[i].crowd;
        if (crowd && chance("cancel a crowd", 8)) {
            tell("cancels the crowd of %d", i);
            wide.cancels = true;
            TAKEN(&wide.actor[i]);
            snib_multi_cancel(crowd);
            GIVEN(&wide.actor[i]);
            wide.cancels = false;
        }
    }
}

/* Time passes, the wall clock is set, the machine stands still; and whoever
 * waits for ever is ended by a close. */
static void watch(void)
{
    static const int64_t steps[] = {30, 90, 250, 400, 700};
    static const int64_t ends[] = {2, 5, 10, 20};
    static const int64_t walls[] = {5, -5, 20, -20, 5000, -3600000};
    static const int64_t pauses[] = {900, 1500, 7000, 40000};
    static const int64_t hangs[] = {50, 300, 1500, 5000};
    bool stops = chance("stops", 2);
    int64_t end = sched_now() + ONE_OF("end", ends) * 1000000000;
    bool jumps = chance("jumps", 6);
    while (!all_over()) {
        sched_sleep(sched_now() + ONE_OF("tick", steps) * 1000000);
        for (int i = 0; i < wide.clients; i++) {
            if (wide.is_virtual[i]) {
                int64_t ms = ONE_OF("advance", steps);
                (void)told("advance", snib_test_advance(wide.client[i], ms),
                           NULL);
            }
            if (sched_now() > end && !wide.closed[i]) {
                tell("closes %d", i);
                wide.closed[i] = true;
                snib_client_close(wide.client[i]);
                if (stops && wide.redis && chance("hangs then", 2)) {
                    redis_hang(INT64_C(5000000000));
                }
                if (stops) {
                    snib_client_stop(wide.client[i]);
                }
            }
        }
        if (jumps && chance("wall", 12)) {
            wide.wall += ONE_OF("so far", walls) * 1000000;
            tell("the wall clock is set");
            sched_step();
        }
        if (jumps && chance("pause", 16)) {
            tell("the machine stands still");
            sched_jump(ONE_OF("pause", pauses) * 1000000);
        }
        if (wide.redis && wide.faulty && chance("cut", 12)) {
            redis_cut();
        }
        if (wide.redis && wide.faulty && chance("hang", 10)) {
            redis_hang(ONE_OF("hang", hangs) * 1000000);
        }
        if (wide.elect && !wide.is_virtual[0] && /* who moves that clock? */
            chance("the shared one resigns", 12)) {
            tell("resigns %s",
                 snib_err_name(snib_elect_resign(wide.elect, NULL)));
        }
        if (wide.multi && chance("cancel the shared one", 12)) {
            tell("cancels");
            snib_multi_cancel(wide.multi);
        }
        cancel_crowds();
    }
}

/* -- the end ---------------------------------------------------------------------------- */

static void end_of_actor(struct wide_actor *a)
{
    snib_multi_free(a->multi);
    snib_ring_free(a->ring);
    if (a->place) {
        (void)snib_ring_leave(a->place, NULL);
    }
    snib_elect_free(a->elect[1]);
    for (int i = WIDE_SHARED; i < WIDE_LOCKS; i++) {
        if (!chance("left to the client", 4)) {
            snib_lock_free(a->lock[i]);
        }
    }
}

static void end_all(void)
{
    for (int i = 0; i < wide.clients; i++) {
        snib_client_stop(wide.client[i]);
        tell_store(i);
        tell_fd("events", snib_client_fd(wide.client[i]));
        wide_take(i, 1000);
        if (wide.starts[i] != wide.events[i]) {
            sched_fail("%d starts of client %d had %d events",
                       (int)wide.starts[i], i, (int)wide.events[i]);
        }
    }
    for (int i = 0; i < wide.actors; i++) {
        end_of_actor(&wide.actor[i]);
    }
    wide_sequences_end();
    snib_multi_free(wide.multi);
    snib_elect_free(wide.elect);
    for (int i = 0; i < WIDE_SHARED; i++) {
        snib_lock_free(wide.shared[i]);
    }
    for (int i = 0; i < wide.clients; i++) {
        snib_client_free(wide.client[i]);
    }
}

int wide_files(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) {
        n++;
    }
    if (d) {
        closedir(d);
    }
    return n;
}

bool wide_is_redis(uint64_t run)
{
    return run % 3 == 0;
}

static void scene(void)
{
    wide.redis = wide_is_redis(wide.run);
    wide.named = wide.redis && chance("named", 4);
    wide.faulty = chance("faulty", 2);
    wide.hostile = wide.faulty && !wide.redis && chance("hostile", 3);
    wide.slow = !wide.redis && wide.faulty && chance("slow", 2);
    wide.far = wide.slow && chance("far", 2);
    wide.failing = chance("failing", wide.redis ? 2 : 4);
    wide.oom = chance("oom", 6);
    wide.actors = 1 + (int)pick("actors", WIDE_ACTORS);
}

void wide_run(uint64_t run, struct run *r)
{
    pthread_t id[WIDE_ACTORS];
    r->how = SCHED_UNIFORM;
    r->seed = run;
    int files = wide.files = wide_files();
    int64_t alive = snib__mem_alive();
    sched_begin(r);
    scene();
    if (wide.redis) {
        redis_begin(false); /* how much fits is the kernel's */
    }
    open_all();
    wide_values_begin();
    wide_elect_new(&wide.elect);
    if (chance("words", 4)) {
        wide_words(run);
    }
    for (int i = 0; i < wide.actors; i++) {
        wide.actor[i].index = i;
        wide.actor[i].steps = 6 + (int)pick("steps", 20);
    }
    for (int i = 0; i < wide.actors; i++) {
        if (sched_create(&id[i], actor_body, &wide.actor[i])) {
            sched_fail("no thread");
        }
    }
    wide.on = true;
    sched.choosing = !chance("in order", 3);
    watch();
    for (int i = 0; i < wide.actors; i++) {
        (void)sched_join(id[i]);
    }
    sched.choosing = false;
    end_all();
    wide.on = false;
    if (wide.named || wide.far) { /* look-ups, and calls that were stuck, end */
        sched_sleep(sched_now() + INT64_C(10000000000));
    }
    if (wide.redis) {
        redis_end();
    }
    sched_end();
    if (wide_files() != files || snib__mem_alive() != alive) {
        sched_fail("%d descriptors and %d blocks are left",
                   wide_files() - files, (int)(snib__mem_alive() - alive));
    }
}
