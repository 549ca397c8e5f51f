/* leash_i.h — the leash's parts among themselves. One thread. */
#ifndef SNIB_CLI_LEASH_I_H
#define SNIB_CLI_LEASH_I_H

#include <signal.h>
#include <sys/types.h>

#include "plan.h"

struct body {
    const struct plan *plan;
    struct plan_page *page;
    struct leash leash;
    int signals, timer, socket, gate, lease;
    int status;       /* for the line about the end; -1: not wanted      */
    int terminal;     /* a descriptor of ours on it; -1: none            */
    bool handed_over; /* the command has the foreground                  */
    pid_t keeper, command;
    bool command_ended; /* reaped                                          */
    bool group_gone;    /* never signal that number again                  */
    bool term_sent;
    bool stopped_self; /* by Ctrl-Z; CONT brings the command back, too    */
    bool keeper_gone;  /* reaped                                          */
    bool keeper_done;  /* it said its last word and ends, or closed its
                          socket                                         */
    int asked_to_end;  /* the last INT, QUIT or TERM that came; 0: none   */
    int64_t armed;
    char risk_text[SNIB_EXPLAIN_TEXT], lost_text[SNIB_EXPLAIN_TEXT];
    sigset_t old_mask;
    struct sigaction old_chld;
};

/* leash.c: signals, keeper, timer, terminal; false: said why not. */
bool leash_open(struct body *, const struct plan *);
/* A keeper for plan; the rest of the body is there. */
bool leash_fork_keeper(struct body *);
/* Live until the command has come and gone; tells how it ended. */
int leash_live(struct body *);

/* leash_group.c: everybody of the command's. */

/* Signal the adopted: children that are neither keeper nor command. 0 only
 * counts them. */
int leash_signal_adopted(const struct body *, int sig);
void leash_signal_group(struct body *, int sig);
/* After the command itself has ended: is somebody of it left? */
bool leash_others_left(struct body *);

/* leash_group.c: the terminal. */
void leash_find_terminal(struct body *);
void leash_hand_over(struct body *);
void leash_take_back(struct body *);
void leash_stop_self(struct body *);
void leash_command_stopped(struct body *, int sig);
void leash_continued(struct body *);

/* leash_words.c: LEASH_SAY_*; the exit status; the line of --status-fd, and a
 * descriptor of our own for it (-1: not wanted). */
void leash_speak(const struct body *, unsigned todo);
int leash_exit_status(const struct body *);
void leash_report(const struct body *, int code);
void leash_keep_status_fd(struct body *, int fd);

/* leash_command.c: in the child. */
_Noreturn void leash_become_command(struct body *, pid_t leash, int gate,
                                    int lease);

#endif
