/* sim/events.c — true time, the clocks of clients and servers, the heap of
 * events, and what is said of a world: its timeline, and the theorem that
 * broke. */
#include <stdarg.h>
#include <stdlib.h>

#include "sim/world.h"

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

/* The number of an event decides between two at the same time. */
static void insert(struct sim_world *w, struct sim_event ev)
{
    if (w->heap_size + 1 >= w->heap_cap) {
        w->heap_cap = w->heap_cap ? 2 * w->heap_cap : 256;
        w->heap = realloc(w->heap, w->heap_cap * sizeof *w->heap);
        if (!w->heap) {
            abort();
        }
    }
    size_t i = ++w->heap_size;
    for (; i > 1 && before(&ev, &w->heap[i / 2]); i /= 2) {
        w->heap[i] = w->heap[i / 2];
    }
    w->heap[i] = ev;
}

void sim_push(struct sim_world *w, struct sim_event ev)
{
    ev.seq = ++w->seq;
    insert(w, ev);
}

void sim_put_off(struct sim_world *w, struct sim_event ev, int64_t until)
{
    ev.at = until;
    insert(w, ev);
}

struct sim_event sim_pop(struct sim_world *w)
{
    struct sim_event top = w->heap[1], last = w->heap[w->heap_size--];
    size_t i = 1, child;
    for (; (child = 2 * i) <= w->heap_size; i = child) {
        if (child < w->heap_size &&
            before(&w->heap[child + 1], &w->heap[child])) {
            child++;
        }
        if (!before(&w->heap[child], &last)) {
            break;
        }
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = last;
    return top;
}

int64_t sim_local(const struct sim_client *c, int64_t t)
{
    return c->offset + t + t / 1000000 * c->ppm;
}

int64_t sim_true(const struct sim_client *c, int64_t own_time)
{
    int64_t t = (int64_t)((double)(own_time - c->offset) /
                          (1.0 + (double)c->ppm / 1e6));
    while (sim_local(c, t) < own_time) {
        t += 1000;
    }
    return t;
}

int64_t sim_wall_us(const struct sim_world *w, int node)
{
    return w->wall_base_us + w->node[node].step_us + w->t / 1000 +
           w->t / 1000000000 * w->node[node].ppm;
}

void sim_note(struct sim_world *w, const char *fmt, ...)
{
    if (w->trace) {
        va_list ap;
        fprintf(w->trace, "%12.6f ", (double)w->t / 1e9);
        va_start(ap, fmt);
        vfprintf(w->trace, fmt, ap);
        va_end(ap);
        fputc('\n', w->trace);
    }
}

void sim_fail(struct sim_world *w, const char *theorem, const char *fmt, ...)
{
    if (w->failed) {
        return;
    }
    w->failed = true;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(w->why, sizeof w->why, fmt, ap);
    va_end(ap);
    snprintf(w->theorem, sizeof w->theorem, "%s", theorem);
    sim_note(w, "FAILED %s: %s", theorem, w->why);
}
