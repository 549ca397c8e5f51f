/* core/registry.h, core/witness.h: what a client writes down for its witness, and
 * what the witness makes of what it sees. */
#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/witness.h"

enum { ROOM = 8 };

static struct snib__registry *fresh(void)
{
    struct snib__registry *r = calloc(1, snib__registry_bytes(ROOM));
    assert_non_null(r);
    snib__registry_init(r, ROOM);
    return r;
}

static struct snib__name *name_of(const char *text)
{
    struct snib__name *n;
    assert_int_equal(snib__name_new(text, 0, &n, NULL), SNIB_ERR_OK);
    return n;
}

static struct snib__registry_record record_of(uint64_t number)
{
    return (struct snib__registry_record){.id = {number, ~number},
                                          .prior = (int64_t)(number * 3),
                                          .prior_id = {number * 5, number * 7},
                                          .lease_ms =
                                              (int64_t)(number % 90000)};
}

static bool is_record(const struct snib__registry_record *is, uint64_t number)
{
    struct snib__registry_record want = record_of(number);
    return memcmp(is, &want, sizeof want) == 0;
}

/* -- entries ---------------------------------------------------------------- */

static void an_entry_is_read_as_it_was_written(void **state)
{
    (void)state;
    struct snib__registry *r = fresh();
    struct snib__registry_found found;
    struct snib__name *n = name_of("door");
    struct snib__registry_record one = record_of(1);
    uint32_t entry = 0;
    assert_int_equal(snib__registry_used(r), 0);
    snib__registry_put(r, &entry, n, &one);
    assert_int_equal(entry, 1);
    assert_int_equal(snib__registry_used(r), 1);
    assert_true(snib__registry_read(r, 1, &found));
    assert_string_equal(found.name, "door");
    assert_int_equal(found.name_size, 4);
    assert_true(is_record(&found.record, 1));
    snib__registry_drop(r, &entry);
    assert_int_equal(entry, 0);
    assert_false(snib__registry_read(r, 1, &found));
    snib__registry_drop(r, &entry); /* does nothing */
    snib__free(n);
    free(r);
}

static void a_name_of_any_bytes_and_of_every_length_fits(void **state)
{
    (void)state;
    struct snib__registry *r = fresh();
    struct snib__registry_found found;
    struct snib__registry_record one = record_of(1);
    char raw[SNIB_NAME_MAX];
    for (size_t size = 1; size <= sizeof raw; size += 73) {
        struct snib__name *n;
        uint32_t entry = 0;
        memset(raw, 0, sizeof raw);
        raw[size - 1] = (char)0xff;
        assert_int_equal(snib__name_new(raw, size, &n, NULL), SNIB_ERR_OK);
        snib__registry_put(r, &entry, n, &one);
        assert_true(snib__registry_read(r, entry, &found));
        assert_int_equal(found.name_size, size);
        assert_memory_equal(found.name, raw, size);
        snib__registry_drop(r, &entry);
        snib__free(n);
    }
    free(r);
}

static void
a_freed_entry_is_used_again_and_a_full_registry_takes_no_more(void **state)
{
    (void)state;
    struct snib__registry *r = fresh();
    struct snib__registry_found found;
    struct snib__name *n = name_of("a"), *other = name_of("another");
    uint32_t entry[ROOM + 1] = {0};
    for (uint64_t i = 0; i <= ROOM; i++) {
        struct snib__registry_record record = record_of(i + 1);
        snib__registry_put(r, &entry[i], n, &record);
    }
    assert_int_equal(entry[ROOM], 0);
    snib__registry_drop(r, &entry[ROOM]);
    assert_int_equal(snib__registry_used(r), ROOM);
    uint32_t third = entry[3];
    snib__registry_drop(r, &entry[3]);
    struct snib__registry_record late = record_of(77);
    snib__registry_put(r, &entry[ROOM], other, &late);
    assert_int_equal(entry[ROOM], third);
    assert_true(snib__registry_read(r, third, &found));
    assert_string_equal(found.name, "another");
    assert_true(is_record(&found.record, 77));
    snib__free(n);
    snib__free(other);
    free(r);
}

static void a_record_that_is_being_written_does_not_count(void **state)
{
    (void)state;
    struct snib__registry *r = fresh();
    struct snib__registry_found found;
    struct snib__name *n = name_of("door");
    uint32_t entry = 0;
    for (uint64_t i = 1; i < 6; i++) {
        struct snib__registry_record now = record_of(i),
                                     next = record_of(i + 1);
        snib__registry_put(r, &entry, n, &now);
        struct snib__registry_entry *e = &r->entry[0];
        /* as if it were killed behind each byte of the next one */
        for (size_t bytes = 0; bytes <= sizeof next; bytes++) {
            memcpy(&e->record[e->which == 1], &next, bytes);
            assert_true(snib__registry_read(r, 1, &found));
            assert_true(is_record(&found.record, i));
        }
    }
    snib__free(n);
    free(r);
}

static void a_name_that_is_being_written_does_not_count(void **state)
{
    (void)state;
    struct snib__registry *r = fresh();
    struct snib__registry_found found;
    struct snib__name *n = name_of("door"), *other = name_of("window");
    struct snib__registry_record one = record_of(1);
    uint32_t entry = 0;
    snib__registry_put(r, &entry, n, &one);
    snib__registry_drop(r, &entry);
    r->entry[0].name_size = other->raw_size;
    memcpy(r->entry[0].name, other->raw, 3);
    assert_false(snib__registry_read(r, 1, &found));
    snib__free(n);
    snib__free(other);
    free(r);
}

static void an_entry_that_nobody_wrote_is_refused(void **state)
{
    (void)state;
    struct snib__registry *r = fresh();
    struct snib__registry_found found;
    r->entry[0].which = 1;
    assert_false(snib__registry_read(r, 1, &found)); /* no name */
    r->entry[0].name_size = SNIB_NAME_MAX + 1;
    assert_false(snib__registry_read(r, 1, &found));
    r->entry[0].name_size = 1;
    assert_false(snib__registry_read(r, 1, &found)); /* no request */
    r->entry[0].record[0].id[1] = 1;
    assert_true(snib__registry_read(r, 1, &found));
    r->entry[0].which = 3;
    assert_false(snib__registry_read(r, 1, &found));
    free(r);
}

static void bytes_that_are_no_registry_do_not_fit(void **state)
{
    (void)state;
    struct snib__registry *r = fresh();
    size_t bytes = snib__registry_bytes(ROOM);
    assert_true(snib__registry_fits(r, bytes));
    assert_false(snib__registry_fits(r, bytes - 1));
    assert_false(snib__registry_fits(r, 8));
    r->layout++;
    assert_false(snib__registry_fits(r, bytes));
    r->layout--;
    r->mark ^= 1;
    assert_false(snib__registry_fits(r, bytes));
    free(r);
}

/* -- a writer that is killed -------------------------------------------------- */

/* Names and records that belong together; entries come and go. */
static void write_for_ever(struct snib__registry *r, uint64_t seed)
{
    struct snib__name *names[10];
    uint32_t entry[ROOM] = {0};
    char text[] = "0abcdefgh";
    for (int i = 0; i < 10; i++) {
        text[0] = (char)('0' + i);
        names[i] = name_of(text);
    }
    int of[ROOM] = {0};
    for (uint64_t n = 1;; n++) {
        uint32_t k = dice(&seed) % ROOM;
        if (entry[k] && dice(&seed) % 3 == 0) {
            snib__registry_drop(r, &entry[k]);
            continue;
        }
        of[k] = entry[k] ? of[k] : (int)(dice(&seed) % 10);
        struct snib__registry_record record =
            record_of(n * 10 + (uint64_t)of[k]);
        snib__registry_put(r, &entry[k], names[of[k]], &record);
    }
}

static void a_writer_killed_at_any_instant_leaves_whole_entries(void **state)
{
    (void)state;
    enum { KILLS = 300 };
    size_t bytes = snib__registry_bytes(ROOM);
    uint32_t seen = 0;
    for (uint64_t k = 0; k < KILLS; k++) {
        struct snib__registry *r = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(r != MAP_FAILED);
        snib__registry_init(r, ROOM);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (!pid) {
            write_for_ever(r, k);
        }
        while (!snib__registry_used(r)) {
        }
        uint64_t seed = k;
        for (volatile uint32_t spin = dice(&seed) % 20000; spin; spin--) {
        }
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        for (uint32_t i = 1; i <= snib__registry_used(r); i++) {
            struct snib__registry_found found;
            if (snib__registry_read(r, i, &found)) {
                assert_true(is_record(&found.record, found.record.id[0]));
                assert_int_equal(found.name[0],
                                 (int)('0' + found.record.id[0] % 10));
                assert_string_equal(found.name + 1, "abcdefgh");
                seen++;
            }
        }
        munmap(r, bytes);
    }
    assert_true(seen > KILLS / 4);
}

/* -- what a witness does -------------------------------------------------------- */

static struct snib__witness_sight sees(bool over, bool hung_up)
{
    return (struct snib__witness_sight){.over = over, .hung_up = hung_up};
}

static void a_witness_ends_what_is_left_when_the_process_is_over(void **state)
{
    (void)state;
    struct snib__registry *r = fresh();
    struct snib__witness w;
    snib_instant now = {1000};
    snib__witness_begin(&w, r);
    assert_int_equal(snib__witness_step(&w, now, sees(false, false)),
                     SNIB__WITNESS_WAITS);
    assert_int_equal(snib__witness_step(&w, now, sees(true, true)),
                     SNIB__WITNESS_ENDS);
    assert_int_equal(snib__witness_step(&w, now, sees(true, false)),
                     SNIB__WITNESS_ENDS);
    free(r);
}

/* exec closes the connection, and the process goes on. */
static void a_closed_connection_is_no_end(void **state)
{
    (void)state;
    struct snib__registry *r = fresh();
    struct snib__witness w;
    struct snib__name *n = name_of("door");
    struct snib__registry_record record = {.id = {1, 2}, .lease_ms = 5000};
    uint32_t entry = 0;
    snib_instant now = {1000};
    snib__registry_put(r, &entry, n, &record);
    snib__witness_begin(&w, r);
    assert_int_equal(snib__witness_step(&w, now, sees(false, true)),
                     SNIB__WITNESS_WAITS);
    now = snib__after(now, snib__ms(14999));
    assert_int_equal(snib__witness_step(&w, now, sees(false, true)),
                     SNIB__WITNESS_WAITS);
    assert_int_equal(snib__witness_step(&w, now, sees(true, true)),
                     SNIB__WITNESS_ENDS);
    /* when all that it had is over by the leases there is nothing to do */
    now = snib__after(now, snib__ms(1));
    assert_int_equal(snib__witness_step(&w, now, sees(false, true)),
                     SNIB__WITNESS_LEAVES);
    snib__free(n);
    free(r);
}

static void a_client_that_had_nothing_and_is_gone_needs_no_witness(void **state)
{
    (void)state;
    struct snib__registry *r = fresh();
    struct snib__witness w;
    snib__witness_begin(&w, r);
    assert_int_equal(
        snib__witness_step(&w, (snib_instant){1}, sees(false, true)),
        SNIB__WITNESS_LEAVES);
    free(r);
}

static void a_client_that_was_freed_is_left_in_peace(void **state)
{
    (void)state;
    struct snib__registry *r = fresh();
    struct snib__witness w;
    snib__witness_begin(&w, r);
    r->closed = 1;
    assert_int_equal(
        snib__witness_step(&w, (snib_instant){1}, sees(true, true)),
        SNIB__WITNESS_LEAVES);
    assert_int_equal(
        snib__witness_step(&w, (snib_instant){1}, sees(false, false)),
        SNIB__WITNESS_LEAVES);
    free(r);
}

int main(void)
{
    const struct CMUnitTest entries[] = {
        cmocka_unit_test(an_entry_is_read_as_it_was_written),
        cmocka_unit_test(a_name_of_any_bytes_and_of_every_length_fits),
        cmocka_unit_test(
            a_freed_entry_is_used_again_and_a_full_registry_takes_no_more),
        cmocka_unit_test(a_record_that_is_being_written_does_not_count),
        cmocka_unit_test(a_name_that_is_being_written_does_not_count),
        cmocka_unit_test(an_entry_that_nobody_wrote_is_refused),
        cmocka_unit_test(bytes_that_are_no_registry_do_not_fit),
        cmocka_unit_test(a_writer_killed_at_any_instant_leaves_whole_entries),
    };
    const struct CMUnitTest witness[] = {
        cmocka_unit_test(a_witness_ends_what_is_left_when_the_process_is_over),
        cmocka_unit_test(a_closed_connection_is_no_end),
        cmocka_unit_test(
            a_client_that_had_nothing_and_is_gone_needs_no_witness),
        cmocka_unit_test(a_client_that_was_freed_is_left_in_peace),
    };
    return RUN(entries) | RUN(witness);
}
