/* driver/process.c — what a client says about its process, and its random
 * seed. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/error.h"
#include "driver/driver.h"

static void process_copy(char *to, size_t size, const char *from)
{
    size_t n = strnlen(from, size - 1);
    memcpy(to, from, n);
    memset(to + n, 0, size - n);
}

/* First line of a small file; "" when it cannot be read. */
static void process_read_line(const char *path, char *to, size_t size)
{
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = TEMP_FAILURE_RETRY(read(fd, to, size - 1));
        close(fd);
    }
    to[n > 0 ? n : 0] = 0;
    to[strcspn(to, "\n")] = 0;
}

static void process_user_name(char *to, size_t size)
{
    char room[4096];
    struct passwd entry, *found = NULL;
    if (!getpwuid_r(geteuid(), &entry, room, sizeof room, &found) && found) {
        process_copy(to, size, found->pw_name);
    } else {
        snprintf(to, size, "%ld", (long)geteuid());
    }
}

/* Field 22 of /proc/self/stat: the 20th after the command's last ')'. Together
 * with the pid it names a process for ever. */
static int64_t process_start_time(void)
{
    char line[1024];
    process_read_line("/proc/self/stat", line, sizeof line);
    char *p = strrchr(line, ')');
    for (int i = 0; p && i < 20; i++) {
        p = strchr(p + 1, ' ');
    }
    return p ? strtoll(p, NULL, 10) : 0;
}

void snib__self_about(struct snib__about *a, const char *program,
                      const char *reason)
{
    char comm[64];
    *a = (struct snib__about){.pid = getpid(), .start = process_start_time()};
    if (gethostname(a->host, sizeof a->host - 1)) {
        process_copy(a->host, sizeof a->host, "?");
    }
    process_user_name(a->user, sizeof a->user);
    if (!program) {
        process_read_line("/proc/self/comm", comm, sizeof comm);
        program = comm;
    }
    process_copy(a->program, sizeof a->program, program);
    process_copy(a->reason, sizeof a->reason, reason ? reason : "");
}

/* It fails rather than give a weak seed: if request ids repeated, one client
 * could act on another's claim. */
snib_err snib__self_seed(struct snib__seed *ret, struct snib_error *reterr)
{
    char *p = (char *)ret;
    size_t left = sizeof *ret;
    while (left) {
        ssize_t n = getrandom(p, left, 0);
        if (n < 0 && errno != EINTR) {
            return snib__fail(reterr, SNIB_ERR_CONFIG,
                              "no random numbers (getrandom): %s",
                              strerror(errno));
        }
        p += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    return SNIB_ERR_OK;
}
