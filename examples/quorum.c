/* examples/quorum.c — a lock on a majority of servers, and what to do when
 * there is none.
 *
 *   SNIB_URL=redlock://a.example.org,b.example.org,c.example.org ./quorum
 *
 * Nothing in the program is particular to a quorum but the errors that are
 * worth telling apart: held by another (come back later), and no majority
 * (call somebody: the text says which server is missing and why). */
#include <stdio.h>

#include <snib.h>
#include <snib/sys.h>

int main(void)
{
    struct snib_client *client = NULL;
    struct snib_lock *lock = NULL;
    struct snib_grant grant;
    struct snib_error e = {0};
    if (snib_client_open(NULL, &client, &e) == SNIB_ERR_OK &&
        snib_lock_new(client, "quorum", NULL, &lock, &e) == SNIB_ERR_OK &&
        snib_try_for(lock, 2000, NULL, &grant, &e) == SNIB_ERR_OK) {
        /* Servers may fail from here on: as long as a majority renews, the
         * lock is held. The token goes with every write, as always. */
        printf("mine on a majority, with token %lld\n", (long long)grant.token);
        snib_release(lock, grant, &e);
    }
    if (e.code == SNIB_ERR_TIMEOUT || e.code == SNIB_ERR_BUSY) {
        fprintf(stderr, "somebody else is at it\n");
    } else if (e.code) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
    }
    snib_lock_free(lock);
    snib_client_free(client);
    return snib_err_exit(e.code);
}
