/* store/mysql/text_recipe.c — the statements for tables of others (store/sql/recipe.h).
 *
 * "~" stands for the table. Its instants are times of day in UTC, whatever the
 * session's time zone: columns of the type TIMESTAMP are the same for those sessions
 * alone that have the same one, hence the server's here. A name is compared as its
 * column compares. */
#include "store/mysql/mysql_i.h"

#define UTC        "UTC_TIMESTAMP(6)"
#define EPOCH      "TIMESTAMP'1970-01-01 00:00:00.000000'"
#define MICROS(x)  "TIMESTAMPDIFF(MICROSECOND," EPOCH "," x ")"
#define LATER(n)   "TIMESTAMPADD(MICROSECOND,$" n "," UTC ")"
#define INSTANT(n) "TIMESTAMPADD(MICROSECOND,$" n "," EPOCH ")"
#define A_TABLE                                                                \
    "FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() AND "        \
    "TABLE_NAME='~'"
#define A_COLUMN                                                               \
    "FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=DATABASE() AND "       \
    "TABLE_NAME='~' AND COLUMN_NAME"
#define A_KEY                                                                  \
    "FROM information_schema.STATISTICS s WHERE TABLE_SCHEMA=DATABASE() AND "  \
    "TABLE_NAME='~' AND NON_UNIQUE=0 AND SUB_PART IS NULL AND COLUMN_NAME"
/* So many columns that key has. */
#define KEY_COLUMNS                                                            \
    "(SELECT COUNT(*) FROM information_schema.STATISTICS o WHERE "             \
    "o.TABLE_SCHEMA=DATABASE() AND o.TABLE_NAME='~' AND "                      \
    "o.INDEX_NAME=s.INDEX_NAME)"

#define AT(statement)                                                          \
    (SNIB__SQL_DO_RECIPE_##statement - SNIB__SQL_DO_RECIPE_SETTINGS)

enum { TEXT_RECIPES = AT(DOCTOR) + 1 };

/* -- ShedLock's ------------------------------------------------------------ */

#define IT_IS(by) "name=_utf8mb4 $1 AND CAST(locked_by AS BINARY)=$" by
#define SEEN(by, at, until)                                                    \
    IT_IS(by)                                                                  \
    " AND locked_at=" INSTANT(at) " AND lock_until=" INSTANT(                  \
        until) " AND lock_until<=" UTC

static const char *const text_recipe_shedlock[TEXT_RECIPES] = {
    [AT(TABLE)] =
        "SELECT (SELECT COUNT(*) FROM information_schema.TABLES WHERE "
        "TABLE_SCHEMA=DATABASE() AND TABLE_NAME='~'),(SELECT COUNT(*) " A_COLUMN
        " IN ('name','lock_until','locked_at','locked_by')),"
        "(SELECT COUNT(*) " A_COLUMN " IN ('lock_until','locked_at') AND "
        "DATA_TYPE IN ('datetime','timestamp') AND DATETIME_PRECISION>=3),"
        "(SELECT CHARACTER_MAXIMUM_LENGTH " A_COLUMN "='locked_by'),"
        "(SELECT COUNT(*) FROM information_schema.STATISTICS s WHERE "
        "TABLE_SCHEMA=DATABASE() AND TABLE_NAME='~' AND NON_UNIQUE=0 AND "
        "COLUMN_NAME='name' AND SUB_PART IS NULL AND (SELECT COUNT(*) FROM "
        "information_schema.STATISTICS o WHERE o.TABLE_SCHEMA=DATABASE() AND "
        "o.TABLE_NAME='~' AND o.INDEX_NAME=s.INDEX_NAME)=1),"
        "(SELECT COUNT(*) FROM information_schema.TABLES WHERE "
        "TABLE_SCHEMA=DATABASE() AND TABLE_NAME='~' AND ENGINE='InnoDB')",
    [AT(LOOK)] = "SELECT " MICROS(UTC) "," MICROS("t.lock_until") "," MICROS(
        "t.locked_at") ",CAST(t.locked_by AS BINARY) FROM (SELECT 1) one "
                       "LEFT JOIN ~ t ON t.name=_utf8mb4 $1",
    [AT(MAKE)] =
        "INSERT INTO ~(name,lock_until,locked_at,locked_by) SELECT _utf8mb4 "
        "$1," LATER("2") "," UTC
                         ",_utf8mb4 $3 FROM DUAL WHERE " MICROS(UTC) "<=$4",
    [AT(TAKE)] = "UPDATE ~ SET lock_until=" LATER(
        "2") ",locked_at=" UTC
             ",locked_by=_utf8mb4 $3 WHERE " SEEN("5", "6", "7") " AND " MICROS(
                 UTC) "<=$4",
    /* Some servers set the first TIMESTAMP of a table at each change. */
    [AT(TOUCH)] = "UPDATE ~ SET lock_until=lock_until,locked_at=locked_at,"
                  "locked_by=_utf8mb4 $2 WHERE " SEEN("3", "4", "5"),
    [AT(RENEW)] = "UPDATE ~ SET lock_until=GREATEST(lock_until," LATER(
        "2") "),"
             "locked_at=locked_at WHERE " IT_IS("3") " AND lock_until>" UTC,
    [AT(END)] = "UPDATE ~ SET lock_until=" UTC
                ",locked_at=locked_at WHERE " IT_IS("2") " AND lock_until>" UTC,
    [AT(NAMES)] = "SELECT " MICROS(UTC) "," MICROS("lock_until") "," MICROS(
        "locked_at") ",CAST(locked_by AS BINARY),CAST(CONVERT(name USING "
                     "utf8mb4) AS BINARY) FROM ~ WHERE lock_until>" UTC
                     " ORDER BY name LIMIT 10000",
    [AT(DOCTOR)] =
        "SELECT COUNT(*),COALESCE(SUM(lock_until>" UTC "),0),"
        "COALESCE(TIMESTAMPDIFF(MICROSECOND," UTC ",MAX(locked_at)) DIV 1000,"
        "0),(SELECT COUNT(*) " A_COLUMN " IN ('lock_until','locked_at') AND "
        "DATA_TYPE='timestamp' AND TIMESTAMPDIFF(SECOND," UTC ",NOW(6))<>0) "
        "FROM ~",
};

static const struct snib__my_right text_recipe_shedlock_rights[] = {
    {"SELECT on ~", "SELECT 1 FROM ~ WHERE FALSE"},
    {"INSERT on ~",
     "INSERT INTO ~(name,lock_until,locked_at,locked_by) SELECT '',NOW(),"
     "NOW(),'' FROM DUAL WHERE FALSE"},
    {"UPDATE on ~", "UPDATE ~ SET locked_by='' WHERE FALSE"},
    {NULL, NULL},
};

/* -- Spring Integration's -------------------------------------------------- */

/* $1, $2: which lock; $3: for how many µs a row stands. A row that shall be over
 * so much later was written so much earlier. */
#define CREATED  MICROS("t.CREATED_DATE")
#define KEY      "LOCK_KEY=_utf8mb4 $1 AND REGION=_utf8mb4 $2"
#define UNTIL(n) "TIMESTAMPADD(MICROSECOND,$" n "-$3," UTC ")"
#define HAS(by)                                                                \
    KEY " AND CAST(CLIENT_ID AS BINARY)=$" by                                  \
        " AND TIMESTAMPADD(MICROSECOND,$3,CREATED_DATE)>" UTC
#define WRITTEN(by, at, until)                                                 \
    KEY " AND COALESCE(CAST(CLIENT_ID AS BINARY),'')=$" by                     \
        " AND CREATED_DATE=" INSTANT(at) " AND " INSTANT(until) "<=" UTC

static const char *const text_recipe_int_lock[TEXT_RECIPES] = {
    [AT(TABLE)] =
        "SELECT (SELECT COUNT(*) " A_TABLE "),(SELECT COUNT(*) " A_COLUMN
        " IN ('LOCK_KEY','REGION','CLIENT_ID','CREATED_DATE'))-(SELECT "
        "COUNT(*) " A_COLUMN "='EXPIRED_AFTER'),(SELECT COUNT(*) " A_COLUMN
        "='CREATED_DATE' AND DATA_TYPE IN ('datetime','timestamp') AND "
        "DATETIME_PRECISION>=3),"
        "(SELECT CHARACTER_MAXIMUM_LENGTH " A_COLUMN "='CLIENT_ID'),"
        "(SELECT COUNT(*) " A_KEY "='LOCK_KEY' AND " KEY_COLUMNS "=2 AND EXISTS"
        "(SELECT 1 FROM information_schema.STATISTICS r WHERE "
        "r.TABLE_SCHEMA=DATABASE() AND r.TABLE_NAME='~' AND "
        "r.INDEX_NAME=s.INDEX_NAME AND r.COLUMN_NAME='REGION' AND "
        "r.SUB_PART IS NULL)),"
        "(SELECT COUNT(*) " A_TABLE " AND ENGINE='InnoDB')",
    [AT(LOOK)] = "SELECT " MICROS(
        UTC) "," CREATED "+$3," CREATED ",COALESCE(CAST(t.CLIENT_ID AS "
             "BINARY),'') FROM (SELECT 1) one LEFT "
             "JOIN ~ t ON t.LOCK_KEY=_utf8mb4 $1 AND t.REGION=_utf8mb4 $2",
    [AT(MAKE)] = "INSERT INTO ~(LOCK_KEY,REGION,CLIENT_ID,CREATED_DATE) SELECT "
                 "_utf8mb4 $1,_utf8mb4 $2,_utf8mb4 $5," UNTIL(
                     "4") " FROM DUAL WHERE " MICROS(UTC) "<=$6",
    [AT(TAKE)] = "UPDATE ~ SET CLIENT_ID=_utf8mb4 $5,CREATED_DATE=" UNTIL(
        "4") " WHERE " WRITTEN("7", "8", "9") " AND " MICROS(UTC) "<=$6",
    /* Some servers set the first TIMESTAMP of a table at each change. */
    [AT(TOUCH)] = "UPDATE ~ SET CLIENT_ID=_utf8mb4 "
                  "$4,CREATED_DATE=CREATED_DATE WHERE " WRITTEN("5", "6", "7"),
    [AT(RENEW)] = "UPDATE ~ SET CREATED_DATE=GREATEST(CREATED_DATE," UNTIL(
        "4") ") WHERE " HAS("5"),
    /* Their clocks may be behind: it is over for them, too. */
    [AT(END)] = "UPDATE ~ SET "
                "CREATED_DATE=TIMESTAMPADD(MICROSECOND,-$3-86400000000," UTC
                ") WHERE " HAS("4"),
    [AT(DOCTOR)] =
        "SELECT COUNT(*),COALESCE(SUM(TIMESTAMPADD(MICROSECOND,$2,"
        "CREATED_DATE)>" UTC "),0),COALESCE(TIMESTAMPDIFF(MICROSECOND," UTC
        ",MAX(CREATED_DATE)) DIV 1000,0),(SELECT COUNT(*) " A_COLUMN
        "='CREATED_DATE' AND DATA_TYPE='timestamp' AND "
        "TIMESTAMPDIFF(SECOND," UTC ",NOW(6))<>0) FROM ~ WHERE "
        "REGION=_utf8mb4 $1",
};

static const struct snib__my_right text_recipe_int_lock_rights[] = {
    {"SELECT on ~", "SELECT 1 FROM ~ WHERE FALSE"},
    {"INSERT on ~",
     "INSERT INTO ~(LOCK_KEY,REGION,CLIENT_ID,CREATED_DATE) SELECT '','','',"
     "NOW() FROM DUAL WHERE FALSE"},
    {"UPDATE on ~", "UPDATE ~ SET CLIENT_ID='' WHERE FALSE"},
    {NULL, NULL},
};

/* -- both ------------------------------------------------------------------ */

const char *snib__my_recipe_text(const struct snib__sql_recipe *p,
                                 int statement)
{
    int at = statement - SNIB__SQL_DO_RECIPE_SETTINGS;
    if (at == AT(SETTINGS)) {
        return "SET SESSION time_zone=@@global.time_zone";
    }
    return at < 0 || at >= TEXT_RECIPES ? NULL
           : p->int_lock                ? text_recipe_int_lock[at]
                                        : text_recipe_shedlock[at];
}

const char *snib__my_recipe_table(bool int_lock)
{
    return int_lock
               ? "CREATE TABLE IF NOT EXISTS ~(LOCK_KEY CHAR(36) NOT NULL, "
                 "REGION VARCHAR(100) NOT NULL, CLIENT_ID CHAR(36), "
                 "CREATED_DATE DATETIME(6) NOT NULL, "
                 "PRIMARY KEY (LOCK_KEY, REGION)) ENGINE=InnoDB"
               : "CREATE TABLE IF NOT EXISTS ~(name VARCHAR(64) NOT NULL "
                 "PRIMARY KEY, lock_until DATETIME(3) NOT NULL, locked_at "
                 "DATETIME(3) NOT NULL, locked_by VARCHAR(255) NOT NULL) "
                 "ENGINE=InnoDB";
}

const char *snib__my_recipe_right(bool int_lock, int index,
                                  const char **ret_right)
{
    const struct snib__my_right *r =
        int_lock ? text_recipe_int_lock_rights : text_recipe_shedlock_rights;
    *ret_right = r[index].right;
    return r[index].text;
}
