/* tests/unit/file_store.h — several instances on one mapped file stand for
 * several processes; real ones where a process has to die or stop. */
#ifndef SNIB_TESTS_FILE_STORE_H
#define SNIB_TESTS_FILE_STORE_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "kind_cases.h"
#include "store/file/internal.h"

static char dir[64], path[128];
static struct snib__host host; /* as the next peer sees it */
/* So small that names meet in a bucket. */
static struct snib__file_shape shape = {
    .slots = 16, .roots = 4, .value_roots = 2};

static struct snib__file *self_of(int peer)
{
    return kit.peer[peer].inst;
}

static int fresh_dir(void **state)
{
    (void)state;
    /* where no page has to be waited for that is on its way to a disk */
    snprintf(dir, sizeof dir, "/dev/shm/snib-file-XXXXXX");
    if (!mkdtemp(dir)) {
        snprintf(dir, sizeof dir, "/tmp/snib-file-XXXXXX");
        if (!mkdtemp(dir)) {
            return -1;
        }
    }
    snprintf(path, sizeof path, "%s/locks", dir);
    snib__host_read(&host);
    return 0;
}

static int remove_dir(void **state)
{
    char command[100];
    close_peers(state);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static snib_err open_at(struct peer *p, const char *where, struct snib_error *e)
{
    struct snib__url url = {.path = (char *)where};
    struct snib__store_config config = {
        .url = &url,
        .out = &p->out,
        .request = snib__ms(300),
        .client = {p->client[0], p->client[1]},
    };
    return snib__file_open_on(&config, &host, &shape, &p->inst, e);
}

static void *open_file(struct peer *p)
{
    struct snib_error e = {0};
    if (open_at(p, path, &e)) {
        print_error("open: %s\n", e.text);
    }
    return p->inst;
}

static void advance(int64_t ms)
{
    host.skew_ns += ms * 1000000;
    for (int i = 0; i < PEERS; i++) {
        if (kit.peer[i].inst) {
            self_of(i)->host.skew_ns = host.skew_ns;
        }
    }
}

static snib_instant lease_now(int peer)
{
    return snib__host_lease_now(&self_of(peer)->host);
}

static void refused(const char *where, snib_err err, const char *word)
{
    struct peer p = {.client = {1, 2}};
    struct snib_error e = {0};
    assert_int_equal(open_at(&p, where, &e), err);
    assert_null(p.inst);
    if (!strstr(e.text, word)) {
        print_error("\"%s\" does not say \"%s\"\n", e.text, word);
        fail();
    }
}

static void set_kit(void)
{
    kit.ops = &snib__file_ops;
    kit.open = open_file;
    kit.advance = advance;
    kit.now = lease_now;
}

/* -- what is in the file --------------------------------------------------------- */

/* Names and claims of all buckets, each of which must be whole. */
struct content {
    uint32_t names, claims, holders;
};

static struct content content_of(int peer)
{
    struct snib__file *f = self_of(peer);
    struct content n = {0};
    for (uint32_t i = 0; i < f->map.root_count; i++) {
        assert_int_equal(
            snib__root_copy(&f->map, &f->copy, SNIB__FILE_LOCKS, i), 0);
        for (size_t at = 0; at < f->copy.used;) {
            const struct snib__file_lock *l = snib__bucket_lock(&f->copy, at);
            assert_int_equal(l->sum, snib__bucket_sum(l));
            n.names++;
            n.claims += l->claims;
            size_t k = at + snib__bucket_claims(l);
            for (uint32_t c = 0; c < l->claims; c++) {
                int state = snib__bucket_claim(&f->copy, k)->state;
                n.holders += state == SNIB__HOLDS || state == SNIB__SHARES;
                k += snib__bucket_claim(&f->copy, k)->size;
            }
            at += l->size;
        }
    }
    return n;
}

/* -- whose is each byte -------------------------------------------------------------- */

struct owned {
    uint64_t units, used, free, reserve, spare, waiting;
};

static uint8_t *marks; /* a byte for each 512: how often it is somebody's */

static void mark_block(struct snib__map *m, uint32_t unit, uint32_t class)
{
    assert_non_null(snib__block_at(m, unit, class));
    for (uint32_t i = 0; i < snib__block_units(class); i += 8) {
        uint32_t at = (unit - m->first + i) / 8;
        if (marks[at]++) {
            fail_msg("unit %u has two owners", unit + i);
        }
    }
}

static uint64_t mark_stack(struct snib__map *m, snib__file_word *stack,
                           uint32_t class, bool own_class)
{
    uint64_t n = 0;
    uint32_t unit = (uint32_t)atomic_load(stack);
    while (unit) {
        struct snib__file_block *b = snib__block_at(m, unit, 0);
        assert_non_null(b);
        uint32_t c = own_class ? b->class : class;
        mark_block(m, unit, c);
        n += snib__block_units(c);
        unit = (uint32_t)atomic_load(&b->next);
    }
    return n;
}

static uint64_t mark_roots(struct snib__file *f)
{
    struct snib__map *m = &f->map;
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->root_count; i++) {
        assert_int_equal(snib__root_copy(m, &f->copy, SNIB__FILE_LOCKS, i), 0);
        if ((uint32_t)f->copy.seen) {
            mark_block(m, (uint32_t)f->copy.seen, f->copy.class);
            n += snib__block_units(f->copy.class);
        }
    }
    for (uint32_t i = 0; i < m->value_root_count; i++) {
        assert_int_equal(snib__root_copy(m, &f->copy, SNIB__FILE_INDEX, i), 0);
        if ((uint32_t)f->copy.seen) {
            mark_block(m, (uint32_t)f->copy.seen, f->copy.class);
            n += snib__block_units(f->copy.class);
        }
        for (size_t k = 0; k < f->copy.used;
             k += sizeof(struct snib__file_entry)) {
            const struct snib__file_entry *e =
                (const void *)(f->copy.bytes + k);
            mark_block(m, e->block, e->class);
            n += snib__block_units(e->class);
        }
    }
    return n;
}

/* Go through all that names a block. None may be named twice. Nobody is inside
 * meanwhile. */
static struct owned owners_of(int peer)
{
    struct snib__file *f = self_of(peer);
    struct snib__map *m = &f->map;
    struct snib__file_head *h = m->head;
    struct owned n = {.units = atomic_load(&h->top) - m->first};
    marks = calloc(1, n.units / 8 + 1);
    n.used = mark_roots(f);
    for (uint32_t c = 0; c < SNIB__FILE_CLASSES; c++) {
        n.free += mark_stack(m, &h->stack[c], c, false);
        n.reserve += mark_stack(m, &h->reserve[c], c, false);
    }
    n.waiting =
        mark_stack(m, &h->retired, 0, true) + mark_stack(m, &h->kept, 0, true);
    for (int i = 0; i < PEERS; i++) {
        for (uint32_t c = 0; self_of(i) && c < SNIB__FILE_SMALL; c++) {
            if (self_of(i)->map.spare[c]) {
                mark_block(m, self_of(i)->map.spare[c], c);
                n.spare += snib__block_units(c);
            }
        }
    }
    free(marks);
    return n;
}

static uint64_t lost_of(struct owned n)
{
    return n.units - n.used - n.free - n.reserve - n.spare - n.waiting;
}

#undef CASE
#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh_dir, remove_dir)

#endif
