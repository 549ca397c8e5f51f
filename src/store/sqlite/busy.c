/* store/sqlite/busy.c — who is in the way of a write, and whether that one stands
 * still.
 *
 * Who cannot have the write lock looks, at the end of each try, which process has
 * it. That may be one that does thousands of short writes and happens to be
 * inside one: nobody must be told to kill it. So a process is said to stand still
 * only when it is stopped, or when look after look, for half a second, the same
 * process had the lock, used no CPU time, and nobody committed anything. When
 * there were commits, that is said; in between it is left open. This process
 * itself (another client in it) is never said to stand still: it is told so. */
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "store/sqlite/internal.h"

#define STILL_MS 500
/* Between two looks further apart than that anything may have happened. */
#define APART_MS 1000

static bool busy_within(snib_instant then, snib_instant now, int64_t ms)
{
    return then.ns && snib__between(then, now).ns <= snib__ms(ms).ns;
}

/* SQLite counts the commits of others as it sees them at each try. */
static uint32_t busy_version(struct snib__db *db)
{
    unsigned version = 0;
    if (db->handle) {
        sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_DATA_VERSION,
                             &version);
    }
    return version;
}

/* In WAL mode SQLite's write lock is byte 120 of the -shm file. */
static void busy_look(struct snib__db *db, const char *path, char *ret_state)
{
    char shm[4200];
    struct snib__busy *b = &db->busy, now = {.seen = snib__host_now()};
    snprintf(shm, sizeof shm, "%s-shm", path);
    now.version = busy_version(db);
    now.pid = snib__host_locker(shm, 120, ret_state);
    bool known = now.pid && snib__host_work(now.pid, &now.start, &now.worked);
    bool again = busy_within(b->seen, now.seen, APART_MS);
    bool commits = again && now.version != b->version;
    bool same = again && known && !commits && now.pid == b->pid &&
                now.start == b->start && now.worked == b->worked;
    now.same = same ? b->same : now.seen;
    now.changed = commits ? now.seen : b->changed;
    *b = now;
}

/* Since when, in ms, has nothing moved in that process? 0: it may have. A process
 * that waits for a processor (R) does not stand still. */
static int64_t busy_still_ms(const struct snib__busy *b, char state)
{
    int64_t ms = snib__between(b->same, b->seen).ns / 1000000;
    return b->pid && state != 'R' && ms >= STILL_MS ? ms : 0;
}

snib_err snib__busy_fail(struct snib__db *db, int rc, const char *path,
                         struct snib_error *reterr)
{
    char state = '?';
    busy_look(db, path, &state);
    const struct snib__busy *b = &db->busy;
    long long pid = b->pid, still = busy_still_ms(b, state);
    if (pid == getpid()) {
        return snib__fail(reterr, SNIB_ERR_STORE,
                          "lock file %s: another client of this process is "
                          "inside a write of it; use one client for all, or "
                          "several files",
                          path);
    }
    if (pid && state == 'T') {
        return snib__fail(reterr, SNIB_ERR_STORE,
                          "lock file %s: process %lld (stopped) stands still "
                          "inside a write; continue or kill it",
                          path, pid);
    }
    if (still) {
        return snib__fail(reterr, SNIB_ERR_STORE,
                          "lock file %s: process %lld (%s) stands still inside "
                          "a write, for %lld ms; %s",
                          path, pid,
                          state == 'D' ? "waits for the disk" : "not stopped",
                          still,
                          state == 'D' ? "look at the disk below it (dmesg)"
                                       : "continue or kill it");
    }
    if (busy_within(b->changed, b->seen, STILL_MS)) {
        return snib__fail(reterr, SNIB_ERR_STORE,
                          "lock file %s: many writes go on, and this one did "
                          "not get its turn; wait longer, or use several files",
                          path);
    }
    if (pid) {
        return snib__fail(reterr, SNIB_ERR_STORE,
                          "lock file %s: process %lld is inside a write; "
                          "whether it stands still is not known yet",
                          path, pid);
    }
    return snib__fail(reterr, SNIB_ERR_STORE,
                      "lock file %s: another process was writing at each try "
                      "(SQLite code %d)",
                      path, rc);
}
