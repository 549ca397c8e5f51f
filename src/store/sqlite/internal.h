/* store/sqlite/internal.h — the pieces of one open lock file.
 *
 *   host.c    facts of this host and process; is that process gone?
 *   shared.c  which file is the default, who shares it
 *   lockfile.c   the path: symlinks, owner, file system
 *   stage.c   what a group shares is made out of its reach
 *   files.c   the file, its -wal and its -shm are those that others use
 *   vfs.c     SQLite without a rollback journal
 *   db.c      connection, transactions, error texts
 *   schema.c  tables, foreign files, boot id
 *   claim.c   the book (core/rules/rules.h) as SQL
 *   notifier.c    unix datagram sockets, pidfds
 *   forked.c  fork() while threads are inside SQLite
 *   exec.c    requests in, transactions, bells, answers
 *   inspect.c    inspect and list
 *   value.c   versioned values
 *   doctor.c  the check-up
 *   cleaner.c   forgets names that nobody used for a day
 *
 * Threads: exec() and free() by one thread at a time; rung() by another at
 * the same time touches only struct snib__notifier, under its mutex.
 *
 * Forbidden: opening the file, its -wal or its -shm by a descriptor of our
 * own. POSIX record locks belong to the process, and close() of *any*
 * descriptor of a file drops them all, those of SQLite's connections in this
 * process included. O_PATH, stat, mknod and /proc/locks are harmless. */
#ifndef SNIB__SQLITE_INTERNAL_H
#define SNIB__SQLITE_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "core/rules/rules.h"
#include "store/sqlite/sqlite.h"

#define SNIB__SQLITE_SCHEMA 2
/* "snib" in the file's header. */
#define SNIB__SQLITE_APP_ID 0x736e6962
/* Frames of 1 KiB in the -wal, see db.c. */
#define SNIB__SQLITE_WAL_SHORT 256
#define SNIB__SQLITE_WAL_LONG  2000
/* From here on the writers have to wait for it. */
#define SNIB__SQLITE_WAL_MUST 8000
/* After so many write transactions a process counts as long-lived. */
#define SNIB__SQLITE_LONG_LIVED 256
/* Requests in one transaction, at most. */
#define SNIB__SQLITE_BATCH 64
/* A request grants at most twice (its own settle, and what it set free). */
#define SNIB__SQLITE_NOTIFIES (2 * SNIB__SQLITE_BATCH)
/* One try to get the write lock; then other requests of the client get their
 * chance to join, and the thread that executes looks at its own limit: it may
 * execute only what others have asked for (a renewal, the cancel of one who
 * left), and overruns by that much. A thousand transactions fit in. */
#define SNIB__SQLITE_SLICE_MS 15
/* A request whose limit is as near as that is tried until then, by the thread
 * that asked: so it can say who is in the way. */
#define SNIB__SQLITE_LAST_MS 200
/* Patience even of a request whose limit has come. */
#define SNIB__SQLITE_LEAST_MS 5
/* Patience of open at least: it may have to wait for a recovery. */
#define SNIB__SQLITE_OPEN_MS 5000

/* -- host.c ------------------------------------------------------------------- */

/* What the store takes from its surroundings; tests alter it. */
struct snib__host {
    char boot[40]; /* /proc/sys/kernel/random/boot_id                */
    bool timens;   /* in a time namespace with an offset             */
    bool proc;     /* /proc is that of our pid namespace             */
    int64_t pid, start, pidns;
    uint64_t fs_magic;    /* 0: ask statfs                                  */
    int64_t wall_skew_ms; /* added to CLOCK_REALTIME                        */
    int64_t skew_ns;      /* added to CLOCK_BOOTTIME for leases             */
};

void snib__host_read(struct snib__host *);
/* CLOCK_BOOTTIME: for waiting. */
snib_instant snib__host_now(void);
/* The same with the skew of a test: for leases. */
snib_instant snib__host_lease_now(const struct snib__host *);
int64_t snib__host_wall_ms(const struct snib__host *);
/* The kernel's own, which have no room for files. */
enum { SNIB__FS_PROC = 0x9fa0, SNIB__FS_SYSFS = 0x62656572 };
/* The file system's name if locks may live there, else NULL and *ret_other is
 * what to call it ("NFS", "type 0x…"; text of at least 24 bytes). */
const char *snib__fs_name(uint64_t magic, char *ret_other, size_t size);
/* True only if the process is certainly gone. `thorough` also compares the
 * start time (reads /proc), so that a pid used again is seen through. */
bool snib__host_gone(const struct snib__host *, int64_t pid, int64_t start,
                     int64_t pidns, bool thorough);
/* A pidfd of this process, or -1. */
int snib__host_pidfd(const struct snib__host *, int64_t pid, int64_t pidns);
/* Who has byte `offset` of this file locked for writing: pid, 0: not known.
 * *ret_state: its state letter ('T': stopped) or '?'. */
int64_t snib__host_locker(const char *path, int64_t offset, char *ret_state);
/* A process (it may be this one) has a record lock of this file: its pid, 0:
 * none has. An error: that cannot be told. CONFIG, LIMIT, STORE, NOMEM. */
snib_err snib__host_locked(const char *path, int64_t *ret_pid,
                           struct snib_error *reterr);
/* Of each process with a record lock of `file`: has it one of `beside`, and a
 * flock of the directory? *ret: 0: nobody has `file`; 1: one lacks `beside`, 2:
 * the directory; -1: all have all. Errors as above. */
snib_err snib__host_lockers(const char *file, const char *upgrade_of,
                            const char *dir, int *ret,
                            struct snib_error *reterr);
/* Some other process has a flock of what this descriptor names; in words:
 * "process 4312", "a child of the ended process 4312". False: none is seen. */
#define SNIB__WHO 52
bool snib__host_user_of(int fd, char ret[SNIB__WHO]);
/* When e (of errno) says that something is used up, that is told: of descriptors
 * LIMIT, with the limit that has to be raised, of memory NOMEM, of the disk
 * STORE. Else OK. what: the path that could not be opened or made. */
snib_err snib__host_lacks(int e, const char *what, struct snib_error *);
/* The same, or else these words: STORE where a disk fails, CONFIG. */
snib_err snib__host_cannot(int e, const char *what, struct snib_error *,
                           const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* No file can be made in this directory: no block or no inode is left. */
bool snib__host_is_full(int dir);

/* -- shared.c ----------------------------------------------------------------- */

#define SNIB__SQLITE_REMEDY "use --store sqlite:PATH"
/* Root's default file is here, */
#define SNIB__SQLITE_OF_ROOT "/var/lib/snib"
/* … and that of a group, if root made this directory for it, so: */
#define SNIB__SQLITE_OF_GROUP SNIB__SQLITE_OF_ROOT "/shared"
#define SNIB__SQLITE_MAKE_SHARED                                               \
    "install -d -m 755 " SNIB__SQLITE_OF_ROOT                                  \
    " && install -d -m 2770 -g GROUP " SNIB__SQLITE_OF_GROUP

/* The default file, as snib__sqlite_default_path, but whether the one before it
 * is still used is not asked. */
snib_err snib__shared_default(char *ret, size_t size,
                              struct snib_error *reterr);
/* Is this, which was the default file when its opening began, still that? STORE:
 * it is not, try again. Other errors are those of snib__sqlite_default_path. */
snib_err snib__shared_still(const char *path, struct snib_error *reterr);
/* Is this process in the group? Root is in each. CONFIG, NOMEM: it cannot be
 * told. */
snib_err snib__shared_is_member(gid_t group, bool *ret,
                                struct snib_error *reterr);
/* Has root made this directory for its group? */
bool snib__shared_is_dir(const struct stat *);
/* What whoever has a file of his own does to share one instead. */
void snib__shared_how(char *ret, size_t size);

/* -- lockfile.c ------------------------------------------------------------------ */

/* The file, its -wal, its -shm. */
#define SNIB__FILES 3
/* … and its bells directory. */
#define SNIB__SEEN 4

struct snib__lockfile {
    char *path;           /* real directory + "/" + base                    */
    char *notifiers_path; /* path + "-bells"                                */
    const char *base;     /* in path                                        */
    int dir;              /* O_PATH                                         */
    int notifiers;        /* the bells directory, for flock and addresses   */
    bool is_default;      /* it was the default when its opening began      */
    bool shared;          /* by a group: its directory is                   */
    gid_t group;          /* that one, if shared                            */
    bool alone;           /* files.c: we have the bells locked for us alone */
    uint64_t entered[SNIB__SEEN]; /* inodes seen at entering; 0: any       */
    uint64_t file[SNIB__FILES];   /* those we work in; 0: not joined       */
    char fs[24];                  /* "ext4", for doctor                    */
};

/* Find, check and, if need be, make the file and its bells directory. Errors:
 * CONFIG with the remedy in the text; LIMIT, NOMEM; STORE: the disk is full or
 * fails. */
snib_err snib__lockfile_open(struct snib__lockfile *, const char *path,
                             const struct snib__host *,
                             struct snib_error *reterr);
void snib__lockfile_close(struct snib__lockfile *);
/* Is this the default file of one user? Then others are not excluded. */
bool snib__lockfile_is_sole(const struct snib__lockfile *);
/* Make this file (S_IFREG) or directory (S_IFDIR) if it is not there. */
bool snib__lockfile_make(const struct snib__lockfile *, int dir,
                         const char *name, mode_t type);
/* Why something of it could not be made: e, of errno, in words. */
const char *snib__lockfile_why(const struct snib__lockfile *, int e);
/* Open the bells directory, and make it if it is not there. */
snib_err snib__lockfile_notifiers(struct snib__lockfile *,
                                  struct snib_error *reterr);

/* -- stage.c ------------------------------------------------------------------ */

/* What is made there has this name, until it is moved to its place. */
#define SNIB__STAGED "made"

struct snib__stage {
    int dir;     /* where the directory is, and what is made will be       */
    int fd;      /* O_PATH: the directory                                  */
    mode_t mode; /* with the type of what is made                          */
    char name[64];
};

/* A directory in `dir` that is open to nobody else; false: errno. */
bool snib__stage_open(struct snib__stage *, int dir, mode_t mode);
/* Is it made, it gets its mode and its name, unless that is taken; then the
 * directory is removed. False: errno, and nothing is left. */
bool snib__stage_close(struct snib__stage *, bool made, const char *name);
/* Both, for a file (S_IFREG) or a directory (S_IFDIR) of that mode, whatever
 * the umask: others meet it whole or not at all. */
bool snib__stage_make(int dir, const char *name, mode_t mode);

/* -- files.c ------------------------------------------------------------------ */

/* Why this one must not be used; NULL: it may. */
const char *snib__files_wrong(const struct snib__lockfile *,
                              const struct stat *);
/* Before SQLite opens anything: CONFIG when those who live use other files
 * than the path leads to, STORE when another opening does not end. */
snib_err snib__files_enter(struct snib__lockfile *, snib_instant until,
                           struct snib_error *reterr);
/* Undo it, to enter again: SQLite must have nothing of it open any more. */
void snib__files_leave(struct snib__lockfile *);
/* The paths still lead to what was entered; errors as those of joining. */
snib_err snib__files_still(const struct snib__lockfile *,
                           struct snib_error *reterr);
/* SQLite has opened what was entered: from now on these are ours. CONFIG when
 * the paths lead elsewhere by now and others live, STORE when we are alone. */
snib_err snib__files_join(struct snib__lockfile *, snib_instant until,
                          struct snib_error *reterr);
/* The suffix of one that is no longer at its path; NULL: all are. */
const char *snib__files_moved(const struct snib__lockfile *);

/* -- notifier.c ------------------------------------------------------------------- */

#define SNIB__WATCHES        8
#define SNIB__NOTIFIER_MAGIC "snibbell" /* 8 bytes, without the NUL */

struct snib__watch {
    uint64_t request[2];
    int64_t pid;
    int fd; /* pidfd; -1: free slot                                         */
};

struct snib__notifier {
    pthread_mutex_t mutex; /* all but sender                                */
    int sock, epoll;       /* -1 until made                                 */
    int sender;            /* -1 until made                                 */
    char name[40];         /* in the bells directory                        */
    uint32_t streak, queue_max;
    uint32_t watching;
    struct snib__watch watch[SNIB__WATCHES];
};

/* A bell to ring, and what to tell. */
struct snib__ring {
    char address[108]; /* file name in the bells directory                  */
    uint8_t message[64];
    uint32_t size;
};

typedef enum snib__ring_result {
    SNIB__RING_TOLD, /* or will find out by its poll                        */
    SNIB__RING_DEAD  /* nobody listens there any more                       */
} snib__ring_result;

bool snib__notifier_init(struct snib__notifier *);
/* forked: leave what belongs to the parent. */
void snib__notifier_free(struct snib__notifier *, const struct snib__lockfile *,
                         bool forked);
/* Make the socket, once; on failure the client goes without (polls). */
void snib__notifier_make(struct snib__notifier *, const struct snib__lockfile *,
                         const uint64_t client[2]);
/* What to poll; -1 before snib__notifier_make. */
int snib__notifier_fd(struct snib__notifier *);
snib__ring_result snib__notifier_notify(struct snib__notifier *,
                                        const struct snib__lockfile *,
                                        const struct snib__ring *);
uint32_t snib__notifier_take(struct snib__notifier *, uint64_t (*ids)[2],
                             uint32_t max);
/* Tell this request (by rung) when that process ends. */
void snib__notifier_watch(struct snib__notifier *, const struct snib__host *,
                          const uint64_t request[2], int64_t pid,
                          int64_t pidns);
void snib__notifier_unwatch(struct snib__notifier *, const uint64_t request[2]);
/* Remove sockets of the dead, look at up to max; count what is left. */
uint32_t snib__notifier_tidy(struct snib__notifier *,
                             const struct snib__lockfile *, uint32_t max);

/* -- vfs.c -------------------------------------------------------------------- */

/* sqlite3_open_v2, in a way that never reads, makes or removes a journal. */
int snib__vfs_open(const char *path, sqlite3 **ret, int flags);

/* -- db.c --------------------------------------------------------------------- */

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

struct snib__db {
    sqlite3 *handle;
    const struct snib__lockfile
        *lockfile; /* whose files these are               */
    sqlite3_stmt *st[SNIB__ST_COUNT];
    snib_instant busy_until;  /* patience of the busy handler                */
    snib_instant yield_again; /* before it, the handler sleeps at once      */
    int frames;               /* in the -wal after our last commit           */
    int frames_max, frames_next;
    uint32_t waits; /* times the busy handler slept, for doctor    */
    bool yields;    /* give up for now when somebody wants to fork */
};

snib_err snib__db_open(struct snib__db *, struct snib__lockfile *,
                       const struct snib__host *, snib_duration patience,
                       struct snib_error *reterr);
void snib__db_close(struct snib__db *);
/* schema.c: make or check the tables, join this boot and the files. CONFIG,
 * STORE, NOMEM. *ret_other_boot: not joined, for others of another boot live. */
snib_err snib__schema_check(struct snib__db *, struct snib__lockfile *,
                            const struct snib__host *, bool *ret_other_boot,
                            struct snib_error *reterr);
/* The statement, prepared at its first use; NULL: *ret_rc says why. Whoever
 * steps it resets it. */
sqlite3_stmt *snib__db_st(struct snib__db *, enum snib__stmt, int *ret_rc);
bool snib__db_is_busy(int rc);
/* Take the write lock, waiting until then at most. SQLITE_OK, SQLITE_BUSY or
 * an error. SQLITE_READONLY_DBMOVED: the file is no longer at its path. */
int snib__db_begin(struct snib__db *, snib_instant until);
/* Start a read transaction; needs no lock that a writer could hold. */
int snib__db_begin_read(struct snib__db *);
int snib__db_end_read(struct snib__db *);
int snib__db_commit(struct snib__db *);
void snib__db_rollback(struct snib__db *);
/* After a commit and its bells: empty the -wal if it has grown long. */
void snib__db_empty_wal(struct snib__db *);
/* What an SQLite error means to a caller of ours. */
snib_err snib__db_fail(struct snib__db *, int rc, const char *path,
                       struct snib_error *reterr);
/* Of SQLITE_CORRUPT: the errno with which a page could not be read, or 0. */
int snib__db_unread(struct snib__db *, int rc);
/* The same words for who opens the file: LIMIT or NOMEM where descriptors or
 * memory are used up, STORE where it may work later (another writes and does
 * not end, a disk that is full or fails), else CONFIG. */
snib_err snib__db_fail_open(struct snib__db *, int rc, const char *path,
                            struct snib_error *reterr);
/* room: the bytes, big-endian; must live until the step. */
void snib__db_put_id(sqlite3_stmt *, int column, const uint64_t id[2],
                     uint8_t reserve[16]);
void snib__db_get_id(sqlite3_stmt *, int column, uint64_t ret[2]);

/* -- the instance ---------------------------------------------------------------- */

struct snib__sqlite_notify {
    struct snib__ring ring;
    const struct snib__name *name;
    uint64_t request[2];
    int64_t token;
};

struct snib__sqlite {
    struct snib__link link; /* forked.c                                      */
    struct snib__host host;
    struct snib__lockfile lockfile;
    struct snib__db db;
    struct snib__notifier notifier;
    uint64_t client[2];
    snib_duration patience;
    uint32_t writes; /* transactions, for the cleaner's turn             */
    /* the transaction under way */
    struct snib__book book;
    int rc;             /* first SQLite error in it                       */
    bool want_notifier; /* somebody has to queue and has none yet         */
    bool no_notifier;   /* none could be made                             */
    bool doubt;         /* a commit failed with an I/O error: a later recovery
                       of the log may find it all the same            */
    bool thorough;      /* the asker has waited already                   */
    bool values;        /* the table of values is there                   */
    struct snib__stored_claim
        blocker; /* whom the last asker waits for            */
    /* The name that was looked at last in this transaction. */
    struct {
        const struct snib__name *name; /* NULL: nothing is known            */
        bool has_holder;
        int64_t token, new_token; /* new: to be written with the holder */
        int64_t shares;
        struct snib__params params;
        struct snib__stored_claim holder;
    } here;
    uint32_t ring_count;
    /* From here on nothing is zeroed when the instance is made. */
    struct snib__sqlite_notify ring[SNIB__SQLITE_NOTIFIES];
    struct snib__sqlite_notify dead[SNIB__SQLITE_NOTIFIES];
};

/* As ops->open, with facts given by a test. */
snib_err snib__sqlite_open_on(const struct snib__store_config *,
                              const struct snib__host *, void **ret,
                              struct snib_error *reterr);

/* -- forked.c ------------------------------------------------------------------ */

/* This thread is inside SQLite between the two: nobody forks meanwhile. Not to
 * be nested. */
void snib__forked_in(void);
void snib__forked_out(void);
/* Somebody wants to fork. */
bool snib__forked_waits(void);
/* A connection is about to be opened: in, when OK. In a child the parent's are
 * closed first. Errors: FORKED (when it cannot be done here), NOMEM. */
snib_err snib__forked_open(struct snib__sqlite *, struct snib_error *reterr);
/* Close it, in the parent or in a child, where that can be done. */
void snib__forked_close(struct snib__sqlite *);

/* claim.c */
void snib__sqlite_book(struct snib__sqlite *);
/* Columns of LOCK and of all that select claims; column 15 is about; from
 * SNIB__LOCK_COLUMN on LOCK has the name's token, size, gate and shares. A
 * LOCK row without a holder has NULL in column 0. */
#define SNIB__LOCK_COLUMN 21
void snib__sqlite_read_claim(sqlite3_stmt *, struct snib__stored_claim *ret);
/* A last token or a floor; SNIB__TOKEN_END: what stands there is none. */
int64_t snib__sqlite_token(sqlite3_stmt *, int column);
/* NOT_APPLIED, CORRUPT: because of that. */
void snib__sqlite_no_token(const struct snib__sqlite *, struct snib__request *);
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
