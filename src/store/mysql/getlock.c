/* store/mysql/getlock.c — named locks, as store/sql/native.h wants to have them.
 *
 * A call of the library that waits must go on in the thread in which it began. So a
 * statement that waits for a lock is sent by one call, and its answer read by
 * another one, when it has come. */
#include "base/error.h"
#include "base/mem.h"
#include "store/mysql/mysql_i.h"

enum {
    GETLOCK_FOR_EVER_S = 31536000, /* the server knows no longer time */
    GETLOCK_SEND_MS = 2000
};

struct my_hold {
    struct snib__sql_hold is; /* first member */
    struct snib__my_conn conn;
    bool got; /* what it has waited for */
};

static struct my_hold *getlock_of(struct snib__sql_hold *h)
{
    return (struct my_hold *)(void *)h;
}

static const struct my_hold *getlock_of_const(const struct snib__sql_hold *h)
{
    return (const struct my_hold *)(const void *)h;
}

/* -- statements ------------------------------------------------------------ */

static void getlock_add(struct snib__sql_script *t, int statement,
                        const struct snib__name *name, snib__sql_row *see,
                        void *data)
{
    snib__sql_add(t, statement, see, data);
    snib__sql_name(t, name);
}

static void getlock_add_try(struct snib__sql_script *t,
                            const struct snib__name *name, snib__sql_row *see,
                            void *data)
{
    getlock_add(t, SNIB__MY_GETLOCK_TRY, name, see, data);
}

static void getlock_add_unlock(struct snib__sql_script *t,
                               const struct snib__name *name,
                               snib__sql_row *see, void *data)
{
    getlock_add(t, SNIB__MY_GETLOCK_UNLOCK, name, see, data);
}

static void getlock_add_look(struct snib__sql_script *t,
                             const struct snib__name *name, snib__sql_row *see,
                             void *data)
{
    getlock_add(t, SNIB__MY_GETLOCK_LOOK, name, see, data);
}

static void getlock_add_clock(struct snib__sql_script *t, snib__sql_row *see,
                              void *data)
{
    snib__sql_add(t, SNIB__MY_GETLOCK_CLOCK, see, data);
}

/* The server counts in seconds: never in fewer than were asked for. */
static void getlock_add_stay(struct snib__sql_script *t, int64_t ms)
{
    int64_t s = (ms + 999) / 1000;
    snib__sql_add(t, SNIB__MY_GETLOCK_STAY, NULL, NULL);
    snib__sql_int(t, s < GETLOCK_FOR_EVER_S ? s : GETLOCK_FOR_EVER_S);
}

static void getlock_add_cancel(struct snib__sql_script *t,
                               const struct snib__sql_hold *h)
{
    const struct snib__my_conn *k = &getlock_of_const(h)->conn;
    snib__sql_add(t, SNIB__MY_GETLOCK_CANCEL, NULL, NULL);
    snib__sql_int(t, (int64_t)k->store->lib.mysql_thread_id(k->c));
}

/* -- connections ----------------------------------------------------------- */

static void getlock_free(struct snib__sql_hold *h)
{
    snib__my_quit(&getlock_of(h)->conn);
    snib__sql_script_free(&h->script);
    snib__free(h);
}

static snib__sql_end getlock_connect(struct snib__sql_session *s,
                                     snib_instant until,
                                     struct snib__sql_hold **ret,
                                     struct snib_error *fault)
{
    struct my_hold *h = snib__alloc(sizeof *h);
    if (!h) {
        snib__fail_plain(fault, SNIB_ERR_NOMEM);
        return SNIB__SQL_REFUSED;
    }
    h->conn.store = snib__my_of(&s->sql)->store;
    snib__link_init(&h->is.link);
    snib__sql_script_init(&h->is.script);
    snib__sql_end end =
        snib__my_connect_lock(&h->conn, &s->script, until, fault);
    if (end) {
        getlock_free(&h->is);
        return end == SNIB__SQL_LOST ? SNIB__SQL_DOWN : end;
    }
    *ret = &h->is;
    return SNIB__SQL_OK;
}

static int getlock_fd(const struct snib__sql_hold *h)
{
    const struct snib__my_conn *k = &getlock_of_const(h)->conn;
    return k->c ? k->store->lib.mysql_get_socket(k->c) : -1;
}

static snib__sql_end getlock_run(struct snib__sql_hold *h,
                                 struct snib__sql_script *t, snib_instant until,
                                 struct snib_error *fault)
{
    return snib__my_run(&getlock_of(h)->conn, t, 1, until, fault);
}

static bool getlock_ask(struct snib__sql_hold *h)
{
    snib_instant until =
        snib__after(snib__sql_now(), snib__ms(GETLOCK_SEND_MS));
    return snib__my_send_script(&getlock_of(h)->conn, &h->script, until);
}

static void getlock_see_got(void *data, struct snib__sql_rows *rows)
{
    /* NULL: an error of it */
    ((struct my_hold *)data)->got = snib__sql_get_int(rows, 0, 0) == 1;
}

static bool getlock_wait(struct snib__sql_hold *hold,
                         const struct snib__name *name)
{
    struct my_hold *h = getlock_of(hold);
    struct snib__sql_script *t = &hold->script;
    h->got = false;
    snib__sql_script_clear(t);
    getlock_add(t, SNIB__MY_GETLOCK_WAIT, name, getlock_see_got, h);
    snib__sql_int(t, GETLOCK_FOR_EVER_S);
    snib__sql_sync(t);
    return getlock_ask(hold);
}

/* Nothing comes but what was waited for, or is owed, and the end. */
static bool getlock_heard(struct snib__sql_hold *h)
{
    struct snib__my_conn *k = &getlock_of(h)->conn;
    return !k->c || snib__my_is_cut(k);
}

static bool getlock_await(struct snib__sql_hold *h, snib_instant until)
{
    int stop = getlock_of(h)->conn.store->stop;
    while (!getlock_heard(h)) {
        if (!snib__sql_wait(getlock_fd(h), stop, true, false, until)) {
            return false;
        }
    }
    return true;
}

static snib__sql_end getlock_take(struct snib__sql_hold *hold,
                                  snib_instant until, struct snib_error *fault)
{
    struct my_hold *h = getlock_of(hold);
    snib__sql_end end =
        snib__my_take_script(&h->conn, &hold->script, until, fault);
    return !end && hold->waits && !h->got ? SNIB__SQL_CONFLICT : end;
}

const struct snib__sql_native_ops snib__my_getlock = {
    .add_try = getlock_add_try,
    .add_unlock = getlock_add_unlock,
    .add_look = getlock_add_look,
    .add_clock = getlock_add_clock,
    .add_stay = getlock_add_stay,
    .add_cancel = getlock_add_cancel,
    .connect = getlock_connect,
    .free = getlock_free,
    .fd = getlock_fd,
    .run = getlock_run,
    .wait = getlock_wait,
    .ask = getlock_ask,
    .heard = getlock_heard,
    .await = getlock_await,
    .take = getlock_take,
    .kinds = "named locks (GET_LOCK) are mutexes only; leave ?dialect= out for "
             "other kinds",
    .delay = "a named lock keeps no lock-delay; leave it out",
    .priority = "who waits for a named lock comes in the order of arrival; "
                "there are no priorities",
    .list = "the server does not tell the names of its named locks, so they "
            "cannot be listed; the plugin metadata_lock_info shows that there "
            "are some",
    .force = "a named lock is ended by KILL alone, with its session "
             "(docs/GET_LOCK.md)",
    .rest = "with named locks there are mutexes only, no semaphores, latches "
            "or values; leave ?dialect= out for these",
};
