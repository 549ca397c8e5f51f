/* store/postgres/text_dialect.c — the statements for the server's own locks, of
 * ?dialect=advisory. (Those for tables of others: text_recipe.c.) */
#include "store/postgres/text_i.h"

/* Of an advisory lock, whose number is $2, or the pair $2, $3. */
#define OF_KEY(f)                                                              \
    "SELECT (CASE WHEN $1::bigint=0 THEN " f "($2::bigint) ELSE " f            \
    "($2::int,$3::bigint::int) END)::int::bigint"

const char *snib__pg_dialect_text(int statement)
{
    switch (statement) {
    /* Who waits does so for as long as it takes, or until he is gone. */
    case SNIB__PG_ADVISORY_SETTINGS:
        return "SELECT pg_backend_pid(),pg_is_in_recovery()::int," US "," LIFE
               ",set_config('search_path','',false),"
               "set_config('lock_timeout','0',false),"
               "set_config('statement_timeout','0',false),"
               "set_config('idle_in_transaction_session_timeout','1000',false),"
               /* Since version 17; a wait is a transaction. */
               "CASE WHEN current_setting('transaction_timeout',true)<>'' THEN "
               "set_config('transaction_timeout','0',false) END,"
               "CASE WHEN version() LIKE '%linux%' THEN "
               "set_config('client_connection_check_interval','1000',false) "
               "END";
    case SNIB__PG_ADVISORY_STAY:
        return "SELECT set_config('idle_session_timeout',$1::text,false)";
    case SNIB__PG_ADVISORY_CLOCK:
        return "SELECT " US;
    case SNIB__PG_ADVISORY_TRY:
        return OF_KEY("pg_try_advisory_lock");
    case SNIB__PG_ADVISORY_UNLOCK:
        return OF_KEY("pg_advisory_unlock");
    /* Whoever has that number by now is not harmed, if he does not wait so. */
    case SNIB__PG_ADVISORY_CANCEL:
        return "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE "
               "pid=$1::bigint::int AND application_name='snib: lock' AND "
               "wait_event='advisory'";
    case SNIB__PG_ADVISORY_LOOK: /* of others' sessions it may see less */
        return "SELECT l.granted::int::bigint,l.pid::bigint,a.application_name,"
               "CASE WHEN a.backend_start IS NULL THEN '' ELSE "
               "coalesce(host(a.client_addr),'the server''s own host') END," US
               ","
               "coalesce((extract(epoch FROM l.waitstart)*1000000)::bigint,0) "
               "FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid=l.pid "
               "WHERE l.locktype='advisory' AND l.database=(SELECT oid "
               "FROM pg_database WHERE datname=current_database()) AND "
               "l.classid::bigint=$1 AND l.objid::bigint=$2 AND "
               "l.objsubid::bigint=$3 ORDER BY l.granted DESC,l.waitstart "
               "NULLS FIRST";
    case SNIB__PG_ADVISORY_DOCTOR:
        return "SELECT (SELECT count(*) FROM pg_locks WHERE "
               "locktype='advisory' AND granted),(SELECT count(*) FROM "
               "pg_locks WHERE locktype='advisory' AND NOT granted),(SELECT "
               "count(*) FROM pg_stat_activity),"
               "current_setting('max_connections')::bigint";
    default:
        return NULL;
    }
}
