/* store/sqlite/place.c — which file, and whether it may be trusted.
 *
 * Two processes that mean the same lock must meet in the same file, and
 * nobody else may be able to put another in its place:
 *
 *  - the default path comes from the uid alone (H44);
 *  - the directory is resolved once, the file itself must not be a symbolic
 *    link (its -wal would lie elsewhere) nor have a second hard link (two
 *    names, two -wal files, a broken database);
 *  - it belongs to us: another user could rewrite leases, and could not ring
 *    our bells; or it lies in a shared directory, which root made for a group
 *    (setgid, writable for the group, for nobody else), and then everything in
 *    it is the group's, whoever of it made it, whatever his umask: 0660, 2770;
 *  - it lies on a file system whose locks and clock are this host's.
 *
 * The file is made by mknod, not by open: see internal.h on close(). */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/sqlite/internal.h"

#define REMEDY   "use --store sqlite:PATH"
#define BASE_MAX 200 /* bytes: "-bells" and "-shm" follow          */
#define OF_ROOT  SNIB__SQLITE_OF_ROOT
#define OF_GROUP SNIB__SQLITE_OF_GROUP
#define REMEDY_TWO                                                             \
    "two users need a directory that root made for a group of theirs "         \
    "(install -d -m 2770 -g GROUP DIRECTORY), or a server"

/* -- who shares ---------------------------------------------------------------------- */

static snib_err in_group(gid_t group, bool *ret, struct snib_error *reterr)
{
    int n = getgroups(0, NULL);
    *ret = geteuid() == 0 || getegid() == group;
    if (*ret || n <= 0) {
        return SNIB_ERR_OK;
    }
    gid_t *v = snib__alloc((size_t)n * sizeof *v);
    if (!v) { /* "not in it" could mean another file than others use */
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    n = getgroups(n, v);
    for (int i = 0; i < n; i++) {
        *ret = *ret || v[i] == group;
    }
    snib__free(v);
    return SNIB_ERR_OK;
}

static bool is_shared(const struct stat *dir)
{
    return S_ISDIR(dir->st_mode) && dir->st_uid == 0 &&
           (dir->st_mode & S_ISGID) && (dir->st_mode & S_IWGRP) &&
           !(dir->st_mode & S_IWOTH);
}

/* This user is a member by the database, though not by this process. */
static bool is_listed(const char *user, gid_t group)
{
    char buf[16384];
    struct group gr, *found = NULL;
    if (getgrgid_r(group, &gr, buf, sizeof buf, &found) || !found) {
        return false;
    }
    for (char **m = gr.gr_mem; m && *m; m++) {
        if (strcmp(*m, user) == 0) {
            return true;
        }
    }
    return false;
}

/* The host's shared directory, if there is one for us. *ret false: there is
 * none, and this user has a file of his own. */
static snib_err find_shared(const char *user, bool *ret,
                            struct snib_error *reterr)
{
    struct stat top, dir;
    *ret = false;
    if (lstat(OF_ROOT, &top) || lstat(OF_GROUP, &dir)) {
        return SNIB_ERR_OK;
    }
    bool in;
    snib_err err = in_group(dir.st_gid, &in, reterr);
    if (err) {
        return err;
    }
    if (!in) {
        if (!is_shared(&dir) || !user || !is_listed(user, dir.st_gid)) {
            return SNIB_ERR_OK;
        }
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "the lock file in " OF_GROUP " is shared by a group "
                          "that %s is in, but this process is not: log in "
                          "anew, or " REMEDY,
                          user);
    }
    if (!is_shared(&dir) || !S_ISDIR(top.st_mode) || top.st_uid != 0 ||
        (top.st_mode & 022)) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          OF_GROUP
                          " is not a directory that a group shares "
                          "(mode %04o, uid %ld): " SNIB__SQLITE_MAKE_SHARED,
                          (unsigned)dir.st_mode & 07777, (long)dir.st_uid);
    }
    *ret = true;
    return SNIB_ERR_OK;
}

/* -- which file ---------------------------------------------------------------------- */

/* A file of this user's own; found: his entry in the password database. */
static snib_err own_path(const struct passwd *found, int rc, char *ret,
                         size_t size, struct snib_error *reterr)
{
    int n;
    if (geteuid() == 0) {
        n = snprintf(ret, size, OF_ROOT "/locks.db");
    } else {
        if (!found || !found->pw_dir || found->pw_dir[0] != '/') {
            return snib__host_cannot(
                rc, "the password database", reterr,
                "no home directory for uid %ld in the password "
                "database (%s); " REMEDY,
                (long)geteuid(), rc ? strerror(rc) : "no entry");
        }
        n = snprintf(ret, size, "%s/.local/state/snib/locks.db", found->pw_dir);
    }
    if (n < 0 || (size_t)n >= size) {
        return snib__fail(
            reterr, SNIB_ERR_CONFIG,
            "the path of the default lock file is too long; " REMEDY);
    }
    return SNIB_ERR_OK;
}

/* Whoever uses a file has its bells locked all the time; who only looks, as we
 * do, or is coming in, for an instant. */
static bool is_used(int bells)
{
    enum { LOOKS = 200 };
    const struct timespec pause = {.tv_nsec = 500000};
    for (int i = 0; i < LOOKS; i++) {
        if (flock(bells, LOCK_EX | LOCK_NB) == 0) {
            flock(bells, LOCK_UN); /* a fork's copy would keep it else       */
            return false;
        }
        nanosleep(&pause, NULL);
    }
    return true;
}

/* Those who hold in the own file, from before the group had one, would not be
 * excluded by the group's: they come to their end first. The list of locks, which
 * does not show another pid namespace's, only gives the name. */
static snib_err check_moved(const char *own, struct snib_error *reterr)
{
    char bells[4200], who[40] = "this or another process";
    snprintf(bells, sizeof bells, "%s-bells", own);
    int fd = open(bells, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return snib__host_lacks(errno, bells, reterr); /* else: never made   */
    }
    bool used = is_used(fd);
    int64_t pid = used ? snib__host_user_of(fd) : 0;
    close(fd);
    if (!used) {
        return SNIB_ERR_OK;
    }
    if (pid) {
        snprintf(who, sizeof who, "process %lld", (long long)pid);
    }
    return snib__fail(reterr, SNIB_ERR_CONFIG,
                      "%s still uses the lock file %s, from before the one "
                      "in " OF_GROUP " was made for all of its group: wait "
                      "until it has ended, or end it",
                      who, own);
}

/* This user's entry in the password database; what getpwuid_r returns. Without a
 * descriptor for the first of several sources, the last one's "no entry" counts
 * with libc: so that is believed only where a descriptor can be had. */
static int find_user(struct passwd *pw, char *buf, size_t size,
                     struct passwd **ret)
{
    int rc = getpwuid_r(geteuid(), pw, buf, size, ret);
    if (!rc && !*ret) {
        int fd = open("/", O_PATH | O_CLOEXEC);
        if (fd < 0) {
            return errno;
        }
        close(fd);
    }
    return rc;
}

snib_err snib__sqlite_default_path(char *ret, size_t size,
                                   struct snib_error *reterr)
{
    char buf[4096];
    struct passwd pw, *found = NULL;
    bool shared;
    int rc = 0;
    if (geteuid() != 0) {
        rc = find_user(&pw, buf, sizeof buf, &found);
    }
    snib_err err = find_shared(found ? pw.pw_name : NULL, &shared, reterr);
    if (err || !shared) {
        return err ? err : own_path(found, rc, ret, size, reterr);
    }
    if (rc) {
        err = snib__host_lacks(rc, "the password database", reterr);
    }
    if (!err && !own_path(found, rc, ret, size, NULL)) {
        err = check_moved(ret, reterr);
    }
    snprintf(ret, size, OF_GROUP "/locks.db");
    return err;
}

/* Root makes the directory; where it is there, one only has to be let in. */
void snib__place_how_to_share(char *ret, size_t size)
{
    char buf[16384];
    struct group gr, *found = NULL;
    struct stat dir;
    if (lstat(OF_GROUP, &dir) || !is_shared(&dir)) {
        snprintf(ret, size, "to share%s: " SNIB__SQLITE_MAKE_SHARED,
                 geteuid() == 0 ? "" : ", as root");
        return;
    }
    if (getgrgid_r(dir.st_gid, &gr, buf, sizeof buf, &found) || !found) {
        snprintf(ret, size, "to share: join group %ld, which has " OF_GROUP,
                 (long)dir.st_gid);
        return;
    }
    snprintf(ret, size,
             "to share: join group %s, which has " OF_GROUP
             " (as root: usermod -aG %s USER), and log in anew",
             gr.gr_name, gr.gr_name);
}

bool snib__place_is_sole(const struct snib__place *p)
{
    char standard[4096];
    return !p->shared &&
           !snib__sqlite_default_path(standard, sizeof standard, NULL) &&
           strcmp(p->path, standard) == 0;
}

/* Make the missing directories above the last '/', 0700 each. */
static snib_err make_dirs(char *path, struct snib_error *reterr)
{
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        int rc = mkdir(path, 0700);
        int e = errno;
        if (rc && e != EEXIST) {
            snib_err err = snib__host_cannot(
                e, path, reterr, "cannot make directory %s: %s; " REMEDY, path,
                strerror(e));
            *p = '/';
            return err;
        }
        *p = '/';
    }
    return SNIB_ERR_OK;
}

static snib_err check_fs(struct snib__place *p, const struct snib__host *h,
                         const char *path, struct snib_error *reterr)
{
    struct statfs fs;
    char other[24];
    uint64_t magic = h->fs_magic;
    if (!magic) {
        if (statfs(path, &fs)) {
            return snib__host_cannot(errno, path, reterr,
                                     "cannot ask the file system of %s: %s",
                                     path, strerror(errno));
        }
        magic = (uint64_t)(uint32_t)fs.f_type;
    }
    const char *name = snib__fs_name(magic, other, sizeof other);
    if (!name) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "%s lies on %s: other hosts may share it, and its "
                          "locks and clock are not this host's; put it on a "
                          "local disk, " REMEDY,
                          path, other);
    }
    snprintf(p->fs, sizeof p->fs, "%s", name);
    return SNIB_ERR_OK;
}

static snib_err check_file(struct snib__place *p, const char *base,
                           struct snib_error *reterr)
{
    struct stat st;
    const char *wrong = NULL;
    if (fstatat(p->dir, base, &st, AT_SYMLINK_NOFOLLOW)) {
        return snib__host_cannot(errno, p->path, reterr, "%s: %s; " REMEDY,
                                 p->path, strerror(errno));
    }
    wrong = snib__files_wrong(p, &st);
    if (wrong) {
        /* said below */
    } else if (faccessat(p->dir, base, R_OK | W_OK, AT_EACCESS)) {
        wrong = errno == EROFS ? "is on a read-only file system"
                               : "is not writable";
    } else if (faccessat(p->dir, ".", W_OK | X_OK, AT_EACCESS)) {
        wrong = "is in a directory that is not writable";
    }
    if (wrong && !p->shared && st.st_uid != geteuid()) {
        return snib__fail(
            reterr, SNIB_ERR_CONFIG,
            "lock file %s %s; each user has a file of his own; " REMEDY_TWO,
            p->path, wrong);
    }
    if (wrong) {
        return snib__fail(reterr, SNIB_ERR_CONFIG, "lock file %s %s; " REMEDY,
                          p->path, wrong);
    }
    return SNIB_ERR_OK;
}

bool snib__place_make(const struct snib__place *p, int dir, const char *name,
                      mode_t type)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        return true;
    }
    bool folder = type == S_IFDIR;
    bool ok = p->shared
                  ? snib__stage_make(dir, name, type | (folder ? 02770 : 0660))
              : folder ? mkdirat(dir, name, 0700) == 0
                       : mknodat(dir, name, S_IFREG | 0600, 0) == 0;
    return ok || errno == EEXIST;
}

static const char *wrong_bells(const struct snib__place *p,
                               const struct stat *st)
{
    if (p->shared) {
        return st->st_gid != p->group || (st->st_mode & 07777) != 02770
                   ? "must be a directory of the group with mode 2770"
                   : NULL;
    }
    return st->st_uid != geteuid() ? "belongs to another user"
           : (st->st_mode & 077)   ? "must have mode 0700"
                                   : NULL;
}

static snib_err open_bells(struct snib__place *p, const char *base,
                           struct snib_error *reterr)
{
    char name[300];
    struct stat st;
    snprintf(name, sizeof name, "%s-bells", base);
    if (!snib__place_make(p, p->dir, name, S_IFDIR)) {
        return snib__host_cannot(errno, p->bells_path, reterr,
                                 "cannot make directory %s: %s; " REMEDY,
                                 p->bells_path, strerror(errno));
    }
    p->bells =
        openat(p->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (p->bells < 0 || fstat(p->bells, &st)) {
        return snib__host_cannot(errno, p->bells_path, reterr,
                                 "directory %s: %s; " REMEDY, p->bells_path,
                                 errno == ELOOP ? "is a symbolic link"
                                                : strerror(errno));
    }
    const char *wrong = wrong_bells(p, &st);
    if (wrong) {
        return snib__fail(reterr, SNIB_ERR_CONFIG, "%s %s; " REMEDY,
                          p->bells_path, wrong);
    }
    return SNIB_ERR_OK;
}

/* A file of ours alone stays so, wherever it lies. */
static bool is_private(int dir, const char *base)
{
    struct stat st;
    return fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 0777) == 0600;
}

static snib_err open_in(struct snib__place *p, const char *dir,
                        const char *base, const struct snib__host *h,
                        bool is_default, struct snib_error *reterr)
{
    struct stat st;
    snib_err err;
    bool in;
    size_t size = strlen(dir) + strlen(base) + 16;
    p->path = snib__alloc(size);
    p->bells_path = snib__alloc(size);
    if (!p->path || !p->bells_path) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snprintf(p->path, size, "%s/%s", strcmp(dir, "/") ? dir : "", base);
    snprintf(p->bells_path, size, "%s-bells", p->path);
    p->base = strrchr(p->path, '/') + 1;
    p->dir = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (p->dir < 0 || fstat(p->dir, &st)) {
        return snib__host_cannot(errno, dir, reterr,
                                 "directory %s: %s; " REMEDY, dir,
                                 strerror(errno));
    }
    err = in_group(st.st_gid, &in, reterr);
    if (err) {
        return err;
    }
    p->shared = in && is_shared(&st) && !is_private(p->dir, base);
    p->group = st.st_gid;
    if (is_default && !p->shared &&
        (st.st_uid != geteuid() || (st.st_mode & 022))) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "directory %s must belong to this user and be "
                          "writable by nobody else; " REMEDY,
                          dir);
    }
    err = check_fs(p, h, dir, reterr); /* before anything is made there */
    if (err) {
        return err;
    }
    if (!snib__place_make(p, p->dir, base, S_IFREG)) {
        return snib__host_cannot(errno, p->path, reterr,
                                 "cannot make lock file %s: %s; " REMEDY,
                                 p->path, strerror(errno));
    }
    err = check_file(p, base, reterr);
    if (!err) {
        err = check_fs(p, h, p->path, reterr); /* it may be a mount itself */
    }
    return err ? err : open_bells(p, base, reterr);
}

snib_err snib__place_open(struct snib__place *p, const char *path,
                          const struct snib__host *h, struct snib_error *reterr)
{
    char standard[4096], *copy, *slash, *real = NULL;
    const char *base;
    snib_err err = SNIB_ERR_OK;
    *p = (struct snib__place){.dir = -1, .bells = -1};
    snib_err none = snib__sqlite_default_path(standard, sizeof standard,
                                              path[0] ? NULL : reterr);
    if (!path[0]) {
        if (none) {
            return none;
        }
        path = standard;
    }
    bool is_default = !none && strcmp(path, standard) == 0;
    copy = snib__strdup(path);
    if (!copy) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    if (is_default && strcmp(path, OF_GROUP "/locks.db") != 0) {
        err = make_dirs(copy, reterr);
    }
    slash = strrchr(copy, '/');
    base = slash ? slash + 1 : copy;
    if (!err && (!base[0] || !strcmp(base, ".") || !strcmp(base, ".."))) {
        err = snib__fail(reterr, SNIB_ERR_CONFIG,
                         "sqlite:%.200s does not name a file", path);
    }
    if (!err && strlen(base) > BASE_MAX) {
        err = snib__fail(reterr, SNIB_ERR_CONFIG,
                         "sqlite:%.100s...: the file's name has %zu bytes; at "
                         "most %d (others are made beside it)",
                         path, strlen(base), BASE_MAX);
    }
    if (!err) {
        if (slash) {
            *slash = 0;
        }
        real = realpath(!slash ? "." : slash == copy ? "/" : copy, NULL);
        if (!real) {
            err = snib__host_cannot(
                errno, path, reterr,
                "the directory of lock file %s: %s; make it or " REMEDY, path,
                strerror(errno));
        }
    }
    if (!err) {
        err = open_in(p, real, base, h, is_default, reterr);
    }
    free(real);
    snib__free(copy);
    if (err) {
        snib__place_close(p);
    }
    return err;
}

void snib__place_close(struct snib__place *p)
{
    if (p->dir >= 0) {
        close(p->dir);
    }
    if (p->bells >= 0) {
        close(p->bells);
    }
    snib__free(p->path);
    snib__free(p->bells_path);
    *p = (struct snib__place){.dir = -1, .bells = -1};
}
