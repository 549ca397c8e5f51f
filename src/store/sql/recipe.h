/* store/sql/recipe.h — locks that are rows of a table by which programs of others
 * lock at the same moment: ShedLock (?dialect=shedlock), Spring Integration
 * (?dialect=int_lock). Mutexes, and nothing else.
 *
 * A row is (name, lock_until, locked_at, locked_by). Who finds lock_until in the
 * past, by the database's clock in UTC, may put his own; who has the lock puts it
 * into the past again. Nobody waits there and nobody is told.
 *
 * INT_LOCK has (LOCK_KEY, REGION, CLIENT_ID, CREATED_DATE) for that: lock_until is
 * CREATED_DATE and a time to live that all know, and is written anew by each
 * renewal. Theirs go by their own clocks, so our leases are three quarters of that
 * time at most: the rest is what a clock of theirs may be ahead. They delete rows.
 * One that is not there is made free, and taken by the next statement, which names
 * it: so a copy that comes late, where others have held since, makes a free row at
 * most.
 *
 * WHY TWO NEVER HOLD, of whom one is ours. A row is taken by one statement, which
 * compares lock_until with the server's clock as it changes it: by ours and by
 * theirs. Our lease counts from before that statement was sent.
 *
 * What is ours is known by locked_by, "snib:HOST:REQUEST:TOKEN", or by CLIENT_ID
 * (store/sql/int_lock.h). Each statement of
 * ours that takes a row names all that was seen there before; who gives a request
 * up puts that request's mark on a row that is free. So no late copy of a
 * statement finds the row that it means. */
#ifndef SNIB__SQL_RECIPE_H
#define SNIB__SQL_RECIPE_H

#include "store/sql/address.h"

/* Words for errors of databases. The last one takes where it is, and the table. */
#define SNIB__RECIPE_TOO_LONG                                                  \
    "this name is longer than the column for names in the table takes"
#define SNIB__RECIPE_NO_TEXT "this name is no text in the encoding of the table"
#define SNIB__RECIPE_CHANGED                                                   \
    "%s: the table %.100s is not there any more, or has lost a column"

enum {
    SNIB__RECIPE_POLL_MS = 100,
    SNIB__RECIPE_BY = 160, /* what is ours in locked_by is shorter */
    SNIB__RECIPE_BYTES = 1024,
    SNIB__RECIPE_REGION = 100
};

struct snib__sql_recipe {
    bool on;
    bool int_lock; /* else ShedLock's */
    char host[65];
    /* Of INT_LOCK. */
    char region[SNIB__RECIPE_REGION + 1];
    int64_t ttl_us; /* a row stands for so long */
};

/* What a look has found. */
struct snib__sql_recipe_row {
    const struct snib__sql_recipe *of; /* set by who looks */
    bool there;
    int64_t now_us, until_us, at_us; /* Unix µs by the database's clock */
    size_t by_size;
    char by[SNIB__RECIPE_BYTES];
    bool ours; /* some request's of a snib: then */
    uint64_t id[2];
    int64_t token;
};

/* What exec_in() does, in place of snib__sql_execute (recipe.c). */
void snib__sql_recipe_execute(struct snib__sql_session *,
                              const struct snib__sql_recipe *,
                              struct snib__list *chain);

/* -- opening (recipe_open.c) ----------------------------------------------- */

/* Is the table there, with columns that will do? Else the words for `fault`. */
snib__sql_end snib__sql_recipe_check(const struct snib__sql_recipe *,
                                     struct snib__sql_rows *, const char *table,
                                     struct snib_error *fault);
/* Of a URL with ?dialect=: ?table=, behind a schema if the database has schemas: what '~' stands for in
 * statements. */
snib_err snib__sql_recipe_place(const struct snib__url *, const char *schema,
                                char *place, size_t size, struct snib_error *);
/* Is its dialect int_lock? */
bool snib__sql_recipe_is_int_lock(const struct snib__url *);
/* Read ?dialect=. Without one `place` is left as it is. */
snib_err snib__sql_recipe_open(struct snib__sql_recipe *,
                               const struct snib__url *, struct snib__out *,
                               const char *schema, char *place, size_t size,
                               struct snib_error *);
/* A finding each: whose locks these are, whose clock. */
void snib__sql_recipe_see_doctor(void *doctor, struct snib__sql_rows *);

/* -- rows (recipe_row.c) --------------------------------------------------- */

void snib__sql_recipe_by(const struct snib__sql_recipe *, const uint64_t id[2],
                         int64_t token, char ret[SNIB__RECIPE_BY]);
/* data: the struct snib__sql_recipe_row. */
void snib__sql_recipe_see(void *data, struct snib__sql_rows *);
void snib__sql_recipe_see_at(struct snib__sql_recipe_row *,
                             struct snib__sql_rows *, int at);
bool snib__sql_recipe_holds(const struct snib__sql_recipe_row *);
/* The next token there; 0: there is none. */
int64_t snib__sql_recipe_token(const struct snib__sql_recipe_row *,
                               int64_t floor, bool *ret_far);
/* What the table cannot keep of this request, as a text; NULL: nothing. */
const char *snib__sql_recipe_lacks(const struct snib__sql_recipe *,
                                   const struct snib__request *);
/* Parameters that say which lock; of INT_LOCK three: key, region, µs to live. */
void snib__sql_recipe_add_name(struct snib__sql_script *,
                               const struct snib__sql_recipe *,
                               const struct snib__name *);
/* Of INT_LOCK, for a statement about all of them: region, µs to live. */
void snib__sql_recipe_add_scope(struct snib__sql_script *,
                                const struct snib__sql_recipe *);
/* Rows of an INSPECT or LIST. */
void snib__sql_recipe_show(struct snib__buf *, const char *name, size_t size,
                           const struct snib__sql_recipe_row *);

#endif
