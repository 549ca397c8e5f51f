/* examples/loop.c — locks in an event loop, without a thread of the library.
 *
 * A pull client: nothing happens behind your back, everything in
 * snib_client_process. One descriptor, snib_client_fd, is readable whenever there is
 * something to do, timers included; any loop will do (poll here).
 *
 * Two jobs want the same name. The second is granted when the first, after
 * its 100 ms of work, releases. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, also with -std=c11 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <snib.h>
#include <snib/event.h>
#include <snib/sys.h>

enum { JOBS = 2, WORK_MS = 100 };

struct job {
    const char *name;
    struct snib_grant grant;
    int64_t done_at; /* 0: not at work                                      */
};

static struct snib_lock *lock;
static int over; /* jobs                                                    */

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void on_event(const struct snib_event *event)
{
    struct job *job = event->user;
    switch (event->kind) {
    case SNIB_EVENT_GRANTED:
        printf("%s: granted\n", job->name);
        job->grant = event->grant;
        job->done_at = now_ms() + WORK_MS;
        break;
    case SNIB_EVENT_REFUSED:
        printf("%s: %s\n", job->name, event->error.text);
        over++;
        break;
    case SNIB_EVENT_STATE: /* a real job would stop when it is lost            */
        printf("%s: %s\n", job->name, snib_state_text(event->state));
        break;
    case SNIB_EVENT_RELEASED:
        printf("%s: released\n", job->name);
        over++;
        break;
    case SNIB_EVENT_PASSED: /* of latches and barriers                        */
    case SNIB_EVENT_DONE:   /* of everything else                             */
    case SNIB_EVENT_STORE_CHANGED: /* only where it is asked for              */
        break;
    }
}

static int64_t finish_due(struct job jobs[JOBS])
{
    int64_t wait = 1000, now = now_ms();
    for (int i = 0; i < JOBS; i++) {
        if (jobs[i].done_at && jobs[i].done_at <= now) {
            jobs[i].done_at = 0;
            if (snib_release_start(lock, jobs[i].grant, &jobs[i], NULL)) {
                over++;
            }
        } else if (jobs[i].done_at && jobs[i].done_at - now < wait) {
            wait = jobs[i].done_at - now;
        }
    }
    return wait;
}

static int run(struct snib_client *client, struct job jobs[JOBS])
{
    struct pollfd p = {.fd = snib_client_fd(client), .events = POLLIN};
    struct snib_event event;
    while (over < JOBS) {
        if (poll(&p, 1, (int)finish_due(jobs)) < 0 ||
            snib_client_process(client) != SNIB_ERR_OK) {
            return 1;
        }
        while (snib_client_next(client, &event, sizeof event)) {
            on_event(&event);
        }
    }
    return 0;
}

int main(void)
{
    struct snib_client_options options = SNIB_INIT(snib_client_options);
    struct job jobs[JOBS] = {{.name = "first"}, {.name = "second"}};
    struct snib_client *client;
    struct snib_error e;
    options.pull = true;
    snib_err err = snib_client_open(&options, &client, &e);
    if (!err) {
        err = snib_lock_new(client, "loop", NULL, &lock, &e);
    }
    for (int i = 0; !err && i < JOBS; i++) {
        uint64_t
            ticket; /* for snib_client_cancel; owner 0: each has its own       */
        err = snib_try_for_start(lock, 10000, NULL, &jobs[i], &ticket, &e);
    }
    if (err) {
        fprintf(stderr, "%s: %s\n", snib_err_name(err), e.text);
        return snib_err_exit(err);
    }
    int status = run(client, jobs);
    snib_lock_free(lock);
    snib_client_free(client);
    return status;
}
