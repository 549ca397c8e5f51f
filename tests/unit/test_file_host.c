/* tests/unit/test_file_host.c — the embedded store: this host and process,
 * what the doctor says, a store that cannot be made. wraps: ioctl uname */
#include "file_store.h"
#include "snib/inspect.h"

#include <dlfcn.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>

/* -- this process ----------------------------------------------------------------- */

static void this_process_is_known_by_its_pid_namespace_and_start(void **state)
{
    (void)state;
    struct snib__host h;
    struct stat st;
    char text[1024] = "", *p;
    FILE *f = fopen("/proc/self/stat", "re");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    p = strrchr(text, ')');
    for (int field = 2; field < 22; field++) {
        p = strchr(p + 1, ' ');
        assert_non_null(p);
    }
    memset(&h, 0xa5, sizeof h);
    snib__host_read(&h);
    assert_int_equal(h.pid, getpid());
    assert_true(h.proc);
    assert_int_equal(h.start, strtoll(p, NULL, 10));
    assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
    assert_int_equal(h.pidns, st.st_ino);
    assert_int_equal(strlen(h.boot), 36);
    assert_false(h.timens);
    assert_int_equal(h.skew_ns, 0);
}

/* Of anything else there is none, and why not is told: a process that is not
 * ours to see must never count as gone. */
static void a_pidfd_is_of_a_living_process_of_this_namespace(void **state)
{
    (void)state;
    struct snib__host h;
    snib__host_read(&h);
    int fd = snib__host_pidfd(&h, getpid(), h.pidns);
    assert_true(fd > 2);
    close(fd);
    assert_false(snib__host_gone(&h, getpid(), h.start, h.pidns, true));
    const struct {
        int64_t pid, pidns;
    } t[] = {{0, h.pidns},
             {-1, h.pidns},
             {(int64_t)INT32_MAX + 1, h.pidns},
             {((int64_t)1 << 32) + getpid(), h.pidns},
             {getpid(), 0},
             {getpid(), h.pidns + 1}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        errno = 0;
        assert_int_equal(snib__host_pidfd(&h, t[i].pid, t[i].pidns), -1);
        assert_int_equal(errno, EINVAL);
        assert_false(snib__host_gone(&h, t[i].pid, 1, t[i].pidns, true));
    }
    pid_t ended = fork();
    if (ended == 0) {
        _exit(0);
    }
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)ended, &info, WEXITED | WNOWAIT), 0);
    assert_true(snib__host_gone(&h, ended, 0, h.pidns, false));
    waitpid(ended, NULL, 0);
    assert_true(snib__host_gone(&h, ended, 0, h.pidns, false));
    assert_true(snib__host_gone(&h, getpid(), h.start + 1, h.pidns, true));
    assert_false(snib__host_gone(&h, getpid(), h.start + 1, h.pidns, false));
    assert_false(snib__host_gone(&h, getpid(), 0, h.pidns, true));
}

/* -- file systems -------------------------------------------------------------------- */

static void file_systems_have_names(void **state)
{
    (void)state;
    char other[32] = "";
    assert_string_equal(snib__fs_name(0xef53, other, sizeof other), "ext2/3/4");
    assert_string_equal(snib__fs_name(0x01021994, other, sizeof other),
                        "tmpfs");
    assert_string_equal(other, "");
    assert_null(snib__fs_name(0x6969, other, sizeof other));
    assert_string_equal(other, "NFS");
    assert_null(snib__fs_name(0x4d44, other, sizeof other));
    assert_string_equal(other, "FAT");
    assert_null(snib__fs_name(0x12ab, other, sizeof other));
    assert_string_equal(other, "type 0x12ab");
}

/* -- the doctor ----------------------------------------------------------------------- */

static struct finding {
    int64_t level;
    char text[600], remedy[300];
} found;

/* The finding of this check, by a doctor of peer 0; once only. */
static const struct finding *consult(const char *check)
{
    struct snib__request r = request(SNIB__DOCTOR, NULL);
    struct snib__buf b;
    struct snib__rec rec;
    int n = 0;
    snib__buf_init(&b, 1 << 20);
    r.said.result = &b;
    assert_int_equal(run(0, &r), SNIB__DONE);
    snib__rec_begin(&rec, snib__buf_bytes(&b), snib__buf_size(&b));
    while (snib__rec_next_row(&rec)) {
        struct finding f = {.level = -1};
        bool it = false;
        while (snib__rec_next_field(&rec)) {
            const char *data = (const char *)rec.data;
            if (rec.field == SNIB__F_LEVEL) {
                f.level = snib__rec_value_i64(&rec);
            } else if (rec.field == SNIB__F_CHECK) {
                it =
                    rec.size == strlen(check) && !memcmp(data, check, rec.size);
            } else if (rec.field == SNIB__F_TEXT) {
                snprintf(f.text, sizeof f.text, "%.*s", (int)rec.size, data);
            } else if (rec.field == SNIB__F_REMEDY) {
                snprintf(f.remedy, sizeof f.remedy, "%.*s", (int)rec.size,
                         data);
            }
        }
        if (it) {
            found = f;
            n++;
        }
    }
    snib__buf_free(&b);
    assert_int_equal(n, 1);
    return &found;
}

static void a_file_that_is_well_is_told_as_well(void **state)
{
    (void)state;
    open_peers(1);
    assert_string_equal(consult("integrity")->text,
                        "0 names, 0 holders, 0 waiters, 0 values");
    assert_int_equal(consult("integrity")->level, SNIB_LEVEL_OK);
    assert_string_equal(consult("boot-id")->text, host.boot);
    assert_string_equal(consult("file")->text, path);
    assert_memory_equal(consult("layout")->text, "the file has layout ", 20);
}

static void the_doctor_names_the_file_before_anything_of_it(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__DOCTOR, NULL);
    struct snib__buf b;
    struct snib__rec rec;
    char check[40] = "";
    open_peers(1);
    snib__buf_init(&b, 1 << 20);
    r.said.result = &b;
    assert_int_equal(run(0, &r), SNIB__DONE);
    snib__rec_begin(&rec, snib__buf_bytes(&b), snib__buf_size(&b));
    assert_true(snib__rec_next_row(&rec));
    while (snib__rec_next_field(&rec)) {
        if (rec.field == SNIB__F_CHECK) {
            snprintf(check, sizeof check, "%.*s", (int)rec.size,
                     (const char *)rec.data);
        }
    }
    assert_string_equal(check, "file");
    snib__buf_free(&b);
}

static void what_a_group_may_do_to_its_file_is_well(void **state)
{
    (void)state;
    open_peers(1);
    assert_int_equal(chmod(path, 0660), 0);
    assert_int_equal(consult("permissions")->level, SNIB_LEVEL_WARN);
    self_of(0)->place.shared = true;
    const struct finding *f = consult("permissions");
    assert_int_equal(f->level, SNIB_LEVEL_OK);
    assert_memory_equal(f->text, "file 0660 uid ", 14);
    assert_string_equal(f->remedy, "");
    self_of(0)->place.shared = false;
}

static void who_is_excluded_is_told(void **state)
{
    (void)state;
    open_peers(1);
    const struct finding *f = consult("users");
    assert_int_equal(f->level, SNIB_LEVEL_OK);
    assert_non_null(strstr(f->text, "programs only: other users of this host"));
    assert_string_equal(f->remedy, ""); /* he has named it */
    self_of(0)->place.is_default = true;
    assert_memory_equal(consult("users")->remedy, "to share", 8);
    self_of(0)->place.shared = true;
    self_of(0)->place.group = 54321;
    assert_string_equal(consult("users")->text,
                        "shared by the members of group 54321");
    self_of(0)->place.shared = false;
}

static void what_others_may_do_to_the_file_is_told(void **state)
{
    (void)state;
    open_peers(1);
    assert_int_equal(consult("permissions")->level, SNIB_LEVEL_OK);
    assert_int_equal(chmod(path, 0666), 0);
    const struct finding *f = consult("permissions");
    assert_int_equal(f->level, SNIB_LEVEL_WARN);
    assert_memory_equal(f->text, "file 0666 uid ", 14);
    char remedy[sizeof path + 80];
    snprintf(remedy, sizeof remedy,
             "chmod 600 %s: others can end or forge your leases", path);
    assert_string_equal(f->remedy, remedy);
    assert_int_equal(chmod(path, 0600) | chmod(dir, 0777), 0);
    f = consult("permissions");
    assert_int_equal(f->level, SNIB_LEVEL_WARN);
    assert_memory_equal(f->remedy, "others can make or replace the file", 35);
    assert_int_equal(chmod(dir, 0700), 0);
    assert_int_equal(consult("permissions")->level, SNIB_LEVEL_OK);
}

static void a_file_that_is_gone_is_told(void **state)
{
    (void)state;
    open_peers(1);
    assert_int_equal(unlink(path), 0);
    const struct finding *f = consult("permissions");
    assert_int_equal(f->level, SNIB_LEVEL_FAIL);
    assert_non_null(strstr(f->text, "was removed or replaced"));
    assert_memory_equal(f->remedy, "start all programs that use it anew", 35);
}

static void a_process_without_proc_is_told(void **state)
{
    (void)state;
    host.start = 0;
    open_peers(1);
    const struct finding *f = consult("processes");
    assert_int_equal(f->level, SNIB_LEVEL_WARN);
    assert_memory_equal(f->remedy, "mount /proc", 11);
}

/* -- room ------------------------------------------------------------------------------ */

static struct {
    const char *release; /* of Linux; NULL: this one                         */
    bool refuses;        /* flags of files                                   */
    int flags, set;      /* of the file; so often                            */
    off_t size;          /* of the file when they were set                   */
} fs;

int __wrap_ioctl(int fd, unsigned long what, int *flags);
int __wrap_ioctl(int fd, unsigned long what, int *flags)
{
    struct stat st;
    if (fs.refuses) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (what == FS_IOC_GETFLAGS) {
        *flags = fs.flags;
        return 0;
    }
    assert_true(what == FS_IOC_SETFLAGS);
    assert_int_equal(fstat(fd, &st), 0);
    fs.flags = *flags;
    fs.size = st.st_size;
    fs.set++;
    return 0;
}

int __real_uname(struct utsname *ret);
int __wrap_uname(struct utsname *ret);
int __wrap_uname(struct utsname *ret)
{
    int rc = __real_uname(ret);
    if (fs.release) {
        snprintf(ret->release, sizeof ret->release, "%s", fs.release);
    }
    return rc;
}

static void fs_is(int64_t level, const char *text)
{
    const struct finding *f = consult("file-system");
    assert_int_equal(f->level, level);
    assert_true((f->remedy[0] != 0) == (level == SNIB_LEVEL_WARN));
    if (!strstr(f->text, text)) {
        fail_msg("%s", f->text);
    }
}

static void on_btrfs_the_file_is_made_such_that_it_keeps_its_room(void **state)
{
    (void)state;
    memset(&fs, 0, sizeof fs);
    fs.flags = FS_NOATIME_FL;
    host.fs_magic = 0x9123683e;
    open_peers(1);
    assert_int_equal(fs.set, 1);
    assert_int_equal(fs.flags, FS_NOCOW_FL | FS_NOATIME_FL);
    assert_int_equal(fs.size, 0); /* later it would do nothing */
    static const struct {
        const char *release, *text;
        bool is_well;
    } rows[] = {
        {"6.17.0-rc1", "btrfs", true},
        {"7.0", "btrfs", true},
        {"10.1", "btrfs", true},
        {"6.16.12", "btrfs, under a Linux before 6.17: when", false},
        {"5.19.0-50-generic", "before 6.17", false},
        {"6", "before 6.17", false},
        {"", "before 6.17", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        fs.release = rows[i].release;
        fs_is(rows[i].is_well ? SNIB_LEVEL_OK : SNIB_LEVEL_WARN, rows[i].text);
    }
    fs.release = "6.17";
    close_peer(0);
    fs.flags = 0; /* an older snib made it */
    open_peers(1);
    assert_int_equal(fs.set, 1);
    fs_is(SNIB_LEVEL_WARN, "copied on write: when the disk is full, programs");
    fs.refuses = true;
    fs_is(SNIB_LEVEL_WARN, "copied on write");
    close_peer(0);
    unlink(path);
    open_peers(1); /* it is used all the same */
    fs_is(SNIB_LEVEL_WARN, "copied on write");
}

static void elsewhere_it_is_as_it_is(void **state)
{
    (void)state;
    memset(&fs, 0, sizeof fs);
    host.fs_magic = 0x58465342;
    open_peers(1);
    assert_int_equal(fs.set, 0);
    fs_is(SNIB_LEVEL_OK, "xfs");
    close_peer(0);
    host.fs_magic = 0x2fc12fc1;
    open_peers(1);
    assert_int_equal(fs.set, 0);
    fs_is(SNIB_LEVEL_WARN, "zfs keeps no room");
}

/* -- a store that cannot be made --------------------------------------------------------- */

#if defined(__SANITIZE_THREAD__) /* which must see every mutex itself */
#define CAN_REFUSE false
static int left_before_refusal;
#else
#define CAN_REFUSE true
static int left_before_refusal = -1;

/* In the place of libc's, for the whole program. */
int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *a);
int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *a)
{
    static int (*real)(pthread_mutex_t *, const pthread_mutexattr_t *);
    if (left_before_refusal >= 0 && left_before_refusal-- == 0) {
        return ENOMEM;
    }
    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_init");
    }
    return real(m, a);
}
#endif

static void without_a_mutex_no_store_is_opened(void **state)
{
    (void)state;
    if (!CAN_REFUSE) {
        return;
    }
    int64_t alive = snib__mem_alive();
    struct peer p = {.client = {1, 2}};
    struct snib_error e = {0};
    left_before_refusal = 0;
    snib_err err = open_at(&p, path, &e);
    left_before_refusal = -1;
    assert_int_equal(err, SNIB_ERR_NOMEM);
    assert_int_equal(e.code, SNIB_ERR_NOMEM);
    assert_string_equal(e.text, snib_err_text(SNIB_ERR_NOMEM));
    assert_null(p.inst);
    assert_int_equal(snib__mem_alive(), alive);
    assert_int_equal(access(path, F_OK), -1); /* and nothing was made */
    open_peers(1);                            /* the next one is */
    assert_non_null(kit.peer[0].inst);
}

static void
a_host_without_a_boot_id_or_with_its_own_time_is_refused(void **state)
{
    (void)state;
    struct snib__host good = host;
    host.boot[0] = 0;
    refused(path, SNIB_ERR_CONFIG, "mount /proc");
    host = good;
    host.timens = true;
    refused(path, SNIB_ERR_CONFIG, "time namespace");
}

#define ALONE(f) cmocka_unit_test_setup_teardown(f, fresh_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(this_process_is_known_by_its_pid_namespace_and_start),
        cmocka_unit_test(a_pidfd_is_of_a_living_process_of_this_namespace),
        cmocka_unit_test(file_systems_have_names),
        ALONE(a_file_that_is_well_is_told_as_well),
        ALONE(the_doctor_names_the_file_before_anything_of_it),
        ALONE(what_a_group_may_do_to_its_file_is_well),
        ALONE(who_is_excluded_is_told),
        ALONE(what_others_may_do_to_the_file_is_told),
        ALONE(a_file_that_is_gone_is_told),
        ALONE(a_process_without_proc_is_told),
        ALONE(on_btrfs_the_file_is_made_such_that_it_keeps_its_room),
        ALONE(elsewhere_it_is_as_it_is),
        ALONE(without_a_mutex_no_store_is_opened),
        ALONE(a_host_without_a_boot_id_or_with_its_own_time_is_refused),
    };
    set_kit();
    return RUN(cases);
}
