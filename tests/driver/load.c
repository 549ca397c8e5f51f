/* load.c — verbs that work hard: storms, counts, forks; see driver.c. */
#define _GNU_SOURCE
#include "driver.h"
#include "snib/event.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* -- verbs: load ---------------------------------------------------------- */

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

struct storm {
    struct snib_client *client;
    struct snib_lock **locks;
    int64_t names, cycles, min_us, max_us;
    bool block; /* by wait_ms (0 to 2), not by acquire_start and cancel */
    atomic_int_fast64_t by_err[SNIB_ERR_TOO_MANY + 1];
    atomic_int_fast64_t bad_releases, slow;
    _Atomic(int) last_bad;
    pthread_mutex_t mu;
    char away[sizeof((struct snib_error *)0)->text]; /* of an UNREACHABLE */
};

struct storm_thread {
    struct storm *storm;
    pthread_t thread;
    uint64_t random;
    sem_t answered;
    struct snib_event event;
};

static void storm_note(struct storm *storm, snib_err err)
{
    atomic_fetch_add(&storm->by_err[err], 1);
}

static void storm_release(struct storm *storm, struct snib_lock *lock,
                          struct snib_grant grant)
{
    snib_err err = snib_release(lock, grant, NULL);
    if (err != SNIB_ERR_OK) {
        atomic_fetch_add(&storm->bad_releases, 1);
        atomic_store(&storm->last_bad, err);
    }
}

/* A wait limit in microseconds: start, wait that long, cancel. */
static void storm_cancel_cycle(struct storm_thread *self,
                               struct snib_lock *lock, int64_t limit_us)
{
    struct storm *storm = self->storm;
    uint64_t ticket;
    snib_err err = snib_acquire_start(lock, NULL, self, &ticket, NULL);
    if (err != SNIB_ERR_OK) {
        storm_note(storm, err);
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += limit_us * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    /* Not sem_clockwait: ThreadSanitizer does not know it. */
    if (sem_timedwait(&self->answered, &until) != 0) {
        snib_client_cancel(storm->client, ticket);
        while (sem_wait(&self->answered) != 0) {
        }
    }
    if (self->event.kind == SNIB_EVENT_GRANTED) {
        storm_note(storm, SNIB_ERR_OK);
        storm_release(storm, lock, self->event.grant);
    } else {
        storm_note(storm, self->event.error.code);
    }
}

/* So much later than its limit a call may end: a thread that is woken waits for its
 * turn, beside the other threads and what else runs on this machine. */
static int64_t storm_slack_ns(void)
{
    double load = 0;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    double crowd = getloadavg(&load, 1) == 1 ? load / (double)cores : 1;
    return (int64_t)(200e6 * (crowd > 1 ? crowd : 1));
}

static void storm_block_cycle(struct storm_thread *self, struct snib_lock *lock,
                              int64_t limit_us)
{
    struct storm *storm = self->storm;
    struct snib_grant grant;
    int64_t begun = now_ns(), wait_ms = limit_us / 1000;
    struct snib_error why;
    snib_err err = snib_try_for(lock, wait_ms, NULL, &grant, &why);
    if (err == SNIB_ERR_UNREACHABLE) {
        pthread_mutex_lock(&storm->mu);
        snprintf(storm->away, sizeof storm->away, "after %lld ms of %lld: %s",
                 (long long)((now_ns() - begun) / 1000000), (long long)wait_ms,
                 why.text);
        pthread_mutex_unlock(&storm->mu);
    }
    int64_t over = now_ns() - begun - wait_ms * 1000000;
    if (wait_ms > 0 && over > 200 * 1000000 && over > storm_slack_ns()) {
        atomic_fetch_add(&storm->slow, 1);
    }
    storm_note(storm, err);
    if (err == SNIB_ERR_OK) {
        storm_release(storm, lock, grant);
    }
}

static void *storm_loop(void *data)
{
    struct storm_thread *self = data;
    struct storm *storm = self->storm;
    for (int64_t i = 0; i < storm->cycles; i++) {
        uint64_t dice = random_next(&self->random);
        struct snib_lock *lock = storm->locks[dice % (uint64_t)storm->names];
        int64_t span = storm->max_us - storm->min_us + 1;
        int64_t limit =
            storm->min_us + (int64_t)((dice >> 32) % (uint64_t)span);
        if (storm->block) {
            storm_block_cycle(self, lock, limit);
        } else {
            storm_cancel_cycle(self, lock, limit);
        }
    }
    return NULL;
}

struct storm_ear {
    struct snib_client *client;
    int stop[2];
};

/* Takes the answers and hands each to the thread that asked. */
static void *storm_listen(void *data)
{
    struct storm_ear *ear = data;
    struct snib_event event;
    for (;;) {
        struct pollfd fds[2] = {{snib_client_fd(ear->client), POLLIN, 0},
                                {ear->stop[0], POLLIN, 0}};
        poll(fds, 2, -1);
        while (snib_client_next(ear->client, &event, sizeof event)) {
            struct storm_thread *thread = event.user;
            if (event.kind != SNIB_EVENT_STATE && thread != NULL) {
                thread->event = event;
                sem_post(&thread->answered);
            }
        }
        if (fds[1].revents != 0) {
            return NULL;
        }
    }
}

static void storm_say(const struct storm *storm, struct line *line)
{
    line_key(line, "counts");
    fputc('{', line->file);
    struct line counts = {.file = line->file, .first = true};
    for (int err = 0; err <= SNIB_ERR_TOO_MANY; err++) {
        int64_t count = atomic_load(&storm->by_err[err]);
        if (count > 0) {
            line_int(&counts, snib_err_name((snib_err)err), count);
        }
    }
    fputc('}', line->file);
    line_int(line, "bad_releases", atomic_load(&storm->bad_releases));
    line_text(line, "last_bad",
              snib_err_name((snib_err)atomic_load(&storm->last_bad)));
    line_int(line, "slow", atomic_load(&storm->slow));
    line_text(line, "away", storm->away);
}

static void storm_run(struct storm *storm, int threads)
{
    struct storm_thread *all =
        must(calloc((size_t)threads, sizeof(struct storm_thread)));
    struct storm_ear ear = {.client = storm->client};
    pthread_t listener;
    if (pipe2(ear.stop, O_CLOEXEC) != 0 ||
        pthread_create(&listener, NULL, storm_listen, &ear) != 0) {
        die("storm: no listener");
    }
    for (int i = 0; i < threads; i++) {
        all[i].storm = storm;
        all[i].random = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(i + 1);
        sem_init(&all[i].answered, 0, 0);
        if (pthread_create(&all[i].thread, NULL, storm_loop, &all[i]) != 0) {
            die("storm: no thread %d", i);
        }
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(all[i].thread, NULL);
    }
    if (write(ear.stop[1], "x", 1) != 1) {
        die("storm: pipe");
    }
    pthread_join(listener, NULL);
    close(ear.stop[0]);
    close(ear.stop[1]);
    free(all);
}

snib_err do_storm(struct command *command, struct line *line,
                  struct snib_error *error)
{
    struct object *client = object_of(command, 'c', "client");
    struct storm storm = {.client = client->client,
                          .mu = PTHREAD_MUTEX_INITIALIZER};
    struct snib_lock_options options = SNIB_INIT(snib_lock_options);
    int threads = (int)int_of(command, "threads", 32);
    if (client->has_listener) {
        die("storm: needs a client whose events nobody else takes");
    }
    snib_err err = SNIB_ERR_OK;
    storm.names = int_of(command, "names", 1);
    storm.cycles = int_of(command, "cycles", 100);
    storm.min_us = int_of(command, "min_us", 20);
    storm.max_us = int_of(command, "max_us", 140);
    storm.block = flag_of(command, "block");
    options.lease_ms = int_of(command, "lease_ms", 0);
    options.no_local_hand_over = flag_of(command, "no_local_pass");
    storm.locks = must(calloc((size_t)storm.names, sizeof(*storm.locks)));
    for (int64_t i = 0; i < storm.names && err == SNIB_ERR_OK; i++) {
        char name[ID_MAX];
        snprintf(name, sizeof(name), "%s%" PRId64,
                 text_of(command, "prefix", "storm", NULL), i);
        err = snib_lock_new(client->client, name, &options, &storm.locks[i],
                            error);
    }
    if (err == SNIB_ERR_OK) {
        storm_run(&storm, threads);
        storm_say(&storm, line);
    }
    for (int64_t i = 0; i < storm.names; i++) {
        snib_lock_free(storm.locks[i]);
    }
    free(storm.locks);
    return err;
}

/* What a section of `count` finds and leaves in its file. */
struct tally {
    int64_t count;
    int64_t token;
};

/* Read, add one, write: lost updates show as a count that is too low. The
 * last token stands beside it, so a token that does not rise shows, too. */
static bool tally_add(int fd, int64_t token, int64_t hold_us)
{
    struct tally tally = {0};
    if (pread(fd, &tally, sizeof(tally), 0) < 0) {
        die("count: cannot read: %s", strerror(errno));
    }
    bool rises = token > tally.token;
    tally.count++;
    tally.token = token;
    if (hold_us > 0) {
        usleep((useconds_t)hold_us);
    }
    if (pwrite(fd, &tally, sizeof(tally), 0) != sizeof(tally)) {
        die("count: cannot write: %s", strerror(errno));
    }
    return rises;
}

snib_err do_count(struct command *command, struct line *line,
                  struct snib_error *error)
{
    struct object *lock = object_of(command, 'l', "lock");
    struct snib_acquire_options options = acquire_options(command);
    int64_t rounds = int_of(command, "rounds", 1);
    int64_t hold_us = int_of(command, "hold_us", 0);
    int64_t done = 0, fallen = 0, longest = 0;
    int fd = open(word_of(command, "path"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    snib_err err = SNIB_ERR_OK;
    if (fd < 0) {
        die("count: cannot open: %s", strerror(errno));
    }
    for (int64_t i = 0; i < rounds && err == SNIB_ERR_OK; i++) {
        struct snib_grant grant;
        int64_t begun = now_ns();
        err =
            snib_try_for(lock->lock, wait_of(command), &options, &grant, error);
        if (err == SNIB_ERR_OK) {
            longest = now_ns() - begun > longest ? now_ns() - begun : longest;
            fallen += tally_add(fd, grant.token, hold_us) ? 0 : 1;
            err = snib_release(lock->lock, grant, error);
            done++;
        }
    }
    close(fd);
    line_int(line, "done", done);
    line_int(line, "fallen_tokens", fallen);
    line_int(line, "longest_wait_ms", longest / 1000000);
    return err;
}

/* What a child of fork() gets from the parent's handle. */
snib_err do_fork_acquire(struct command *command, struct line *line,
                         struct snib_error *error)
{
    struct object *lock = object_of(command, 'l', "lock");
    struct snib_acquire_options options = acquire_options(command);
    (void)error;
    pid_t child = fork();
    if (child == 0) {
        struct snib_grant grant;
        _exit((int)snib_try_for(lock->lock, wait_of(command), &options, &grant,
                                NULL));
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        die("fork: %s", strerror(errno));
    }
    line_text(line, "child_err",
              WIFEXITED(status) ? snib_err_name((snib_err)WEXITSTATUS(status))
                                : "killed");
    return SNIB_ERR_OK;
}

/* The child lets go of what the parent goes on using. */
snib_err do_fork_free(struct command *command, struct line *line,
                      struct snib_error *error)
{
    struct object *client = object_of(command, 'c', "client");
    int status = 0;
    (void)error;
    pid_t child = fork();
    if (child == 0) {
        snib_client_free(client->client);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        die("fork: %s", strerror(errno));
    }
    line_int(line, "child_status", status);
    return SNIB_ERR_OK;
}

/* A child that has all that a fork leaves it, and outlives us. */
snib_err do_fork_stay(struct command *command, struct line *line,
                      struct snib_error *error)
{
    (void)command, (void)error;
    pid_t child = fork();
    if (child == 0) {
        for (int fd = 0; fd < 3; fd++) {
            close(fd);
        }
        alarm(60);
        for (;;) {
            pause();
        }
    }
    line_int(line, "pid", child);
    return SNIB_ERR_OK;
}

/* No answer comes. */
snib_err do_exec(struct command *command, struct line *line,
                 struct snib_error *error)
{
    (void)command, (void)line, (void)error;
    execlp("sleep", "sleep", "60", NULL);
    die("exec: %s", strerror(errno));
}

snib_err do_ping(struct command *command, struct line *line,
                 struct snib_error *error)
{
    (void)command, (void)error;
    line_text(line, "version", snib_version());
    return SNIB_ERR_OK;
}
