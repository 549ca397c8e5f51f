/* sim/kept.c — the list has a line for each world: its kind ("all", "quorum", …
 * or "scenario"), its seed or name, and its number. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/kept.h"

enum { KEPT_MAX = 2000, NAME_MAX_ = 80 };

struct kept {
    int kind; /* SIM_WORLDS: a scenario */
    uint64_t seed;
    char name[NAME_MAX_]; /* of a scenario */
    uint64_t written, is;
    bool failed; /* a theorem failed */
};

/* In shared memory: each job fills in some of the entries. */
struct list {
    char dir[4096]; /* of the file */
    size_t count;
    struct kept kept[KEPT_MAX];
};

static const struct {
    enum sim_worlds kind;
    uint64_t count;
} RECORDED[] = {
    {SIM_ALL, 240},         {SIM_OF_A_QUORUM, 40},   {SIM_OF_MANY, 40},
    {SIM_OF_CIRCLES, 40},   {SIM_OF_FORCE, 40},      {SIM_OF_VALUES, 40},
    {SIM_OF_LEASES, 40},    {SIM_OF_SNAPSHOTS, 100}, {SIM_OF_RARE, 48},
    {SIM_OF_WITNESSES, 40}, {SIM_OF_RECOVERY, 24},   {SIM_OF_ETCD, 60},
    {SIM_OF_SQL, 60}};

static const char *word_of(int kind)
{
    return kind == SIM_ALL      ? "all"
           : kind == SIM_WORLDS ? "scenario"
                                : sim_worlds_names[kind] + 2;
}

static struct list *new_list(const char *file)
{
    char *path = strdup(file);
    struct list *list = mmap(NULL, sizeof *list, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!path || list == MAP_FAILED) {
        abort();
    }
    snprintf(list->dir, sizeof list->dir, "%s", dirname(path));
    free(path);
    return list;
}

static struct kept *add(struct list *list, int kind)
{
    if (list->count == KEPT_MAX) {
        abort();
    }
    struct kept *k = &list->kept[list->count++];
    k->kind = kind;
    return k;
}

static bool options_of(const struct list *list, const struct kept *k,
                       struct sim_options *ret)
{
    char path[sizeof list->dir + NAME_MAX_ + 20], why[160];
    if (k->kind != SIM_WORLDS) {
        sim_worlds_draw((enum sim_worlds)k->kind, ret, k->seed);
        return true;
    }
    snprintf(path, sizeof path, "%s/scenarios/%s.txt", list->dir, k->name);
    FILE *f = fopen(path, "r");
    bool ok = f && sim_options_read(ret, f, why, sizeof why);
    if (f) {
        fclose(f);
    }
    return ok;
}

static void run_share(struct list *list, size_t from, size_t step)
{
    static struct sim_world world;
    struct sim_lua *lua = sim_lua_new();
    struct sim_options opt;
    for (size_t i = from; i < list->count; i += step) {
        struct kept *k = &list->kept[i];
        if (options_of(list, k, &opt)) {
            k->failed = !sim_run(&world, &opt, lua, NULL);
            k->is = world.same;
        }
    }
    sim_lua_free(lua);
}

/* False: one of the jobs crashed. */
static bool run_all(struct list *list, uint64_t jobs)
{
    bool ok = true;
    int status;
    fflush(NULL);
    for (uint64_t j = 0; j < jobs; j++) {
        pid_t pid = fork();
        if (pid == 0) {
            run_share(list, j, jobs);
            exit(0);
        }
        ok = ok && pid > 0;
    }
    while (wait(&status) > 0) {
        ok = ok && status == 0;
    }
    return ok;
}

static int is_scenario(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');
    return dot && strcmp(dot, ".txt") == 0 && strlen(e->d_name) < NAME_MAX_;
}

static void add_scenarios(struct list *list)
{
    char path[sizeof list->dir + 20];
    struct dirent **entries;
    snprintf(path, sizeof path, "%s/scenarios", list->dir);
    int count = scandir(path, &entries, is_scenario, alphasort);
    for (int i = 0; i < count; i++) {
        struct kept *k = add(list, SIM_WORLDS);
        snprintf(k->name, sizeof k->name, "%.*s",
                 (int)(strlen(entries[i]->d_name) - 4), entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0) {
        free(entries);
    }
}

int sim_kept_record(const char *file, uint64_t jobs)
{
    struct list *list = new_list(file);
    struct sim_options opt;
    for (size_t i = 0; i < sizeof RECORDED / sizeof *RECORDED; i++) {
        uint64_t found = 0;
        for (uint64_t seed = 1; found < RECORDED[i].count; seed++) {
            sim_worlds_draw(RECORDED[i].kind, &opt, seed);
            if (sim_worlds_wanted(RECORDED[i].kind, &opt)) {
                add(list, (int)RECORDED[i].kind)->seed = seed;
                found++;
            }
        }
    }
    add_scenarios(list);
    if (!run_all(list, jobs)) {
        return 1;
    }
    FILE *f = fopen(file, "w");
    if (!f) {
        fprintf(stderr, "snib-sim: %s: %s\n", file, strerror(errno));
        return 64;
    }
    fputs("# What each of these worlds does, as a number: sim/same.c. By "
          "snib-sim --record.\n",
          f);
    for (size_t i = 0; i < list->count; i++) {
        const struct kept *k = &list->kept[i];
        if (k->kind == SIM_WORLDS) {
            fprintf(f, "scenario %s %016" PRIx64 "\n", k->name, k->is);
        } else {
            fprintf(f, "%s %" PRIu64 " %016" PRIx64 "\n", word_of(k->kind),
                    k->seed, k->is);
        }
    }
    return fclose(f) ? 64 : 0;
}

static bool read_line(struct list *list, const char *line)
{
    char word[20], which[NAME_MAX_];
    uint64_t written;
    if (sscanf(line, "%19s %79s %" SCNx64, word, which, &written) != 3) {
        return false;
    }
    for (int kind = 0; kind <= SIM_WORLDS; kind++) {
        if ((kind == SIM_OF_ETCD && !sim_etcd_is_built()) ||
            (kind == SIM_OF_SQL && !sim_sql_is_built())) {
            continue;
        }
        if (strcmp(word, word_of(kind)) == 0) {
            struct kept *k = add(list, kind);
            k->written = written;
            k->seed = strtoull(which, NULL, 10);
            snprintf(k->name, sizeof k->name, "%s", which);
            return true;
        }
    }
    return false;
}

static bool read_list(struct list *list, const char *file)
{
    char line[200];
    bool ok = true;
    FILE *f = fopen(file, "r");
    if (!f) {
        fprintf(stderr, "snib-sim: %s: %s\n", file, strerror(errno));
        return false;
    }
    while (ok && fgets(line, sizeof line, f)) {
        ok = line[0] == '#' || read_line(list, line);
    }
    fclose(f);
    if (!ok) {
        fprintf(stderr, "snib-sim: %s: not a line of it: %s", file, line);
    }
    return ok;
}

int sim_kept_compare(const char *file, uint64_t jobs)
{
    struct list *list = new_list(file);
    size_t others = 0;
    if (!read_list(list, file)) {
        return 64;
    }
    bool ran = run_all(list, jobs);
    for (size_t i = 0; i < list->count; i++) {
        const struct kept *k = &list->kept[i];
        if (k->is != k->written && others++ < 20) {
            printf("%s %s runs otherwise than it is written down%s\n",
                   word_of(k->kind), k->name,
                   k->failed ? ", and breaks a theorem" : "");
        }
    }
    printf("%zu of %zu worlds as written down\n", list->count - others,
           list->count);
    if (others) {
        printf("What the program does has changed. To see what: the timelines "
               "of one of them,\nsnib-sim --seed N -v [--quorum …] or "
               "--scenario FILE -v, here and in a build of the commit\n"
               "before. Was it meant? Then snib-sim --record %s, with the "
               "change.\n",
               file);
    }
    return others || !ran || !list->count;
}
