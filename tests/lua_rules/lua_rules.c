/* lua_rules.c — the Lua scripts against the rules in C, by chance.
 *
 *     lua_rules [--from N] [--count N] [--minutes M]
 *     lua_rules --seed N       one history, told step by step
 *
 * When the two differ in a history it is made small, and what is left is told.
 * SNIB_SHARE=N runs one history in N. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../unit/share.h"
#include "apart.h"
#include "run.h"

static const char *const seen_names[SEENS] = {
    [SEEN_GRANTED] = "granted at once",
    [SEEN_QUEUED] = "queued",
    [SEEN_PUSHED] = "pushed",
    [SEEN_BUSY] = "held by others",
    [SEEN_REFUSED] = "refused",
    [SEEN_RENEWED] = "renewed",
    [SEEN_RELEASED] = "released",
    [SEEN_ENDED] = "expired",
    [SEEN_UPGRADED] = "upgraded",
    [SEEN_REVOKED] = "revoked",
    [SEEN_BARRIERS] = "past barriers",
    [SEEN_BATCHES] = "batches",
    [SEEN_LATE] = "late copies refused",
    [SEEN_UNHEARD] = "grants not heard of"};

struct options {
    uint64_t from, count, seed;
    double minutes; /* above 0: so long, however many they are */
};

static bool try_seed(uint64_t seed)
{
    run->history = (struct history){.seed = seed};
    if (!run_differs(true, false)) {
        return true;
    }
    printf("seed %llu: they differ at step %d: %s\n", (unsigned long long)seed,
           run->differs_at, run->why);
    run_shrink();
    printf("made small: %d steps\n", run->history.count);
    run_differs(false, true);
    printf("they differ: %s\n", run->why);
    return false;
}

static void tell_what_was_seen(uint64_t count)
{
    printf("%llu histories, %u steps:", (unsigned long long)count, run->steps);
    for (int i = 0; i < SEENS; i++) {
        printf("%s %u %s", i ? "," : "", run->seen[i], seen_names[i]);
    }
    printf("\n");
}

static bool is_hollow(uint64_t count)
{
    for (int i = 0; i < SEENS && count >= 200; i++) {
        if (!run->seen[i]) {
            printf("never: %s\n", seen_names[i]);
            return true;
        }
    }
    return false;
}

static int try_many(const struct options *o)
{
    uint64_t n = share(), done = 0;
    time_t end = time(NULL) + (time_t)(o->minutes * 60);
    for (uint64_t i = 0; o->minutes > 0 ? time(NULL) < end : i < o->count;
         i++) {
        if (is_left_out(i, n)) {
            continue;
        }
        if (!try_seed(o->from + i)) {
            return 1;
        }
        done++;
    }
    tell_what_was_seen(done);
    return is_hollow(done);
}

/* The cases of apart.c leave tokens behind. */
static bool apart_in_a_process(void)
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int wrong = apart_run();
        fflush(NULL);
        _exit(wrong != 0);
    }
    return pid < 0 || waitpid(pid, &status, 0) != pid || status;
}

static bool read_option(const char *name, const char *value,
                        struct options *ret)
{
    uint64_t number = strtoull(value, NULL, 10);
    if (strcmp(name, "--from") == 0) {
        ret->from = number;
    } else if (strcmp(name, "--count") == 0) {
        ret->count = number;
    } else if (strcmp(name, "--seed") == 0) {
        ret->seed = number;
    } else if (strcmp(name, "--minutes") == 0) {
        ret->minutes = strtod(value, NULL);
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct options o = {.from = 1, .count = 2000};
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc || !read_option(argv[i], argv[i + 1], &o)) {
            fprintf(stderr,
                    "usage: lua_rules [--from N] [--count N] [--minutes M]\n"
                    "       lua_rules --seed N\n");
            return 64;
        }
    }
    if (!run_open()) {
        return 1;
    }
    if (o.seed) {
        run->history = (struct history){.seed = o.seed};
        return run_differs(true, true);
    }
    bool apart = apart_in_a_process();
    return try_many(&o) || apart;
}
