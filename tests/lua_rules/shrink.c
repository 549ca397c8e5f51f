/* shrink.c — a history that differs, made small. */
#include "run.h"

static char shrink_why[sizeof world.why];

/* In the same thing; of answers in the same answers. */
static bool shrink_differs(const struct history *h)
{
    size_t n = strcspn(shrink_why, ":");
    run->history = *h;
    return run_differs(false, false) &&
           strncmp(run->why, shrink_why, n + 1) == 0 &&
           (strncmp(run->why, "answer", n) != 0 ||
            strcmp(run->why, shrink_why) == 0);
}

static void shrink_leave_out(struct history *h, int size)
{
    for (int at = h->count - size; at >= 0; at--) {
        struct history less = *h;
        memmove(&less.step[at], &less.step[at + size],
                (size_t)(h->count - at - size) * sizeof *less.step);
        less.count -= size;
        if (shrink_differs(&less)) {
            *h = less;
        }
        at = at > h->count - size ? h->count - size + 1 : at;
    }
}

static void shrink_wish(struct wish *w, int what)
{
    switch (what) {
    case 0:
        w->delay_ms = 0;
        break;
    case 1:
        w->rank = 0;
        break;
    case 2:
        w->reserve = 0;
        break;
    case 3:
        w->floor = FLOOR_NONE;
        break;
    case 4:
        w->base = NOBODY;
        break;
    case 5:
        w->lease_ms = 3000;
        break;
    default:
        w->kind = SNIB_KIND_MUTEX;
        w->permits = 1;
        w->capacity = 0;
        break;
    }
}

static void shrink_step(struct step *s, int what)
{
    switch (what) {
    case 0:
        s->lost = NOBODY;
        break;
    case 1:
        s->resent = s->again = s->late = s->wrong = s->asks = false;
        break;
    case 2:
        s->late = s->again = false;
        break;
    case 3:
        s->keep = false;
        break;
    case 4:
        s->ms = s->ms > 1000 ? 1000 : 1;
        break;
    case 5:
        s->act = s->act == YIELD ? ACQUIRE : s->act;
        break;
    case 6:
        s->count = s->count > 1 ? s->count - 1 : s->count;
        break;
    default:
        shrink_wish(&s->wish[0], what - 7);
        break;
    }
}

static void shrink_numbers(struct history *h)
{
    for (int i = 0; i < h->count; i++) {
        for (int what = 0; what < 14; what++) {
            struct history plain = *h;
            shrink_step(&plain.step[i], what);
            if (memcmp(&plain, h, sizeof plain) != 0 &&
                shrink_differs(&plain)) {
                *h = plain;
            }
        }
    }
}

void run_shrink(void)
{
    struct history h = run->history;
    memcpy(shrink_why, run->why, sizeof shrink_why);
    h.count = run->differs_at + 1;
    for (int size = h.count / 2; size > 0; size /= 2) {
        shrink_leave_out(&h, size);
    }
    shrink_numbers(&h);
    shrink_leave_out(&h, 1);
    run->history = h;
}
