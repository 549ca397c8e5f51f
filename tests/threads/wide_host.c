/* wide_host.c — the host of a wide run: which of its calls fail by dice
 * (wide_fds.c has some of them), its names are looked up by dice; and what of
 * the product is replaced. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "api/api.h"
#include "base/error.h"
#include "core/engine.h"
#include "host.h"
#include "real.h"
#include "unseen.h"
#include "wide.h"
#include "wide_dice.h"

static const struct {
    const char *call;
    uint32_t one_in;
    int errors[4];
} failures[] = {
    {"pthread_create", 24, {EAGAIN, EAGAIN, ENOMEM, EPERM}},
    {"timerfd_create", 24, {EMFILE, ENFILE, ENOMEM, ENODEV}},
    {"eventfd", 24, {EMFILE, ENFILE, ENOMEM, ENODEV}},
    {"epoll_create1", 24, {EMFILE, ENFILE, ENOMEM, EMFILE}},
    {"epoll_ctl", 24, {ENOSPC, ENOMEM, EPERM, ENOSPC}},
    {"socket", 12, {EMFILE, ENFILE, ENOMEM, EACCES}},
    {"connect", 6, {ECONNREFUSED, ENETUNREACH, EACCES, ETIMEDOUT}},
    {"getsockopt", 12, {ECONNREFUSED, EHOSTUNREACH, ECONNRESET, ETIMEDOUT}},
    {"send", 10, {EAGAIN, EINTR, EPIPE, ECONNRESET}},
    {"recv", 16, {EAGAIN, EINTR, ECONNRESET, ETIMEDOUT}},
};

bool host_wakes(int fd)
{
    (void)fd;
    return false;
}

int host_fails(const char *call)
{
    char what[40];
    if (!wide.on || !wide.failing || sched_self() < 0) {
        return 0;
    }
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        if (strcmp(failures[i].call, call) != 0) {
            continue;
        }
        snprintf(what, sizeof what, "%s fails", call);
        if (chance(what, failures[i].one_in)) {
            int err = failures[i].errors[pick("errno", 4)];
            tell("%s fails: %d", call, err);
            return err;
        }
    }
    return 0;
}

size_t host_size(const char *call, size_t size)
{
    bool few = wide.on && wide.failing && size > 1 && chance(call, 8);
    return few ? 1 + pick("few bytes", size - 1) : size;
}

int64_t host_wall(void)
{
    return INT64_C(1700000000) * 1000000000 + wide.wall;
}

/* Between two looks at the clock the thread may have been put aside. */
void host_clock(void)
{
    if (wide.on && wide.failing && sched_self() >= 0 &&
        chance("put aside", 150)) {
        tell("is put aside");
        sched_jump(2000000);
    }
}

/* -- limits: the same on each machine, since texts name them -------------------------- */

int REAL(getrlimit)(int which, struct rlimit *ret);
int WRAP(getrlimit)(int which, struct rlimit *ret);

int WRAP(getrlimit)(int which, struct rlimit *ret)
{
    if (which != RLIMIT_NOFILE) { /* a sanitizer asks for its own, early */
        return REAL(getrlimit)(which, ret);
    }
    *ret = (struct rlimit){.rlim_cur = 1024, .rlim_max = 4096};
    return 0;
}

/* -- host names --------------------------------------------------------------------- */

void WRAP(snib__net_resolve)(const char *text, struct snib__addresses *ret);

void WRAP(snib__net_resolve)(const char *text, struct snib__addresses *ret)
{
    static const int64_t ms[] = {0, 0, 1, 40, 900, 3000};
    memset(ret, 0, sizeof *ret);
    sched_sleep(sched_now() + ONE_OF("look-up", ms) * 1000000);
    UNSEEN;
    ret->count = (uint32_t)pick("addresses", 4);
    ret->no_such = !ret->count && chance("no such host", 2);
    snprintf(ret->why, sizeof ret->why, "%s", ret->count ? "" : "dice know it");
    for (uint32_t i = 0; i < ret->count; i++) {
        (void)snib__net_address("127.0.0.1:6379", &ret->v[i]);
    }
    tell("%s has %u addresses", text, ret->count);
}

/* -- of the product -------------------------------------------------------------------- */

void WRAP(snib__self_about)(struct snib__about *, const char *, const char *);
snib_err WRAP(snib__file_default_path)(char *, size_t, struct snib_error *);
snib_err WRAP(snib__self_seed)(struct snib__seed *, struct snib_error *);
const struct snib__registered *WRAP(snib__store_find)(const char *scheme);
const struct snib__registered *REAL(snib__store_find)(const char *scheme);

void WRAP(snib__self_about)(struct snib__about *a, const char *program,
                            const char *reason)
{
    *a = (struct snib__about){.pid = 4711, .start = 1};
    snprintf(a->host, sizeof a->host, "host");
    snprintf(a->user, sizeof a->user, "user");
    snprintf(a->program, sizeof a->program, "%s", program ? program : "?");
    snprintf(a->reason, sizeof a->reason, "%s", reason ? reason : "");
}

snib_err WRAP(snib__file_default_path)(char *ret, size_t size,
                                       struct snib_error *reterr)
{
    static const char *const paths[] = {"/proc/none/locks.db",
                                        "/proc/none/A Z-a_z/09.db",
                                        "/proc/none/\xc3\xa9%?#{@[`/:"};
    if (chance("no home", 4)) {
        return snib__fail(reterr, SNIB_ERR_CONFIG, "dice have no home");
    }
    snprintf(ret, size, "%s", ONE_OF("path", paths));
    return SNIB_ERR_OK;
}

/* Of the same bytes are the same ids and the same jitter. */
snib_err WRAP(snib__self_seed)(struct snib__seed *ret,
                               struct snib_error *reterr)
{
    (void)reterr;
    memset(ret, 0, sizeof *ret);
    uint64_t n = ++wide.seeds;
    memcpy(ret, &n, sizeof n);
    return SNIB_ERR_OK;
}

const struct snib__registered *WRAP(snib__store_find)(const char *scheme)
{
    const struct snib__registered *found = REAL(snib__store_find)(scheme);
    return found && wide.dice && !strcmp(scheme, "memory") ? dice_store(found)
                                                           : found;
}
