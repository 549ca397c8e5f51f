/*
 * bench_redis_model.c — how many scripts a second the model runs
 *
 * A script of the shape of a lock's: HGETALL, HSET, PEXPIRE; next time
 * HGETALL, DEL, PUBLISH. One thread, request parsing included.
 */
#include "redis_model.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(void)
{
    static const char script[] =
        "local h = redis.call('hgetall', KEYS[1]) if #h == 0 then "
        "redis.call('hset', KEYS[1], ARGV[1], ARGV[2]) "
        "redis.call('pexpire', KEYS[1], ARGV[3]) return 1 end "
        "redis.call('del', KEYS[1]) redis.call('publish', 'c', ARGV[1]) "
        "return {0, ARGV[1]}";
    static const char set[] = "*3\r\n$3\r\nset\r\n$1\r\nk\r\n$1\r\nv\r\n";
    struct sim_lua *lua = sim_lua_new();
    struct sim_redis *srv = sim_redis_new(lua, 1);
    int c = sim_redis_connect(srv);
    char req[1024];
    const void *p;
    size_t n;
    int len = snprintf(req, sizeof req,
                       "*7\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n1\r\n"
                       "$8\r\nsnib:{a}\r\n$34\r\n"
                       "0123456789abcdef0123456789abcdef01\r\n"
                       "$10\r\nreq:000001\r\n$5\r\n30000\r\n",
                       strlen(script), script);
    const int rounds = 1000000;
    double t = seconds();
    for (int i = 0; i < rounds; i++) {
        sim_redis_input(srv, c, req, (size_t)len, 1000 + i);
        sim_redis_output(srv, c, &p, &n);
        sim_redis_consume(srv, c, n);
    }
    t = seconds() - t;
    printf("%.0f scripts/s (2.5 commands each), %.2f us\n", rounds / t,
           t / rounds * 1e6);
    const int servers = 100000;
    t = seconds();
    for (int i = 0; i < servers; i++) {
        struct sim_redis *s = sim_redis_new(lua, (uint64_t)i);
        int id = sim_redis_connect(s);
        sim_redis_input(s, id, set, sizeof set - 1, 0);
        sim_redis_free(s);
    }
    t = seconds() - t;
    printf("server new + connect + set + free: %.2f us\n", t / servers * 1e6);
    sim_redis_free(srv);
    sim_lua_free(lua);
    return 0;
}
