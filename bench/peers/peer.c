/* bench/peers/peer.c — snib, and what a user would write in C, as two of those
 * that ./dev bench --peers compares.
 *
 *   snib-peer snib|setnx PORT TASKS NAME SECONDS
 *
 * A thread a task; in NAME %d is the number of the task. Makes a section of
 * each lock, prints "ready", waits for a line, makes sections for SECONDS and
 * prints how many. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../bench.h"

enum { TASKS_MAX = 256 };

struct settings settings = {.redis_host = "127.0.0.1"};

static struct snib_client *peer_client;
static pthread_barrier_t peer_start;
static atomic_bool peer_stop;

struct peer_task {
    struct work work;
    unsigned long long done;
};

static void peer_section(void *lock)
{
    section(lock);
}

static void peer_cycle(void *data)
{
    setnx_cycle(data);
}

static struct work peer_open(const char *name)
{
    return peer_client
               ? (struct work){peer_section, open_lock(peer_client, name), 1}
               : (struct work){peer_cycle, setnx_open(name), 1};
}

static void *peer_run(void *data)
{
    struct peer_task *task = data;
    pthread_barrier_wait(&peer_start);
    while (!atomic_load_explicit(&peer_stop, memory_order_relaxed)) {
        task->work.run(task->work.data);
        task->done++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct peer_task task[TASKS_MAX];
    pthread_t thread[TASKS_MAX];
    if (argc != 6 || atoi(argv[3]) < 1 || atoi(argv[3]) > TASKS_MAX) {
        die("usage: snib-peer snib|setnx PORT TASKS NAME SECONDS");
    }
    int tasks = atoi(argv[3]);
    settings.redis_port = atoi(argv[2]);
    snprintf(settings.redis_url, sizeof settings.redis_url,
             "redis://127.0.0.1:%d", settings.redis_port);
    if (!strcmp(argv[1], "snib")) {
        peer_client = open_client(settings.redis_url);
    }
    pthread_barrier_init(&peer_start, NULL, (unsigned)tasks + 1);
    const char *number = strstr(argv[4], "%d");
    for (int i = 0; i < tasks; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s",
                 (int)(number ? number - argv[4] : 50), argv[4]);
        if (number) {
            snprintf(name + strlen(name), 12, "%d", i);
        }
        task[i].work = peer_open(name);
        task[i].work.run(task[i].work.data);
        if (pthread_create(&thread[i], NULL, peer_run, &task[i]) != 0) {
            die("no thread");
        }
    }
    puts("ready");
    fflush(stdout);
    (void)getchar();
    pthread_barrier_wait(&peer_start);
    pause_s(strtod(argv[5], NULL));
    atomic_store(&peer_stop, true);
    unsigned long long sum = 0;
    for (int i = 0; i < tasks; i++) {
        pthread_join(thread[i], NULL);
        sum += task[i].done;
    }
    printf("%llu\n", sum);
    return 0;
}
