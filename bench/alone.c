/* bench/alone.c — one thread: the library's work against the same done bare. */
#include "bench.h"

static void lock_section(void *data)
{
    section(data);
}

static void bare_section(void *data)
{
    bare_cycle(data);
}

struct work work_of_lock(struct snib_lock *lock)
{
    return (struct work){lock_section, lock, 1};
}

struct work work_of_bare(struct bare *b)
{
    return (struct work){bare_section, b, 1};
}

double work_us(struct work w, double seconds)
{
    double from = now_s(), end = from + seconds;
    long n = 0;
    while (now_s() < end) {
        for (int i = 0; i < 50; i++) {
            w.run(w.data);
            n += w.sections;
        }
    }
    return (now_s() - from) / (double)n * 1e6;
}

void measure_alone(struct finding *f, struct work ours, struct work base)
{
    work_us(ours, 0.2);
    work_us(base, 0.2);
    for (int i = 0; i < settings.rounds; i++) {
        double mine = work_us(ours, settings.seconds);
        finding_pair(f, mine, work_us(base, settings.seconds));
    }
    report(f);
}
