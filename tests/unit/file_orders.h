/* tests/unit/file_orders.h — two processes inside a mapped file, in every order of
 * their accesses with a few changes from one to the other.
 *
 * The processes are the production code, each on a stack of its own. Before
 * each access to the file (store/file/access.h) it is decided who goes on, or
 * whether who runs dies there. All decisions are gone through, depth first. */
#ifndef SNIB_TESTS_FILE_ORDERS_H
#define SNIB_TESTS_FILE_ORDERS_H

#include <ucontext.h>

#include "file_store.h"

enum { A, B, NOBODY };
enum { STACK = 256 * 1024, DEEP = 2000 };

static struct {
    ucontext_t back, at[2];
    _Alignas(16) uint8_t stack[2][STACK];
    bool done[2], dead[2];
    int runs; /* who */
    int changes_left, deaths_left;
    int spared; /* who does not die; NOBODY */
    void (*program)(int who);
    /* The decisions of this run: which of how many. */
    uint8_t path[DEEP], many[DEEP];
    int depth, known;
} s;

/* -- deciding -------------------------------------------------------------------- */

static int choose(int many)
{
    assert_true(s.depth < DEEP);
    if (s.depth >= s.known) {
        s.path[s.depth] = 0;
        s.known = s.depth + 1;
    }
    s.many[s.depth] = (uint8_t)many;
    return s.path[s.depth++];
}

/* The next run's decisions. False: all were gone through. */
static bool next_path(void)
{
    for (int i = s.depth - 1; i >= 0; i--) {
        if (s.path[i] + 1 < s.many[i]) {
            s.path[i]++;
            s.known = i + 1;
            return true;
        }
    }
    return false;
}

static void leave(void)
{
    int me = s.runs;
    swapcontext(&s.at[me], &s.back);
}

static void before_access(void *data, const char *what)
{
    (void)data;
    (void)what;
    if (s.runs == NOBODY) {
        return;
    }
    int other = !s.runs;
    bool may_change = s.changes_left > 0 && !s.done[other] && !s.dead[other];
    bool may_die = s.deaths_left > 0 && s.runs != s.spared;
    int what_now = choose(1 + may_change + may_die);
    if (what_now == 0) {
        return;
    }
    if (what_now == 1 && may_change) {
        s.changes_left--;
    } else {
        s.deaths_left--;
        s.dead[s.runs] = true;
    }
    leave();
}

static void body(void)
{
    int me = s.runs;
    s.program(me);
    s.done[me] = true;
    leave();
}

static void begin(int who)
{
    getcontext(&s.at[who]);
    s.at[who].uc_stack.ss_sp = s.stack[who];
    s.at[who].uc_stack.ss_size = STACK;
    s.at[who].uc_link = NULL;
    makecontext(&s.at[who], body, 0);
    s.done[who] = s.dead[who] = false;
}

static void run_both(void)
{
    begin(A);
    begin(B);
    s.depth = 0;
    s.runs = A;
    int who = A;
    for (;;) {
        s.runs = who;
        swapcontext(&s.back, &s.at[who]);
        int other = !who;
        if (!s.done[other] && !s.dead[other]) {
            who = other;
        } else if (s.done[who] || s.dead[who]) {
            break;
        }
    }
    s.runs = NOBODY;
}

/* -- the file as it was --------------------------------------------------------------- */

static uint8_t *as_it_was;
static size_t size_of_it;
static struct snib__file was[2];

static void keep_state(void)
{
    struct snib__map *m = &self_of(0)->map;
    size_of_it = (size_t)atomic_load(&m->head->top) * SNIB__FILE_UNIT + 65536;
    if (size_of_it > atomic_load(&m->head->size)) {
        size_of_it = atomic_load(&m->head->size);
    }
    as_it_was = malloc(size_of_it);
    memcpy(as_it_was, m->base, size_of_it);
    was[0] = *self_of(0);
    was[1] = *self_of(1);
}

/* Memory of the instances stays theirs. */
static void restore_state(void)
{
    memcpy(self_of(0)->map.base, as_it_was, size_of_it);
    for (int i = 0; i < 2; i++) {
        struct snib__file *f = self_of(i);
        struct snib__copy copy = f->copy, value = f->value;
        *f = was[i];
        f->copy = copy;
        f->value = value;
    }
}

#endif
