/* tests/unit/test_file_btrfs.c — a mapped file on a real btrfs that is full. */
#include "file_store.h"

#include <sys/mount.h>
#include <sys/utsname.h>

static char image[80];

static bool has_kernel(void)
{
    struct utsname u;
    int major = 0, minor = 0;
    return !uname(&u) && sscanf(u.release, "%d.%d", &major, &minor) == 2 &&
           (major > 6 || (major == 6 && minor >= 17));
}

/* A btrfs of 256 MiB on `dir`. */
static bool mount_btrfs(void)
{
    char command[300];
    snprintf(image, sizeof image, "/tmp/snib-btrfs-%ld", (long)getpid());
    snprintf(command, sizeof command,
             "truncate -s 256M %s && mkfs.btrfs -q %s >/dev/null 2>&1 && "
             "mount -t btrfs -o loop %s %s 2>/dev/null",
             image, image, image, dir);
    return geteuid() == 0 && has_kernel() && system(command) == 0;
}

static void fill_disk(void)
{
    static char noise[1 << 16];
    char name[100];
    uint64_t seed = 1;
    snprintf(name, sizeof name, "%s/filler", dir);
    int fd = open(name, O_WRONLY | O_CREAT, 0600);
    for (size_t i = 0; i < sizeof noise; i++) {
        noise[i] = (char)dice(&seed);
    }
    for (size_t piece = sizeof noise; piece >= 4096; piece /= 16) {
        while (write(fd, noise, piece) > 0) {
        }
        fsync(fd);
    }
    close(fd);
}

/* What is held stays held and is released, though each page was written to the
 * disk meanwhile. In a process of its own, since a page without room ends it. */
static int use_a_full_disk(void)
{
    enum { HELD = 20 };
    static char text[HELD][16];
    struct snib__name n[HELD];
    struct snib__request r[HELD];
    open_peers(1);
    for (int i = 0; i < HELD; i++) {
        snprintf(text[i], sizeof text[i], "held-%d", i);
        n[i] = name_of(text[i]);
        r[i] = request(SNIB__ACQUIRE, &n[i]);
        r[i].lease = snib__ms(3600000);
        if (run(0, &r[i]) != SNIB__DONE) {
            return 2;
        }
    }
    fill_disk();
    for (int round = 0; round < 3; round++) {
        sync();
        for (int i = 0; i < HELD; i++) {
            struct snib__request v = turn_into(&r[i], SNIB__RENEW);
            v.lease = snib__ms(3600000);
            if (run(0, &v) != SNIB__DONE) {
                return 3;
            }
        }
    }
    sync();
    for (int i = 0; i < HELD; i++) {
        if (end(0, &r[i]) != SNIB__DONE) {
            return 4;
        }
    }
    return 0;
}

static void on_a_full_btrfs_what_is_held_is_released(void **state)
{
    int status;
    (void)state;
    if (!mount_btrfs()) {
        unlink(image);
        print_message("skipped: needs root, mkfs.btrfs and Linux 6.17\n");
        skip();
    }
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGBUS, SIG_DFL); /* cmocka's would go on as this program */
        _exit(use_a_full_disk());
    }
    waitpid(pid, &status, 0);
    umount2(dir, MNT_DETACH);
    unlink(image);
    assert_int_equal(status, 0);
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(on_a_full_btrfs_what_is_held_is_released),
    };
    return RUN(cases);
}
