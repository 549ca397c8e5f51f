/* store/sqlite/internal.h — the pieces of one open lock file.
 *
 *   shared.c    which file is the default, and who shares it
 *   lockfile.c  the path: symlinks, owner, file system
 *   stage.c     making what a group shares where the group cannot reach it
 *   seen.c      what is seen at the paths, and the note of it (seen.h)
 *   files.c     the file, its -wal and its -shm are those that others use
 *   vfs.c       SQLite without a rollback journal
 *   db.c        connection, transactions
 *   busy.c      who is in the way of a write, and whether that one stands still
 *   db_error.c  error texts
 *   schema.c    tables, files of other programs, boot id
 *   row.c       a row as a claim
 *   claim.c     the book of claims (core/rules/rules.h) as SQL
 *   notifier.c  unix datagram sockets, pidfds
 *   forked.c    fork() while threads are inside SQLite
 *   open.c      opens and frees an instance; the store's table
 *   exec.c      takes requests, runs transactions, notifies, answers
 *   inspect.c   inspect and list
 *   value.c     versioned values
 *   doctor.c    the check-up
 *   cleaner.c   forgets names that nobody used for a day
 *
 * Threads: one thread at a time calls exec() and free(). Another thread may
 * call notified() meanwhile; it touches only struct snib__notifier, under its
 * mutex.
 *
 * Forbidden: opening the file, its -wal or its -shm by a descriptor of our own.
 * POSIX record locks belong to the process, and close() of *any* descriptor of
 * a file drops all of them, those of SQLite's connections in this process
 * included. O_PATH, stat, mknod and /proc/locks are harmless. */
#ifndef SNIB__SQLITE_INTERNAL_H
#define SNIB__SQLITE_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "core/rules/rules.h"
#include "store/host.h"
#include "store/sqlite/sqlite.h"

#define SNIB__SQLITE_SCHEMA 2
/* "snib" in the file's header. */
#define SNIB__SQLITE_APP_ID 0x736e6962
/* At so many frames (of 1 KiB) the -wal is emptied, see db.c. */
#define SNIB__SQLITE_WAL_SHORT 256
#define SNIB__SQLITE_WAL_LONG  2000
/* From here on the writers have to wait for a try to empty it. Another program's
 * long read transaction makes that try fail, and then it grows on. */
#define SNIB__SQLITE_WAL_MUST 8000
/* To so many bytes the -wal is cut when it has been emptied (schema.c). */
#define SNIB__SQLITE_WAL_CUT 16777216
/* After so many write transactions a process counts as long-lived. */
#define SNIB__SQLITE_LONG_LIVED 256
/* The most requests in one transaction. */
#define SNIB__SQLITE_BATCH 64
/* The most notifications after one transaction. If its requests grant to more
 * waiters (readers, permits), the polls of the others find that out. */
#define SNIB__SQLITE_NOTIFIES (2 * SNIB__SQLITE_BATCH)
/* How long one try for the write lock lasts. Between two tries other requests
 * of the client can join, and the executing thread checks the wait limit of its
 * own call. All that it executes may be requests of others (a renewal, or the
 * cancel of a caller that has gone), so its call may overrun its limit by one
 * slice. A slice has time for a thousand transactions. */
#define SNIB__SQLITE_SLICE_MS 15
/* If the limit of a request is nearer than this, the thread tries until the
 * limit in one go. That thread is then still the caller's, and its answer can
 * name the process in the way. */
#define SNIB__SQLITE_LAST_MS 200
/* Even a request whose limit has come waits so long for the write lock. */
#define SNIB__SQLITE_LEAST_MS 5
/* An open waits at least so long: SQLite may be recovering the -wal. */
#define SNIB__SQLITE_OPEN_MS 5000

/* -- shared.c -------------------------------------------------------------- */

#define SNIB__SQLITE_REMEDY "name another: sqlite:PATH"
/* Root's default file is in the first. The default file of a group is in the
 * second, if root made that directory for the group. */
#define SNIB__SQLITE_OF_ROOT  "/var/lib/snib"
#define SNIB__SQLITE_OF_GROUP SNIB__SQLITE_OF_ROOT "/shared"
#define SNIB__SQLITE_MAKE_SHARED                                               \
    "install -d -m 755 " SNIB__SQLITE_OF_ROOT                                  \
    " && install -d -m 2770 -g GROUP " SNIB__SQLITE_OF_GROUP

/* The default file, as snib__sqlite_default_path, but without the check that
 * nobody uses the one that was the default before. */
snib_err snib__shared_default(char *ret, size_t size,
                              struct snib_error *reterr);
/* Is this still the default file, as it was when its opening began? STORE: it
 * is not; try again. Other errors: as snib__sqlite_default_path. */
snib_err snib__shared_still(const char *path, struct snib_error *reterr);
/* Is this process in the group? Root is in every group. CONFIG, NOMEM: it
 * cannot be told. */
snib_err snib__shared_is_member(gid_t group, bool *ret,
                                struct snib_error *reterr);
/* Has root made this directory for its group? */
bool snib__shared_is_dir(const struct stat *);
/* In words: what a user with a lock file of his own has to do to share one. */
void snib__shared_how(char *ret, size_t size);

/* -- lockfile.c ------------------------------------------------------------ */

/* The file, its -wal, its -shm. */
#define SNIB__FILES 3
/* The same and the -bells directory, in which the notifiers are. */
#define SNIB__SEEN 4

struct snib__lockfile {
    char *path;           /* real directory + "/" + base */
    char *given;          /* its directory as it was named; NULL: as in path */
    char *notifiers_path; /* path + "-bells" */
    const char *base;     /* in path */
    int dir;              /* O_PATH */
    int notifiers;        /* the -bells directory, for flock and sockets */
    bool is_default;      /* it was the default when its opening began */
    bool shared;          /* a group shares it */
    gid_t group;          /* the group, if shared */
    bool alone;           /* files.c: we have the exclusive flock */
    uint64_t entered[SNIB__SEEN]; /* inodes seen at entering; 0: any */
    uint64_t file[SNIB__FILES];   /* inodes that we work in; 0: not joined */
    char fs[24];                  /* "ext4", for doctor */
};

/* Find, check and, if need be, make the file and its -bells directory. Errors:
 * CONFIG, with the remedy in the text; LIMIT, NOMEM; STORE: the disk is full or
 * fails. */
snib_err snib__lockfile_open(struct snib__lockfile *, const char *path,
                             const struct snib__host *,
                             struct snib_error *reterr);
void snib__lockfile_close(struct snib__lockfile *);
/* Is this the default file of one user? Then other users are not excluded. */
bool snib__lockfile_is_sole(const struct snib__lockfile *);
/* Make this file (S_IFREG) or directory (S_IFDIR) unless it is there. */
bool snib__lockfile_make(const struct snib__lockfile *, int dir,
                         const char *name, mode_t type);
/* Why one of these could not be made: errno e in words. */
const char *snib__lockfile_why(const struct snib__lockfile *, int e);
/* Open the -bells directory, and make it if it is not there. */
snib_err snib__lockfile_notifiers(struct snib__lockfile *,
                                  struct snib_error *reterr);

/* -- stage.c --------------------------------------------------------------- */

/* The name of what is made in the stage, until it is moved to its path. */
#define SNIB__STAGED "made"

struct snib__stage {
    int dir;     /* holds the stage, and then what is made */
    int fd;      /* O_PATH: the stage, a directory */
    mode_t mode; /* of what is made, with its type */
    char name[64];
};

/* Make a stage in `dir`: a directory that is open to nobody else. False:
 * errno. */
bool snib__stage_open(struct snib__stage *, int dir, mode_t mode);
/* If it was made, give it its mode and move it to its name, unless that name is
 * taken; then remove the stage. False: errno, and nothing is left behind. */
bool snib__stage_close(struct snib__stage *, bool made, const char *name);
/* Both steps, for a file (S_IFREG) or a directory (S_IFDIR) of that mode,
 * whatever the umask: others see it complete or not at all. */
bool snib__stage_make(int dir, const char *name, mode_t mode);

/* -- seen.c, files.c ------------------------------------------------------- */

/* Why this file must not be used; NULL: it may be. */
const char *snib__seen_wrong(const struct snib__lockfile *,
                             const struct stat *);
/* Before SQLite opens anything. CONFIG: the clients that live use other files
 * than the path leads to. STORE: another opening does not end. */
snib_err snib__files_enter(struct snib__lockfile *, snib_instant until,
                           struct snib_error *reterr);
/* Undo that, to enter again: SQLite must have none of the files open any
 * more. */
void snib__files_leave(struct snib__lockfile *);
/* Do the paths still lead to what was entered? Errors: as those of joining. */
snib_err snib__files_still(const struct snib__lockfile *,
                           struct snib_error *reterr);
/* SQLite has opened what was entered: from now on the client works in these
 * files. If the paths lead elsewhere by now: CONFIG when other clients live,
 * STORE when this one is alone. */
snib_err snib__files_join(struct snib__lockfile *, snib_instant until,
                          struct snib_error *reterr);
/* The suffix of a file that is no longer at its path ("" also if the path, as it
 * was named, leads to another directory); NULL: all are. */
const char *snib__files_moved(const struct snib__lockfile *);

/* -- notifier.c ------------------------------------------------------------ */

#define SNIB__WATCHES        8
#define SNIB__NOTIFIER_MAGIC "snibbell" /* 8 bytes, without the NUL */

struct snib__watch {
    uint64_t request[2];
    int64_t pid;
    int fd; /* pidfd; -1: free slot */
};

struct snib__notifier {
    pthread_mutex_t mutex; /* for all but sender */
    int sock, epoll;       /* -1 until made */
    int sender;            /* -1 until made */
    char name[40];         /* of the socket, in the -bells directory */
    uint32_t streak, queue_max;
    uint32_t watching;
    struct snib__watch watch[SNIB__WATCHES];
};

/* A notifier to notify, and the message. */
struct snib__notification {
    char address[108]; /* file name in the -bells directory */
    uint8_t message[64];
    uint32_t size;
};

typedef enum snib__notify_result {
    SNIB__NOTIFY_TOLD, /* or the waiter's poll finds out */
    SNIB__NOTIFY_DEAD  /* nobody listens there any more */
} snib__notify_result;

bool snib__notifier_init(struct snib__notifier *);
/* forked: this process is a child; leave what belongs to its parent. */
void snib__notifier_free(struct snib__notifier *, const struct snib__lockfile *,
                         bool forked);
/* Make the socket, once. If that fails the client goes without it and polls. */
void snib__notifier_make(struct snib__notifier *, const struct snib__lockfile *,
                         const uint64_t client[2]);
/* The descriptor to poll; -1 before snib__notifier_make. */
int snib__notifier_fd(struct snib__notifier *);
snib__notify_result snib__notifier_notify(struct snib__notifier *,
                                          const struct snib__lockfile *,
                                          const struct snib__notification *);
/* What tells this waiter that it was granted the name. */
void snib__notifier_tell_of(const struct snib__stored_claim *,
                            struct snib__notification *ret);
uint32_t snib__notifier_take(struct snib__notifier *, uint64_t (*ids)[2],
                             uint32_t max);
/* When that process ends, notified() is to report this request. */
void snib__notifier_watch(struct snib__notifier *, const struct snib__host *,
                          const uint64_t request[2], int64_t pid,
                          int64_t pidns);
void snib__notifier_unwatch(struct snib__notifier *, const uint64_t request[2]);
/* Remove the sockets of clients that have ended, among the first `max`. Returns
 * how many are left of those. */
uint32_t snib__notifier_tidy(struct snib__notifier *,
                             const struct snib__lockfile *, uint32_t max);

/* -- vfs.c ----------------------------------------------------------------- */

/* sqlite3_open_v2, but it never reads, makes or removes a journal. */
int snib__vfs_open(const char *path, sqlite3 **ret, int flags);

/* -- db.c ------------------------------------------------------------------ */

enum snib__stmt {
    SNIB__ST_BEGIN, /* IMMEDIATE */
    SNIB__ST_BEGIN_READ,
    SNIB__ST_COMMIT,
    SNIB__ST_ROLLBACK,
    SNIB__ST_LOCK, /* a name's token and holder */
    SNIB__ST_FIND, /* any claim but a holder */
    SNIB__ST_HEAD,
    SNIB__ST_SHARE,
    SNIB__ST_BEFORE,
    SNIB__ST_MAY_WAIT,
    SNIB__ST_FLOOR,
    SNIB__ST_SET_LOCK,
    SNIB__ST_SET_SHARES,
    SNIB__ST_SET_PARAMS,
    SNIB__ST_HIGHEST,
    SNIB__ST_ADD,
    SNIB__ST_CHANGE,
    SNIB__ST_EXTEND,
    SNIB__ST_REVOKE,
    SNIB__ST_REMOVE,
    SNIB__ST_SWEEP,
    SNIB__ST_WAITERS,
    SNIB__ST_SHARERS,
    SNIB__ST_NAMES,
    SNIB__ST_AWAITED,
    SNIB__ST_CLEANER_NAMES,
    SNIB__ST_CLEANER_WAITERS,
    SNIB__ST_CLEANER_HOLDER,
    SNIB__ST_CLEANER_SHARES,
    SNIB__ST_CLEANER_COUNT,
    SNIB__ST_CLEANER_LOCK,
    SNIB__ST_META,
    SNIB__ST_ALL_META,
    SNIB__ST_SET_META,
    SNIB__ST_VALUE_READ,
    SNIB__ST_VALUE_WRITE,
    SNIB__ST_VALUE_NOTE,
    SNIB__ST_VALUE_OLD,
    SNIB__ST_VALUE_FORGET,
    SNIB__ST_COUNT
};

/* busy.c: what was seen when the write lock could not be had. All zero: nothing
 * yet, or it was had since. */
struct snib__busy {
    int64_t pid, start, worked; /* of who had it; pid 0: not known */
    uint32_t version;           /* another one after each commit of others */
    snib_instant seen;          /* the last look */
    snib_instant same;          /* since then all the above is the same */
    snib_instant changed;       /* a commit was seen */
};

struct snib__db {
    sqlite3 *handle;
    const struct snib__lockfile *lockfile; /* whose files these are */
    sqlite3_stmt *st[SNIB__ST_COUNT];
    snib_instant busy_until;  /* when the busy handler gives up */
    snib_instant yield_again; /* until then the handler sleeps at once */
    int frames;               /* in the -wal after our last commit */
    int frames_max, frames_next;
    uint32_t waits; /* how often the busy handler slept */
    bool yields;    /* the handler gives up when a thread wants to fork */
    struct snib__busy busy;
};

/* Without a look at what the file is. */
snib_err snib__db_connect(struct snib__db *, const struct snib__lockfile *,
                          snib_instant until, struct snib_error *reterr);
void snib__db_close(struct snib__db *);
/* schema.c: connect, make or check the tables, join this boot and the files.
 * CONFIG, STORE, NOMEM. */
snib_err snib__db_open(struct snib__db *, struct snib__lockfile *,
                       const struct snib__host *, snib_duration patience,
                       struct snib_error *reterr);
/* The statement, prepared at its first use; NULL: *ret_rc says why. The caller
 * that steps it must reset it. */
sqlite3_stmt *snib__db_st(struct snib__db *, enum snib__stmt, int *ret_rc);
bool snib__db_is_busy(int rc);
/* Take the write lock; wait until then at most. SQLITE_OK, SQLITE_BUSY or an
 * error. SQLITE_READONLY_DBMOVED: the file is no longer at its path. */
int snib__db_begin(struct snib__db *, snib_instant until);
/* Start a read transaction; it needs no lock that a writer could have. */
int snib__db_begin_read(struct snib__db *);
int snib__db_end_read(struct snib__db *);
int snib__db_commit(struct snib__db *);
void snib__db_rollback(struct snib__db *);
/* After a commit and its notifications: empty the -wal if it has grown long. */
void snib__db_empty_wal(struct snib__db *);
/* busy.c: the write lock could not be had. Looks who has it, and says so. */
snib_err snib__busy_fail(struct snib__db *, int rc, const char *path,
                         struct snib_error *reterr);
/* What an SQLite error means to a caller of ours. */
snib_err snib__db_fail(struct snib__db *, int rc, const char *path,
                       struct snib_error *reterr);
/* Of SQLITE_CORRUPT: the errno with which a page could not be read, or 0. */
int snib__db_unread(struct snib__db *, int rc);
/* The same text for a file that cannot be opened: LIMIT or NOMEM if descriptors
 * or memory are used up; STORE if it may work later (another process writes and
 * does not end, the disk is full or fails); else CONFIG. */
snib_err snib__db_fail_open(struct snib__db *, int rc, const char *path,
                            struct snib_error *reterr);
/* Bind an id as its 16 bytes, big-endian. They are put into `bytes`, which
 * must live until the step. */
void snib__db_put_id(sqlite3_stmt *, int column, const uint64_t id[2],
                     uint8_t bytes[16]);
void snib__db_get_id(sqlite3_stmt *, int column, uint64_t ret[2]);

/* -- the instance ---------------------------------------------------------- */

struct snib__sqlite_notify {
    struct snib__notification to;
    const struct snib__name *name;
    uint64_t request[2];
    int64_t token;
};

struct snib__sqlite {
    struct snib__link link; /* forked.c */
    struct snib__host host;
    struct snib__lockfile lockfile;
    struct snib__db db;
    struct snib__notifier notifier;
    uint64_t client[2];
    snib_duration patience;
    uint32_t writes; /* transactions so far; the cleaner runs at some */
    /* The transaction under way. */
    struct snib__book book;
    int rc;             /* first SQLite error in it */
    bool want_notifier; /* a waiter has to queue, and has none yet */
    bool no_notifier;   /* no notifier could be made */
    /* A commit failed with an I/O error: a later recovery of the -wal may find
     * it all the same. */
    bool doubt;
    bool thorough;                     /* the request has waited before */
    bool values;                       /* the table of values is there */
    struct snib__stored_claim blocker; /* what the last request waits for */
    bool blocker_gone;                 /* … unless its pid is 0 */
    /* The name that was read last in this transaction. */
    struct {
        const struct snib__name *name; /* NULL: nothing is known */
        bool has_holder;
        int64_t token, new_token; /* new: to be written with the holder */
        int64_t shares;
        struct snib__params params;
        struct snib__stored_claim holder;
    } here;
    uint32_t notify_count;
    /* From here on nothing is zeroed when the instance is made. */
    struct snib__sqlite_notify notify[SNIB__SQLITE_NOTIFIES];
    struct snib__sqlite_notify dead[SNIB__SQLITE_NOTIFIES];
};

/* open.c */
/* As ops->open, with the facts of the host given by a test. */
snib_err snib__sqlite_open_on(const struct snib__store_config *,
                              const struct snib__host *, void **ret,
                              struct snib_error *reterr);

/* exec.c: as the ops of these names. */
void snib__sqlite_exec(void *instance, snib_instant now,
                       struct snib__list *chain);
int snib__sqlite_notifier_fd(void *instance);
uint32_t snib__sqlite_notified(void *instance, uint64_t (*ids)[2],
                               uint32_t max);
/* Answer NOT_APPLIED with CORRUPT, for a stored token that is none. */
void snib__sqlite_no_token(const struct snib__sqlite *, struct snib__request *);

/* -- forked.c -------------------------------------------------------------- */

/* Between the two calls this thread is inside SQLite, and a fork() by any
 * thread waits for it, for 2 s at most. The calls do not nest. */
void snib__forked_in(void);
void snib__forked_out(void);
/* Does a thread want to fork? */
bool snib__forked_waits(void);
/* A connection is about to be opened. OK: this thread is now inside. In a
 * child, first closes the connections of its parent. FORKED: a child cannot
 * open one here; NOMEM. */
snib_err snib__forked_open(struct snib__sqlite *, struct snib_error *reterr);
/* Close it, in the parent or in a child, if that can be done. */
void snib__forked_close(struct snib__sqlite *);

/* claim.c */
void snib__sqlite_book(struct snib__sqlite *);

/* row.c */
#define SNIB__NS_MOST (INT64_MAX / 4)
/* The columns of LOCK and of all statements that select claims; column 15 is
 * about. From SNIB__LOCK_COLUMN on LOCK has the name's token, size, latch count
 * and shares. A LOCK row without a holder has NULL in column 0. */
#define SNIB__LOCK_COLUMN 21
void snib__sqlite_read_claim(sqlite3_stmt *, struct snib__stored_claim *ret);
/* A last token or a floor; SNIB__TOKEN_END: what is stored is not a token. */
int64_t snib__sqlite_token(sqlite3_stmt *, int column);
int64_t snib__sqlite_bounded(sqlite3_stmt *, int column, int64_t least,
                             int64_t most);
/* Does the text of a request say that its grant outlives the process? */
bool snib__sqlite_is_leashed(const void *about, size_t size);
/* The first parameter of a statement is the name. */
void snib__sqlite_put_name(sqlite3_stmt *, const struct snib__name *);
/* Read-only: does this request hold by now? False: no, or an error. */
bool snib__sqlite_peek(struct snib__sqlite *, const struct snib__request *,
                       struct snib__stored_claim *ret);

/* inspect.c, doctor.c: fill answer and result. */
void snib__sqlite_inspect(struct snib__sqlite *, struct snib__request *);
void snib__sqlite_doctor(struct snib__sqlite *, struct snib__request *);

/* value.c: a VALUE_… request, in a transaction of its own. */
void snib__sqlite_value(struct snib__sqlite *, struct snib__request *);

/* cleaner.c: visit some names, in a transaction of its own, if the write lock
 * is free. */
void snib__sqlite_cleaner(struct snib__sqlite *);

#endif
