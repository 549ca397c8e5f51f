/* tests/unit/test_sqlite_same.c — the embedded store as it is shipped, against
 * a host of the test's: see same.h, sqlite_world.h.
 *
 * Several clients on one lock file that lies in a tree of the test's, over
 * SQLite itself. A line is each call of libc and of SQLite, each answer, and
 * behind each move all rows, files and descriptors. `unit.sqlite_same --run N`
 * shows run N.
 * wraps: open read close readlink fopen poll fork write waitpid _exit
 * wraps: stat lstat fstatat fstat realpath faccessat geteuid getegid getgroups
 * wraps: getpwuid_r getgrgid_r getgrouplist mkdir mkdirat mknodat fchmodat
 * wraps: renameat renameat2 unlinkat symlinkat readlinkat statfs fstatvfs
 * wraps: statx fstatfs kill getcwd __getcwd_chk
 * wraps: openat flock clock_gettime nanosleep sched_yield getpid syscall
 * wraps: socket bind connect sendto recv epoll_create1 epoll_ctl epoll_wait
 * wraps: fdopendir readdir closedir pthread_atfork snib__forked_waits
 * wraps: __getgroups_chk __readlinkat_chk __read_chk __readlink_chk __poll_chk
 * wraps: __recv_chk sqlite3_step sqlite3_prepare_v2 sqlite3_prepare_v3
 * wraps: sqlite3_reset sqlite3_clear_bindings
 * wraps: sqlite3_exec sqlite3_open_v2 sqlite3_close sqlite3_errcode
 * wraps: sqlite3_errmsg sqlite3_extended_errcode sqlite3_system_errno
 * wraps: sqlite3_file_control sqlite3_db_config sqlite3_busy_handler
 * wraps: sqlite3_wal_hook sqlite3_wal_checkpoint_v2 sqlite3_column_text */
#include "sqlite_probes.h"
#include "store/sqlite/internal.h"

enum { RUNS_MAX = 1000, MOVES = 45 };

#define WALL_MS INT64_C(1790000000000)

/* -- what is there at first ---------------------------------------------------------- */

static void make_places(void)
{
    static const unsigned modes[] = {0700,  0700, 0755, 0777,
                                     01777, 0770, 02770};
    make_dir("/", 0755, 0, 0);
    make_dir("/v", modes[pick("mode of it", COUNT_OF(modes))],
             chance("anybody's", 3) ? 0 : w.uid,
             chance("group", 2) ? 50 : w.gid);
    snprintf(make_file("/v/link", S_IFLNK | 0777)->to, 10, "/v");
    make_dir("/var", 0755, 0, 0);
    make_dir("/var/lib", 0755, 0, 0);
    if (chance("of root", 2)) {
        make_dir("/var/lib/snib", chance("open", 6) ? 0777 : 0755,
                 chance("not root's", 8) ? 7 : 0, 0);
        if (chance("of a group", 2)) {
            make_dir("/var/lib/snib/shared",
                     chance("not shared", 4) ? modes[pick("mode", 7)] : 02770,
                     chance("not root's", 8) ? 7 : 0,
                     chance("other group", 3) ? 60 : 50);
        }
    }
    make_dir("/home", 0755, 0, 0);
    make_dir("/home/anna", 0755, w.uid, w.gid);
}

static void make_user(void)
{
    static const unsigned masks[] = {022, 077, 0, 027};
    w.uid = chance("root", 3) ? 0 : 1000;
    w.gid = w.uid ? 100 : 0;
    w.group_count = (int)pick("groups", 4);
    static const gid_t groups[] = {20, 50, 60};
    int first = (int)pick("first group", 3);
    for (int i = 0; i < 3; i++) {
        w.groups[i] = groups[(first + i) % 3];
    }
    w.umask = masks[pick("umask", 4)];
}

/* The limit that is told where descriptors are used up. */
static void limit_descriptors(void)
{
    struct rlimit may;
    assert_return_code(getrlimit(RLIMIT_NOFILE, &may), 0);
    may.rlim_cur = 500;
    assert_return_code(setrlimit(RLIMIT_NOFILE, &may), 0);
}

static void make_world(void)
{
    static const char *const files[][2] = {
        {"/v/locks.db", "/v/locks.db"},
        {"/v/locks.db", "/v/locks.db"},
        {"/v/link/locks.db", "/v/locks.db"},
        {"", "/home/anna/.local/state/snib/locks.db"},
        {"", "/var/lib/snib/shared/locks.db"},
        {"", "/var/lib/snib/locks.db"}};
    static const char *const texts[NAMES] = {"a", "ab", "b}c", "d"};
    static const int frames[] = {1, 0, 40, 130, 1000};
    static const uint64_t magics[] = {0xef53, 0x58465342, 0x9123683e, 0x6969};
    size_t which = pick("place", COUNT_OF(files));
    main_path = files[which][0];
    real_path = files[which][1];
    w.now = 5000 * S;
    w.wall_ms = WALL_MS;
    w.pid = SELF;
    w.pidns = 77;
    w.magic = magics[chance("other file system", 4) ? pick("magic", 4) : 0];
    frames_each = frames[pick("frames", COUNT_OF(frames))];
    for (int i = 0; i < NAMES; i++) {
        names[i] = (struct snib__name){.raw = texts[i],
                                       .safe = texts[i],
                                       .raw_size = (uint32_t)strlen(texts[i]),
                                       .safe_size = (uint32_t)strlen(texts[i])};
    }
    limit_descriptors();
    make_user();
    make_places();
    begin_processes();
    begin_vfs();
}

/* -- all that is there behind a move ---------------------------------------------------- */

/* Only if it is not as it was. */
static uint64_t at_first(void)
{
    uint64_t before = same.number;
    same.number = 1;
    return before;
}

static bool has_changed(uint64_t *last, uint64_t before)
{
    uint64_t now = same.number;
    bool changed = now != *last;
    same.number = before;
    *last = now;
    if (changed) {
        tell("%016llx", (unsigned long long)now);
    }
    return changed;
}

static void stir_table(int which)
{
    static const char *const queries[TABLES] = {
        "SELECT * FROM lock ORDER BY name", "SELECT * FROM claim ORDER BY id",
        "SELECT * FROM value ORDER BY name", "SELECT * FROM meta ORDER BY key"};
    sqlite3_stmt **st = &stranger.tables[which];
    int rc = SQLITE_OK;
    if (!*st) {
        rc = real_prepare(stranger.db, queries[which], -1, 0, st, NULL);
    }
    while (*st && (rc = real_step(*st)) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(*st); i++) {
            const char *bytes = sqlite3_column_blob(*st, i);
            int size = sqlite3_column_bytes(*st, i);
            int shape[] = {size, sqlite3_column_type(*st, i)};
            same_stir((const char *)shape, sizeof shape);
            same_stir(bytes, (size_t)size);
        }
    }
    __real_sqlite3_reset(*st);
    same_stir((const char *)&rc, sizeof rc);
}

static void tell_rows(void)
{
    static uint64_t last[TABLES];
    for (int i = 0; i < TABLES; i++) {
        if (!stranger.writes && stranger_comes()) {
            uint64_t before = at_first();
            stir_table(i);
            if (has_changed(&last[i], before)) {
                tell("is now in table %d", i);
            }
        }
    }
}

__attribute__((format(printf, 1, 2))) static void stir_text(const char *format,
                                                            ...)
{
    char line[400];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    same_stir(line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
}

static void tell_files(void)
{
    static uint64_t last;
    uint64_t before = at_first();
    for (int i = 0; i < ENTRIES; i++) {
        const struct node *n = w.entries[i].node;
        if (w.entries[i].path[0]) {
            stir_text("%s %o %d:%d %u %d, %d%d", w.entries[i].path,
                      (unsigned)n->mode, (int)n->uid, (int)n->gid, n->links,
                      (int)n->ino, n->unread, n->heard);
        }
    }
    for (int i = 0; i < FDS; i++) {
        if (w.fds[i].is != FD_CLOSED) {
            stir_text("%s, flock %d", fd_text(i + FIRST_FD), w.fds[i].flock);
        }
    }
    if (has_changed(&last, before)) {
        tell("are now the files");
    }
}

/* -- a run -------------------------------------------------------------------------------- */

static void time_passes(void)
{
    static const int64_t ms[] = {1, 50, 400, 1100, 3000, 9000, 61000, 400000};
    w.now += ms[pick("passes", COUNT_OF(ms))] * MS;
    if (chance("clock is set", 6)) {
        static const int64_t days[] = {-2, 2, 40, 1, -1};
        w.wall_ms += days[pick("days", COUNT_OF(days))] * INT64_C(86400000);
    } else if (chance("clock is mad", 60)) { /* beyond what tokens can be */
        w.wall_ms = w.wall_ms > 4 * WALL_MS ? WALL_MS : 9000000000000;
    }
}

static void hear(void)
{
    static const uint32_t rooms[] = {0, 1, 2, 16, 16};
    uint64_t ids[16][2];
    int i = any_client();
    if (chance("somebody ends", 4)) {
        process_changes();
    }
    if (i >= 0) {
        uint32_t reserve = rooms[pick("room", COUNT_OF(rooms))];
        int fd = snib__sqlite_ops.notifier_fd(clients[i].inst);
        uint32_t n = snib__sqlite_ops.notified(clients[i].inst, ids, reserve);
        tell("client %d hears %d at %s, %u unread before", i, (int)n,
             fd_text(fd), clients[i].inst->notifier.streak);
        assert_true(n == UINT32_MAX || n <= reserve);
        same_stir((const char *)ids, n <= reserve ? n * sizeof *ids : 0);
    }
}

static void long_lived(void)
{
    static const uint32_t writes[] = {SNIB__SQLITE_LONG_LIVED - 1, 4095, 4094};
    int i = any_client();
    if (i >= 0) {
        clients[i].inst->writes = writes[pick("writes", COUNT_OF(writes))];
    }
}

static void something_strange(void)
{
    static const int deeds[] = {0, 0, 0, 1, 1, 2, 3, 3, 4, 5, 6, 7};
    switch (deeds[pick("strange", COUNT_OF(deeds))]) {
    case 0:
        strange_rows();
        break;
    case 1:
        stranger_writes();
        break;
    case 2:
        strange_file();
        break;
    case 3:
        process_changes();
        break;
    case 4:
        for (int i = 0; i < ENTRIES; i++) {
            if (w.entries[i].path[0] && S_ISSOCK(w.entries[i].node->mode)) {
                strange_message(w.entries[i].node);
            }
        }
        break;
    case 5:
        w.outside = (int)pick("outside", 3);
        break;
    case 6:
        process_forks();
        break;
    default:
        long_lived();
    }
}

static void go_and_come(void)
{
    if (chance("all go", 3)) {
        for (int i = 0; i < CLIENTS; i++) {
            client_goes(i);
        }
    } else {
        client_goes((int)pick("goer", CLIENTS));
    }
    client_comes();
}

/* More of what this run is about. */
static void move_of_theme(void)
{
    switch (theme) {
    case ALL:
        probe();
        break;
    case VALUES:
        if (chance("strange", 5)) {
            strange_value();
        } else {
            ask_other();
        }
        break;
    case DAMAGE:
        strange_rows();
        break;
    case QUEUES:
        if (chance("a crowd", 40)) {
            many_wait();
        } else if (chance("hears", 3)) {
            hear();
        } else if (chance("acquires", 2)) {
            acquire_one();
        } else {
            with_mine();
        }
        break;
    case FILES:
        if (chance("deed", 3)) {
            strange_file();
        } else {
            go_and_come();
        }
        break;
    case WRITERS:
    case THEMES:
        stranger_writes();
    }
}

static void move_on(void)
{
    switch (pick("move", 24)) {
    case 0:
    case 1:
        client_comes();
        break;
    case 2:
        if (chance("goes", 2)) {
            go_and_come();
        }
        break;
    case 3:
    case 4:
        ask_other();
        break;
    case 5:
    case 6:
        time_passes();
        break;
    case 7:
        hear();
        break;
    case 8:
    case 9:
    case 10:
        with_mine();
        break;
    case 11:
    case 12:
    case 13:
        ask_chain(chance("long chain", 25));
        break;
    case 14:
        probe();
        break;
    case 15:
        something_strange();
        break;
    case 16:
    case 17:
    case 18:
        acquire_one();
        break;
    default:
        move_of_theme();
    }
}

static void live(void)
{
    make_world();
    theme = (enum theme)pick("theme", THEMES);
    client_comes();
    draw_failures();
    for (int i = 0; i < MOVES; i++) {
        move_on();
        w.now += MS;
        tell_rows();
        tell_files();
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_goes(i);
    }
    tell_files();
    stranger_leaves();
    for (int i = 0; i < FDS; i++) {
        assert_int_equal(w.fds[i].is, FD_CLOSED);
    }
    assert_int_equal(snib__mem_alive(), 0);
}

int main(int argc, char **argv)
{
    static struct same_list list = {
        .path = SNIB_TESTS "/unit/sqlite_same.txt",
        .title = "Run, what the embedded store does in it: test_sqlite_same.c",
        .first = 1,
        .last = RUNS_MAX,
        .run = same_run,
    };
    if (argc == 3 && strcmp(argv[1], "--run") == 0) {
        same.shows = same.on = true;
        same.run = strtoull(argv[2], NULL, 10);
        live();
        same.on = false;
        return 0;
    }
    return same_main(argc, argv, &list);
}
