/* table.c — programs of two threads with three calls each, and a few more. */
#include "program.h"

const char *const program_table[] = {
    /* one client: hand-overs, words, limits */
    "0 acquire.a release.a | 0 acquire.a release.a",
    "0 acquire.a release.a acquire.a | 0 acquire.a release.a acquire.a",
    "0 acquire.a release.a try.a | 0 wait5.a release.a try.a",
    "0 wait5.a release.a wait5.a | 0 acquire.a sleep5 release.a",
    "0 acquire.n release.n acquire.n | 0 acquire.n release.n acquire.n",
    "0 acquire.a acquire.a release.a | 0 try.a wait5.a release.a",
    "0 acquire.a acquire.b release.a | 0 acquire.b acquire.a release.b",
    "0 acquire.a release.a acquire.b | 0 acquire.b release.b acquire.a",
    "0 acquire.r acquire.r release.r | 0 acquire.a release.a acquire.r",
    "0 acquire.s release.s wait5.s | 0 acquire.s release.s try.s",
    "0 acquire.a renew.a release.a | 0 acquire.a status.a release.a",
    "0 acquire.a explain.a release.a | 0 inspect.a acquire.a release.a",
    /* two clients: the bell and who listens to it */
    "0 acquire.a release.a | 1 acquire.a release.a",
    "0 acquire.a release.a acquire.a | 1 acquire.a release.a acquire.a",
    "0 wait5.a release.a wait5.a | 1 acquire.a sleep5 release.a",
    "0 acquire.a release.a try.a | 1 try.a wait5.a release.a",
    "0 acquire.r release.r acquire.a | 1 acquire.r release.r acquire.a",
    "0 acquire.a acquire.b release.a | 1 acquire.b acquire.a release.b",
    /* two that wait beside each other, and one elsewhere that lets them go */
    "0 acquire.a release.a | 0 acquire.b release.b | 1 acquire.a acquire.b "
    "release.a",
    "0 wait5.a release.a | 0 acquire.b release.b | 1 acquire.b acquire.a "
    "release.b",
    "0 acquire.a release.a | 0 acquire.a release.a | 1 acquire.a release.a",
    /* started */
    "0 start.a take.a drop.a | 0 start.a take.a drop.a",
    "0 start.a take.a release.a | 1 start.a take.a release.a",
    "0 start.a cancel.a take.a | 0 acquire.a release.a",
    "0 start.a cancel.a take.a | 1 acquire.a release.a try.a",
    "0 start5.a take.a drop.a | 0 acquire.a sleep5 release.a",
    "0 start.a take.a drop.a | 1 acquire.a release.a acquire.a",
    "0 start.a start.b take.b | 0 start.a take.a drop.a",
    "0 acquire.a drop.a take.a | 0 acquire.a release.a try.a",
    /* closing */
    "0 acquire.a release.a close | 0 acquire.a release.a",
    "0 acquire.a release.a stop | 0 acquire.a release.a try.a",
    "0 close | 0 acquire.a release.a start.a",
    "0 stop | 0 start.a take.a drop.a",
    "0 stop | 0 acquire.a status.a release.a", "0 acquire.a stop | 0 stop",
    "0 acquire.a stop | 0 close stop acquire.a",
    "0 acquire.a close release.a | 0 wait5.a release.a",
    "0 acquire.a stop | 1 acquire.a release.a",
    "0 acquire.a close | 0 acquire.a release.a | 1 acquire.a release.a",
    "0 start.a stop take.a | 1 acquire.a release.a",
    "0 start.a close take.a | 1 acquire.a sleep5 release.a",
    "0 stop | 0 inspect.a renew.a | 0 acquire.a renew.a release.a",
    /* freeing handles, callbacks, force */
    "0 acquire.a free.a | 0 acquire.a release.a",
    "0 acquire.a free.a | 1 acquire.a release.a",
    "0 start.a free.a | 0 acquire.a release.a try.a",
    "0 acquire.c release.c free.c | 1 force.a",
    "0 acquire.c sleep5 free.c | 1 force.a",
    "0 acquire.c free.c | 0 force.a acquire.a release.a",
    "0 acquire.c status.c free.c | 1 acquire.a force.a release.a",
    "0 start.c take.c drop.c | 1 force.a acquire.a",
    "0 acquire.a renew.a release.a | 1 force.a try.a",
    "0 acquire.a renew.a release.a | 0 expire.a try.a release.a",
    "0 acquire.c free.c | 0 stop | 1 force.a",
    /* fork */
    "0 acquire.a release.a | 0 fork acquire.a",
    "0 start.a take.a drop.a | 1 acquire.a release.a fork",
    /* no thread of the library */
    "pull: 0 start.a take.a drop.a | 1 start.a take.a drop.a",
    "pull: 0 start.a take.a drop.a | 0 start.a take.a drop.a",
    "pull: 0 start.a cancel.a take.a | 1 start.a take.a drop.a",
    "pull: 0 start.a close take.a | 1 start5.a take.a drop.a",
    "pull: 0 start.a process take.a | 0 close process",
    "pull: 0 start.a take.a drop.a | 0 stop",
    /* a store that blocks: the worker */
    "slow: 0 acquire.a release.a | 0 acquire.a release.a",
    "slow: 0 acquire.a release.a try.a | 1 acquire.a release.a try.a",
    "slow: 0 start.a take.a drop.a | 0 acquire.a release.a",
    "slow: 0 acquire.a release.a | 1 start5.a take.a | 1 acquire.a",
    "slow: 1 acquire.a sleep5 release.a | 0 acquire.a release.a | 1 start.a "
    "take.a",
    "slow: 0 start.a cancel.a take.a | 1 acquire.a release.a",
    "slow: 0 stop | 0 acquire.a release.a start.a",
    "slow: 0 acquire.a free.a | 0 wait5.a release.a | 1 acquire.a",
    "slow: pull: 0 start.a take.a drop.a | 0 start.a take.a drop.a",
    "slow: pull: 0 start.a take.a drop.a | 1 start.a cancel.a take.a",
    "slow: pull: 0 start.a close take.a | 0 stop", NULL};
