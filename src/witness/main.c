/* witness/main.c — the program snib-witness: the small process next to a
 * client that ends, when the client's process is over, what it held.
 *
 * A client that was opened with the option `witness` starts it
 * (driver/witness.c); nobody else can use it. It opens a client of its own on the
 * same store at once, to learn early whether the URL, the certificates and the
 * login can be read, but connects when it has something to end. Until then it
 * sleeps in poll, on the client's pidfd and on the connection to the client. What
 * it does about what it sees is in core/witness.c.
 *
 * It ends with its client, and needs no signal for that. SIGTERM, SIGINT, SIGHUP
 * and SIGQUIT do nothing to it: whoever ends a whole group of processes in good
 * order (systemd) sends them to it too, and it is needed until the last of the
 * client's process is gone. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/client.h"
#include "base/error.h"
#include "base/mem.h"
#include "core/witness.h"
#include "driver/clock.h"
#include "driver/witness.h"
#include "snib.h"

enum {
    MAIN_USAGE = 64,
    MAIN_SLICE_MS = 60000,
    MAIN_FIRST_OTHER = SNIB__WITNESS_LINK + SNIB__WITNESS_FDS
};

struct watch {
    struct snib_client *client; /* our own */
    const struct snib__registry *registry;
    size_t bytes;
};

/* -- what it inherits ----------------------------------------------------- */

/* Kernels before 5.9 cannot close them all at once. */
static void main_close_others(void)
{
    struct rlimit most;
    if (!syscall(SYS_close_range, (unsigned)MAIN_FIRST_OTHER, ~0U, 0U)) {
        return;
    }
    if (getrlimit(RLIMIT_NOFILE, &most) || most.rlim_cur > 1 << 20) {
        most.rlim_cur = 1 << 20;
    }
    for (int fd = MAIN_FIRST_OTHER; fd < (int)most.rlim_cur; fd++) {
        close(fd);
    }
}

static void main_come_clean(void)
{
    static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE};
    sigset_t none;
    for (int i = 1; i < NSIG; i++) {
        signal(i, SIG_DFL); /* some cannot be set, or are not signals */
    }
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        signal(ignored[i], SIG_IGN);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    main_close_others();
    /* Where there is no such device (chroot), what can be neither read nor
     * written. */
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < SNIB__WITNESS_LINK; fd++) {
        dup2(null >= 0 ? null : SNIB__WITNESS_CLIENT, fd);
    }
    if (null >= MAIN_FIRST_OTHER) {
        close(null);
    }
    for (int i = 0; i < SNIB__WITNESS_FDS; i++) {
        (void)fcntl(SNIB__WITNESS_LINK + i, F_SETFD, FD_CLOEXEC);
    }
}

/* -- meeting the client ---------------------------------------------------- */

static snib_err main_map(struct watch *w, struct snib_error *err)
{
    struct stat is;
    void *at = MAP_FAILED;
    if (!fstat(SNIB__WITNESS_REGISTRY, &is) && is.st_size > 0) {
        w->bytes = (size_t)is.st_size;
        at = mmap(NULL, w->bytes, PROT_READ, MAP_SHARED, SNIB__WITNESS_REGISTRY,
                  0);
    }
    close(SNIB__WITNESS_REGISTRY);
    if (at == MAP_FAILED) {
        return snib__fail(err, SNIB_ERR_LIMIT, "no room for the registry");
    }
    w->registry = at;
    return snib__registry_fits(w->registry, w->bytes)
               ? SNIB_ERR_OK
               : snib__fail(err, SNIB_ERR_CONFIG,
                            "the registry is of another release");
}

static snib_err main_open(struct watch *w, const struct snib__witness_ask *ask,
                          struct snib_error *err)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    o.url = ask->url;
    o.identity = ask->client;
    o.request_ms = ask->request_ms;
    o.program = "snib-witness";
    o.no_deadlock_check = true;
    snib_err no = snib_client_open(&o, &w->client, err);
    return no ? no : main_map(w, err);
}

/* False: there is nobody to watch. */
static bool main_meet(struct watch *w)
{
    struct snib__witness_answer answer = {.layout = SNIB__REGISTRY_LAYOUT,
                                          .pid = (int32_t)getpid()};
    struct snib__witness_ask *ask = snib__alloc(sizeof *ask);
    if (!ask) {
        return false;
    }
    ssize_t n = recv(SNIB__WITNESS_LINK, ask, sizeof *ask - 1, 0);
    bool whole = n > (ssize_t)offsetof(struct snib__witness_ask, url) &&
                 ask->layout == SNIB__REGISTRY_LAYOUT;
    if (whole) {
        answer.error.code = main_open(w, ask, &answer.error);
    } else {
        snib__fail(&answer.error, SNIB_ERR_CONFIG, "not asked by a client");
    }
    explicit_bzero(ask, sizeof *ask);
    snib__free(ask);
    return send(SNIB__WITNESS_LINK, &answer, sizeof answer, MSG_NOSIGNAL) ==
               sizeof answer &&
           !answer.error.code;
}

/* -- watching --------------------------------------------------------------- */

/* Sleeps until something has changed. A connection that is closed stays so, and is
 * asked about no more. */
static struct snib__witness_sight main_look(const struct snib__witness *w,
                                            bool hung_up)
{
    struct pollfd p[] = {
        {.fd = SNIB__WITNESS_CLIENT, .events = POLLIN},
        {.fd = hung_up ? -1 : SNIB__WITNESS_LINK, .events = POLLIN}};
    int64_t ms = snib__to_ms(snib__between(snib__boottime(), w->leaves));
    ms = ms < 0 ? 0 : ms < MAIN_SLICE_MS ? ms + 1 : MAIN_SLICE_MS;
    (void)poll(p, 2, w->leaves.ns == SNIB__NEVER.ns ? -1 : (int)ms);
    return (struct snib__witness_sight){.over = p[0].revents & POLLIN,
                                        .hung_up = hung_up || p[1].revents};
}

static void main_watch(struct watch *w)
{
    struct snib__witness is;
    struct snib__witness_sight sees = {0};
    snib__witness_next next;
    snib__witness_begin(&is, w->registry);
    do {
        sees = main_look(&is, sees.hung_up);
        next = snib__witness_step(&is, snib__boottime(), sees);
    } while (next == SNIB__WITNESS_WAITS);
    if (next == SNIB__WITNESS_ENDS) {
        struct snib_error err;
        (void)snib__client_end_left(w->client, w->registry, &err);
    }
}

int main(void)
{
    struct watch w = {0};
    struct stat is;
    if (fstat(SNIB__WITNESS_LINK, &is) || !S_ISSOCK(is.st_mode)) {
        static const char words[] =
            "snib-witness is started by libsnib, for a client with the option "
            "`witness`; there is nothing to do here for anybody else\n";
        (void)!write(2, words, sizeof words - 1);
        return MAIN_USAGE;
    }
    main_come_clean();
    if (main_meet(&w)) {
        main_watch(&w);
    }
    snib_client_free(w.client);
    return 0;
}
