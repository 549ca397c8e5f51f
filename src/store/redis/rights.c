/* store/redis/rights.c — what the answer to the probe says: may this user run our
 * scripts to their end?
 *
 * Errors that are none of rights (LOADING, a user of some keys only) say nothing.
 * Without PUBLISH locks work, but waiters find their grants by polls. */
#include <string.h>

#include "store/redis/redis_i.h"

/* Is it a command that only serves the mark? Without it locks work, by their
 * own token memory alone. */
static bool rights_is_of_mark(const struct snib__resp_cell *command)
{
    return snib__resp_is(command, "XADD") || snib__resp_is(command, "XLEN");
}

bool snib__rights_suffice(struct snib__redis *s, snib_instant now, int i,
                          const struct snib__resp_cell *c)
{
    const struct snib__resp_cell *wrong = snib__resp_at(c, 0);
    const struct snib__resp_cell *e = wrong ? wrong + 1 : NULL;
    char text[200] = "may not be run in scripts:";
    size_t n = strlen(text);
    bool may = true;
    if (!wrong || wrong->type != SNIB__RESP_ARRAY) {
        return true;
    }
    for (uint32_t k = 0; k + 1 < wrong->size; k += 2, e += 2) {
        if (e[0].type != SNIB__RESP_STRING || e[1].type != SNIB__RESP_STRING ||
            snib__resp_is(&e[0], "PUBLISH") ||
            snib__redis_error_kind(e[1].text, e[1].size) != E_DENIED) {
            continue;
        }
        if (rights_is_of_mark(&e[0])) {
            s->session[i].mark_denied = true;
        } else {
            snib__redis_error_text(text + n, sizeof text - n, " ", 1);
            n = strlen(text);
            snib__redis_error_text(text + n, sizeof text - n, e[0].text,
                                   e[0].size);
            n = strlen(text);
            may = false;
        }
    }
    if (!may) {
        snib__session_cut(s, now, i, true, SNIB_ERR_DENIED, text, true);
    }
    return may;
}
