/* store/postgres/text_dialect.c — the statements for the locks of others: of
 * ?dialect=shedlock, for which "~" is the table, and of ?dialect=advisory, which has
 * none. */
#include "store/postgres/text_i.h"

/* Its instants are times of day in UTC. */
#define UTC       "timezone('utc',clock_timestamp())"
#define MICROS(x) "(extract(epoch FROM " x ")*1000000)::bigint"
#define LATER(n)  UTC "+$" n "::bigint*interval '1 microsecond'"
#define INSTANT(n)                                                             \
    "timestamp '1970-01-01'+$" n "::bigint*interval '1 microsecond'"
#define SEEN(by, at, until)                                                    \
    "name=$1 AND locked_by=$" by " AND locked_at=" INSTANT(                    \
        at) " AND lock_until=" INSTANT(until) " AND lock_until<=" UTC
/* Of an advisory lock, whose number is $2, or the pair $2, $3. */
#define OF_KEY(f)                                                              \
    "SELECT (CASE WHEN $1::bigint=0 THEN " f "($2::bigint) ELSE " f            \
    "($2::int,$3::bigint::int) END)::int::bigint"
#define A_COLUMN                                                               \
    "FROM pg_attribute a WHERE a.attrelid=to_regclass('~') AND a.attnum>0 "    \
    "AND NOT a.attisdropped AND a.attname"

static const char *const text_dialect_of[SNIB__PG_STATEMENTS] = {
    [SNIB__SQL_DO_RECIPE_TABLE] =
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
        "a.attnum " A_COLUMN "='name')),(SELECT count(*) FROM pg_class WHERE "
        "oid=to_regclass('~') AND relpersistence='p')",
    [SNIB__SQL_DO_RECIPE_LOOK] =
        "SELECT " MICROS(UTC) "," MICROS("t.lock_until") "," MICROS(
            "t.locked_at") ",t.locked_by::text FROM (SELECT 1) one LEFT JOIN ~ "
                           "t ON t.name=$1::text",
    [SNIB__SQL_DO_RECIPE_MAKE] =
        "INSERT INTO ~(name,lock_until,locked_at,locked_by) SELECT "
        "$1::text," LATER("2") "," UTC ",$3::text WHERE " MICROS(
            UTC) "<=$4::bigint ON CONFLICT DO NOTHING RETURNING 1",
    [SNIB__SQL_DO_RECIPE_TAKE] = "UPDATE ~ SET lock_until=" LATER(
        "2") ",locked_at=" UTC
             ",locked_by=$3 WHERE " SEEN("5", "6", "7") " AND " MICROS(
                 UTC) "<=$4::bigint RETURNING 1",
    [SNIB__SQL_DO_RECIPE_TOUCH] =
        "UPDATE ~ SET locked_by=$2 WHERE " SEEN("3", "4", "5") " RETURNING 1",
    [SNIB__SQL_DO_RECIPE_RENEW] =
        "UPDATE ~ SET lock_until=greatest(lock_until," LATER(
            "2") ") WHERE "
                 "name=$1 AND locked_by=$3 AND lock_until>" UTC " RETURNING 1",
    [SNIB__SQL_DO_RECIPE_END] =
        "UPDATE ~ SET lock_until=" UTC " WHERE name=$1 AND locked_by=$2 AND "
        "lock_until>" UTC " RETURNING 1",
    [SNIB__SQL_DO_RECIPE_NAMES] =
        "SELECT " MICROS(UTC) "," MICROS("lock_until") "," MICROS(
            "locked_at") ",locked_by::text,name::text FROM ~ WHERE "
                         "lock_until>" UTC " ORDER BY name LIMIT 10000",
    [SNIB__SQL_DO_RECIPE_DOCTOR] =
        "SELECT count(*),count(*) FILTER (WHERE lock_until>" UTC "),"
        "coalesce((extract(epoch FROM max(locked_at)-" UTC ")*1000)::bigint,0),"
        "0::bigint FROM ~",
    [SNIB__PG_RECIPE_RIGHTS] =
        "SELECT p||' on ~' FROM unnest(ARRAY['SELECT','INSERT','UPDATE']) p "
        "WHERE NOT has_table_privilege('~',p)",
    /* Who waits does so for as long as it takes, or until he is gone. */
    [SNIB__PG_ADVISORY_SETTINGS] =
        "SELECT pg_backend_pid(),pg_is_in_recovery()::int," US "," LIFE ","
        "set_config('search_path','',false),set_config('lock_timeout','0',"
        "false),set_config('statement_timeout','0',false),"
        "set_config('idle_in_transaction_session_timeout','1000',false),CASE "
        "WHEN version() LIKE '%linux%' THEN "
        "set_config('client_connection_check_interval','1000',false) END",
    [SNIB__PG_ADVISORY_STAY] =
        "SELECT set_config('idle_session_timeout',$1::text,false)",
    [SNIB__PG_ADVISORY_CLOCK] = "SELECT " US,
    [SNIB__PG_ADVISORY_TRY] = OF_KEY("pg_try_advisory_lock"),
    [SNIB__PG_ADVISORY_UNLOCK] = OF_KEY("pg_advisory_unlock"),
    /* Whoever has that number by now is not harmed, if he does not wait so. */
    [SNIB__PG_ADVISORY_CANCEL] =
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE "
        "pid=$1::bigint::int AND application_name='snib: lock' AND "
        "wait_event='advisory'",
    [SNIB__PG_ADVISORY_LOOK] =
        "SELECT l.granted::int::bigint,l.pid::bigint,a.application_name,"
        "coalesce(host(a.client_addr),'its own host')," US ","
        "coalesce((extract(epoch FROM l.waitstart)*1000000)::bigint,0) "
        "FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid=l.pid WHERE "
        "l.locktype='advisory' AND l.database=(SELECT oid "
        "FROM pg_database WHERE datname=current_database()) AND "
        "l.classid::bigint=$1 AND l.objid::bigint=$2 AND "
        "l.objsubid::bigint=$3 ORDER BY l.granted DESC,l.waitstart NULLS FIRST",
    [SNIB__PG_ADVISORY_DOCTOR] =
        "SELECT (SELECT count(*) FROM pg_locks WHERE locktype='advisory' AND "
        "granted),(SELECT count(*) FROM pg_locks WHERE locktype='advisory' AND "
        "NOT granted),(SELECT count(*) FROM pg_stat_activity),"
        "current_setting('max_connections')::bigint",
};

const char *snib__pg_dialect_text(int statement)
{
    return text_dialect_of[statement];
}
