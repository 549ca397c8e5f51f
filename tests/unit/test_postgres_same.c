/* tests/unit/test_postgres_same.c — the PostgreSQL store as it is shipped, against a
 * libpq of dice: see same.h, postgres_world.h.
 *
 * Up to three clients with two sessions each. A line is each call of libpq with
 * all that is sent, each answer, and behind each move what a session knows.
 * `unit.postgres_same --run N` shows run N.
 * wraps: fork read write waitpid _exit close clock_gettime poll access shutdown
 * wraps: getrlimit eventfd epoll_create1 epoll_ctl snib__sql_no_such_host */
#include "postgres_dice.h"

#include "core/url.h"

enum { RUNS_MAX = 2500, MOVES = 40 };

/* -- results ------------------------------------------------------------------------- */

static int dice_busy(PGconn *c)
{
    struct conn *k = conn_of(c);
    return !k->down && chance("busy", 5);
}

static int dice_consume(PGconn *c)
{
    struct conn *k = conn_of(c);
    k->down = k->down || goes_wrong("consume");
    return !k->down;
}

/* The server has gone: libpq says so once, mostly. */
static PGresult *cut_result(struct conn *k)
{
    k->down = true;
    k->count = 0;
    snprintf(
        k->message, sizeof k->message,
        "server closed the connection unexpectedly\n\tThis probably means");
    tell("is cut");
    return chance("says so", 2)
               ? (PGresult *)(void *)result_new(PGRES_FATAL_ERROR)
               : NULL;
}

static PGresult *dice_result(PGconn *c)
{
    struct conn *k = conn_of(c);
    if (!k->count || k->down) {
        return NULL;
    }
    struct sent *s = &k->queue[k->first];
    if (s->what != END && w.cuts && chance("cut", (uint64_t)w.cuts)) {
        return cut_result(k);
    }
    k->first = (k->first + 1) % QUEUE;
    k->count--;
    w.now += chance("a slow answer", 40) ? 400 * MS : 20000;
    if (s->what == END) {
        return NULL;
    }
    if (s->what == SYNC) {
        k->failed = false;
        return (PGresult *)(void *)result_new(
            chance("no sync", 400) ? PGRES_BAD_RESPONSE : PGRES_PIPELINE_SYNC);
    }
    return (PGresult *)(void *)answer(k, s);
}

/* -- notifications ------------------------------------------------------------------- */

static void some_extra(char ret[64])
{
    static const char *const odd[] = {"", "0123456789abcdef0123456789abcde",
                                      "x", "0123456789abcdef0123456789abcdef0",
                                      "0123456789ABCDEF0123456789abcdef"};
    const struct mine *m = &mine[pick("notified", MINE)];
    if (m->used && !chance("odd notice", 4)) {
        snprintf(ret, 64, "%016llx%016llx", (unsigned long long)m->r.id[0],
                 (unsigned long long)m->r.id[1]);
    } else {
        snprintf(ret, 64, "%s", odd[pick("odd", COUNT_OF(odd))]);
    }
}

static PGnotify *dice_notifies(PGconn *c)
{
    static char channel[] = "snib";
    (void)conn_of(c);
    if (!chance("a notice", 2)) {
        return NULL;
    }
    PGnotify *n = malloc(sizeof *n + 64);
    assert_non_null(n);
    *n = (PGnotify){.relname = channel, .be_pid = 9, .extra = (char *)(n + 1)};
    some_extra(n->extra);
    tell("notice %s", n->extra);
    w.notes_alive++;
    return n;
}

static void dice_freemem(void *p)
{
    w.notes_alive--;
    free(p);
}

static int dice_library(void)
{
    return 150000;
}

static const struct snib__pq dice_pq = {
    .PQclear = dice_clear,
    .PQconnectPoll = dice_poll,
    .PQconnectStartParams = dice_start,
    .PQconsumeInput = dice_consume,
    .PQbackendPID = dice_pid,
    .PQenterPipelineMode = dice_pipeline,
    .PQerrorMessage = dice_message,
    .PQfinish = dice_finish,
    .PQflush = dice_flush,
    .PQfreemem = dice_freemem,
    .PQgetisnull = dice_is_null,
    .PQgetlength = dice_length,
    .PQgetResult = dice_result,
    .PQgetvalue = dice_value,
    .PQisBusy = dice_busy,
    .PQlibVersion = dice_library,
    .PQnotifies = dice_notifies,
    .PQntuples = dice_ntuples,
    .PQpipelineSync = dice_sync,
    .PQresultErrorField = dice_field,
    .PQresultStatus = dice_result_status,
    .PQsendPrepare = dice_prepare,
    .PQsendQueryParams = dice_text,
    .PQsendQueryPrepared = dice_query,
    .PQserverVersion = dice_version,
    .PQsetErrorVerbosity = dice_verbosity,
    .PQsetNoticeReceiver = dice_notice,
    .PQsetnonblocking = dice_nonblocking,
    .PQsocket = dice_socket,
    .PQstatus = dice_status,
};

/* -- clients come and go ---------------------------------------------------------------- */

static const char *some_url(void)
{
    static const char *const urls[] = {
        "postgres://u:" PASSWORD "@db.example/app",
        "postgres://u:" PASSWORD "@db.example:5433/app?tls=no",
        "postgres://u@localhost/app?durable=no",
        "postgres://127.0.0.1?schema=other&ca=/x&tls=verify",
        "postgres://u:" PASSWORD "@[::1]:7/app?tls=verify",
        "postgres://u@/app?socket=/run/postgresql&port=6000",
        "postgres://u@LOCALHOST/app?durable=yes",
        "postgres://h/app?schema=Upper",
        "postgres://h/app?schema=0digit",
        "postgres://h/app?schema="
        "abcdefghijklmnopqrstuvwxyz0123456789_abcdefghij",
        "postgres://h/app?schema="
        "abcdefghijklmnopqrstuvwxyz0123456789_abcdefghijk",
        "postgres://h/app?tls=maybe",
        "postgres://h/app?durable=maybe",
        "postgres://h/app?nonsense=1",
        "postgres://h,i/app",
        "postgres://h/app?port=6000",
        "postgres://u@/app?socket=/run&port=65536",
        "postgres://u@/app?socket=/run&port=65535",
        "postgres://u@/app?socket=/run&port=x",
        "postgres://u@/app?socket=run",
        "postgres://h/app?socket=/run",
        "postgres://u@/app",
        "postgres://h/a/b",
        "postgres://h/"};
    return urls[chance("any URL", 4) ? pick("url", COUNT_OF(urls))
                                     : pick("usual url", 7)];
}

static void hear_log(void *data, int level, const char *line)
{
    (void)data;
    tell("log %d %s", level, line);
}

static void tell_opened(const struct snib__postgres *p)
{
    tell("%s %s %s %s %s, %s, %d%d%d at %s", p->address.host, p->address.port,
         p->address.database ? p->address.database : "(none)",
         p->address.user ? p->address.user : "(none)",
         p->address.ca ? p->address.ca : "(none)", p->schema, p->address.here,
         p->address.verify, p->durable, p->address.where);
}

static void client_comes(void)
{
    struct client *c = &clients[pick("comes", CLIENTS)];
    struct snib__url *url = NULL;
    struct snib_error e = {0};
    void *inst = NULL;
    if (c->inst) {
        return;
    }
    draw_id(c->id);
    c->stops = false;
    c->out = (struct snib__out){.log = chance("logs", 2) ? hear_log : NULL};
    const char *text = some_url();
    tell("comes to %s", text);
    snib_err err = snib__url_parse(text, &url, &e);
    if (err) {
        tell("url: %d %s", (int)err, e.text);
        return;
    }
    struct snib__store_config config = {
        .url = url,
        .out = &c->out,
        .request = snib__ms(chance("patient", 3) ? 9000 : 300),
        .client = {c->id[0], c->id[1]},
        .seed = {{c->id[0] + 1, c->id[1] + 2, same.run, 4}},
        .wall_offset_ns = chance("no offset", 3) ? 0 : w.server_us * 1000,
        .login = chance("login", 40)};
    if (lacks_memory()) {
        snib__mem_fail_at(1 + (int64_t)pick("allocation", 8), false);
    }
    err = snib__postgres_open_on(&config, &dice_pq, &inst,
                                 chance("no words", 20) ? NULL : &e);
    snib__mem_fail_at(0, false);
    tell("open: %d %d %s", (int)err, (int)e.code, e.text);
    assert_true((err == SNIB_ERR_OK) == (inst != NULL));
    assert_null(strstr(e.text, PASSWORD));
    c->inst = inst;
    if (inst) {
        tell_opened(inst);
    }
    snib__url_free(url);
}

static void client_goes(int i)
{
    if (clients[i].inst) {
        tell("client %d goes", i);
        snib__postgres_ops.free(clients[i].inst);
        clients[i].inst = NULL;
    }
    for (int k = 0; k < MINE; k++) {
        mine[k].used = mine[k].used && mine[k].client != i;
    }
}

/* -- moves ------------------------------------------------------------------------------------ */

static void time_passes(void)
{
    static const int64_t ms[] = {1, 10, 20, 40, 400, 1000, 3000, 61000};
    w.now += ms[pick("passes", COUNT_OF(ms))] * MS;
    if (chance("the server is restarted", 12)) {
        w.life++;
        for (int i = 0; i < CONNS; i++) {
            w.conns[i].down = w.conns[i].used || w.conns[i].down;
        }
    } else if (chance("its clock is set", 8)) {
        w.server_us += chance("ahead", 2) ? 70000000 : -70000000;
    }
}

static void something_strange(void)
{
    int i = any_client();
    switch (pick("strange", 6)) {
    case 0:
        if (i >= 0) {
            struct snib__sql *q = &clients[i].inst->session[0].tables.sql;
            q[0].writes = 4095;
            clients[i].inst->session[1].tables.sql.writes = 4094;
        }
        break;
    case 1:
        if (i >= 0 && !clients[i].stops && chance("stops", 3)) {
            clients[i].stops = true;
            snib__postgres_ops.interrupt(clients[i].inst);
        }
        break;
    case 2:
        for (int k = 0; k < CONNS; k++) {
            w.conns[k].down = w.conns[k].down || chance("breaks", 2);
        }
        break;
    case 3: /* all others' tokens */
        w.token += 1 + (int64_t)pick("more", 100);
        break;
    case 4: {
        struct snib__buf text;
        struct snib_error e = {0};
        static const char *const schemas[] = {NULL, "snib", "x1", "X", ""};
        snib__buf_init(&text, chance("little room", 4) ? 100 : 1 << 16);
        const char *schema = schemas[pick("schema", 5)];
        struct snib__url *url;
        char where[64];
        snprintf(where, sizeof where, "postgres://h/d%s%s",
                 schema ? "?schema=" : "", schema ? schema : "");
        assert_int_equal(snib__url_parse(where, &url, NULL), SNIB_ERR_OK);
        snib_err err = snib__postgres_schema(url, &text, &e);
        snib__url_free(url);
        tell("schema: %d %s, %zu bytes", (int)err, e.text,
             snib__buf_size(&text));
        same_stir((const char *)snib__buf_bytes(&text), snib__buf_size(&text));
        snib__buf_free(&text);
        break;
    }
    default:
        client_goes((int)pick("goes", CLIENTS));
    }
}

static void move_of_theme(void)
{
    switch (theme) {
    case VALUES:
        ask_other();
        break;
    case QUEUES:
        if (chance("hears", 3)) {
            hear();
        } else {
            with_mine();
        }
        break;
    case ALL:
    case DAMAGE:
    case FETCHES:
    case THEMES:
        if (chance("chain", 2)) {
            ask_chain(chance("long chain", 6));
        } else {
            acquire_one();
        }
    }
}

static void move_on(void)
{
    switch (pick("move", 20)) {
    case 0:
    case 1:
        client_comes();
        break;
    case 2:
    case 3:
        ask_other();
        break;
    case 4:
    case 5:
        time_passes();
        break;
    case 6:
        hear();
        break;
    case 7:
    case 8:
    case 9:
        with_mine();
        break;
    case 10:
    case 11:
        ask_chain(chance("long chain", 12));
        break;
    case 12:
        something_strange();
        break;
    case 13:
    case 14:
    case 15:
        acquire_one();
        break;
    default:
        move_of_theme();
    }
}

static void make_names(void)
{
    static char far[SNIB_NAME_MAX + 1];
    static const char *const texts[NAMES] = {"a", "ab", "b}c", "d", "aa", far};
    static const uint64_t hashes[NAMES] = {5, 69, 5, 6, 7, 8};
    memset(far, 'n', sizeof far - 1);
    for (int i = 0; i < NAMES; i++) {
        names[i] = (struct snib__name){.raw = texts[i],
                                       .safe = texts[i],
                                       .raw_size = (uint32_t)strlen(texts[i]),
                                       .safe_size = (uint32_t)strlen(texts[i]),
                                       .hash = hashes[i]};
    }
}

static void live(void)
{
    w.now = 5000 * S;
    w.server_us = INT64_C(1790000000000000);
    w.life = 5;
    make_names();
    theme = (enum theme)pick("theme", THEMES);
    client_comes();
    client_comes();
    draw_failures();
    for (int i = 0; i < MOVES; i++) {
        move_on();
        w.now += MS;
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_goes(i);
    }
    for (int i = 0; i < FDS; i++) {
        assert_int_equal(w.fds[i].is, FD_CLOSED);
    }
    assert_int_equal(snib__mem_alive(), 0);
}

int main(int argc, char **argv)
{
    static struct same_list list = {
        .path = SNIB_TESTS "/unit/postgres_same.txt",
        .title = "Run, what the PostgreSQL store does: test_postgres_same.c",
        .first = 1,
        .last = RUNS_MAX,
        .run = same_run,
    };
    if (argc == 3 && strcmp(argv[1], "--run") == 0) {
        same.shows = same.on = true;
        same.run = strtoull(argv[2], NULL, 10);
        live();
        same.on = false;
        return 0;
    }
    return same_main(argc, argv, &list);
}
