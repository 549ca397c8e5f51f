/* kinds.c — to whom a step belongs, and what the kinds share. */
#include "kinds.h"

#include "snib/latch.h"
#include "snib/test.h"

const char kinds_not[] = "";

/* -- traffic ------------------------------------------------------------------- */

struct traffic kinds_begin(struct traffic *t)
{
    struct traffic was = *t;
    t->moves++;
    t->under_way++;
    return was;
}

bool kinds_over(struct traffic *t, struct traffic was)
{
    bool alone = !was.under_way && t->moves == was.moves + 1;
    t->moves++;
    t->under_way--;
    return alone;
}

bool kinds_calm(const struct traffic *t, struct traffic was)
{
    return !was.under_way && t->moves == was.moves;
}

/* -- steps ----------------------------------------------------------------------- */

/* The next answer to its client does not come. */
static void lose(struct world *w, struct actor *a)
{
    w->value.lost++;
    judge_answer(w, a, VERB_LOSE,
                 snib_test_drop_replies(w->client[a->client], 1));
}

bool kinds_act(struct world *w, struct actor *a, const struct step *s)
{
    switch (s->thing) {
    case 'l':
    case 'm':
        gates_act(w, a, s->verb);
        return true;
    case 'e':
    case 'o':
        elections_act(w, a, s);
        return true;
    case 'x':
        multis_act(w, a, s->verb);
        return true;
    case 'v':
        values_act(w, a, s->verb);
        return true;
    default:
        if (s->verb == VERB_LOSE) {
            lose(w, a);
            return true;
        }
        return false;
    }
}

/* They block, so not in a pull client; and a slow store has no switches. */
bool kinds_out_of_place(const struct world *w, const struct actor *a,
                        const struct step *s)
{
    bool kind = s->thing == 'l' || s->thing == 'm' || s->thing == 'e' ||
                s->thing == 'o' || s->thing == 'v';
    if (s->thing == 'x') {
        return multis_out_of_place(w, a, s->verb);
    }
    if (s->verb == VERB_LOSE || s->verb == VERB_DRAIN || kind) {
        return w->pull || (s->verb == VERB_LOSE && w->slow);
    }
    return false;
}

const char *kinds_idle(const struct world *w, const struct actor *a)
{
    switch (a->now) {
    case VERB_SET:
    case VERB_DOWN:
    case VERB_AWAIT:
    case VERB_AWAIT5:
    case VERB_MEET:
    case VERB_MEET5:
        return gates_idle(w, a);
    case VERB_CAMPAIGN:
    case VERB_CAMPAIGN5:
    case VERB_RESIGN:
    case VERB_WATCH:
    case VERB_LEADS:
        return elections_idle(w, a);
    case VERB_GET:
    case VERB_PUT:
    case VERB_UPDATE:
        return values_idle(w, a);
    default:
        return kinds_not;
    }
}

/* -- beginning and end --------------------------------------------------------------- */

void kinds_open(struct world *w, struct actor *a, char thing)
{
    if (thing == 'x') {
        multis_open(w, a);
    }
    if (w->pull) {
        return;
    }
    if (thing == 'e' || thing == 'o') {
        elections_open(w, a, thing);
    }
    w->value.used |= thing == 'v';
}

void kinds_opened(struct world *w)
{
    if (w->closed && snib_latch_set(w->stranger, "l", 0, 2, NULL, NULL)) {
        sched_fail("the latch cannot be set");
    }
}

void kinds_clean_up(struct world *w, struct actor *a)
{
    multis_clean_up(w, a);
    elections_clean_up(w, a);
}

void kinds_close(struct world *w)
{
    elections_close(w);
    multis_close(w);
}

void kinds_end(struct world *w)
{
    gates_end(w);
    values_end(w);
}
