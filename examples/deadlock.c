/* Two processes lock two accounts, each in the other's order: a deadlock. One
 * of them, the one that began to wait last, is refused with the circle in its
 * error; it gives back what it has, and tries again when the other is done.
 *
 *     ./deadlock        (SNIB_URL names the store; by default, a file)      */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "snib.h"
#include "snib/sys.h"

static int fail(const struct snib_error *e)
{
    fprintf(stderr, "%s: %s\n", snib_err_name(e->code), e->text);
    return snib_err_exit(e->code);
}

/* Both have their first lock before either asks for its second. */
static void meet(int mine, int other)
{
    char c = 0;
    if (write(mine, &c, 1) != 1 || read(other, &c, 1) != 1) {
        fprintf(stderr, "the other one has gone\n");
    }
}

/* Move money between the accounts; both must be locked. Whoever is refused
 * releases everything and starts over: OK in the end. */
static snib_err transfer(struct snib_lock *from, struct snib_lock *to, int mine,
                         int other, struct snib_error *e)
{
    struct snib_grant a, b;
    for (int round = 1;; round++) {
        snib_err err = snib_try_for(from, 30000, NULL, &a, e);
        if (err) {
            return err;
        }
        if (round == 1) {
            meet(mine, other);
        }
        err = snib_try_for(to, 30000, NULL, &b, e);
        if (!err) {
            printf("transferred in round %d\n", round);
            snib_release(to, b, NULL);
        } else if (err == SNIB_ERR_DEADLOCK) {
            printf("refused: %s\n", e->text);
        }
        fflush(stdout);
        snib_release(from, a, NULL);
        if (err != SNIB_ERR_DEADLOCK) {
            return err;
        }
    }
}

static int run(const char *first, const char *second, int mine, int other)
{
    struct snib_client *client;
    struct snib_lock *from = NULL, *to = NULL;
    struct snib_error e;
    /* After the fork: a client belongs to the process that opened it. */
    if (snib_client_open(NULL, &client, &e)) {
        return fail(&e);
    }
    int code = snib_lock_new(client, first, NULL, &from, &e) ||
                       snib_lock_new(client, second, NULL, &to, &e) ||
                       transfer(from, to, mine, other, &e)
                   ? fail(&e)
                   : 0;
    snib_lock_free(from);
    snib_lock_free(to);
    snib_client_free(client);
    return code;
}

int main(void)
{
    int there[2], back[2], status = 1;
    if (pipe(there) || pipe(back)) {
        return 1;
    }
    pid_t child = fork();
    if (child < 0) {
        return 1;
    }
    if (child == 0) {
        return run("example/account/2", "example/account/1", there[1], back[0]);
    }
    int code = run("example/account/1", "example/account/2", back[1], there[0]);
    waitpid(child, &status, 0);
    return code ? code : WEXITSTATUS(status);
}
