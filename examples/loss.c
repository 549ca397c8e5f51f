/* examples/loss.c — stop when the lock is lost.
 *
 * A lease can end before the work does: the store is gone, the machine slept,
 * somebody forced it. The library tells by its local deadline; what it cannot
 * do is stop your work. Three ways to hear it:
 *
 *   snib_grant_held   ask before each step (compares a clock, no I/O)
 *   snib_grant_fd     becomes readable; for poll, between or inside steps
 *   on_change         a callback, on the library's thread
 *
 * Here the lease is fixed and shorter than the work, so that it must be lost.
 * What was written after the last question is what the fence is for:
 * docs/FENCING.md. */
#include <poll.h>
#include <stdio.h>

#include <snib.h>
#include <snib/sys.h>

enum { STEPS = 50, STEP_MS = 20, LEASE_MS = 300 };

static void on_change(void *data, struct snib_grant grant, snib_state state,
                      snib_cause reason)
{
    (void)data;
    (void)grant;
    printf("callback: %s (%s)\n", snib_state_text(state),
           snib_cause_text(reason));
}

/* One step of the work, or what cuts it short. True: the lock is lost. */
static bool step(struct snib_lock *lock, struct snib_grant grant)
{
    struct pollfd p = {.fd = snib_grant_fd(lock, grant), .events = POLLIN};
    return poll(&p, 1, STEP_MS) > 0 || !snib_grant_held(lock, grant);
}

static int work(struct snib_lock *lock, struct snib_grant grant)
{
    struct snib_status status;
    struct snib_error e;
    int done = 0;
    while (done < STEPS && !step(lock, grant)) {
        done++;
    }
    snib_grant_status(lock, grant, &status, sizeof status);
    printf("stopped after %s of the steps: %s (%s)\n",
           done < STEPS ? "some" : "all", snib_state_text(status.state),
           snib_cause_text(status.cause));
    /* Give back even what is lost: the thread may then ask again. */
    snib_err err = snib_release(lock, grant, &e);
    printf("release: %s\n", snib_err_text(err));
    return err == SNIB_ERR_LOST && done < STEPS ? 0 : 1;
}

int main(void)
{
    struct snib_lock_options options = SNIB_INIT(snib_lock_options);
    struct snib_client *client;
    struct snib_lock *lock;
    struct snib_grant grant;
    struct snib_error e;
    options.lease_ms = LEASE_MS;
    options.fixed_lease = true;
    options.on_change = on_change;
    if (snib_client_open(NULL, &client, &e) ||
        snib_lock_new(client, "loss", &options, &lock, &e) ||
        snib_acquire(lock, NULL, &grant, &e)) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
        return snib_err_exit(e.code);
    }
    int result = work(lock, grant);
    snib_lock_free(lock);
    snib_client_free(client);
    return result;
}
