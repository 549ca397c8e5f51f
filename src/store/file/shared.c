/* store/file/shared.c — which file is the default, and who shares it.
 *
 * Two processes that mean the same lock must meet in the same file without
 * being told which. So the path comes from the uid alone, unless root has made
 * a directory for a group. Then all members and root use the file there.
 *
 * A question may have no answer (no descriptor, no memory, a source of users
 * and groups that fails). That is never taken for "no", which would lead to
 * another file than the others', and to a second owner. It is an error.
 *
 * When that directory is new, some processes may still hold locks in the files
 * that they used before. Until they have ended, a newcomer is refused. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/file/internal.h"
#include "store/file/shared.h"

#define REMEDY   SNIB__FILE_REMEDY
#define OF_ROOT  SNIB__FILE_OF_ROOT
#define OF_GROUP SNIB__FILE_OF_GROUP

/* -- users and groups ------------------------------------------------------ */

/* Several sources may know users and groups. If libc has no descriptor left for
 * the first, the last one's "no entry" counts with it. So "no entry" is
 * believed only if a descriptor can be had. Returns 0, or errno. */
static int shared_believe_none(void)
{
    int fd = open("/", O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    close(fd);
    return 0;
}

/* This user's entry in the password database. */
struct user {
    char room[4096];
    struct passwd pw, *found; /* NULL: there is no entry, or */
    int rc;                   /* … it could not be read: errno */
};

/* Root is not looked up: its files do not depend on its entry. */
static void shared_find_user(struct user *u)
{
    u->found = NULL;
    u->rc = 0;
    if (geteuid() != 0) {
        do {
            u->rc = getpwuid_r(geteuid(), &u->pw, u->room, sizeof u->room,
                               &u->found);
        } while (u->rc == EINTR);
        if (!u->rc && !u->found) {
            u->rc = shared_believe_none();
        }
    }
}

/* Find the group's entry in the group database; *ret NULL: there is none. The
 * members of a large group need much memory: *ret_room is the caller's to free.
 * Returns 0, or errno. */
static int shared_find_group(gid_t id, struct group *gr, struct group **ret,
                             char **ret_room)
{
    enum { LEAST = 4096, MOST = 1 << 26 };
    int rc = ERANGE;
    *ret_room = NULL;
    for (size_t size = LEAST; rc == ERANGE && size <= MOST; size *= 4) {
        snib__free(*ret_room);
        *ret = NULL;
        *ret_room = snib__alloc(size);
        if (!*ret_room) {
            return ENOMEM;
        }
        do {
            rc = getgrgid_r(id, gr, *ret_room, size, ret);
        } while (rc == EINTR);
    }
    if (rc == ENOENT || rc == ESRCH) { /* other words for "no entry" */
        rc = 0;
        *ret = NULL;
    }
    return rc ? rc : *ret ? 0 : shared_believe_none();
}

/* Would this user get the group by logging in? A directory service may leave
 * the members out of a group's entry, and then only this tells. libc hides
 * failures of its sources here. Returns 0, or errno. */
static int shared_would_get(const struct passwd *user, gid_t id, bool *ret)
{
    gid_t *v = NULL;
    int n = 64, before, rc;
    do {
        snib__free(v);
        before = n;
        v = snib__alloc((size_t)n * sizeof *v);
        if (!v) {
            return ENOMEM;
        }
        rc = getgrouplist(user->pw_name, user->pw_gid, v, &n);
    } while (rc < 0 && n > before);
    for (int i = 0; i < rc; i++) {
        *ret = *ret || v[i] == id;
    }
    snib__free(v);
    return rc < 0 ? ENOMEM : 0;
}

/* Is this user a member by the databases, though not by this process? The
 * group's entry lists him, or he gets the group at login. */
static snib_err shared_is_listed(const struct passwd *user, gid_t id, bool *ret,
                                 struct snib_error *reterr)
{
    struct group gr, *found;
    char *room;
    int rc = shared_find_group(id, &gr, &found, &room);
    *ret = user->pw_gid == id;
    for (char **m = rc || !found ? NULL : found->gr_mem; m && *m; m++) {
        *ret = *ret || strcmp(*m, user->pw_name) == 0;
    }
    snib__free(room);
    if (!rc && !*ret) {
        rc = shared_would_get(user, id, ret);
    }
    return !rc || *ret
               ? SNIB_ERR_OK
               : snib__host_cannot(
                     rc, "the group database", reterr,
                     "whether %s is in group %ld, which shares " OF_GROUP
                     ", cannot be told (the group database: %s); " REMEDY,
                     user->pw_name, (long)id, strerror(rc));
}

snib_err snib__shared_is_member(gid_t group, bool *ret,
                                struct snib_error *reterr)
{
    gid_t *v = NULL;
    int n = 0;
    *ret = geteuid() == 0 || getegid() == group;
    if (!*ret) {
        n = getgroups(0, NULL);
    }
    if (n > 0) {
        v = snib__alloc((size_t)n * sizeof *v);
        if (!v) {
            return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
        }
        n = getgroups(n, v);
    }
    int e = errno;
    for (int i = 0; i < n; i++) {
        *ret = *ret || v[i] == group;
    }
    snib__free(v);
    return n >= 0 ? SNIB_ERR_OK
                  : snib__host_cannot(e, "the list of this process's groups",
                                      reterr,
                                      "the groups of this process cannot be "
                                      "told (%s), and so not who shares its "
                                      "lock file",
                                      strerror(e));
}

/* -- who shares ------------------------------------------------------------ */

bool snib__shared_is_dir(const struct stat *dir)
{
    return S_ISDIR(dir->st_mode) && dir->st_uid == 0 &&
           (dir->st_mode & S_ISGID) && (dir->st_mode & S_IWGRP) &&
           !(dir->st_mode & (S_IROTH | S_IWOTH));
}

/* Refuse a user who was added to the group after he logged in: this process
 * would use another file than the group, alone. */
static snib_err shared_check_stranger(const struct passwd *user,
                                      const struct stat *dir,
                                      struct snib_error *reterr)
{
    bool listed;
    if (!user || !snib__shared_is_dir(dir)) {
        return SNIB_ERR_OK;
    }
    snib_err err = shared_is_listed(user, dir->st_gid, &listed, reterr);
    if (err || !listed) {
        return err;
    }
    return snib__fail(reterr, SNIB_ERR_CONFIG,
                      "the lock file in " OF_GROUP " is shared by a group "
                      "that %s is in, but this process is not: log in anew, "
                      "or " REMEDY,
                      user->pw_name);
}

/* Is there anything at this path that this user can reach? Other errors are not
 * "no". */
static snib_err shared_is_there(const char *path, struct stat *st, bool *ret,
                                struct snib_error *reterr)
{
    *ret = lstat(path, st) == 0;
    return *ret || errno == ENOENT || errno == ENOTDIR || errno == EACCES
               ? SNIB_ERR_OK
               : snib__host_cannot(errno, path, reterr, "%s: %s; " REMEDY, path,
                                   strerror(errno));
}

/* Can members of the group pass this directory? Root passes any directory, and
 * would use the group's file without members who cannot. */
static bool shared_lets_in(const struct stat *top, gid_t group)
{
    return top->st_mode & (top->st_gid == group ? S_IXGRP : S_IXOTH);
}

/* Is there a shared directory for this user? *ret false: there is none, and
 * this user has a file of his own. */
static snib_err shared_find_shared(const struct passwd *user, bool *ret,
                                   struct snib_error *reterr)
{
    struct stat top, dir;
    bool there, in;
    *ret = false;
    snib_err err = shared_is_there(OF_ROOT, &top, &there, reterr);
    if (!err && there) {
        err = shared_is_there(OF_GROUP, &dir, &there, reterr);
    }
    if (err || !there) {
        return err;
    }
    err = snib__shared_is_member(dir.st_gid, &in, reterr);
    if (err || !in) {
        return err ? err : shared_check_stranger(user, &dir, reterr);
    }
    if (!snib__shared_is_dir(&dir) || !S_ISDIR(top.st_mode) ||
        top.st_uid != 0 || (top.st_mode & 022)) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          OF_GROUP
                          " is not a directory that a group shares "
                          "(mode %04o, uid %ld): " SNIB__FILE_MAKE_SHARED,
                          (unsigned)dir.st_mode & 07777, (long)dir.st_uid);
    }
    if (!shared_lets_in(&top, dir.st_gid)) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          OF_ROOT " keeps members of the group out of " OF_GROUP
                                  " (mode %04o): " SNIB__FILE_MAKE_SHARED,
                          (unsigned)top.st_mode & 07777);
    }
    *ret = true;
    return SNIB_ERR_OK;
}

/* If there is no directory root has to make it; if there is one the user has to
 * be let into the group. */
void snib__shared_how(char *ret, size_t size)
{
    struct group gr, *found;
    struct stat dir;
    char *room;
    if (lstat(OF_GROUP, &dir) || !snib__shared_is_dir(&dir)) {
        snprintf(ret, size, "to share%s: " SNIB__FILE_MAKE_SHARED,
                 geteuid() == 0 ? "" : ", as root");
        return;
    }
    if (shared_find_group(dir.st_gid, &gr, &found, &room) || !found) {
        snprintf(ret, size, "to share: join group %ld, which has " OF_GROUP,
                 (long)dir.st_gid);
    } else {
        snprintf(ret, size,
                 "to share: join group %s, which has " OF_GROUP
                 " (as root: usermod -aG %s USER), and log in anew",
                 gr.gr_name, gr.gr_name);
    }
    snib__free(room);
}

/* -- which file ------------------------------------------------------------ */

/* The path of this user's own file. */
static snib_err shared_own_path(const struct user *u, char *ret, size_t size,
                                struct snib_error *reterr)
{
    int n;
    if (geteuid() == 0) {
        n = snprintf(ret, size, OF_ROOT SNIB__FILE_NAME);
    } else {
        if (!u->found || !u->pw.pw_dir || u->pw.pw_dir[0] != '/') {
            return snib__host_cannot(
                u->rc, "the password database", reterr,
                "no home directory for uid %ld in the password "
                "database (%s); " REMEDY,
                (long)geteuid(), u->rc ? strerror(u->rc) : "no entry");
        }
        n = snprintf(ret, size, "%s" SNIB__FILE_OF_USER SNIB__FILE_NAME,
                     u->pw.pw_dir);
    }
    if (n < 0 || (size_t)n >= size) {
        return snib__fail(
            reterr, SNIB_ERR_CONFIG,
            "the path of the default lock file is too long; " REMEDY);
    }
    return SNIB_ERR_OK;
}

/* A client that uses a file has it locked all the time (map.c), and its
 * directory (guard.c), which tells of one that was removed while in use. A
 * process that only checks, as this one does, has the file locked for an
 * instant. fd: the file; -1: there is none. */
static snib_err shared_is_used(int fd, const char *own, bool *ret,
                               char ret_who[SNIB__WHO],
                               struct snib_error *reterr)
{
    enum { TRIES = 200 };
    const struct timespec pause = {.tv_nsec = 500000};
    for (int i = 0; i < TRIES; i++) {
        snib_err err = snib__guard_is_used(own, ret, ret_who, reterr);
        if (err || (!*ret && fd < 0)) {
            return err;
        }
        if (!*ret && flock(fd, LOCK_EX | LOCK_NB) == 0) {
            /* Not by close() alone: a copy in a forked child would keep the
             * lock. */
            flock(fd, LOCK_UN);
            return SNIB_ERR_OK;
        }
        if (!*ret && errno != EWOULDBLOCK && errno != EINTR) {
            return snib__host_cannot(errno, own, reterr, "%s: flock: %s", own,
                                     strerror(errno));
        }
        nanosleep(&pause, NULL);
    }
    *ret = true;
    return SNIB_ERR_OK;
}

/* A process that holds a lock in this user's own file, from before the group
 * had one, would not be excluded by the group's file: it has to end first. The
 * list of locks only provides its name; it does not show processes of another
 * pid namespace. A file that this user cannot reach (a service may not see its
 * home) counts as unused: otherwise that service would be refused for good. */
static snib_err shared_check_moved(const char *own, struct snib_error *reterr)
{
    char who[SNIB__WHO] = "";
    bool used;
    int fd =
        open(own, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == EACCES) {
        return SNIB_ERR_OK;
    }
    if (fd < 0 && errno != ENOENT && errno != ENOTDIR) {
        return snib__host_cannot(errno, own, reterr,
                                 "whether the lock file %s is still used "
                                 "cannot be told: %s; " REMEDY,
                                 own, strerror(errno));
    }
    snib_err err = shared_is_used(fd, own, &used, who, reterr);
    if (!err && used && !who[0] && fd >= 0) {
        (void)snib__host_user_of(fd, who);
    }
    if (fd >= 0) {
        close(fd);
    }
    if (err || !used) {
        return err;
    }
    return snib__fail(reterr, SNIB_ERR_CONFIG,
                      "%s still uses the lock file %s, from before the one "
                      "in " OF_GROUP " was made for all of its group: wait "
                      "until it has ended, or end it",
                      who[0] ? who : "this or another process", own);
}

/* *ret_shared: the default is the group's file. */
static snib_err shared_choose(const struct user *u, bool *ret_shared, char *ret,
                              size_t size, struct snib_error *reterr)
{
    snib_err err =
        shared_find_shared(u->found ? &u->pw : NULL, ret_shared, reterr);
    if (err || !*ret_shared) {
        return err ? err : shared_own_path(u, ret, size, reterr);
    }
    snprintf(ret, size, OF_GROUP SNIB__FILE_NAME);
    return SNIB_ERR_OK;
}

snib_err snib__shared_default(char *ret, size_t size, struct snib_error *reterr)
{
    struct user u;
    bool shared;
    shared_find_user(&u);
    return shared_choose(&u, &shared, ret, size, reterr);
}

snib_err snib__file_default_path(char *ret, size_t size,
                                 struct snib_error *reterr)
{
    char own[4096];
    struct user u;
    bool shared;
    shared_find_user(&u);
    snib_err err = shared_choose(&u, &shared, ret, size, reterr);
    if (err || !shared) {
        return err;
    }
    if (u.rc && u.rc != ENOENT && u.rc != ESRCH) { /* which mean "no entry" */
        err = snib__host_cannot(
            u.rc, "the password database", reterr,
            "whether uid %ld still uses a lock file of its own cannot be told "
            "(the password database: %s); " REMEDY,
            (long)geteuid(), strerror(u.rc));
    }
    if (!err && !shared_own_path(&u, own, sizeof own, NULL)) {
        err = shared_check_moved(own, reterr);
    }
    return err;
}

/* A process that already uses its file checks again which one is the default.
 * If root made the directory before this check, the check sees it. If root
 * makes it later, a process that goes to the group's file finds this one in
 * use. */
snib_err snib__file_default_still(const char *path, struct snib_error *reterr)
{
    bool shared, was = strcmp(path, OF_GROUP SNIB__FILE_NAME) == 0;
    snib_err err = shared_find_shared(NULL, &shared, reterr);
    if (err || shared == was) {
        return err;
    }
    return snib__fail(reterr, SNIB_ERR_STORE,
                      "%s is not the default lock file any more: " OF_GROUP
                      " was %s while it was being opened; try again",
                      path, shared ? "made" : "removed");
}
