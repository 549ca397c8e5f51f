/* tests/live/version_program.h — what version_postgres.c and version_mysql.c
 * share: programs that count a row up by snib_version_update, as a test asks.
 *
 *   version_DATABASE PORT [NAME=VALUE]…
 *
 *   times       updates, 1                 id         the row, 1
 *   wait        wait_ms, 10000             attempts   of the options
 *   think       until this file is there,  also       another row to count up
 *               between read and write
 *   column=no   without the ids of         inner      ms between the two
 *               attempts                   init       run in each session
 *   reconnect   =no: without               gate       reconnect waits for this
 *   cancel      after so many ms                      file
 *   stale=yes   forget what was read       ignore=yes a statement fails unseen
 *   stands=no   without that function
 *
 * A line for each answer 0 ("again TEXT"), when it thinks ("thinks"), and for each update ("ERROR attempts
 * stopped TEXT"). */
#ifndef SNIB_TESTS_VERSION_PROGRAM_H
#define SNIB_TESTS_VERSION_PROGRAM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "snib/optimistic.h"

static struct {
    const char *port, *init, *gate, *think;
    long times, wait, attempts, id, also, inner, cancel;
    int column, reconnect, stale, ignore, stands;
    long long began_ns, version, n;
    int (*step)(void *data, struct snib_version_attempt *);
} program = {.times = 1,
             .wait = 10000,
             .id = 1,
             .column = 1,
             .reconnect = 1,
             .stands = 1};

static void program_nap(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static long long program_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool program_is_cancelled(void *data)
{
    (void)data;
    return program_now_ns() - program.began_ns >= program.cancel * 1000000LL;
}

static void program_wait_for(const char *path)
{
    while (path && access(path, F_OK) != 0) {
        program_nap(5);
    }
}

static void program_wait_for_gate(void)
{
    program_wait_for(program.gate);
}

/* What was read, and a while to think about it. */
static void program_read(const char *version, const char *n)
{
    program.version = atoll(version) - program.stale;
    program.n = atoll(n);
    if (program.think) {
        printf("thinks\n");
        program_wait_for(program.think);
    }
}

static int program_is(const char *argument, const char *name, const char **ret)
{
    size_t n = strlen(name);
    *ret = argument + n + 1;
    return strncmp(argument, name, n) == 0 && argument[n] == '=';
}

static void program_take(const char *argument)
{
    static const struct {
        const char *name;
        long *number;
        int *flag;
        const char **text;
    } rows[] = {{"times", &program.times, NULL, NULL},
                {"wait", &program.wait, NULL, NULL},
                {"attempts", &program.attempts, NULL, NULL},
                {"id", &program.id, NULL, NULL},
                {"also", &program.also, NULL, NULL},
                {"think", NULL, NULL, &program.think},
                {"inner", &program.inner, NULL, NULL},
                {"cancel", &program.cancel, NULL, NULL},
                {"column", NULL, &program.column, NULL},
                {"reconnect", NULL, &program.reconnect, NULL},
                {"stale", NULL, &program.stale, NULL},
                {"ignore", NULL, &program.ignore, NULL},
                {"stands", NULL, &program.stands, NULL},
                {"init", NULL, NULL, &program.init},
                {"gate", NULL, NULL, &program.gate}};
    const char *value;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!program_is(argument, rows[i].name, &value)) {
            continue;
        }
        if (rows[i].number) {
            *rows[i].number = atol(value);
        } else if (rows[i].flag) {
            *rows[i].flag = strcmp(value, "yes") == 0;
        } else {
            *rows[i].text = value;
        }
        return;
    }
    fprintf(stderr, "what is %s?\n", argument);
    exit(2);
}

static void program_begin(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "no port\n");
        exit(2);
    }
    program.port = argv[1];
    for (int i = 2; i < argc; i++) {
        program_take(argv[i]);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
}

/* Between the library and the ready step. */
static int program_step(void *data, struct snib_version_attempt *attempt)
{
    int answer = program.step(data, attempt);
    if (answer == 0 && attempt->text[0]) {
        char text[sizeof attempt->text];
        memcpy(text, attempt->text, sizeof text);
        text[strcspn(text, "\r\n")] = 0;
        printf("again %s\n", text);
    }
    return answer;
}

static int program_run(int (*step)(void *data, struct snib_version_attempt *),
                       void *data)
{
    struct snib_version_options o = {.size = sizeof o};
    o.wait_ms = program.wait;
    o.attempts = (uint32_t)program.attempts;
    o.cancelled = program.cancel ? program_is_cancelled : NULL;
    program.step = step;
    program.began_ns = program_now_ns();
    for (long i = 0; i < program.times; i++) {
        struct snib_error e;
        int stopped;
        uint32_t attempts;
        snib_err err = snib_version_update(&o, program_step, data, &stopped,
                                           &attempts, &e);
        printf("%s %u %d %s\n", snib_err_name(err), (unsigned)attempts, stopped,
               e.text);
    }
    return 0;
}

#endif
