/* tests/unit/sqlite_asked.h — the clients of unit.sqlite_same, and how one of them
 * asks. See sqlite_world.h. */
#ifndef SNIB_TESTS_SQLITE_ASKED_H
#define SNIB_TESTS_SQLITE_ASKED_H

#include "sqlite_library.h"
#include "sqlite_sockets.h"

enum { CLIENTS = 5, NAMES = 4 };

/* What a run has more of than others. */
enum theme { ALL, VALUES, DAMAGE, QUEUES, FILES, WRITERS, THEMES };

static enum theme theme;

#include "store_asks.h"

static struct client {
    struct snib__sqlite *inst;
    struct snib__out out;
    uint64_t id[2];
} clients[CLIENTS];

static bool client_is_open(int client)
{
    return clients[client].inst != NULL;
}

static int some_name(void)
{
    return (int)pick("name", NAMES);
}

static bool may_be_pending(const struct snib__request *r)
{
    return r->exec.blocked ||
           (r->verb >= SNIB__VALUE_GET && r->exec.patience.ns > 0);
}

static struct snib__notifier *notifier_of(int set)
{
    for (int i = 0; i < CLIENTS; i++) {
        if (clients[i].inst && clients[i].inst->notifier.epoll == set) {
            return &clients[i].inst->notifier;
        }
    }
    return NULL;
}

static void exec(int client, struct snib__request **r, int count)
{
    static struct asked asked[CHAIN_MAX];
    struct snib__sqlite *inst = clients[client].inst;
    struct snib__list list;
    snib__list_init(&list);
    for (int i = 0; i < count; i++) {
        prepare(&asked[i], r[i]);
        snib__link_init(&r[i]->link);
        snib__list_push(&list, &r[i]->link);
    }
    tell("client %d asks %d", client, count);
    if (lacks_memory()) {
        snib__mem_fail_at(1 + (int64_t)pick("allocation", 5),
                          chance("for ever", 3));
    }
    errno = 0;
    snib__sqlite_ops.exec(inst, (snib_instant){0}, &list);
    snib__mem_fail_at(0, false);
    assert_true(sqlite3_get_autocommit(inst->db.handle)); /* nothing stays */
    for (sqlite3_stmt *st = NULL;
         (st = sqlite3_next_stmt(inst->db.handle, st));) {
        assert_false(sqlite3_stmt_busy(st));
    }
    for (int i = 0; i < count; i++) {
        snib__unlink(&r[i]->link);
        finish(&asked[i]);
    }
    tell("frames next at %d of %d, %u waits, %u writes, bell %s, %u",
         inst->db.frames_next, inst->db.frames_max, inst->db.waits,
         inst->writes, inst->notifier.name, inst->notifier.watching);
}

#endif
