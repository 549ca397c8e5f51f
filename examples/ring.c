/* examples/ring.c — a thousand tenants split among three workers, without
 * anybody handing them out; then one worker leaves.
 *
 * Everybody who makes a ring of the same members gets the same owners. */
#include <stdio.h>
#include <string.h>

#include "snib/sys.h"
#include <snib/ring.h>

enum { TENANTS = 1000 };

static const char *owner_of(const struct snib_ring *ring, int tenant)
{
    char key[24];
    int size = snprintf(key, sizeof key, "tenant:%d", tenant);
    return snib_ring_id(ring, snib_ring_owner(ring, key, (size_t)size), NULL);
}

int main(void)
{
    /* beta, which leaves, comes last */
    const struct snib_ring_member all[] = {
        {.id = "alpha"}, {.id = "gamma"}, {.id = "beta"}};
    struct snib_ring *three = NULL, *two = NULL;
    struct snib_error e;
    int from_beta = 0, others = 0;
    if (snib_ring_new(all, 3, &three, &e) || snib_ring_new(all, 2, &two, &e)) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
        snib_ring_free(three);
        return snib_err_exit(e.code);
    }
    for (size_t n = 0; n < snib_ring_count(three); n++) {
        const char *id = snib_ring_id(three, n, NULL);
        int owns = 0;
        for (int t = 0; t < TENANTS; t++) {
            owns += strcmp(owner_of(three, t), id) == 0;
        }
        printf("%s owns %d tenants\n", id, owns);
    }
    for (int t = 0; t < TENANTS; t++) {
        const char *before = owner_of(three, t);
        int moved = strcmp(before, owner_of(two, t)) != 0;
        from_beta += moved && strcmp(before, "beta") == 0;
        others += moved && strcmp(before, "beta") != 0;
    }
    printf("moved from beta: %d, others moved: %d\n", from_beta, others);
    snib_ring_free(two);
    snib_ring_free(three);
    return 0;
}
