/* store/sql/recipe_open.c — a dialect is chosen by the URL, its table looked at when
 * a session connects, and its check-up. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "store/sql/host.h"
#include "store/sql/int_lock.h"
#include "store/sql/recipe.h"

enum {
    RECIPE_OPEN_COLUMNS = 4,
    RECIPE_OPEN_CLOCK_MS = 1000,
    RECIPE_OPEN_TTL_LEAST_MS = 1000
};

static bool recipe_open_is(const struct snib__url *url, const char *name)
{
    const char *dialect = snib__url_query(url, "dialect");
    return dialect && !strcmp(dialect, name);
}

bool snib__sql_recipe_is_int_lock(const struct snib__url *url)
{
    return recipe_open_is(url, "int_lock");
}

/* A name without quotes. On some machines MySQL tells INT_LOCK from int_lock. */
static bool recipe_open_is_table(const char *name, bool any_case)
{
    char lower[64];
    size_t n = strlen(name);
    if (n >= sizeof lower) {
        return false;
    }
    for (size_t i = 0; i <= n; i++) {
        bool upper = any_case && name[i] >= 'A' && name[i] <= 'Z';
        lower[i] = (char)(name[i] + (upper ? 'a' - 'A' : 0));
    }
    return snib__sql_is_plain(lower);
}

snib_err snib__sql_recipe_place(const struct snib__url *url, const char *schema,
                                char *place, size_t size, struct snib_error *e)
{
    const char *table = snib__url_query(url, "table");
    bool int_lock = snib__sql_recipe_is_int_lock(url);
    if (!int_lock && !recipe_open_is(url, "shedlock")) {
        return snib__url_wrong(
            url,
            "?dialect= is shedlock, the locks of ShedLock's table, int_lock, "
            "those of Spring Integration's, or for postgres: advisory, for "
            "mysql: getlock",
            e);
    }
    table = table ? table : int_lock ? "INT_LOCK" : "shedlock";
    if (!recipe_open_is_table(table, int_lock)) {
        return snib__url_wrong(url,
                               int_lock
                                   ? "?table= is letters, digits and '_', and "
                                     "shorter than 48"
                                   : "?table= is lower-case letters, digits "
                                     "and '_', and shorter than 48",
                               e);
    }
    snprintf(place, size, "%s%s%s", schema ? schema : "", schema ? "." : "",
             table);
    return SNIB_ERR_OK;
}

/* "10s" or "500ms". */
static bool recipe_open_ttl(const char *text, int64_t *ret_ms)
{
    char *unit;
    if (*text < '0' || *text > '9' || strspn(text, "0123456789") > 8) {
        return false;
    }
    *ret_ms = strtol(text, &unit, 10);
    *ret_ms *= strcmp(unit, "s") ? 1 : 1000;
    return (!strcmp(unit, "s") || !strcmp(unit, "ms")) &&
           *ret_ms >= RECIPE_OPEN_TTL_LEAST_MS && *ret_ms <= SNIB_LEASE_MAX_MS;
}

static snib_err recipe_open_int_lock(struct snib__sql_recipe *p,
                                     const struct snib__url *url,
                                     struct snib__out *out,
                                     struct snib_error *e)
{
    const char *region = snib__url_query(url, "region");
    const char *ttl = snib__url_query(url, "ttl");
    int64_t ms = SNIB__INT_LOCK_TTL_MS;
    region = region ? region : "DEFAULT";
    if (!*region || strlen(region) > SNIB__RECIPE_REGION) {
        return snib__url_wrong(url, "?region= is 1 to 100 bytes", e);
    }
    if (ttl && !recipe_open_ttl(ttl, &ms)) {
        return snib__url_wrong(url,
                               "?ttl= is for how long Spring's registries let "
                               "a lock stand, 1s to a day, like 10s or 1500ms",
                               e);
    }
    snprintf(p->region, sizeof p->region, "%s", region);
    p->ttl_us = ms * 1000;
    out->lease_given = snib__ms(ms * 3 / 4);
    return SNIB_ERR_OK;
}

/* What means something to a dialect alone. */
static snib_err recipe_open_strays(const struct snib__url *url,
                                   struct snib_error *e)
{
    bool int_lock = snib__sql_recipe_is_int_lock(url);
    if (!snib__url_query(url, "dialect") && snib__url_query(url, "table")) {
        return snib__url_wrong(
            url, "?table= is for ?dialect=shedlock and int_lock", e);
    }
    if (!int_lock &&
        (snib__url_query(url, "region") || snib__url_query(url, "ttl"))) {
        return snib__url_wrong(
            url, "?region= and ?ttl= are for ?dialect=int_lock", e);
    }
    return SNIB_ERR_OK;
}

snib_err snib__sql_recipe_open(struct snib__sql_recipe *p,
                               const struct snib__url *url,
                               struct snib__out *out, const char *schema,
                               char *place, size_t size, struct snib_error *e)
{
    snib_err err = recipe_open_strays(url, e);
    p->on = snib__url_query(url, "dialect") != NULL;
    p->int_lock = snib__sql_recipe_is_int_lock(url);
    if (err || !p->on) {
        return err;
    }
    snib__sql_host_name(p->host);
    out->caps = SNIB__TIED | SNIB__NO_LATCH;
    out->poll = snib__ms(SNIB__RECIPE_POLL_MS);
    err = p->int_lock ? recipe_open_int_lock(p, url, out, e) : SNIB_ERR_OK;
    return err ? err : snib__sql_recipe_place(url, schema, place, size, e);
}

/* -- the table ------------------------------------------------------------- */

/* The columns of RECIPE_TABLE. */
enum recipe_open_column {
    RECIPE_OPEN_THERE,
    RECIPE_OPEN_NAMED,   /* so many of its four columns */
    RECIPE_OPEN_TIMES,   /* so many of its instants count as they must */
    RECIPE_OPEN_LETTERS, /* the holder's column takes so many; NULL: any number */
    RECIPE_OPEN_UNIQUE, /* nobody else's name */
    RECIPE_OPEN_ENGINE  /* its rows can be changed alone, and outlive a crash */
};

/* What a table must have, and the words when it has not. */
struct recipe_open_table {
    int instants, letters;
    const char *missing, *columns, *times, *short_by, *twice;
};

static const struct recipe_open_table recipe_open_shedlock = {
    .instants = 2,
    .letters = SNIB__RECIPE_BY,
    .missing =
        "is not there; \"snib doctor --schema\" prints what makes it, as "
        "ShedLock's page has it; ?table= names another one",
    .columns = "is not ShedLock's: that has name, lock_until, locked_at and "
               "locked_by",
    .times = "has a lock_until or locked_at that is no time of day in UTC to "
             "the millisecond: make both TIMESTAMP (PostgreSQL, without a time "
             "zone), DATETIME(3) or TIMESTAMP(3) (MySQL)",
    .short_by = "has too short a locked_by; make it VARCHAR(255)",
    .twice = "takes a name twice, so two could hold one lock: make name its "
             "primary key"};

static const struct recipe_open_table recipe_open_of_spring = {
    .instants = 1,
    .letters = SNIB__INT_LOCK_UUID,
    .missing =
        "is not there; \"snib doctor --schema\" prints what makes it, as "
        "Spring Integration has it; ?table= names another one",
    .columns =
        "is not Spring Integration 6's: that has LOCK_KEY, REGION, CLIENT_ID "
        "and CREATED_DATE, and no EXPIRED_AFTER, as version 7's has",
    .times = "has a CREATED_DATE that is no time of day in UTC to the "
             "millisecond: make it TIMESTAMP (PostgreSQL, without a time "
             "zone), DATETIME(6) (MySQL)",
    .short_by = "has too short a CLIENT_ID; make it CHAR(36)",
    .twice = "takes a key twice, so two could hold one lock: make LOCK_KEY and "
             "REGION its primary key"};

static const char *recipe_open_wrong(const struct recipe_open_table *t,
                                     struct snib__sql_rows *rows)
{
    bool any = snib__sql_is_null(rows, 0, RECIPE_OPEN_LETTERS);
    if (!snib__sql_get_int(rows, 0, RECIPE_OPEN_THERE)) {
        return t->missing;
    }
    if (snib__sql_get_int(rows, 0, RECIPE_OPEN_NAMED) != RECIPE_OPEN_COLUMNS) {
        return t->columns;
    }
    if (snib__sql_get_int(rows, 0, RECIPE_OPEN_TIMES) < t->instants) {
        return t->times;
    }
    if (!any && snib__sql_get_int(rows, 0, RECIPE_OPEN_LETTERS) < t->letters) {
        return t->short_by;
    }
    if (!snib__sql_get_int(rows, 0, RECIPE_OPEN_UNIQUE)) {
        return t->twice;
    }
    return snib__sql_get_int(rows, 0, RECIPE_OPEN_ENGINE)
               ? NULL
               : "has no transactions, or is emptied by a crash: make it "
                 "InnoDB (MySQL), or LOGGED (PostgreSQL)";
}

snib__sql_end snib__sql_recipe_check(const struct snib__sql_recipe *p,
                                     struct snib__sql_rows *rows,
                                     const char *table,
                                     struct snib_error *fault)
{
    const struct recipe_open_table *t =
        p->int_lock ? &recipe_open_of_spring : &recipe_open_shedlock;
    const char *wrong = rows->count ? recipe_open_wrong(t, rows) : t->missing;
    if (wrong) {
        snib__fail(fault, SNIB_ERR_CONFIG, "the table %s %s", table, wrong);
    }
    return wrong ? SNIB__SQL_REFUSED : SNIB__SQL_OK;
}

/* -- the check-up ---------------------------------------------------------- */

static void recipe_open_see_locks(struct snib__sql_doctor *d,
                                  struct snib__sql_rows *rows)
{
    const struct snib__sql_recipe *p = d->recipe;
    char text[260], leases[80] = "";
    if (p->int_lock) {
        snprintf(leases, sizeof leases,
                 "; they stand for %lld ms, leases are %lld at most",
                 (long long)p->ttl_us / 1000, (long long)p->ttl_us * 3 / 4000);
    }
    snprintf(text, sizeof text,
             "the locks of %s: %lld names, %lld held; waiters ask every 10 to "
             "%d ms%s",
             p->int_lock ? "Spring Integration's INT_LOCK" : "ShedLock's table",
             (long long)snib__sql_get_int(rows, 0, 0),
             (long long)snib__sql_get_int(rows, 0, 1), SNIB__RECIPE_POLL_MS,
             leases);
    snib__sql_doctor_tell(d, SNIB_LEVEL_OK, "dialect", text, "");
}

/* Rows, rows that are held, the latest instant of a grant less now in ms, whether
 * the session's time zone changes what stands in the table. */
void snib__sql_recipe_see_doctor(void *doctor, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = doctor;
    char text[200];
    long long ahead = snib__sql_get_int(rows, 0, 2);
    recipe_open_see_locks(d, rows);
    snprintf(text, sizeof text,
             ahead > RECIPE_OPEN_CLOCK_MS
                 ? "a row was locked %lld ms ahead of the database's clock"
                 : "no row is ahead of the database's clock",
             ahead);
    snib__sql_doctor_judge(
        d, ahead <= RECIPE_OPEN_CLOCK_MS, SNIB_LEVEL_WARN, "their-clock", text,
        d->recipe->int_lock
            ? "set the clocks of the hosts with Spring by the same NTP as the "
              "database's; who is ahead by a quarter of ttl= takes locks that "
              "are held"
            : "let ShedLock go by the database's clock (usingDbTime()): by "
              "another one, or another time zone, it takes locks that are "
              "held");
    if (snib__sql_get_int(rows, 0, 3)) {
        snib__sql_doctor_tell(
            d, SNIB_LEVEL_WARN, "time-zone",
            "the columns are TIMESTAMP, and the server's time zone is not UTC",
            "make them DATETIME(3): a client with another time_zone sees other "
            "times in them, and takes locks that are held");
    }
}
