/* tests/live/database_memory.c — each allocation fails once while a client uses a
 * database server: acquire, queue in vain, list, put a value, release.
 * Whatever it is told is documented, nothing stays alive, and another client gets the locks.
 *
 * usage: database_memory URL */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "snib.h"
#include "snib/inspect.h"
#include "snib/value.h"

static const char *url, *wrong;

static void expect(bool good, const char *what)
{
    if (!good && !wrong) {
        wrong = what;
    }
}

/* True: it went well. */
static bool well(snib_err err, const char *what)
{
    expect(err == SNIB_ERR_OK || err == SNIB_ERR_NOMEM ||
               err == SNIB_ERR_UNKNOWN || err == SNIB_ERR_UNREACHABLE ||
               err == SNIB_ERR_TIMEOUT || err == SNIB_ERR_LIMIT ||
               err == SNIB_ERR_LOST,
           what);
    return err == SNIB_ERR_OK;
}

static struct snib_client *opened(void)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c = NULL;
    o.url = url;
    o.request_ms = 3000;
    (void)well(snib_client_open(&o, &c, NULL), "open");
    return c;
}

static bool use(struct snib_client *c, struct snib_lock *free_one,
                struct snib_lock *taken)
{
    struct snib_grant g, none;
    struct snib_view **views = NULL;
    size_t count = 0;
    int64_t version;
    bool all = well(snib_try_for(free_one, 3000, NULL, &g, NULL), "acquire");
    snib_err err = snib_try_for(taken, 60, NULL, &none, NULL);
    all = !well(err, "queue") && err == SNIB_ERR_TIMEOUT && all;
    all = well(snib_client_list(c, "*", &views, &count, NULL), "list") && all;
    snib_views_free(views, count);
    err = snib_value_put(c, "v", 0, 0, "x", 1, 60000, &version, NULL);
    all = (err == SNIB_ERR_BUSY || well(err, "put")) && all;
    if (g.ticket) {
        all = well(snib_release(free_one, g, NULL), "release") && all;
    }
    return all;
}

/* True: nothing was in the way. */
static bool one_run(void)
{
    struct snib_client *c = opened();
    struct snib_lock *l = NULL, *m = NULL;
    bool all = c && well(snib_lock_new(c, "memory", NULL, &l, NULL), "lock") &&
               well(snib_lock_new(c, "memory-taken", NULL, &m, NULL), "lock") &&
               use(c, l, m);
    if (c) {
        snib_client_free(c);
    }
    return all;
}

static bool came(void)
{
    void *p[64];
    int n = 0;
    while (n < 64 && (p[n] = snib__alloc(1))) {
        n++;
    }
    bool all = n == 64;
    while (n > 0) {
        snib__free(p[--n]);
    }
    return !all;
}

int main(int count, char **args)
{
    struct snib_client *other;
    struct snib_lock *l, *m;
    struct snib_grant g, h;
    struct snib_error e;
    bool passed = false;
    int64_t n = 0;
    url = count > 1 ? args[1] : "";
    other = opened();
    if (!other || snib_lock_new(other, "memory", NULL, &l, &e) ||
        snib_lock_new(other, "memory-taken", NULL, &m, &e) ||
        snib_try_for(m, 5000, NULL, &g, &e)) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    while (!passed && !wrong && n < 3000) {
        snib__mem_fail_at(++n, false);
        bool all = one_run();
        bool comes_now = came();
        snib__mem_fail_at(0, false);
        passed = all && comes_now;
        snib_err err = snib_try_for(l, 8000, NULL, &h, &e);
        expect(err == SNIB_ERR_OK, "left held");
        if (err) {
            printf("%s\n", e.text);
        }
        expect(snib_release(l, h, &e) == SNIB_ERR_OK, "release afterwards");
    }
    (void)snib_release(m, g, NULL);
    snib_client_free(other);
    expect(snib__mem_alive() == 0, "blocks are alive");
    printf("%lld allocations: %s\n", (long long)n, wrong ? wrong : "ok");
    return wrong || !passed;
}
