/* store/sqlite/files.c — the lock file, its -wal and its -shm are one thing.
 *
 * Clients exclude each other only as long as all of them work in the same
 * three files. A `rm locks.db-wal locks.db-shm` takes nothing from those who
 * have them open, but whoever opens the path next is given new ones, with
 * what the file held at its last checkpoint: two truths, two owners.
 *
 * So every client holds a shared flock on the bells directory for as long as
 * it lives, and that directory keeps a note (a symbolic link to a text that
 * is no path) which says which three files those who live work in.
 *
 *   entering   before SQLite touches anything. Exclusive lock: nobody lives,
 *              so what is on the disk counts. Else the shared one: the files
 *              on the disk must be those of the note; others are refused, in
 *              words, until those who use the old ones have ended.
 *   joining    SQLite has opened them. Look again: they are still there, and
 *              they are ours alone to write. Who entered alone writes the note
 *              and lets others in.
 *   a step     each transaction looks whether the paths still lead to the
 *              files of its client, so that a holder is told, too. That
 *              newcomers are kept out does not hang on it.
 *
 * -wal and -shm are made here where they are missing, not by SQLite: in a
 * directory that others may write to, they could put theirs there between
 * our look and SQLite's open. (A file without a page yet is the exception:
 * SQLite removes such a -wal and makes it anew.) */
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

static const char *const suffix[SNIB__FILES] = {"", "-wal", "-shm"};

static void name_of(const struct snib__place *p, int i, char *ret, size_t size)
{
    snprintf(ret, size, "%s%s", p->base, suffix[i]);
}

/* NULL: it may be used. */
const char *snib__files_wrong(const struct snib__place *p,
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

static snib_err fail_wrong(const struct snib__place *p, int i, const char *why,
                           struct snib_error *reterr)
{
    return snib__fail(reterr, SNIB_ERR_CONFIG,
                      "lock file %s%s %s: remove it when nobody uses the lock "
                      "file, and use a directory that others cannot write to",
                      p->path, suffix[i], why);
}

/* The three inodes as the paths lead to them; 0: none. */
static snib_err read_disk(const struct snib__place *p, uint64_t ret[],
                          struct snib_error *reterr)
{
    char name[300];
    struct stat st;
    for (int i = 0; i < SNIB__FILES; i++) {
        ret[i] = 0;
        name_of(p, i, name, sizeof name);
        if (fstatat(p->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            const char *why = snib__files_wrong(p, &st);
            if (why) {
                return fail_wrong(p, i, why, reterr);
            }
            ret[i] = st.st_ino;
        } else if (errno != ENOENT) {
            return snib__host_cannot(errno, p->path, reterr,
                                     "lock file %s%s: %s", p->path, suffix[i],
                                     strerror(errno));
        }
    }
    return SNIB_ERR_OK;
}

/* -- the note ---------------------------------------------------------------------- */

static bool read_note(const struct snib__place *p, uint64_t ret[])
{
    char text[80];
    unsigned long long n[SNIB__FILES];
    ssize_t size = readlinkat(p->bells, NOTE, text, sizeof text - 1);
    if (size <= 0) {
        return false;
    }
    text[size] = 0;
    if (sscanf(text, "1:%llu:%llu:%llu", &n[0], &n[1], &n[2]) != SNIB__FILES) {
        return false;
    }
    for (int i = 0; i < SNIB__FILES; i++) {
        ret[i] = n[i];
    }
    return true;
}

static bool write_note(const struct snib__place *p)
{
    char text[80], fresh[40];
    snprintf(text, sizeof text, "1:%llu:%llu:%llu",
             (unsigned long long)p->file[0], (unsigned long long)p->file[1],
             (unsigned long long)p->file[2]);
    snprintf(fresh, sizeof fresh, NOTE ".%ld", (long)getpid());
    unlinkat(p->bells, fresh, 0);
    return symlinkat(text, p->bells, fresh) == 0 &&
           renameat(p->bells, fresh, p->bells, NOTE) == 0;
}

/* Which of the three is another one; -1: none. */
static int differs(const uint64_t a[], const uint64_t b[])
{
    for (int i = 0; i < SNIB__FILES; i++) {
        if (a[i] != b[i]) {
            return i;
        }
    }
    return -1;
}

/* -- entering ---------------------------------------------------------------------- */

/* " (process 4312)", or nothing. */
static void say_user(const struct snib__place *p, char *ret, size_t size)
{
    char who[SNIB__WHO];
    ret[0] = 0;
    if (snib__host_user_of(p->bells, who)) {
        snprintf(ret, size, " (%s)", who);
    }
}

static snib_err fail_replaced(const struct snib__place *p, int i,
                              struct snib_error *reterr)
{
    char who[SNIB__WHO + 3];
    say_user(p, who, sizeof who);
    return snib__fail(reterr, SNIB_ERR_CONFIG,
                      "lock file %s: %s was removed or replaced while others%s "
                      "use it, and what they hold cannot be seen any more; it "
                      "can be used again once they have ended",
                      p->path, i == 0 ? "it" : suffix[i] + 1, who);
}

/* Without a page yet, or not there at all. */
static snib_err is_empty(const struct snib__place *p, bool *ret,
                         struct snib_error *reterr)
{
    struct stat st;
    int rc = fstatat(p->dir, p->base, &st, 0);
    *ret = rc != 0 || st.st_size == 0;
    return !rc || errno == ENOENT
               ? SNIB_ERR_OK
               : snib__host_cannot(errno, p->path, reterr, "lock file %s: %s",
                                   p->path, strerror(errno));
}

/* Nobody has the directory locked, and somebody has the file: the directory was
 * removed and made anew, or he is just being ended. */
static snib_err is_left_locked(const struct snib__place *p, bool *ret,
                               struct snib_error *reterr)
{
    uint64_t note[SNIB__FILES];
    bool empty = true;
    int64_t pid = 0;
    snib_err err =
        read_note(p, note) ? SNIB_ERR_OK : is_empty(p, &empty, reterr);
    if (!err && !empty) {
        err = snib__host_locked(p->path, &pid, reterr);
    }
    *ret = pid != 0;
    return err;
}

static snib_err make_missing(struct snib__place *p, struct snib_error *reterr)
{
    uint64_t disk[SNIB__FILES];
    char name[300];
    bool left = false, empty = true;
    snib_err err = read_disk(p, disk, reterr);
    if (!err) {
        err = is_left_locked(p, &left, reterr);
    }
    if (!err) {
        err = left ? fail_replaced(p, 1, reterr) : is_empty(p, &empty, reterr);
    }
    if (err) {
        return err;
    }
    for (int i = 1; i < SNIB__FILES; i++) {
        if (disk[i] || (empty && i == 1)) {
            continue;
        }
        name_of(p, i, name, sizeof name);
        if (!snib__place_make(p, p->dir, name, S_IFREG)) {
            return snib__host_cannot(
                errno, p->path, reterr,
                "cannot make %s%s: %s; use --store sqlite:PATH", p->path,
                suffix[i], strerror(errno));
        }
    }
    return SNIB_ERR_OK;
}

/* Somebody lives, and the note is not there: it was removed, or who made the
 * files died before he wrote it. Those that others have open are the files that
 * are meant; -1. */
static snib_err without_note(const struct snib__place *p, const uint64_t disk[],
                             int *ret, struct snib_error *reterr)
{
    int64_t pid = 0;
    for (*ret = 0; *ret < SNIB__FILES; (*ret)++) {
        if (!disk[*ret]) {
            return SNIB_ERR_OK;
        }
    }
    snib_err err = snib__host_locked(p->path, &pid, reterr);
    *ret = pid ? -1 : 0;
    return err;
}

static void pause_for(long us)
{
    struct timespec t = {.tv_nsec = us * 1000};
    nanosleep(&t, NULL);
}

/* Half a millisecond, and not all at once. */
static void pause_between(int looks)
{
    pause_for(200 + (looks + getpid()) % 7 * 100);
}

/* What the looks of somebody who wants to enter have shown. */
struct looks {
    int count;  /* since nobody was alone                                   */
    int sure;   /* so often in a row, without a note, the files were in use */
    int wrong;  /* which file it is not; -1: none                           */
    bool noted; /* there was a note                                         */
};

/* Looks, half a millisecond apart. LOOKS: before it is said that the files are not
 * those of the note; another newcomer may have been what was seen living. Without
 * a note nothing is believed at once: who is killed lets go of the directory
 * before he lets go of the file, and who has just come in may be about to open
 * the files, and to write it. SURE: before it is believed that others have the
 * files open, UNNOTED: that nobody has. */
enum { LOOKS = 50, SURE = 20, UNNOTED = 500 };

/* Others are there, and nobody is alone: the directory is locked with them.
 * *ret_in: entered. Else it is let go, and another look is due; one that takes
 * long is made without the lock, which would keep others from being alone. */
static snib_err enter_beside(struct snib__place *p, struct looks *l,
                             bool *ret_in, struct snib_error *reterr)
{
    uint64_t disk[SNIB__FILES], note[SNIB__FILES];
    snib_err err = read_disk(p, disk, reterr);
    l->noted = read_note(p, note);
    l->wrong = l->noted ? differs(disk, note) : -1;
    *ret_in = !err && l->wrong < 0 && (l->noted || l->sure >= SURE);
    if (*ret_in) {
        return SNIB_ERR_OK;
    }
    snib__files_leave(p);
    if (err) {
        return err;
    }
    if (!l->noted) {
        err = without_note(p, disk, &l->wrong, reterr);
        if (err) {
            return err;
        }
    }
    l->sure = l->wrong < 0 ? l->sure + 1 : 0;
    return l->wrong >= 0 && l->count >= (l->noted ? LOOKS : UNNOTED)
               ? fail_replaced(p, l->wrong, reterr)
               : SNIB_ERR_OK;
}

static snib_err fail_opening(const struct snib__place *p, const struct looks *l,
                             struct snib_error *reterr)
{
    char who[SNIB__WHO + 3];
    if (!l->noted) {
        return fail_replaced(p, l->wrong < 0 ? 0 : l->wrong, reterr);
    }
    say_user(p, who, sizeof who);
    return snib__fail(reterr, SNIB_ERR_STORE,
                      "lock file %s: another process%s is opening it and does "
                      "not come to an end",
                      p->path, who);
}

/* Others have the lock; else it cannot be had at all. */
static bool is_taken(int e)
{
    return e == EWOULDBLOCK || e == EINTR;
}

static snib_err fail_flock(const struct snib__place *p,
                           struct snib_error *reterr)
{
    return snib__host_cannot(errno, p->bells_path, reterr, "%s: flock: %s",
                             p->bells_path, strerror(errno));
}

snib_err snib__files_enter(struct snib__place *p, snib_instant until,
                           struct snib_error *reterr)
{
    for (struct looks l = {.noted = true};; l.count++) {
        bool left = false;
        p->alone = flock(p->bells, LOCK_EX | LOCK_NB) == 0;
        if (p->alone && l.count < UNNOTED) {
            snib_err err = is_left_locked(p, &left, reterr);
            if (err) {
                return err;
            }
        }
        if (p->alone && !left) {
            return make_missing(p, reterr);
        }
        if (p->alone) {
            snib__files_leave(p);
            l.noted = false;
        } else if (!is_taken(errno)) {
            return fail_flock(p, reterr);
        } else if (flock(p->bells, LOCK_SH | LOCK_NB) == 0) {
            bool in;
            snib_err err = enter_beside(p, &l, &in, reterr);
            if (err || in) {
                return err;
            }
        } else if (!is_taken(errno)) {
            return fail_flock(p, reterr);
        } else {
            l.count = 0;
            l.noted = true;
        }
        if (snib__reached(snib__host_now(), until)) {
            return fail_opening(p, &l, reterr);
        }
        pause_between(l.count);
    }
}

void snib__files_leave(struct snib__place *p)
{
    flock(p->bells, LOCK_UN);
    p->alone = false;
}

/* -- joining ----------------------------------------------------------------------- */

snib_err snib__files_join(struct snib__place *p, snib_instant until,
                          struct snib_error *reterr)
{
    uint64_t note[SNIB__FILES];
    snib_err err = read_disk(p, p->file, reterr);
    if (err) {
        return err;
    }
    bool known = read_note(p, note);
    int i = known ? differs(p->file, note) : 0;
    if (!p->file[0] || !p->file[1] || !p->file[2]) {
        return fail_replaced(p, !p->file[0] ? 0 : !p->file[1] ? 1 : 2, reterr);
    }
    if (known && i >= 0 && !p->alone) {
        return fail_replaced(p, i, reterr);
    }
    if (i >= 0 && !write_note(p)) {
        return snib__host_cannot(errno, p->bells_path, reterr, "%s: %s",
                                 p->bells_path, strerror(errno));
    }
    if (!p->alone) {
        return SNIB_ERR_OK;
    }
    /* The change of a lock lets go of it for an instant. */
    while (flock(p->bells, LOCK_SH | LOCK_NB)) {
        if (!is_taken(errno)) {
            return fail_flock(p, reterr);
        }
        if (snib__reached(snib__host_now(), until)) {
            return snib__fail(reterr, SNIB_ERR_STORE,
                              "lock file %s: another process is opening it and "
                              "does not come to an end",
                              p->path);
        }
        pause_for(200);
    }
    p->alone = false;
    i = read_note(p, note) ? differs(p->file, note) : 0;
    return i < 0 ? SNIB_ERR_OK : fail_replaced(p, i, reterr);
}

const char *snib__files_moved(const struct snib__place *p)
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
