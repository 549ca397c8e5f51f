/* tests/unit/test_sqlite_store.c — the embedded store: what is its own beside
 * the cases that every store passes. Several instances on one file stand for
 * several processes; real ones where a process has to die or stop. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "core/about.h"
#include "store/sqlite/internal.h"
#include "store_cases.h"

static char dir[64], path[128];
static struct snib__host host; /* as the next peer sees it */

static struct snib__sqlite *self_of(int peer)
{
    return kit.peer[peer].inst;
}

static int fresh_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/snib-sqlite-XXXXXX");
    if (!mkdtemp(dir)) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/locks.db", dir);
    snib__host_read(&host);
    return 0;
}

static int remove_dir(void **state)
{
    char command[100];
    close_peers(state);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static snib_err open_at(struct peer *p, const char *where, struct snib_error *e)
{
    struct snib__url url = {.path = (char *)where};
    struct snib__store_config config = {
        .url = &url,
        .out = &p->out,
        .request = snib__ms(300),
        .client = {p->client[0], p->client[1]},
    };
    return snib__sqlite_open_on(&config, &host, &p->inst, e);
}

static void *open_file(struct peer *p)
{
    struct snib_error e = {0};
    if (open_at(p, path, &e)) {
        print_error("open: %s\n", e.text);
    }
    return p->inst;
}

static void advance(int64_t ms)
{
    host.skew_ns += ms * 1000000;
    for (int i = 0; i < PEERS; i++) {
        if (kit.peer[i].inst) {
            self_of(i)->host.skew_ns = host.skew_ns;
        }
    }
}

static snib_instant lease_now(int peer)
{
    return snib__host_lease_now(&self_of(peer)->host);
}

static void sql(const char *text)
{
    sqlite3 *db;
    char *why = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 2000);
    if (sqlite3_exec(db, text, NULL, NULL, &why)) {
        print_error("%s: %s\n", text, why);
        fail();
    }
    sqlite3_close(db);
}

static void refused(const char *where, snib_err err, const char *word)
{
    struct peer p = {.client = {1, 2}};
    struct snib_error e = {0};
    assert_int_equal(open_at(&p, where, &e), err);
    assert_null(p.inst);
    if (!strstr(e.text, word)) {
        print_error("\"%s\" does not say \"%s\"\n", e.text, word);
        fail();
    }
}

/* -- the place ------------------------------------------------------------------ */

static void file_is_made_private_with_its_bells(void **state)
{
    struct stat st;
    char bells[160];
    (void)state;
    open_peers(1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    snprintf(bells, sizeof bells, "%s-bells", path);
    assert_int_equal(stat(bells, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

static void symbolic_link_is_refused(void **state)
{
    char target[160];
    (void)state;
    snprintf(target, sizeof target, "%s/real.db", dir);
    assert_int_equal(symlink(target, path), 0);
    refused(path, SNIB_ERR_CONFIG, "symbolic link");
    assert_int_equal(access(target, F_OK), -1);
}

static void second_hard_link_is_refused(void **state)
{
    char other[160];
    (void)state;
    open_peers(1);
    close_peer(0);
    snprintf(other, sizeof other, "%s/other.db", dir);
    assert_int_equal(link(path, other), 0);
    refused(other, SNIB_ERR_CONFIG, "hard link");
}

static void directory_may_be_reached_by_a_link(void **state)
{
    char link[80], where[120];
    (void)state;
    snprintf(link, sizeof link, "%s-link", dir);
    assert_int_equal(symlink(dir, link), 0);
    snprintf(where, sizeof where, "%s/locks.db", link);
    struct peer p = {.client = {1, 2}};
    struct snib_error e = {0};
    assert_int_equal(open_at(&p, where, &e), SNIB_ERR_OK);
    assert_string_equal(((struct snib__sqlite *)p.inst)->place.path, path);
    kit.ops->free(p.inst);
    unlink(link);
}

static void odd_paths_are_refused_with_a_remedy(void **state)
{
    char where[160];
    (void)state;
    snprintf(where, sizeof where, "%s/", dir);
    refused(where, SNIB_ERR_CONFIG, "does not name a file");
    snprintf(where, sizeof where, "%s/no/locks.db", dir);
    refused(where, SNIB_ERR_CONFIG, "--store sqlite:PATH");
    assert_int_equal(mkdir(path, 0700), 0);
    refused(path, SNIB_ERR_CONFIG, "not a regular file");
}

static void anothers_file_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: needs root to make another's file\n");
        skip();
    }
    open_peers(1);
    close_peer(0);
    assert_int_equal(chown(path, 65534, 65534), 0);
    refused(path, SNIB_ERR_CONFIG, "another user");
}

static void open_bells_directory_is_refused(void **state)
{
    char bells[160];
    (void)state;
    snprintf(bells, sizeof bells, "%s-bells", path);
    assert_int_equal(mkdir(bells, 0777), 0);
    assert_int_equal(chmod(bells, 0777), 0);
    refused(path, SNIB_ERR_CONFIG, "0700");
}

static int as_nobody(void (*body)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (setgid(65534) || setuid(65534)) {
            _exit(9);
        }
        body();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static void try_read_only(void)
{
    struct peer p = {.client = {1, 2}};
    struct snib_error e = {0};
    snib_err err = open_at(&p, path, &e);
    if (err != SNIB_ERR_CONFIG || !strstr(e.text, "--store sqlite:PATH")) {
        dprintf(2, "%d %s\n", (int)err, e.text);
        _exit(1);
    }
}

static void read_only_directory_is_refused(void **state)
{
    (void)state;
    if (geteuid() == 0) {
        assert_int_equal(chmod(dir, 0555), 0);
        assert_int_equal(as_nobody(try_read_only), 0);
    } else {
        assert_int_equal(chmod(dir, 0555), 0);
        refused(path, SNIB_ERR_CONFIG, "--store sqlite:PATH");
    }
    chmod(dir, 0700);
}

static void network_file_systems_are_refused_by_name(void **state)
{
    static const struct {
        uint32_t magic;
        const char *name;
    } bad[] = {{0x6969, "NFS"},
               {0xff534d42, "CIFS"},
               {0x65735546, "FUSE"},
               {0x01021997, "9p"},
               {0x12345678, "type 0x12345678"}};
    static const uint32_t good[] = {0xef53,     0x58465342, 0x9123683e,
                                    0xf2f52010, 0x2fc12fc1, 0x01021994,
                                    0x794c7630};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        host.fs_magic = bad[i].magic;
        refused(path, SNIB_ERR_CONFIG, bad[i].name);
        refused(path, SNIB_ERR_CONFIG, "--store sqlite:PATH");
    }
    assert_int_equal(access(path, F_OK), -1); /* nothing was made there */
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct peer p = {.client = {1, 2}};
        host.fs_magic = good[i];
        assert_int_equal(open_at(&p, path, NULL), SNIB_ERR_OK);
        kit.ops->free(p.inst);
    }
}

static void time_namespace_and_missing_boot_id_are_refused(void **state)
{
    (void)state;
    host.timens = true;
    refused(path, SNIB_ERR_CONFIG, "time namespace");
    host.timens = false;
    host.boot[0] = 0;
    refused(path, SNIB_ERR_CONFIG, "boot_id");
}

static void default_path_does_not_ask_the_environment(void **state)
{
    char a[4096], b[4096];
    (void)state;
    assert_int_equal(snib__sqlite_default_path(a, sizeof a, NULL), 0);
    setenv("HOME", "/nowhere", 1);
    setenv("XDG_STATE_HOME", "/nowhere", 1);
    setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
    assert_int_equal(snib__sqlite_default_path(b, sizeof b, NULL), 0);
    assert_string_equal(a, b);
    if (geteuid() == 0) {
        assert_string_equal(a, "/var/lib/snib/locks.db");
    } else {
        assert_non_null(strstr(a, "/.local/state/snib/locks.db"));
    }
    assert_int_equal(snib__sqlite_default_path(a, 4, NULL), SNIB_ERR_CONFIG);
}

/* -- the file ---------------------------------------------------------------------- */

static void foreign_database_is_left_as_it_is(void **state)
{
    struct stat before, after;
    (void)state;
    sql("CREATE TABLE meta(a, b); INSERT INTO meta VALUES(1, 2)");
    assert_int_equal(stat(path, &before), 0);
    refused(path, SNIB_ERR_CONFIG, "another program");
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_int_equal(before.st_mtime, after.st_mtime);
}

static void text_file_is_refused(void **state)
{
    char text[4096];
    (void)state;
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    memset(text, 'x', sizeof text);
    assert_int_equal(write(fd, text, sizeof text), sizeof text);
    close(fd);
    refused(path, SNIB_ERR_CONFIG, "not a lock file");
}

static void newer_schema_is_refused(void **state)
{
    (void)state;
    open_peers(1);
    close_peer(0);
    sql("UPDATE meta SET value = 2 WHERE key = 'snib'");
    refused(path, SNIB_ERR_CONFIG, "schema 2");
}

static void damage_is_reported_as_corrupt(void **state)
{
    struct snib__name n = name_of("damage");
    (void)state;
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    assert_int_equal(a.answer, SNIB__DONE);
    sql("DROP TABLE lock");
    struct snib__request v = turn_into(&a, SNIB__RENEW);
    assert_int_equal(run(0, &v), SNIB__NOT_APPLIED);
    assert_int_equal(v.err, SNIB_ERR_CORRUPT);
}

static void removed_file_is_noticed(void **state)
{
    struct snib__name n = name_of("moved");
    (void)state;
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    assert_int_equal(unlink(path), 0);
    struct snib__request v = turn_into(&a, SNIB__RENEW);
    assert_int_equal(run(0, &v), SNIB__NOT_APPLIED);
    assert_int_equal(v.err, SNIB_ERR_STORE);
    assert_non_null(strstr(v.reterr->text, "removed or replaced"));
}

static void disk_full_changes_nothing_and_passes(void **state)
{
    char big[160];
    (void)state;
    if (geteuid() != 0 || mount("none", dir, "tmpfs", 0, "size=400k") != 0) {
        print_message("skipped: needs root to mount a small tmpfs\n");
        skip();
    }
    static char text[400][24];
    static struct snib__name names[400];
    static struct snib__request r[400];
    int full = -1;
    open_peers(1);
    for (int i = 0; i < 400 && full < 0; i++) {
        snprintf(text[i], sizeof text[i], "full-%d", i);
        names[i] = name_of(text[i]);
        r[i] = acquire(0, &names[i]);
        if (r[i].answer != SNIB__DONE) {
            full = i;
        }
        if (i == 20) { /* somebody else fills the disk */
            snprintf(big, sizeof big, "%s/big", dir);
            int fd = open(big, O_WRONLY | O_CREAT, 0600);
            while (write(fd, dir, sizeof dir) > 0) {
                continue;
            }
            close(fd);
        }
    }
    assert_true(full > 20);
    assert_int_equal(r[full].answer, SNIB__NOT_APPLIED);
    assert_int_equal(r[full].err, SNIB_ERR_STORE);
    assert_non_null(strstr(r[full].reterr->text, "no space"));
    for (int i = 0; i < full; i++) { /* all are there, and readable */
        assert_int_equal(look(0, &names[i], SNIB__ROW_HOLDER, NULL), 1);
    }
    assert_int_equal(look(0, &names[full], SNIB__ROW_HOLDER, NULL), 0);
    unlink(big);
    r[full].answer = SNIB__PENDING;
    r[full].token = 0;
    assert_int_equal(run(0, &r[full]), SNIB__DONE);
    assert_int_equal(end(0, &r[0]), SNIB__DONE);
    close_peer(0);
    umount2(dir, MNT_DETACH);
}

/* -- boot ---------------------------------------------------------------------------- */

static void another_boot_ends_all_claims_and_keeps_tokens(void **state)
{
    struct snib__name n = name_of("boot");
    int64_t shown = 0;
    (void)state;
    open_peers(1);
    struct snib__request a = request(SNIB__ACQUIRE, &n);
    a.room = 31;
    run(0, &a);
    close_peer(0);
    snprintf(host.boot, sizeof host.boot, "11111111-another-boot");
    host.skew_ns -= snib__host_now().ns - 40000000000; /* 40 s after boot */
    open_peers(1);
    assert_int_equal(look(0, &n, SNIB__ROW_HOLDER, NULL), 0);
    look(0, &n, SNIB__ROW_LOCK, &shown);
    assert_int_equal(shown, a.token + 31);
    struct snib__request b = acquire(0, &n);
    assert_int_equal(b.answer, SNIB__DONE);
    assert_true(b.token > a.token + 31);
}

static void another_boot_id_while_in_use_is_refused(void **state)
{
    struct snib__name n = name_of("lxc");
    struct timespec from, to;
    (void)state;
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    snprintf(host.boot, sizeof host.boot, "22222222-a-container");
    clock_gettime(CLOCK_MONOTONIC, &from);
    struct peer p = {.client = {8, 8}};
    struct snib__url url = {.path = path};
    struct snib__place place;
    struct snib__db db;
    struct snib_error e = {0};
    (void)url;
    assert_int_equal(snib__place_open(&place, path, &host, &e), 0);
    assert_int_equal(snib__db_open(&db, &place, &host, snib__ms(50), &e),
                     SNIB_ERR_CONFIG);
    snib__place_close(&place);
    assert_non_null(strstr(e.text, "boot id"));
    clock_gettime(CLOCK_MONOTONIC, &to);
    assert_true(to.tv_sec - from.tv_sec < 3);
    assert_null(p.inst);
    struct snib__request v = turn_into(&a, SNIB__RENEW);
    assert_int_equal(run(0, &v), SNIB__DONE);
}

/* -- tokens --------------------------------------------------------------------------- */

static void tokens_rise_though_the_clock_goes_back(void **state)
{
    struct snib__name n = name_of("clock"), m = name_of("clock-2");
    int64_t last = 0;
    (void)state;
    host.wall_skew_ms = 2 * 86400000;
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    last = a.token;
    end(0, &a);
    self_of(0)->host.wall_skew_ms = -INT64_C(30) * 365 * 86400000; /* 1996 */
    for (int i = 0; i < 5; i++) {
        struct snib__request b = acquire(0, &n);
        assert_true(b.token > last);
        last = b.token;
        end(0, &b);
    }
    /* A floor from before the clock went back is honoured (H20). */
    struct snib__request c = request(SNIB__ACQUIRE, &m);
    c.floor = last;
    assert_int_equal(run(0, &c), SNIB__DONE);
    assert_int_equal(c.token, last + 1);
    self_of(0)->host.wall_skew_ms = INT64_C(400) * 365 * 86400000;
    end(0, &c);
    struct snib__request d = request(SNIB__ACQUIRE, &m);
    assert_int_equal(run(0, &d), SNIB__NOT_APPLIED); /* beyond 2^53 */
    assert_int_equal(d.err, SNIB_ERR_CONFIG);
}

static void broom_forgets_old_names_but_not_their_tokens(void **state)
{
    struct snib__name n = name_of("swept"), m = name_of("held");
    int64_t shown = -1;
    (void)state;
    host.wall_skew_ms = 0;
    open_peers(1);
    struct snib__request a = acquire(0, &n), b = acquire(0, &m);
    end(0, &a);
    snib__sqlite_broom(self_of(0));
    look(0, &n, SNIB__ROW_LOCK, &shown);
    assert_int_equal(shown, a.token); /* too young */
    self_of(0)->host.wall_skew_ms = 2 * 86400000;
    snib__sqlite_broom(self_of(0));
    look(0, &n, SNIB__ROW_LOCK, &shown);
    assert_int_equal(shown, 0);
    assert_int_equal(look(0, &m, SNIB__ROW_HOLDER, NULL), 1);
    self_of(0)->host.wall_skew_ms = -2 * 86400000;
    struct snib__request c = acquire(0, &n);
    assert_true(c.token > a.token);
    end(0, &b);
    end(0, &c);
    /* Claims of the dead on names that nobody asks for again. */
    struct snib__name dead = name_of("dead");
    struct snib__request d = acquire(0, &dead);
    assert_int_equal(d.answer, SNIB__DONE);
    advance(SNIB__ASIDE_MS + 2000);
    self_of(0)->host.wall_skew_ms = 2 * 86400000;
    snib__sqlite_broom(self_of(0));
    sqlite3_stmt *st;
    sqlite3_prepare_v2(self_of(0)->db.handle,
                       "SELECT (SELECT count(*) FROM claim) + "
                       "(SELECT count(*) FROM lock)",
                       -1, &st, NULL);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(st, 0), 0);
    sqlite3_finalize(st);
}

/* -- bells and processes ---------------------------------------------------------------- */

static int bell_count(void)
{
    struct snib__sqlite *s = self_of(0);
    return (int)snib__bell_tidy(&s->bell, &s->place, 1000);
}

static void bell_is_made_when_first_queued_and_removed_at_the_end(void **state)
{
    struct snib__name n = name_of("lazy");
    (void)state;
    open_peers(2);
    struct snib__request a = acquire(0, &n);
    assert_int_equal(kit.ops->bell_fd(kit.peer[0].inst), -1);
    struct snib__request b = acquire(1, &n);
    assert_int_equal(b.answer, SNIB__QUEUED);
    assert_true(kit.ops->bell_fd(kit.peer[1].inst) >= 0);
    assert_int_equal(bell_count(), 1);
    struct pollfd p = {.fd = kit.ops->bell_fd(kit.peer[1].inst),
                       .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 0);
    end(0, &a);
    assert_int_equal(poll(&p, 1, 1000), 1);
    assert_true(is_rung(1, &b));
    assert_int_equal(poll(&p, 1, 0), 0);
    close_peer(1);
    assert_int_equal(bell_count(), 0);
}

/* As kill -9 leaves it: the socket is closed, its file is there. */
static void kill_bell(int peer)
{
    struct snib__bell *b = &self_of(peer)->bell;
    close(b->sock);
    b->sock = -1;
}

static void dead_waiters_are_removed_and_the_next_is_granted(void **state)
{
    struct snib__name n = name_of("dead-bell");
    char bell[300];
    (void)state;
    open_peers(5);
    struct snib__request a = acquire(0, &n), w[5];
    for (int i = 1; i < 5; i++) {
        w[i] = acquire(i, &n);
    }
    for (int i = 1; i < 4; i++) {
        kill_bell(i);
    }
    snprintf(bell, sizeof bell, "%s/%s", self_of(1)->place.bells_path,
             self_of(1)->bell.name);
    assert_int_equal(access(bell, F_OK), 0);
    assert_int_equal(end(0, &a), SNIB__DONE);
    assert_true(is_rung(4, &w[4]));
    assert_int_equal(poll_again(4, &w[4]), SNIB__DONE);
    assert_int_equal(access(bell, F_OK), -1);
    assert_int_equal(look(0, &n, SNIB__ROW_WAITER, NULL), 0);
}

static void full_bell_counts_as_told_and_means_all(void **state)
{
    struct snib__name n = name_of("flood");
    uint64_t ids[4][2];
    (void)state;
    open_peers(2);
    struct snib__request a = acquire(0, &n), b = acquire(1, &n);
    struct snib__bell *bell = &self_of(1)->bell;
    struct snib__ring ring = {.size = 64};
    memcpy(ring.address, bell->name, sizeof bell->name);
    memcpy(ring.message, SNIB__BELL_MAGIC, 8);
    for (uint32_t i = 0; i < bell->queue_max + 5; i++) {
        assert_int_equal(
            snib__bell_ring(&self_of(0)->bell, &self_of(0)->place, &ring),
            SNIB__RING_TOLD);
    }
    end(0, &a); /* this bell does not fit any more */
    uint32_t got;
    bool all = false;
    while ((got = kit.ops->rung(kit.peer[1].inst, ids, 4)) && !all) {
        all = got > 4;
    }
    assert_true(all);
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
}

static void junk_in_the_bell_is_ignored(void **state)
{
    struct snib__name n = name_of("junk");
    uint64_t ids[4][2];
    (void)state;
    open_peers(2);
    struct snib__request a = acquire(0, &n), b = acquire(1, &n);
    struct snib__ring ring = {.size = 64};
    memcpy(ring.address, self_of(1)->bell.name, sizeof self_of(1)->bell.name);
    snib__bell_ring(&self_of(0)->bell, &self_of(0)->place, &ring);
    ring.size = 3;
    snib__bell_ring(&self_of(0)->bell, &self_of(0)->place, &ring);
    assert_int_equal(kit.ops->rung(kit.peer[1].inst, ids, 4), 0);
    assert_int_equal(poll_again(1, &b), SNIB__QUEUED);
    end(0, &a);
}

/* A process of its own that acquires n, tells, and then sits there. */
static pid_t holder_process(const struct snib__name *n, const char *about)
{
    int fds[2];
    char ok = 0;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct peer p = {.client = {0xdead, (uint64_t)getpid()}};
        memset(&kit.peer[0], 0, sizeof kit.peer[0]);
        snib__host_read(&host);
        kit.peer[0] = p;
        if (!open_file(&kit.peer[0])) {
            _exit(1);
        }
        struct snib__request r = request(SNIB__ACQUIRE, n);
        r.lease = snib__ms(60000);
        r.text = about;
        r.text_size = (uint32_t)strlen(about);
        r.id[1] = (uint64_t)getpid();
        run(0, &r);
        ok = r.answer == SNIB__DONE;
        if (write(fds[1], &ok, 1) != 1) {
            _exit(1);
        }
        for (;;) {
            pause();
        }
    }
    assert_int_equal(read(fds[0], &ok, 1), 1);
    assert_int_equal(ok, 1);
    close(fds[0]);
    close(fds[1]);
    return pid;
}

static void kill_and_reap(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

static void killed_holders_lock_is_taken_over_at_once(void **state)
{
    struct snib__name n = name_of("killed");
    (void)state;
    pid_t pid = holder_process(&n, "host=h&pid=1");
    open_peers(2);
    struct snib__request a = acquire(0, &n);
    assert_int_equal(a.answer, SNIB__QUEUED);
    struct pollfd p = {.fd = kit.ops->bell_fd(kit.peer[0].inst),
                       .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 0);
    kill_and_reap(pid);
    assert_int_equal(poll(&p, 1, 5000), 1); /* the pidfd */
    assert_true(is_rung(0, &a));
    assert_int_equal(poll(&p, 1, 0), 0); /* once */
    assert_int_equal(poll_again(0, &a), SNIB__DONE);
    struct snib__request t = request(SNIB__ACQUIRE, &n);
    t.may_queue = false;
    assert_int_equal(run(1, &t), SNIB__NO);
}

static void try_takes_over_from_the_dead_too(void **state)
{
    struct snib__name n = name_of("killed-2");
    (void)state;
    pid_t pid = holder_process(&n, "host=h&pid=1");
    open_peers(1);
    struct snib__request t = request(SNIB__ACQUIRE, &n);
    t.may_queue = false;
    assert_int_equal(run(0, &t), SNIB__NO);
    kill_and_reap(pid);
    assert_int_equal(run(0, &t), SNIB__DONE);
}

static void leashed_holder_is_not_taken_over(void **state)
{
    struct snib__name n = name_of("leashed");
    struct snib__about about = {.pid = 1, .leashed = true};
    struct snib__buf text;
    (void)state;
    snib__buf_init(&text, 1000);
    snib__about_write(&about, &text);
    pid_t pid = holder_process(&n, snib__buf_text(&text));
    snib__buf_free(&text);
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    kill_and_reap(pid);
    assert_int_equal(poll_again(0, &a), SNIB__QUEUED);
}

static void process_of_another_pid_namespace_is_never_gone(void **state)
{
    struct snib__name n = name_of("pidns");
    (void)state;
    pid_t pid = holder_process(&n, "host=h&pid=1");
    host.pidns++;
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    kill_and_reap(pid);
    assert_int_equal(poll_again(0, &a), SNIB__QUEUED);
}

static void reused_pid_is_seen_through_by_its_start(void **state)
{
    (void)state;
    assert_true(host.start > 0);
    assert_false(snib__host_gone(&host, getpid(), host.start, host.pidns, 1));
    assert_true(
        snib__host_gone(&host, getpid(), host.start - 1, host.pidns, 1));
    assert_false(
        snib__host_gone(&host, getpid(), host.start - 1, host.pidns, 0));
    assert_false(snib__host_gone(&host, 0, 0, 0, 1));
}

static void stopped_writer_is_named_after_the_limit(void **state)
{
    struct snib__name n = name_of("frozen");
    int fds[2];
    char c;
    char pid_text[24];
    (void)state;
    open_peers(1);
    struct snib__request held = acquire(0, &n);
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        sqlite3 *db;
        sqlite3_open(path, &db);
        sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
        if (write(fds[1], "x", 1) != 1) {
            _exit(1);
        }
        raise(SIGSTOP);
        _exit(0);
    }
    assert_int_equal(read(fds[0], &c, 1), 1);
    int status;
    waitpid(pid, &status, WUNTRACED);
    /* Far from its limit: pending, to come again. Past it: refused. */
    struct snib__request v = turn_into(&held, SNIB__RENEW);
    v.patience = v.limit = snib__after(snib__host_now(), snib__ms(60000));
    assert_int_equal(run(0, &v), SNIB__PENDING);
    v.patience = v.limit = snib__after(snib__host_now(), snib__ms(30));
    assert_int_equal(run(0, &v), SNIB__NOT_APPLIED);
    assert_int_equal(v.err, SNIB_ERR_STORE);
    snprintf(pid_text, sizeof pid_text, "process %d (stopped)", (int)pid);
    if (!strstr(v.reterr->text, pid_text)) {
        print_error("%s\n", v.reterr->text);
        fail();
    }
    /* Looking is possible all the while. */
    assert_int_equal(look(0, &n, SNIB__ROW_HOLDER, NULL), 1);
    assert_int_equal(list_count(0, NULL), 1);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    v.patience = v.limit = SNIB__NEVER;
    assert_int_equal(run(0, &v), SNIB__DONE);
}

static void forked_child_frees_without_touching_the_file(void **state)
{
    struct snib__name n = name_of("fork");
    int status;
    (void)state;
    open_peers(2);
    struct snib__request a = acquire(0, &n), b = acquire(1, &n);
    pid_t pid = fork();
    if (pid == 0) {
        kit.ops->free(kit.peer[0].inst);
        kit.ops->free(kit.peer[1].inst);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(end(0, &a), SNIB__DONE);
    assert_true(is_rung(1, &b)); /* its socket file is still there */
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
}

static void one_client_closing_leaves_the_others_locks_alone(void **state)
{
    struct snib__name n = name_of("posix-locks");
    int status;
    (void)state;
    /* The trap of internal.h: close() of any descriptor of the file would
     * drop this process' record locks, and the other process would see no
     * writer. */
    open_peers(2);
    struct snib__sqlite *s = self_of(0);
    assert_int_equal(snib__db_begin(&s->db, SNIB__NEVER), SQLITE_OK);
    close_peer(1);
    struct peer extra = {.client = {5, 5}};
    assert_int_equal(open_at(&extra, path, NULL), SNIB_ERR_OK);
    kit.ops->free(extra.inst);
    pid_t pid = fork();
    if (pid == 0) {
        sqlite3 *db;
        sqlite3_open(path, &db);
        _exit(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL));
    }
    waitpid(pid, &status, 0);
    assert_int_equal(WEXITSTATUS(status), SQLITE_BUSY);
    snib__db_rollback(&s->db);
    struct snib__request a = acquire(0, &n);
    assert_int_equal(a.answer, SNIB__DONE);
}

static pid_t opener_process(uint64_t i)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct peer p = {.client = {i, (uint64_t)getpid()}};
        struct snib_error e = {0};
        if (open_at(&p, path, &e)) {
            dprintf(2, "open: %s\n", e.text);
            _exit(1);
        }
        kit.ops->free(p.inst);
        _exit(0);
    }
    return pid;
}

/* Everybody makes the file at once, and some are killed at it. (SQLite says
 * "busy" at once, without waiting, where two want to make a file WAL.) */
static void first_opens_race_each_other_and_kill(void **state)
{
    enum { N = 20, KILLS = 12, ROUNDS = 12 };
    uint64_t seed = 99;
    pid_t pid[N];
    int status;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        remove_dir(NULL);
        assert_int_equal(fresh_dir(NULL), 0);
        for (int i = 0; i < N; i++) {
            pid[i] = opener_process((uint64_t)i + 1);
        }
        for (int k = 0; k < KILLS; k++) {
            int i = (int)(dice(&seed) % N);
            usleep(dice(&seed) % 1500);
            kill(pid[i], SIGKILL);
            waitpid(pid[i], &status, 0);
            pid[i] = opener_process((uint64_t)(100 + k));
        }
        for (int i = 0; i < N; i++) {
            waitpid(pid[i], &status, 0);
            assert_int_equal(status, 0);
        }
        open_peers(1);
        struct snib__name n = name_of("after");
        assert_int_equal(acquire(0, &n).answer, SNIB__DONE);
        close_peer(0);
    }
}

static void urls_with_more_than_a_path_are_refused(void **state)
{
    struct peer p = {.client = {1, 2}};
    struct snib__url url = {.path = path, .host = (char[]){"h"}};
    struct snib__store_config config = {.url = &url, .request = snib__ms(100)};
    (void)state;
    assert_int_equal(kit.ops->open(&config, &p.inst, NULL), SNIB_ERR_USAGE);
    url.host = NULL;
    url.queries = 1;
    url.query[0].key = (char[]){"mode"};
    assert_int_equal(kit.ops->open(&config, &p.inst, NULL), SNIB_ERR_USAGE);
}

static void no_memory_at_open_leaves_nothing(void **state)
{
    (void)state;
    for (int64_t nth = 1; nth < 8; nth++) {
        struct peer p = {.client = {1, 2}};
        snib__mem_fail_at(nth, true);
        snib_err err = open_at(&p, path, NULL);
        snib__mem_fail_at(0, false);
        assert_true(err == SNIB_ERR_OK || err == SNIB_ERR_NOMEM);
        kit.ops->free(p.inst);
    }
}

#undef CASE
#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh_dir, remove_dir)

int main(void)
{
    kit.ops = &snib__sqlite_ops;
    kit.open = open_file;
    kit.advance = advance;
    kit.now = lease_now;
    const struct CMUnitTest cases[] = {
        STORE_CASES,
        CASE(file_is_made_private_with_its_bells),
        CASE(symbolic_link_is_refused),
        CASE(second_hard_link_is_refused),
        CASE(directory_may_be_reached_by_a_link),
        CASE(odd_paths_are_refused_with_a_remedy),
        CASE(anothers_file_is_refused),
        CASE(open_bells_directory_is_refused),
        CASE(read_only_directory_is_refused),
        CASE(network_file_systems_are_refused_by_name),
        CASE(time_namespace_and_missing_boot_id_are_refused),
        CASE(default_path_does_not_ask_the_environment),
        CASE(foreign_database_is_left_as_it_is),
        CASE(text_file_is_refused),
        CASE(newer_schema_is_refused),
        CASE(damage_is_reported_as_corrupt),
        CASE(removed_file_is_noticed),
        CASE(disk_full_changes_nothing_and_passes),
        CASE(another_boot_ends_all_claims_and_keeps_tokens),
        CASE(another_boot_id_while_in_use_is_refused),
        CASE(tokens_rise_though_the_clock_goes_back),
        CASE(broom_forgets_old_names_but_not_their_tokens),
        CASE(bell_is_made_when_first_queued_and_removed_at_the_end),
        CASE(dead_waiters_are_removed_and_the_next_is_granted),
        CASE(full_bell_counts_as_told_and_means_all),
        CASE(junk_in_the_bell_is_ignored),
        CASE(killed_holders_lock_is_taken_over_at_once),
        CASE(try_takes_over_from_the_dead_too),
        CASE(leashed_holder_is_not_taken_over),
        CASE(process_of_another_pid_namespace_is_never_gone),
        CASE(reused_pid_is_seen_through_by_its_start),
        CASE(stopped_writer_is_named_after_the_limit),
        CASE(forked_child_frees_without_touching_the_file),
        CASE(one_client_closing_leaves_the_others_locks_alone),
        CASE(first_opens_race_each_other_and_kill),
        CASE(urls_with_more_than_a_path_are_refused),
        CASE(no_memory_at_open_leaves_nothing),
    };
    return RUN(cases);
}
