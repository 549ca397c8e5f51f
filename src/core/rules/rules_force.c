/* core/rules/rules_force.c — FORCE: end whatever holds, and mend what is not
 * a token. */
#include <string.h>

#include "core/rules/rules_i.h"

/* Replace a last token that is not a token by the highest of the grants just
 * ended, so that tokens rise again from there. A waiter whose floor is not a
 * token is removed; it queues anew when it polls. */
static void rules_force_mend(struct snib__book *b,
                             const struct snib__name *name, int64_t highest)
{
    struct snib__stored_claim c, after;
    const struct snib__stored_claim *from = NULL;
    if (!snib__is_token(b->ops->token(b, name))) {
        b->ops->mend_token(b, name, highest);
    }
    while (!b->err && b->ops->next(b, name, SNIB__WAITS, from, &c)) {
        if (!snib__is_token(c.floor)) {
            b->ops->remove(b, name, &c);
        }
        after = c;
        from = &after;
    }
}

void snib__rules_force(struct snib__book *b, struct snib__request *r)
{
    struct snib__stored_claim c;
    uint32_t count = 0;
    int64_t highest = 0;
    /* End those that hold now. Settle runs only afterwards: a waiter that it
     * grants the name is not the holder that the operator saw. */
    while (!b->err && (b->ops->next(b, r->name, SNIB__HOLDS, NULL, &c) ||
                       b->ops->next(b, r->name, SNIB__SHARES, NULL, &c))) {
        if (snib__rules_is_over(b, &c)) {
            snib__rules_drop(b, r->name, &c);
            continue;
        }
        if (c.state == SNIB__SHARES) {
            b->ops->share(b, r->name, -1);
        }
        size_t n = r->text ? r->text_size : 0;
        n = n < sizeof c.note ? n : sizeof c.note - 1;
        memset(c.note, 0, sizeof c.note);
        if (n) {
            memcpy(c.note, r->text, n);
        }
        if (snib__is_token(c.token + c.reserve) &&
            c.token + c.reserve > highest) {
            highest = c.token + c.reserve;
        }
        /* one whose lease is over knows */
        count += !snib__reached(b->now, c.until);
        c.state = SNIB__REVOKED;
        c.until = snib__after(c.until, snib__ms(SNIB__TOMBSTONE_MS));
        b->ops->change(b, r->name, &c);
        /* notified, it asks, and hears that it lost */
        b->ops->granted(b, r->name, &c);
    }
    rules_force_mend(b, r->name, highest);
    b->ops->sweep(b);
    snib__rules_settle(b, r->name);
    snib__rules_answer(r, SNIB__DONE, SNIB_ERR_OK);
    r->said.row = (struct snib__request_row){.ended = count};
}
