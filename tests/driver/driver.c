/* driver.c — the library in a process of its own, driven by pytest.
 *
 * The problem: faults like SIGSTOP, kill -9 and fork need real processes, and
 * tests of them want to be written in Python. So this program reads commands,
 * one a line, and answers with JSON, one object a line:
 *
 *     TAG VERB key=value …           values are percent-encoded bytes
 *     {"tag":"TAG","err":"OK",…}     strings: one \u00xx for each odd byte
 *
 * A command runs on the worker thread that its key `on` names ("main" when
 * missing), made at first use; a worker does its commands in order. So a test
 * decides which thread acquires, and a blocked acquire blocks only its worker.
 * Answers come when a command ends, in any order; the tag tells whose it is.
 * Lines with "event" in place of "tag" come unasked: state changes, answers of
 * acquire_start and release_start, log lines. All times are CLOCK_BOOTTIME ns.
 *
 * What it is not: careful about ids. An id that was never given, or is used
 * after its object was freed, is a mistake of the test and ends the program.
 *
 * Files: io.c reads commands and writes JSON, events.c keeps objects and tells
 * what comes unasked, verbs.c, look.c and load.c do what is asked, here are the
 * workers.
 *
 * Verbs (object ids are the test's own words):
 *   open id url request_ms program reason no_deadlock_check login
 *        store_events witness   a client; login: the file from which on_login
 *                       (events.c) takes each login; witness: its program
 *   lock id client name kind lease_ms hold_max_ms fixed aggressive confirm
 *        no_reentry no_local_hand_over permits capacity lock_delay_ms priority
 *        keep_ms
 *                                            a lock
 *   acquire id lock wait_ms owner reason      a grant; wait_ms -1: for ever
 *   release id · renew id lease_ms · status id · held id
 *   start id lock wait_ms owner reason        acquire_start, answer = event
 *   finish id                                release_start, answer = event
 *   cancel id                                of a start
 *   owner                                     a new owner number
 *   inspect client name · list client glob started
 *   force_release client name reason · doctor client
 *   value_get client name · value_delete client name expected
 *   value_put client name expected bytes ttl_ms
 *   lock_free id · close id · stop id · free id · store_status id · server id
 *   storm client prefix names threads cycles min_us max_us lease_ms block
 *   count lock path rounds wait_ms hold_us
 *   fork_acquire lock · fork_free client · counters client · ping · quit
 *   witness client                            what is known of its witness
 *   fork_stay                                 a child that stays; its pid
 *   exec                                      sleep(1), in place of this program
 *   main_ends                                 the main thread ends, others not */
#define _GNU_SOURCE
#include "driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- workers -------------------------------------------------------------- */

static const struct {
    const char *verb;
    snib_err (*run)(struct command *, struct line *, struct snib_error *);
} verbs[] = {
    {"open", do_open},
    {"lock", do_lock},
    {"acquire", do_acquire},
    {"release", do_release},
    {"renew", do_renew},
    {"status", do_status},
    {"start", do_start},
    {"finish", do_finish},
    {"cancel", do_cancel},
    {"owner", do_owner},
    {"inspect", do_inspect},
    {"list", do_list},
    {"force_release", do_force_release},
    {"doctor", do_doctor},
    {"value_get", do_value_get},
    {"value_put", do_value_put},
    {"value_delete", do_value_delete},
    {"counters", do_counters},
    {"lock_free", do_lock_free},
    {"close", do_close},
    {"stop", do_stop},
    {"store_status", do_store_status},
    {"server", do_server},
    {"free", do_free},
    {"storm", do_storm},
    {"count", do_count},
    {"fork_acquire", do_fork_acquire},
    {"fork_free", do_fork_free},
    {"fork_stay", do_fork_stay},
    {"exec", do_exec},
    {"witness", do_witness},
    {"ping", do_ping},
};

static void run(struct command *command)
{
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(verbs[i].verb, command->verb) == 0) {
            struct snib_error error = {SNIB_ERR_OK, ""};
            struct line line;
            line_begin(&line);
            line_text(&line, "tag", command->tag);
            line_int(&line, "began", now_ns());
            snib_err err = verbs[i].run(command, &line, &error);
            line_int(&line, "ended", now_ns());
            say_error(&line, err, &error);
            line_end(&line);
            return;
        }
    }
    die("unknown verb %s", command->verb);
}

struct worker {
    struct worker *next;
    char name[ID_MAX];
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct command *first, **last;
};

static void *work_loop(void *data)
{
    struct worker *worker = data;
    for (;;) {
        pthread_mutex_lock(&worker->lock);
        while (worker->first == NULL) {
            pthread_cond_wait(&worker->more, &worker->lock);
        }
        struct command *command = worker->first;
        worker->first = command->next;
        if (worker->first == NULL) {
            worker->last = &worker->first;
        }
        pthread_mutex_unlock(&worker->lock);
        run(command);
        command_free(command);
    }
    return NULL;
}

/* Only the reading thread looks for workers: the list needs no lock. */
static struct worker *worker_of(const char *name)
{
    static struct worker *workers;
    for (struct worker *worker = workers; worker != NULL;
         worker = worker->next) {
        if (strcmp(worker->name, name) == 0) {
            return worker;
        }
    }
    struct worker *worker = must(calloc(1, sizeof(*worker)));
    snprintf(worker->name, sizeof(worker->name), "%s", name);
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->more, NULL);
    worker->last = &worker->first;
    worker->next = workers;
    workers = worker;
    thread_start(work_loop, worker);
    return worker;
}

static void give(struct worker *worker, struct command *command)
{
    pthread_mutex_lock(&worker->lock);
    *worker->last = command;
    worker->last = &command->next;
    pthread_cond_signal(&worker->more);
    pthread_mutex_unlock(&worker->lock);
}

/* Commands are read here, by one thread: the main one, or the one after it. */
static void *read_commands(void *data)
{
    char *text = NULL;
    size_t size = 0;
    (void)data;
    while (getline(&text, &size, stdin) > 0) {
        answers_are_seen();
        struct command *command = parse(text);
        if (strcmp(command->verb, "quit") == 0) {
            exit(0);
        }
        if (strcmp(command->verb, "main_ends") == 0) {
            thread_start(read_commands, NULL);
            pthread_exit(NULL);
        }
        give(worker_of(text_of(command, "on", "main", NULL)), command);
    }
    /* The test is gone: end at once, as a killed holder would. */
    _exit(0);
}

int main(void)
{
    read_commands(NULL);
}
