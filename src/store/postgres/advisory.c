/* store/postgres/advisory.c — advisory locks, as store/sql/native.h wants to have
 * them. */
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/postgres/postgres_i.h"

struct pg_hold {
    struct snib__sql_hold is; /* first member */
    struct snib__pg_conn conn;
    char text[96]; /* of what it waits with */
};

static struct pg_hold *advisory_of(struct snib__sql_hold *h)
{
    return (struct pg_hold *)(void *)h;
}

/* -- statements ------------------------------------------------------------ */

static void advisory_add(struct snib__sql_script *t, int statement,
                         const struct snib__name *name, snib__sql_row *see,
                         void *data)
{
    struct snib__pg_key key = snib__pg_key_of(name->raw, name->raw_size);
    snib__sql_add(t, statement, see, data);
    snib__sql_int(t, key.pair);
    snib__sql_int(t, key.pair ? key.high : key.one);
    snib__sql_int(t, key.low);
}

static void advisory_add_try(struct snib__sql_script *t,
                             const struct snib__name *name, snib__sql_row *see,
                             void *data)
{
    advisory_add(t, SNIB__PG_ADVISORY_TRY, name, see, data);
}

static void advisory_add_unlock(struct snib__sql_script *t,
                                const struct snib__name *name,
                                snib__sql_row *see, void *data)
{
    advisory_add(t, SNIB__PG_ADVISORY_UNLOCK, name, see, data);
}

static void advisory_add_look(struct snib__sql_script *t,
                              const struct snib__name *name, snib__sql_row *see,
                              void *data)
{
    struct snib__pg_key key = snib__pg_key_of(name->raw, name->raw_size);
    snib__sql_add(t, SNIB__PG_ADVISORY_LOOK, see, data);
    snib__sql_int(t, (int64_t)(uint32_t)key.high);
    snib__sql_int(t, (int64_t)(uint32_t)key.low);
    snib__sql_int(t, key.pair ? 2 : 1);
}

static void advisory_add_clock(struct snib__sql_script *t, snib__sql_row *see,
                               void *data)
{
    snib__sql_add(t, SNIB__PG_ADVISORY_CLOCK, see, data);
}

static void advisory_add_stay(struct snib__sql_script *t, int64_t ms)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)ms);
    snib__sql_add(t, SNIB__PG_ADVISORY_STAY, NULL, NULL);
    snib__sql_string(t, text);
}

static void advisory_add_cancel(struct snib__sql_script *t,
                                const struct snib__sql_hold *h)
{
    const struct pg_hold *mine = (const struct pg_hold *)(const void *)h;
    snib__sql_add(t, SNIB__PG_ADVISORY_CANCEL, NULL, NULL);
    snib__sql_int(t, mine->conn.store->pq.PQbackendPID(mine->conn.c));
}

/* -- connections ----------------------------------------------------------- */

static void advisory_free(struct snib__sql_hold *h)
{
    snib__pg_quit(&advisory_of(h)->conn);
    snib__sql_script_free(&h->script);
    snib__free(h);
}

static snib__sql_end advisory_connect(struct snib__sql_session *s,
                                      snib_instant until,
                                      struct snib__sql_hold **ret,
                                      struct snib_error *fault)
{
    struct pg_hold *h = snib__alloc(sizeof *h);
    if (!h) {
        snib__fail_plain(fault, SNIB_ERR_NOMEM);
        return SNIB__SQL_REFUSED;
    }
    h->conn.store = snib__pg_of(&s->sql)->store;
    snib__link_init(&h->is.link);
    snib__sql_script_init(&h->is.script);
    snib__sql_end end =
        snib__pg_connect_lock(&h->conn, &s->script, until, fault);
    if (end) {
        advisory_free(&h->is);
        return end == SNIB__SQL_LOST ? SNIB__SQL_DOWN : end;
    }
    *ret = &h->is;
    return SNIB__SQL_OK;
}

static int advisory_fd(const struct snib__sql_hold *h)
{
    const struct pg_hold *mine = (const struct pg_hold *)(const void *)h;
    return mine->conn.c ? mine->conn.store->pq.PQsocket(mine->conn.c) : -1;
}

static snib__sql_end advisory_run(struct snib__sql_hold *h,
                                  struct snib__sql_script *t,
                                  snib_instant until, struct snib_error *fault)
{
    return snib__pg_run(&advisory_of(h)->conn, t, 1, until, fault);
}

static bool advisory_ask(struct snib__sql_hold *h)
{
    return !h->script.failed &&
           snib__pg_send(&advisory_of(h)->conn, &h->script);
}

static bool advisory_wait(struct snib__sql_hold *hold,
                          const struct snib__name *name)
{
    struct pg_hold *h = advisory_of(hold);
    struct snib__pg_key key = snib__pg_key_of(name->raw, name->raw_size);
    if (key.pair) {
        snprintf(h->text, sizeof h->text, "SELECT pg_advisory_lock(%ld,%ld)",
                 (long)key.high, (long)key.low);
    } else {
        snprintf(h->text, sizeof h->text, "SELECT pg_advisory_lock(%lld)",
                 (long long)key.one);
    }
    snib__sql_script_clear(&hold->script);
    snib__sql_add_text(&hold->script, h->text);
    snib__sql_sync(&hold->script);
    return advisory_ask(hold);
}

static bool advisory_heard(struct snib__sql_hold *hold)
{
    struct pg_hold *h = advisory_of(hold);
    const struct snib__pq *pq = &h->conn.store->pq;
    return !pq->PQconsumeInput(h->conn.c) || snib__pg_is_cut(&h->conn) ||
           ((hold->waits || hold->owes) && !pq->PQisBusy(h->conn.c));
}

static bool advisory_await(struct snib__sql_hold *hold, snib_instant until)
{
    struct pg_hold *h = advisory_of(hold);
    const struct snib__pq *pq = &h->conn.store->pq;
    while (!advisory_heard(hold)) {
        if (!snib__pg_wait(&h->conn, true, pq->PQflush(h->conn.c) > 0, until)) {
            return false;
        }
    }
    return true;
}

static snib__sql_end advisory_take(struct snib__sql_hold *hold,
                                   snib_instant until, struct snib_error *fault)
{
    return snib__pg_take(&advisory_of(hold)->conn, &hold->script, until, fault);
}

const struct snib__sql_native_ops snib__pg_advisory = {
    .add_try = advisory_add_try,
    .add_unlock = advisory_add_unlock,
    .add_look = advisory_add_look,
    .add_clock = advisory_add_clock,
    .add_stay = advisory_add_stay,
    .add_cancel = advisory_add_cancel,
    .connect = advisory_connect,
    .free = advisory_free,
    .fd = advisory_fd,
    .run = advisory_run,
    .wait = advisory_wait,
    .ask = advisory_ask,
    .heard = advisory_heard,
    .await = advisory_await,
    .take = advisory_take,
    .kinds = "advisory locks are mutexes only here; leave ?dialect= out for "
             "other kinds",
    .delay = "an advisory lock keeps no lock-delay; leave it out",
    .priority = "who waits for an advisory lock comes in the order of arrival; "
                "there are no priorities",
    .list = "the server knows the numbers of advisory locks, not their names, "
            "so they cannot be listed; pg_locks shows them",
    .force = "an advisory lock is ended by pg_terminate_backend() alone "
             "(docs/ADVISORY.md)",
    .rest = "with advisory locks there are mutexes only, no semaphores, "
            "latches or values; leave ?dialect= out for these",
};
