/* bench/crowd.c — processes or threads that do sections for a while. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { STACK = 256 * 1024 };
static const double WARM_UP_S = 0.3, GIVE_UP_S = 60;

struct crowd *crowd_new(void)
{
    struct crowd *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c == MAP_FAILED) {
        die("no memory");
    }
    return c;
}

void crowd_free(struct crowd *c)
{
    munmap(c, sizeof *c);
}

void crowd_note_wait(struct crowd *c, double us)
{
    if (atomic_load_explicit(&c->keep, memory_order_relaxed)) {
        unsigned i = atomic_fetch_add(&c->wait_count, 1);
        if (i < WAITS_MAX) {
            c->wait_us[i] = (float)us;
        }
    }
}

double crowd_wait_part(struct crowd *c, double part)
{
    unsigned n = atomic_load(&c->wait_count);
    n = n < WAITS_MAX ? n : WAITS_MAX;
    double *v = malloc((n + 1) * sizeof *v);
    if (!v) {
        die("no memory");
    }
    for (unsigned i = 0; i < n; i++) {
        v[i] = (double)c->wait_us[i];
    }
    qsort(v, n, sizeof *v, by_double);
    double found = at_part(v, n, part);
    free(v);
    return found;
}

/* All have started: warm up, then measure. */
static struct span measure(struct crowd *c, int n, double seconds)
{
    struct span span = {0};
    for (double from = now_s(); atomic_load(&c->ready) < n;) {
        if (now_s() - from > GIVE_UP_S) {
            die("only %d of %d members started", atomic_load(&c->ready), n);
        }
        pause_s(0.001);
    }
    atomic_store(&c->go, true);
    pause_s(WARM_UP_S);
    span.before = server_now();
    atomic_store(&c->keep, true);
    unsigned long long first = atomic_load(&c->sections);
    double from = now_s();
    pause_s(seconds);
    span.sections = atomic_load(&c->sections) - first;
    span.seconds = now_s() - from;
    atomic_store(&c->keep, false);
    span.after = server_now();
    atomic_store(&c->stop, true);
    return span;
}

struct span crowd_processes(struct crowd *c, int n, member *run, double seconds)
{
    pid_t pid[CROWD_MAX], parent = getpid();
    fflush(NULL);
    for (int i = 0; i < n; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) {
                _exit(1);
            }
            run(c, i);
            _exit(0);
        }
    }
    struct span span = measure(c, n, seconds);
    for (int i = 0; i < n; i++) {
        int status;
        waitpid(pid[i], &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            die("a member failed");
        }
    }
    return span;
}

struct start {
    struct crowd *crowd;
    member *run;
    int me;
};

static void *run_thread(void *data)
{
    struct start *s = data;
    s->run(s->crowd, s->me);
    return NULL;
}

struct span crowd_threads(struct crowd *c, int n, member *run, double seconds)
{
    pthread_t thread[CROWD_MAX];
    struct start start[CROWD_MAX];
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    for (int i = 0; i < n; i++) {
        start[i] = (struct start){c, run, i};
        if (pthread_create(&thread[i], &attr, run_thread, &start[i]) != 0) {
            die("no thread");
        }
    }
    struct span span = measure(c, n, seconds);
    for (int i = 0; i < n; i++) {
        pthread_join(thread[i], NULL);
    }
    pthread_attr_destroy(&attr);
    return span;
}

/* -- the library --------------------------------------------------------------- */

struct snib_client *open_client(const char *url)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *client;
    struct snib_error e;
    o.url = url;
    o.program = "bench";
    if (snib_client_open(&o, &client, &e)) {
        die("%s: %s", snib_err_name(e.code), e.text);
    }
    return client;
}

struct snib_lock *open_kind(struct snib_client *client, const char *name,
                            snib_kind kind, uint32_t capacity)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *lock;
    struct snib_error e;
    o.kind = kind;
    o.capacity = capacity;
    if (snib_lock_new(client, name, &o, &lock, &e)) {
        die("%s: %s", snib_err_name(e.code), e.text);
    }
    return lock;
}

struct snib_lock *open_lock(struct snib_client *client, const char *name)
{
    return open_kind(client, name, SNIB_KIND_MUTEX, 0);
}

void section(struct snib_lock *lock)
{
    struct snib_grant g;
    struct snib_error e;
    if (snib_acquire(lock, NULL, &g, &e) || snib_release(lock, g, &e)) {
        die("%s: %s", snib_err_name(e.code), e.text);
    }
}

void crowd_wait(struct crowd *c)
{
    atomic_fetch_add(&c->ready, 1);
    while (!atomic_load(&c->go)) {
        pause_s(0.001);
    }
}

void crowd_repeat(struct crowd *c, struct work w)
{
    crowd_wait(c);
    while (!atomic_load(&c->stop)) {
        w.run(w.data);
        atomic_fetch_add_explicit(&c->sections, (unsigned)w.sections,
                                  memory_order_relaxed);
    }
}

void member_own_lock(struct crowd *c, int me)
{
    char name[32];
    snprintf(name, sizeof name, "bench:own:%d", me);
    struct snib_lock *lock = open_lock(c->data, name);
    crowd_repeat(c, work_of_lock(lock));
    snib_lock_free(lock);
}

static double own_locks_rate(int threads, struct snib_client *client)
{
    struct crowd *c = crowd_new();
    c->data = client;
    struct span s =
        crowd_threads(c, threads, member_own_lock, settings.seconds);
    crowd_free(c);
    return span_rate(&s);
}

void measure_own_locks(struct finding *f, int threads, struct snib_client *ours,
                       struct snib_client *base)
{
    for (int i = 0; i < settings.rounds; i++) {
        double mine = own_locks_rate(threads, ours);
        finding_pair(f, mine, own_locks_rate(threads, base));
    }
    report(f);
}

/* Hand-over: from the start of a release until the next holder runs. */
void member_snib(struct crowd *c, int me)
{
    struct snib_client *client = open_client(c->url);
    struct snib_lock *lock = open_lock(client, c->name);
    struct snib_grant g;
    struct snib_error e;
    (void)me;
    crowd_wait(c);
    while (!atomic_load(&c->stop)) {
        if (snib_acquire(lock, NULL, &g, &e)) {
            die("%s: %s", snib_err_name(e.code), e.text);
        }
        int64_t now = now_ns(), released = atomic_load(&c->released_ns);
        if (released) {
            crowd_note_wait(c, (double)(now - released) / 1e3);
        }
        atomic_fetch_add(&c->sections, 1);
        atomic_store(&c->released_ns, now_ns());
        if (snib_release(lock, g, &e)) {
            die("%s: %s", snib_err_name(e.code), e.text);
        }
    }
    snib_lock_free(lock);
    snib_client_free(client);
}

double span_rate(const struct span *s)
{
    return (double)s->sections / s->seconds;
}

double span_calls(const struct span *s)
{
    return (double)(s->after.calls - s->before.calls) / (double)s->sections;
}

double span_cpu_us(const struct span *s)
{
    return (s->after.cpu - s->before.cpu) / (double)s->sections * 1e6;
}
