/* store/sqlite/files.c — the lock file, its -wal and its -shm are one thing.
 *
 * Clients exclude each other only as long as all of them work in the same
 * three files. A `rm locks.db-wal locks.db-shm` takes nothing from those who
 * have them open, but whoever opens the path next is given new ones, with
 * what the file held at its last checkpoint: two truths, two owners.
 *
 * So every client holds a shared flock on the bells directory for as long as
 * it lives, and that directory keeps a note (a symbolic link to a text that
 * is no path) which says which three files those who live work in, and of
 * which directory it is the note.
 *
 *   seeing     the inodes that the four paths lead to. All that follows
 *              compares such fours.
 *   entering   before SQLite touches anything. Exclusive lock: nobody lives,
 *              so what is on the disk counts. Else the shared one: the files
 *              on the disk must be those of the note; others are refused, in
 *              words, until those who use the old ones have ended.
 *   joining    SQLite has opened them. What is seen now must be what was seen
 *              at entering, or SQLite may have made new ones. Where the note
 *              is not that of these files it is written: by who entered alone
 *              (then he lets others in), or by the first to find none.
 *   a step     each transaction looks whether the paths still lead to the
 *              files of its client, so that a holder is told, too. That
 *              newcomers are kept out does not hang on it.
 *
 * Without a note the list of locks (/proc/locks) decides: those who have the
 * file open have it and its -shm locked as long as they do.
 *
 *   beside others   the note alone was removed. One enters where all who have
 *                   the file locked are seen to have this -shm and this
 *                   directory locked, too, look after look.
 *   alone           the directory was removed, too, or replaced by a copy. As
 *                   long as anybody has the file locked he lives in the old
 *                   one: one is refused.
 *
 * -wal and -shm are made here where they are missing, not by SQLite: in a
 * directory that others may write to, they could put theirs there between
 * our look and SQLite's open. (A file without a page is the exception: SQLite
 * removes such a -wal and makes it anew.) */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "store/sqlite/internal.h"

#define NOTE "files"

enum { WAL = 1, SHM = 2, NOTIFIERS = SNIB__FILES };

static const char *const suffix[SNIB__SEEN] = {"", "-wal", "-shm", "-bells"};

static void files_name_of(const struct snib__lockfile *p, int i, char *ret,
                          size_t size)
{
    snprintf(ret, size, "%s%s", p->base, suffix[i]);
}

/* NULL: it may be used. */
const char *snib__files_wrong(const struct snib__lockfile *p,
                              const struct stat *st)
{
    if (S_ISLNK(st->st_mode)) {
        return "is a symbolic link";
    }
    if (!S_ISREG(st->st_mode)) {
        return "is not a regular file";
    }
    if (st->st_nlink > 1) {
        return "has a second hard link";
    }
    if (p->shared) {
        return st->st_gid != p->group ? "is not of its directory's group"
               : (st->st_mode & 0777) != 0660
                   ? "does not have mode 0660, as all in a shared directory"
                   : NULL;
    }
    return st->st_uid != geteuid() ? "belongs to another user" : NULL;
}

static snib_err files_fail_wrong(const struct snib__lockfile *p, int i,
                                 const char *why, struct snib_error *reterr)
{
    return snib__fail(reterr, SNIB_ERR_CONFIG,
                      "lock file %s%s %s: remove it when nobody uses the lock "
                      "file, and use a directory that others cannot write to",
                      p->path, suffix[i], why);
}

/* -- seeing ------------------------------------------------------------------------ */

struct seen {
    uint64_t inode[SNIB__SEEN]; /* 0: nothing is there                        */
    bool empty;                 /* the file has no page                       */
};

static snib_err files_see(const struct snib__lockfile *p, struct seen *ret,
                          struct snib_error *reterr)
{
    char name[300];
    struct stat st;
    *ret = (struct seen){.empty = true};
    for (int i = 0; i < SNIB__SEEN; i++) {
        files_name_of(p, i, name, sizeof name);
        if (fstatat(p->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            const char *why =
                i < SNIB__FILES ? snib__files_wrong(p, &st) : NULL;
            if (why) {
                return files_fail_wrong(p, i, why, reterr);
            }
            ret->inode[i] = st.st_ino;
            ret->empty = i == 0 ? st.st_size == 0 : ret->empty;
        } else if (errno != ENOENT) {
            return snib__host_cannot(errno, p->path, reterr,
                                     "lock file %s%s: %s", p->path, suffix[i],
                                     strerror(errno));
        }
    }
    return SNIB_ERR_OK;
}

/* Which of the three is not there; -1: none. */
static int files_missing(const struct seen *now)
{
    for (int i = 0; i < SNIB__FILES; i++) {
        if (!now->inode[i]) {
            return i;
        }
    }
    return -1;
}

/* Which is another one than was known; 0 there: it may be any. -1: none. */
static int files_differs(const struct seen *now, const uint64_t known[])
{
    for (int i = 0; i < SNIB__SEEN; i++) {
        if (known[i] && now->inode[i] != known[i]) {
            return i;
        }
    }
    return -1;
}

/* -- the note ---------------------------------------------------------------------- */

/* False: there is none, or it is of another directory (this one is a copy).
 * Older ones do not say of which, which leaves a 0. */
static bool files_read_note(const struct snib__lockfile *p,
                            const struct seen *now, uint64_t ret[])
{
    char text[100];
    unsigned long long n[SNIB__SEEN] = {0};
    ssize_t size = readlinkat(p->notifiers, NOTE, text, sizeof text - 1);
    if (size <= 0) {
        return false;
    }
    text[size] = 0;
    if (sscanf(text, "1:%llu:%llu:%llu:%llu", &n[0], &n[WAL], &n[SHM],
               &n[NOTIFIERS]) < SNIB__FILES) {
        return false;
    }
    for (int i = 0; i < SNIB__SEEN; i++) {
        ret[i] = n[i];
    }
    return n[0] && n[WAL] && n[SHM] &&
           (!n[NOTIFIERS] || n[NOTIFIERS] == now->inode[NOTIFIERS]);
}

/* The old one is removed only by who is alone; nobody else reads it then. Who
 * is killed in between leaves none, and nothing that is held. */
static bool files_write_note(const struct snib__lockfile *p,
                             const struct seen *now)
{
    char text[100];
    snprintf(text, sizeof text, "1:%llu:%llu:%llu:%llu",
             (unsigned long long)now->inode[0],
             (unsigned long long)now->inode[WAL],
             (unsigned long long)now->inode[SHM],
             (unsigned long long)now->inode[NOTIFIERS]);
    if (p->alone && unlinkat(p->notifiers, NOTE, 0) && errno != ENOENT) {
        return false;
    }
    return symlinkat(text, p->notifiers, NOTE) == 0 || errno == EEXIST;
}

/* -- entering ---------------------------------------------------------------------- */

/* " (process 4312)", or nothing. */
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
                      p->path, i == 0 ? "it" : suffix[i] + 1, who);
}

/* Who is alone: what is not there is made, and what is there is what counts.
 * The -wal may become another one: SQLite makes it anew where the file has no
 * page, or gets rid of one that was written halfway. */
static snib_err files_enter_alone(struct snib__lockfile *p,
                                  const struct seen *before,
                                  struct snib_error *reterr)
{
    char name[300];
    struct seen now;
    for (int i = 1; i < SNIB__FILES; i++) {
        if (before->inode[i] || (before->empty && i == WAL)) {
            continue;
        }
        files_name_of(p, i, name, sizeof name);
        if (!snib__lockfile_make(p, p->dir, name, S_IFREG)) {
            return snib__host_cannot(
                errno, p->path, reterr,
                "cannot make %s%s: %s; use --store sqlite:PATH", p->path,
                suffix[i], snib__lockfile_why(p, errno));
        }
    }
    snib_err err = files_see(p, &now, reterr);
    memcpy(p->entered, now.inode, sizeof p->entered);
    p->entered[WAL] = 0;
    return err;
}

/* Somebody lives, and the note is not there. Those that all others have open are
 * the files that are meant, if it is this directory in which they live: *ret is
 * what they have not; -1. SQLite locks no -wal. */
static snib_err files_unused_of(const struct snib__lockfile *p,
                                const struct seen *now, int *ret,
                                struct snib_error *reterr)
{
    static const int which[] = {0, SHM, NOTIFIERS};
    char shm[4400];
    *ret = files_missing(now);
    if (*ret >= 0) {
        return SNIB_ERR_OK;
    }
    snprintf(shm, sizeof shm, "%s%s", p->path, suffix[SHM]);
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

/* Half a millisecond, and not all at once. */
static void files_pause_between(int looks)
{
    files_pause_for(200 + (looks + getpid()) % 7 * 100);
}

/* What the looks of somebody who wants to enter have shown. */
struct looks {
    int count;      /* that saw anything                                      */
    int barred;     /* the last ones: somebody was alone                      */
    int in_use;     /* the last ones: others have these files locked          */
    bool unused;    /* the last one: nobody has the file locked               */
    int wrong;      /* which file it is not; -1: none                         */
    bool noted;     /* there was a note                                       */
    struct seen at; /* what in_use and unused were said of                    */
};

/* Looks, half a millisecond apart. NOTED: before it is said that the files are not
 * those of the note; another newcomer may have been what was seen living. Without
 * a note nothing is believed at once: who is killed lets go of the directory
 * before he lets go of the file, and who has just come in may be about to open
 * the files, and to write it. IN_USE: before it is believed that others have the
 * files open, UNNOTED: that they have not. Other newcomers, too, are alone for an
 * instant; who is for BARRED looks opens the file, and it is looked at anew. */
enum { NOTED = 50, IN_USE = 20, UNNOTED = 500, BARRED = 20 };

/* The directory is locked, and `now` is what is seen. */
static bool files_may_enter(const struct snib__lockfile *p, struct looks *l,
                            const struct seen *now)
{
    uint64_t note[SNIB__SEEN];
    if (files_differs(now, l->at.inode) >= 0) {
        l->in_use = 0;
        l->unused = false;
    }
    l->at = *now;
    l->noted = files_read_note(p, now, note);
    if (p->alone) {
        return l->noted || now->empty || l->unused;
    }
    l->wrong = l->noted ? files_differs(now, note) : -1;
    return l->wrong < 0 && (l->noted || l->in_use >= IN_USE);
}

/* Without the lock, for it takes long, and would keep others from being alone
 * (or be taken for somebody who is). */
static snib_err files_ask_locks(const struct snib__lockfile *p, struct looks *l,
                                bool was_alone, struct snib_error *reterr)
{
    int64_t pid = 0;
    snib_err err;
    if (was_alone) {
        err = snib__host_locked(p->path, &pid, reterr);
        l->unused = !err && !pid;
        l->in_use = 0;
        l->wrong = pid ? NOTIFIERS : -1;
    } else {
        err = files_unused_of(p, &l->at, &l->wrong, reterr);
        l->in_use = !err && l->wrong < 0 ? l->in_use + 1 : 0;
    }
    return err;
}

/* OK: somebody else has it in a way that keeps us out. */
static snib_err files_fail_flock(const struct snib__lockfile *p,
                                 struct snib_error *reterr)
{
    return errno == EWOULDBLOCK || errno == EINTR
               ? SNIB_ERR_OK
               : snib__host_cannot(errno, p->notifiers_path, reterr,
                                   "%s: flock: %s", p->notifiers_path,
                                   strerror(errno));
}

/* The lock of who is alone, or else that of all. False: somebody is alone. */
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

/* Is the locked directory still the one that others find? */
static bool files_is_at_path(const struct snib__lockfile *p,
                             const struct seen *now)
{
    struct stat st;
    return fstat(p->notifiers, &st) == 0 && st.st_ino == now->inode[NOTIFIERS];
}

static snib_err files_open_again(struct snib__lockfile *p,
                                 struct snib_error *reterr)
{
    close(p->notifiers);
    p->notifiers = -1;
    return snib__lockfile_notifiers(p, reterr);
}

/* *ret: entered. Else the directory is let go, and another look is due. */
static snib_err files_look(struct snib__lockfile *p, struct looks *l, bool *ret,
                           struct snib_error *reterr)
{
    struct seen now;
    snib_err err = files_lock_notifiers(p, ret, reterr);
    if (err || !*ret) {
        l->count = ++l->barred >= BARRED ? 0 : l->count;
        return err;
    }
    l->barred = 0;
    l->count++;
    err = files_see(p, &now, reterr);
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

/* -- joining ----------------------------------------------------------------------- */

/* Nobody else was there: it is only to be opened again. */
static snib_err files_fail_meanwhile(const struct snib__lockfile *p, int i,
                                     struct snib_error *reterr)
{
    return snib__fail(reterr, SNIB_ERR_STORE,
                      "%s%slock file %s was removed or replaced while it was "
                      "being opened; try again",
                      i ? suffix[i] + 1 : "", i ? " of " : "", p->path);
}

/* The note is that of these files, or becomes it. */
static snib_err files_note_them(const struct snib__lockfile *p,
                                const struct seen *now,
                                struct snib_error *reterr)
{
    uint64_t note[SNIB__SEEN];
    bool noted = files_read_note(p, now, note);
    bool whole = noted && note[NOTIFIERS] && files_differs(now, note) < 0;
    if (p->alone ? !whole : !noted) {
        if (!files_write_note(p, now)) {
            return snib__host_cannot(errno, p->notifiers_path, reterr, "%s: %s",
                                     p->notifiers_path, strerror(errno));
        }
        noted =
            files_read_note(p, now, note); /* another may have been faster */
    }
    int i = noted ? files_differs(now, note) : NOTIFIERS;
    return i < 0 ? SNIB_ERR_OK : files_fail_replaced(p, i, reterr);
}

/* What is seen now is what was entered, and nothing of it is missing. */
static snib_err files_see_entered(const struct snib__lockfile *p,
                                  struct seen *ret, struct snib_error *reterr)
{
    snib_err err = files_see(p, ret, reterr);
    if (err) {
        return err;
    }
    int i = files_missing(ret);
    i = i >= 0 ? i : files_differs(ret, p->entered);
    return i < 0      ? SNIB_ERR_OK
           : p->alone ? files_fail_meanwhile(p, i, reterr)
                      : files_fail_replaced(p, i, reterr);
}

snib_err snib__files_still(const struct snib__lockfile *p,
                           struct snib_error *reterr)
{
    struct seen now;
    return files_see_entered(p, &now, reterr);
}

snib_err snib__files_join(struct snib__lockfile *p, snib_instant until,
                          struct snib_error *reterr)
{
    uint64_t note[SNIB__SEEN];
    struct seen now;
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
    /* The change of a lock lets go of it for an instant. */
    while (flock(p->notifiers, LOCK_SH | LOCK_NB)) {
        err = files_fail_flock(p, reterr);
        if (err || snib__reached(snib__host_now(), until)) {
            return err ? err : files_fail_opening(p, reterr);
        }
        files_pause_for(200);
    }
    p->alone = false;
    i = files_read_note(p, &now, note) ? files_differs(&now, note) : NOTIFIERS;
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
    if (size + 8 > sizeof path) {
        return NULL;
    }
    memcpy(path, p->path, size);
    for (int i = 0; i < SNIB__FILES; i++) {
        memcpy(path + size, suffix[i], strlen(suffix[i]) + 1);
        if (stat(path, &st) || st.st_ino != p->file[i]) {
            return suffix[i];
        }
    }
    return NULL;
}
