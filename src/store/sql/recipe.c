/* store/sql/recipe.c — requests at a table of others (recipe.h).
 *
 * Each statement that changes a row travels with a look behind it, and the look
 * decides:
 *
 *   acquire:  look --held by another--> NO, or QUEUED and polled
 *               |  ^
 *             free |  it is not ours after all
 *               v  |
 *             take, look --it is ours--> DONE
 *  (of INT_LOCK a row that is not there is made first, free, and then taken)
 *
 *   cancel:   look --held by another--> DONE
 *               |  ^
 *        ours, free|  somebody was faster
 *               v  |
 *             end or mark, look --------> DONE
 */
#include "store/sql/recipe.h"

#include "base/error.h"
#include "base/glob.h"
#include "core/blocking.h"
#include "core/rules/rules.h"

enum {
    RECIPE_TRIES = 8,
    /* A column of milliseconds may round half of one down. */
    RECIPE_ROUND_US = 1000
};

/* What is over by then is so for a clock of theirs that is behind, too. */
#define RECIPE_LONG_AGO_US (-INT64_C(86400000000))

struct recipe_step {
    struct snib__sql_session *s;
    const struct snib__sql_recipe *p;
    struct snib__request *r;
    struct snib__sql_recipe_row row;
    char by[SNIB__RECIPE_BY]; /* what is ours, when it is */
    bool writes;              /* a statement of the script changes a row */
    int changed;              /* so many it has */
    bool far;
    snib_instant sent;
};

/* -- scripts --------------------------------------------------------------- */

static struct snib__sql_script *recipe_begin(struct recipe_step *k)
{
    snib__sql_script_clear(&k->s->script);
    k->writes = false;
    k->changed = 0;
    return &k->s->script;
}

static void recipe_see_changed(void *data, struct snib__sql_rows *rows)
{
    ((struct recipe_step *)data)->changed = rows->count;
}

/* A statement that changes the row of the request's name. */
static struct snib__sql_script *recipe_add(struct recipe_step *k, int statement)
{
    struct snib__sql_script *t = &k->s->script;
    k->writes = true;
    snib__sql_add(t, statement, recipe_see_changed, k);
    snib__sql_recipe_add_name(t, k->p, k->r->name);
    return t;
}

/* Send what is in the script, and look at the row. A look alone that gets lost has
 * done nothing. */
static snib__sql_end recipe_look(struct recipe_step *k)
{
    struct snib__sql *q = &k->s->sql;
    struct snib__sql_script *t = &k->s->script;
    snib__sql_add(t, SNIB__SQL_DO_RECIPE_LOOK, snib__sql_recipe_see, &k->row);
    snib__sql_recipe_add_name(t, k->p, k->r->name);
    snib__sql_sync(t);
    k->sent = q->driver->now();
    snib__sql_end end = snib__sql_script_run(k->s, 1);
    if (!end) {
        snib__sql_heard_clock(k->s->conn, q->driver->now(), k->row.now_us);
    }
    return end == SNIB__SQL_LOST && !k->writes ? SNIB__SQL_DOWN : end;
}

/* For how long a row shall stand. */
static int64_t recipe_lease_us(const struct recipe_step *k)
{
    return k->p->int_lock ? k->p->ttl_us
                          : k->r->lease.ns / 1000 + RECIPE_ROUND_US;
}

static bool recipe_is(const struct recipe_step *k, const char *by)
{
    return k->row.there && !strcmp(k->row.by, by);
}

static bool recipe_is_mine(const struct recipe_step *k)
{
    return k->row.ours && k->row.id[0] == k->r->id[0] &&
           k->row.id[1] == k->r->id[1];
}

/* All that was seen in a row, so that nobody's change since is overlooked. */
static void recipe_add_seen(struct recipe_step *k, struct snib__sql_script *t)
{
    snib__sql_bytes(t, k->row.by, k->row.by_size);
    snib__sql_int(t, k->row.at_us);
    snib__sql_int(t, k->row.until_us);
}

static void recipe_add_end(struct recipe_step *k, const char *by)
{
    snib__sql_string(recipe_add(k, SNIB__SQL_DO_RECIPE_END), by);
}

static void recipe_add_renew(struct recipe_step *k)
{
    struct snib__sql_script *t = recipe_add(k, SNIB__SQL_DO_RECIPE_RENEW);
    snib__sql_int(t, recipe_lease_us(k));
    snib__sql_string(t, k->by);
}

/* An earlier grant of ours that ends first. */
static void recipe_add_prior(struct recipe_step *k)
{
    char by[SNIB__RECIPE_BY];
    if (k->r->token) {
        snib__sql_recipe_by(k->p, k->r->prior_id, k->r->token, by);
        recipe_add_end(k, by);
    }
}

static void recipe_add_make(struct recipe_step *k, int64_t lease_us,
                            int64_t not_after)
{
    struct snib__sql_script *t = recipe_add(k, SNIB__SQL_DO_RECIPE_MAKE);
    snib__sql_int(t, lease_us);
    snib__sql_string(t, k->by);
    snib__sql_int(t, not_after);
}

/* -- answers --------------------------------------------------------------- */

static void recipe_answer(struct recipe_step *k, snib__answer answer,
                          snib_err err)
{
    k->r->said.answer = answer;
    k->r->said.err = err ? snib__fail_plain(k->r->said.reterr, err)
                         : snib__ok(k->r->said.reterr);
}

static snib_duration recipe_left(const struct recipe_step *k)
{
    int64_t us = k->row.until_us - k->row.now_us;
    us = us > 0 ? us : 0;
    us = us < INT64_MAX / 1000 ? us : INT64_MAX / 1000;
    return (snib_duration){us * 1000};
}

/* How much earlier than its row a lease is over. */
static int64_t recipe_slack_ns(const struct recipe_step *k)
{
    return k->p->int_lock ? k->p->ttl_us * 250 : 0;
}

/* It is ours, since before the last look was sent. A lease that stood for longer
 * than what was asked for is left as it is. */
static void recipe_lease(struct recipe_step *k)
{
    int64_t lease = k->r->lease.ns;
    int64_t left = k->changed ? recipe_lease_us(k) * 1000 : recipe_left(k).ns;
    left -= recipe_slack_ns(k);
    left = left > 0 ? left : 0;
    k->r->said.valid_from = k->sent;
    k->r->said.left.ns = left < lease ? left : lease;
    k->r->said.revoked = k->r->said.forgotten = false;
    recipe_answer(k, SNIB__DONE, SNIB_ERR_OK);
}

static void recipe_grant(struct recipe_step *k)
{
    struct snib__request *r = k->r;
    r->token = k->row.token;
    r->acquire.reserve = 0;
    r->acquire.permits = 1;
    r->said.slot = 0;
    r->said.far = k->far;
    recipe_lease(k);
}

static void recipe_wait(struct recipe_step *k)
{
    struct snib__request *r = k->r;
    r->said.left = recipe_left(k);
    r->said.position = 0;
    recipe_answer(k, r->acquire.may_queue ? SNIB__QUEUED : SNIB__NO,
                  r->acquire.may_queue ? SNIB_ERR_OK : SNIB_ERR_BUSY);
}

/* It is not ours any more, or never was. */
static void recipe_lost(struct recipe_step *k)
{
    k->r->said.revoked = false;
    k->r->said.forgotten = !snib__sql_recipe_holds(&k->row);
    recipe_answer(k, SNIB__NO, SNIB_ERR_LOST);
}

/* -- an acquire ------------------------------------------------------------ */

/* A row that is not there. Where rows are deleted, others may have made it, held
 * the lock and deleted it since the look, with higher tokens than the one that comes
 * of that. So it is made free, and taken as it stands then. */
static void recipe_add_first(struct recipe_step *k, int64_t not_after)
{
    recipe_add_make(k, k->p->int_lock ? RECIPE_LONG_AGO_US : recipe_lease_us(k),
                    not_after);
}

/* False: no token is left. */
static bool recipe_add_take(struct recipe_step *k)
{
    struct snib__request *r = k->r;
    int64_t not_after =
        snib__sql_not_after(k->s->conn, k->s->sql.driver->now());
    if (snib__sql_recipe_holds(&k->row)) { /* an earlier copy has it */
        memcpy(k->by, k->row.by, sizeof k->by);
        k->far = false;
        recipe_add_renew(k);
        return true;
    }
    int64_t token = snib__sql_recipe_token(&k->row, r->floor, &k->far);
    snib__sql_recipe_by(k->p, r->id, token, k->by);
    if (!k->row.there) {
        recipe_add_first(k, not_after);
    } else {
        struct snib__sql_script *t = recipe_add(k, SNIB__SQL_DO_RECIPE_TAKE);
        snib__sql_int(t, recipe_lease_us(k));
        snib__sql_string(t, k->by);
        snib__sql_int(t, not_after);
        recipe_add_seen(k, t);
    }
    return token != 0;
}

static bool recipe_took(const struct recipe_step *k, bool again)
{
    return snib__sql_recipe_holds(&k->row) && recipe_is(k, k->by) &&
           (again || k->changed);
}

/* CONFLICT: as long as others are faster. */
static snib__sql_end recipe_take_once(struct recipe_step *k)
{
    bool again = snib__sql_recipe_holds(&k->row);
    (void)recipe_begin(k);
    if (!recipe_add_take(k)) {
        recipe_answer(k, SNIB__NOT_APPLIED, SNIB_ERR_CORRUPT);
        return SNIB__SQL_OK;
    }
    snib__sql_end end = recipe_look(k);
    if (end) {
        return end;
    }
    if (recipe_took(k, again)) {
        recipe_grant(k);
        return SNIB__SQL_OK;
    }
    return SNIB__SQL_CONFLICT;
}

static snib__sql_end recipe_take(struct recipe_step *k)
{
    bool first = k->p->int_lock && !k->row.there;
    snib__sql_end end = recipe_take_once(k);
    bool made = first && end == SNIB__SQL_CONFLICT && k->row.there &&
                !snib__sql_recipe_holds(&k->row);
    return made ? recipe_take_once(k) : end;
}

static snib__sql_end recipe_acquire(struct recipe_step *k)
{
    snib__sql_end end = SNIB__SQL_OK;
    for (int i = 0; i < RECIPE_TRIES; i++) {
        (void)recipe_begin(k);
        recipe_add_prior(k);
        end = recipe_look(k);
        if (!end && snib__sql_recipe_holds(&k->row) && !recipe_is_mine(k)) {
            recipe_wait(k);
            return SNIB__SQL_OK;
        }
        end = end ? end : recipe_take(k);
        if (end != SNIB__SQL_CONFLICT) {
            return end;
        }
    }
    return end;
}

/* -- a grant --------------------------------------------------------------- */

static snib__sql_end recipe_renew(struct recipe_step *k)
{
    struct snib__request *r = k->r;
    (void)recipe_begin(k);
    snib__sql_recipe_by(k->p, r->id, r->token, k->by);
    if (!r->renew.only_asks) {
        recipe_add_renew(k);
    }
    snib__sql_end end = recipe_look(k);
    if (end) {
        return end;
    }
    if (snib__sql_recipe_holds(&k->row) && recipe_is(k, k->by)) {
        recipe_lease(k);
    } else {
        recipe_lost(k);
    }
    return SNIB__SQL_OK;
}

static snib__sql_end recipe_release(struct recipe_step *k)
{
    (void)recipe_begin(k);
    snib__sql_recipe_by(k->p, k->r->id, k->r->token, k->by);
    recipe_add_end(k, k->by);
    snib__sql_end end = recipe_look(k);
    if (!end && k->changed) {
        k->r->said.revoked = k->r->said.forgotten = false;
        recipe_answer(k, SNIB__DONE, SNIB_ERR_OK);
    } else if (!end) {
        recipe_lost(k);
    }
    return end;
}

/* -- a cancel -------------------------------------------------------------- */

/* What keeps every late copy of the request out of this row; false: it is kept out.
 * A row that an earlier copy had, whose lease is over, may be what a later one has
 * seen: so its token is another one then. */
static bool recipe_add_mark(struct recipe_step *k)
{
    bool mine = recipe_is_mine(k), held = snib__sql_recipe_holds(&k->row);
    if (mine && held) {
        memcpy(k->by, k->row.by, sizeof k->by);
        recipe_add_end(k, k->by);
        return true;
    }
    if (held || (mine && recipe_is(k, k->by))) {
        return false;
    }
    snib__sql_recipe_by(k->p, k->r->id, k->row.ours ? k->row.token + mine : 0,
                        k->by);
    if (!k->row.there) {
        recipe_add_make(k, 0, INT64_MAX);
        return true;
    }
    struct snib__sql_script *t = recipe_add(k, SNIB__SQL_DO_RECIPE_TOUCH);
    snib__sql_string(t, k->by);
    recipe_add_seen(k, t);
    return true;
}

static snib__sql_end recipe_cancel(struct recipe_step *k)
{
    k->r->said.granted = 0;
    (void)recipe_begin(k);
    recipe_add_prior(k);
    for (int i = 0; i < RECIPE_TRIES; i++) {
        snib__sql_end end = recipe_look(k);
        if (end && end != SNIB__SQL_CONFLICT) {
            return end;
        }
        bool ends =
            !end && recipe_is_mine(k) && snib__sql_recipe_holds(&k->row);
        int64_t token = k->row.token;
        (void)recipe_begin(k);
        recipe_add_prior(k);
        if (end) {
            continue;
        }
        if (!recipe_add_mark(k)) {
            recipe_answer(k, SNIB__DONE, SNIB_ERR_OK);
            return SNIB__SQL_OK;
        }
        k->r->said.granted = ends ? token : k->r->said.granted;
    }
    return SNIB__SQL_CONFLICT;
}

/* -- looks ----------------------------------------------------------------- */

static snib__sql_end recipe_inspect(struct recipe_step *k)
{
    (void)recipe_begin(k);
    snib__sql_end end = recipe_look(k);
    if (!end) {
        snib__sql_recipe_show(k->r->said.result, k->r->name->raw,
                              k->r->name->raw_size, &k->row);
        recipe_answer(k, SNIB__DONE, SNIB_ERR_OK);
    }
    return end;
}

/* The same columns as of a look, and the name. */
static void recipe_see_names(void *data, struct snib__sql_rows *rows)
{
    struct recipe_step *k = data;
    for (int i = 0; i < rows->count; i++) {
        size_t size;
        const void *name = snib__sql_get_bytes(rows, i, 4, &size);
        snib__sql_recipe_see_at(&k->row, rows, i);
        if (snib__glob(k->r->text, k->r->text_size, name, size)) {
            snib__sql_recipe_show(k->r->said.result, name, size, &k->row);
        }
    }
}

static snib__sql_end recipe_list(struct recipe_step *k)
{
    struct snib__sql_script *t = recipe_begin(k);
    if (!k->r->list.awaited_only) { /* nobody is seen to wait */
        snib__sql_add(t, SNIB__SQL_DO_RECIPE_NAMES, recipe_see_names, k);
        snib__sql_sync(t);
    }
    snib__sql_end end =
        k->r->list.awaited_only ? SNIB__SQL_OK : snib__sql_script_run(k->s, 1);
    if (end) {
        snib__buf_clear(k->r->said.result);
    } else {
        recipe_answer(k, SNIB__DONE, SNIB_ERR_OK);
    }
    return end == SNIB__SQL_LOST ? SNIB__SQL_DOWN : end;
}

static snib__sql_end recipe_doctor(struct recipe_step *k)
{
    recipe_answer(k, SNIB__DONE, SNIB_ERR_OK);
    return k->s->sql.driver->doctor(&k->s->sql, k->r);
}

/* -- a chain --------------------------------------------------------------- */

static snib__sql_end recipe_do(struct recipe_step *k)
{
    switch (k->r->verb) {
    case SNIB__ACQUIRE:
        return recipe_acquire(k);
    case SNIB__RENEW:
        return recipe_renew(k);
    case SNIB__RELEASE:
        return recipe_release(k);
    case SNIB__CANCEL:
        return recipe_cancel(k);
    case SNIB__INSPECT:
        return recipe_inspect(k);
    case SNIB__LIST:
        return recipe_list(k);
    case SNIB__DOCTOR:
    case SNIB__FORCE: /* what it lacks was answered */
    case SNIB__PARAMS:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
    case SNIB__RECOVERY:
        break;
    }
    return recipe_doctor(k);
}

static void recipe_one(struct recipe_step *k)
{
    struct snib__sql *q = &k->s->sql;
    uint32_t one = 1;
    const char *lacks = snib__sql_recipe_lacks(k->p, k->r);
    if (lacks) {
        k->r->said.answer = SNIB__NOT_APPLIED;
        k->r->said.err =
            snib__fail(k->r->said.reterr, SNIB_ERR_UNSUPPORTED, "%s", lacks);
        return;
    }
    if (k->r->verb == SNIB__DOCTOR) { /* it tells of the way there itself */
        q->until = snib__after(q->driver->now(), q->request);
    } else if (!snib__sql_set_out(q, &k->r, &one)) {
        return;
    }
    snib__sql_end end = recipe_do(k);
    snib__sql_heard(q, k->r, end);
    if (end == SNIB__SQL_LOST) {
        recipe_answer(k, SNIB__UNKNOWN, SNIB_ERR_UNKNOWN);
    } else if (end) {
        snib__sql_in_vain(q, k->r, end);
    } else if (k->r->said.result && k->r->said.result->failed) {
        recipe_answer(k, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM);
    }
}

void snib__sql_recipe_execute(struct snib__sql_session *s,
                              const struct snib__sql_recipe *p,
                              struct snib__list *chain)
{
    SNIB__LIST_EACH (l, chain) {
        struct recipe_step k = {.s = s, .p = p, .row = {.of = p}};
        k.r = SNIB__CONTAINER(l, struct snib__request, link);
        recipe_one(&k);
    }
}
