/* plan.h — what supervisor and holder agree on before they part, and how they talk
 * afterwards.
 *
 * The plan is made once, before the first fork, and read by both. The page is
 * memory that both see: the holder writes the confirmed deadline, the supervisor
 * the command's group. A page and not messages, for two reasons. A supervisor that
 * was stopped for an hour and goes on must look at the *newest* deadline first
 * (messages would queue up, the newest last, or not fit at all), and a renewal
 * need not wake the supervisor. Everything that must wake the other side is a
 * message on a SEQPACKET socket pair, whose EOF also tells that it is dead.
 */
#ifndef SNIB_CLI_PLAN_H
#define SNIB_CLI_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cli.h"
#include "cli/holder/control.h"
#include "cli/supervisor/supervisor_step.h"

enum { PLAN_NAMES_MAX = 64, PLAN_OWNER_MAX = 96 };

/* How long after it was sent a request may be executed. */
#define PLAN_NOT_AFTER (10 * SUPERVISOR_S)

struct plan {
    const struct cli_args *args;
    const char *url;     /* NULL: the library's default                    */
    const char *program; /* shown to others                                */
    const char **names;  /* sorted, no two the same                        */
    size_t name_count;
    char **command; /* NULL: acquire                                  */
    snib_kind kind;
    uint32_t permits;  /* of a semaphore: how many; else 0                 */
    uint32_t capacity; /* 0: not given                                     */
    int priority;
    int64_t lock_delay_ms;
    int64_t ttl_ms, wait_ms; /* wait_ms: SNIB_FOREVER or the limit         */
    struct supervisor_rules rules;
    int holder_pidfd; /* acquire --holder-pid; else -1                  */
    bool elect;       /* the token is a term, too                       */
    int64_t started_ns;
};

/* Whose a grant is, between its arrival and the command's start. The holder
 * offers it; one of the two ends that, by compare and swap: the supervisor takes
 * it, and starts the command, or the holder withdraws it, because the supervisor
 * has not taken it in time (it is stopped), and gives it back. */
enum plan_offer { PLAN_NO_OFFER, PLAN_OFFERED, PLAN_TAKEN, PLAN_WITHDRAWN };

/* In the place of a group: the lease is over, none may begin. */
#define PLAN_TOO_LATE (-1)

struct plan_page {
    _Atomic int64_t deadline_ns; /* holder; later and later, while taken   */
    _Atomic int32_t group;       /* supervisor, before the command may start; or
                                    holder, in its place: PLAN_TOO_LATE    */
    _Atomic int32_t offer;       /* enum plan_offer                        */
    /* holder, before GRANT: */
    int32_t grants; /* that it was offered so far                          */
    int64_t outer_ttl_ns; /* the shortest lease held up the tree; 0: none */
    int64_t tokens[PLAN_NAMES_MAX];
    int64_t permit_slots[PLAN_NAMES_MAX]; /* of a semaphore; else -1        */
    char client_id[PLAN_OWNER_MAX];
    char left[SNIB_GRANT_TEXT]; /* --detached: what release needs        */
    char address[CONTROL_ADDRESS_MAX];
    char store[CONTROL_STORE_MAX];
    int32_t holder_process_pid;
};

enum plan_message_kind {
    /* holder -> supervisor */
    PLAN_GRANT,    /* offered: look at the page                            */
    PLAN_RISK,     /* why                                                  */
    PLAN_LOST,     /* why                                                  */
    PLAN_FAILED,   /* code, why; the holder has said it on stderr          */
    PLAN_RELEASED, /* code: 1 when the store said that it had ended; why   */
    PLAN_SIGNAL,   /* code: somebody sent it to the holder                 */
    /* supervisor -> holder */
    PLAN_LEAVE,   /* leave the queue, hold nothing, answer RELEASED       */
    PLAN_RELEASE, /* all of the command are gone                          */
    PLAN_STOPPED, /* waiting, and about to be stopped (Ctrl-Z)            */
    PLAN_HERE,    /* going on, or too late to take: ask again if need be  */
    PLAN_DETACH   /* acquire: go on alone; --detached: leave it behind    */
};

struct plan_message {
    int32_t kind;
    int32_t code;
    int32_t why;
    int32_t grant; /* RISK, LOST: of which that is told, plan_page.grants   */
    bool lingers;  /* FAILED, RELEASED: it goes on alone, do not wait for it */
    char text[SNIB_EXPLAIN_TEXT]; /* what is behind it; "": not known       */
};

/* What the other process has said, without waiting for it. ENDED: it lives no
 * more, and has said nothing that was not heard; or it has said what none of
 * ours says, and is not to be waited for. */
enum plan_heard { PLAN_HEARD, PLAN_SILENT, PLAN_ENDED };
enum plan_heard plan_hear(int socket, struct plan_message *ret);

/* Make the plan from arguments and operands; says what is wrong and returns
 * the exit status, or CLI_OK. names must have room for name_count. */
int plan_make(struct plan *, const struct cli_args *, const char **names,
              size_t name_count, char **command);

/* --kind and what goes with it, a part of plan_make. */
int plan_kind(struct plan *);
/* The lock options of all its names; the caller adds what is its own. */
void plan_lock_options(const struct plan *, struct snib_lock_options *ret);
/* Put words of the command line in the place of the library's, where these
 * speak of options that are not the user's. */
void plan_explain(const struct plan *, const char *name, struct snib_error *);
/* The error of a multi: "'name': why" becomes "why", the name is said before. */
void plan_strip_name(struct snib_error *);

/* -c: sh -c SCRIPT is the command; CLI_USAGE, said, when there is one. */
int plan_script(const struct cli_args *, char ***command);
/* --dry-run: say what would be done; the exit status. dryrun.c */
int plan_tell(const struct plan *);

/* Where NAME… ends and COMMAND… begins; *ret_command is NULL without one. */
void plan_split(const struct cli_args *, int count, char **operands,
                size_t *ret_names, char ***ret_command);

#endif
