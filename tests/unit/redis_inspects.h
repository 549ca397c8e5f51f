/* tests/unit/redis_inspects.h — what a server says of itself and of its keys:
 * greetings, INFO and CONFIG, the scripts that look. */
#ifndef SNIB_TESTS_REDIS_LOOKS_H
#define SNIB_TESTS_REDIS_LOOKS_H

#include "redis_says.h"

static int64_t time_said; /* the last reading of TIME                       */
static int64_t time_asked_ns;
static int64_t wall_offset_ns; /* of this host, as the store was told       */

/* -- greetings ------------------------------------------------------------------- */

static void say_hello(void)
{
    static const char *const modes[] = {"standalone", "standalone",
                                        "standalone", "cluster",
                                        "sentinel",   "other"};
    static const char *const roles[] = {"master",  "master", "master",
                                        "replica", "slave",  "masters"};
    bool odd = one_in(same.topic == GREETINGS ? 4 : 48);
    bool mode = !odd || !one_in(6), role = !odd || !one_in(6);
    if (odd && one_in(8)) {
        put_text(one_in(2) ? "-ERR unknown command 'HELLO'\r\n"
                           : "-ERR unknown command\r\n");
        return;
    }
    bool alone = odd && one_in(6);
    say_list(2 + 2 * mode + 2 * role + alone);
    say_text("server");
    say_text("redis");
    if (mode) {
        say_text("mode");
        say_text(odd ? ANY_OF(modes) : modes[0]);
    }
    if (role) {
        say_text("role");
        say_text(odd ? ANY_OF(roles) : roles[0]);
    }
    if (alone) {
        put_text("$4\r\nmode\r\n");
    }
}

/* The number of the layout. */
static void say_layout(void)
{
    static const char *const odd[] = {
        "$-1\r\n",          "$1\r\n2\r\n",  "$2\r\n10\r\n", "$0\r\n\r\n",
        "$1\r\n\x1b\r\n",   "+1\r\n",       ":1\r\n",       "-LOADING x\r\n",
        "-WRONGTYPE x\r\n", "-NOPERM x\r\n"};
    bool is_odd = same.topic == GREETINGS || same.topic == DOCTORS;
    put_text(one_in(is_odd ? 6 : 0) ? ANY_OF(odd) : "$1\r\n2\r\n");
}

static void say_role(void)
{
    static const char *const hosts[] = {"10.0.0.7", "db.example", "fe80::1",
                                        "a\x1fz~", ""};
    char longest[121];
    memset(longest, 'h', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    bool port = !one_in(8);
    say_list(2 + port);
    say_text("slave");
    say_text(one_in(8) ? longest : ANY_OF(hosts));
    if (port) {
        say_digits(6379);
    }
}

/* A reading of TIME: beside the last one, or beside this host's clock, as far
 * as may be or a little further. */
static void say_time(const struct command *c)
{
    static const int64_t odd_s[] = {-1, 0, 9000000000, 9000000001, 1};
    static const int64_t odd_us[] = {-1, 0, 999999, 1000000, 999};
    int64_t ms = server_clock(), us = 250;
    int64_t trip = (heard.now.ns - c->sent_ns) / 1000000 + 2;
    int64_t here = (heard.now.ns + wall_offset_ns) / 1000000;
    if (same.topic == DOCTORS && c->sent_ns == time_asked_ns) {
        static const int64_t upgrade_of[] = {-1, 0, 1};
        ms = one_in(2)   ? time_said + (one_in(2) ? trip : 0)
             : one_in(2) ? here + 1000
                         : here - 1000 - trip;
        ms += ANY_OF(upgrade_of);
    } else if (one_in(12)) {
        ms += (int64_t)below(4000) - 2000;
    }
    int64_t s = ms / 1000;
    us += ms % 1000 * 1000;
    if (one_in(same.odd)) {
        s = one_in(2) ? ANY_OF(odd_s) : s;
        us = one_in(2) ? ANY_OF(odd_us) : us;
    }
    time_said = ms;
    time_asked_ns = c->sent_ns;
    say_list(2);
    say_digits(s);
    say_digits(us);
}

static void say_subscribed(const struct command *c)
{
    say_list(3);
    say_text("subscribe");
    say_text(c->word);
    say_int(1);
}

/* -- doctor ----------------------------------------------------------------------- */

static char info_text[4000];
static size_t info_size;

static void info_line(const char *key, const char *value)
{
    static const char *const ends[] = {"\r\n",  "\r\n",     "\r\n",  "\n",
                                       "x\r\n", "\r\n\r\n", "\r\r\n"};
    const char *before = one_in(40) ? "x" : "";
    const char *end = one_in(4) ? ANY_OF(ends) : ends[0];
    if (!one_in(10)) {
        info_size += (size_t)snprintf(info_text + info_size,
                                      sizeof info_text - info_size, "%s%s:%s%s",
                                      before, key, value, end);
    }
}

static void info_number(const char *key, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    info_line(key, text);
}

static void say_info(void)
{
    static const char *const versions[] = {"7.0.15", "6.2.14", "6", "5.0.14",
                                           "10.1",   "",       "x", "-7"};
    static const char *const roles[] = {"master",  "master", "master", "slave",
                                        "masters", "",       "\x1f[1m"};
    static const int64_t limits[] = {0, 1000, 1000, 1000, 100000000, -1, 1};
    static const char *const policies[] = {"noeviction", "noeviction",
                                           "allkeys-lru", ""};
    static const char *const ok[] = {"ok", "ok", "err", "err\x01", ""};
    int64_t most = ANY_OF(limits), left = one_in(2) ? 0 : (int64_t)below(50);
    int64_t part = one_in(2) ? most : most * 9 / 10;
    char longest[120];
    memset(longest, 'r', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    info_size = 0;
    info_line("redis_version", ANY_OF(versions));
    info_line("role", one_in(12) ? longest : ANY_OF(roles));
    info_line("connected_slaves", one_in(2)   ? "0"
                                  : one_in(2) ? "1"
                                  : one_in(2) ? "-1"
                                              : "12");
    info_line("cluster_enabled", one_in(4) ? "1" : one_in(8) ? "11" : "0");
    info_line("loading", one_in(4) ? "1" : "0");
    info_number("maxmemory", most);
    info_number("used_memory", part + left + (int64_t)below(3) - 1);
    info_number("mem_not_counted_for_evict", left);
    info_line("maxmemory_policy", ANY_OF(policies));
    info_line("rdb_last_bgsave_status", ANY_OF(ok));
    info_line("aof_last_write_status", ANY_OF(ok));
    if (one_in(4) && info_size) { /* cut */
        info_size -= below(info_size < 30 ? info_size : 30);
    }
    say_bytes(info_text, info_size);
}

static void say_config(const struct command *c)
{
    static const char *const policies[] = {"noeviction", "allkeys-lru",
                                           "volatile-ttl\x1b"};
    static const char *const fsyncs[] = {"always", "everysec", "no", "\x7f"};
    char longest[80];
    memset(longest, 'p', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    const char *value = "";
    if (!strcmp(c->word, "maxmemory-policy")) {
        value = ANY_OF(policies);
    } else if (!strcmp(c->word, "appendonly")) {
        value = one_in(2) ? "yes" : one_in(2) ? "no" : "yesno";
    } else if (!strcmp(c->word, "appendfsync")) {
        value = ANY_OF(fsyncs);
    } else if (one_in(2)) {
        value = "3600 1 300 100";
    }
    if (one_in(10)) {
        put_text("*0\r\n");
        return;
    }
    say_list(2);
    say_text(c->word);
    if (one_in(12)) {
        put_head('+', 0); /* a status */
    } else {
        say_text(one_in(10) ? longest : value);
    }
}

static void say_probed(void)
{
    static const char *const commands[] = {"HSET",    "PUBLISH", "ZADD",
                                           "PUBLISH", "a\x01",   ""};
    char longest[60];
    memset(longest, 'c', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    bool odd = same.topic == DOCTORS || same.topic == GREETINGS || one_in(16);
    uint32_t n = odd && one_in(2) ? 2 * (uint32_t)below(5) : 0;
    n += odd && one_in(8); /* the last one has no text                     */
    say_list(2);
    if (!astray()) {
        put_head('*', n);
        for (uint32_t i = 0; i < n; i++) {
            if (i % 2) {
                say_text(one_in(2) ? "NOPERM this user may not" : any_error());
            } else {
                say_text(one_in(8) ? longest : ANY_OF(commands));
            }
        }
    }
    if (n % 2 && one_in(2)) {
        say_text("NOPERM this is no number");
    } else {
        say_int(odd ? (int64_t)below(4) - 1 : 1);
    }
}

static void say_ears(void)
{
    char longest[130];
    memset(longest, 'e', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    say_list(3);
    say_int((int64_t)below(5));
    say_int((int64_t)below(4) - 1);
    say_text(one_in(6) ? longest : one_in(6) ? "snib:\x1f ~" : "snib:c0ffee");
}

/* -- keys and locks ---------------------------------------------------------------- */

static const char *any_key(void)
{
    static const char *const odd[] = {
        "snib:{a}",          "snib:{a}:a", "snib:{}",
        "snib:{}:a",         "snib:{a",    "snib:{%7B}",
        "snib:{%7b}:a",      "snib:{a}b}", "snib:{a}:w",
        "snib:a}",           "snib:{a}xa", "snib:{%7}",
        "snip:{a}",          "other",      "",
        "snib:{a}:aa",       "snib:{%41}", "snib:{ab}:a",
        "snib:{abc}",        "snib:{}}",   "snib:{A b}",
        "snib:{%E2%82%AC}:a"};
    static char text[1600];
    if (one_in(5)) {
        return ANY_OF(odd);
    }
    if (one_in(60)) {
        char *end = text + 6 + SNIB_NAME_MAX - 1 + below(3);
        memcpy(text, "snib:{", 6);
        memset(text + 6, 'k', 900);
        snprintf(end, 9, "}%s", one_in(2) ? ":a" : "");
        return text;
    }
    char first = one_in(2) ? 'n' : 'a';
    int n = (int)below(90);
    snprintf(text, sizeof text, "snib:{%c%d}%s", first, n,
             one_in(2) ? ":a" : "");
    return text;
}

static void say_keys(void)
{
    bool many = one_in(4);
    uint32_t n = (uint32_t)below(many ? 90 : 6);
    say_list(2);
    say_digits(one_in(3) ? 17 + (int64_t)below(1000) : 0);
    if (astray()) {
        return;
    }
    put_head('*', n);
    for (uint32_t i = 0; i < n; i++) {
        if (one_in(60)) {
            put_text("*2\r\n:1\r\n*1\r\n:2\r\n");
        } else if (one_in(60)) {
            put_text("+snib:{status}\r\n");
        } else {
            say_text(any_key());
        }
    }
}

static size_t about_text(char *text, size_t size, int64_t clock)
{
    static const char *const abouts[] = {"host=h&pid=4", "", "x y z",
                                         "user=%41nna"};
    static const int64_t upgrade_of[] = {-1, 0, 1, 5000};
    const char *about = ANY_OF(abouts);
    int64_t since = one_in(6) ? 0 : clock - 2 + ANY_OF(upgrade_of);
    if (one_in(2)) {
        return (size_t)snprintf(text, size, "%s", about);
    }
    return (size_t)snprintf(text, size, "%s&since=%" PRId64, about, since);
}

static const char hex_id[] = "0123456789abcdef0123456789abcdef";

static size_t holder_text(char *text, size_t size, int64_t clock)
{
    static const char *const terms[] = {"",
                                        ",d5000",
                                        ",d0",
                                        ",s3",
                                        ",d5000,s7",
                                        ",bff,d9",
                                        ",s",
                                        ",d",
                                        ",s4294967296000",
                                        ",s4294967295",
                                        "d7",
                                        ",d12x",
                                        ",sx"};
    static const int64_t ends[] = {5000, 0, -1, 1, -4000, -5000, -6000};
    static const int64_t since[] = {0, 1, 2, -1};
    int64_t then = one_in(2) ? clock - 2000 : ANY_OF(since);
    if (one_in(4)) {
        then = clock + (int64_t)below(3) - 1;
    }
    int id = one_in(10) ? 31 + (int)below(2) : 32;
    int64_t token = one_in(8) ? INT64_C(1234567890123456789) : clock * 1024 + 3;
    int64_t over = clock + ANY_OF(ends);
    int kind = (int)below(5), permits = (int)below(4), reserve = (int)below(3);
    const char *more = ANY_OF(terms);
    int n = snprintf(text, size,
                     "%.*s %" PRId64 " %" PRId64 " %d %d%s %" PRId64 " %d ", id,
                     hex_id, token, over, kind, permits, more, then, reserve);
    n += (int)about_text(text + n, size - (size_t)n, clock);
    return one_in(8) ? below((uint64_t)n + 1) : (size_t)n;
}

static size_t waiter_text(char *text, size_t size, int64_t clock)
{
    const char *client = one_in(10) ? "" : "c0ffee";
    int poll = (int)below(9), rank = (int)below(256), kind = (int)below(5);
    int n = snprintf(text, size, "%s snib:c %d %d 30000 31 0 %d %d ", client,
                     poll, rank, kind, (int)below(4));
    n += (int)about_text(text + n, size - (size_t)n, clock);
    return one_in(8) ? below((uint64_t)n + 1) : (size_t)n;
}

static void say_holders(int64_t clock, uint32_t n)
{
    static const char *const owners[] = {
        "c0ffee", hex_id, "0123456789abcdef0123456789abcdef:77", ""};
    char text[400];
    put_head('*', n);
    for (uint32_t i = 0; i < n; i++) {
        if (i % 2 == 0) {
            say_text(ANY_OF(owners));
        } else {
            say_bytes(text, holder_text(text, sizeof text, clock));
        }
    }
}

static void say_waiters(int64_t clock, uint32_t n)
{
    char text[400];
    put_head('*', n);
    for (uint32_t i = 0; i < n; i++) {
        if (i % 3 == 0) {
            say_text(hex_id);
        } else if (i % 3 == 1) {
            snprintf(text, sizeof text, "%" PRId64,
                     one_in(6) ? (int64_t)below(3) - 1
                               : clock + (int64_t)below(6000) - 3000);
            say_text(text);
        } else {
            say_bytes(text, waiter_text(text, sizeof text, clock));
        }
    }
}

/* The reply of inspect.lua. */
static void say_looked(void)
{
    static const int64_t all[] = {0, 99, 100, 101, 200, 201, 700, 1000000};
    static const int64_t more[] = {1, 500, 500, 0, -1};
    bool empty = one_in(8), crowd = one_in(2);
    uint32_t holders = empty ? 0 : (uint32_t)below(7);
    uint32_t waiters = empty ? 0 : (uint32_t)below(8);
    int64_t clock = one_in(30) ? (int64_t)below(2) - 1 : server_clock();
    say_list(crowd ? 7 : 6);
    if (one_in(12)) {
        say_digits(clock);
    } else {
        say_int(clock);
    }
    say_int(one_in(20) ? (int64_t)below(2) - 1 : clock * 1024);
    say_int(one_in(2) ? 1000000 : ANY_OF(all));
    if (!astray()) {
        say_holders(clock, holders);
    }
    if (!astray()) {
        say_waiters(clock, waiters);
    }
    put_text("*2\r\n:-1\r\n:-1\r\n");
    if (crowd) {
        say_int(ANY_OF(more));
    }
}

/* -- any ------------------------------------------------------------------------------ */

static void say_reply_of_script(const struct command *c)
{
    switch ((enum snib__script)c->script) {
    case SNIB__SCRIPT_ACQUIRE:
        say_acquired(c->lease[0], known_as(c->id));
        break;
    case SNIB__SCRIPT_SEVERAL:
        say_several(c);
        break;
    case SNIB__SCRIPT_RENEW:
        say_renewed(c->locks);
        break;
    case SNIB__SCRIPT_KEEP:
        say_renewed(1);
        break;
    case SNIB__SCRIPT_DROP:
        if (c->locks > 1) {
            say_list(c->locks);
        }
        for (uint32_t i = 0; i < c->locks; i++) {
            say_int(one_in(4) ? 0 : 1);
        }
        break;
    case SNIB__SCRIPT_RELEASE:
        say_released();
        break;
    case SNIB__SCRIPT_CANCEL:
        say_cancelled();
        break;
    case SNIB__SCRIPT_FORCE:
        say_ints((const int64_t[]){(int64_t)below(3), server_clock()}, 2);
        break;
    case SNIB__SCRIPT_PARAMS:
        say_terms();
        break;
    case SNIB__SCRIPT_VALUE_GET:
        say_value();
        break;
    case SNIB__SCRIPT_VALUE_PUT:
        say_changed();
        break;
    case SNIB__SCRIPT_INSPECT:
        say_looked();
        break;
    case SNIB__SCRIPT_PROBE:
        say_probed();
        break;
    case SNIB__SCRIPT_EARS:
        say_ears();
        break;
    case SNIB__SCRIPT_EPOCH:
        say_ints((const int64_t[]){server_clock(), (int64_t)below(30000),
                                   one_in(4) ? 1 : server_clock(), 0},
                 4);
        break;
    case SNIB__SCRIPTS:
        break;
    }
}

/* What SET and XADD answered, or that nothing was done. */
static void say_exec(uint32_t sets)
{
    static const char *const odd[] = {"1-1", "5", "-", "1790000000000-1024",
                                      "9007199254740992-0"};
    char id[48];
    if (one_in(12)) {
        put_text(one_in(2) ? "-EXECABORT x\r\n" : "$-1\r\n");
        return;
    }
    say_list(sets + 1);
    for (uint32_t i = 0; i < sets; i++) {
        put_text(one_in(4) ? "$-1\r\n" : "+OK\r\n");
    }
    int64_t ms = clock_said();
    snprintf(id, sizeof id, "%" PRId64 "-%d", ms, (int)below(3));
    if (one_in(10)) {
        put_text("$-1\r\n");
    } else {
        say_text(one_in(12) ? ANY_OF(odd) : id);
    }
}

static void say_reply(const struct command *c)
{
    switch (c->what) {
    case P_SCRIPT:
        if (c->script != SNIB__SCRIPT_PROBE && one_in(same.between)) {
            put_text(one_in(2) ? "+OK\r\n" : "*1\r\n:1\r\n");
        } else {
            say_reply_of_script(c);
        }
        break;
    case P_HELLO:
        say_hello();
        break;
    case P_SELECT:
        put_text(one_in(same.topic == GREETINGS ? 8 : 0)
                     ? "-ERR DB index is out of range\r\n"
                     : "+OK\r\n");
        break;
    case P_SET:
        put_text(one_in(2) ? "+OK\r\n" : "$-1\r\n");
        break;
    case P_GET:
        say_layout();
        break;
    case P_TIME:
        say_time(c);
        break;
    case P_SUBSCRIBE:
        say_subscribed(c);
        break;
    case P_PING:
        put_text(at == SUBS ? "*2\r\n$4\r\npong\r\n$0\r\n\r\n" : "+PONG\r\n");
        break;
    case P_ROLE:
        say_role();
        break;
    case P_INFO:
        say_info();
        break;
    case P_CONFIG:
        say_config(c);
        break;
    case P_SCAN:
        say_keys();
        break;
    case P_MULTI:
        put_text(one_in(60) ? "-NOPERM no MULTI\r\n" : "+OK\r\n");
        break;
    case P_QUEUED:
        put_text(one_in(60) ? "-OOM x\r\n" : "+QUEUED\r\n");
        break;
    case P_EXEC:
        say_exec(c->locks);
        break;
    case P_OTHER:
        put_text(":1\r\n");
        break;
    }
}

#endif
