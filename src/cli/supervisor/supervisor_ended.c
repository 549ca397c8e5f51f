/* supervisor_ended.c — how the command ended, from its status. */
#define _GNU_SOURCE
#include "cli/supervisor/supervisor_i.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Did the supervisor's child fail before the exec, or does the command itself
 * use 126, 127 or 70? Only the former sends an errno through the gate. */
void supervisor_ended_event(const struct body *b, int status,
                            struct supervisor_event *ev)
{
    int error;

    *ev = (struct supervisor_event){.kind = SUPERVISOR_EV_ENDED,
                                    .why = SUPERVISOR_CAUSE_EXITED};
    if (WIFSIGNALED(status)) {
        ev->code = CLI_SIGNAL + WTERMSIG(status);
        ev->why = SUPERVISOR_CAUSE_SIGNALLED;
        return;
    }
    ev->code = WEXITSTATUS(status);
    if ((ev->code == CLI_NOT_FOUND || ev->code == CLI_NOT_EXECUTABLE ||
         ev->code == CLI_INTERNAL) &&
        TEMP_FAILURE_RETRY(recv(b->gate, &error, sizeof error, MSG_DONTWAIT)) ==
            (ssize_t)sizeof error) {
        ev->why = ev->code == CLI_NOT_FOUND  ? SUPERVISOR_CAUSE_NOT_FOUND
                  : ev->code == CLI_INTERNAL ? SUPERVISOR_CAUSE_INTERNAL
                                             : SUPERVISOR_CAUSE_NOT_EXECUTABLE;
        supervisor_say_not_begun(b, error);
    }
}
