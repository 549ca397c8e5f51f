/* bench/bench.h — measurements as ratios, each against a baseline in the same
 * run: A and B take turns, and what counts is the median of the pairs.
 *
 *   main.c       rows, options
 *   report.c     medians, the table, JSON
 *   bare.c       the baseline: hiredis, blocking, the library's own commands
 *   setnx.c      the baseline: SET NX and compare-and-delete; its rows
 *   herd.c       the baseline: publish to all and retry
 *   crowd.c      processes or threads that do sections for a while
 *   child.c      programs that are spoken to by lines
 *   service.c    a server for one row, started by servers.py
 *   foreign.c    clients of others, which count their sections themselves
 *   contest.c    processes at one lock of a server: ours, and the others
 *   rows_*.c     the rows of docs/DESIGN.md, "Speed budget"
 *   clock.c      clocks, CPU time
 *   ports.c      free ports; servers.c: servers of a row's own
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <snib.h>

struct settings {
    const char *redis_host;
    int redis_port; /* 0: the Redis rows are skipped                   */
    char redis_url[64];
    const char *postgres_url, *mysql_url; /* NULL: the row is skipped      */
    /* The program that starts servers, NULL: not there; and whose CPU
     * server_now() tells, 0: that of Redis. */
    const char *servers;
    pid_t server_pid;
    const char *dir;  /* scratch                                         */
    const char *snib; /* the command line tool, NULL: not there          */
    double seconds;   /* of one measurement                              */
    int rounds;       /* pairs                                           */
};
extern struct settings settings;

/* -- report.c --------------------------------------------------------------- */

enum { ROUNDS_MAX = 51 };

/* Values of the rounds of one measurement. */
struct sample {
    double v[ROUNDS_MAX];
    int n;
};
void sample_add(struct sample *, double);
double sample_median(const struct sample *);
double sample_low(const struct sample *);
double sample_high(const struct sample *);

typedef enum goal_kind { GOAL_NONE, GOAL_AT_MOST, GOAL_AT_LEAST } goal_kind;

/* One line of the result. ours and base have a value a round; ratio too. */
struct finding {
    const char *row, *what, *unit;
    struct sample ours, base, ratio;
    bool per_ratio; /* the goal is on ratio, else on ours                   */
    goal_kind kind;
    double goal;
};
/* ratio = ours / base of each pair. */
void finding_pair(struct finding *, double ours, double base);
void report(const struct finding *);
void report_skip(const char *row, const char *why);
void report_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The table, then JSON into path (NULL: none; "-": stdout, no table). */
bool report_all(const char *json_path);
/* To stderr, so that JSON can go to stdout. */
void progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* -- clock.c ---------------------------------------------------------------- */

double now_s(void);
int64_t now_ns(void);
double cpu_of(pid_t pid); /* user + system seconds, all its threads         */
/* The same, with the threads that it had before. */
double cpu_ever_of(pid_t pid);
void pause_s(double);
int by_double(const void *, const void *);
/* Value at the given part (0.5: median) of n sorted ones. */
double at_part(const double *sorted, size_t n, double part);
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* -- bare.c ------------------------------------------------------------------ */

struct bare;
/* What the library sends for an acquire and a release, learned by watching it
 * (MONITOR) once; before any bare_open. */
void bare_learn(void);
struct bare *bare_open(const char *lock_name); /* a mutex */
enum bare_kind { BARE_MUTEX, BARE_READ, BARE_WRITE, BARE_PERMIT, BARE_KINDS };
struct bare *bare_open_as(enum bare_kind, const char *lock_name);
/* Both script calls once. Ends the program on any surprise. */
void bare_cycle(struct bare *);
/* n locks at once over the first one's connection: the acquires in one write,
 * then the releases in one. */
void bare_cycle_all(struct bare *const[], int n);
void bare_close(struct bare *);
/* On a server of one's own, in two steps: send the acquire or the release,
 * take its reply (blocks unless the descriptor is readable). */
struct bare *bare_open_at(int port, const char *lock_name);
void bare_send(struct bare *, bool release);
void bare_take(struct bare *, bool release);
int bare_fd(const struct bare *);

/* Figures of the server; of another one than Redis the first one only. */
struct server {
    double cpu;      /* seconds of CPU: Redis' main thread, others whole   */
    long long calls; /* script calls                                       */
    /* Microseconds in which it executed scripts and transactions with all that
     * they call, and SET by whomever it was called. By the wall clock, so what
     * keeps the server from its core counts, too. */
    double whole, set;
};
struct server server_now(void);
void server_flush(void);

/* -- setnx.c ----------------------------------------------------------------- */

struct setnx;
struct setnx *setnx_open(const char *lock_name);
/* One section. Ends the program on any surprise. */
void setnx_cycle(struct setnx *);
void setnx_close(struct setnx *);

/* -- alone.c ------------------------------------------------------------------- */

/* What one thread does again and again. */
struct work {
    void (*run)(void *data);
    void *data;
    int sections; /* in each run                                         */
};
struct work work_of_lock(struct snib_lock *);
struct work work_of_bare(struct bare *);
double work_us(struct work, double seconds); /* microseconds a section        */
/* The same in rounds, after a warm-up; reported. */
void measure_alone(struct finding *, struct work ours, struct work base);

/* -- crowd.c ------------------------------------------------------------------ */

enum { CROWD_MAX = 1024, WAITS_MAX = 1 << 20 };

/* Shared by the members, which may be processes. */
struct crowd {
    atomic_int ready, ended;
    atomic_bool go, stop, keep; /* keep: record waits now                */
    atomic_ullong sections;
    atomic_llong released_ns; /* when the last release began           */
    atomic_uint wait_count;
    _Atomic float wait_us[WAITS_MAX];
    const char *url, *name; /* for the member                        */
    double inside_s;        /* how long a permit is held             */
    void *data;             /* threads only                          */
};
struct crowd *crowd_new(void);
void crowd_free(struct crowd *);

struct span { /* what happened while it was measured                        */
    double seconds;
    unsigned long long sections;
    struct server before, after; /* zero without a server                 */
};
double span_rate(const struct span *);   /* sections a second                */
double span_calls(const struct span *);  /* script calls a section           */
double span_cpu_us(const struct span *); /* the server's CPU a section       */
/* Microseconds a section in which the server executed what clients sent. sets:
 * they send SET themselves; else scripts and transactions alone do. */
double executing_us(const struct server *from, const struct server *to,
                    double sections, bool sets);
typedef void member(struct crowd *, int me);
/* n processes or threads run member; measured for seconds after a warm-up. */
struct span crowd_processes(struct crowd *, int n, member *, double seconds);
struct span crowd_threads(struct crowd *, int n, member *, double seconds);
void crowd_note_wait(struct crowd *, double us);
/* Sorts and gives the part (0.99) of the noted waits. */
double crowd_wait_part(struct crowd *, double part);

/* For members. Wait for the start; and then do this until the end, each section
 * counted. */
void crowd_wait(struct crowd *);
void crowd_repeat(struct crowd *, struct work);
/* A thread with a lock of its own, of the client in data. */
void member_own_lock(struct crowd *, int me);
/* So many of them, of the one client and of the other in turn; reported. */
void measure_own_locks(struct finding *, int threads, struct snib_client *ours,
                       struct snib_client *base);
/* Members: the library's client per process on one lock; the herd. */
void member_snib(struct crowd *, int me);
void member_herd(struct crowd *, int me);
/* The herd on a semaphore of HERD_PERMITS. */
enum { HERD_PERMITS = 4 };
void member_herd_permits(struct crowd *, int me);

struct snib_client *open_client(const char *url);
struct snib_lock *open_lock(struct snib_client *, const char *name);
/* capacity: of PERMITS, which are taken one at a time; else 0. */
struct snib_lock *open_kind(struct snib_client *, const char *name, snib_kind,
                            uint32_t capacity);
/* One section: acquire, release; ends the program on an error. */
void section(struct snib_lock *);

/* -- child.c ------------------------------------------------------------------- */

/* A program that reads lines and answers by lines. It ends with this one. */
struct child {
    const char *program;
    pid_t pid;
    FILE *lines; /* both ways                                            */
};
/* With these arguments; the first one that is NULL ends them. */
struct child child_start(const char *program, const char *a, const char *b,
                         const char *c);
void child_say(struct child *, const char *line);
/* What it says next, without the newline. Ends the program if nothing comes. */
void child_line(struct child *, char *ret, int size, int wait_s);
void child_end(struct child *); /* its stdin ends; waits until it is gone */

/* -- service.c ------------------------------------------------------------------- */

/* A server of a row's own, on a free port, with its data in a scratch
 * directory, and the program of another client of it where there is one. */
struct service {
    struct child keeper;
    char url[100]; /* SCHEME://HOST:PORT                                   */
    char client[300];
};
/* False: it is reported as skipped. */
bool service_start(struct service *, const char *row);
const char *service_address(const struct service *); /* HOST:PORT            */
void service_stop(struct service *);

/* -- foreign.c ------------------------------------------------------------------- */

/* Processes with another client. They say "ready" when they are connected. Then
 *
 *     sections FROM TO      sections N
 *
 * they do sections until TO (ms since 1970), and count those that they entered
 * from FROM on. */
struct foreign;
/* So many processes, each with these arguments, as for child_start. */
struct foreign *foreign_start(int processes, const char *program,
                              const char *where, const char *name,
                              const char *more);
/* All of them do sections: for a moment uncounted, then for so long. */
struct span foreign_span(struct foreign *, double seconds);
void foreign_stop(struct foreign *);

/* -- contest.c ------------------------------------------------------------------- */

/* So many processes at one lock of a server, ours against others. */
struct contest {
    const char *row, *against; /* what they are called                     */
    const struct service *service;
    /* A turn of the others, with so many processes or what stands for them. */
    struct span (*others)(void *data, int processes);
    void *data;
};
/* Rounds of turns; reported. goal: at least so many times the others' sections
 * a second; 0: none. */
void contest_measure(const struct contest *, int processes, double goal);

/* -- ports.c ------------------------------------------------------------------- */

int port_free(void); /* of the loopback interface; nobody has it now */
bool port_answers(int port);

/* -- servers.c ----------------------------------------------------------------- */

/* The program runs, without words. More than 0: its process. */
pid_t server_run(const char *const argv[]);
/* Somebody answers at this port, soon. */
bool server_comes(int port);
/* A Redis without persistence, which answers; more: words of its configuration,
 * up to NULL. -1: there is none. */
pid_t server_redis(int port, const char *const more[]);
void server_stop(pid_t); /* -1: nothing */

/* -- rows ---------------------------------------------------------------------- */

void row_one_thread(void);
void row_threads(void);
void row_threads64(void);
void row_processes64(void);
void row_waiters1000(void);
void row_local64(void);
void row_held(void);
void row_embedded(void);
void row_file(void);
void row_file_handover(void);
void row_file_waited(void);
void row_handover(void);
void row_idle(void);
void row_run(void);
void row_multi(void);
void row_nested(void);
void row_quorum(void);
void row_rw(void);
void row_keep(void);
void row_semaphore(void);
void row_tls(void);
void row_replicas(void);
void row_cluster(void);
void row_witness(void);
void row_postgres(void);
void row_version(void);
void row_mysql(void);
void row_etcd(void);
void row_zookeeper(void);
void row_rabbitmq(void);
void row_setnx(void);
void row_setnx64(void);

#endif
