/* store/sql/recipe_row.c — what a row of a table of others says: who has it, until
 * when, and which token comes next there.
 *
 * A token is the database's clock in 1/1024 ms, above the last one of the name. That
 * stands in locked_by, as long as nobody else has taken the lock since; then
 * locked_at says when that was. */
#include <stdio.h>
#include <stdlib.h>

#include "base/record.h"
#include "core/about.h"
#include "core/rules/rules.h"
#include "store/sql/int_lock.h"
#include "store/sql/recipe.h"

#define RECIPE_ROW_DAY INT64_C(88473600000) /* in 1/1024 ms */

enum { RECIPE_ROW_ID = 32 };

/* -- locked_by ------------------------------------------------------------- */

void snib__sql_recipe_by(const struct snib__sql_recipe *p, const uint64_t id[2],
                         int64_t token, char ret[SNIB__RECIPE_BY])
{
    if (p->int_lock) {
        snib__int_lock_client(id, token, ret);
        return;
    }
    snprintf(ret, SNIB__RECIPE_BY, "snib:%s:%016llx%016llx:%lld", p->host,
             (unsigned long long)id[0], (unsigned long long)id[1],
             (long long)token);
}

static bool recipe_row_id(const char *text, uint64_t ret[2])
{
    char half[17] = "";
    if (strspn(text, "0123456789abcdef") != RECIPE_ROW_ID ||
        text[RECIPE_ROW_ID] != ':') {
        return false;
    }
    memcpy(half, text, 16);
    ret[0] = strtoull(half, NULL, 16);
    memcpy(half, text + 16, 16);
    ret[1] = strtoull(half, NULL, 16);
    return true;
}

/* Where the id begins; NULL: it is none of ours. */
static const char *recipe_row_behind_host(const char *by)
{
    const char *host = by + 5;
    const char *colon = strncmp(by, "snib:", 5) != 0 ? NULL : strchr(host, ':');
    return colon && colon - host <= 64 ? colon + 1 : NULL;
}

static void recipe_row_read_by(struct snib__sql_recipe_row *row)
{
    if (row->of->int_lock) {
        row->ours = snib__int_lock_read_client(row->by, row->by_size, row->id,
                                               &row->token);
        return;
    }
    const char *id = recipe_row_behind_host(row->by);
    char *end = NULL;
    if (!id || !recipe_row_id(id, row->id)) {
        return;
    }
    const char *digits = id + RECIPE_ROW_ID + 1;
    row->token = strtoll(digits, &end, 10);
    row->ours = row->by_size < SNIB__RECIPE_BY && *digits >= '0' &&
                *digits <= '9' && end && !*end && snib__is_token(row->token);
}

void snib__sql_recipe_see(void *data, struct snib__sql_rows *rows)
{
    snib__sql_recipe_see_at(data, rows, 0);
}

void snib__sql_recipe_see_at(struct snib__sql_recipe_row *row,
                             struct snib__sql_rows *rows, int at)
{
    *row = (struct snib__sql_recipe_row){.of = row->of};
    if (at >= rows->count) {
        return;
    }
    row->now_us = snib__sql_get_int(rows, at, 0);
    row->there = !snib__sql_is_null(rows, at, 1);
    row->until_us = snib__sql_get_int(rows, at, 1);
    row->at_us = snib__sql_get_int(rows, at, 2);
    const void *by = snib__sql_get_bytes(rows, at, 3, &row->by_size);
    row->by_size =
        row->by_size < sizeof row->by ? row->by_size : sizeof row->by - 1;
    memcpy(row->by, by, row->by_size);
    recipe_row_read_by(row);
}

bool snib__sql_recipe_holds(const struct snib__sql_recipe_row *row)
{
    return row->there && row->until_us > row->now_us;
}

/* -- tokens ---------------------------------------------------------------- */

static int64_t recipe_row_clock(int64_t us)
{
    us = us > 0 ? us : 0;
    us = us < INT64_MAX / 1024 * 1000 ? us : INT64_MAX / 1024 * 1000 - 1;
    return us / 1000 * 1024 + us % 1000 * 1024 / 1000;
}

int64_t snib__sql_recipe_token(const struct snib__sql_recipe_row *row,
                               int64_t floor, bool *ret_far)
{
    int64_t clock = recipe_row_clock(row->now_us);
    int64_t at = row->there ? recipe_row_clock(row->at_us) : 0;
    /* Who writes another clock's time there may be far ahead of this one. */
    int64_t last = row->ours                      ? row->token
                   : at <= clock + RECIPE_ROW_DAY ? at
                                                  : 0;
    int64_t token = clock > last ? clock : last + 1;
    token = token > floor ? token : floor + 1;
    *ret_far = token > clock + RECIPE_ROW_DAY;
    return snib__is_token(token) ? token : 0;
}

/* -- looks ----------------------------------------------------------------- */

/* Who writes by hand may mean "for ever", or what was before us all. */
static snib_instant recipe_row_instant(int64_t us)
{
    const int64_t most = INT64_MAX / 2; /* something may be added to it */
    us = us > 0 ? us : 0;
    return (snib_instant){us < most / 1000 ? us * 1000 : most};
}

/* When it was granted. CREATED_DATE is also when it was renewed; the token is the
 * clock of the grant, unless others made it higher. Theirs do not say. */
static int64_t recipe_row_since_us(const struct snib__sql_recipe_row *row)
{
    if (!row->of->int_lock || !row->ours) {
        return row->at_us;
    }
    int64_t us = row->token / 1024 * 1000 + row->token % 1024 * 1000 / 1024;
    return us < row->at_us ? us : row->at_us;
}

static void recipe_row_about(const struct snib__sql_recipe_row *row,
                             struct snib__buf *ret)
{
    struct snib__about about = {.since_ms = recipe_row_since_us(row) / 1000};
    const char *host = row->by;
    const char *end = recipe_row_behind_host(row->by);
    size_t size = row->by_size;
    if (row->ours && row->of->int_lock) {
        size = 0; /* it does not say */
        snprintf(about.program, sizeof about.program, "snib");
    } else if (row->ours) {
        host += 5;
        size = (size_t)(end - host - 1);
    } else {
        snprintf(about.program, sizeof about.program, "not snib");
    }
    size = size < sizeof about.host ? size : sizeof about.host - 1;
    memcpy(about.host, host, size);
    snib__about_write(&about, ret);
}

void snib__sql_recipe_show(struct snib__buf *out, const char *name, size_t size,
                           const struct snib__sql_recipe_row *row)
{
    struct snib__buf about;
    struct snib__stored_claim c = {.state = SNIB__HOLDS,
                                   .kind = SNIB_KIND_MUTEX,
                                   .permits = 1,
                                   .token = row->ours ? row->token : 0};
    snib__rec_row(out, SNIB__ROW_LOCK);
    snib__rec_bytes(out, SNIB__F_NAME, name, size);
    snib__rec_i64(out, SNIB__F_TOKEN, row->ours ? row->token : 0);
    if (!snib__sql_recipe_holds(row)) {
        return;
    }
    snib__buf_init(&about, SNIB__ABOUT_MAX + 1);
    recipe_row_about(row, &about);
    c.request[0] = row->ours ? row->id[0] : 0;
    c.request[1] = row->ours ? row->id[1] : 0;
    c.until = recipe_row_instant(row->until_us);
    c.since = recipe_row_instant(recipe_row_since_us(row));
    snib__rules_row(out, recipe_row_instant(row->now_us), &c,
                    snib__buf_bytes(&about), snib__buf_size(&about));
    out->failed = out->failed || about.failed;
    snib__buf_free(&about);
}

/* -- which lock ------------------------------------------------------------ */

void snib__sql_recipe_add_scope(struct snib__sql_script *t,
                                const struct snib__sql_recipe *p)
{
    snib__sql_string(t, p->region);
    snib__sql_int(t, p->ttl_us);
}

void snib__sql_recipe_add_name(struct snib__sql_script *t,
                               const struct snib__sql_recipe *p,
                               const struct snib__name *name)
{
    char key[SNIB__INT_LOCK_UUID + 1];
    if (!p->int_lock) {
        snib__sql_name(t, name);
        return;
    }
    snib__int_lock_key(name->raw, name->raw_size, key);
    snib__sql_string(t, key);
    snib__sql_recipe_add_scope(t, p);
}

/* -- what it has not ------------------------------------------------------- */

static const char *recipe_row_say(const struct snib__sql_recipe *p,
                                  const char *shedlock, const char *int_lock)
{
    return p->int_lock ? int_lock : shedlock;
}

static const char *recipe_row_lacks_acquire(const struct snib__sql_recipe *p,
                                            const struct snib__request *r)
{
    const struct snib__request_acquire *a = &r->acquire;
    if (a->kind != SNIB_KIND_MUTEX) {
        return recipe_row_say(
            p, "ShedLock has mutexes only; leave ?dialect= out for other kinds",
            "INT_LOCK has mutexes only; leave ?dialect= out for other kinds");
    }
    if (a->delay.ns > 0) {
        return recipe_row_say(
            p, "ShedLock's table keeps no lock-delay; leave it out",
            "INT_LOCK keeps no lock-delay; leave it out");
    }
    if (a->priority) {
        return recipe_row_say(
            p,
            "nobody stands in a queue in ShedLock's table; it has no "
            "priorities",
            "nobody stands in a queue in INT_LOCK; it has no priorities");
    }
    return p->int_lock &&
                   snib__int_lock_is_doubtful(r->name->raw, r->name->raw_size)
               ? "Java may read this name as a UUID, whose key is another one; "
                 "write the whole UUID, or choose another name"
               : NULL;
}

const char *snib__sql_recipe_lacks(const struct snib__sql_recipe *p,
                                   const struct snib__request *r)
{
    switch (r->verb) {
    case SNIB__ACQUIRE:
        return recipe_row_lacks_acquire(p, r);
    case SNIB__RENEW:
    case SNIB__RELEASE:
    case SNIB__CANCEL:
    case SNIB__INSPECT:
    case SNIB__DOCTOR:
        return NULL;
    case SNIB__LIST:
        return recipe_row_say(p, NULL,
                              "INT_LOCK has keys, not names, so they cannot "
                              "be listed; SELECT * FROM INT_LOCK shows them");
    case SNIB__FORCE:
        return recipe_row_say(
            p,
            "a lock of ShedLock's table is not ended by force; by hand, "
            "UPDATE … SET lock_until = … ends it (docs/SHEDLOCK.md)",
            "a lock of INT_LOCK is not ended by force; by hand, DELETE ends it "
            "(docs/INT_LOCK.md)");
    case SNIB__PARAMS:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
    case SNIB__RECOVERY: /* never asked */
        break;
    }
    return recipe_row_say(
        p,
        "ShedLock has mutexes only, no semaphores, latches or values; leave "
        "?dialect= out for these",
        "INT_LOCK has mutexes only, no semaphores, latches or values; leave "
        "?dialect= out for these");
}
