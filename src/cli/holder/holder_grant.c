/* holder_grant.c — all names are held: publish that, and offer the grant to the
 * supervisor. */
#define _GNU_SOURCE
#include "cli/holder/holder_i.h"
#include "cli/supervisor/proc.h"
#include "snib/sys.h"

#include <inttypes.h>

/* SNIB_OWNER, as others see it: the owner without the bit that marks a number
 * drawn by snib_owner_new. For a lock held above: what its holder told. */
static void holder_grant_set_owner(struct holder *k)
{
    struct text t = TEXT_IN(k->page->client_id);

    if (k->slots[0].state == SLOT_HELD) {
        text_addf(&t, "%s:%" PRIu64, snib_client_id(k->client),
                  k->owner & INT64_MAX);
    } else {
        text_add(&t, k->slots[0].client_id);
    }
}

/* What a later process needs to release the grant. */
static void holder_grant_export_grant(struct holder *k)
{
    struct slot *s = &k->slots[0];
    struct snib_error error = {0};

    error.code = snib_grant_export(s->lock, s->grant, k->page->detached_grant,
                                   sizeof k->page->detached_grant, &error);
    if (error.code != SNIB_ERR_OK) {
        say("%s: %s", shown(k->plan->names[0]), error.text);
        holder_fail(k, error.code);
    }
}

/* For a lock held above its holder has told the slot. */
static void holder_grant_learn_permit_slot(struct slot *s)
{
    struct snib_status status;

    if (s->state == SLOT_HELD) {
        snib_grant_status(s->lock, s->grant, &status, sizeof status);
        s->permit_slot = status.slot;
    }
}

void holder_all_acquired(struct holder *k)
{
    const struct supervisor_rules *r = &k->rules;

    /* A lock that was held above when the wait began may be another owner's by
     * now. */
    holder_check(k);
    if (k->lost) {
        holder_request_again(k);
        return;
    }
    k->phase = PHASE_HOLDING;
    waitline_wipe(&k->line);
    k->line.due_ns = INT64_MAX;
    for (size_t i = 0; i < k->plan->name_count; i++) {
        holder_grant_learn_permit_slot(&k->slots[i]);
        k->page->tokens[i] = k->slots[i].grant.token;
        k->page->permit_slots[i] = k->slots[i].permit_slot;
    }
    holder_grant_set_owner(k);
    if (k->plan->args->no_holder) {
        holder_grant_export_grant(k);
    } else {
        k->listener = control_listen(k->page->address);
        /* Without it nobody could check, renew or release the lock. */
        if (k->listener < 0 || !holder_keep_spare(k)) {
            waitline_wipe(&k->line);
            holder_cannot(k, "listen for requests about the lock");
        }
    }
    if (r->grace > r->ttl / 3) {
        k->renew_ns = proc_now() + (r->ttl - r->grace) / 3;
    }
    holder_offer(k);
}
