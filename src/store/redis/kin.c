/* store/redis/kin.c — is a map one of the cluster that is known?
 *
 * Each node has an id, which is drawn when it is set up, and a map lists the ids
 * of all nodes. So two maps of one cluster have nodes in common, whatever has
 * happened between them. An address says nothing: where addresses are given out
 * (containers), that of a dead node may be the one of another cluster's next. That
 * one serves the same slots, and would grant what is held here. */
#include <string.h>

#include "store/redis/slots.h"

/* Of the id that a line begins with; 0: it is none. */
static uint64_t kin_of_line(const char *line, size_t size)
{
    uint64_t h = UINT64_C(14695981039346656037);
    const char *end = memchr(line, ' ', size);
    if (!end || end - line != SNIB__NODE_ID) {
        return 0;
    }
    for (const char *p = line; p < end; p++) {
        h = (h ^ (uint8_t)*p) * UINT64_C(1099511628211);
    }
    return h | 1;
}

/* The next line's; *text moves behind it. */
static uint64_t kin_next(const char **text, size_t *size)
{
    const char *line = *text, *end = memchr(line, '\n', *size);
    size_t n = end ? (size_t)(end - line) : *size;
    *text += end ? n + 1 : n;
    *size -= end ? n + 1 : n;
    return kin_of_line(line, n);
}

bool snib__kin_has(const struct snib__slots *s, const char *text, size_t size)
{
    bool has = !s->kins;
    while (size && !has) {
        uint64_t id = kin_next(&text, &size);
        for (uint32_t i = 0; i < s->kins && id && !has; i++) {
            has = s->kin[i] == id;
        }
    }
    return has;
}

void snib__kin_keep(struct snib__slots *s, const char *text, size_t size)
{
    s->kins = 0;
    while (size && s->kins < SNIB__KIN_MAX) {
        uint64_t id = kin_next(&text, &size);
        s->kin[s->kins] = id;
        s->kins += id != 0;
    }
}
