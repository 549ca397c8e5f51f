/* store/redis/nat.c — what the nodes of a cluster call each other, and where that
 * is from here: nat= of the URL (slots.h). */
#include <string.h>

#include "store/redis/slots.h"

static bool nat_keep(char *ret, const char *text, size_t size)
{
    if (!size || size >= SNIB__HOME_ADDRESS) {
        return false;
    }
    memcpy(ret, text, size);
    ret[size] = 0;
    return true;
}

bool snib__slots_nat(struct snib__slots *s, const char *text)
{
    bool more = true;
    while (more) {
        const char *equals = strchr(text, '=');
        const char *end = equals ? strchr(equals, ',') : NULL;
        more = end;
        end = end ? end : text + strlen(text);
        if (!equals || s->nats == SNIB__NATS_MAX ||
            !nat_keep(s->nat[s->nats].from, text, (size_t)(equals - text)) ||
            !nat_keep(s->nat[s->nats].to, equals + 1,
                      (size_t)(end - equals - 1)) ||
            !strchr(s->nat[s->nats].from, ':') ||
            !strchr(s->nat[s->nats].to, ':')) {
            return false;
        }
        s->nats++;
        text = end + more;
    }
    return true;
}

const char *snib__slots_translate(const struct snib__slots *s,
                                  const char *address)
{
    for (uint32_t i = 0; i < s->nats; i++) {
        if (!strcmp(s->nat[i].from, address)) {
            return s->nat[i].to;
        }
    }
    return address;
}
