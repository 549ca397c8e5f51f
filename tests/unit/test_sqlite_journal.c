/* tests/unit/test_sqlite_journal.c — what lies beside the lock file as its
 * rollback journal is nobody's word: others may have put it there. And who is
 * killed while he makes the file leaves none that could not be used. */
#include "sqlite_store.h"

static char journal[160], victim[160];

static int fresh_names(void **state)
{
    int rc = fresh_dir(state);
    snprintf(journal, sizeof journal, "%s-journal", path);
    snprintf(victim, sizeof victim, "%s/precious", dir);
    int fd = open(victim, O_CREAT | O_WRONLY, 0600);
    close(fd);
    return rc || fd < 0 ? -1 : 0;
}

/* -- journals --------------------------------------------------------------------- */

static const uint8_t magic[] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};

static void put_number(uint8_t *to, uint32_t number)
{
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(number >> (24 - 8 * i));
    }
}

/* Hot: without records; the database had so many pages of 1 KiB. With a
 * super-journal of that name, whose journal this is; NULL: without. */
static size_t write_journal(uint32_t pages, const char *name)
{
    uint8_t text[1024] = {0}, *end = text + 512;
    uint32_t sum = 0, size = name ? (uint32_t)strlen(name) : 0;
    memcpy(text, magic, sizeof magic);
    put_number(text + 12, 0x1234); /* behind the number of records, 0       */
    put_number(text + 16, pages);
    put_number(text + 20, 512);
    put_number(text + 24, 1024);
    if (name) {
        put_number(end, 0x40000000 / 1024 + 1);
        memcpy(end + 4, name, size);
        for (uint32_t i = 0; i < size; i++) {
            sum += (uint8_t)name[i];
        }
        end += 4 + size;
        put_number(end, size);
        put_number(end + 4, sum);
        memcpy(end + 8, magic, sizeof magic);
        end += 16;
    }
    int fd = open(journal, O_CREAT | O_TRUNC | O_WRONLY, 0666);
    assert_int_equal(write(fd, text, (size_t)(end - text)), end - text);
    close(fd);
    return (size_t)(end - text);
}

static void assert_whole(size_t size)
{
    struct stat st;
    assert_int_equal(access(victim, F_OK), 0);
    assert_int_equal(stat(journal, &st), 0);
    assert_int_equal(st.st_size, size);
}

/* By a client that has ended; the lease runs on. */
static void hold_detached(const struct snib__name *n)
{
    open_peers(1);
    assert_int_equal(acquire(0, n).said.answer, SNIB__DONE);
    self_of(0)->db.frames_max = 1; /* nothing of it is in the -wal only     */
    snib__db_empty_wal(&self_of(0)->db);
    close_peer(0);
}

static void assert_held(const struct snib__name *n)
{
    open_peers(1);
    assert_int_equal(look(0, n, SNIB__ROW_HOLDER, NULL), 1);
    assert_int_equal(attempt(0, n, SNIB_KIND_WRITE).said.answer, SNIB__NO);
    close_peer(0);
}

static void a_super_journals_name_deletes_nothing(void **state)
{
    struct snib__name n = name_of("held");
    (void)state;
    hold_detached(&n);
    for (uint32_t pages = 0; pages < 3; pages++) {
        size_t size = write_journal(pages, victim);
        assert_held(&n);
        assert_whole(size);
    }
}

static void a_journal_of_no_pages_ends_no_lease(void **state)
{
    struct snib__name n = name_of("held");
    (void)state;
    hold_detached(&n);
    size_t size = write_journal(0, NULL);
    assert_held(&n);
    assert_whole(size);
    assert_int_equal(unlink(journal), 0);
    assert_held(&n);
}

static void a_journal_beside_a_holder_keeps_nobody_out(void **state)
{
    struct snib__name n = name_of("held");
    (void)state;
    open_peers(1);
    assert_int_equal(acquire(0, &n).said.answer, SNIB__DONE);
    size_t size = write_journal(0, victim);
    kit.peer[1] = (struct peer){.client = {1, 2}};
    kit.peer[1].inst = open_file(&kit.peer[1]);
    assert_non_null(kit.peer[1].inst);
    assert_int_equal(attempt(1, &n, SNIB_KIND_WRITE).said.answer, SNIB__NO);
    assert_whole(size);
}

static void a_journal_before_the_file_changes_nothing(void **state)
{
    struct snib__name n = name_of("held");
    (void)state;
    size_t size = write_journal(0, victim);
    hold_detached(&n);
    assert_whole(size);
    assert_held(&n);
}

static void whatever_is_called_a_journal_is_left(void **state)
{
    struct snib__name n = name_of("held");
    struct stat before, after;
    char other[160];
    (void)state;
    snprintf(other, sizeof other, "%s-other", path);
    hold_detached(&n);
    write_journal(0, victim);
    assert_int_equal(rename(journal, other), 0);
    for (int kind = 0; kind < 5; kind++) {
        assert_int_equal(kind == 0   ? symlink(other, journal)
                         : kind == 1 ? link(other, journal)
                         : kind == 2 ? mkfifo(journal, 0666)
                         : kind == 3 ? mkdir(journal, 0777)
                                     : symlink("/nowhere/at/all", journal),
                         0);
        assert_int_equal(lstat(journal, &before), 0);
        assert_held(&n);
        assert_int_equal(lstat(journal, &after), 0);
        assert_int_equal(before.st_ino, after.st_ino);
        assert_int_equal(before.st_size, after.st_size);
        assert_int_equal(access(victim, F_OK), 0);
        assert_int_equal(access(other, F_OK), 0);
        assert_int_equal(remove(journal), 0);
    }
}

/* -- a file in another mode --------------------------------------------------------- */

static bool is_wal(void)
{
    uint8_t header[20] = {0};
    int fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, header, sizeof header), sizeof header);
    close(fd);
    return header[18] == 2 && header[19] == 2;
}

/* As VACUUM INTO leaves it, or the shell. */
static void a_file_without_a_log_is_given_one(void **state)
{
    struct snib__name n = name_of("held");
    (void)state;
    hold_detached(&n);
    sql("PRAGMA journal_mode = DELETE");
    assert_false(is_wal());
    size_t size = write_journal(0, victim);
    assert_held(&n);
    assert_true(is_wal());
    assert_whole(size);
}

static void anothers_file_keeps_its_mode(void **state)
{
    struct stat before, after;
    (void)state;
    sql("CREATE TABLE theirs(x)");
    write_journal(0, victim);
    assert_int_equal(stat(path, &before), 0);
    refused(path, SNIB_ERR_CONFIG, "another program");
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_int_equal(access(victim, F_OK), 0);
    assert_false(is_wal());
}

/* -- killed while the file is made --------------------------------------------------- */

static int calls_left; /* of those that change files; then it is killed     */
static sqlite3_syscall_ptr real_pwrite, real_write, real_open, real_cut;

static void count_call(void)
{
    if (calls_left-- == 0) {
        _exit(7);
    }
}

static ssize_t counted_pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    count_call();
    return ((ssize_t(*)(int, const void *, size_t, off_t))real_pwrite)(
        fd, bytes, size, at);
}

static ssize_t counted_write(int fd, const void *bytes, size_t size)
{
    count_call();
    return ((ssize_t(*)(int, const void *, size_t))real_write)(fd, bytes, size);
}

static int counted_open(const char *name, int flags, int mode)
{
    if (strstr(name, "-journal")) {
        _exit(8);
    }
    count_call();
    return ((int (*)(const char *, int, int))real_open)(name, flags, mode);
}

static int counted_cut(int fd, off_t size)
{
    count_call();
    return ((int (*)(int, off_t))real_cut)(fd, size);
}

static void put_call(const char *name, void (*call)(void),
                     sqlite3_syscall_ptr *real)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    sqlite3_syscall_ptr was = vfs->xGetSystemCall(vfs, name);
    if (was) {
        *real = was;
        assert_int_equal(vfs->xSetSystemCall(vfs, name, call), SQLITE_OK);
    }
}

static int open_with_calls(int count)
{
    struct snib__name n = name_of("first");
    calls_left = count;
    put_call("pwrite", (void (*)(void))counted_pwrite, &real_pwrite);
    put_call("pwrite64", (void (*)(void))counted_pwrite, &real_pwrite);
    put_call("write", (void (*)(void))counted_write, &real_write);
    put_call("open", (void (*)(void))counted_open, &real_open);
    put_call("ftruncate", (void (*)(void))counted_cut, &real_cut);
    open_peers(1);
    return acquire(0, &n).said.answer == SNIB__DONE ? 0 : 9;
}

static void who_is_killed_as_he_makes_the_file_leaves_it_usable(void **state)
{
    struct snib__name n = name_of("second");
    int status = 7 << 8, count = 0;
    for (; status == 7 << 8; count++) {
        pid_t pid = fork();
        if (pid == 0) {
            _exit(open_with_calls(count));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        open_peers(1);
        assert_int_equal(acquire(0, &n).said.answer, SNIB__DONE);
        remove_dir(state);
        assert_int_equal(fresh_names(state), 0);
    }
    assert_int_equal(status, 0);
    assert_true(count > 6);
}

/* A disk that was full, or lost its power, keeps a part: it is used, or it is
 * told what is wrong. */
static void a_part_of_the_first_page_is_used_or_told(void **state)
{
    static const struct {
        int size;
        bool used;
    } parts[] = {{0, true},    {1, true},    {50, false},
                 {100, false}, {108, true},  {512, true},
                 {1000, true}, {1024, true}, {-1, false}};
    struct snib__name n = name_of("n");
    uint8_t page[1024];
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        sql("PRAGMA page_size = 1024; PRAGMA journal_mode = WAL");
        assert_int_equal(unlink(journal), -1);
        int fd = open(path, O_RDWR);
        assert_int_equal(read(fd, page, sizeof page), sizeof page);
        assert_int_equal(ftruncate(fd, parts[i].size > 0 ? parts[i].size : 0),
                         0);
        assert_int_equal(
            ftruncate(fd, parts[i].size < 0 ? 1024 : parts[i].size), 0);
        assert_int_equal(fchmod(fd, 0600), 0);
        close(fd);
        write_journal(0, victim);
        if (parts[i].used) {
            open_peers(1);
            assert_int_equal(acquire(0, &n).said.answer, SNIB__DONE);
        } else {
            refused(path, SNIB_ERR_CONFIG, "is not a lock file of snib, or");
        }
        assert_int_equal(access(victim, F_OK), 0);
        remove_dir(state);
        assert_int_equal(fresh_names(state), 0);
    }
}

#undef CASE
#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh_names, remove_dir)

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(a_super_journals_name_deletes_nothing),
        CASE(a_journal_of_no_pages_ends_no_lease),
        CASE(a_journal_beside_a_holder_keeps_nobody_out),
        CASE(a_journal_before_the_file_changes_nothing),
        CASE(whatever_is_called_a_journal_is_left),
        CASE(a_file_without_a_log_is_given_one),
        CASE(anothers_file_keeps_its_mode),
        CASE(who_is_killed_as_he_makes_the_file_leaves_it_usable),
        CASE(a_part_of_the_first_page_is_used_or_told),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
