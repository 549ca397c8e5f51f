/* sim/several.c — the script of a batch (several.lua), told as what it does to
 * each of its locks: as if acquire.lua had been asked for each, with the answer
 * that several.lua gives for it. So the books, and the theorems that read them,
 * need not know that it was one step. They look at all names when the whole
 * script has run, since nobody sees it half done.
 *
 * A grant that the script gave and took back is told as an acquire that was not
 * granted. A name behind the first that was refused was not looked at: it is no
 * step at all. */
#include <stdlib.h>
#include <string.h>

#include "sim/world.h"

enum { HEAD = 3, KEYS = 7, ARGS = 16, CODE_GRANTED = 1, CODE_OVER = 10 };

/* The end of one RESP value. */
static const char *skip(const char *p, const char *end)
{
    const char *wire = memchr(p, '\n', (size_t)(end - p));
    if (!wire) {
        return end;
    }
    long n = strtol(p + 1, NULL, 10);
    char type = *p;
    p = wire + 1;
    if (type == '$' && n >= 0) {
        return end - p > n + 2 ? p + n + 2 : end;
    }
    for (; type == '*' && n > 0 && p < end; n--) {
        p = skip(p, end);
    }
    return p;
}

/* The i-th number of an array of numbers; 0: none. */
static int64_t number_at(const char *p, const char *end, int i)
{
    const char *wire = memchr(p, '\n', (size_t)(end - p));
    for (p = wire ? wire + 1 : end; i > 0 && p < end; i--) {
        p = skip(p, end);
    }
    return p < end && *p == ':' ? strtoll(p + 1, NULL, 10) : 0;
}

static int count_of(const struct sim_redis_event *ev)
{
    if (!ev->script || ev->argc < HEAD + 1) {
        return 0;
    }
    long keys = strtol(ev->argv[2].ptr, NULL, 10), n = keys / KEYS;
    bool ok = keys > 0 && keys % KEYS == 0 && n >= 2 && n <= SIM_BATCH &&
              ev->argc == HEAD + n * KEYS + 1 + n * ARGS;
    return ok ? (int)n : 0;
}

static void one_of(const struct sim_redis_event *ev, int count, int k,
                   struct sim_part_step *ret)
{
    const struct sim_redis_arg *keys = ev->argv + HEAD + k * KEYS;
    const struct sim_redis_arg *args =
        ev->argv + HEAD + count * KEYS + 1 + k * ARGS;
    ret->argv[0] = ev->argv[0];
    ret->argv[1] = ev->argv[1];
    ret->argv[2] = (struct sim_redis_arg){.ptr = "7", .len = 1};
    memcpy(ret->argv + HEAD, keys, KEYS * sizeof *keys);
    memcpy(ret->argv + HEAD + KEYS, args, ARGS * sizeof *args);
    ret->ev = *ev;
    ret->ev.argc = SIM_SCRIPT_ACQUIRE;
    ret->ev.argv = ret->argv;
}

bool sim_several(const struct sim_world *w, const struct sim_redis_event *ev,
                 struct sim_batch *ret)
{
    int n = w->opt.many_pct ? count_of(ev) : 0;
    const char *p = ev->reply, *end = p + ev->reply_len;
    if (!n || !ev->reply_len || *p != '*') { /* an error: nothing was done */
        return false;
    }
    ret->count = n;
    ret->missed = -1;
    ret->all = ev->argv[HEAD + n * KEYS].ptr[0] == '1';
    p = memchr(p, '\n', ev->reply_len);
    p = p ? p + 1 : end;
    for (int k = 0; k < n; k++) {
        struct sim_part_step *one = &ret->part[k];
        const char *next = p < end ? skip(p, end) : end;
        one_of(ev, n, k, one);
        one->ev.reply = p;
        one->ev.reply_len = (size_t)(next - p);
        one->name = sim_name_of(w, one->argv[SIM_ARG_KEY].ptr, "");
        one->code = number_at(p, next, 0);
        one->token = one->code == CODE_GRANTED ? number_at(p, next, 2) : 0;
        one->looked_at =
            one->code && (one->code != CODE_OVER || ret->missed < 0);
        if (ret->missed < 0 && one->code != CODE_GRANTED &&
            one->code != CODE_OVER) {
            ret->missed = k;
        }
        p = next;
    }
    return true;
}
