/* cli.h — what the sub-commands of snib share: arguments, exit codes, texts.
 *
 * Each sub-command is one file cmd_NAME.c with one function `int cmd_NAME(
 * struct cli_args *, int operand_count, char **operands)` that returns the exit
 * status, and one row in main.c's table. Options are rows of a table per
 * sub-command (options.c parses them and prints --help from them).
 *
 * stdout belongs to the command or to data. All texts of snib itself go to
 * stderr through say(), one write(2) each, with foreign bytes made harmless.
 */
#ifndef SNIB_CLI_CLI_H
#define SNIB_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "snib.h"

/* The exit codes, from sysexits.h where it has one; snib(1) promises them. */
enum {
    CLI_OK = 0,
    CLI_USAGE = 64,
    CLI_UNREACHABLE = 69,
    CLI_INTERNAL = 70,
    CLI_NOT_ACQUIRED = 75,
    CLI_LOST = 76,
    CLI_DENIED = 77,
    CLI_CONFIG = 78,
    CLI_NOT_EXECUTABLE = 126,
    CLI_NOT_FOUND = 127,
    CLI_SIGNAL = 128
};

/* "Not given" for a duration: -1 is DURATION_FOREVER. Elsewhere it is -1. */
#define CLI_UNSET INT64_C(-2)
/* "Not given" for a number that may be negative. */
#define CLI_NO_NUMBER INT64_MIN

struct cli_args {
    const char *subcommand;
    /* every sub-command */
    const char *store;
    const char *store_file;
    bool quiet, verbose, help, version;
    bool no_progress, json;
    /* getting a lock */
    int64_t wait_ms, ttl_ms, grace_ms, hold_min_ms, max_run_ms;
    const char *ttl_label; /* who gave it: "--ttl", or the variable */
    int64_t permits, capacity, lock_delay_ms, priority; /* -1: not given */
    int64_t busy_exit, status_fd, on_lost, lost_signal;
    const char *kind;
    bool read; /* -r: --kind read */
    const char *reason;
    const char *script; /* -c */
    bool busy_ok, reentrant, dry_run;
    /* acquire, release, renew, check, force-release */
    int64_t holder_pid, margin_ms;
    const char *token_file;
    bool no_holder, sh, yes;
    bool schema; /* doctor */
    /* elect */
    bool once, observe;
    int64_t pause_ms;
    /* semaphore, latch, barrier */
    int64_t set_to, init_to, down_by, parties; /* -1: not given */
    int64_t add_by;                            /* CLI_NO_NUMBER: not given */
    bool latch_open, latch_await;
    /* how the operands were split */
    bool has_dashes;
    int before_dashes;
};

typedef int (*cli_main)(struct cli_args *, int, char **);

enum option_type {
    OPTION_FLAG,     /* bool */
    OPTION_TEXT,     /* const char * */
    OPTION_DURATION, /* int64_t ms; extra: DURATION_*_OK */
    /* int64_t 0 … most; extra: the least that makes sense, for the error's
     * text */
    OPTION_NUMBER,
    OPTION_SIGNED,  /* int64_t −most … most */
    OPTION_STEPS,   /* int64_t; --name: 1, --name=N: 1 … most */
    OPTION_ON_LOST, /* on_lost and lost_signal */
    OPTION_OPERAND  /* an operand that may begin with a dash */
};

struct option_row {
    char letter; /* 0: none */
    const char *name;
    const char *arg; /* NULL: flag */
    enum option_type type;
    size_t offset; /* into struct cli_args */
    unsigned extra;
    int64_t most;
    const char *help;
    const char *env; /* a variable with the default, or NULL */
};

struct subcommand {
    const char *name;
    const char *operands; /* for the usage line */
    const char *summary;
    const struct option_row *options; /* ends with name NULL */
    size_t operands_least, operands_most;
    bool command; /* operands hold NAME… -- COMMAND… */
    cli_main main;
};

/* Fill *args from argv. Operands are moved to the front of argv, with a NULL
 * behind them. An operand beyond the first `most` ends the options, unless a
 * `--` does (which is dropped; with most 0 it is not recognised). --help ends
 * the parsing and sets args->help. False: it said what is wrong. argv has room
 * for a NULL at argc. */
bool options_parse(const struct option_row *rows, struct cli_args *args,
                   int most, int argc, char **argv, int *ret_operands);
void options_defaults(struct cli_args *);
/* --help on stdout. */
void options_help(const struct subcommand *);
/* Print the rows, a line or more for each. */
void options_print(FILE *, const struct option_row *);

extern const struct option_row cli_global_options[];
const struct subcommand *cli_find(const char *name);
const struct subcommand *cli_all(size_t *ret_count);
/* Sub-commands that are planned, but not in this release; ends with NULL. */
extern const char *const cli_later[];
/* Print the usage on stderr; CLI_USAGE. */
int cli_show_usage(void);

/* Print "snib: …\n" on stderr. say_raw adds nothing. Neither blocks for long:
 * when stderr takes nothing, the text is dropped, not the lock. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_raw(const char *line, size_t size);
/* The words for an errno; where it is descriptors that lack, which limit to
 * raise. Static. */
const char *say_errno(int error);
/* "snib SUB: …; see snib SUB --help"; returns CLI_USAGE. */
int usage_error(const struct cli_args *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Makes foreign bytes fit for %s of say(); a static ring of four buffers. */
const char *shown(const char *bytes);
/* The same, cut after some 50 bytes: for what may be a typing error. */
const char *shown_short(const char *bytes);

/* Check a lock name: not empty, at most SNIB_NAME_MAX. CLI_OK or CLI_USAGE,
 * said. */
int cli_check_name(const struct cli_args *, const char *name);

/* Open the client for a sub-command that only inspects. CLI_OK or the exit
 * status, said. */
int cli_open(const struct cli_args *, struct snib_client **ret);
/* The same, as the owner of a detached grant. */
int cli_open_as(const struct cli_args *, const char *identity,
                struct snib_client **ret);
/* The exit status when somebody else has the lock: -E, --busy-ok, or 75. */
int cli_busy_status(const struct cli_args *);
/* What went wrong and, where it helps, what to do about it: for shown(). The
 * same buffer each time. */
const char *cli_words(const struct snib_error *);
/* Say the error, return its exit status. */
int cli_fail(const struct snib_error *);
/* The same of snib doctor, without the advice to run that. told: a finding has
 * said its text; that a store is away is not said twice. */
int cli_fail_doctor(const struct snib_error *, bool told);

/* For the cleanup attribute. A client that an inspection still uses is not
 * freed. */
void cli_client_free(struct snib_client **client);
/* Free no client from here on: the end of the process ends it. For a client
 * whose store is silent, since freeing it would wait for the store. */
void cli_client_leave(void);

int cmd_run(struct cli_args *, int, char **);
int cmd_try(struct cli_args *, int, char **);
int cmd_acquire(struct cli_args *, int, char **);
int cmd_release(struct cli_args *, int, char **);
int cmd_renew(struct cli_args *, int, char **);
int cmd_check(struct cli_args *, int, char **);
int cmd_wait(struct cli_args *, int, char **);
int cmd_status(struct cli_args *, int, char **);
int cmd_list(struct cli_args *, int, char **);
int cmd_why(struct cli_args *, int, char **);
int cmd_deadlocks(struct cli_args *, int, char **);
int cmd_force_release(struct cli_args *, int, char **);
int cmd_doctor(struct cli_args *, int, char **);
int cmd_semaphore(struct cli_args *, int, char **);
int cmd_latch(struct cli_args *, int, char **);
int cmd_barrier(struct cli_args *, int, char **);
int cmd_elect(struct cli_args *, int, char **);
int cmd_store(struct cli_args *, int, char **);
int cmd_version(struct cli_args *, int, char **);
int cmd_help(struct cli_args *, int, char **);

#endif
