/* snib-sim — run worlds.
 *
 *   snib-sim --count N [--from SEED] [--jobs J] [--brief] [WORLDS]
 *                                                 many seeds, progress, rate
 *   snib-sim --seed N [-v]                        one seed, timeline with -v
 *   snib-sim --scenario FILE [-v]                 one kept world
 *   snib-sim --hash N                             trace hash of a seed, twice
 *   snib-sim --same FILE | --record FILE          do many worlds run as it is
 *                                                 written there; write it anew
 *
 * WORLDS: all kinds of worlds, each for so many seeds, or
 *   --mutex    plain mutexes on one server only: the short workload
 *   --quorum   of several servers only
 *   --many     owners want several names as one, in every seed
 *   --snapshot whose store is a table, worked on by snapshots of its rows
 *   --list     of two servers, one of which is the primary
 *   --rare     of rare trouble where mutexes are taken without a script
 *   --witness  whose clients have a witness each
 *   --recovery of servers that forget, and clients that ask for recovery=
 *   --replicas the same with replicas=, and primaries that go on
 *   --failover of a replica that is promoted; nobody promises exclusion there
 *   --keepers  clients keep what their owners release
 *   --etcd     whose store is a cluster of etcd
 *   --sql      … a database
 * and of the same seeds only those in which
 *   --circles  locks are taken inside others
 *   --force    grants are ended by force, or callers spin
 *   --values   owners work on versioned values, or look who holds
 *   --leases   leases have two lengths, and callers renew by hand
 *   --thin     mutexes are often free when they are asked for
 *
 * Exit 0: all theorems held; 1: one broke (seed, theorem, shrunk scenario and
 * timeline are printed); 64: usage. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/draw.h"
#include "sim/kept.h"
#include "sim/shrink.h"

static struct sim_world world;
static bool brief; /* do not shrink, print one line */

static enum sim_worlds kind;

static bool is_kind(const char *arg)
{
    for (int k = SIM_ALL + 1; k < SIM_WORLDS; k++) {
        if (strcmp(arg, sim_worlds_names[k]) == 0) {
            kind = (enum sim_worlds)k;
            return true;
        }
    }
    return false;
}

static double seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int usage(const char *what)
{
    fprintf(stderr,
            "snib-sim: %s\n"
            "usage: snib-sim --count N [--from SEED] [--jobs J] [--brief] "
            "[--mutex | --quorum | --many |\n"
            "                --snapshot | --circles | --force | --values | "
            "--leases | --thin |\n"
            "                --list | --rare | --witness | --recovery | "
            "--replicas | --failover |\n"
            "                --keepers | --etcd | --sql]\n"
            "       snib-sim --seed N [-v] | --scenario FILE [-v] | "
            "--hash N |\n"
            "                --same FILE | --record FILE\n",
            what);
    return 64;
}

/* Shrink, print the scenario, run it once more with a timeline. */
static void report(struct sim_lua *lua, const struct sim_options *opt,
                   bool timeline)
{
    struct sim_options small = *opt;
    char theorem[sizeof world.theorem];
    memcpy(theorem, world.theorem, sizeof theorem);
    printf("FAILED seed %llu: %s: %s\n", (unsigned long long)opt->seed,
           world.theorem, world.why);
    if (brief) {
        fflush(stdout);
        return;
    }
    int tried = sim_shrink(&small, theorem, lua);
    printf("shrunk in %d runs; keep this as a scenario:\n", tried);
    sim_options_print(&small, stdout);
    if (timeline) {
        printf("timeline:\n");
        sim_run(&world, &small, lua, stdout);
    }
    fflush(stdout);
}

static int run_one(const struct sim_options *opt, bool verbose)
{
    struct sim_lua *lua = sim_lua_new();
    bool ok = sim_run(&world, opt, lua, verbose ? stdout : NULL);
    if (!ok) {
        report(lua, opt, true);
    } else {
        printf("ok: seed %llu, %llu events, %llu grants, %llu refusals, "
               "%llu losses, hash %016llx\n",
               (unsigned long long)opt->seed, (unsigned long long)world.events,
               (unsigned long long)world.grants,
               (unsigned long long)world.refusals,
               (unsigned long long)world.losses,
               (unsigned long long)world.hash);
    }
    sim_lua_free(lua);
    return ok ? 0 : 1;
}

static int run_hash(uint64_t seed)
{
    struct sim_options opt;
    uint64_t hash[2];
    struct sim_lua *lua = sim_lua_new();
    sim_worlds_draw(kind, &opt, seed);
    for (int i = 0; i < 2; i++) {
        sim_run(&world, &opt, lua, NULL);
        hash[i] = world.hash;
    }
    sim_lua_free(lua);
    printf("%016llx %016llx\n", (unsigned long long)hash[0],
           (unsigned long long)hash[1]);
    return hash[0] == hash[1] ? 0 : 1;
}

struct sums {
    uint64_t runs, events, grants, losses, refusals;
};

/* One job: it runs the seeds from, from + step, … and writes its sums to the
 * pipe. */
static int run_share(uint64_t from, uint64_t count, uint64_t step, int fd,
                     bool show)
{
    struct sim_lua *lua = sim_lua_new();
    struct sums sum = {0};
    double start = seconds(), shown = start;
    int failed = 0;
    for (uint64_t i = 0; i < count && !failed; i += step) {
        struct sim_options opt;
        sim_worlds_draw(kind, &opt, from + i);
        if (!sim_worlds_wanted(kind, &opt)) {
            continue;
        }
        if (!sim_run(&world, &opt, lua, NULL)) {
            report(lua, &opt, true);
            failed = 1;
        }
        sum.runs++;
        sum.events += world.events;
        sum.grants += world.grants;
        sum.losses += world.losses;
        sum.refusals += world.refusals;
        if (show && seconds() - shown > 2) {
            shown = seconds();
            fprintf(stderr, "\r%llu of %llu seeds, %.0f runs/s ",
                    (unsigned long long)i, (unsigned long long)count,
                    (double)(sum.runs * step) / (shown - start));
        }
    }
    sim_lua_free(lua);
    ssize_t n = write(fd, &sum, sizeof sum);
    return failed || n != sizeof sum;
}

static int run_many(uint64_t from, uint64_t count, uint64_t jobs)
{
    int fds[2], bad = 0, status;
    struct sums all = {0}, one;
    double start = seconds();
    if (pipe(fds)) {
        return 70;
    }
    fflush(NULL);
    for (uint64_t j = 0; j < jobs; j++) {
        pid_t pid = fork();
        if (pid == 0) {
            close(fds[0]);
            exit(run_share(from + j, count > j ? count - j : 0, jobs, fds[1],
                           j == 0 && isatty(2)));
        }
    }
    close(fds[1]);
    while (read(fds[0], &one, sizeof one) == sizeof one) {
        all.runs += one.runs;
        all.events += one.events;
        all.grants += one.grants;
        all.losses += one.losses;
        all.refusals += one.refusals;
    }
    while (wait(&status) > 0) {
        bad += status != 0;
    }
    double took = seconds() - start;
    printf("%s%llu worlds, %llu events, %llu grants, %llu losses, %llu "
           "refusals in %.1f s: %.0f worlds/s\n",
           isatty(2) ? "\n" : "", (unsigned long long)all.runs,
           (unsigned long long)all.events, (unsigned long long)all.grants,
           (unsigned long long)all.losses, (unsigned long long)all.refusals,
           took, (double)all.runs / took);
    return bad ? 1 : 0;
}

static bool number(const char *text, uint64_t *ret)
{
    char *end;
    errno = 0;
    *ret = strtoull(text, &end, 0);
    return !errno && end != text && !*end && text[0] != '-';
}

int main(int argc, char **argv)
{
    uint64_t count = 0, from = 1, jobs = 2, seed = 0, hash = 0;
    const char *file = NULL, *same = NULL, *record = NULL;
    bool verbose = false, one = false, twice = false;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(a, "-v")) {
            verbose = true;
        } else if (!strcmp(a, "--brief")) {
            brief = true;
        } else if (is_kind(a)) {
            continue;
        } else if (!strcmp(a, "--scenario") && *v) {
            file = v;
            i++;
        } else if (!strcmp(a, "--same") && *v) {
            same = v;
            i++;
        } else if (!strcmp(a, "--record") && *v) {
            record = v;
            i++;
        } else if (!strcmp(a, "--count") && number(v, &count)) {
            i++;
        } else if (!strcmp(a, "--from") && number(v, &from)) {
            i++;
        } else if (!strcmp(a, "--jobs") && number(v, &jobs) && jobs > 0) {
            i++;
        } else if (!strcmp(a, "--seed") && number(v, &seed)) {
            one = true;
            i++;
        } else if (!strcmp(a, "--hash") && number(v, &hash)) {
            twice = true;
            i++;
        } else {
            return usage(a);
        }
    }
    if (same || record) {
        return same ? sim_kept_compare(same, jobs)
                    : sim_kept_record(record, jobs);
    }
    struct sim_options opt;
    if (file) {
        char why[160];
        FILE *f = fopen(file, "r");
        if (!f || !sim_options_read(&opt, f, why, sizeof why)) {
            fprintf(stderr, "snib-sim: %s: %s\n", file,
                    f ? why : strerror(errno));
            return 64;
        }
        fclose(f);
        return run_one(&opt, verbose);
    }
    if (one) {
        sim_worlds_draw(kind, &opt, seed);
        return run_one(&opt, verbose);
    }
    if (twice) {
        return run_hash(hash);
    }
    return count ? run_many(from, count, jobs) : usage("nothing to do");
}
