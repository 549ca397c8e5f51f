/* supervisor_moves.h — the moves that several states of the supervisor share;
 * for supervisor_step.c. */
#ifndef SNIB_CLI_SUPERVISOR_MOVES_H
#define SNIB_CLI_SUPERVISOR_MOVES_H

#include "cli/supervisor/supervisor_step.h"

enum {
    EXIT_INTERNAL = 70,
    EXIT_NOT_ACQUIRED = 75,
    EXIT_LOST = 76,
    EXIT_SIGNAL = 128
};

int64_t supervisor_step_smaller(int64_t a, int64_t b);
int64_t supervisor_step_after(int64_t instant, int64_t duration);
/* The instant from which the supervisor must stop the command. */
int64_t supervisor_step_lease_stop(const struct supervisor *l);
int64_t supervisor_step_max_run_stop(const struct supervisor *l);
void supervisor_step_arm_running(struct supervisor *l);
/* The lease may end while the supervisor stops the command for --max-run, or
 * stops the processes that it left behind. That loss is told at once. */
void supervisor_step_arm_stopping(struct supervisor *l);
/* KILL is due after the grace, but never later than the margin before the
 * deadline. A command that may outlive the loss has no such bound. */
void supervisor_step_arm_kill(struct supervisor *l, int64_t now);
void supervisor_step_act_kill(struct supervisor *l,
                              struct supervisor_actions *a, int64_t now);
/* Send TERM first, unless the time for KILL has come. */
void supervisor_step_act_stop(struct supervisor *l,
                              struct supervisor_actions *a, int64_t now);
void supervisor_step_act_exit(struct supervisor *l,
                              struct supervisor_actions *a);
void supervisor_step_set_outcome(struct supervisor *l, int code,
                                 bool by_command, enum supervisor_why why);
void supervisor_step_note_lost(struct supervisor *l,
                               struct supervisor_actions *a,
                               enum supervisor_why why);
/* The supervisor's clock came before the holder's word, so nothing but the end
 * of the lease was known. What the holder tells later is why it was not
 * renewed. */
void supervisor_step_learn(struct supervisor *l, enum supervisor_why why);
void supervisor_step_lose(struct supervisor *l, struct supervisor_actions *a,
                          enum supervisor_why why, int64_t now);
void supervisor_step_tell_release(struct supervisor *l,
                                  struct supervisor_actions *a, int64_t now);
/* All processes of the command are gone. */
void supervisor_step_out(struct supervisor *l, struct supervisor_actions *a,
                         int64_t now);
bool supervisor_step_terminates(int sig);
/* HUP alone does not ask to end: to a command that lives on it may mean "read
 * your configuration". */
void supervisor_step_forward(struct supervisor *l, struct supervisor_actions *a,
                             int sig);
void supervisor_step_leave(struct supervisor *l, struct supervisor_actions *a,
                           int64_t patience, int64_t now);

#endif
