/* store/postgres/text_recipe.c — the statements for tables of others (store/sql/recipe.h).
 *
 * "~" stands for the table. Its instants are times of day in UTC. A row is judged by
 * the clock at which the statement changes it. */
#include "store/postgres/postgres_i.h"

#define UTC       "timezone('utc',clock_timestamp())"
#define MICROS(x) "(extract(epoch FROM " x ")*1000000)::bigint"
#define LATER(n)  UTC "+$" n "::bigint*interval '1 microsecond'"
#define INSTANT(n)                                                             \
    "timestamp '1970-01-01'+$" n "::bigint*interval '1 microsecond'"
#define A_COLUMN                                                               \
    "FROM pg_attribute a WHERE a.attrelid=to_regclass('~') AND a.attnum>0 "    \
    "AND NOT a.attisdropped AND a.attname"

/* A crash does not empty it. */
#define STAYS                                                                  \
    "(SELECT count(*) FROM pg_class WHERE oid=to_regclass('~') AND "           \
    "relpersistence='p')"

#define AT(statement)                                                          \
    (SNIB__SQL_DO_RECIPE_##statement - SNIB__SQL_DO_RECIPE_SETTINGS)

enum { TEXT_RECIPES = AT(DOCTOR) + 1 };

/* -- ShedLock's ------------------------------------------------------------ */

#define SEEN(by, at, until)                                                    \
    "name=$1 AND locked_by=$" by " AND locked_at=" INSTANT(                    \
        at) " AND lock_until=" INSTANT(until) " AND lock_until<=" UTC

static const char *const text_recipe_shedlock[TEXT_RECIPES] = {
    [AT(TABLE)] =
        "SELECT (to_regclass('~') IS NOT NULL)::int,(SELECT count(*) " A_COLUMN
        " IN ('name','lock_until','locked_at','locked_by')),"
        "(SELECT count(*) " A_COLUMN " IN ('lock_until','locked_at') AND "
        "a.atttypid='timestamp'::regtype AND (a.atttypmod<0 OR "
        "a.atttypmod>=3)),"
        "(SELECT CASE WHEN a.atttypmod>=4 THEN a.atttypmod-4 END " A_COLUMN
        "='locked_by'),"
        "(SELECT count(*) FROM pg_index i WHERE i.indrelid=to_regclass('~') "
        "AND i.indisunique AND i.indisvalid AND i.indimmediate AND "
        "i.indpred IS NULL AND i.indnkeyatts=1 AND i.indkey[0]=(SELECT "
        "a.attnum " A_COLUMN "='name'))," STAYS,
    [AT(LOOK)] = "SELECT " MICROS(UTC) "," MICROS("t.lock_until") "," MICROS(
        "t.locked_at") ",t.locked_by::text FROM (SELECT 1) one LEFT JOIN ~ "
                       "t ON t.name=$1::text",
    [AT(MAKE)] = "INSERT INTO ~(name,lock_until,locked_at,locked_by) SELECT "
                 "$1::text," LATER("2") "," UTC ",$3::text WHERE " MICROS(
                     UTC) "<=$4::bigint ON CONFLICT DO NOTHING RETURNING 1",
    [AT(TAKE)] = "UPDATE ~ SET lock_until=" LATER(
        "2") ",locked_at=" UTC
             ",locked_by=$3 WHERE " SEEN("5", "6", "7") " AND " MICROS(
                 UTC) "<=$4::bigint RETURNING 1",
    [AT(TOUCH)] =
        "UPDATE ~ SET locked_by=$2 WHERE " SEEN("3", "4", "5") " RETURNING 1",
    [AT(RENEW)] = "UPDATE ~ SET lock_until=greatest(lock_until," LATER(
        "2") ") WHERE "
             "name=$1 AND locked_by=$3 AND lock_until>" UTC " RETURNING 1",
    [AT(END)] =
        "UPDATE ~ SET lock_until=" UTC " WHERE name=$1 AND locked_by=$2 AND "
        "lock_until>" UTC " RETURNING 1",
    [AT(NAMES)] = "SELECT " MICROS(UTC) "," MICROS("lock_until") "," MICROS(
        "locked_at") ",locked_by::text,name::text FROM ~ WHERE "
                     "lock_until>" UTC " ORDER BY name LIMIT 10000",
    [AT(DOCTOR)] =
        "SELECT count(*),count(*) FILTER (WHERE lock_until>" UTC "),"
        "coalesce((extract(epoch FROM max(locked_at)-" UTC ")*1000)::bigint,0),"
        "0::bigint FROM ~",
};

/* -- Spring Integration's -------------------------------------------------- */

/* $1, $2: which lock; $3: for how many µs a row stands. A row that shall be over
 * so much later was written so much earlier. */
#define NOW      MICROS(UTC)
#define CREATED  MICROS("t.created_date")
#define KEY      "lock_key=$1 AND region=$2"
#define STANDS   "created_date+$3::bigint*interval '1 microsecond'>" UTC
#define UNTIL(n) UTC "+($" n "::bigint-$3::bigint)*interval '1 microsecond'"
#define WRITTEN(by, at, until)                                                 \
    KEY " AND coalesce(client_id::text,'')=$" by                               \
        " AND created_date=" INSTANT(at) " AND " INSTANT(until) "<=" UTC

static const char *const text_recipe_int_lock[TEXT_RECIPES] = {
    [AT(TABLE)] =
        "SELECT (to_regclass('~') IS NOT NULL)::int,(SELECT count(*) " A_COLUMN
        " IN ('lock_key','region','client_id','created_date'))-(SELECT "
        "count(*) " A_COLUMN "='expired_after'),(SELECT count(*) " A_COLUMN
        "='created_date' AND a.atttypid='timestamp'::regtype AND "
        "(a.atttypmod<0 OR a.atttypmod>=3)),"
        "(SELECT CASE WHEN a.atttypmod>=4 THEN a.atttypmod-4 END " A_COLUMN
        "='client_id'),"
        "(SELECT count(*) FROM pg_index i WHERE i.indrelid=to_regclass('~') "
        "AND i.indisunique AND i.indisvalid AND i.indimmediate AND "
        "i.indpred IS NULL AND i.indnkeyatts=2 AND i.indkey[0]<>i.indkey[1] "
        "AND i.indkey[0] IN (SELECT a.attnum " A_COLUMN
        " IN ('lock_key','region')) AND i.indkey[1] IN (SELECT "
        "a.attnum " A_COLUMN " IN ('lock_key','region')))," STAYS,
    [AT(LOOK)] =
        "SELECT " NOW "," CREATED "+$3::bigint," CREATED
        ",coalesce(t.client_id::text,'') FROM (SELECT 1) one LEFT JOIN ~ t "
        "ON t.lock_key=$1 AND t.region=$2",
    [AT(MAKE)] = "INSERT INTO ~(lock_key,region,client_id,created_date) SELECT "
                 "$1::text,$2::text,$5::text," UNTIL(
                     "4") " WHERE " NOW
                          "<=$6::bigint ON CONFLICT DO NOTHING RETURNING 1",
    [AT(TAKE)] =
        "UPDATE ~ SET client_id=$5,created_date=" UNTIL("4") " WHERE " WRITTEN(
            "7", "8", "9") " AND " NOW "<=$6::bigint RETURNING 1",
    [AT(TOUCH)] = "UPDATE ~ SET client_id=$4 WHERE $3::bigint>0 AND " WRITTEN(
        "5", "6", "7") " RETURNING 1",
    [AT(RENEW)] = "UPDATE ~ SET created_date=greatest(created_date," UNTIL(
        "4") ") WHERE " KEY " AND client_id=$5 AND " STANDS " RETURNING 1",
    /* Their clocks may be behind: it is over for them, too. */
    [AT(END)] = "UPDATE ~ SET created_date=" UTC
                "-$3::bigint*interval '1 microsecond'-interval '1 day' "
                "WHERE " KEY " AND client_id=$4 AND " STANDS " RETURNING 1",
    [AT(DOCTOR)] =
        "SELECT count(*),count(*) FILTER (WHERE created_date+$2::bigint*"
        "interval '1 microsecond'>" UTC "),coalesce((extract(epoch FROM "
        "max(created_date)-" UTC ")*1000)::bigint,0),0::bigint FROM ~ "
        "WHERE region=$1",
};

/* -- both ------------------------------------------------------------------ */

const char *snib__pg_recipe_text(const struct snib__sql_recipe *p,
                                 int statement)
{
    int at = statement - SNIB__SQL_DO_RECIPE_SETTINGS;
    if (statement == SNIB__PG_RECIPE_RIGHTS) {
        return "SELECT p||' on ~' FROM "
               "unnest(ARRAY['SELECT','INSERT','UPDATE']) p "
               "WHERE NOT has_table_privilege('~',p)";
    }
    return at < 0 || at >= TEXT_RECIPES ? NULL
           : p->int_lock                ? text_recipe_int_lock[at]
                                        : text_recipe_shedlock[at];
}

const char *snib__pg_recipe_table(bool int_lock)
{
    return int_lock
               ? "CREATE TABLE IF NOT EXISTS ~(LOCK_KEY CHAR(36) NOT NULL, "
                 "REGION VARCHAR(100) NOT NULL, CLIENT_ID CHAR(36), "
                 "CREATED_DATE TIMESTAMP NOT NULL, "
                 "PRIMARY KEY (LOCK_KEY, REGION))"
               : "CREATE TABLE IF NOT EXISTS ~(name VARCHAR(64) NOT NULL "
                 "PRIMARY KEY, lock_until TIMESTAMP NOT NULL, locked_at "
                 "TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL)";
}
