/* examples/hello.c — one lock, held for a moment.
 *
 *   cc hello.c $(pkg-config --cflags --libs snib) -o hello
 *
 * The store comes from $SNIB_URL; without it, a file of yours on this host. */
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
        snib_lock_new(client, "hello", NULL, &lock, &e) == SNIB_ERR_OK &&
        snib_acquire(lock, NULL, &grant, &e) == SNIB_ERR_OK) {
        printf("mine, with token %lld\n", (long long)grant.token);
        snib_release(lock, grant, &e);
    }
    if (e.code) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
    }
    snib_lock_free(lock);
    snib_client_free(client);
    return snib_err_exit(e.code);
}
