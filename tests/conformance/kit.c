/* tests/conformance/kit.c — see kit.h. */
#include "kit.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *url;

bool take_arguments(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s URL [CASE]\n", argv[0]);
        return false;
    }
    url = argv[1];
    if (argc > 2) {
        cmocka_set_test_filter(argv[2]);
    }
    return true;
}

const char *store_url(void)
{
    return url;
}

bool is_memory(void)
{
    return strncmp(url, "memory:", 7) == 0;
}

int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void look_again_after_ms(int ms)
{
    poll(NULL, 0, ms);
}

const char *fresh_name(void)
{
    static char names[64][48];
    static int n;
    char *name = names[n++ % 64];
    snprintf(name, sizeof names[0], "case-%d-%d", (int)getpid(), n);
    return name;
}

struct snib_client *open_client(void)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_error err;
    o.url = url;
    o.program = "conformance";
    if (snib_client_open(&o, &c, &err)) {
        fail_msg("open %s: %s", url, err.text);
    }
    return c;
}

struct snib_lock *lock_with(struct snib_client *c, const char *name,
                            const struct snib_lock_options *o)
{
    struct snib_lock *lock;
    struct snib_error err;
    if (snib_lock_new(c, name, o, &lock, &err)) {
        fail_msg("lock %s: %s", name, err.text);
    }
    return lock;
}

snib_err acquire_for(struct snib_lock *lock, int64_t wait_ms,
                     struct snib_grant *g)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib_error err;
    o.wait_ms = wait_ms;
    return snib_acquire(lock, &o, g, &err);
}

void must_at(snib_err err, const char *file, int line)
{
    must_be_at(err, SNIB_ERR_OK, file, line);
}

void must_be_at(snib_err err, snib_err want, const char *file, int line)
{
    if (err != want) {
        print_error("%s (%s), expected %s\n", snib_err_name(err),
                    snib_err_text(err), snib_err_name(want));
        _fail(file, line);
    }
}

size_t waiters_of(struct snib_client *c, const char *name)
{
    struct snib_view *v;
    struct snib_error err;
    must(snib_inspect(c, name, 0, &v, &err));
    size_t n = v->waiter_count;
    snib_view_free(v);
    return n;
}

void wait_for_waiters(struct snib_client *c, const char *name, size_t n)
{
    int64_t deadline = now_ms() + 5000;
    while (waiters_of(c, name) < n) {
        assert_true(now_ms() < deadline);
        look_again_after_ms(2);
    }
}

void wait_for_fewer_waiters(struct snib_client *c, const char *name, size_t n)
{
    int64_t deadline = now_ms() + 5000;
    while (waiters_of(c, name) > n) {
        assert_true(now_ms() < deadline);
        look_again_after_ms(5);
    }
}

void note_change(void *data, struct snib_grant g, snib_state state,
                 snib_reason reason)
{
    struct changes *c = data;
    (void)g;
    if (state == SNIB_LOST) {
        atomic_store(&c->reason, (int)reason);
        atomic_store(&c->lost, 1);
    }
}

struct snib_event next_event(struct snib_client *c)
{
    struct snib_event ev;
    int64_t deadline = now_ms() + 5000;
    while (!snib_next(c, &ev)) {
        struct pollfd p = {.fd = snib_fd(c), .events = POLLIN};
        assert_true(now_ms() < deadline);
        poll(&p, 1, 1000);
    }
    return ev;
}
