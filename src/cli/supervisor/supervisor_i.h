/* supervisor_i.h — what the supervisor's files share. One thread. */
#ifndef SNIB_CLI_SUPERVISOR_I_H
#define SNIB_CLI_SUPERVISOR_I_H

#include <signal.h>
#include <sys/types.h>

#include "cli/supervisor/plan.h"

struct body {
    const struct plan *plan;
    struct plan_page *page;
    struct supervisor supervisor;
    int signals, timer, socket, gate, lease;
    int status;       /* for the line of --status-fd; -1: not wanted */
    int terminal;     /* a descriptor of this process on it; -1: none */
    bool handed_over; /* the command has the foreground */
    pid_t holder, command;
    bool command_ended; /* reaped */
    bool group_gone;    /* never signal that number again */
    /* What the end of a process means, as long as it cannot be seen whether
     * others are left; how often that was tried in vain. */
    struct supervisor_event end;
    int unseen;
    bool term_sent;
    bool stopped_self; /* by Ctrl-Z; CONT continues the command, too */
    bool holder_gone;  /* reaped */
    /* It sent its last message and ends, or closed its socket. */
    bool holder_done;
    int asked_to_end; /* the last INT, QUIT or TERM; 0: none */
    int64_t armed;
    char risk_text[SNIB_EXPLAIN_TEXT], lost_text[SNIB_EXPLAIN_TEXT];
    sigset_t old_mask;
    /* Of the signals that end a wait or stop it: those that were ignored when
     * this process began (nohup, or a shell's background job). */
    sigset_t ignored;
    struct sigaction old_chld;
};

/* supervisor.c: until the command has come and gone, or, without a command, a
 * grant is there. */
void supervisor_loop(struct body *);

/* supervisor_act.c: what is done. */

/* Something has happened: read the page, decide, do it. */
void supervisor_take_event(struct body *, const struct supervisor_event *);
/* Read the newest confirmed deadline. */
void supervisor_look_at_page(struct body *, int64_t now);
/* Tell the holder. */
void supervisor_tell(struct body *, enum plan_message_kind);
/* Children have ended or stopped. */
void supervisor_reap(struct body *);
/* A process of the command has ended. As long as it cannot be seen whether
 * others are left the command counts as not ended: the lock is kept, and the
 * loop calls this again. */
void supervisor_tell_end(struct body *);

/* supervisor_open.c: may this signal change nothing as long as no command is
 * there? */
bool supervisor_ignores(const struct body *, int sig);
/* Open signals, holder, timer, terminal; false: it said why not. */
bool supervisor_open(struct body *, const struct plan *);
/* Fork a holder for b->plan; the rest of the body exists. */
bool supervisor_fork_holder(struct body *);
/* Live until the command has come and gone; report how it ended. */
int supervisor_live(struct body *);

/* supervisor_group.c: all processes of the command. */

/* Signal the adopted: children that are neither holder nor command. Signal 0
 * only counts them. How many there are; -1: they cannot be seen just now, for
 * want of a descriptor, say. */
int supervisor_signal_adopted(const struct body *, int sig);
void supervisor_signal_group(struct body *, int sig);
/* After the command itself has ended: how many processes of its are left, at
 * least? -1: that cannot be seen just now. */
int supervisor_others_left(struct body *);

/* supervisor_left.c: are those only holder processes of snib acquire whose
 * script has ended, so that they end by themselves? */
bool supervisor_left_ends_itself(const struct body *);

/* supervisor_group.c: the terminal. */
void supervisor_find_terminal(struct body *);
void supervisor_hand_over(struct body *);
void supervisor_take_back(struct body *);
void supervisor_stop_self(struct body *);
void supervisor_command_stopped(struct body *, int sig);
void supervisor_continued(struct body *);

/* supervisor_words.c: texts for SUPERVISOR_SAY_*; of a command that could not
 * be executed (errno); the exit status; the line of --status-fd, and a
 * descriptor of its own for that (-1: not wanted). */
void supervisor_speak(const struct body *, unsigned todo);
void supervisor_say_not_begun(const struct body *, int error);
int supervisor_exit_status(const struct body *);
void supervisor_report(const struct body *, int code);
void supervisor_keep_status_fd(struct body *, int fd);

/* supervisor_command.c: in the child; how that ended. */
_Noreturn void supervisor_become_command(struct body *, pid_t supervisor,
                                         int gate, int lease);
/* In the supervisor: the event of the command's end. Says why the exec failed,
 * if it did. */
void supervisor_ended_event(const struct body *, int status,
                            struct supervisor_event *ret);

#endif
