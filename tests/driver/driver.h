/* driver.h — what the files of the driver share; see driver.c. */
#ifndef SNIB_TESTS_DRIVER_H
#define SNIB_TESTS_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "api/testing.h"
#include "snib.h"

#define ARGS_MAX 24
#define ID_MAX   64

/* -- io.c -------------------------------------------------------------- */

/* One line under construction; written in one piece. */
struct line {
    char *text;
    size_t size;
    FILE *file;
    bool first;
};

/* One line from the test. */
struct command {
    struct command *next;
    char *text; /* owned; tag, verb, keys and values point into it */
    const char *tag, *verb;
    int count;
    struct {
        const char *key;
        char *value;
        size_t size;
    } arg[ARGS_MAX];
};

__attribute__((format(printf, 1, 2))) _Noreturn void die(const char *format,
                                                         ...);
int64_t now_ns(void);
void *must(void *memory);
void line_begin(struct line *line);
void line_end(struct line *line);
void answers_are_seen(void);
void put_bytes(FILE *file, const char *bytes, size_t size);
void line_key(struct line *line, const char *key);
void line_int(struct line *line, const char *key, int64_t value);
void line_bool(struct line *line, const char *key, bool value);
void line_text(struct line *line, const char *key, const char *value);
struct command *parse(const char *text);
void command_free(struct command *command);
const char *text_of(const struct command *command, const char *key,
                    const char *missing, size_t *ret_size);
const char *word_of(const struct command *command, const char *key);
int64_t int_of(const struct command *command, const char *key, int64_t missing);
bool flag_of(const struct command *command, const char *key);

/* -- events.c ---------------------------------------------------------- */

/* What the test named; kept to the end. */
struct object {
    struct object *next;
    char kind; /* 'c' client, 'l' lock, 'g' grant */
    char id[ID_MAX];
    struct snib_client *client;
    struct snib_lock *lock;
    struct snib_grant grant;
    int64_t lease_ms;  /* lock                                       */
    bool has_listener; /* client: a thread takes its events          */
};

struct object *object_of(const struct command *command, char kind,
                         const char *key);
struct object *object_new(char kind, const char *id);
void say_why(struct line *, struct snib_lock *, struct snib_grant);
void say_grant(struct line *line, struct snib_grant grant);
void say_error(struct line *line, snib_err err, const struct snib_error *error);
void on_change(void *data, struct snib_grant grant, snib_state state,
               snib_cause reason);
void on_log(void *data, int level, const char *text);
snib_err on_login(void *path, struct snib_login *);
void thread_start(void *(*run)(void *), void *data);
void need_listener(struct snib_client *client);

/* -- verbs: what they answer is said in driver.c ------------------------ */

snib_err do_open(struct command *command, struct line *line,
                 struct snib_error *error);
snib_err do_lock(struct command *command, struct line *line,
                 struct snib_error *error);
snib_err do_witness(struct command *command, struct line *line,
                    struct snib_error *error);
snib_err do_fork_stay(struct command *command, struct line *line,
                      struct snib_error *error);
snib_err do_exec(struct command *command, struct line *line,
                 struct snib_error *error);
snib_err do_lock_free(struct command *command, struct line *line,
                      struct snib_error *error);
snib_err do_close(struct command *command, struct line *line,
                  struct snib_error *error);
snib_err do_store_status(struct command *command, struct line *line,
                         struct snib_error *error);
snib_err do_server(struct command *command, struct line *line,
                   struct snib_error *error);
snib_err do_stop(struct command *command, struct line *line,
                 struct snib_error *error);
snib_err do_free(struct command *command, struct line *line,
                 struct snib_error *error);
int64_t wait_of(const struct command *);
struct snib_acquire_options acquire_options(const struct command *command);
snib_err do_acquire(struct command *command, struct line *line,
                    struct snib_error *error);
snib_err do_release(struct command *command, struct line *line,
                    struct snib_error *error);
snib_err do_renew(struct command *command, struct line *line,
                  struct snib_error *error);
snib_err do_status(struct command *command, struct line *line,
                   struct snib_error *error);
snib_err do_start(struct command *command, struct line *line,
                  struct snib_error *error);
snib_err do_finish(struct command *command, struct line *line,
                   struct snib_error *error);
snib_err do_cancel(struct command *command, struct line *line,
                   struct snib_error *error);
snib_err do_owner(struct command *command, struct line *line,
                  struct snib_error *error);
snib_err do_inspect(struct command *command, struct line *line,
                    struct snib_error *error);
snib_err do_list(struct command *command, struct line *line,
                 struct snib_error *error);
snib_err do_value_get(struct command *command, struct line *line,
                      struct snib_error *error);
snib_err do_value_put(struct command *command, struct line *line,
                      struct snib_error *error);
snib_err do_value_delete(struct command *command, struct line *line,
                         struct snib_error *error);
snib_err do_force_release(struct command *command, struct line *line,
                          struct snib_error *error);
snib_err do_doctor(struct command *command, struct line *line,
                   struct snib_error *error);
snib_err do_counters(struct command *command, struct line *line,
                     struct snib_error *error);
snib_err do_storm(struct command *command, struct line *line,
                  struct snib_error *error);
snib_err do_count(struct command *command, struct line *line,
                  struct snib_error *error);
snib_err do_fork_acquire(struct command *command, struct line *line,
                         struct snib_error *error);
snib_err do_fork_free(struct command *command, struct line *line,
                      struct snib_error *error);
snib_err do_ping(struct command *command, struct line *line,
                 struct snib_error *error);

#endif
