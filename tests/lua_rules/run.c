/* run.c — see run.h. */
#include "run.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "draw.h"
#include "steps.h"

struct run *run;

bool run_open(void)
{
    void *shared = mmap(NULL, sizeof *run, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    run = shared;
    if (shared == MAP_FAILED) {
        perror("mmap");
        return false;
    }
    side_lua.open(); /* the scripts are compiled once, here */
    side_lua.close();
    return true;
}

static void run_live(bool draws, bool speaks)
{
    struct history *h = &run->history;
    world_open(speaks);
    draw_begin(h->seed);
    h->count = draws ? STEPS : h->count;
    for (int i = 0; i < h->count && !world_failed() && !world.over; i++) {
        if (draws) {
            draw_step(&h->step[i]);
        }
        run->differs_at = i;
        run->steps += steps_take(&h->step[i]);
        world.seen[SEEN_BATCHES] += h->step[i].act == BATCH;
    }
    if (!world_failed()) {
        run->differs_at = NOBODY;
    }
    memcpy(run->why, world.why, sizeof run->why);
    for (int i = 0; i < SEENS; i++) {
        run->seen[i] += world.seen[i];
    }
    world_close();
}

bool run_differs(bool draws, bool speaks)
{
    int status = 0;
    run->differs_at = run->history.count - 1;
    snprintf(run->why, sizeof run->why, "the process ended before the history");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        run_live(draws, speaks);
        if (snib__mem_alive()) {
            fprintf(stderr, "%lld blocks were not freed\n",
                    (long long)snib__mem_alive());
            _exit(1);
        }
        fflush(NULL);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
        fprintf(stderr, "the process of the history: status %d\n", status);
        return true;
    }
    return run->differs_at != NOBODY;
}
