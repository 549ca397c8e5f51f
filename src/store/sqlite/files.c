/* store/sqlite/files.c — the lock file, its -wal and its -shm are one thing.
 *
 * Clients exclude each other only as long as all of them work in the same three
 * files. A `rm locks.db-wal locks.db-shm` takes nothing from the clients that
 * have them open. But a client that opens the path next is given new ones, with
 * what the file held at its last checkpoint: two truths, two owners.
 *
 * So every client holds a shared flock on the -bells directory for as long as
 * it lives. That directory keeps a note (a symbolic link to a text that is no
 * path). The note says which three files the living clients work in, and which
 * directory it belongs to.
 *
 *  seeing     Read the inodes that the four paths lead to. All that follows
 *             compares such fours.
 *  entering   Before SQLite touches anything. A client that gets the exclusive
 *             flock is alone: what is on the disk counts. Any other gets the
 *             shared flock: the files on the disk must be those of the note.
 *             If they are not, it is refused, in words, until the clients of
 *             the old files have ended.
 *  joining    SQLite has opened the files. What is seen now must be what was
 *             seen at entering, since SQLite may have made new ones. If the
 *             note does not name these files, it is written: by the client that
 *             entered alone, which then lets others in, or by the first that
 *             finds no note.
 *  a step     Each transaction checks that the paths still lead to the files
 *             of its client, so that a holder is told, too. Newcomers are kept
 *             out without it, but for one case: a link in the path was
 *             switched to another directory, where nothing tells them.
 *
 * Without a note the list of locks (/proc/locks) decides: a client that has the
 * file open has it and its -shm locked all the time.
 *
 *  beside others   Only the note was removed. A client enters if all that have
 *                  the file locked are seen, many times in a row, to have this
 *                  -shm and this directory locked, too.
 *  alone           The directory was removed, too, or replaced by a copy. A
 *                  process that has the file locked lives in the old directory:
 *                  the newcomer is refused as long as there is one.
 *
 * Missing -wal and -shm are made here, not by SQLite: in a directory that
 * others may write to, they could put theirs there between our check and
 * SQLite's open. (A file without a page is the exception: SQLite removes such a
 * -wal and makes it anew.) */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "store/sqlite/seen.h"

/* -- entering -------------------------------------------------------------- */

/* Another process that uses the files, as " (process 4312)"; or "". */
static void files_say_user(const struct snib__lockfile *p, char *ret,
                           size_t size)
{
    char who[SNIB__WHO];
    ret[0] = 0;
    if (snib__host_user_of(p->notifiers, who)) {
        snprintf(ret, size, " (%s)", who);
    }
}

static snib_err files_fail_replaced(const struct snib__lockfile *p, int i,
                                    struct snib_error *reterr)
{
    char who[SNIB__WHO + 3];
    files_say_user(p, who, sizeof who);
    return snib__fail(reterr, SNIB_ERR_CONFIG,
                      "lock file %s: %s was removed or replaced while others%s "
                      "use it, and what they hold cannot be seen any more; it "
                      "can be used again once they have ended",
                      p->path, i == 0 ? "it" : snib__suffix[i] + 1, who);
}

/* This client is alone: it makes what is not there, and what is there counts.
 * The -wal may become another one: SQLite makes it anew if the file has no
 * page, and removes one that was written halfway. */
static snib_err files_enter_alone(struct snib__lockfile *p,
                                  const struct snib__seen_files *before,
                                  struct snib_error *reterr)
{
    char name[300];
    struct snib__seen_files now;
    for (int i = 1; i < SNIB__FILES; i++) {
        if (before->inode[i] || (before->empty && i == SNIB__WAL)) {
            continue;
        }
        snib__seen_name_of(p, i, name, sizeof name);
        if (!snib__lockfile_make(p, p->dir, name, S_IFREG)) {
            return snib__host_cannot(
                errno, p->path, reterr,
                "cannot make %s%s: %s; name another: sqlite:PATH", p->path,
                snib__suffix[i], snib__lockfile_why(p, errno));
        }
    }
    snib_err err = snib__seen_now(p, &now, reterr);
    memcpy(p->entered, now.inode, sizeof p->entered);
    p->entered[SNIB__WAL] = 0;
    return err;
}

/* Other clients live, and there is no note. The files that all of them have
 * locked are the right ones, if they have this directory locked, too. *ret: the
 * first that is missing at its path or that one of them has not locked; -1:
 * none. SQLite locks no -wal, so that is not asked. */
static snib_err files_unused_of(const struct snib__lockfile *p,
                                const struct snib__seen_files *now, int *ret,
                                struct snib_error *reterr)
{
    static const int which[] = {0, SNIB__SHM, SNIB__NOTIFIERS};
    char shm[4400];
    *ret = snib__seen_missing(now);
    if (*ret >= 0) {
        return SNIB_ERR_OK;
    }
    snprintf(shm, sizeof shm, "%s%s", p->path, snib__suffix[SNIB__SHM]);
    snib_err err =
        snib__host_lockers(p->path, shm, p->notifiers_path, ret, reterr);
    *ret = *ret < 0 ? -1 : which[*ret];
    return err;
}

static void files_pause_for(long us)
{
    struct timespec t = {.tv_nsec = us * 1000};
    nanosleep(&t, NULL);
}

/* Half a millisecond on average; different processes pause differently. */
static void files_pause_between(int looks)
{
    files_pause_for(200 + (looks + getpid()) % 7 * 100);
}

/* What a client that wants to enter has seen so far, look by look. */
struct looks {
    int count;  /* looks since it was last barred for long */
    int barred; /* how many in a row found a client alone */
    int in_use; /* how many in a row: others have these files locked */
    int unused; /* how many in a row: nobody has the file locked */
    int wrong;  /* the file that is a wrong one; -1: none */
    bool noted; /* there was a note */
    struct snib__seen_files at; /* the files that in_use and unused are about */
};

/* How many looks, half a millisecond apart, it takes:
 *
 * NOTED, to say that the files are not those of the note. The client that was
 * seen living may have been another newcomer.
 *
 * IN_USE, to believe without a note that others have the files open, or, alone,
 * that nobody has; UNNOTED, to believe that they have not. One look is not
 * enough: a killed process drops its lock of the directory before that of the
 * file, a client that has just entered may be about to open the files and to
 * write the note, and the kernel's list of locks is read in pieces: if a lock
 * goes meanwhile, another one may be left out.
 *
 * BARRED, to believe that a client that is alone opens the file. (Other
 * newcomers are alone only for an instant.) The count of looks then starts
 * again. */
enum { NOTED = 50, IN_USE = 20, UNNOTED = 500, BARRED = 20 };

/* May this client enter? It has locked the directory, exclusively if p->alone;
 * `now` is what it sees. */
static bool files_may_enter(const struct snib__lockfile *p, struct looks *l,
                            const struct snib__seen_files *now)
{
    uint64_t note[SNIB__SEEN];
    if (snib__seen_differs(now, l->at.inode) >= 0) {
        l->in_use = 0;
        l->unused = 0;
    }
    l->at = *now;
    l->noted = snib__note_read(p, now, note);
    if (p->alone) {
        return l->noted || now->empty || l->unused >= IN_USE;
    }
    l->wrong = l->noted ? snib__seen_differs(now, note) : -1;
    return l->wrong < 0 && (l->noted || l->in_use >= IN_USE);
}

/* Ask the list of locks. The directory is not locked meanwhile: this takes
 * long, and our lock would keep others from being alone, or look like a client
 * that is alone. */
static snib_err files_ask_locks(const struct snib__lockfile *p, struct looks *l,
                                bool was_alone, struct snib_error *reterr)
{
    int64_t pid = 0;
    snib_err err;
    if (was_alone) {
        err = snib__host_locked(p->path, &pid, reterr);
        l->unused = !err && !pid ? l->unused + 1 : 0;
        l->in_use = 0;
        l->wrong = pid ? SNIB__NOTIFIERS : -1;
    } else {
        err = files_unused_of(p, &l->at, &l->wrong, reterr);
        l->in_use = !err && l->wrong < 0 ? l->in_use + 1 : 0;
    }
    return err;
}

/* What a failed flock means. OK: another process has a lock that keeps us
 * out. */
static snib_err files_fail_flock(const struct snib__lockfile *p,
                                 struct snib_error *reterr)
{
    return errno == EWOULDBLOCK || errno == EINTR
               ? SNIB_ERR_OK
               : snib__host_cannot(errno, p->notifiers_path, reterr,
                                   "%s: flock: %s", p->notifiers_path,
                                   strerror(errno));
}

/* Take the exclusive flock (p->alone), or else the shared one. *ret false:
 * neither, since another client is alone. */
static snib_err files_lock_notifiers(struct snib__lockfile *p, bool *ret,
                                     struct snib_error *reterr)
{
    snib_err err = SNIB_ERR_OK;
    p->alone = flock(p->notifiers, LOCK_EX | LOCK_NB) == 0;
    *ret = p->alone;
    if (!*ret) {
        err = files_fail_flock(p, reterr);
    }
    if (!*ret && !err) {
        *ret = flock(p->notifiers, LOCK_SH | LOCK_NB) == 0;
        err = *ret ? SNIB_ERR_OK : files_fail_flock(p, reterr);
    }
    return err;
}

/* Is the locked directory still the one at the path? */
static bool files_is_at_path(const struct snib__lockfile *p,
                             const struct snib__seen_files *now)
{
    struct stat st;
    return fstat(p->notifiers, &st) == 0 &&
           st.st_ino == now->inode[SNIB__NOTIFIERS];
}

static snib_err files_open_again(struct snib__lockfile *p,
                                 struct snib_error *reterr)
{
    close(p->notifiers);
    p->notifiers = -1;
    return snib__lockfile_notifiers(p, reterr);
}

/* One look. *ret: entered. Else the directory is unlocked, and another look is
 * due. */
static snib_err files_look(struct snib__lockfile *p, struct looks *l, bool *ret,
                           struct snib_error *reterr)
{
    struct snib__seen_files now;
    snib_err err = files_lock_notifiers(p, ret, reterr);
    if (err || !*ret) {
        l->count = ++l->barred >= BARRED ? 0 : l->count;
        return err;
    }
    l->barred = 0;
    l->count++;
    err = snib__seen_now(p, &now, reterr);
    bool there = !err && files_is_at_path(p, &now);
    *ret = there && files_may_enter(p, l, &now);
    if (*ret && p->alone) {
        return files_enter_alone(p, &now, reterr);
    }
    if (*ret) {
        memcpy(p->entered, now.inode, sizeof p->entered);
        return SNIB_ERR_OK;
    }
    bool was_alone = p->alone;
    snib__files_leave(p);
    if (err || !there) {
        return err ? err : files_open_again(p, reterr);
    }
    if (!l->noted) {
        err = files_ask_locks(p, l, was_alone, reterr);
    }
    return err ? err
           : l->wrong >= 0 && l->count >= (l->noted ? NOTED : UNNOTED)
               ? files_fail_replaced(p, l->wrong, reterr)
               : SNIB_ERR_OK;
}

static snib_err files_fail_opening(const struct snib__lockfile *p,
                                   struct snib_error *reterr)
{
    char who[SNIB__WHO + 3];
    files_say_user(p, who, sizeof who);
    return snib__fail(reterr, SNIB_ERR_STORE,
                      "lock file %s: another process%s is opening it and does "
                      "not come to an end",
                      p->path, who);
}

snib_err snib__files_enter(struct snib__lockfile *p, snib_instant until,
                           struct snib_error *reterr)
{
    struct looks l = {.wrong = -1};
    for (;;) {
        bool in;
        snib_err err = files_look(p, &l, &in, reterr);
        if (err || in) {
            return err;
        }
        if (snib__reached(snib__host_now(), until)) {
            return l.wrong >= 0 && l.barred < BARRED
                       ? files_fail_replaced(p, l.wrong, reterr)
                       : files_fail_opening(p, reterr);
        }
        files_pause_between(l.count + l.barred);
    }
}

void snib__files_leave(struct snib__lockfile *p)
{
    flock(p->notifiers, LOCK_UN);
    p->alone = false;
}

/* -- joining --------------------------------------------------------------- */

/* No other client lives, so the caller only has to open again. */
static snib_err files_fail_meanwhile(const struct snib__lockfile *p, int i,
                                     struct snib_error *reterr)
{
    return snib__fail(reterr, SNIB_ERR_STORE,
                      "%s%slock file %s was removed or replaced while it was "
                      "being opened; try again",
                      i ? snib__suffix[i] + 1 : "", i ? " of " : "", p->path);
}

/* Make sure that the note names these files. */
static snib_err files_note_them(const struct snib__lockfile *p,
                                const struct snib__seen_files *now,
                                struct snib_error *reterr)
{
    uint64_t note[SNIB__SEEN];
    bool noted = snib__note_read(p, now, note);
    bool whole =
        noted && note[SNIB__NOTIFIERS] && snib__seen_differs(now, note) < 0;
    if (p->alone ? !whole : !noted) {
        if (!snib__note_write(p, now)) {
            return snib__host_cannot(errno, p->notifiers_path, reterr, "%s: %s",
                                     p->notifiers_path, strerror(errno));
        }
        /* Another client may have been faster. */
        noted = snib__note_read(p, now, note);
    }
    int i = noted ? snib__seen_differs(now, note) : SNIB__NOTIFIERS;
    return i < 0 ? SNIB_ERR_OK : files_fail_replaced(p, i, reterr);
}

/* Is what is seen now what was entered, and is nothing missing? */
static snib_err files_see_entered(const struct snib__lockfile *p,
                                  struct snib__seen_files *ret,
                                  struct snib_error *reterr)
{
    snib_err err = snib__seen_now(p, ret, reterr);
    if (err) {
        return err;
    }
    int i = snib__seen_missing(ret);
    i = i >= 0 ? i : snib__seen_differs(ret, p->entered);
    return i < 0      ? SNIB_ERR_OK
           : p->alone ? files_fail_meanwhile(p, i, reterr)
                      : files_fail_replaced(p, i, reterr);
}

snib_err snib__files_still(const struct snib__lockfile *p,
                           struct snib_error *reterr)
{
    struct snib__seen_files now;
    return files_see_entered(p, &now, reterr);
}

snib_err snib__files_join(struct snib__lockfile *p, snib_instant until,
                          struct snib_error *reterr)
{
    uint64_t note[SNIB__SEEN];
    struct snib__seen_files now;
    int i;
    snib_err err = files_see_entered(p, &now, reterr);
    err = err ? err : files_note_them(p, &now, reterr);
    if (err) {
        return err;
    }
    memcpy(p->file, now.inode, sizeof p->file);
    if (!p->alone) {
        return SNIB_ERR_OK;
    }
    /* flock() drops the old lock for an instant while it changes it. */
    while (flock(p->notifiers, LOCK_SH | LOCK_NB)) {
        err = files_fail_flock(p, reterr);
        if (err || snib__reached(snib__host_now(), until)) {
            return err ? err : files_fail_opening(p, reterr);
        }
        files_pause_for(200);
    }
    p->alone = false;
    i = snib__note_read(p, &now, note) ? snib__seen_differs(&now, note)
                                       : SNIB__NOTIFIERS;
    return i < 0 ? SNIB_ERR_OK : files_fail_replaced(p, i, reterr);
}

const char *snib__files_moved(const struct snib__lockfile *p)
{
    char path[4400];
    struct stat st;
    size_t size = strlen(p->path);
    if (!p->file[0]) {
        return NULL; /* not joined yet */
    }
    if (!snib__host_leads_to(p->given, p->dir)) {
        return snib__suffix[0];
    }
    if (size + 8 > sizeof path) {
        return NULL;
    }
    memcpy(path, p->path, size);
    for (int i = 0; i < SNIB__FILES; i++) {
        memcpy(path + size, snib__suffix[i], strlen(snib__suffix[i]) + 1);
        if (stat(path, &st) || st.st_ino != p->file[i]) {
            return snib__suffix[i];
        }
    }
    return NULL;
}
