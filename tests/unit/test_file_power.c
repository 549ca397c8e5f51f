/* tests/unit/test_file_power.c — a mapped file after a power failure.
 * wraps: fdatasync
 *
 * What is on the disk is modelled: fdatasync() brings all of the file there,
 * and before each access a few sectors of 512 bytes may reach it as they are
 * then, in any order. At some access the power fails: what the disk has is
 * opened at another boot. */
#include "file_store.h"

enum { LOCKS = 4, VALUES = 4, CHANGES = 4000, SECTOR = 512 };

static uint8_t *disk;
static size_t disk_size;
static uint64_t seed;
static long accesses, fails_at;
static bool off;

/* What was told of a value, in order: its versions; 0: it was deleted. */
static struct {
    int64_t version[CHANGES];
    int count, synced; /* synced: the number on the disk for certain */
    int64_t highest;
} told[VALUES];
static int64_t highest_token;
/* The change that was under way when the power failed; which -1: none. */
static struct {
    int which;
    bool gone;
} pending;

static size_t file_size(void)
{
    return (size_t)atomic_load(&self_of(0)->map.head->size);
}

int __wrap_fdatasync(int fd);
int __real_fdatasync(int fd);

int __wrap_fdatasync(int fd)
{
    (void)fd;
    if (!kit.peer[0].inst || off) {
        return 0;
    }
    size_t size = file_size();
    memcpy(disk, self_of(0)->map.base, size);
    disk_size = size > disk_size ? size : disk_size;
    for (int i = 0; i < VALUES; i++) {
        told[i].synced = told[i].count - 1;
    }
    return 0;
}

static void before_access(void *data, const char *what)
{
    (void)data;
    (void)what;
    if (off || !kit.peer[0].inst) {
        return;
    }
    if (++accesses == fails_at) {
        off = true;
        return;
    }
    for (uint32_t n = dice(&seed) % 3; n; n--) {
        size_t size = file_size();
        /* what is used, mostly */
        size_t top =
            (size_t)atomic_load(&self_of(0)->map.head->top) * SNIB__FILE_UNIT;
        size_t sector = dice(&seed) % ((dice(&seed) % 4 ? top : size) / SECTOR);
        memcpy(disk + sector * SECTOR, self_of(0)->map.base + sector * SECTOR,
               SECTOR);
        disk_size = size > disk_size ? size : disk_size;
    }
}

static void change_value(void)
{
    static char text[VALUES][8] = {"pow-a", "pow-b", "pow-c", "pow-d"};
    static char bytes[3000];
    int which = (int)(dice(&seed) % VALUES);
    struct snib__name n = name_of(text[which]);
    int64_t now =
        told[which].count ? told[which].version[told[which].count - 1] : 0;
    bool gone = now && dice(&seed) % 3 == 0;
    struct snib__request p =
        request(gone ? SNIB__VALUE_DELETE : SNIB__VALUE_PUT, &n);
    p.token = now;
    p.lease = snib__ms(100000000);
    memset(bytes, (int)dice(&seed), sizeof bytes);
    p.text = bytes;
    /* of one class, mostly: blocks come back */
    p.text_size = dice(&seed) % (dice(&seed) % 4 ? 150U : 2999U);
    pending.which = which;
    pending.gone = gone;
    snib__answer a = run(0, &p);
    if (off) {
        return; /* it may be there, and was not told */
    }
    pending.which = -1;
    assert_int_equal(a, SNIB__DONE);
    told[which].version[told[which].count++] = p.token;
    told[which].highest =
        p.token > told[which].highest ? p.token : told[which].highest;
}

static void section(void)
{
    static char text[LOCKS][8] = {"lock-a", "lock-b", "lock-c", "lock-d"};
    struct snib__name n = name_of(text[dice(&seed) % LOCKS]);
    struct snib__request r = request(SNIB__ACQUIRE, &n);
    r.lease = snib__ms(1000);
    if (run(0, &r) == SNIB__DONE && !off) {
        highest_token = r.token > highest_token ? r.token : highest_token;
        if (dice(&seed) % 4) {
            end(0, &r);
        }
    } else {
        struct snib__request x = turn_into(&r, SNIB__CANCEL);
        x.token = 0;
        run(0, &x);
    }
}

static void write_disk(const char *to)
{
    int fd = open(to, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, disk, disk_size), (ssize_t)disk_size);
    close(fd);
}

/* A value that was told, no older than the last one that was on the disk for
 * certain; or, if the last change was under way, that one's. */
static void check_value(int which, const struct snib__name *n)
{
    struct snib__buf out;
    snib__buf_init(&out, 1 << 17);
    struct snib__request g = request(SNIB__VALUE_GET, n);
    g.said.result = &out;
    assert_int_equal(run(1, &g), SNIB__DONE);
    int from = told[which].synced < 0 ? -1 : told[which].synced;
    bool known = from < 0 && g.token == 0;
    for (int i = from < 0 ? 0 : from; i < told[which].count; i++) {
        known = known || told[which].version[i] == g.token;
    }
    known = known ||
            (pending.which == which &&
             (pending.gone ? g.token == 0 : g.token > told[which].highest));
    if (!known) {
        for (int i = 0; i < told[which].count; i++) {
            print_error("%d: %lld%s\n", i, (long long)told[which].version[i],
                        told[which].version[i] == g.token ? " *" : "");
        }
        print_error("pending %d gone %d\n", pending.which, pending.gone);
        fail_msg("value %d came back as %lld, of %d changes, %d synced", which,
                 (long long)g.token, told[which].count, told[which].synced);
    }
    struct snib__request p = request(SNIB__VALUE_PUT, n);
    p.token = g.token;
    p.lease = snib__ms(60000);
    assert_int_equal(run(1, &p), SNIB__DONE);
    if (p.token <= told[which].highest) {
        fail_msg("value %d: version %lld after %lld", which, (long long)p.token,
                 (long long)told[which].highest);
    }
    snib__buf_free(&out);
}

static void look_after_it(int64_t clock_back_ms)
{
    static char values[VALUES][8] = {"pow-a", "pow-b", "pow-c", "pow-d"};
    static char locks[LOCKS][8] = {"lock-a", "lock-b", "lock-c", "lock-d"};
    char after[160];
    struct snib__host was = host;
    snprintf(after, sizeof after, "%s/after", dir);
    write_disk(after);
    snprintf(host.boot, sizeof host.boot, "another-boot");
    host.skew_ns = 0;
    /* a boot takes a while */
    host.wall_skew_ms = self_of(0)->host.wall_skew_ms + 2000 - clock_back_ms;
    struct peer *p = &kit.peer[1];
    struct snib_error e = {0};
    *p = (struct peer){.client = {77, 78}};
    if (open_at(p, after, &e)) {
        fail_msg("%s", e.text);
    }
    (void)content_of(1);
    for (int i = 0; i < VALUES; i++) {
        struct snib__name n = name_of(values[i]);
        check_value(i, &n);
    }
    for (int i = 0; i < LOCKS; i++) {
        struct snib__name n = name_of(locks[i]);
        struct snib__request r = acquire(1, &n);
        assert_int_equal(r.said.answer, SNIB__DONE); /* nobody holds */
        assert_true(r.token > highest_token);
        end(1, &r);
    }
    kit.ops->free(p->inst);
    p->inst = NULL;
    unlink(after);
    host = was;
}

static void one_failure(uint64_t number, int64_t clock_back_ms)
{
    remove_dir(NULL);
    assert_int_equal(fresh_dir(NULL), 0);
    seed = number * 7919 + 1;
    memset(told, 0, sizeof told);
    for (int i = 0; i < VALUES; i++) {
        told[i].synced = -1;
    }
    highest_token = 0;
    pending.which = -1;
    accesses = 0;
    off = false;
    open_peers(1);
    disk_size = 0;
    memset(disk, 0, 4 << 20);
    __wrap_fdatasync(0); /* the file was made long ago */
    fails_at = 20 + dice(&seed) % 6000;
    snib__file_hook.before = before_access;
    while (!off) {
        if (dice(&seed) % 3) {
            change_value();
        } else {
            section();
        }
        if (dice(&seed) % 10 == 0) {
            advance(400);
        }
        if (dice(&seed) % 20 == 0) { /* deleted ones are forgotten */
            self_of(0)->host.wall_skew_ms += 61000;
        }
    }
    snib__file_hook.before = NULL;
    look_after_it(clock_back_ms);
    close_peers(NULL);
}

static void values_are_no_older_than_the_last_sync(void **state)
{
    (void)state;
    disk = malloc(4 << 20);
    for (uint64_t i = 0; i < 300; i++) {
        one_failure(i, 0);
    }
    free(disk);
}

static void numbers_rise_though_the_clock_is_behind(void **state)
{
    (void)state;
    disk = malloc(4 << 20);
    for (uint64_t i = 1000; i < 1100; i++) {
        one_failure(i, 60000);
    }
    free(disk);
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(values_are_no_older_than_the_last_sync),
        CASE(numbers_rise_though_the_clock_is_behind),
    };
    return RUN(cases);
}
