/* tests/unit/sqlite_store.h — several instances on one file stand for several
 * processes; real ones where a process has to die or stop. */
#ifndef SNIB_TESTS_SQLITE_STORE_H
#define SNIB_TESTS_SQLITE_STORE_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "core/about.h"
#include "kind_cases.h"
#include "store/sqlite/internal.h"

static char dir[64], path[128];
static struct snib__host host; /* as the next peer sees it */

static struct snib__sqlite *self_of(int peer)
{
    return kit.peer[peer].inst;
}

static int fresh_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/snib-sqlite-XXXXXX");
    if (!mkdtemp(dir)) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/locks.db", dir);
    snib__host_read(&host);
    return 0;
}

static int remove_dir(void **state)
{
    char command[100];
    close_peers(state);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static snib_err open_at(struct peer *p, const char *where, struct snib_error *e)
{
    struct snib__url url = {.path = (char *)where};
    struct snib__store_config config = {
        .url = &url,
        .out = &p->out,
        .request = snib__ms(300),
        .client = {p->client[0], p->client[1]},
    };
    return snib__sqlite_open_on(&config, &host, &p->inst, e);
}

static void *open_file(struct peer *p)
{
    struct snib_error e = {0};
    if (open_at(p, path, &e)) {
        print_error("open: %s\n", e.text);
    }
    return p->inst;
}

static void advance(int64_t ms)
{
    host.skew_ns += ms * 1000000;
    for (int i = 0; i < PEERS; i++) {
        if (kit.peer[i].inst) {
            self_of(i)->host.skew_ns = host.skew_ns;
        }
    }
}

static snib_instant lease_now(int peer)
{
    return snib__host_lease_now(&self_of(peer)->host);
}

static void sql(const char *text)
{
    sqlite3 *db;
    char *why = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 2000);
    if (sqlite3_exec(db, text, NULL, NULL, &why)) {
        print_error("%s: %s\n", text, why);
        fail();
    }
    sqlite3_close(db);
}

static void refused(const char *where, snib_err err, const char *word)
{
    struct peer p = {.client = {1, 2}};
    struct snib_error e = {0};
    assert_int_equal(open_at(&p, where, &e), err);
    assert_null(p.inst);
    if (!strstr(e.text, word)) {
        print_error("\"%s\" does not say \"%s\"\n", e.text, word);
        fail();
    }
}

static void set_kit(void)
{
    kit.ops = &snib__sqlite_ops;
    kit.open = open_file;
    kit.advance = advance;
    kit.now = lease_now;
}

#undef CASE
#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh_dir, remove_dir)

#endif
