/* why.c — see why.h. Written for somebody who was woken up: who has the lock,
 * since when, what keeps that holder, what happens next, what can be done. */
#include "cli/words/why.h"
#include "cli/words/duration.h"
#include "cli/words/show.h"
#include "cli/words/text.h"
#include "cli/words/waitline.h"
#include "snib/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Long enough for each case that people untangle by hand. */
enum { CHAIN_MAX = 8, PARTIES_MAX = 10, LINE = 1536 };

const struct snib_view *why_find(const struct why_locks *all, const char *name,
                                 size_t size)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->views[i]->name_size == size &&
            memcmp(all->views[i]->name, name, size) == 0) {
            return all->views[i];
        }
    }
    return NULL;
}

/* Each waiter has in the store the first 16 digits of the requests that its
 * owner holds, or that other clients hold above it. */
static bool why_holds(const struct snib_party *waiter,
                      const struct snib_party *holder)
{
    char id[17];

    snprintf(id, sizeof id, "%.16s", holder->request);
    return strlen(id) == 16 && strstr(waiter->holding, id) != NULL;
}

const struct snib_view *why_next(const struct why_locks *all,
                                 const struct snib_party *holder,
                                 const struct snib_party **ret_wait)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct snib_view *view = all->views[i];

        for (size_t k = 0; k < view->waiter_count; k++) {
            if (why_holds(view->waiters[k], holder)) {
                *ret_wait = view->waiters[k];
                return view;
            }
        }
    }
    return NULL;
}

/* Behind `words`; nothing where the store does not know it. */
static void why_add_age(struct text *t, const char *words,
                        const struct snib_party *p)
{
    char age[DURATION_TEXT_MAX];
    struct timespec now;
    int64_t ms;

    if (p->since_ms == 0) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 - p->since_ms;
    duration_text(ms > 0 ? ms : 0, age);
    text_addf(t, "%s%s", words, age);
}

static void why_add_name(struct text *t, const struct snib_view *view)
{
    text_add_shown(t, view->name, view->name_size);
}

static void why_add_party(struct text *t, const struct snib_party *p)
{
    waitline_party(t, p);
    if (p->owner > 0) {
        text_addf(t, " owner %" PRIu64, p->owner);
    }
}

static void why_add_kind(struct text *t, const struct snib_party *p)
{
    switch (p->kind) {
    case SNIB_KIND_READ:
        text_add(t, " for reading");
        break;
    case SNIB_KIND_PERMITS:
        text_addf(t, " (%" PRIu32 " permit%s)", p->permits,
                  p->permits == 1 ? "" : "s");
        break;
    case SNIB_KIND_BARRIER:
        text_add(t, " as a party of its barrier");
        break;
    case SNIB_KIND_MUTEX:
    case SNIB_KIND_WRITE:
        break;
    }
}

/* What the holder itself waits for, and so on until somebody can go on. */
static void why_print_chain(const struct why_locks *all,
                            const struct snib_party *holder)
{
    const struct snib_party *seen[CHAIN_MAX + 1];
    size_t depth = 0;

    seen[depth++] = holder;
    for (;;) {
        char line[LINE] = "";
        struct text t = TEXT_IN(line);
        const struct snib_party *wait;
        const struct snib_view *view = why_next(all, holder, &wait);

        if (view == NULL) {
            if (depth > 1) {
                printf("%*sThat one waits for no other lock: it can go on.\n",
                       (int)(2 * depth), "");
            }
            return;
        }
        text_add(&t,
                 depth > 1 ? "That one waits for " : "It waits itself, for ");
        why_add_name(&t, view);
        why_add_age(&t, ", for ", wait);
        if (view->holder_count == 0) {
            printf("%*s%s, which nobody holds%s.\n", (int)(2 * depth), "", line,
                   view->closed_count > 0 ? " and a lock-delay keeps closed"
                                          : "");
            return;
        }
        holder = view->holders[0];
        text_add(&t, "; held by ");
        why_add_party(&t, holder);
        if (view->holder_count > 1) {
            text_addf(&t, " and %zu more", view->holder_count - 1);
        }
        printf("%*s%s.\n", (int)(2 * depth), "", line);
        for (size_t i = 0; i < depth; i++) {
            if (strcmp(seen[i]->request, holder->request) == 0) {
                printf("%*sThat closes the circle.\n", (int)(2 * depth), "");
                return;
            }
        }
        if (depth > CHAIN_MAX) {
            printf("%*sAnd so on.\n", (int)(2 * depth), "");
            return;
        }
        seen[depth++] = holder;
    }
}

static void why_print_holder(const struct why_locks *all,
                             const struct snib_party *p)
{
    char line[LINE] = "", left[DURATION_TEXT_MAX];
    struct text t = TEXT_IN(line);

    text_add(&t, "held");
    why_add_kind(&t, p);
    text_add(&t, " by ");
    why_add_party(&t, p);
    waitline_program(&t, p);
    why_add_age(&t, ", for ", p);
    duration_text(p->left_ms, left);
    if (p->left_ms > 0) {
        printf("  %s; lease left %s.\n", line, left);
    } else {
        printf("  %s; lease over, until the server ends it.\n", line);
    }
    if (p->keep_ms > 0) {
        duration_text(p->keep_ms, left);
        printf("  It may be released and kept, up to %s: who asks for it gets "
               "it then.\n",
               left);
    }
    why_print_chain(all, p);
}

static void why_print_waiter(const struct snib_party *p, size_t place,
                             const struct kind_params *params)
{
    char line[LINE] = "";
    struct text t = TEXT_IN(line);

    text_addf(&t, "%zu. ", place);
    why_add_party(&t, p);
    if (params->latch > 0 && p->kind == SNIB_KIND_READ) {
        text_add(&t, " for the latch, or for reading");
    } else {
        why_add_kind(&t, p);
    }
    text_add(&t, ", waiting");
    why_add_age(&t, " for ", p);
    printf("  %s.\n", line);
}

static void why_print_closed(const struct snib_party *p)
{
    char line[LINE] = "", left[DURATION_TEXT_MAX];
    struct text t = TEXT_IN(line);

    duration_text(p->left_ms, left);
    if (p->host[0] == '\0') {
        printf("  closed after a holder that ended without a release; open in "
               "%s.\n",
               left);
        return;
    }
    text_add(&t, "closed by the lock-delay of ");
    why_add_party(&t, p);
    why_add_kind(&t, p);
    printf("  %s, which ended without a release; open in %s.\n", line, left);
}

static void why_print_outlook(const struct snib_view *view,
                              const char *no_queue)
{
    int64_t last = 0;
    char left[DURATION_TEXT_MAX], end[DURATION_TEXT_MAX + 60];
    bool one = view->holder_count == 1 || view->waiter_count == 0;

    for (size_t i = 0; i < view->holder_count; i++) {
        last =
            view->holders[i]->left_ms > last ? view->holders[i]->left_ms : last;
    }
    if (view->holder_count == 0) {
        return;
    }
    if (last > 0) {
        duration_text(last, left);
        snprintf(end, sizeof end, "in %s at the earliest if nobody renews %s",
                 left, one ? "it" : "them");
    } else {
        snprintf(end, sizeof end, "when the server ends %s",
                 one ? "it" : "them");
    }
    if (view->waiter_count == 0) {
        printf("  %s%s. It is free when it is released, or %s.\n",
               no_queue != NULL ? "Who waits cannot be seen on "
                                : "Nobody waits",
               no_queue != NULL ? no_queue : "", end);
    } else {
        printf("  Next: the first in the queue, when %s released, or %s.\n",
               one ? "it is" : "enough of them have", end);
    }
}

static void why_print_recovery(const struct snib_view *view)
{
    char left[DURATION_TEXT_MAX], missing[64] = "";
    struct text t = TEXT_IN(missing);

    duration_text(view->recovery_ms, left);
    kind_missing(&t, view->replicas_missing);
    if (view->recovery_ahead) {
        printf(
            "  Nothing new is granted %sfor %s from when the first asks: the "
            "server was\n  restarted, replaced or emptied, or is new, and "
            "may have forgotten who holds.\n  Who does goes on, and is known "
            "again by then.\n",
            missing, left);
        return;
    }
    printf("  Nothing new is granted for %s more: the server was restarted, "
           "replaced or emptied,\n  and may have forgotten who holds. Who does "
           "goes on, and is known again by then.\n",
           left);
}

static void why_print_nobody(const char *name, const struct snib_view *view,
                             const struct kind_params *params)
{
    if (params->latch > 0) {
        printf("%s: a closed latch, %" PRId64
               " step%s to go: nobody passes before.\n",
               name, params->latch, params->latch == 1 ? "" : "s");
    } else if (view->recovery_ms > 0) {
        printf("%s: nobody that the server knows of.\n", name);
    } else if (view->waiter_count == 0) {
        printf("%s: nobody; it is free.\n", name);
    } else if (view->waiters[0]->kind == SNIB_KIND_BARRIER) {
        char line[128] = "";
        struct text t = TEXT_IN(line);

        kind_holders(&t, view, params);
        printf("%s: %s.\n", name, line);
    } else {
        printf("%s: nobody holds it, and %zu wait%s: it is being granted just "
               "now.\n",
               name, view->waiter_count, view->waiter_count == 1 ? "s" : "");
    }
}

void why_print(const struct why_locks *all, const struct snib_view *view,
               const struct kind_params *params)
{
    char line[LINE] = "";
    struct text t = TEXT_IN(line);

    why_add_name(&t, view);
    if (view->holder_count + view->closed_count == 0) {
        why_print_nobody(line, view, params);
    } else {
        printf("%s:\n", line);
    }
    for (size_t i = 0; i < view->holder_count && i < PARTIES_MAX; i++) {
        why_print_holder(all, view->holders[i]);
    }
    if (view->holder_count > PARTIES_MAX) {
        printf("  and %zu more holders.\n", view->holder_count - PARTIES_MAX);
    }
    for (size_t i = 0; i < view->closed_count && i < PARTIES_MAX; i++) {
        why_print_closed(view->closed_by[i]);
    }
    if (view->waiter_count > 0) {
        printf("  %zu wait%s:\n", view->waiter_count,
               view->waiter_count == 1 ? "s" : "");
    }
    for (size_t i = 0; i < view->waiter_count && i < PARTIES_MAX; i++) {
        why_print_waiter(view->waiters[i], i + 1, params);
    }
    if (view->waiter_count > PARTIES_MAX) {
        printf("  and %zu more.\n", view->waiter_count - PARTIES_MAX);
    }
    if (view->recovery_ms > 0) {
        why_print_recovery(view);
    } else {
        why_print_outlook(view, all->no_queue);
    }
}

/* -- cycles --------------------------------------------------------------- */

bool why_in_cycle(const struct snib_cycle *c, const struct snib_view *view)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->waits[i]->name_size == view->name_size &&
            memcmp(c->waits[i]->name, view->name, view->name_size) == 0) {
            return true;
        }
    }
    return false;
}

/* The holder above that waiter, another client; NULL: it holds the lock itself,
 * or its grants are not known. */
static const struct snib_party *why_above(const struct why_locks *all,
                                          const struct snib_wait *w,
                                          const struct snib_party *waiter)
{
    const struct snib_view *view = why_find(all, w->name, w->name_size);

    for (size_t i = 0; view != NULL && i < view->holder_count; i++) {
        if (why_holds(waiter, view->holders[i]) &&
            strcmp(view->holders[i]->client_id, waiter->client_id) != 0) {
            return view->holders[i];
        }
    }
    return NULL;
}

/* "; held by …": the next one of the circle, which waits itself. */
static void why_add_next(struct text *t, const struct why_locks *all,
                         const struct snib_wait *w,
                         const struct snib_party *next)
{
    const struct snib_party *above = w->behind ? NULL : why_above(all, w, next);

    text_add(t, w->behind ? "; ahead in the queue is " : "; held by ");
    if (above != NULL) {
        why_add_party(t, above);
        text_add(t, ", in whose command waits ");
    }
    why_add_party(t, next);
}

void why_print_cycle(const struct why_locks *all, const struct snib_cycle *c)
{
    printf("DEADLOCK of %zu%s:\n", c->count,
           c->certain ? "" : ", as far as can be seen");
    for (size_t i = 0; i < c->count; i++) {
        const struct snib_wait *w = c->waits[i];
        char line[LINE] = "";
        struct text t = TEXT_IN(line);

        why_add_party(&t, w->who);
        text_add(&t, " waits for ");
        text_add_shown(&t, w->name, w->name_size);
        why_add_age(&t, ", for ", w->who);
        why_add_next(&t, all, w, c->waits[(i + 1) % c->count]->who);
        printf("  %s.\n", line);
    }
    if (c->certain) {
        printf("  The first of these came last and is refused within some "
               "seconds; the others go on when it releases what it holds.\n");
    } else {
        printf("  Nobody is refused: any thread of these processes may give "
               "back permits. If none does, end one of the processes.\n");
    }
}

json_t *why_json_cycle(const struct snib_cycle *c)
{
    json_t *o = json_object(), *waits = json_array();

    for (size_t i = 0; i < c->count; i++) {
        const struct snib_wait *w = c->waits[i];
        json_t *one = json_object();

        show_json_name(one, w->name, w->name_size);
        json_object_set_new(one, "waiter", show_json_party(w->who, false));
        json_object_set_new(one, "behind", json_boolean(w->behind));
        json_array_append_new(waits, one);
    }
    json_object_set_new(o, "certain", json_boolean(c->certain));
    json_object_set_new(o, "waits", waits);
    return o;
}
