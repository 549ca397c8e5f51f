/* table_redis.c — programs whose clients are of a Redis server: threads that
 * read one connection in turn, send what others ask, wait for messages. */
#include "program.h"

const char *const program_table_redis[] = {
    /* one client: whose turn it is to read, and who is woken */
    "redis: 0 acquire.a release.a | 0 acquire.a release.a",
    "redis: 0 acquire.a release.a | 0 acquire.b release.b",
    "redis: 0 acquire.n release.n | 0 acquire.n release.n",
    "redis: 0 wait5.a release.a try.a | 0 acquire.a sleep5 release.a",
    "redis: 0 acquire.a inspect.a | 0 acquire.b renew.b release.b",
    "redis: 0 acquire.r release.r | 0 acquire.a release.a",
    "redis: 0 acquire.t release.t | 0 drain.t release.t",
    /* two clients: messages */
    "redis: 0 acquire.a release.a | 1 acquire.a release.a",
    "redis: 0 acquire.a release.a | 0 acquire.a release.a | 1 acquire.a "
    "release.a",
    "redis: 0 acquire.a release.a | 0 acquire.b release.b | 1 acquire.a "
    "acquire.b release.a",
    "redis: 0 wait5.a release.a | 1 acquire.a sleep5 release.a",
    "redis: 0 acquire.r release.r | 1 acquire.a release.a | 0 acquire.r",
    "redis: 0 acquire.s release.s | 1 acquire.s release.s",
    "redis: 0 wait5.a release.a wait5.b | 0 wait5.b release.b wait5.a | "
    "1 acquire.a sleep5 release.a",
    /* the way is narrow, or cut */
    "redis: narrow: 0 acquire.a release.a | 0 acquire.b release.b",
    "redis: narrow: 0 acquire.a release.a | 1 acquire.a release.a",
    "redis: 0 acquire.a release.a acquire.a | 1 cut",
    "redis: 0 acquire.a inspect.a release.a | 1 acquire.a cut release.a",
    "redis: 0 start.a take.a drop.a | 0 cut sleep5 cut",
    /* started */
    "redis: 0 start.a take.a drop.a | 0 start.a take.a drop.a",
    "redis: 0 start.a take.a drop.a | 1 acquire.a release.a",
    "redis: 0 start.a cancel.a take.a | 1 acquire.a release.a",
    "redis: 0 start5.a take.a drop.a | 0 acquire.b sleep5 release.b",
    /* closing, freeing, force */
    "redis: 0 acquire.a release.a close | 0 acquire.a release.a",
    "redis: 0 acquire.a stop | 0 stop",
    "redis: 0 stop | 0 acquire.a renew.a release.a",
    "redis: 0 acquire.a stop | 1 acquire.a release.a",
    "redis: 0 start.a stop take.a | 1 acquire.a release.a",
    "redis: 0 acquire.a free.a | 0 acquire.a release.a",
    "redis: 0 acquire.c sleep5 free.c | 1 force.a",
    "redis: 0 acquire.a renew.a release.a | 1 force.a try.a",
    /* no thread of the library */
    "redis: pull: 0 start.a take.a drop.a | 0 start.a take.a drop.a",
    "redis: pull: 0 start.a take.a drop.a | 1 start.a take.a drop.a",
    "redis: pull: 0 start.a close take.a | 1 start5.a take.a drop.a",
    /* values */
    "redis: 0 get.v put.v | 0 get.v put.v",
    "redis: 0 update.v | 0 update.v | 1 update.v", NULL};
