/* tests/unit/sqlite_probes.h — pieces of the store that unit.sqlite_same asks
 * by themselves, with what seldom comes their way. See sqlite_world.h. */
#ifndef SNIB_TESTS_SQLITE_PROBES_H
#define SNIB_TESTS_SQLITE_PROBES_H

#include "sqlite_moves.h"

static const char *some_file(void)
{
    for (int i = 0; i < 20; i++) {
        const char *path = w.entries[pick("entry", ENTRIES)].path;
        if (strstr(path, ".db")) {
            return path;
        }
    }
    return "/none";
}

static void probe_locks(void)
{
    static const int64_t bytes[] = {0, 119, 120, 121, 125, 128, 129, 130};
    char state = 0;
    const char *path = some_file();
    int64_t byte = bytes[pick("asked", COUNT_OF(bytes))];
    long long pid = snib__host_locker(path, byte, &state);
    tell("%s %d: locked by %lld, %c", path, (int)byte, pid, state);
    struct snib_error e = {0};
    int64_t user = -1;
    snib_err err = snib__host_locked(path, &user, &e);
    tell("%s: used by %lld, %d %s", path, (long long)user, (int)err, e.text);
    int i = any_client();
    if (i >= 0) {
        const struct snib__lockfile *p = &clients[i].inst->lockfile;
        char who[SNIB__WHO] = "untouched";
        bool used = snib__host_user_of(p->notifiers, who);
        tell("bells: used %d by %s", used, who);
    }
}

static void probe_file_systems(void)
{
    static const uint64_t magics[] = {0xef53,     0x58465342,
                                      0x9123683e, 0xf2f52010,
                                      0x2fc12fc1, 0x01021994,
                                      0x794c7630, 0x6969,
                                      0xff534d42, 0xfe534d42,
                                      0x517b,     0x65735546,
                                      0x01021997, 0x00c36400,
                                      0x5346414f, 0x0bd00bd0,
                                      0x786f4256, 0x01161970,
                                      0x7461636f, 0x4d44,
                                      0,          UINT64_C(0xdeadbeef01)};
    static const size_t sizes[] = {1, 5, 12, 24};
    char other[24] = "untouched";
    uint64_t magic = magics[pick("magic", COUNT_OF(magics))];
    const char *name = snib__fs_name(magic, other, sizes[pick("size", 4)]);
    tell("%llx is %s, %s", (unsigned long long)magic, name ? name : "(none)",
         other);
}

static void probe_paths(void)
{
    static const size_t sizes[] = {8, 24, 25, 29, 30, 38, 39, 4096};
    static char path[4096], how[400];
    struct snib_error e = {0};
    size_t size = sizes[pick("size", COUNT_OF(sizes))];
    memset(path, 0, sizeof path);
    snib_err err = snib__sqlite_default_path(path, size, &e);
    tell("default path in %zu: %d %s, %s", size, (int)err, path, e.text);
    e = (struct snib_error){0};
    err = snib__shared_default(path, size, &e);
    tell("and unasked: %d %s, %s", (int)err, path, e.text);
    snib__shared_how(how, chance("short", 3) ? 40 : sizeof how);
    tell("how: %s", how);
    int i = any_client();
    if (i >= 0) {
        const struct snib__lockfile *p = &clients[i].inst->lockfile;
        const char *moved = snib__files_moved(p);
        tell("sole: %d, moved %s", snib__lockfile_is_sole(p),
             moved ? moved : "(none)");
    }
}

static void probe_processes(void)
{
    static const int64_t pids[] = {
        0,    -1,   INT64_C(1) << 31, SELF, 2001,
        2002, 2003, STRANGER,         5,    (INT64_C(1) << 32) + SELF};
    struct snib__host h = some_host();
    int64_t pid = pids[pick("asked", COUNT_OF(pids))];
    const struct process *p = process_of(pid);
    int64_t start = chance("no start", 4) ? 0 : p ? p->start : 300;
    int64_t pidns = chance("no namespace", 5) ? 0 : 77;
    bool gone = snib__host_gone(&h, pid, start + chance("other start", 3),
                                pidns, chance("thorough", 2));
    tell("%lld is gone: %d", (long long)pid, gone);
    int fd = snib__host_pidfd(&h, pid, pidns);
    tell("pidfd %s", fd_text(fd));
    if (fd >= 0) {
        __wrap_close(fd);
    }
}

static void probe_host(void)
{
    struct snib__host h;
    memset(&h, 0xa5, sizeof h);
    snib__host_read(&h);
    tell("host %s, %d %d, %lld %lld %lld", h.boot, h.timens, h.proc,
         (long long)h.pid, (long long)h.start, (long long)h.pidns);
    tell("and %lld %lld %llu, now %lld %lld, wall %lld",
         (long long)h.wall_skew_ms, (long long)h.skew_ns,
         (unsigned long long)h.fs_magic, (long long)snib__host_now().ns,
         (long long)snib__host_lease_now(&h).ns,
         (long long)snib__host_wall_ms(&h));
}

static void probe_errors(void)
{
    struct snib_error e = {0};
    int number = errors_given[pick("asked", COUNT_OF(errors_given))];
    snib_err lacks = snib__host_lacks(number, "it", &e);
    tell("lacks %d: %d %s", number, (int)lacks, e.text);
    snib_err cannot = snib__host_cannot(number, "it", &e, "%s of %d", "one", 3);
    tell("cannot: %d %s", (int)cannot, e.text);
}

static const char *some_address(void)
{
    static const char *const odd[] = {"files", "a/b", "nobody", ".."};
    static char far[108];
    memset(far, 'n', sizeof far - 1);
    for (int i = 0; i < 20; i++) {
        size_t at = pick("entry", ENTRIES);
        const char *slash = strrchr(w.entries[at].path, '/');
        if (slash && S_ISSOCK(w.entries[at].node->mode)) {
            return slash + 1;
        }
    }
    size_t i = pick("address", 5);
    return i < 4 ? odd[i] : far;
}

static void probe_bells(void)
{
    int i = any_client();
    if (i < 0) {
        return;
    }
    struct snib__sqlite *s = clients[i].inst;
    struct snib__notification r = {.size = 64};
    snprintf(r.address, sizeof r.address, "%s", some_address());
    memcpy(r.message, SNIB__NOTIFIER_MAGIC, 8);
    memcpy(r.message + 8, &next_id, sizeof next_id);
    for (int n = (int)pick("rings", 9); n > 0; n--) {
        tell("rings %d",
             (int)snib__notifier_notify(&s->notifier, &s->lockfile, &r));
    }
    tell("tidy: %u left", snib__notifier_tidy(&s->notifier, &s->lockfile,
                                              (uint32_t)pick("most", 4)));
}

static void probe_watches(void)
{
    static const int64_t pids[] = {2001, 2002, 2003, STRANGER, SELF, 0};
    int i = any_client();
    if (i < 0) {
        return;
    }
    struct snib__sqlite *s = clients[i].inst;
    for (int n = (int)pick("watches", 12); n > 0; n--) {
        uint64_t id[2] = {pick("id", 10), pick("second half", 2)};
        if (chance("unwatch", 4)) {
            snib__notifier_unwatch(&s->notifier, id);
        } else {
            snib__notifier_watch(&s->notifier, &s->host, id,
                                 pids[pick("watched", COUNT_OF(pids))],
                                 chance("other", 8) ? 78 : 77);
        }
        tell("watching %u", s->notifier.watching);
    }
    for (int k = 0; k < SNIB__WATCHES; k++) {
        const struct snib__watch *v = &s->notifier.watch[k];
        tell("watch %d: %d %d %d at %s", k, (int)v->request[0],
             (int)v->request[1], (int)v->pid, fd_text(v->fd));
    }
}

/* What the doctor says of rights. */
static void probe_rights(void)
{
    int i = any_client();
    if (i < 0) {
        return;
    }
    struct node *file = node_at(clients[i].inst->lockfile.path);
    struct node *dir = FD(clients[i].inst->lockfile.dir).node;
    if (!file) {
        return;
    }
    const struct node was[] = {*file, *dir};
    file->mode =
        S_IFREG | (mode_t)(chance("plain", 2) ? 0600 : pick("mode", 010000));
    dir->mode = S_IFDIR | (mode_t)pick("mode", 010000);
    file->uid = (uid_t)pick("uid", 3) * 500;
    dir->uid = (uid_t)pick("uid", 3) * 500;
    struct snib__request r = request(SNIB__DOCTOR, -1);
    exec_one(i, &r);
    file->mode = was[0].mode;
    file->uid = was[0].uid;
    dir->mode = was[1].mode;
    dir->uid = was[1].uid;
}

static void probe_broom(void)
{
    int i = any_client();
    if (i >= 0) {
        tell("client %d sweeps", i);
        snib__sqlite_cleaner(clients[i].inst);
    }
}

static void probe(void)
{
    static void (*const probes[])(void) = {
        probe_locks, probe_file_systems, probe_paths,   probe_processes,
        probe_host,  probe_errors,       probe_bells,   probe_watches,
        probe_broom, probe_broom,        probe_watches, probe_bells,
        probe_locks, probe_rights,       probe_rights};
    probes[pick("probe", COUNT_OF(probes))]();
}

#endif
