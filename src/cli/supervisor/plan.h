/* plan.h — what supervisor and holder agree on before the fork, and how they
 * talk afterwards.
 *
 * The plan is made once, before the first fork, and read by both. The page is
 * memory that both see: the holder writes the confirmed deadline, the
 * supervisor the command's group. It is a page and not messages for two
 * reasons. A supervisor that was stopped for an hour and goes on must see the
 * *newest* deadline first (messages would queue up, the newest last, or not fit
 * at all). And a renewal need not wake the supervisor. Everything that must
 * wake the other side is a message on a SEQPACKET socket pair, whose EOF also
 * tells that the other process is dead.
 */
#ifndef SNIB_CLI_PLAN_H
#define SNIB_CLI_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cli.h"
#include "cli/holder/control.h"
#include "cli/store/storeurl.h"
#include "cli/supervisor/supervisor_step.h"
#include "snib/sys.h"

enum { PLAN_NAMES_MAX = 64, PLAN_OWNER_MAX = 96 };

/* How long after it was sent a request may still be executed. */
#define PLAN_NOT_AFTER (10 * SUPERVISOR_S)

struct plan {
    const struct cli_args *args;
    const char *url;     /* NULL: the library's default */
    const char *program; /* shown to others */
    const char **names;  /* sorted, no two the same */
    size_t name_count;
    char **command; /* NULL: acquire */
    snib_kind kind;
    uint32_t permits;  /* of a semaphore: how many; else 0 */
    uint32_t capacity; /* 0: not given */
    int priority;
    int64_t lock_delay_ms;
    int64_t ttl_ms, wait_ms; /* wait_ms: the limit; INT64_MAX: none */
    struct supervisor_rules rules;
    int holder_pidfd; /* acquire --holder-pid; else -1 */
    bool elect;       /* SNIB_TERM is set to the token, too */
    int64_t started_ns;
};

/* Whose a grant is between its arrival and the start of the command. The holder
 * offers it. One of the two processes ends that by compare and swap: the
 * supervisor takes the grant and starts the command; or the holder withdraws it
 * and gives it back, because the supervisor has not taken it in time (it is
 * stopped). */
enum plan_offer { PLAN_NO_OFFER, PLAN_OFFERED, PLAN_TAKEN, PLAN_WITHDRAWN };

/* In plan_page.group instead of a group: the lease is over, no command may
 * begin. */
#define PLAN_TOO_LATE (-1)

struct plan_page {
    _Atomic int64_t deadline_ns; /* holder; only grows while the offer is
                                    taken */
    /* Set by the supervisor before the command may start; or by the holder, to
     * PLAN_TOO_LATE. */
    _Atomic int32_t group;
    _Atomic int32_t offer; /* enum plan_offer */
    /* Written by the holder before PLAN_GRANT: */
    int32_t grants; /* how many grants it has offered so far */
    /* The shortest lease of those held further up the process tree; 0: there is
     * none. */
    int64_t outer_ttl_ns;
    int64_t tokens[PLAN_NAMES_MAX];
    int64_t permit_slots[PLAN_NAMES_MAX]; /* of a semaphore; else -1 */
    char client_id[PLAN_OWNER_MAX];
    char detached_grant[SNIB_GRANT_TEXT]; /* what release needs */
    char address[CONTROL_ADDRESS_MAX];
    char store[STOREURL_MAX]; /* "": longer than that */
    int32_t holder_process_pid;
};

enum plan_message_kind {
    /* holder -> supervisor */
    PLAN_GRANT,  /* offered: look at the page */
    PLAN_RISK,   /* why: the cause */
    PLAN_LOST,   /* why: the cause */
    PLAN_FAILED, /* code, why; the holder has said it on stderr */
    /* code: 1 when the store said that the grant had ended before; why */
    PLAN_RELEASED,
    PLAN_SIGNAL, /* code: a signal that the holder was sent */
    /* supervisor -> holder */
    PLAN_LEAVE,   /* leave the queue, hold nothing, answer RELEASED */
    PLAN_RELEASE, /* all processes of the command are gone */
    PLAN_STOPPED, /* about to be stopped (Ctrl-Z) while waiting */
    /* Going on after a stop, or too late to take the offer: ask again if need
     * be. */
    PLAN_HERE,
    /* acquire: go on alone; with --detached: leave the grant in the store and
     * end */
    PLAN_DETACH
};

struct plan_message {
    int32_t kind;
    int32_t code;
    int32_t why;
    int32_t grant; /* RISK, LOST: which grant, see plan_page.grants */
    /* FAILED, RELEASED: the holder goes on alone, do not wait for its end. */
    bool lingers;
    char text[SNIB_EXPLAIN_TEXT]; /* details for a person; "": none known */
};

/* Read what the other process has sent, without waiting. PLAN_ENDED: it is
 * dead, and everything it had sent was read; or it sent what neither of the two
 * processes sends, and is not to be waited for. */
enum plan_heard { PLAN_HEARD, PLAN_SILENT, PLAN_ENDED };
enum plan_heard plan_hear(int socket, struct plan_message *ret);

/* Make the plan from arguments and operands. Says what is wrong and returns the
 * exit status, or CLI_OK. names holds name_count pointers, and is sorted in
 * place. */
int plan_make(struct plan *, const struct cli_args *, const char **names,
              size_t name_count, char **command);

/* --kind and the options that go with it, a part of plan_make. */
int plan_kind(struct plan *);
/* The lock options of all its names; the caller adds what is its own. */
void plan_lock_options(const struct plan *, struct snib_lock_options *ret);
/* Replace a text of the library that speaks of options which the user of the
 * command line does not have. */
void plan_explain(const struct plan *, const char *name, struct snib_error *);
/* An error of a multi: "'name': text" becomes "text", since the caller says the
 * name before it. */
void plan_strip_name(struct snib_error *);

/* -c: the command becomes sh -c SCRIPT. CLI_USAGE, said, when there is another
 * command, too. */
int plan_script(const struct cli_args *, char ***command);
/* --dry-run: say what would be done; the exit status. In dryrun.c. */
int plan_tell(const struct plan *);

/* Where NAME… ends and COMMAND… begins; *ret_command is NULL without a
 * command. */
void plan_split(const struct cli_args *, int count, char **operands,
                size_t *ret_names, char ***ret_command);

#endif
