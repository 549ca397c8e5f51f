/* tests/unit/test_file_same.c — the mapped file's store as it is shipped, against a
 * host of the test's: see same.h, file_world.h.
 *
 * Up to five clients, each a process of its own, in one file whose bytes are
 * real. Before any access to it one of them may stand, meet another, or be
 * killed; a host is booted anew; strangers write into the file. A line is each
 * call of libc, each answer, how often and how the file was accessed, and behind
 * each move the bytes of the file. `unit.file_same --run N` shows run N.
 * Not with AddressSanitizer, which does not know stacks of makecontext().
 *
 * wraps: fork read write waitpid _exit close open openat stat fstat getcwd
 * wraps: __getcwd_chk realpath __realpath_chk fstatfs fstatvfs geteuid uname
 * wraps: getrlimit fallocate fdatasync mmap munmap flock clock_gettime nanosleep
 * wraps: sched_yield getpid eventfd eventfd_read eventfd_write epoll_create1
 * wraps: epoll_ctl epoll_wait pthread_create pthread_join pthread_attr_init
 * wraps: syscall snib__host_gone snib__host_pidfd snib__host_user_of
 * wraps: snib__host_user_at snib__host_read fcntl */
#include "file_strangers.h"

enum { RUNS_MAX = 2500, MOVES = 45 };

/* -- what is there at first ---------------------------------------------------------- */

static void make_dir(const char *path)
{
    struct node *n = node_new(S_IFDIR | 0700);
    n->uid = chance("of root", 6) ? 0 : w.uid;
    entry_put(path, n);
}

static void make_names(void)
{
    static char far[SNIB_NAME_MAX + 1];
    static const char *const texts[NAMES] = {"a", "ab", "b}c", "d", "e", "f",
                                             "g", "h",  "i",   "j", "k", far};
    static const uint64_t hashes[NAMES] = {5, 5, 1029, 6, 7,  8,
                                           9, 1, 2,    3, 64, UINT64_MAX};
    static const int counts[] = {1, 2, 4, 4, NAMES};
    memset(far, 'n', sizeof far - 1);
    name_count = counts[pick("names", COUNT_OF(counts))];
    for (int i = 0; i < NAMES; i++) {
        names[i] = (struct snib__name){.raw = texts[i],
                                       .safe = texts[i],
                                       .raw_size = (uint32_t)strlen(texts[i]),
                                       .safe_size = (uint32_t)strlen(texts[i]),
                                       .hash = hashes[i]};
    }
}

static void make_disk(void)
{
    static const uint64_t magics[] = {0xef53, 0x58465342, 0x9123683e, 0x6969};
    static const uint64_t rooms[] = {0, 16, 40, 80, 200, 256, 300};
    w.magic = magics[chance("other file system", 4) ? pick("magic", 4) : 0];
    w.most = UINT64_MAX;
    if (theme == ROOM) {
        w.most = 16384 + 1024 * rooms[pick("room", COUNT_OF(rooms))];
    }
    w.fsize = chance("a limit", 12) ? 1024 * pick("limit", 400) : RLIM_INFINITY;
}

static void make_world(void)
{
    w.now = 5000 * S;
    w.wall_ms = INT64_C(1790000000000) - w.now / MS;
    w.uid = chance("root", 3) ? 0 : 1000;
    w.pidns = 77;
    w.who = NOBODY;
    snprintf(w.boot, sizeof w.boot, "b007a");
    theme = (enum theme)pick("theme", THEMES);
    make_dir("/");
    make_dir("/v");
    make_dir("/u");
    struct node *link = node_new(S_IFLNK | 0777);
    link->to = node_at("/v");
    entry_put("/l", link);
    main_path = chance("by a link", 4) ? "/l/locks" : "/v/locks";
    real_path = "/v/locks";
    make_names();
    make_disk();
    draw_shape(&shape);
    skew_ns = chance("skew", 6) ? 40 * MS : 0;
    deadly = chance("deadly", 2);
    snib__file_hook.before = before_access;
    if (chance("something is there", 8)) {
        replace_file(NULL, (int)pick("instead", 4));
        struct node *n = node_at(real_path);
        if (S_ISREG(n->mode)) {
            write_foreign(n);
        }
    }
}

/* -- all that is there behind a move ---------------------------------------------------- */

static uint64_t hash_of(const uint8_t *bytes, uint64_t size)
{
    uint64_t h = size;
    for (uint64_t i = 0; i + 8 <= size; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof word);
        h = (h ^ word) * 0xff51afd7ed558ccd;
        h ^= h >> 32;
    }
    return h;
}

/* Up to what was ever used of it. */
static void tell_file(void)
{
    static uint64_t last;
    const struct node *n = node_at(real_path);
    uint64_t used = n ? n->size : 0, now = 1;
    if (n && n->memory >= 0 && n->size >= SNIB__FILE_HEAD) {
        const struct snib__file_head *h = (const void *)n->bytes;
        uint64_t top = atomic_load(&h->top);
        used = top < n->size / 64 ? top * 64 : n->size;
    }
    now = n && n->memory >= 0 ? hash_of(n->bytes, used) : used + 1;
    if (now != last) {
        tell("%016llx is now in the file, %llu of %llu",
             (unsigned long long)now, (unsigned long long)used,
             (unsigned long long)(n ? n->size : 0));
    }
    last = now;
}

static void tell_fds(void)
{
    char line[1600] = "";
    static char last[1600];
    for (int i = 0, used = 0; i < FDS; i++) {
        if (w.fds[i].is != FD_CLOSED) {
            used +=
                snprintf(line + used, sizeof line - (size_t)used, " %s:%d:%d",
                         fd_text(i + FIRST_FD), w.fds[i].flock, w.fds[i].who);
        }
    }
    if (strcmp(line, last) != 0) {
        tell("open:%s", line);
    }
    memcpy(last, line, sizeof last);
}

/* -- a run -------------------------------------------------------------------------------- */

/* Of one who is not inside, while another may be. */
static void ask_something(void)
{
    switch (pick("comes in between", 8)) {
    case 0:
    case 1:
    case 2:
        with_mine();
        break;
    case 3:
        ask_other();
        break;
    default:
        acquire_one();
    }
}

static void something_strange(void)
{
    switch (pick("strange", 8)) {
    case 0:
    case 1:
        strange_file();
        break;
    case 2:
        for (int i = 0; i < w.process_count; i++) {
            if (w.processes[i].ended && chance("changes", 3)) {
                process_changes(&w.processes[i]);
            }
        }
        break;
    case 3:
        process_forks();
        break;
    case 4:
        grow_old();
        break;
    case 5:
        if (chance("a crowd", 5)) {
            many_wait();
        }
        break;
    case 6:
        boot_anew();
        break;
    default:
        if (chance("bytes", 4)) {
            strange_bytes();
        }
    }
}

/* More of what this run is about. */
static void move_of_theme(void)
{
    switch (theme) {
    case ALL:
        if (chance("boots", 9)) {
            boot_anew();
        } else {
            go_and_come();
        }
        break;
    case VALUES:
    case ROOM:
        if (chance("forgets", 12)) {
            w.wall_ms += 70000;
        }
        if (chance("boots", 20)) {
            boot_anew();
            client_comes();
        }
        ask_other();
        break;
    case DAMAGE:
        strange_bytes();
        break;
    case QUEUES:
        if (chance("a crowd", 25)) {
            many_wait();
        } else if (chance("everywhere", 30)) {
            wait_everywhere();
        } else if (chance("hears", 3)) {
            hear();
        } else {
            ask_something();
        }
        break;
    case FILES:
        if (chance("deed", 3)) {
            strange_file();
        } else {
            go_and_come();
        }
        break;
    case THEMES:
        break;
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
    case 8:
        hear();
        break;
    case 9:
    case 10:
    case 11:
        with_mine();
        break;
    case 12:
    case 13:
    case 14:
        ask_chain(chance("long chain", 25));
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
    client_comes();
    draw_failures();
    for (int i = 0; i < MOVES; i++) {
        move_on();
        if (!chance("threads wait", 4)) {
            threads_run();
        }
        w.now += MS;
        tell_file();
        tell_fds();
    }
    deadly = false;
    for (int i = 0; i < CLIENTS; i++) {
        client_goes(i);
    }
    tell_file();
    for (int i = 0; i < FDS; i++) {
        assert_int_equal(w.fds[i].is, FD_CLOSED);
    }
    for (int i = 0; i < MAPPINGS; i++) {
        assert_null(w.mappings[i].base);
    }
    for (int i = 0; i < w.node_count; i++) {
        if (w.nodes[i].memory >= 0) {
            __real_close(w.nodes[i].memory);
        }
    }
    assert_true(deaths || snib__mem_alive() == 0);
}

int main(int argc, char **argv)
{
    static struct same_list list = {
        .path = SNIB_TESTS "/unit/file_same.txt",
        .title = "Run, what the mapped file's store does: test_file_same.c",
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
