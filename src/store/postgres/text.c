/* store/postgres/text.c — every statement that this store sends, but for those of
 * dialects (text_dialect.c).
 *
 * "@" stands for the schema and a point, "~" for the schema. Instants are Unix
 * nanoseconds of the server's clock, which has microseconds.
 *
 * The clock. clock_timestamp() is read when its row is made, in an UPDATE before
 * it waits for another's lock of that row. A grant or a renewal then counts from
 * an earlier instant, and never from one before its sending. What was fetched is
 * judged by a clock that was read after it.
 *
 * A guard divides one by the number of rows that are as they were: 22012 ends
 * the transaction when there is none. FOR UPDATE inside a subquery looks again
 * at a row for which it had to wait. */
#include "store/postgres/text_i.h"

#define NS "(" US "*1000)"
/* A token and its reserve stay below 2^53 (core/rules/rules.h). */
#define TOKEN_END "9007199254740960"
#define DAY       "88473600000" /* in 1/1024 ms */

/* The end of a lease and of its lock-delay; whatever stands there, it is a
 * number. */
#define END(until, delay)                                                      \
    "(least(" until ",4000000000000000000)+least(greatest(" delay              \
    ",0),2000000000000000000))"

/* The columns of a claim, in the order of enum snib__pg_column. */
#define CLAIM                                                                  \
    "request,stamp,id,client,state,kind,permits,reserve,slot,token,floor,"     \
    "rank,upgrade_of,lease,delay,since,until,notifier,note,about"
#define HOLDER                                                                 \
    "l.h_request,l.h_stamp,l.h_id,l.h_client,1::bigint,l.h_kind,l.h_permits,"  \
    "l.h_reserve,0::bigint,l.h_token,l.h_floor,l.h_rank,l.h_upgrade_of,"       \
    "l.h_lease,l.h_delay,l.h_since,l.h_until,l.h_notifier,NULL::bytea,"        \
    "l.h_about"
/* Is the party of a barrier still there? Its server process would be. */
#define ALIVE                                                                  \
    "CASE WHEN kind=4 AND listener>0 THEN (SELECT count(*) FROM "              \
    "pg_stat_get_activity(listener::int)) ELSE 1 END"
#define MAKE_ROW "INSERT INTO @lock(name) VALUES($1) ON CONFLICT DO NOTHING"
#define SET_HOLDER(column, n, type)                                            \
    ",h_" column "=CASE WHEN $9::bigint=0 THEN h_" column " ELSE $" n          \
    "::" type " END"

static const char *const text_of[SNIB__PG_STATEMENTS] = {
    [SNIB__SQL_DO_BEGIN] = "BEGIN",
    [SNIB__SQL_DO_BEGIN_READ] =
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    [SNIB__SQL_DO_COMMIT] = "COMMIT",
    [SNIB__SQL_DO_ROLLBACK] = "ROLLBACK",
    /* A frozen client is in the way of others for as long as
     * idle_in_transaction_session_timeout. */
    [SNIB__PG_SETTINGS] =
        "SELECT pg_backend_pid(),pg_is_in_recovery()::int," US "," LIFE ","
        "set_config('search_path','',false),"
        "set_config('default_transaction_isolation','read committed',false),"
        "set_config('default_transaction_read_only','off',false),"
        "set_config('lock_timeout','1000',false),"
        "set_config('idle_in_transaction_session_timeout','1000',false),"
        "set_config('statement_timeout','30000',false),"
        "set_config('enable_seqscan','off',false),"
        "set_config('enable_bitmapscan','off',false),"
        "set_config('plan_cache_mode','force_generic_plan',false),"
        "set_config('jit','off',false),"
        "set_config('synchronous_commit',CASE WHEN $1::bigint=0 THEN 'off' "
        "WHEN current_setting('synchronous_commit')='off' THEN 'on' "
        "ELSE current_setting('synchronous_commit') END,false)",
    [SNIB__PG_LAYOUT] = "SELECT value FROM @meta WHERE key='schema'",
    [SNIB__PG_HAS_SCHEMA] =
        "SELECT count(*) FROM pg_namespace WHERE nspname='~'",
    [SNIB__SQL_DO_NOT_DURABLE] =
        "SELECT set_config('synchronous_commit','off',true)",
    [SNIB__SQL_DO_MAKE_ROW_FIRST] = MAKE_ROW,
    [SNIB__SQL_DO_MAKE_ROW] = MAKE_ROW,
    [SNIB__SQL_DO_LOCK] = "SELECT 1 FROM @lock WHERE name=$1 FOR UPDATE",
    [SNIB__SQL_DO_FETCH] =
        "SELECT " US "," LIFE ",f.value,f.stamp,"
        "CASE WHEN $4::bigint<>0 THEN (SELECT max(token) FROM @lock) END,"
        "l.stamp,l.token,l.size,l.latch,l.arrivals,l.arrived,l.claims,"
        "CASE WHEN l.claims>$3::bigint THEN (SELECT count(*) FROM @claim w "
        "WHERE w.name=$1 AND w.state=0) END,"
        "CASE WHEN l.claims>$3 THEN (SELECT max(rank) FROM @claim w "
        "WHERE w.name=$1 AND w.state=0) END," HOLDER ",c.* "
        "FROM (SELECT 1) one LEFT JOIN @meta f ON f.key='floor' "
        "LEFT JOIN @lock l ON l.name=$1 LEFT JOIN LATERAL ("
        "(SELECT " CLAIM ",1::bigint FROM @claim WHERE l.claims>0 AND name=$1 "
        "AND state<>0 ORDER BY id) UNION ALL "
        "(SELECT " CLAIM "," ALIVE " FROM @claim WHERE l.claims>0 AND name=$1 "
        "AND state=0 ORDER BY rank,id LIMIT $3) UNION ALL "
        "SELECT " CLAIM "," ALIVE " FROM @claim WHERE l.claims>0 AND name=$1 "
        "AND state=0 AND request=$2) c ON true",
    [SNIB__SQL_DO_GUARD] =
        "SELECT 1/count(*)::int FROM (SELECT FROM @lock WHERE name=$1 "
        "AND stamp=coalesce($2::bigint,stamp) "
        "AND arrived=coalesce($3::bigint,arrived) "
        "AND ($4::uuid IS NULL OR (h_request=$4 AND h_stamp=$5::bigint)) "
        "AND ($6::uuid IS NULL OR h_request IS DISTINCT FROM $6) "
        "AND " US "<=$7::bigint AND " LIFE "=$8::bigint FOR UPDATE) q",
    [SNIB__SQL_DO_GUARD_CLAIM] =
        "SELECT 1/count(*)::int FROM (SELECT FROM @claim WHERE name=$1 "
        "AND request=$2 AND stamp=$3 FOR UPDATE) q",
    [SNIB__SQL_DO_GUARD_NO_CLAIM] = "SELECT 1/(1-count(*)::int) FROM @claim "
                                    "WHERE name=$1 AND request=$2",
    [SNIB__SQL_DO_GUARD_FLOOR] =
        "SELECT 1/count(*)::int FROM (SELECT FROM @meta WHERE key='floor' "
        "AND stamp=$1 FOR SHARE) q",
    /* When its size was set is when the name was used: the token tells the
     * cleaner. */
    [SNIB__SQL_DO_PUT_LOCK] =
        "UPDATE @lock SET stamp=coalesce($2,stamp),"
        "token=CASE WHEN token>=0 AND (size<>coalesce($4,size) OR "
        "latch<>coalesce($5,latch)) THEN greatest(coalesce($3,token)," US
        "/1000*1024) ELSE coalesce($3,token) END,"
        "size=coalesce($4,size),latch=coalesce($5,latch),"
        "arrivals=coalesce($6,arrivals),arrived=coalesce($7,arrived),"
        "claims=claims+$8" SET_HOLDER("request", "10", "uuid") SET_HOLDER(
            "stamp", "11", "bigint") SET_HOLDER("id", "12", "bigint")
            SET_HOLDER("client", "13", "uuid") SET_HOLDER(
                "kind", "14", "bigint") SET_HOLDER("permits", "15", "bigint")
                SET_HOLDER("reserve", "16", "bigint") SET_HOLDER(
                    "token", "17", "bigint") SET_HOLDER("floor", "18", "bigint")
                    SET_HOLDER("rank", "19", "bigint") SET_HOLDER("upgrade_of",
                                                                  "20", "uuid")
                        SET_HOLDER("lease", "21",
                                   "bigint") SET_HOLDER("delay", "22", "bigint")
                            SET_HOLDER("since", "23", "bigint")
                                SET_HOLDER("until", "24", "bigint")
                                    SET_HOLDER("notifier", "25", "text")
                                        SET_HOLDER("about", "26",
                                                   "bytea") " WHERE name=$1",
    [SNIB__SQL_DO_PUT_FLOOR] =
        "WITH w AS (UPDATE @meta SET value=$1,stamp=$2 WHERE key='floor' AND "
        "stamp=$3 RETURNING 1) SELECT 1/count(*)::int FROM w",
    [SNIB__SQL_DO_ADD_CLAIM] =
        "INSERT INTO @claim(name," CLAIM ",listener) VALUES($1,$2,$3,$4,$5,$6,"
        "$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22)",
    [SNIB__SQL_DO_PUT_CLAIM] =
        "WITH w AS (UPDATE @claim SET stamp=$3,id=$4,client=$5,state=$6,"
        "kind=$7,permits=$8,reserve=$9,slot=$10,token=$11,floor=$12,rank=$13,"
        "upgrade_of=$14,lease=$15,delay=$16,since=$17,until=$18,notifier=$19,"
        "note=$20,about=$21,listener=$22 WHERE name=$1 AND request=$2 AND "
        "stamp=$23 RETURNING 1) SELECT 1/count(*)::int FROM w",
    [SNIB__SQL_DO_DELETE_CLAIM] =
        "WITH w AS (DELETE FROM @claim WHERE name=$1 AND request=$2 AND "
        "stamp=$3 RETURNING 1) SELECT 1/count(*)::int FROM w",
    [SNIB__SQL_DO_SWEEP] =
        "WITH d AS (DELETE FROM @claim WHERE name=$1 AND state IN (2,3,4) AND "
        "until<=$2 RETURNING 1) UPDATE @lock SET claims=claims-(SELECT "
        "count(*) FROM d) WHERE name=$1 AND EXISTS(SELECT FROM d)",
    [SNIB__PG_NOTIFY] =
        "SELECT set_config('synchronous_commit','off',true),"
        "pg_notify($1::text,$2::text) WHERE EXISTS(SELECT FROM @lock WHERE "
        "name=$3 AND h_request=$4) OR EXISTS(SELECT FROM @claim WHERE name=$3 "
        "AND request=$4 AND state IN (4,5))",
    [SNIB__SQL_DO_ACQUIRE] =
        "UPDATE @lock SET stamp=$2,token=greatest(token+1,n.c,$8::bigint+1)+$7,"
        "h_stamp=$2,h_request=$3,h_client=$4,h_id=arrivals+1,h_kind=$5,"
        "h_permits=$6,h_reserve=$7,h_token=greatest(token+1,n.c,$8+1),"
        "h_floor=$8,h_rank=$9,h_upgrade_of=NULL,h_lease=$10,h_delay=$11,"
        "h_since=n.us*1000,h_until=n.us*1000+$10,h_notifier=$12,h_about=$13 "
        "FROM (SELECT us,us/1000*1024+us%1000*1024/1000 AS c FROM "
        "(SELECT " US " AS us OFFSET 0) t OFFSET 0) n "
        "WHERE name=$1 AND stamp<>0 AND claims=0 AND latch=0 "
        "AND token>=0 AND token<" TOKEN_END " AND n.c<" TOKEN_END " "
        "AND n.us<=$14::bigint AND $8::bigint<=n.c+" DAY " "
        "AND (h_request IS NULL OR " END("h_until",
                                         "h_delay") "<=n.us*1000) "
                                                    "RETURNING h_token,n.us",
    [SNIB__SQL_DO_RENEW] =
        "UPDATE @lock SET h_stamp=$4,h_lease=$5,"
        "h_until=greatest(h_until,n.now+$5),h_notifier=CASE WHEN h_client=$7 "
        "THEN $6 ELSE h_notifier END FROM (SELECT " NS " AS now OFFSET 0) n "
        "WHERE name=$1 AND h_request=$2 AND ($3::bigint=0 OR h_token=$3) AND "
        "h_until>n.now RETURNING h_token,n.now/1000,h_reserve,h_permits",
    [SNIB__SQL_DO_RENEW_SHARE] =
        "UPDATE @claim SET stamp=$4,lease=$5,until=greatest(until,n.now+$5),"
        "notifier=CASE WHEN client=$7 THEN $6 ELSE notifier END,"
        "listener=CASE WHEN client=$7 THEN $8 ELSE listener END "
        "FROM (SELECT " NS " AS now OFFSET 0) n WHERE name=$1 AND request=$2 "
        "AND token=$3 AND state=5 AND until>n.now "
        "RETURNING token,n.now/1000,reserve,permits,slot",
    [SNIB__SQL_DO_RELEASE] =
        "UPDATE @lock SET stamp=$4,h_stamp=NULL,h_request=NULL,h_client=NULL,"
        "h_id=NULL,h_kind=NULL,h_permits=NULL,h_reserve=NULL,h_token=NULL,"
        "h_floor=NULL,h_rank=NULL,h_upgrade_of=NULL,h_lease=NULL,h_delay=NULL,"
        "h_since=NULL,h_until=NULL,h_notifier=NULL,h_about=NULL "
        "WHERE name=$1 AND h_request=$2 AND h_token=$3 AND h_until>" NS " AND "
        "claims=0 RETURNING h_token," US,
    [SNIB__SQL_DO_NAMES] =
        "SELECT name FROM @lock l WHERE name>$1 AND "
        "((claims>0 AND EXISTS(SELECT FROM @claim c WHERE "
        "c.name=l.name AND "
        "(c.state=0 OR ($3::bigint=0 AND c.state IN (1,5))) "
        "AND " END("c.until",
                   "CASE WHEN c.state=0 THEN 0 ELSE c.delay "
                   "END") ">" NS
                          ")) OR ($3=0 AND " END(
                              "h_until", "h_delay") ">" NS " AND h_request IS "
                                                    "NOT NULL)) ORDER "
                                                    "BY name LIMIT $2",
    [SNIB__SQL_DO_VALUE] =
        "SELECT " US "/1000,(SELECT value FROM @meta WHERE "
        "key='version_floor'),v.stamp,v.until,v.record,v.bytes FROM (SELECT 1) "
        "one LEFT JOIN @value v ON v.name=$1",
    [SNIB__SQL_DO_VALUE_LOCKED] = "SELECT stamp,until,record FROM @value "
                                  "WHERE name=$1 FOR UPDATE",
    [SNIB__SQL_DO_VALUE_FLOOR] = "SELECT " US "/1000,(SELECT value FROM @meta "
                                 "WHERE key='version_floor')",
    [SNIB__SQL_DO_VALUE_IN_TIME] = "SELECT 1/(" US "/1000<=$1::bigint)::int",
    [SNIB__SQL_DO_VALUE_ADD] =
        "INSERT INTO @value(name,stamp,until,last,record,bytes) "
        "VALUES($1,$2,$3,$4,$5,$6)",
    [SNIB__SQL_DO_VALUE_PUT] = "UPDATE @value SET stamp=$2,until=$3,last=$4,"
                               "record=$5,bytes=$6 WHERE name=$1",
    [SNIB__SQL_DO_VALUE_NOTE] =
        "UPDATE @value SET stamp=$2,last=$3,record=$4 WHERE name=$1",
    [SNIB__SQL_DO_VALUE_FORGET] =
        "WITH d AS (DELETE FROM @value WHERE name IN (SELECT name FROM @value "
        "WHERE until<$1 ORDER BY until LIMIT 8 FOR UPDATE SKIP LOCKED) "
        "RETURNING last) UPDATE @meta SET value=greatest(value,(SELECT "
        "max(last) FROM d)) WHERE key='version_floor' AND EXISTS(SELECT FROM "
        "d)",
    /* $1 a stamp, $2 tokens below it are a day old, $3 a month. What is dead
     * has been so for a minute. */
    [SNIB__SQL_DO_CLEAN] =
        "WITH t AS (SELECT " NS "-60000000000 AS dead OFFSET 0),"
        "v AS (SELECT l.name FROM @lock l WHERE l.name>(SELECT "
        "coalesce(name,'') FROM @meta WHERE key='cleaner') ORDER "
        "BY l.name LIMIT "
        "256 FOR UPDATE SKIP LOCKED),"
        "d AS (DELETE FROM @claim c USING v,t WHERE "
        "c.name=v.name AND " END(
            "c.until",
            "CASE WHEN c.state IN (1,5) THEN c.delay "
            "ELSE 0 END") "<=t.dead RETURNING "
                          "c.name),"
                          "u AS (UPDATE @lock l SET "
                          "claims=l.claims-x.n,stamp="
                          "$1 FROM (SELECT "
                          "name,count(*) AS n FROM d "
                          "GROUP BY name) x WHERE "
                          "l.name=x.name),"
                          "g AS (DELETE FROM @lock l "
                          "USING v,t WHERE "
                          "l.name=v.name AND "
                          "l.claims=0 AND l.latch=0 "
                          "AND l.token>=0 AND "
                          "l.token<CASE WHEN "
                          "l.size<0 THEN $2::bigint "
                          "ELSE $3::bigint END AND "
                          "(l.h_request IS NULL "
                          "OR " END("l.h_until", "l.h_delay") "<=t.dead)"
                                                              " RETURNIN"
                                                              "G "
                                                              "l.token) "
                                                              "UPDATE "
                                                              "@meta "
                                                              "SET "
                                                              "value="
                                                              "CASE "
                                                              "WHEN "
                                                              "key='"
                                                              "floor' "
                                                              "THEN "
                                                              "greatest("
                                                              "value,("
                                                              "SELECT "
                                                              "max("
                                                              "token) "
                                                              "FROM g)) "
                                                              "ELSE "
                                                              "value "
                                                              "END,"
                                                              "stamp="
                                                              "CASE "
                                                              "WHEN "
                                                              "key='"
                                                              "floor' "
                                                              "AND "
                                                              "EXISTS("
                                                              "SELECT "
                                                              "FROM g) "
                                                              "THEN $1 "
                                                              "ELSE "
                                                              "stamp "
                                                              "END,"
                                                              "name="
                                                              "CASE "
                                                              "WHEN "
                                                              "key='"
                                                              "cleaner' "
                                                              "AND "
                                                              "(SELECT "
                                                              "count(*) "
                                                              "FROM "
                                                              "v)=256 "
                                                              "THEN "
                                                              "(SELECT "
                                                              "name "
                                                              "FROM v "
                                                              "ORDER BY "
                                                              "name "
                                                              "DESC "
                                                              "LIMIT 1) "
                                                              "END "
                                                              "WHERE "
                                                              "key IN "
                                                              "('floor',"
                                                              "'cleaner')",
    [SNIB__PG_DOCTOR_SERVER] =
        "SELECT current_setting('server_version'),current_database()::text,"
        "current_user::text,pg_is_in_recovery()::int::bigint," US ","
        "to_char(pg_postmaster_start_time(),'YYYY-MM-DD HH24:MI TZ'),"
        "(SELECT count(*) FROM pg_stat_activity WHERE "
        "datname=current_database())",
    [SNIB__PG_DOCTOR_SETTINGS] =
        "SELECT current_setting('synchronous_commit'),current_setting('fsync'),"
        "current_setting('full_page_writes'),"
        "current_setting('transaction_isolation'),"
        "current_setting('synchronous_standby_names'),"
        "current_setting('max_connections'),current_setting('autovacuum')",
    [SNIB__PG_DOCTOR_REPLICAS] =
        "SELECT count(*),count(*) FILTER (WHERE sync_state IN "
        "('sync','quorum')),coalesce((extract(epoch FROM "
        "max(replay_lag))*1000)::bigint,-1) FROM pg_stat_replication",
    [SNIB__PG_DOCTOR_MISSING] =
        "SELECT '@'||t FROM unnest(ARRAY['meta','lock','claim','value']) t "
        "WHERE to_regclass('@'||t) IS NULL",
    [SNIB__PG_DOCTOR_RIGHTS] =
        "SELECT t||' '||p FROM unnest(ARRAY['meta','lock','claim','value']) t,"
        "unnest(ARRAY['SELECT','INSERT','UPDATE','DELETE']) p WHERE NOT "
        "(t='meta' AND p IN ('INSERT','DELETE')) AND NOT "
        "has_table_privilege(to_regclass('@'||t)::oid,p)",
    [SNIB__PG_DOCTOR_TABLES] =
        "SELECT count(*),pg_total_relation_size('@lock'),"
        "pg_total_relation_size('@claim'),(SELECT relpersistence::text FROM "
        "pg_class WHERE oid='@lock'::regclass) FROM @lock",
    [SNIB__PG_DOCTOR_LISTENERS] =
        "SELECT count(*) FROM pg_stat_activity WHERE "
        "datname=current_database() AND application_name='snib: notified'",
};

static const char *const text_tables[] = {
    "CREATE SCHEMA IF NOT EXISTS ~",
    "CREATE TABLE IF NOT EXISTS @meta("
    "key text PRIMARY KEY, value bigint NOT NULL, "
    "stamp bigint NOT NULL DEFAULT 1, name bytea)",
    "CREATE TABLE IF NOT EXISTS @lock("
    "name bytea PRIMARY KEY, stamp bigint NOT NULL DEFAULT 0, "
    "token bigint NOT NULL DEFAULT 0, size bigint NOT NULL DEFAULT -1, "
    "latch bigint NOT NULL DEFAULT 0, arrivals bigint NOT NULL DEFAULT 0, "
    "arrived bigint NOT NULL DEFAULT 0, claims bigint NOT NULL DEFAULT 0, "
    "h_request uuid, h_stamp bigint, h_id bigint, h_client uuid, "
    "h_kind bigint, h_permits bigint, h_reserve bigint, h_token bigint, "
    "h_floor bigint, h_rank bigint, h_upgrade_of uuid, h_lease bigint, "
    "h_delay bigint, h_since bigint, h_until bigint, h_notifier text, "
    "h_about bytea) WITH (fillfactor=40, autovacuum_vacuum_scale_factor=0, "
    "autovacuum_vacuum_threshold=2000)",
    "CREATE TABLE IF NOT EXISTS @claim("
    "name bytea, request uuid, stamp bigint NOT NULL, id bigint NOT NULL, "
    "client uuid NOT NULL, state bigint NOT NULL, kind bigint NOT NULL, "
    "permits bigint NOT NULL, reserve bigint NOT NULL, slot bigint NOT NULL, "
    "token bigint NOT NULL, floor bigint NOT NULL, rank bigint NOT NULL, "
    "upgrade_of uuid, lease bigint NOT NULL, delay bigint NOT NULL, "
    "since bigint NOT NULL, until bigint NOT NULL, notifier text NOT NULL, "
    "note bytea NOT NULL, about bytea NOT NULL, listener bigint NOT NULL, "
    "PRIMARY KEY(name, request)) WITH (fillfactor=70, "
    "autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=2000)",
    "CREATE INDEX IF NOT EXISTS claim_order ON @claim(name, rank, id) "
    "WHERE state=0",
    "CREATE INDEX IF NOT EXISTS claim_rest ON @claim(name) WHERE state<>0",
    "CREATE TABLE IF NOT EXISTS @value("
    "name bytea PRIMARY KEY, stamp bigint NOT NULL, until bigint NOT NULL, "
    "last bigint NOT NULL, record bytea NOT NULL, bytes bytea)",
    "CREATE INDEX IF NOT EXISTS value_until ON @value(until)",
    "INSERT INTO @meta(key, value) VALUES ('floor', 0), ('version_floor', 0), "
    "('cleaner', 0), ('schema', 1) ON CONFLICT DO NOTHING",
    NULL,
};

const char *snib__pg_table(int index)
{
    return text_tables[index];
}

void snib__pg_schema_text(const char *text, const char *schema,
                          struct snib__buf *ret)
{
    for (; *text; text++) {
        if (*text == '@' || *text == '~') {
            snib__buf_puts(ret, schema);
            snib__buf_puts(ret, *text == '@' ? "." : "");
        } else {
            snib__buf_add(ret, text, 1);
        }
    }
}

static const char *text_find(const struct snib__postgres *p, int statement)
{
    const char *text =
        p->recipe.on ? snib__pg_recipe_text(&p->recipe, statement) : NULL;
    text = text ? text : text_of[statement];
    return text ? text : snib__pg_dialect_text(statement);
}

bool snib__pg_has_text(const struct snib__postgres *p, int statement)
{
    return text_find(p, statement) != NULL;
}

void snib__pg_text(const struct snib__postgres *p, int statement,
                   struct snib__buf *ret)
{
    snib__pg_schema_text(text_find(p, statement), p->schema, ret);
}
