/* tests/unit/postgres_dice.h — the functions of libpq as unit.postgres_same has
 * them: each call is told, and comes to what the dice say. See
 * postgres_world.h. */
#ifndef SNIB_TESTS_POSTGRES_DICE_H
#define SNIB_TESTS_POSTGRES_DICE_H

#include "postgres_answers.h"

/* -- the check-up ----------------------------------------------------------------- */

static void put_words(struct result *r, const char *const words[], int cols)
{
    result_size(r, 1, cols);
    for (int i = 0; i < cols; i++) {
        if (words[i]) {
            put_text(r, 0, i, words[i]);
        }
    }
}

static void answer_doctor(struct result *r, int statement)
{
    static const char *const server[] = {
        "15.4 (Debian)", "app", "anna", NULL, NULL, "2026-01-02", NULL};
    static const char *const commits[] = {"on", "off", "remote_apply", "local"};
    const char *settings[] = {commits[pick("commit", 4)],
                              chance("no fsync", 4) ? "off" : "on",
                              chance("no pages", 4) ? "off" : "on",
                              chance("isolated", 4) ? "serializable"
                                                    : "read committed",
                              "",
                              "100",
                              chance("no vacuum", 4) ? "off" : "on"};
    if (statement == SNIB__PG_DOCTOR_SERVER) {
        static const int64_t off[] = {0, 59999, -60000, 60000, 400000};
        put_words(r, server, 7);
        put_small(r, 0, 3, 0);
        put_int(r, 0, 4, server_us() + 1000 * off[pick("clock of it", 5)]);
        put_int(r, 0, 6, (int64_t)pick("sessions", 100));
    } else if (statement == SNIB__PG_DOCTOR_SETTINGS) {
        put_words(r, settings, 7);
    } else if (statement == SNIB__PG_DOCTOR_REPLICAS) {
        result_size(r, 1, 3);
        put_int(r, 0, 0, (int64_t)pick("standbys", 3));
        put_int(r, 0, 1, (int64_t)pick("together", 2));
        put_int(r, 0, 2, (int64_t)pick("lag", 3) - 1);
    } else if (statement == SNIB__PG_DOCTOR_MISSING) {
        result_size(r, 0, 1); /* all tables are there */
    } else if (statement == SNIB__PG_DOCTOR_RIGHTS) {
        int rows = chance("rights lack", 3) ? 1 + (int)pick("rights", 14) : 0;
        result_size(r, rows, 1);
        for (int i = 0; i < rows; i++) {
            put_text(r, i, 0, i % 2 ? "claim DELETE" : "value UPDATE, and so");
        }
    } else if (statement == SNIB__PG_DOCTOR_TABLES) {
        result_size(r, 1, 4);
        put_int(r, 0, 0, 12);
        put_int(r, 0, 1, 8192);
        put_int(r, 0, 2, (int64_t)pick("size", 3) * 1000);
        put_text(r, 0, 3, chance("unlogged", 3) ? "u" : "p");
    } else {
        answer_numbers(r, 63 + (int64_t)pick("listeners", 3), 0);
    }
}

/* -- what a statement comes to -------------------------------------------------------- */

static const char *const states[] = {
    "22012", "23505", "40001", "40P01", "55P03", "25P03", "57014", "28P01",
    "28000", "3D000", "42501", "42P01", "3F000", "42703", "25006", "53100",
    "53200", "53300", "57P03", "57P01", "08006", "XX000", ""};

static void answer_error(struct result *r, struct conn *k, const char *state)
{
    static const char *const severities[] = {"ERROR", "ERROR", "ERROR", "ERROR",
                                             "FATAL", "PANIC", ""};
    static const char *const words[] = {
        "it cannot be", "",
        "no " PASSWORD, "two\nlines",
        "\x1b[1mloud",  "x: " PASSWORD PASSWORD "!"};
    r->status = PGRES_FATAL_ERROR;
    snprintf(r->state, sizeof r->state, "%s", state);
    snprintf(r->severity, sizeof r->severity, "%s",
             severities[pick("severity", COUNT_OF(severities))]);
    snprintf(r->words, sizeof r->words, "%s",
             words[pick("words", COUNT_OF(words))]);
    k->failed = true;
    k->down = k->down || (strcmp(r->severity, "ERROR") != 0 &&
                          !chance("stays all the same", 4));
    tell("  is %s %s %s", r->state, r->severity, r->words);
}

/* Guards, and what meets others, fail most. */
static bool is_guard(int statement)
{
    return statement == SNIB__SQL_DO_GUARD ||
           statement == SNIB__SQL_DO_GUARD_CLAIM ||
           statement == SNIB__SQL_DO_GUARD_NO_CLAIM ||
           statement == SNIB__SQL_DO_GUARD_FLOOR ||
           statement == SNIB__SQL_DO_PUT_FLOOR ||
           statement == SNIB__SQL_DO_PUT_CLAIM ||
           statement == SNIB__SQL_DO_DELETE_CLAIM ||
           statement == SNIB__SQL_DO_VALUE_IN_TIME ||
           statement == SNIB__SQL_DO_VALUE_ADD;
}

static void answer_settings(struct result *r, const struct conn *k)
{
    result_size(r, 1, 15);
    put_small(r, 0, 0, chance("a pooler", 60) ? 77 : k->pid);
    put_small(r, 0, 1, chance("a standby", 40));
    put_int(r, 0, 2, server_us());
    put_int(r, 0, 3, w.life);
}

static void answer_query(struct result *r, const struct sent *s, struct conn *k)
{
    r->status = PGRES_TUPLES_OK;
    switch (s->statement) {
    case SNIB__PG_SETTINGS:
        answer_settings(r, k);
        break;
    case SNIB__PG_LAYOUT:
        if (chance("no tables", 12)) {
            answer_error(r, k, chance("no schema", 2) ? "3F000" : "42P01");
        } else {
            result_size(r, !chance("no layout", 20), 1);
            put_int(r, 0, 0, chance("later layout", 30) ? 2 : 1);
        }
        break;
    case SNIB__PG_HAS_SCHEMA:
        answer_numbers(r, (int64_t)pick("schemas", 2), 0);
        break;
    case SNIB__SQL_DO_FETCH:
        answer_fetch(r, s);
        break;
    case SNIB__SQL_DO_ACQUIRE:
    case SNIB__SQL_DO_RELEASE:
        answer_quick(r, s, 2);
        break;
    case SNIB__SQL_DO_RENEW:
        answer_quick(r, s, 4);
        break;
    case SNIB__SQL_DO_RENEW_SHARE:
        answer_quick(r, s, 5);
        break;
    case SNIB__SQL_DO_NAMES:
        answer_names(r);
        break;
    case SNIB__SQL_DO_VALUE:
        answer_value(r, s);
        break;
    case SNIB__SQL_DO_VALUE_LOCKED:
        answer_locked_value(r, s);
        break;
    case SNIB__SQL_DO_VALUE_FLOOR:
        answer_numbers(r, server_us() / 1000,
                       chance("floor of it", 3) ? w.token + 9 : 0);
        break;
    default:
        if (s->statement >= SNIB__PG_DOCTOR_SERVER) {
            answer_doctor(r, s->statement);
        } else {
            r->status = PGRES_COMMAND_OK;
        }
    }
}

static void note_transaction(struct conn *k, const struct sent *s)
{
    if (s->statement == SNIB__SQL_DO_BEGIN ||
        s->statement == SNIB__SQL_DO_BEGIN_READ) {
        k->inside = true;
    } else if (s->statement == SNIB__SQL_DO_COMMIT ||
               s->statement == SNIB__SQL_DO_ROLLBACK) {
        k->inside = false;
    }
}

static struct result *answer(struct conn *k, const struct sent *s)
{
    struct result *r = result_new(PGRES_COMMAND_OK);
    bool may = s->what != QUERY || s->statement != SNIB__SQL_DO_ROLLBACK;
    w.odd = chance("odd cells", theme == DAMAGE ? 12 : 120);
    if (k->failed) {
        r->status = PGRES_PIPELINE_ABORTED;
    } else if (may && s->what == QUERY && is_guard(s->statement) &&
               chance("conflict", 12)) {
        answer_error(r, k, chance("by a guard", 2) ? "22012" : "23505");
    } else if (may && w.errors && chance("error", (uint64_t)w.errors)) {
        answer_error(r, k, states[pick("state", COUNT_OF(states))]);
    } else if (s->what == QUERY) {
        answer_query(r, s, k);
        note_transaction(k, s);
    } else if (s->what == TEXT) {
        k->listens = true;
    }
    return r;
}

/* -- connecting --------------------------------------------------------------------------- */

static struct conn *conn_of(const PGconn *c)
{
    struct conn *k = (struct conn *)(uintptr_t)c;
    assert_true(k && k->used);
    return k;
}

static PGconn *dice_start(const char *const *keys, const char *const *values,
                          int expand)
{
    static const char *const refusals[] = {
        "connection to server at \"h\" (10.0.0.1), port 5432 failed: FATAL:  "
        "28P01: password authentication failed for user \"u\"",
        "FATAL:  28000: Rolle existiert nicht",
        "FATAL:  3D000: Datenbank existiert nicht: " PASSWORD,
        "FATAL:  53300: zu viele",
        "connection to server on socket failed: Connection refused\nIs it?",
        "server does not support SSL, but SSL was required",
        "certificate verify failed",
        "server certificate for \"x\" does not match host name \"h\"",
        "root certificate file \"/x\" does not exist",
        "FATAL:  sorry, too many clients already",
        "expected authentication request from server, but received H",
        "could not translate host name \"h\" to address",
        "no pg_hba.conf entry for host, no encryption",
        "FATAL:  abcde: small",
        "FATAL:  57P03 the database system is starting up",
        "role \"u\" does not exist",
        ""};
    static int pids;
    int i = 0;
    for (int n = 0; keys[n]; n++) {
        tell("connects, %s=%s", keys[n], values[n] ? values[n] : "(none)");
    }
    tell("expands %d", expand);
    if (goes_wrong("start")) {
        return NULL;
    }
    while (w.conns[i].used) {
        i++;
        assert_true(i < CONNS);
    }
    struct conn *k = &w.conns[i];
    memset(k, 0, sizeof *k);
    k->used = true;
    k->fd = open_fd(FD_SOCKET);
    FD(k->fd).conn = k;
    k->pid = 7000 + pids++ % 40;
    k->polls = (int)pick("polls", 3);
    k->refused = falters("connect");
    snprintf(k->message, sizeof k->message, "%s",
             refusals[pick("refusal", COUNT_OF(refusals))]);
    return (PGconn *)(void *)k;
}

static PostgresPollingStatusType dice_poll(PGconn *c)
{
    struct conn *k = conn_of(c);
    if (k->polls-- > 0 || goes_wrong("poll")) {
        return chance("reads", 2) ? PGRES_POLLING_READING
                                  : PGRES_POLLING_WRITING;
    }
    tell("connected %d", !k->refused);
    return k->refused ? PGRES_POLLING_FAILED : PGRES_POLLING_OK;
}

static void dice_finish(PGconn *c)
{
    struct conn *k = conn_of(c);
    tell("finishes %s, inside %d", fd_text(k->fd), k->inside);
    k->used = false;
    fd_close(k->fd);
}

static ConnStatusType dice_status(const PGconn *c)
{
    const struct conn *k = conn_of(c);
    return k->down || (k->polls > 0 && chance("bad at once", 60))
               ? CONNECTION_BAD
               : CONNECTION_OK;
}

static int dice_socket(const PGconn *c)
{
    return conn_of(c)->fd;
}

static int dice_version(const PGconn *c)
{
    static const int versions[] = {150004, 120000, 160001, 119999};
    (void)conn_of(c);
    return versions[chance("another version", 12) ? pick("version", 4) : 0];
}

static int dice_pid(const PGconn *c)
{
    return conn_of(c)->pid;
}

static char *dice_message(const PGconn *c)
{
    return conn_of(c)->message;
}

static PQnoticeReceiver dice_notice(PGconn *c, PQnoticeReceiver f, void *data)
{
    tell("receiver %d %d", f != NULL, data != NULL);
    f(data, NULL);
    (void)conn_of(c);
    return f;
}

static PGVerbosity dice_verbosity(PGconn *c, PGVerbosity v)
{
    (void)conn_of(c);
    tell("verbosity %d", (int)v);
    return v;
}

static int dice_nonblocking(PGconn *c, int on)
{
    (void)conn_of(c);
    tell("nonblocking %d", on);
    return goes_wrong("nonblocking") ? -1 : 0;
}

static int dice_pipeline(PGconn *c)
{
    (void)conn_of(c);
    return !goes_wrong("pipeline");
}

/* -- sending ----------------------------------------------------------------------------------- */

static struct sent *send_one(PGconn *c, int what, int statement)
{
    struct conn *k = conn_of(c);
    assert_true(k->count + 2 < QUEUE);
    struct sent *s = &k->queue[(k->first + k->count++) % QUEUE];
    memset(s, 0, sizeof *s);
    s->what = what;
    s->statement = statement;
    return s;
}

static int send_both(PGconn *c, const char *call, int what, int statement)
{
    if (conn_of(c)->down || goes_wrong(call)) {
        conn_of(c)->down = chance("is down for it", 2) || conn_of(c)->down;
        return 0;
    }
    send_one(c, what, statement);
    send_one(c, END, 0);
    return 1;
}

static int dice_prepare(PGconn *c, const char *name, const char *text, int n,
                        const Oid *types)
{
    tell("prepares %s, %d %d: %s", name, n, types != NULL, text);
    return send_both(c, "prepare", PREPARE, atoi(name + 4));
}

static void keep_param(struct sent *s, int i, const char *value, int size)
{
    uint64_t v[2];
    if (i == 0 && value && size > 0 && (size_t)size <= sizeof s->name) {
        memcpy(s->name, value, (size_t)size);
        s->name_size = size;
    }
    if (i < IDS && value && size == 8) {
        memcpy(v, value, 8);
        s->ints[i] = (int64_t)be64toh(v[0]);
    } else if (i < IDS && value && size == 16) {
        memcpy(v, value, 16);
        s->ids[i][0] = be64toh(v[0]);
        s->ids[i][1] = be64toh(v[1]);
    }
}

static void tell_param(int i, const char *value, int size, int format)
{
    int64_t n = 0;
    if (value && size == 8) {
        memcpy(&n, value, 8);
        tell("  %d %d: %lld", i + 1, format, (long long)be64toh((uint64_t)n));
    } else {
        tell("  %d %d: %d bytes%s", i + 1, format, size, value ? "" : ", NULL");
        same_stir(value ? value : "", value ? (size_t)size : 0);
    }
}

static int dice_query(PGconn *c, const char *name, int n,
                      const char *const *values, const int *lengths,
                      const int *formats, int format)
{
    struct conn *k = conn_of(c);
    tell("sends %s of %d, %d", name, n, format);
    if (!send_both(c, "query", QUERY, atoi(name + 4))) {
        return 0;
    }
    struct sent *s = &k->queue[(k->first + k->count - 2) % QUEUE];
    for (int i = 0; i < n; i++) {
        tell_param(i, values[i], lengths[i], formats[i]);
        keep_param(s, i, values[i], lengths[i]);
    }
    return 1;
}

static int dice_text(PGconn *c, const char *text, int n, const Oid *types,
                     const char *const *values, const int *lengths,
                     const int *formats, int format)
{
    tell("sends %s, %d %d %d %d %d %d", text, n, types != NULL, values != NULL,
         lengths != NULL, formats != NULL, format);
    return send_both(c, "text", TEXT, 0);
}

static int dice_sync(PGconn *c)
{
    tell("sync");
    if (conn_of(c)->down || goes_wrong("sync")) {
        return 0;
    }
    send_one(c, SYNC, 0);
    return 1;
}

static int dice_flush(PGconn *c)
{
    (void)conn_of(c);
    return goes_wrong("flush") ? -1 : chance("more to send", 12);
}

#endif
