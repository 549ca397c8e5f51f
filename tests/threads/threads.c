/* threads.c — all schedules of small programs, and some of larger ones.
 *
 *   threads                   what ctest runs: --bound 1, --sample 40,
 *                             --random 2000
 *   --bound N     of each program of the table all schedules with at most N
 *                 deviations from "who runs goes on until it has to wait, then
 *                 the next one in turn": preemptions, another heir of the
 *                 processor, time pushed on
 *   --redis       the table of programs with a Redis server, and such by chance
 *   --cap N       at most so many schedules of a program (0: all)
 *   --sample N    of each program of the table so many more by chance
 *   --random N    programs by chance, each with --each (3) schedules
 *   --seed N      where chance begins
 *   --only TEXT   programs that contain it
 *   --program TEXT   in the table's place this one (program.h)
 *   --replay LIST    of --program one schedule, "12:1,40:2": at choice 12 option
 *                 1, …; shows what happens ("": nobody is preempted)
 *   --minutes N   by chance, until then
 *   --first       end with the first program that fails
 *   --list        the table
 *   --same FILE   compare what each of the programs (a hundred of those by
 *                 chance) does with the numbers that are kept there; with
 *                 SNIB_SHARE=N one line in N (../unit/share.h), and only its
 *                 programs run
 *   --record FILE write these
 *
 * Each program runs in a process of its own, so a crash, a failed assertion or
 * a report of AddressSanitizer is found like everything else: the schedule that
 * led there is cut down to few deviations and printed. Exit status 1 then. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../unit/share.h"
#include "one_core.h"
#include "program.h"
#include "real.h"

enum { PATIENCE_S = 60, DEPTH = 8 };

/* Shared with the processes that run programs. */
static struct shared {
    struct run run;
    char text[PROGRAM_TEXT];
    uint64_t schedules, cut, points;
    uint64_t same; /* of all schedules of a program, in their order        */
    uint32_t most;
} * shared;

static struct {
    int bound, each;
    uint64_t cap, sample, random, seed;
    double minutes;
    bool first, redis;
    const char *only, *program, *replay;
} option = {.bound = 1, .each = 3, .sample = 40, .random = 2000, .seed = 1};

/* The numbers of programs, in the order in which they run. */
static FILE *same, *record;
static int others;

static void compare(const char *what)
{
    char line[PROGRAM_TEXT + 40], is[PROGRAM_TEXT + 40];
    snprintf(is, sizeof is, "%016" PRIx64 " %s\n", shared->same, what);
    shared->same = 0;
    if (record) {
        fputs(is, record);
    }
    if (same && (!fgets(line, sizeof line, same) || strcmp(line, is) != 0) &&
        others++ < 10) {
        printf("does not run as it is written down: %s\n", what);
    }
}

/* Not in the share of the list that is compared: its line is skipped. */
static bool is_skipped(void)
{
    static uint64_t lines;
    char line[PROGRAM_TEXT + 40];
    if (!same || record || !is_left_out(lines++, share())) {
        return false;
    }
    (void)!fgets(line, sizeof line, same);
    return true;
}

static double clock_s(void)
{
    struct timespec t;
    REAL(clock_gettime)(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* -- one process -------------------------------------------------------------------- */

static void run_once(const char *text)
{
    alarm(PATIENCE_S); /* a wait that the scheduler does not know */
    program_run(text, &shared->run);
    shared->schedules++;
    shared->points += shared->run.points;
    if (!strstr(text, "narrow:")) { /* how much fits is the kernel's */
        shared->same = (shared->same ^ shared->run.same) * 0x100000001b3;
    }
    if (shared->run.choices > shared->most) {
        shared->most = shared->run.choices;
    }
}

/* The schedules that begin with the first `depth` deviations of the list, in
 * the order of their next one. */
static void explore(const char *text, uint32_t depth, int left)
{
    struct run *r = &shared->run;
    static uint8_t options[DEPTH][SCHED_POINTS];
    struct deviation list[DEPTH];
    if (option.cap && shared->schedules >= option.cap) {
        shared->cut = 1;
        return;
    }
    memcpy(list, r->list, depth * sizeof list[0]);
    r->listed = depth;
    run_once(text);
    uint32_t choices = r->choices;
    memcpy(options[depth], r->options, choices);
    if (!left || depth == DEPTH - 1) {
        return;
    }
    uint32_t first = depth ? list[depth - 1].at + 1 : 0;
    for (uint32_t at = first; at < choices; at++) {
        for (uint32_t k = 1; k < options[depth][at]; k++) {
            memcpy(r->list, list, depth * sizeof list[0]);
            r->list[depth] = (struct deviation){at, k};
            explore(text, depth + 1, left - 1);
        }
    }
}

static void sample(const char *text, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++) {
        shared->run.how = i % 2 ? SCHED_PRIORITIES : SCHED_UNIFORM;
        shared->run.seed = seed + i;
        run_once(text);
    }
    shared->run.how = SCHED_LIST;
}

static void child_of_table(const char *text)
{
    shared->run.how = SCHED_LIST;
    if (option.bound >= 0) {
        explore(text, 0, option.bound);
        uint64_t trace = shared->run.trace; /* the same again? */
        run_once(text);
        if (trace != shared->run.trace) {
            fprintf(stderr, "a schedule is not the same when repeated\n");
            exit(3);
        }
    }
    sample(text, option.sample, option.seed * 1000003);
}

static void child_of_chance(const char *text)
{
    sample(text, (uint64_t)option.each, shared->run.seed * 7919);
}

static void child_of_list(const char *text)
{
    shared->run.how = SCHED_LIST;
    run_once(text);
}

/* True: it failed. */
static bool in_child(void (*body)(const char *), const char *text, bool loud)
{
    int status;
    fflush(stdout);
    fflush(stderr);
    shared->run.failed = false;
    shared->run.why[0] = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (!loud && !freopen("/dev/null", "w", stderr)) {
            exit(2);
        }
        body(text);
        fflush(stdout);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        perror("threads: no process");
        exit(2);
    }
    if (status && !shared->run.failed) {
        snprintf(shared->run.why, sizeof shared->run.why,
                 WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM
                     ? "hangs where the scheduler cannot see it (status %d)"
                     : "a crash, a failed assertion or a report of a "
                       "sanitizer (status %d)",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    return status != 0;
}

/* -- telling ---------------------------------------------------------------------------- */

static void print_list(const struct run *r)
{
    for (uint32_t i = 0; i < r->listed; i++) {
        printf("%s%" PRIu32 ":%" PRIu32, i ? "," : "", r->list[i].at,
               r->list[i].option);
    }
}

/* Leave out what is not needed for a failure of some kind. */
static void shrink(void)
{
    struct run *r = &shared->run;
    static struct deviation best[SCHED_DEVIATIONS];
    uint32_t n = r->listed, tries = 0;
    memcpy(best, r->list, sizeof best);
    r->how = SCHED_LIST;
    if (!in_child(child_of_list, shared->text, false)) {
        return; /* does not happen again: shown as it is */
    }
    for (uint32_t size = n; size >= 1; size /= 2) {
        for (uint32_t from = 0; from < n && tries < 600; tries++) {
            uint32_t out = size < n - from ? size : n - from, k = 0;
            for (uint32_t i = 0; i < n; i++) {
                if (i < from || i >= from + out) {
                    r->list[k++] = best[i];
                }
            }
            r->listed = k;
            bool fails = in_child(child_of_list, shared->text, false);
            if (fails && !strstr(r->why, "not one of this program")) {
                memcpy(best, r->list, sizeof best);
                n = k;
            } else {
                from += out;
            }
        }
    }
    memcpy(r->list, best, sizeof best);
    r->listed = n;
}

static void report(void)
{
    struct run *r = &shared->run;
    printf("FAILED %s\n  %s\n", shared->text, r->why);
    shrink();
    r->verbose = true;
    (void)in_child(child_of_list, shared->text, true);
    r->verbose = false;
    printf("  %s\n  threads --program '%s' --replay '", r->why, shared->text);
    print_list(r);
    printf("'\n");
    fflush(stdout);
}

static bool try_program(const char *text, void (*body)(const char *))
{
    snprintf(shared->text, sizeof shared->text, "%s", text);
    shared->run.listed = 0;
    if (!in_child(body, shared->text, true)) {
        return true;
    }
    report();
    return false;
}

/* -- what to do ---------------------------------------------------------------------------- */

static const char *const *table(void)
{
    return option.redis ? program_table_redis : program_table;
}

static int run_table(void)
{
    int failed = 0;
    uint64_t programs = 0, all = 0, cut = 0;
    const char *const one[] = {option.program, NULL};
    for (const char *const *p = option.program ? one : table();
         *p && !(failed && option.first); p++) {
        if (program_check(*p)) {
            printf("'%s': %s\n", *p, program_check(*p));
            return 1;
        }
        if ((option.only && !strstr(*p, option.only)) || is_skipped()) {
            continue;
        }
        shared->schedules = shared->cut = 0;
        failed += !try_program(*p, child_of_table);
        compare(*p);
        programs++;
        all += shared->schedules;
        cut += shared->cut;
        if (option.only || option.bound > 1) {
            printf("%8" PRIu64 "%s  %s\n", shared->schedules,
                   shared->cut ? "+" : " ", *p);
        }
    }
    printf("%" PRIu64 " programs of the table, up to %d deviations: %" PRIu64
           " schedules, %" PRIu64 " programs cut short; at most %u choices in "
           "one\n",
           programs, option.bound, all, cut, shared->most);
    return failed;
}

static int run_random(void)
{
    int failed = 0;
    char text[PROGRAM_TEXT];
    double end = option.minutes > 0 ? clock_s() + option.minutes * 60 : 0;
    uint64_t n = 0, skipped = 0;
    bool skips = false;
    shared->schedules = 0;
    int enough = option.first ? 1 : 5;
    for (; (end > 0 ? clock_s() < end : n < option.random) && failed < enough;
         n++) {
        skips = n % 100 ? skips : is_skipped();
        if (skips) {
            skipped++;
            continue;
        }
        program_make(option.seed + n, option.redis, text);
        shared->run.seed = option.seed + n;
        failed += !try_program(text, child_of_chance);
        if (n % 100 == 99) {
            snprintf(text, sizeof text, "by chance, up to %" PRIu64,
                     option.seed + n);
            compare(text);
        }
    }
    printf("%" PRIu64 " programs by chance from seed %" PRIu64 ": %" PRIu64
           " schedules\n",
           n - skipped, option.seed, shared->schedules);
    return failed;
}

static bool read_list(struct run *r, const char *text)
{
    for (const char *p = text; *p;) {
        char *end;
        if (r->listed == SCHED_DEVIATIONS) {
            fprintf(stderr, "threads: --replay: more than %d deviations\n",
                    SCHED_DEVIATIONS);
            return false;
        }
        r->list[r->listed].at = (uint32_t)strtoul(p, &end, 10);
        if (*end != ':') {
            fprintf(stderr, "threads: --replay CHOICE:OPTION,…\n");
            return false;
        }
        r->list[r->listed++].option = (uint32_t)strtoul(end + 1, &end, 10);
        p = *end ? end + 1 : end;
    }
    return true;
}

static int replay(void)
{
    struct run *r = &shared->run;
    if (program_check(option.program)) {
        fprintf(stderr, "threads: %s\n", program_check(option.program));
        return 64;
    }
    snprintf(shared->text, sizeof shared->text, "%s", option.program);
    if (!read_list(r, option.replay)) {
        return 64;
    }
    r->verbose = true;
    bool failed = in_child(child_of_list, shared->text, true);
    printf("%s\n", failed ? r->why : "nothing wrong");
    return failed;
}

static FILE *open_list(const char *path, const char *mode)
{
    FILE *f = fopen(path, mode);
    if (!f) {
        perror(path);
        exit(64);
    }
    return f;
}

static void read_options(int argc, char **argv)
{
    static const struct option names[] = {
        {"bound", 1, 0, 'b'},   {"cap", 1, 0, 'c'},
        {"sample", 1, 0, 's'},  {"random", 1, 0, 'r'},
        {"seed", 1, 0, 'S'},    {"only", 1, 0, 'o'},
        {"program", 1, 0, 'p'}, {"replay", 1, 0, 'l'},
        {"minutes", 1, 0, 'm'}, {"each", 1, 0, 'e'},
        {"list", 0, 0, 'L'},    {"first", 0, 0, 'f'},
        {"same", 1, 0, 'k'},    {"record", 1, 0, 'R'},
        {"redis", 0, 0, 'D'},   {0}};
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        switch (c) {
        case 'b':
            option.bound = atoi(optarg);
            break;
        case 'c':
            option.cap = strtoull(optarg, NULL, 10);
            break;
        case 's':
            option.sample = strtoull(optarg, NULL, 10);
            break;
        case 'r':
            option.random = strtoull(optarg, NULL, 10);
            break;
        case 'S':
            option.seed = strtoull(optarg, NULL, 10);
            break;
        case 'e':
            option.each = atoi(optarg);
            break;
        case 'm':
            option.minutes = atof(optarg);
            break;
        case 'o':
            option.only = optarg;
            break;
        case 'p':
            option.program = optarg;
            break;
        case 'l':
            option.replay = optarg;
            break;
        case 'D':
            option.redis = true;
            break;
        case 'f':
            option.first = true;
            break;
        case 'k':
            same = open_list(optarg, "r");
            break;
        case 'R':
            record = open_list(optarg, "w");
            break;
        case 'L':
            for (const char *const *p = table(); *p; p++) {
                puts(*p);
            }
            exit(0);
        default:
            exit(64);
        }
    }
}

int main(int argc, char **argv)
{
    int failed = 0;
    read_options(argc, argv);
    stay_on_one_core();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("threads");
        return 2;
    }
    if (option.program && option.replay) {
        return replay();
    }
    if (option.program || option.minutes <= 0) {
        failed += run_table();
    }
    if (!option.program && !(failed && option.first)) {
        failed += run_random();
    }
    if (others) {
        printf("%d lists of schedules are not as written down: what the "
               "program does has changed, or\nwhere it can be interrupted. "
               "Meant? Then threads --record tests/threads/schedules.txt, "
               "with the\nchange.\n",
               others);
    }
    if (record && fclose(record)) {
        perror("threads: --record");
        return 2;
    }
    return failed || others ? 1 : 0;
}
