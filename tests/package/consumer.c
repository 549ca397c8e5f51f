/* The smallest program that uses the installed library: takes a lock in a
 * store that needs nothing outside the process, and gives it back. */
#include <snib.h>
#include <snib/test.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    struct snib_error e;
    struct snib_client *client;
    struct snib_lock *lock;
    struct snib_grant grant;
    struct snib_client_options options = {.size = sizeof options,
                                          .url = "memory:package"};
    if (strcmp(snib_version(), SNIB_VERSION) != 0) {
        fprintf(stderr, "library %s, header %s\n", snib_version(),
                SNIB_VERSION);
        return 1;
    }
    if (snib_client_open(&options, &client, &e) ||
        snib_lock_new(client, "name", NULL, &lock, &e) ||
        snib_acquire(lock, NULL, &grant, &e) || snib_release(lock, grant, &e)) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    snib_lock_free(lock);
    snib_client_free(client);
    return grant.token > 0 ? 0 : 1;
}
