/* store/mysql/text.c — every statement that this store sends.
 *
 * "#" stands for the prefix of the tables and a '_'; "$n" for a parameter, which
 * is put in as a number or as x'hex', so there is no quoting to get wrong; "[n…]"
 * for what is asked only if that parameter is not 0, and NULL else.
 * Instants are Unix nanoseconds of the server's clock, which has microseconds.
 *
 * The clock. NOW(6) is when a statement began, in an UPDATE before it waits for
 * another's lock of a row. A grant or a renewal then counts from an earlier
 * instant, and never from one before its sending. SYSDATE(6) is now: what was
 * fetched is judged by a clock that was read after it. The session's time zone
 * is UTC: in another one UNIX_TIMESTAMP jumps when summer ends.
 *
 * A guard adds one to the highest number there is unless the rows are as they
 * were: error 1690 ends the script, and what it had begun is rolled back. COUNT
 * over rows that are locked looks at them as they are now, after any wait.
 *
 * In a SET list the columns to the left have their new values already, and a
 * UNION of locked rows would be a temporary table: hence the order here, and
 * one SELECT for all of a name, which sees one moment. */
#include "store/mysql/mysql_i.h"

#define US_OF(clock) "CAST(UNIX_TIMESTAMP(" clock ")*1000000 AS SIGNED)"
#define US           US_OF("SYSDATE(6)")
#define BEGAN_US     US_OF("NOW(6)")
#define BEGAN        "(" BEGAN_US "*1000)"
#define NS           "(" US "*1000)"
/* A token and its reserve stay below 2^53 (core/rules/rules.h). */
#define TOKEN_END "9007199254740960"
#define DAY       "88473600000" /* in 1/1024 ms */
/* The clock of tokens. */
#define CLOCK           "(" BEGAN_US " DIV 1000*1024+" BEGAN_US " MOD 1000*1024 DIV 1000)"
#define ONE_MORE(wrong) "SELECT 18446744073709551615+(" wrong ")"
/* Of the statement before. */
#define CHANGED_ONE ";" ONE_MORE("ROW_COUNT()<>1")

/* The end of a lease and of its lock-delay; whatever stands there, it is a
 * number. */
#define END(until, delay)                                                      \
    "(LEAST(" until ",4000000000000000000)+LEAST(GREATEST(" delay              \
    ",0),2000000000000000000))"
#define HOLDS_UNTIL END("COALESCE(h_until,0)", "COALESCE(h_delay,0)")

/* The columns of a claim, in the order of enum snib__sql_column. */
#define CLAIM                                                                  \
    "c.request,c.stamp,c.id,c.client,c.state,c.kind,c.permits,c.reserve,"      \
    "c.slot,c.token,c.floor,c.`rank`,c.upgrade_of,c.lease,c.delay,c.since,"    \
    "c.until,c.notifier,c.note,c.about"
#define HOLDER                                                                 \
    "l.h_request,l.h_stamp,l.h_id,l.h_client,1,l.h_kind,l.h_permits,"          \
    "l.h_reserve,0,l.h_token,l.h_floor,l.h_rank,l.h_upgrade_of,l.h_lease,"     \
    "l.h_delay,l.h_since,l.h_until,l.h_notifier,NULL,l.h_about"
/* Is the party of a barrier still there? Its session has a lock of the
 * server's. */
#define ALIVE                                                                  \
    "IF(c.kind=4 AND c.state=0 AND c.notifier<>'',"                            \
    "IS_USED_LOCK(CONCAT('snib.',c.notifier)) IS NOT NULL,1)"
#define WAITERS        "FROM #claim w WHERE w.name=$1 AND w.state=0"
#define SET(column, n) ",h_" column "=IF($9=0,h_" column ",$" n ")"

/* Names that nobody has used for so long may be forgotten. $2, $3: tokens of a
 * day and of a month ago. */
#define FORGOTTEN                                                              \
    "name>@snib_from AND name<=@snib_to AND claims=0 AND latch=0 AND "         \
    "token>=0 AND token<IF(size<0,$2,$3) AND (h_request IS NULL "              \
    "OR " HOLDS_UNTIL "<=@snib_dead)"

/* How many claims a name has now; what is only read would show them as they were
 * when the statement began. */
#define CLAIMS_NOW                                                             \
    "(SELECT COUNT(*) FROM #claim c WHERE c.name=l.name LOCK IN SHARE MODE)"

static const char *const text_of[SNIB__MY_STATEMENTS] = {
    [SNIB__SQL_DO_OPEN] = "START TRANSACTION",
    [SNIB__SQL_DO_CLOSE] = "COMMIT",
    [SNIB__SQL_DO_BEGIN] = "START TRANSACTION",
    [SNIB__SQL_DO_BEGIN_READ] =
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;"
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    [SNIB__SQL_DO_COMMIT] = "COMMIT",
    [SNIB__SQL_DO_ROLLBACK] = "ROLLBACK",
    /* Its row is locked at once, not first shared and then alone: two of those
     * would be a deadlock. */
    [SNIB__SQL_DO_MAKE_ROW] =
        "INSERT INTO #lock(name) VALUES($1) ON DUPLICATE KEY "
        "UPDATE stamp=stamp",
    [SNIB__SQL_DO_LOCK] = "SELECT 1 FROM #lock WHERE name=$1 FOR UPDATE",
    [SNIB__SQL_DO_FETCH] =
        "SELECT " US ",1,f.value,f.stamp,"
        "[4(SELECT MAX(token) FROM #lock)],"
        "l.stamp,l.token,l.size,l.latch,l.arrivals,l.arrived,l.claims,"
        "IF(l.claims>$3,(SELECT COUNT(*) " WAITERS "),NULL),"
        "IF(l.claims>$3,(SELECT MAX(w.`rank`) " WAITERS "),NULL)," HOLDER
        "," CLAIM "," ALIVE " FROM #meta f "
        "LEFT JOIN #lock l ON l.name=$1 "
        "LEFT JOIN #claim c FORCE INDEX(claim_order) ON c.name=$1 AND "
        "l.claims>0 AND "
        "(c.state<>0 OR c.request=$2 OR l.claims<=$3 OR "
        "COALESCE((c.`rank`,c.id)<(SELECT w.`rank`,w.id " WAITERS
        " ORDER BY w.`rank`,w.id LIMIT $3,1),1)) WHERE f.`key`='floor'",
    [SNIB__SQL_DO_GUARD] = ONE_MORE(
        "COUNT(*)<>1") " FROM #lock WHERE name=$1 AND stamp=COALESCE($2,stamp) "
                       "AND arrived=COALESCE($3,arrived) "
                       "AND ($4 IS NULL OR (h_request=$4 AND h_stamp=$5)) "
                       "AND ($6 IS NULL OR h_request IS NULL OR h_request<>$6) "
                       "AND " US "<=$7 FOR UPDATE",
    [SNIB__SQL_DO_GUARD_CLAIM] =
        ONE_MORE("COUNT(*)<>1") " FROM #claim WHERE name=$1 AND request=$2 AND "
                                "stamp=$3 FOR UPDATE",
    [SNIB__SQL_DO_GUARD_NO_CLAIM] =
        ONE_MORE("COUNT(*)<>0") " FROM #claim WHERE name=$1 AND request=$2",
    [SNIB__SQL_DO_GUARD_FLOOR] =
        ONE_MORE("COUNT(*)<>1") " FROM #meta WHERE `key`='floor' AND stamp=$1 "
                                "LOCK IN SHARE MODE",
    /* When its size was set is when the name was used: the token tells the
     * cleaner. */
    [SNIB__SQL_DO_PUT_LOCK] =
        "UPDATE #lock SET stamp=COALESCE($2,stamp),token=IF(token>=0 AND "
        "(size<>COALESCE($4,size) OR latch<>COALESCE($5,latch)),"
        "GREATEST(COALESCE($3,token)," CLOCK "),COALESCE($3,token)),"
        "size=COALESCE($4,size),latch=COALESCE($5,latch),"
        "arrivals=COALESCE($6,arrivals),arrived=COALESCE($7,arrived),"
        "claims=claims+$8" SET("request", "10") SET("stamp", "11")
            SET("id", "12") SET("client", "13") SET("kind", "14")
                SET("permits", "15") SET("reserve", "16") SET("token", "17")
                    SET("floor", "18") SET("rank", "19") SET("upgrade_of", "20")
                        SET("lease", "21") SET("delay", "22") SET("since", "23")
                            SET("until", "24") SET("notifier", "25")
                                SET("about", "26") " WHERE name=$1",
    [SNIB__SQL_DO_PUT_FLOOR] = "UPDATE #meta SET value=$1,stamp=$2 WHERE "
                               "`key`='floor' AND stamp=$3" CHANGED_ONE,
    [SNIB__SQL_DO_ADD_CLAIM] =
        "INSERT INTO #claim(name,request,stamp,id,client,state,kind,permits,"
        "reserve,slot,token,floor,`rank`,upgrade_of,lease,delay,since,until,"
        "notifier,note,about) VALUES($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,"
        "$13,$14,$15,$16,$17,$18,$19,$20,$21)",
    [SNIB__SQL_DO_PUT_CLAIM] =
        "UPDATE #claim SET stamp=$3,id=$4,client=$5,state=$6,kind=$7,"
        "permits=$8,reserve=$9,slot=$10,token=$11,floor=$12,`rank`=$13,"
        "upgrade_of=$14,lease=$15,delay=$16,since=$17,until=$18,notifier=$19,"
        "note=$20,about=$21 WHERE name=$1 AND request=$2 AND "
        "stamp=$23" CHANGED_ONE,
    [SNIB__SQL_DO_DELETE_CLAIM] = "DELETE FROM #claim WHERE name=$1 AND "
                                  "request=$2 AND stamp=$3" CHANGED_ONE,
    [SNIB__SQL_DO_SWEEP] =
        "DELETE FROM #claim WHERE name=$1 AND state IN (2,3,4) AND until<=$2;"
        "UPDATE #lock SET claims=claims-ROW_COUNT() WHERE name=$1",
    /* The token comes back as the last insert id, without a question more. */
    [SNIB__SQL_DO_ACQUIRE] =
        "UPDATE #lock SET "
        "h_token=LAST_INSERT_ID(GREATEST(token+1," CLOCK ",$8+1)),"
        "token=h_token+$7,stamp=$2,h_stamp=$2,h_request=$3,h_client=$4,"
        "h_id=arrivals+1,h_kind=$5,h_permits=$6,h_reserve=$7,h_floor=$8,"
        "h_rank=$9,h_upgrade_of=NULL,h_lease=$10,h_delay=$11,"
        "h_since=" BEGAN ",h_until=" BEGAN "+$10,h_notifier=$12,h_about=$13 "
        "WHERE name=$1 AND stamp<>0 AND claims=0 AND latch=0 AND token>=0 "
        "AND token<" TOKEN_END " AND " CLOCK "<" TOKEN_END " "
        "AND " BEGAN_US "<=$14 AND $8<=" CLOCK "+" DAY " "
        "AND (h_request IS NULL OR " HOLDS_UNTIL "<=" BEGAN ")",
    [SNIB__SQL_DO_RENEW] =
        "UPDATE #lock SET h_stamp=$4,h_lease=$5,"
        "h_until=GREATEST(h_until," BEGAN "+$5),"
        "h_notifier=IF(h_client=$7,$6,h_notifier) WHERE name=$1 AND "
        "h_request=$2 AND ($3=0 OR h_token=$3) AND h_until>" BEGAN ";"
        "SELECT h_token," US ",h_reserve,h_permits FROM #lock WHERE name=$1 "
        "AND h_request=$2 AND h_stamp=$4",
    [SNIB__SQL_DO_RENEW_SHARE] =
        "UPDATE #claim SET stamp=$4,lease=$5,"
        "until=GREATEST(until," BEGAN "+$5),"
        "notifier=IF(client=$7,$6,notifier) WHERE name=$1 AND request=$2 AND "
        "token=$3 AND state=5 AND until>" BEGAN ";"
        "SELECT token," US ",reserve,permits,slot FROM #claim WHERE name=$1 "
        "AND request=$2 AND stamp=$4",
    [SNIB__SQL_DO_RELEASE] =
        "UPDATE #lock SET stamp=$4,h_stamp=NULL,h_client=NULL,h_id=NULL,"
        "h_kind=NULL,h_permits=NULL,h_reserve=NULL,h_token=NULL,h_floor=NULL,"
        "h_rank=NULL,h_upgrade_of=NULL,h_lease=NULL,h_delay=NULL,"
        "h_since=NULL,h_until=NULL,h_notifier=NULL,h_about=NULL,"
        "h_request=NULL WHERE name=$1 AND h_request=$2 AND h_token=$3 AND "
        "h_until>" BEGAN " AND claims=0",
    [SNIB__SQL_DO_NAMES] =
        "SELECT name FROM #lock l WHERE name>$1 AND ((claims>0 AND EXISTS("
        "SELECT 1 FROM #claim c WHERE c.name=l.name AND (c.state=0 OR ($3=0 "
        "AND c.state IN (1,5))) "
        "AND " END("c.until",
                   "IF(c.state=0,0,c.delay)") ">" NS
                                              ")) OR ($3=0 AND " HOLDS_UNTIL
                                              ">" NS
                                              " AND h_request IS NOT NULL)) "
                                              "ORDER BY name LIMIT $2",
    [SNIB__SQL_DO_VALUE] =
        "SELECT " US " DIV 1000,f.value,v.stamp,v.until,v.record,v.bytes "
        "FROM #meta f LEFT JOIN #value v ON v.name=$1 WHERE "
        "f.`key`='version_floor'",
    [SNIB__SQL_DO_VALUE_LOCKED] =
        "SELECT stamp,until,record FROM #value WHERE name=$1 FOR UPDATE",
    [SNIB__SQL_DO_VALUE_FLOOR] = "SELECT " US " DIV 1000,value FROM #meta "
                                 "WHERE `key`='version_floor'",
    [SNIB__SQL_DO_VALUE_IN_TIME] = ONE_MORE(US " DIV 1000>$1"),
    [SNIB__SQL_DO_VALUE_ADD] =
        "INSERT INTO #value(name,stamp,until,last,record,bytes) "
        "VALUES($1,$2,$3,$4,$5,$6)",
    [SNIB__SQL_DO_VALUE_PUT] = "UPDATE #value SET stamp=$2,until=$3,last=$4,"
                               "record=$5,bytes=$6 WHERE name=$1",
    [SNIB__SQL_DO_VALUE_NOTE] =
        "UPDATE #value SET stamp=$2,last=$3,record=$4 WHERE name=$1",
    /* First the floor, then only what is below it. */
    [SNIB__SQL_DO_VALUE_FORGET] =
        "UPDATE #meta SET value=(SELECT MAX(last) FROM #value WHERE until<$1) "
        "WHERE `key`='version_floor' AND value<(SELECT MAX(last) FROM #value "
        "WHERE until<$1);"
        "DELETE FROM #value WHERE until<$1 AND last<=(SELECT value FROM #meta "
        "WHERE `key`='version_floor') ORDER BY until LIMIT 8",
    /* $1 a stamp. What is dead has been so for a minute. A name that is made
     * meanwhile is not among those that are locked first. */
    [SNIB__SQL_DO_CLEAN] =
        "SET @snib_dead=" NS "-60000000000,@snib_from=(SELECT "
        "COALESCE(MAX(name),'') FROM #meta WHERE `key`='cleaner');"
        "SELECT MAX(name),COUNT(*) INTO @snib_to,@snib_names FROM (SELECT name "
        "FROM #lock WHERE name>@snib_from ORDER BY name LIMIT 256) v;"
        "SELECT COUNT(*) INTO @snib_names FROM #lock WHERE name>@snib_from AND "
        "name<=@snib_to FOR UPDATE;"
        "DELETE FROM #claim WHERE name>@snib_from AND name<=@snib_to "
        "AND " END(
            "until",
            "IF(state IN (1,5),delay,0)") "<=@snib_dead;"
                                          "UPDATE #lock l SET "
                                          "stamp=$1,claims=" CLAIMS_NOW
                                          " WHERE name>@snib_from AND "
                                          "name<=@snib_to AND "
                                          "claims<>" CLAIMS_NOW ";"
                                          "SELECT MAX(token) INTO @snib_floor "
                                          "FROM #lock WHERE " FORGOTTEN ";"
                                          "UPDATE #meta SET "
                                          "value=GREATEST(value,@snib_floor),"
                                          "stamp=$1 WHERE "
                                          "`key`='floor' AND @snib_floor IS "
                                          "NOT NULL;"
                                          "DELETE FROM #lock WHERE " FORGOTTEN
                                          ";"
                                          "UPDATE #meta SET "
                                          "name=IF(@snib_names=256,@snib_to,"
                                          "NULL) WHERE "
                                          "`key`='cleaner'",
    /* All that changes what a statement does or when it is committed, whatever
     * the server's defaults are. */
    [SNIB__MY_SETTINGS] =
        "SET SESSION sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',"
        "time_zone='+00:00',autocommit=1,completion_type=0,"
        "sql_select_limit=18446744073709551615,sql_big_selects=1,"
        "sql_safe_updates=0,innodb_lock_wait_timeout=1,lock_wait_timeout=5;"
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
    /* A frozen client is in the way of others for as long as
     * idle_transaction_timeout; MySQL has nothing of the kind. */
    [SNIB__MY_SETTINGS_MARIADB] =
        "SET SESSION max_statement_time=30,idle_transaction_timeout=1",
    [SNIB__MY_WHO] = "SELECT CONNECTION_ID(),@@global.read_only," US,
    [SNIB__MY_LAYOUT] = "SELECT value FROM #meta WHERE `key`='schema'",
    [SNIB__MY_NOTIFY] = "KILL QUERY IS_USED_LOCK($1)",
    [SNIB__MY_LISTEN] = "SELECT GET_LOCK($1,0)",
    [SNIB__MY_NAME] = "SELECT GET_LOCK($1,0)+GET_LOCK($2,0)",
    /* Of named locks. Who waits for one does so for as long as it takes. */
    [SNIB__MY_GETLOCK_SETTINGS] = "SET SESSION max_execution_time=0",
    [SNIB__MY_GETLOCK_SETTINGS_MARIADB] = "SET SESSION max_statement_time=0",
    [SNIB__MY_GETLOCK_STAY] =
        "SET SESSION wait_timeout=IF($1=0,@@global.wait_timeout,$1)",
    /* A primary may become a replica while its sessions last. */
    [SNIB__MY_GETLOCK_CLOCK] =
        "SELECT IF(CAST(@@global.read_only AS CHAR) IN ('0','OFF')," US ",0)",
    [SNIB__MY_GETLOCK_TRY] = "SELECT GET_LOCK($1,0)",
    [SNIB__MY_GETLOCK_WAIT] = "SELECT GET_LOCK($1,$2)",
    [SNIB__MY_GETLOCK_UNLOCK] = "SELECT RELEASE_LOCK($1)",
    /* Whoever has that number by now is not harmed, if he does not wait so. */
    [SNIB__MY_GETLOCK_CANCEL] =
        "SET @snib_end=(SELECT IF(COUNT(*)=0,'DO 0','KILL QUERY $1') FROM "
        "information_schema.PROCESSLIST WHERE ID=$1 AND STATE='User lock');"
        "PREPARE snib_end FROM @snib_end;EXECUTE snib_end",
    /* Another user's session may not be shown. */
    [SNIB__MY_GETLOCK_LOOK] =
        "SELECT 1,h.id,COALESCE(p.USER,''),COALESCE(p.HOST,'')," US
        ",0 FROM (SELECT IS_USED_LOCK($1) id) h LEFT JOIN "
        "information_schema.PROCESSLIST p ON p.ID=h.id WHERE h.id IS NOT NULL",
    [SNIB__MY_GETLOCK_DOCTOR] = "SELECT COUNT(*),@@max_connections FROM "
                                "information_schema.PROCESSLIST",
    [SNIB__MY_DOCTOR_SERVER] =
        "SELECT @@version,DATABASE(),CURRENT_USER(),@@global.read_only," US
        ",(SELECT COUNT(*) FROM information_schema.PROCESSLIST)",
    [SNIB__MY_DOCTOR_DURABLE] =
        "SELECT @@innodb_flush_log_at_trx_commit,@@log_bin,@@sync_binlog,"
        "@@innodb_doublewrite",
    [SNIB__MY_DOCTOR_ISOLATION] = "SELECT @@tx_isolation",
    [SNIB__MY_DOCTOR_PACKETS] = "SELECT @@global.max_allowed_packet",
    [SNIB__MY_DOCTOR_REPLICAS] =
        "SELECT (SELECT VARIABLE_VALUE+0 FROM information_schema.GLOBAL_STATUS "
        "WHERE VARIABLE_NAME='SLAVES_CONNECTED'),(SELECT VARIABLE_VALUE+0 FROM "
        "information_schema.GLOBAL_STATUS WHERE "
        "VARIABLE_NAME='RPL_SEMI_SYNC_MASTER_CLIENTS'),(SELECT "
        "VARIABLE_VALUE='ON' FROM information_schema.GLOBAL_STATUS WHERE "
        "VARIABLE_NAME='WSREP_READY')",
    [SNIB__MY_DOCTOR_TABLES] =
        "SELECT TABLE_NAME,ENGINE FROM information_schema.TABLES WHERE "
        "TABLE_SCHEMA=DATABASE() AND TABLE_NAME IN "
        "('#meta','#lock','#claim','#value') AND ENGINE<>'InnoDB'",
    [SNIB__MY_DOCTOR_SIZE] = "SELECT COUNT(*) FROM #lock",
    [SNIB__MY_DOCTOR_LISTENERS] =
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE "
        "'SELECT IF(GET_LOCK(%' AND DB=DATABASE()",
};

static const char *const text_tables[] = {
    "CREATE TABLE IF NOT EXISTS #meta("
    "`key` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, "
    "value BIGINT NOT NULL, stamp BIGINT NOT NULL DEFAULT 1, "
    "name VARBINARY(512)) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS #lock("
    "name VARBINARY(512) PRIMARY KEY, stamp BIGINT NOT NULL DEFAULT 0, "
    "token BIGINT NOT NULL DEFAULT 0, size BIGINT NOT NULL DEFAULT -1, "
    "latch BIGINT NOT NULL DEFAULT 0, arrivals BIGINT NOT NULL DEFAULT 0, "
    "arrived BIGINT NOT NULL DEFAULT 0, claims BIGINT NOT NULL DEFAULT 0, "
    "h_request BINARY(16), h_stamp BIGINT, h_id BIGINT, h_client BINARY(16), "
    "h_kind BIGINT, h_permits BIGINT, h_reserve BIGINT, h_token BIGINT, "
    "h_floor BIGINT, h_rank BIGINT, h_upgrade_of BINARY(16), h_lease BIGINT, "
    "h_delay BIGINT, h_since BIGINT, h_until BIGINT, "
    "h_notifier VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin, "
    "h_about BLOB) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS #claim("
    "name VARBINARY(512) NOT NULL, request BINARY(16) NOT NULL, "
    "stamp BIGINT NOT NULL, id BIGINT NOT NULL, client BINARY(16) NOT NULL, "
    "state BIGINT NOT NULL, kind BIGINT NOT NULL, permits BIGINT NOT NULL, "
    "reserve BIGINT NOT NULL, slot BIGINT NOT NULL, token BIGINT NOT NULL, "
    "floor BIGINT NOT NULL, `rank` BIGINT NOT NULL, upgrade_of BINARY(16), "
    "lease BIGINT NOT NULL, delay BIGINT NOT NULL, since BIGINT NOT NULL, "
    "until BIGINT NOT NULL, "
    "notifier VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, "
    "note BLOB NOT NULL, about BLOB NOT NULL, "
    "PRIMARY KEY(name, request), KEY claim_order(name, state, `rank`, id), "
    "KEY claim_client(client, state)) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS #value("
    "name VARBINARY(512) PRIMARY KEY, stamp BIGINT NOT NULL, "
    "until BIGINT NOT NULL, last BIGINT NOT NULL, record BLOB NOT "
    "NULL, bytes MEDIUMBLOB, KEY value_until(until)) ENGINE=InnoDB",
    "INSERT IGNORE INTO #meta(`key`, value) VALUES ('floor', 0), "
    "('version_floor', 0), ('cleaner', 0), ('schema', 1)",
    NULL,
};

static const struct snib__my_right text_rights[] = {
    {"SELECT on #meta", "SELECT 1 FROM #meta WHERE FALSE"},
    {"UPDATE on #meta", "UPDATE #meta SET stamp=1 WHERE FALSE"},
    {"SELECT on #lock", "SELECT 1 FROM #lock WHERE FALSE"},
    {"INSERT on #lock",
     "INSERT INTO #lock(name) SELECT '' FROM DUAL WHERE FALSE"},
    {"UPDATE on #lock", "UPDATE #lock SET stamp=1 WHERE FALSE"},
    {"DELETE on #lock", "DELETE FROM #lock WHERE FALSE"},
    {"SELECT on #claim", "SELECT 1 FROM #claim WHERE FALSE"},
    {"INSERT on #claim",
     "INSERT INTO #claim(name) SELECT '' FROM DUAL WHERE FALSE"},
    {"UPDATE on #claim", "UPDATE #claim SET stamp=1 WHERE FALSE"},
    {"DELETE on #claim", "DELETE FROM #claim WHERE FALSE"},
    {"SELECT on #value", "SELECT 1 FROM #value WHERE FALSE"},
    {"INSERT on #value",
     "INSERT INTO #value(name) SELECT '' FROM DUAL WHERE FALSE"},
    {"UPDATE on #value", "UPDATE #value SET stamp=1 WHERE FALSE"},
    {"DELETE on #value", "DELETE FROM #value WHERE FALSE"},
    {NULL, NULL},
};

const char *snib__my_text(const struct snib__sql_recipe *p, int statement)
{
    const char *text = p->on ? snib__my_recipe_text(p, statement) : NULL;
    return text ? text : text_of[statement];
}

const char *snib__my_table(int index)
{
    return text_tables[index];
}

const char *snib__my_right(const struct snib__sql_recipe *p, int index,
                           const char **ret_right)
{
    if (p->on) {
        return snib__my_recipe_right(p->int_lock, index, ret_right);
    }
    *ret_right = text_rights[index].right;
    return text_rights[index].text;
}
