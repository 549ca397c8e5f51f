/* tests/unit/sqlite_moves.h — the clients of unit.sqlite_same come and go, and
 * their process forks. See sqlite_world.h. */
#ifndef SNIB_TESTS_SQLITE_MOVES_H
#define SNIB_TESTS_SQLITE_MOVES_H

#include "sqlite_strangers.h"

/* -- clients come and go ------------------------------------------------------------------------ */

static const char *some_path(void)
{
    static char far[2][260], *made;
    static const char *const paths[] = {"/v/locks.db",
                                        "",
                                        "/v/link/locks.db",
                                        "/v/other.db",
                                        "/v/",
                                        "/v/.",
                                        "/v/..",
                                        "/none/x.db",
                                        "locks.db",
                                        "/top.db",
                                        "/home/anna/.local/state/snib/locks.db",
                                        "/var/lib/snib/locks.db",
                                        "/var/lib/snib/shared/locks.db",
                                        NULL};
    size_t i = pick("path", COUNT_OF(paths) + 2);
    if (i >= COUNT_OF(paths)) {
        made = far[i - COUNT_OF(paths)];
        snprintf(made, sizeof far[0], "/v/%0*d",
                 200 + (int)(i - COUNT_OF(paths)), 7);
        return made;
    }
    return paths[i];
}

static struct snib__host some_host(void)
{
    static const int64_t pids[] = {SELF, SELF, SELF, 2001, 2002};
    static const uint32_t magics[] = {0xef53, 0x6969, 0x65735546, 0x01021994,
                                      0x12345678};
    struct snib__host h = {.proc = true, .pid = pids[pick("pid", 5)]};
    const struct process *p = process_of(h.pid);
    snprintf(h.boot, sizeof h.boot, "%s",
             chance("no boot id", 40)      ? ""
             : chance("short boot id", 40) ? "b"
             : chance("other boot id", 12) ? "b007b"
                                           : "b007a");
    h.timens = chance("time namespace", 40);
    h.start = chance("odd start", 6) ? (int64_t)pick("start", 4) - 1
              : p                    ? p->start
                                     : 5;
    h.pidns = chance("no pid namespace", 10)      ? 0
              : chance("other pid namespace", 10) ? 78
                                                  : w.pidns;
    h.fs_magic = chance("magic", 25) ? magics[pick("magic", 5)] : 0;
    h.skew_ns = chance("skew", 10) ? 40 * MS : 0;
    h.wall_skew_ms = chance("wall skew", 10) ? -90000 : 0;
    return h;
}

static snib_err open_one(struct client *c, const char *path,
                         struct snib_error *e)
{
    struct snib__url url = {.path = (char *)path};
    struct snib__store_config config = {
        .url = &url,
        .out = &c->out,
        .request = snib__ms(chance("patient", 3) ? 9000 : 300),
        .client = {c->id[0], c->id[1]},
    };
    static char host[] = "h", key[] = "k";
    void *inst = NULL;
    snib_err err;
    url.host = chance("a host", 60) ? host : NULL;
    url.user = chance("a user", 60) ? host : NULL;
    url.queries = chance("queries", 60);
    url.query[0].key = key;
    if (chance("reads the host", 6)) {
        err = snib__sqlite_ops.open(&config, &inst, e);
    } else {
        struct snib__host h = some_host();
        err = snib__sqlite_open_on(&config, &h, &inst, e);
    }
    assert_true((err == SNIB_ERR_OK) == (inst != NULL));
    c->inst = inst;
    return err;
}

static void tell_instance(const struct snib__sqlite *s)
{
    tell("at %s, bells %s, shared %d group %d alone %d, on %s",
         s->lockfile.path, s->lockfile.notifiers_path, s->lockfile.shared,
         (int)s->lockfile.group, s->lockfile.alone, s->lockfile.fs);
    tell("host %s %d%d %lld %lld %lld, files %d %d %d, frames %d", s->host.boot,
         s->host.timens, s->host.proc, (long long)s->host.pid,
         (long long)s->host.start, (long long)s->host.pidns,
         (int)s->lockfile.file[0], (int)s->lockfile.file[1],
         (int)s->lockfile.file[2], s->db.frames_max);
    assert_string_equal(s->lockfile.base, strrchr(s->lockfile.path, '/') + 1);
}

static void client_comes(void)
{
    struct client *c = &clients[pick("comes", CLIENTS)];
    struct snib_error e = {0};
    if (c->inst) {
        return;
    }
    draw_id(c->id);
    c->id[0] = 64 * c->id[0] + (chance("sweeps", 8) ? 0 : 7);
    const char *path = chance("elsewhere", 8) ? some_path() : main_path;
    tell("comes to %s", path ? path : "(none)");
    if (lacks_memory()) {
        snib__mem_fail_at(1 + (int64_t)pick("allocation", 8), false);
    }
    errno = 0;
    snib_err err = open_one(c, path, chance("no words", 20) ? NULL : &e);
    snib__mem_fail_at(0, false);
    tell("open: %d %d %s", (int)err, (int)e.code, e.text);
    if (c->inst) {
        tell_instance(c->inst);
    }
}

static void client_goes(int i)
{
    if (clients[i].inst) {
        tell("client %d goes", i);
        snib__sqlite_ops.free(clients[i].inst);
        clients[i].inst = NULL;
    }
    for (int k = 0; k < MINE; k++) {
        mine[k].used = mine[k].used && mine[k].client != i;
    }
}

/* Only what it opens itself is used by a child. */
static void live_as_child(void)
{
    bool inherited[CLIENTS];
    w.pid = SELF + 1;
    fork_in_child();
    tell("is the child");
    stranger_leaves();
    for (int i = 0; i < CLIENTS; i++) {
        if (chance("goes at once", 2)) {
            client_goes(i);
        }
        inherited[i] = clients[i].inst != NULL;
    }
    client_comes();
    for (int i = 0; i < CLIENTS; i++) {
        if (inherited[i]) {
            client_goes(i);
        }
    }
}

static void process_forks(void)
{
    if (!fork_begins || w.pid != SELF) {
        return;
    }
    bool inside = chance("inside", 3);
    tell("forks");
    if (inside) {
        snib__forked_in();
    }
    fork_begins();
    if (chance("child", 2)) {
        live_as_child();
        return;
    }
    fork_is_over();
    if (inside) {
        snib__forked_out();
    }
}

#endif
