/* store/redis: what the doctor finds, by what the server answers. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_session.h"

#include "base/record.h"
#include "snib/inspect.h"

/* What the server says, NULL: as it should. */
struct says {
    const char *ping, *time, *info, *policy, *aof, *fsync, *save, *layout,
        *mark, *multi, *probe, *ears, *again;
    int64_t trip_ms;  /* from the questions to the answers but for the last */
    int64_t later_ms; /* from those to the last                             */
    bool mute;        /* no subscription is to be had                        */
};

#define FINE_INFO                                                              \
    "# Server\r\nredis_version:7.0.15\r\nrole:master\r\nconnected_slaves:0"    \
    "\r\nloading:0\r\nrdb_last_bgsave_status:ok\r\ncluster_enabled:0\r\n"

static struct finding {
    int64_t level;
    char check[40], text[400], remedy[300];
} found[32];
static int founds;

static void copy(char *to, size_t size, const struct snib__rec *r)
{
    snprintf(to, size, "%.*s", (int)r->size, (const char *)r->data);
}

static void read_findings(struct snib__buf *rows)
{
    struct snib__rec r;
    founds = 0;
    snib__rec_begin(&r, snib__buf_bytes(rows), snib__buf_size(rows));
    while (snib__rec_next_row(&r)) {
        struct finding *f = &found[founds++];
        assert_int_equal(r.row, SNIB__ROW_FINDING);
        assert_true(founds <= (int)COUNT_OF(found));
        *f = (struct finding){.level = -1};
        while (snib__rec_next_field(&r)) {
            if (r.field == SNIB__F_LEVEL) {
                f->level = snib__rec_value_i64(&r);
            } else if (r.field == SNIB__F_CHECK) {
                copy(f->check, sizeof f->check, &r);
            } else if (r.field == SNIB__F_TEXT) {
                copy(f->text, sizeof f->text, &r);
            } else if (r.field == SNIB__F_REMEDY) {
                copy(f->remedy, sizeof f->remedy, &r);
            }
        }
    }
}

static void bulk(const char *text)
{
    sayf(CALLERS, "$%zu\r\n%s\r\n", strlen(text), text);
}

static void pair(const char *key, const char *value)
{
    sayf(CALLERS, "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(key), key,
         strlen(value), value);
}

/* An error as it is ("-…"), or the value. */
static void answer_config(const char *key, const char *said, const char *fine)
{
    if (said && *said == '-') {
        say(CALLERS, said);
    } else {
        pair(key, said ? said : fine);
    }
}

static void stand_still(int64_t ms)
{
    now = snib__after(now, snib__ms(ms));
}

static void consult(const struct says *s)
{
    struct snib__request rq = request(SNIB__DOCTOR);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq.name = NULL;
    rq.said.result = &rows;
    start(&rq);
    connected(CALLERS);
    static const char *const asked[] = {"PING",   "TIME",   "INFO",   "CONFIG",
                                        "CONFIG", "CONFIG", "CONFIG", "GET",
                                        "XLEN",   "MULTI",  "EXEC"};
    for (size_t i = 0; i < COUNT_OF(asked); i++) {
        assert_true(heard(CALLERS));
        assert_string_equal(word[0], asked[i]);
    }
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_PROBE);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_EARS);
    assert_true(heard(CALLERS));
    assert_string_equal(word[0], "TIME");
    stand_still(s->trip_ms);
    say(CALLERS, s->ping ? s->ping : "+PONG\r\n");
    say(CALLERS, s->time ? s->time : TIME_REPLY);
    if (s->info && *s->info == '-') {
        say(CALLERS, s->info);
    } else {
        bulk(s->info ? s->info : FINE_INFO);
    }
    answer_config("maxmemory-policy", s->policy, "noeviction");
    answer_config("appendonly", s->aof, "yes");
    answer_config("appendfsync", s->fsync, "always");
    answer_config("save", s->save, "");
    say(CALLERS, s->layout ? s->layout : "$1\r\n2\r\n");
    say(CALLERS, s->mark ? s->mark : ":0\r\n");
    say(CALLERS, s->multi ? s->multi : "+OK\r\n*0\r\n");
    say(CALLERS, s->probe ? s->probe : "*2\r\n*0\r\n:1\r\n");
    say(CALLERS, s->ears ? s->ears : "*3\r\n:2\r\n:0\r\n$0\r\n\r\n");
    stand_still(s->later_ms);
    say(CALLERS, s->again ? s->again : TIME_REPLY);
    silence(); /* the subscription is to be seen, too */
    if (s->mute) {
        out.conn[SUBS]->open = false;
        input(SUBS, SNIB__IN_REFUSED, "Connection refused", 18);
    } else {
        connected(SUBS);
    }
    answered(&rq, SNIB__DONE);
    read_findings(&rows);
    snib__buf_free(&rows);
}

static const struct finding *finding(const char *check)
{
    const struct finding *it = NULL;
    for (int i = 0; i < founds; i++) {
        if (!strcmp(found[i].check, check)) {
            assert_null(it); /* once each */
            it = &found[i];
        }
    }
    if (!it) {
        fail_msg("nothing about %s", check);
    }
    return it;
}

static void says_that(const char *check, snib_level level, const char *text,
                      const char *remedy)
{
    const struct finding *f = finding(check);
    if (f->level != level || strcmp(f->text, text) != 0 ||
        !strstr(f->remedy, remedy) || !*remedy != !*f->remedy) {
        fail_msg("%s: %lld \"%s\" (%s), not %d \"%s\" (%s)", check,
                 (long long)f->level, f->text, f->remedy, (int)level, text,
                 remedy);
    }
}

static void all_well_but(const char *check)
{
    for (int i = 0; i < founds; i++) {
        if (strcmp(found[i].check, check) != 0 &&
            found[i].level != SNIB_LEVEL_OK) {
            fail_msg("%s: %s", found[i].check, found[i].text);
        }
    }
}

static void a_good_server_is_well_in_every_respect(void **state)
{
    (void)state;
    consult(&(struct says){.trip_ms = 3});
    all_well_but("");
    says_that("latency", SNIB_LEVEL_OK, "a round trip takes 3.00 ms", "");
    says_that("version", SNIB_LEVEL_OK, "version 7.0.15", "");
    says_that("role", SNIB_LEVEL_OK, "a primary without replicas", "");
    says_that("eviction", SNIB_LEVEL_OK, "maxmemory-policy is noeviction", "");
    says_that("persistence", SNIB_LEVEL_OK,
              "appendonly is on, appendfsync always", "");
    says_that("layout", SNIB_LEVEL_OK, "the locks have layout 2", "");
    says_that("permissions", SNIB_LEVEL_OK, "scripts may run all they need",
              "");
    says_that("clock", SNIB_LEVEL_OK,
              "server time is 1790000000.250 s since 1970, its clock runs "
              "evenly",
              "");
    says_that("subscription", SNIB_LEVEL_OK, "may listen for grants", "");
    assert_int_equal(founds, 10); /* no skew: this host's time is not told */
}

static void a_full_disk_and_memory_are_told(void **state)
{
    (void)state;
    consult(&(struct says){.info = FINE_INFO "aof_last_write_status:err\r\n"
                                             "maxmemory:2000000\r\n"
                                             "used_memory:1900000\r\n"});
    says_that("disk", SNIB_LEVEL_FAIL,
              "the last write to the append-only file failed", "disk full?");
    says_that("memory", SNIB_LEVEL_WARN, "1.9 MB of maxmemory 2.0 MB in use",
              "raise it");
    tear_down(state);
    set_up(state);
    consult(&(struct says){.info = FINE_INFO "maxmemory:2000000\r\n"
                                             "used_memory:2000001\r\n"
                                             "maxmemory_policy:noeviction\r\n",
                           .fsync = "no"});
    says_that("memory", SNIB_LEVEL_FAIL,
              "2.0 MB of maxmemory 2.0 MB in use: the server takes no new "
              "locks",
              "raise maxmemory");
    says_that("persistence", SNIB_LEVEL_WARN,
              "appendonly is on, appendfsync no: a crash may forget the grants "
              "of half a minute",
              "appendfsync always");
    tear_down(state);
    set_up(state);
    consult(&(struct says){.info =
                               FINE_INFO "maxmemory:1\r\n"
                                         "used_memory:999900\r\n"
                                         "maxmemory_policy:noeviction\r\n"});
    says_that("memory", SNIB_LEVEL_FAIL,
              "1000 kB of maxmemory 1 B in use: the server takes no new locks",
              "raise maxmemory");
    tear_down(state);
    set_up(state);
    consult(&(struct says){
        .ears = "-NOPERM this user has no permissions to run the "
                "'pubsub|channels' command\r\n"});
    all_well_but("listeners");
    says_that("listeners", SNIB_LEVEL_WARN,
              "could not look at who listens to whose channel: NOPERM this "
              "user has no permissions to run the 'pubsub|channels' command",
              "+pubsub|channels");
}

static void a_far_server_is_told(void **state)
{
    (void)state;
    consult(&(struct says){.trip_ms = 50});
    all_well_but("");
    tear_down(state);
    set_up(state);
    consult(&(struct says){.trip_ms = 51});
    all_well_but("latency");
    says_that("latency", SNIB_LEVEL_WARN, "a round trip takes 51.00 ms",
              "leases must be many times longer");
}

static void a_server_that_answers_and_refuses_is_told(void **state)
{
    (void)state;
    consult(&(struct says){.ping = "-MISCONF no disk\r\n"});
    all_well_but("answer");
    says_that("answer", SNIB_LEVEL_FAIL,
              "MISCONF: the server takes no writes because it cannot save its "
              "data to "
              "disk; free room on its disk, its log says what failed",
              "see its log");
    tear_down(state);
    set_up(state);
    consult(&(struct says){.ping = "-NOPERM no ping for you\r\n"});
    all_well_but(""); /* it answers; what is needed is looked at elsewhere */
    assert_int_equal(finding("latency")->level, SNIB_LEVEL_OK);
}

static void role_and_replicas_are_told(void **state)
{
    static const struct {
        const char *info, *check, *text, *remedy;
        snib_level level;
    } t[] = {
        {"redis_version:7.2.4\r\nrole:slave\r\nconnected_slaves:1\r\n", "role",
         "this server is a slave", "connect to the primary", SNIB_LEVEL_FAIL},
        {"redis_version:7.2.4\r\n", "role", "this server is a ?",
         "connect to the primary", SNIB_LEVEL_FAIL},
        {"redis_version:7.2.4\r\nrole:master\r\nconnected_slaves:1\r\n",
         "replicas",
         "a primary with 1 replica(s): a failover can lose the newest grants",
         "pass the fencing token", SNIB_LEVEL_WARN},
        {"redis_version:7.2.4\r\nrole:master\r\nconnected_slaves:12\r\n",
         "replicas",
         "a primary with 12 replica(s): a failover can lose the newest grants",
         "min-replicas-to-write", SNIB_LEVEL_WARN},
        {"redis_version:7.2.4\r\nrole:master\r\ncluster_enabled:1\r\n",
         "cluster", "the server is part of a cluster",
         "redis:// is for one server", SNIB_LEVEL_FAIL},
        {"redis_version:5.0.9\r\nrole:master\r\n", "version", "version 5.0.9",
         "please upgrade", SNIB_LEVEL_WARN},
        {"redis_version:6.2.0\r\nrole:master\r\nloading:1\r\n", "loading",
         "the server is reading its dump", "wait", SNIB_LEVEL_FAIL},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        consult(&(struct says){.info = t[i].info});
        says_that(t[i].check, t[i].level, t[i].text, t[i].remedy);
        all_well_but(t[i].check);
        tear_down(state);
        set_up(state);
    }
}

static void what_is_saved_is_told(void **state)
{
    static const struct {
        const char *info, *aof, *save, *text, *remedy;
        snib_level level;
    } t[] = {
        {NULL, "no", "3600 1",
         "dumps only: a restart forgets the newest grants",
         "set appendonly yes", SNIB_LEVEL_WARN},
        {NULL, "no", "", "nothing is saved: a restart forgets all grants",
         "set appendonly yes", SNIB_LEVEL_WARN},
        {NULL, "yes", "3600 1", "appendonly is on, appendfsync always", "",
         SNIB_LEVEL_OK},
        {NULL, "-NOPERM config\r\n", "3600 1",
         "could not look at appendonly: NOPERM config", "+config|get",
         SNIB_LEVEL_WARN},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        consult(&(struct says){
            .info = t[i].info, .aof = t[i].aof, .save = t[i].save});
        says_that("persistence", t[i].level, t[i].text, t[i].remedy);
        all_well_but("persistence");
        tear_down(state);
        set_up(state);
    }
    consult(
        &(struct says){.info = "redis_version:7.0.1\r\nrole:master\r\n"
                               "rdb_last_bgsave_status:err\r\n",
                       .aof = "-NOPERM\r\n"}); /* two findings on one subject */
    int failed = 0;
    for (int i = 0; i < founds; i++) {
        failed += found[i].level == SNIB_LEVEL_FAIL &&
                  !strcmp(found[i].text, "the last dump failed");
    }
    assert_int_equal(failed, 1);
}

static void eviction_is_told(void **state)
{
    (void)state;
    consult(&(struct says){.policy = "volatile-lru"});
    all_well_but("eviction");
    says_that("eviction", SNIB_LEVEL_FAIL, "maxmemory-policy is volatile-lru",
              "set maxmemory-policy noeviction");
    tear_down(state);
    set_up(state);
    consult(
        &(struct says){.policy = "-NOPERM no\r\n", .info = "-NOPERM x\r\n"});
    says_that("eviction", SNIB_LEVEL_WARN,
              "could not look at maxmemory-policy: NOPERM no", "+config|get");
    says_that("server", SNIB_LEVEL_WARN, "could not look at INFO: NOPERM x",
              "+info");
}

static void rights_are_told(void **state)
{
    static const struct {
        const char *reply, *check, *text;
        snib_level level;
    } t[] = {
        {"*2\r\n*2\r\n$7\r\nPUBLISH\r\n$8\r\nNOPERM x\r\n:0\r\n", "permissions",
         "PUBLISH in a script: NOPERM x", SNIB_LEVEL_FAIL},
        {"-NOPERM no scripts\r\n", "permissions", "NOPERM no scripts",
         SNIB_LEVEL_FAIL},
        {"-NOPERM no access to one of the keys\r\n", "permissions",
         "NOPERM no access to one of the keys", SNIB_LEVEL_WARN},
        {"*2\r\n*0\r\n:2\r\n", "client id",
         "somebody else listens to this client's channel", SNIB_LEVEL_FAIL},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        consult(&(struct says){.probe = t[i].reply});
        says_that(t[i].check, t[i].level, t[i].text,
                  i == 3 ? "restart one of them" : "docs/REDIS.md");
        all_well_but(t[i].check);
        tear_down(state);
        set_up(state);
    }
}

static void a_layout_that_is_not_seen_is_told(void **state)
{
    static const struct {
        const char *reply, *text;
    } t[] = {
        {"$-1\r\n", "no number of it is written here"},
        {"-NOPERM no such key for you\r\n",
         "could not look at its number: NOPERM no such key for you"},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        consult(&(struct says){.layout = t[i].reply});
        all_well_but("layout");
        says_that("layout", SNIB_LEVEL_WARN, t[i].text,
                  "let the user write the key snib:layout");
        tear_down(state);
        set_up(state);
    }
    consult(
        &(struct says){.ping = "-LOADING x\r\n", .layout = "-LOADING x\r\n"});
    all_well_but("answer"); /* which says it once */
}

static void a_mark_that_may_not_be_used_is_told(void **state)
{
    consult(&(struct says){.mark = "-NOPERM no such key for you\r\n"});
    all_well_but("mark");
    says_that("mark", SNIB_LEVEL_WARN,
              "could not look at the mark: NOPERM no such key for you; so each "
              "acquire is a whole script, and tokens rise above those of other "
              "logins only while the server's clock is not set back",
              "let the user read and write the key snib:m");
    tear_down(state);
    set_up(state);
    consult(&(struct says){.mark = "-WRONGTYPE Operation against a key\r\n"});
    all_well_but("mark");
    says_that("mark", SNIB_LEVEL_FAIL,
              "the key snib:m is of another type, so not ours",
              "rename or delete it");
    tear_down(state);
    set_up(state);
    consult(&(struct says){.ping = "-LOADING x\r\n", .mark = "-LOADING x\r\n"});
    all_well_but("answer"); /* which says it once */
}

static void a_server_without_transactions_is_told(void **state)
{
    consult(&(struct says){.multi = "-NOPERM no MULTI\r\n"
                                    "-ERR EXEC without MULTI\r\n"});
    all_well_but("transactions");
    says_that("transactions", SNIB_LEVEL_WARN,
              "no transactions: NOPERM no MULTI; so each acquire is a whole "
              "script",
              "give the user +multi +exec");
    tear_down(state);
    set_up(state);
    consult(&(struct says){.ping = "-LOADING x\r\n",
                           .multi = "-LOADING x\r\n-LOADING x\r\n"});
    all_well_but("answer");
}

/* What was sent behind it is a part of the transaction, which would stay open:
 * the connection is closed, and nothing more is found. */
static void an_exec_that_is_refused_ends_the_questions(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__DOCTOR);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq.name = NULL;
    rq.said.result = &rows;
    start(&rq);
    connected(CALLERS);
    say(CALLERS, "+PONG\r\n" TIME_REPLY);
    bulk(FINE_INFO);
    pair("maxmemory-policy", "noeviction");
    pair("appendonly", "yes");
    pair("appendfsync", "always");
    pair("save", "");
    say(CALLERS, "$1\r\n2\r\n:0\r\n+OK\r\n");
    silence();
    say(CALLERS, "-NOPERM no EXEC\r\n");
    answered(&rq, SNIB__DONE);
    assert_true(out.conn[CALLERS]->shut);
    read_findings(&rows);
    snib__buf_free(&rows);
    all_well_but("transactions");
    says_that("transactions", SNIB_LEVEL_WARN,
              "no transactions: NOPERM no EXEC; so each acquire is a whole "
              "script",
              "give the user +multi +exec");
    closed(CALLERS);
    silence();
}

/* Neither of these is a command and what was said to it. */
static void a_right_that_is_no_text_is_not_told(void **state)
{
    static const char *const odd[] = {
        "*2\r\n*2\r\n$3\r\nSET\r\n:5\r\n:1\r\n",
        "*2\r\n*2\r\n:5\r\n$8\r\nNOPERM x\r\n:1\r\n",
        "*2\r\n*2\r\n$3\r\nSET\r\n$-1\r\n:1\r\n"};
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        consult(&(struct says){.probe = odd[i]});
        all_well_but("");
        for (int k = 0; k < founds; k++) {
            assert_string_not_equal(found[k].check, "permissions");
        }
        tear_down(state);
        set_up(state);
    }
}

static void a_subscription_that_is_not_to_be_had_is_told(void **state)
{
    (void)state;
    consult(&(struct says){.mute = true});
    all_well_but("subscription");
    const struct finding *f = finding("subscription");
    assert_int_equal(f->level, SNIB_LEVEL_FAIL);
    assert_non_null(strstr(f->text, "cannot listen for grants: "));
    assert_non_null(strstr(f->text, "Connection refused"));
    assert_non_null(strstr(f->remedy, "third connection"));
}

/* -- clocks --------------------------------------------------------------------- */

static const char *time_at(int64_t ms)
{
    static char text[8][64];
    static int claim;
    char seconds[24], micros[24];
    char *ret = text[claim++ % 8];
    snprintf(seconds, sizeof seconds, "%lld", (long long)(ms / 1000));
    snprintf(micros, sizeof micros, "%lld", (long long)(ms % 1000 * 1000));
    snprintf(ret, sizeof text[0], "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
             strlen(seconds), seconds, strlen(micros), micros);
    return ret;
}

static const int64_t THEN = INT64_C(1790000000250);

/* At the server no more may have passed than here, from asking the first time
 * to hearing the second, and none of it backwards. */
static void a_clock_that_is_stepped_is_told(void **state)
{
    static const struct {
        int64_t trip_ms, later_ms, there_ms;
        bool even;
    } t[] = {
        {0, 0, 0, true},      {0, 0, 2, true},     {0, 0, 3, false},
        {40, 60, 0, true},    {40, 60, 100, true}, {40, 60, 102, true},
        {40, 60, 103, false}, {40, 60, -1, false}, {0, 500, 400, true},
        {0, 500, 503, false}, {40, 0, 42, true},   {40, 0, 43, false},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char text[120];
        int64_t again = THEN + t[i].there_ms;
        consult(&(struct says){.trip_ms = t[i].trip_ms,
                               .later_ms = t[i].later_ms,
                               .time = time_at(THEN),
                               .again = time_at(again)});
        snprintf(text, sizeof text,
                 "server time is %lld.%03lld s since 1970, its clock runs %s",
                 (long long)(again / 1000), (long long)(again % 1000),
                 t[i].even ? "evenly" : "unevenly");
        says_that("clock", t[i].even ? SNIB_LEVEL_OK : SNIB_LEVEL_FAIL, text,
                  t[i].even ? "" : "let NTP slew the clock, never step it");
        all_well_but("clock");
        tear_down(state);
        set_up(state);
    }
}

static void a_clock_that_cannot_be_read_is_told(void **state)
{
    static const char *const wrong[] = {
        "-NOPERM time\r\n", "*1\r\n$1\r\n5\r\n",
        "*2\r\n$2\r\n-5\r\n$1\r\n0\r\n", "*2\r\n$1\r\n5\r\n$7\r\n1000000\r\n",
        "*2\r\n$10\r\n9000000001\r\n$1\r\n0\r\n"};
    for (size_t i = 0; i < 2 * COUNT_OF(wrong); i++) {
        consult(i % 2 ? &(struct says){.time = wrong[i / 2]}
                      : &(struct says){.again = wrong[i / 2]});
        says_that("clock", SNIB_LEVEL_WARN, "the server's clock was not read",
                  "+time");
        all_well_but("clock");
        tear_down(state);
        set_up(state);
    }
}

/* The wall clock of this host is what the client knew at its start. */
static void clocks_that_are_apart_are_told(void **state)
{
    static const struct {
        int64_t there_ms, trip_ms; /* against this host's, at the answer      */
        const char *text;
        bool fine;
    } t[] = {
        {0, 0, "the server's clock is 0 ms ahead of this host's", true},
        {1000, 0, "the server's clock is 1000 ms ahead of this host's", true},
        {1001, 0, "the server's clock is 1001 ms ahead of this host's", false},
        {-1002, 0, "the server's clock is 1002 ms behind this host's", true},
        {-1003, 0, "the server's clock is 1003 ms behind this host's", false},
        {-1040, 40, "the server's clock is 1040 ms behind this host's", true},
        {-1043, 40, "the server's clock is 1043 ms behind this host's", false},
        {1001, 40, "the server's clock is 1001 ms ahead of this host's", false},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib__redis *s = (struct snib__redis *)(void *)store;
        int64_t here = now.ns + t[i].trip_ms * 1000000;
        const char *told = time_at(THEN);
        s->wall_offset_ns = (THEN - t[i].there_ms) * 1000000 - here;
        consult(&(struct says){
            .trip_ms = t[i].trip_ms, .time = told, .again = told});
        says_that("clock-skew", t[i].fine ? SNIB_LEVEL_OK : SNIB_LEVEL_WARN,
                  t[i].text, t[i].fine ? "" : "run NTP on both");
        all_well_but("clock-skew");
        tear_down(state);
        set_up(state);
    }
}

/* -- no consultation ------------------------------------------------------------ */

static void a_server_that_is_not_there_is_a_finding(void **state)
{
    struct snib__request rq = request(SNIB__DOCTOR);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq.name = NULL;
    rq.said.result = &rows;
    rq.once = true;
    start(&rq);
    opens_taken(&out);
    input(CALLERS, SNIB__IN_REFUSED, "Connection refused", 18);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
    read_findings(&rows);
    assert_int_equal(founds, 1);
    says_that("reachable", SNIB_LEVEL_FAIL,
              "no connection to h:6379: Connection refused", "check the URL");
    snib__buf_clear(&rows);
    tear_down(state);
    open_store("redis://:wrong@h");
    rq = request(SNIB__DOCTOR);
    rq.name = NULL;
    rq.said.result = &rows;
    start(&rq);
    opened(CALLERS);
    say(CALLERS, "-WRONGPASS invalid\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_DENIED);
    read_findings(&rows);
    assert_int_equal(founds, 1);
    assert_string_equal(found[0].check, "permissions");
    assert_non_null(strstr(found[0].text, "WRONGPASS"));
    assert_non_null(strstr(found[0].remedy, "check user and password"));
    snib__buf_clear(&rows);
    tear_down(state);
    set_up(state);
    rq = request(SNIB__DOCTOR);
    rq.name = NULL;
    rq.said.result = &rows;
    start(&rq);
    opened(CALLERS);
    say(CALLERS, HELLO_REPLY "$-1\r\n$1\r\n3\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_CONFIG);
    read_findings(&rows);
    assert_int_equal(founds, 1);
    assert_string_equal(found[0].check, "configuration");
    assert_non_null(strstr(found[0].text, "have layout 3, this snib knows 2"));
    snib__buf_free(&rows);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_good_server_is_well_in_every_respect),
        CASE(a_full_disk_and_memory_are_told),
        CASE(a_far_server_is_told),
        CASE(a_server_that_answers_and_refuses_is_told),
        CASE(role_and_replicas_are_told),
        CASE(what_is_saved_is_told),
        CASE(eviction_is_told),
        CASE(rights_are_told),
        CASE(a_layout_that_is_not_seen_is_told),
        CASE(a_mark_that_may_not_be_used_is_told),
        CASE(a_server_without_transactions_is_told),
        CASE(an_exec_that_is_refused_ends_the_questions),
        CASE(a_right_that_is_no_text_is_not_told),
        CASE(a_subscription_that_is_not_to_be_had_is_told),
        CASE(a_clock_that_is_stepped_is_told),
        CASE(a_clock_that_cannot_be_read_is_told),
        CASE(clocks_that_are_apart_are_told),
        CASE(a_server_that_is_not_there_is_a_finding),
    };
    return RUN(cases);
}

#endif
