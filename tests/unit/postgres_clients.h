/* tests/unit/postgres_clients.h — the clients of unit.postgres_same: what they are,
 * how one asks, what holds whatever was drawn. See postgres_world.h. */
#ifndef SNIB_TESTS_POSTGRES_CLIENTS_H
#define SNIB_TESTS_POSTGRES_CLIENTS_H

#include "postgres_cells.h"

#include "core/blocking.h"

enum { CLIENTS = 3, NAMES = 6 };

/* What a run has more of than others. */
enum theme { ALL, VALUES, DAMAGE, QUEUES, FETCHES, THEMES };

static enum theme theme;

#include "store_asks.h"

#define PASSWORD "pw-secret"

static struct client {
    struct snib__postgres *inst;
    struct snib__out out;
    uint64_t id[2];
    bool stops;
} clients[CLIENTS];

static bool client_is_open(int client)
{
    return clients[client].inst != NULL;
}

static int some_name(void)
{
    return (int)pick("name", NAMES);
}

static snib_instant exec_began;

/* While its limit was ahead. */
static bool may_be_pending(const struct snib__request *r)
{
    return !snib__reached(exec_began, r->exec.patience);
}

/* Behind an execution nothing is left open at the server, unless it was cut. */
static void check_session(const struct snib__pg_session *s)
{
    const struct conn *k = (const void *)s->conn.c;
    assert_false(s->conn.is.inside);
    assert_true(!k || !k->inside || k->down);
    assert_true(s->conn.c || !s->conn.is.ready);
}

static void check_lease(const struct snib__request *r)
{
    if (r->said.answer == SNIB__DONE &&
        (r->verb == SNIB__ACQUIRE || r->verb == SNIB__RENEW) &&
        !r->renew.only_asks) {
        assert_true(r->said.left.ns <= r->lease.ns);
        assert_true(r->said.valid_from.ns <= w.now);
    }
}

static void tell_session(const struct snib__pg_session *s)
{
    int prepared = 0;
    for (int i = 0; i < SNIB__PG_STATEMENTS; i++) {
        prepared += s->conn.prepared[i];
    }
    tell("up %d ready %d, %d prepared, ahead %lld, %u failures, again at %lld, "
         "%u writes, listens %d, %s",
         s->conn.c != NULL, s->conn.is.ready, prepared,
         (long long)s->conn.is.ahead_us, s->conn.is.failures,
         (long long)s->conn.is.not_before.ns, s->tables.sql.writes,
         s->tables.sql.listens, s->tables.sql.s.notifier);
}

static void exec(int client, struct snib__request **r, int count)
{
    static struct asked asked[CHAIN_MAX];
    struct snib__postgres *inst = clients[client].inst;
    snib__session session = (snib__session)pick("session", SNIB__SESSIONS);
    struct snib__list list;
    snib__list_init(&list);
    for (int i = 0; i < count; i++) {
        prepare(&asked[i], r[i]);
        r[i]->exec.impatient = chance("impatient", 3);
        snib__link_init(&r[i]->link);
        snib__list_push(&list, &r[i]->link);
    }
    tell("client %d asks %d in session %d", client, count, (int)session);
    if (lacks_memory()) {
        snib__mem_fail_at(1 + (int64_t)pick("allocation", 40),
                          chance("for ever", 3));
    }
    errno = 0;
    exec_began.ns = w.now;
    snib__postgres_ops.exec_in(inst, session, (snib_instant){w.now}, &list);
    snib__mem_fail_at(0, false);
    for (int i = 0; i < count; i++) {
        snib__unlink(&r[i]->link);
        finish(&asked[i]);
        check_lease(r[i]);
        assert_true(!inst->address.password ||
                    !strstr(asked[i].error.text, PASSWORD));
    }
    tell_session(&inst->session[session]);
    check_session(&inst->session[session]);
    assert_int_equal(w.results_alive, 0);
}

/* -- hearing --------------------------------------------------------------------- */

static void hear(void)
{
    static const uint32_t rooms[] = {0, 1, 2, 16, 16};
    uint64_t ids[16][2];
    struct snib__server server = {0};
    int i = any_client();
    if (i < 0) {
        return;
    }
    uint32_t most = rooms[pick("room", COUNT_OF(rooms))];
    uint32_t n = snib__postgres_ops.notified(clients[i].inst, ids, most);
    tell("client %d hears %d at %s", i, (int)n,
         fd_text(snib__postgres_ops.notifier_fd(clients[i].inst)));
    assert_true(n == SNIB__NOTIFIED_ALL || n <= most);
    same_stir((const char *)ids, n <= most ? n * sizeof *ids : 0);
    assert_int_equal(w.notes_alive, 0);
    snib__postgres_ops.server(clients[i].inst, &server);
    tell("server %s %s %s %s, %lld", server.address, server.version,
         server.role, server.run_id, (long long)server.connected.ns);
}

#endif
