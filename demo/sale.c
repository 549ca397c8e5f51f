/* demo/sale.c — the flash sale: starts the workers, kills one, freezes one,
 * counts what was sold, and says whether that is what should have been sold.
 *
 *   snib-demo-sale [--seed N] [--requests N] [--workers N]
 *                  [--embedded URL] [--server URL] DIR
 *   snib-demo-sale --print [--seed N] [--requests N]
 *
 * DIR is a scratch directory; demo/run makes and removes it. Exit status 0
 * when every variant did what is expected of it, 1 when not, 2 usage. */
#include "demo.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint32_t stock[PRODUCTS] = {400, 200, 100, 50, 50};
enum { STOCK = 800, VARIANTS = 5, PATIENCE_S = 180 };

struct settings {
    uint64_t seed;
    uint32_t requests, workers;
    const char *embedded, *server, *dir;
};

/* One line of the table. */
struct variant {
    const char *title, *url; /* url NULL: no lock                           */
    bool faults;             /* kill one worker, freeze another             */
};

struct result {
    struct tally tally;
    uint32_t served, failed, refused, told, waits[2]; /* p50, p99 in us     */
    bool killed, frozen, overtaken, timely;
    double seconds;
};

struct sale {
    const struct settings *settings;
    const struct variant *variant;
    struct board *board;
    struct shop *shop;
    char path[4096];
    pid_t pid[WORKERS_MAX];
    bool gone[WORKERS_MAX];
    int64_t start_us;
};

/* -- progress ------------------------------------------------------------- */

static void show_progress(const struct sale *s, const char *what)
{
    static int64_t shown;
    const struct board *b = s->board;
    int64_t now = clock_us();
    if (!*what && (!isatty(STDERR_FILENO) || now - shown < 100000)) {
        return;
    }
    shown = now;
    fprintf(stderr, "%s  %-22s %5u of %u requests, %4u sold, %4.1f s  %s%s",
            isatty(STDERR_FILENO) ? "\r" : "", s->variant->title,
            atomic_load(&b->served), b->count, atomic_load(&b->sold),
            (double)(now - s->start_us) / 1e6, what, *what ? "\n" : "");
}

/* -- workers -------------------------------------------------------------- */

static bool start_worker(struct sale *s, uint32_t i)
{
    pid_t parent = getpid();
    s->pid[i] = fork();
    if (s->pid[i] == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        _exit(work(s->board, i, s->path, s->variant->url));
    }
    return s->pid[i] > 0;
}

static bool start_workers(struct sale *s)
{
    uint32_t n = s->settings->workers;
    for (uint32_t i = 0; i < n; i++) {
        s->gone[i] = !start_worker(s, i);
    }
    for (int i = 0; i < 5000 && atomic_load(&s->board->ready) < n; i++) {
        usleep(1000);
    }
    s->start_us = clock_us();
    atomic_store(&s->board->go, true);
    return atomic_load(&s->board->ready) == n;
}

/* Collect those that ended; true when none is left. */
static bool all_gone(struct sale *s)
{
    bool all = true;
    for (uint32_t i = 0; i < s->settings->workers; i++) {
        if (!s->gone[i]) {
            s->gone[i] = waitpid(s->pid[i], NULL, WNOHANG) == s->pid[i];
        }
        all = all && s->gone[i];
    }
    return all;
}

static bool patient(const struct sale *s)
{
    return clock_us() - s->start_us < (int64_t)PATIENCE_S * 1000000;
}

static void wait_served(struct sale *s, uint32_t percent)
{
    uint32_t until = s->board->count / 100 * percent;
    while (atomic_load(&s->board->served) < until && patient(s) &&
           !all_gone(s)) {
        show_progress(s, "");
        usleep(1000);
    }
}

static void end_all(struct sale *s)
{
    for (uint32_t i = 0; i < s->settings->workers; i++) {
        if (!s->gone[i] && s->pid[i] > 0) {
            kill(s->pid[i], SIGKILL);
            waitpid(s->pid[i], NULL, 0);
        }
    }
}

/* -- faults --------------------------------------------------------------- */

/* A living worker between its read and its write; WORKERS_MAX: none found. */
static uint32_t find_working(struct sale *s)
{
    while (patient(s) && !all_gone(s)) {
        for (uint32_t i = 0; i < s->settings->workers; i++) {
            if (!s->gone[i] &&
                atomic_load(&s->board->slot[i].phase) == PHASE_WORKING) {
                return i;
            }
        }
    }
    return WORKERS_MAX;
}

static bool kill_one(struct sale *s)
{
    uint32_t i = find_working(s);
    if (i == WORKERS_MAX) {
        return false;
    }
    kill(s->pid[i], SIGKILL);
    waitpid(s->pid[i], NULL, 0);
    s->gone[i] = true;
    char what[80];
    snprintf(what, sizeof what, "kill -9 worker %d, which held sale:%d",
             (int)s->pid[i], atomic_load(&s->board->slot[i].product));
    show_progress(s, what);
    return true;
}

/* Stop a worker between read and write; WORKERS_MAX: not managed. */
static uint32_t freeze_one(struct sale *s)
{
    for (int tries = 0; tries < 1000; tries++) {
        uint32_t i = find_working(s);
        int status;
        if (i == WORKERS_MAX) {
            return i;
        }
        kill(s->pid[i], SIGSTOP);
        if (waitpid(s->pid[i], &status, WUNTRACED) != s->pid[i] ||
            !WIFSTOPPED(status)) {
            s->gone[i] = true;
        } else if (atomic_load(&s->board->slot[i].phase) == PHASE_WORKING) {
            return i;
        } else {
            kill(s->pid[i], SIGCONT); /* it was faster: it writes already */
        }
    }
    return WORKERS_MAX;
}

/* Freeze one, wait until its lease is over and another has taken its lock,
 * then let it go on: it will write what it once read. */
static void freeze_and_continue(struct sale *s, struct result *r)
{
    uint32_t i = freeze_one(s);
    if (i == WORKERS_MAX) {
        return;
    }
    uint32_t product = (uint32_t)atomic_load(&s->board->slot[i].product);
    int64_t token = atomic_load(&s->board->slot[i].token), from = clock_us();
    char what[96];
    r->frozen = true;
    snprintf(what, sizeof what, "froze worker %d, which holds sale:%u",
             (int)s->pid[i], product);
    show_progress(s, what);
    while (!r->overtaken && patient(s) && clock_us() - from < 15000000) {
        show_progress(s, "");
        usleep(5000);
        r->overtaken = shop_mark(s->shop, product) > token;
    }
    int64_t frozen_ms = (clock_us() - from) / 1000;
    kill(s->pid[i], SIGCONT);
    snprintf(what, sizeof what, "continued it after %lld ms (lease %d ms)",
             (long long)frozen_ms, LEASE_MS);
    show_progress(s, what);
}

/* -- one variant ---------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void count_waits(const struct board *b, struct result *r)
{
    static uint32_t wait[REQUESTS_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        uint32_t w = atomic_load(&b->wait_us[i]);
        if (w) {
            wait[n++] = w - 1;
        }
    }
    qsort(wait, n, sizeof *wait, by_size);
    if (n) {
        r->waits[0] = wait[n / 2];
        r->waits[1] = wait[n - 1 - n / 100];
    }
}

static void count_up(struct sale *s, struct result *r)
{
    const struct board *b = s->board;
    r->tally = shop_tally(s->shop);
    r->served = atomic_load(&b->served);
    r->failed = atomic_load(&b->failed);
    for (uint32_t i = 0; i < s->settings->workers; i++) {
        r->refused += atomic_load(&b->slot[i].refused);
        r->told += atomic_load(&b->slot[i].told);
    }
    r->seconds = (double)(atomic_load(&b->last_sale_us) - s->start_us) / 1e6;
    count_waits(b, r);
}

static bool open_sale(struct sale *s)
{
    snprintf(s->path, sizeof s->path, "%s/orders.db", s->settings->dir);
    memset(s->board, 0, sizeof *s->board);
    s->board->count = s->settings->requests;
    make_requests(s->settings->seed, s->board->request, s->board->count);
    if (!shop_create(s->path, stock) || !start_workers(s)) {
        fprintf(stderr, "%s: the workers could not start\n", s->variant->title);
        return false;
    }
    s->shop = shop_open(s->path); /* after the forks                       */
    return s->shop != NULL;
}

static struct result run_variant(const struct settings *settings,
                                 const struct variant *v, struct board *board)
{
    struct sale s = {.settings = settings, .variant = v, .board = board};
    struct result r = {0};
    if (open_sale(&s)) {
        if (v->faults) {
            wait_served(&s, 10);
            r.killed = kill_one(&s);
            wait_served(&s, 20);
            freeze_and_continue(&s, &r);
        }
        wait_served(&s, 200);
        r.timely = all_gone(&s);
        show_progress(&s, r.timely ? "closed" : "NOT FINISHED in time");
        count_up(&s, &r);
    }
    end_all(&s);
    shop_close(s.shop);
    return r;
}

/* -- the verdict ---------------------------------------------------------- */

static bool expect(bool fact, const char *title, const char *what)
{
    printf("  %-6s %s: %s\n", fact ? "ok" : "FAILED", title, what);
    return fact;
}

static bool judge(const struct variant *v, const struct result *r,
                  const struct settings *settings)
{
    bool ok = true;
    if (!v->url) {
        ok &= expect(r->tally.oversold > 0, v->title,
                     "more was sold than there is (the race is real)");
        ok &=
            expect(r->tally.duplicates > 0, v->title, "users have two orders");
        return ok;
    }
    ok &= expect(r->timely && r->failed == 0, v->title,
                 "every request was answered in time");
    ok &= expect(r->tally.sold == STOCK && r->tally.oversold == 0 &&
                     r->tally.unsold == 0,
                 v->title, "sold exactly the stock");
    ok &=
        expect(r->tally.duplicates == 0, v->title, "at most one order a user");
    if (!v->faults) {
        return ok & expect(r->served == settings->requests, v->title,
                           "no request got lost");
    }
    ok &= expect(r->killed && r->served + 1 >= settings->requests, v->title,
                 "a worker was killed holding a lock; only its own request "
                 "is missing");
    ok &= expect(r->frozen && r->overtaken, v->title,
                 "a worker was frozen beyond its lease; its lock went on");
    ok &= expect(r->refused >= 1, v->title,
                 "its late write was refused by the token");
    ok &= expect(r->told == r->refused, v->title,
                 "and snib had told it that the lock was lost");
    return ok;
}

static void print_table(const struct variant *v, const struct result *r,
                        uint32_t count, const struct settings *settings)
{
    printf("\n%-22s %8s %5s %8s %9s %7s %8s %17s\n", "variant", "requests",
           "sold", "oversold", "duplicate", "refused", "orders/s",
           "wait ms p50 / p99");
    printf("%-22s %8s %5s %8s %9s %7s\n", "", "", "", "", "orders", "writes");
    for (uint32_t i = 0; i < count; i++) {
        printf("%-22s %8u %5lld %8lld %9lld %7u %8.0f ", v[i].title,
               settings->requests, (long long)r[i].tally.sold,
               (long long)r[i].tally.oversold, (long long)r[i].tally.duplicates,
               r[i].refused,
               r[i].seconds > 0 ? (double)r[i].tally.sold / r[i].seconds : 0);
        if (v[i].url) {
            printf("%9.2f / %.1f\n", r[i].waits[0] / 1e3, r[i].waits[1] / 1e3);
        } else {
            printf("%9s / -\n", "-");
        }
    }
    printf("\n%d pieces of %d products were for sale; %u workers; seed %llu.\n"
           "orders/s up to the last sale; with faults it contains the lease "
           "of the frozen\n(on a server also of the killed) worker.\n\n",
           STOCK, PRODUCTS, settings->workers,
           (unsigned long long)settings->seed);
}

/* -- main ----------------------------------------------------------------- */

static uint32_t list_variants(const struct settings *settings,
                              struct variant v[VARIANTS])
{
    /* The server's store is called as in its URL. */
    static char server[24], faulty[48];
    uint32_t n = 0;
    v[n++] = (struct variant){"no lock", NULL, false};
    if (settings->embedded) {
        v[n++] = (struct variant){"embedded", settings->embedded, false};
    }
    if (settings->server) {
        snprintf(server, sizeof server, "%.*s",
                 (int)strcspn(settings->server, ":"), settings->server);
        snprintf(faulty, sizeof faulty, "%s, with faults", server);
        v[n++] = (struct variant){server, settings->server, false};
    }
    if (settings->embedded) {
        v[n++] =
            (struct variant){"embedded, with faults", settings->embedded, true};
    }
    if (settings->server) {
        v[n++] = (struct variant){faulty, settings->server, true};
    }
    return n;
}

static int run_all(const struct settings *settings)
{
    struct variant v[VARIANTS];
    struct result r[VARIANTS];
    uint32_t n = list_variants(settings, v);
    bool ok = true;
    struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        r[i] = run_variant(settings, &v[i], board);
    }
    print_table(v, r, n, settings);
    for (uint32_t i = 0; i < n; i++) {
        ok &= judge(&v[i], &r[i], settings);
    }
    fflush(stdout);
    return ok ? 0 : 1;
}

static int print_requests(const struct settings *settings)
{
    static struct request request[REQUESTS_MAX];
    make_requests(settings->seed, request, settings->requests);
    puts("request,user,product,work_us");
    for (uint32_t i = 0; i < settings->requests; i++) {
        printf("%u,%u,%u,%u\n", i, request[i].user, request[i].product,
               request[i].work_us);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},
        {"requests", required_argument, NULL, 'n'},
        {"workers", required_argument, NULL, 'w'},
        {"embedded", required_argument, NULL, 'e'},
        {"server", required_argument, NULL, 'u'},
        {"print", no_argument, NULL, 'p'},
        {NULL, 0, NULL, 0}};
    struct settings s = {.seed = 42, .requests = 4000, .workers = 8};
    bool print = false, good = true;
    int c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 's') {
            s.seed = strtoull(optarg, NULL, 10);
        } else if (c == 'n') {
            s.requests = (uint32_t)strtoul(optarg, NULL, 10);
        } else if (c == 'w') {
            s.workers = (uint32_t)strtoul(optarg, NULL, 10);
        } else if (c == 'e') {
            s.embedded = optarg;
        } else if (c == 'u') {
            s.server = optarg;
        } else if (c == 'p') {
            print = true;
        } else {
            good = false;
        }
    }
    s.dir = argv[optind];
    if (!good || s.requests < 2500 || s.requests > REQUESTS_MAX ||
        s.workers < 3 || s.workers > WORKERS_MAX || (!print && !s.dir)) {
        fprintf(stderr,
                "usage: %s [--seed N] [--requests 2500…%d] [--workers 3…%d]\n"
                "       [--embedded URL] [--server URL] DIR | --print\n",
                argv[0], REQUESTS_MAX, WORKERS_MAX);
        return 2;
    }
    return print ? print_requests(&s) : run_all(&s);
}
