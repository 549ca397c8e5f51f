/* store/sql/recipe_open.c — a dialect is chosen by the URL, its table looked at when
 * a session connects, and its check-up. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "store/sql/host.h"
#include "store/sql/recipe.h"

enum {
    RECIPE_OPEN_COLUMNS = 4,
    RECIPE_OPEN_INSTANTS = 2,
    RECIPE_OPEN_CLOCK_MS = 1000
};

static bool recipe_open_is(const struct snib__url *url)
{
    const char *dialect = snib__url_query(url, "dialect");
    return dialect && !strcmp(dialect, "shedlock");
}

snib_err snib__sql_recipe_place(const struct snib__url *url, const char *schema,
                                char *place, size_t size, struct snib_error *e)
{
    const char *table = snib__url_query(url, "table");
    table = table ? table : "shedlock";
    if (!recipe_open_is(url)) {
        return snib__url_wrong(
            url,
            "?dialect= is shedlock, the locks of ShedLock's table, or for "
            "postgres: advisory",
            e);
    }
    if (!snib__sql_is_plain(table)) {
        return snib__url_wrong(url,
                               "?table= is lower-case letters, digits and '_', "
                               "and shorter than 48",
                               e);
    }
    snprintf(place, size, "%s%s%s", schema ? schema : "", schema ? "." : "",
             table);
    return SNIB_ERR_OK;
}

snib_err snib__sql_recipe_open(struct snib__sql_recipe *p,
                               const struct snib__url *url,
                               struct snib__out *out, const char *schema,
                               char *place, size_t size, struct snib_error *e)
{
    p->on = snib__url_query(url, "dialect") != NULL;
    if (!p->on && snib__url_query(url, "table")) {
        return snib__url_wrong(url, "?table= is for ?dialect=shedlock", e);
    }
    if (!p->on) {
        return SNIB_ERR_OK;
    }
    snib__sql_host_name(p->host);
    out->caps = SNIB__TIED | SNIB__NO_LATCH;
    out->poll = snib__ms(SNIB__RECIPE_POLL_MS);
    return snib__sql_recipe_place(url, schema, place, size, e);
}

/* -- the table ------------------------------------------------------------- */

/* The columns of RECIPE_TABLE. */
enum recipe_open_column {
    RECIPE_OPEN_THERE,
    RECIPE_OPEN_NAMED,   /* so many of its four columns */
    RECIPE_OPEN_TIMES,   /* so many of its instants count as they must */
    RECIPE_OPEN_LETTERS, /* locked_by takes so many; NULL: any number */
    RECIPE_OPEN_UNIQUE,  /* nobody else's name */
    RECIPE_OPEN_ENGINE /* its rows can be changed alone, and outlive a crash */
};

static const char *recipe_open_wrong(struct snib__sql_rows *rows)
{
    bool any = snib__sql_is_null(rows, 0, RECIPE_OPEN_LETTERS);
    if (!snib__sql_get_int(rows, 0, RECIPE_OPEN_THERE)) {
        return "is not there; \"snib doctor --schema\" prints what makes it, "
               "as "
               "ShedLock's page has it; ?table= names another one";
    }
    if (snib__sql_get_int(rows, 0, RECIPE_OPEN_NAMED) < RECIPE_OPEN_COLUMNS) {
        return "is not ShedLock's: that has name, lock_until, locked_at and "
               "locked_by";
    }
    if (snib__sql_get_int(rows, 0, RECIPE_OPEN_TIMES) < RECIPE_OPEN_INSTANTS) {
        return "has a lock_until or locked_at that is no time of day in UTC to "
               "the millisecond: make both TIMESTAMP (PostgreSQL, without a "
               "time zone), DATETIME(3) or TIMESTAMP(3) (MySQL)";
    }
    if (!any &&
        snib__sql_get_int(rows, 0, RECIPE_OPEN_LETTERS) < SNIB__RECIPE_BY) {
        return "has too short a locked_by; make it VARCHAR(255)";
    }
    if (!snib__sql_get_int(rows, 0, RECIPE_OPEN_UNIQUE)) {
        return "takes a name twice, so two could hold one lock: make name its "
               "primary key";
    }
    return snib__sql_get_int(rows, 0, RECIPE_OPEN_ENGINE)
               ? NULL
               : "has no transactions, or is emptied by a crash: make it "
                 "InnoDB (MySQL), or LOGGED (PostgreSQL)";
}

snib__sql_end snib__sql_recipe_check(struct snib__sql_rows *rows,
                                     const char *table,
                                     struct snib_error *fault)
{
    const char *wrong = rows->count ? recipe_open_wrong(rows) : "is not there";
    if (wrong) {
        snib__fail(fault, SNIB_ERR_CONFIG, "the table %s %s", table, wrong);
    }
    return wrong ? SNIB__SQL_REFUSED : SNIB__SQL_OK;
}

/* -- the check-up ---------------------------------------------------------- */

/* Rows, rows that are held, the latest locked_at less now in ms, whether the
 * session's time zone changes what stands in the table. */
void snib__sql_recipe_see_doctor(void *doctor, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = doctor;
    char text[200];
    long long ahead = snib__sql_get_int(rows, 0, 2);
    snprintf(
        text, sizeof text,
        "the locks of ShedLock's table: %lld names, %lld held; waiters ask "
        "every 10 to %d ms",
        (long long)snib__sql_get_int(rows, 0, 0),
        (long long)snib__sql_get_int(rows, 0, 1), SNIB__RECIPE_POLL_MS);
    snib__sql_doctor_tell(d, SNIB_LEVEL_OK, "dialect", text, "");
    snprintf(text, sizeof text,
             ahead > RECIPE_OPEN_CLOCK_MS
                 ? "a row was locked %lld ms ahead of the database's clock"
                 : "no row is ahead of the database's clock",
             ahead);
    snib__sql_doctor_judge(
        d, ahead <= RECIPE_OPEN_CLOCK_MS, SNIB_LEVEL_WARN, "their-clock", text,
        "let ShedLock go by the database's clock (usingDbTime()): by another "
        "one, or another time zone, it takes locks that are held");
    if (snib__sql_get_int(rows, 0, 3)) {
        snib__sql_doctor_tell(
            d, SNIB_LEVEL_WARN, "time-zone",
            "the columns are TIMESTAMP, and the server's time zone is not UTC",
            "make them DATETIME(3): a client with another time_zone sees other "
            "times in them, and takes locks that are held");
    }
}
