/* tests/unit/holder_pass.h — the world of holder_world.h for a wait of `snib
 * latch` or `snib barrier`: its one lock is what is passed. */
#ifndef SNIB_TESTS_HOLDER_PASS_H
#define SNIB_TESTS_HOLDER_PASS_H

#include "holder_client.h"

#include "cli/store/pass.h"

int __real_sigaction(int, const struct sigaction *, struct sigaction *);
int __wrap_sigaction(int sig, const struct sigaction *to, struct sigaction *was)
{
    if (!same.on) {
        return __real_sigaction(sig, to, was);
    }
    *was = (struct sigaction){
        .sa_handler = sig == SIGHUP && same.run % 2 ? SIG_IGN : SIG_DFL};
    return fails("sigaction") ? -1 : 0;
}

static snib_err start_passing(const char *what, const char *name, int parties,
                              int64_t wait_ms, uint64_t *ret,
                              struct snib_error *error)
{
    struct fake_lock *l = &w.locks[w.lock_count++];
    tell("%s %s, %d, waits %lld", what, name, parties,
         (long long)limit_told(wait_ms));
    if (chance("start", 20)) {
        return set_error(error, some_error());
    }
    *l = (struct fake_lock){.passes = true,
                            .asked = true,
                            .answer_at =
                                w.now + answers_after[pick("answers", 5)],
                            .limit = limit_at(wait_ms)};
    *ret = 70;
    return set_error(error, SNIB_ERR_OK);
}

snib_err __wrap_snib_latch_try_for_start(struct snib_client *c,
                                         const char *name, size_t size,
                                         int64_t wait_ms, void *user,
                                         uint64_t *ret,
                                         struct snib_error *error)
{
    tell("%d %zu %d", c == CLIENT, size, user != NULL);
    return start_passing("latch", name, 0, wait_ms, ret, error);
}

snib_err __wrap_snib_barrier_try_for_start(struct snib_client *c,
                                           const char *name, size_t size,
                                           uint32_t parties, int64_t wait_ms,
                                           void *user, uint64_t *ret,
                                           struct snib_error *error)
{
    tell("%d %zu %d", c == CLIENT, size, user != NULL);
    return start_passing("barrier", name, (int)parties, wait_ms, ret, error);
}

static void live_passing(void)
{
    static struct snib_client *client = CLIENT;
    int64_t generation = 0;
    int code;
    fd_new("client");
    w.args.busy_exit = chance("busy exit", 4) ? 99 : -1;
    pass_block_signals();
    code = pass_through(&w.args, client, "a b", chance("latch", 2) ? 0 : 3,
                        &generation);
    tell("returns %d, %lld", code, (long long)generation);
    cli_client_free(&client);
    tell_open();
}

#endif
