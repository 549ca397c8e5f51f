/* snib/ring.h and its arithmetic. */
#include "unit.h"

#include <stdlib.h>

#include "core/ring.h"
#include "party_pointers.h"
#include "snib/inspect.h"
#include "snib/ring.h"

enum { KEYS = 20000 };

static struct snib_error error;

static struct snib_ring *ring_of(const struct snib_ring_member *m, size_t n)
{
    struct snib_ring *r;
    if (snib_ring_new(m, n, &r, &error)) {
        fail_msg("ring: %s", error.text);
    }
    return r;
}

/* n members "worker-0" …, of weight 1. */
static struct snib_ring *workers(size_t n)
{
    static char id[SNIB_RING_MEMBERS_MAX][16];
    static struct snib_ring_member m[SNIB_RING_MEMBERS_MAX];
    for (size_t i = 0; i < n; i++) {
        snprintf(id[i], sizeof id[i], "worker-%zu", i);
        m[i] = (struct snib_ring_member){.id = id[i]};
    }
    return ring_of(m, n);
}

static const char *client_id(const struct snib_ring *r, uint32_t key)
{
    char text[24];
    int n = snprintf(text, sizeof text, "key:%u", key);
    return snib_ring_id(r, snib_ring_owner(r, text, (size_t)n), NULL);
}

/* Computed by the Python of docs/RING.md. */
static void the_numbers_are_those_of_the_manual(void **state)
{
    (void)state;
    assert_true(snib__ring_mix(1) == UINT64_C(0x5692161d100b05e5));
    assert_true(snib__ring_hash("", 0) == UINT64_C(0xf52a15e9a9b5e89b));
    assert_true(snib__ring_hash("a", 1) == UINT64_C(0x02c0bdbf481420f8));
    assert_true(snib__ring_hash("\0\xff\n", 3) == UINT64_C(0x3a0b1e31668690ec));
    uint64_t member = snib__ring_hash("worker-1", 8);
    uint64_t key = snib__ring_hash("key", 3);
    assert_true(member == UINT64_C(0xecd1384dda7e32f2));
    assert_true(snib__ring_score(member, 1, key) ==
                UINT64_C(0x5bf394bffe3a0399));
    assert_true(snib__ring_score(member, 7, key) ==
                UINT64_C(0xfca9d996646a77b4));
    const struct snib_ring_member greek[] = {
        {.id = "gamma"}, {.id = "alpha"}, {.id = "delta"}, {.id = "beta"}};
    struct snib_ring *r = ring_of(greek, 4);
    const struct {
        const char *key, *client_id;
    } pairs[] = {{"", "beta"},
                 {"a", "alpha"},
                 {"order:4711", "gamma"},
                 {"tenant/9", "beta"}};
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        size_t n = snib_ring_owner(r, pairs[i].key, strlen(pairs[i].key));
        assert_string_equal(snib_ring_id(r, n, NULL), pairs[i].client_id);
    }
    snib_ring_free(r);
}

static void a_leaver_gives_away_only_what_it_owned(void **state)
{
    (void)state;
    struct snib_ring *before = workers(10), *after = workers(9);
    uint32_t moved = 0;
    for (uint32_t k = 0; k < KEYS; k++) {
        const char *was = client_id(before, k), *is = client_id(after, k);
        if (strcmp(was, "worker-9") == 0) {
            moved++;
        } else {
            assert_string_equal(was, is);
        }
    }
    /* A tenth, give or take five standard deviations (42 keys each). */
    assert_in_range(moved, KEYS / 10 - 212, KEYS / 10 + 212);
    snib_ring_free(before);
    snib_ring_free(after);
}

static void every_member_owns_about_its_share(void **state)
{
    (void)state;
    enum { MEMBERS = 16 };
    struct snib_ring *r = workers(MEMBERS);
    uint32_t count[MEMBERS] = {0};
    for (uint32_t k = 0; k < KEYS; k++) {
        char text[24];
        int n = snprintf(text, sizeof text, "%u", k);
        size_t o = snib_ring_owner(r, text, (size_t)n);
        assert_true(o < MEMBERS);
        count[o]++;
    }
    for (int i = 0; i < MEMBERS; i++) { /* 1250 each; sd 34 */
        assert_in_range(count[i], 1250 - 171, 1250 + 171);
    }
    snib_ring_free(r);
}

static void a_weight_is_a_share_and_moves_only_its_own_keys(void **state)
{
    (void)state;
    struct snib_ring_member m[] = {
        {.id = "a", .weight = 1}, {.id = "b", .weight = 2}, {.id = "c"}};
    struct snib_ring *before = ring_of(m, 3);
    m[1].weight = 6;
    struct snib_ring *after = ring_of(m, 3);
    uint32_t b_before = 0, b_after = 0;
    for (uint32_t k = 0; k < KEYS; k++) {
        const char *was = client_id(before, k), *is = client_id(after, k);
        b_before += *was == 'b';
        b_after += *is == 'b';
        assert_true(strcmp(was, is) == 0 || *is == 'b');
    }
    assert_in_range(b_before, KEYS / 2 - 354, KEYS / 2 + 354);
    assert_in_range(b_after, KEYS * 3 / 4 - 307, KEYS * 3 / 4 + 307);
    snib_ring_free(before);
    snib_ring_free(after);
}

static void the_second_owner_is_who_comes_when_the_first_leaves(void **state)
{
    (void)state;
    struct snib_ring *all = workers(12);
    size_t order[14];
    for (uint32_t k = 0; k < 500; k++) {
        assert_int_equal(snib_ring_owners(all, &k, sizeof k, order, 14), 12);
        assert_int_equal(snib_ring_owner(all, &k, sizeof k), order[0]);
        /* Without the first i the next one owns. */
        for (size_t i = 1; i < 12; i++) {
            struct snib_ring_member left[12] = {0};
            size_t n = 0, size;
            for (size_t j = i; j < 12; j++) {
                left[n].id = snib_ring_id(all, order[j], &size);
                left[n++].id_size = size;
            }
            struct snib_ring *fewer = ring_of(left, n);
            size_t o = snib_ring_owner(fewer, &k, sizeof k);
            assert_string_equal(snib_ring_id(fewer, o, NULL),
                                snib_ring_id(all, order[i], NULL));
            snib_ring_free(fewer);
        }
        size_t three[3];
        assert_int_equal(snib_ring_owners(all, &k, sizeof k, three, 3), 3);
        assert_memory_equal(three, order, sizeof three);
    }
    assert_int_equal(snib_ring_owners(all, "", 0, NULL, 0), 0);
    snib_ring_free(all);
}

static void the_order_of_the_array_does_not_matter(void **state)
{
    (void)state;
    struct snib_ring_member m[] = {{.id = "c", .weight = 3},
                                   {.id = "a\0x", .id_size = 3},
                                   {.id = "a"},
                                   {.id = "b", .weight = 9}};
    struct snib_ring *r = ring_of(m, 4);
    uint64_t print = snib_ring_fingerprint(r);
    const char *const sorted[] = {"a", "a\0x", "b", "c"};
    const size_t sizes[] = {1, 3, 1, 1};
    for (size_t i = 0; i < 4; i++) {
        size_t size;
        const char *id = snib_ring_id(r, i, &size);
        assert_int_equal(size, sizes[i]);
        assert_memory_equal(id, sorted[i], size + 1);
        assert_int_equal(snib_ring_find(r, id, size), i);
    }
    assert_true(snib_ring_find(r, "aa", 0) == SNIB_RING_NOBODY);
    assert_true(snib_ring_find(r, "", 0) == SNIB_RING_NOBODY);
    assert_true(snib_ring_find(r, NULL, 0) == SNIB_RING_NOBODY);
    assert_null(snib_ring_id(r, 4, NULL));
    for (int i = 0; i < 3; i++) {
        struct snib_ring_member first = m[0];
        memmove(m, m + 1, 3 * sizeof *m);
        m[3] = first;
        struct snib_ring *turned = ring_of(m, 4);
        assert_true(snib_ring_fingerprint(turned) == print);
        for (uint32_t k = 0; k < 200; k++) {
            assert_int_equal(snib_ring_owner(turned, &k, sizeof k),
                             snib_ring_owner(r, &k, sizeof k));
        }
        snib_ring_free(turned);
    }
    m[0].weight++;
    struct snib_ring *heavier = ring_of(m, 4);
    assert_true(snib_ring_fingerprint(heavier) != print);
    snib_ring_free(heavier);
    snib_ring_free(r);
}

/* The fewest that can be in a wrong order, or be there twice. */
static void two_members_are_in_order_and_differ(void **state)
{
    (void)state;
    const struct snib_ring_member m[] = {{.id = "b"}, {.id = "a"}, {.id = "b"}};
    for (int i = 0; i < 2; i++) {
        struct snib_ring *r = ring_of(m + i, 2);
        assert_string_equal(snib_ring_id(r, 0, NULL), "a");
        assert_string_equal(snib_ring_id(r, 1, NULL), "b");
        assert_int_equal(snib_ring_find(r, "a", 1), 0);
        assert_int_equal(snib_ring_find(r, "b", 1), 1);
        snib_ring_free(r);
    }
    const struct snib_ring_member same[] = {{.id = "b"}, {.id = "b"}};
    struct snib_ring *r;
    assert_int_equal(snib_ring_new(same, 2, &r, &error), SNIB_ERR_USAGE);
    assert_non_null(strstr(error.text, "\"b\" is in the ring twice"));
}

static void an_empty_ring_has_no_owner(void **state)
{
    (void)state;
    struct snib_ring *r = ring_of(NULL, 0);
    size_t out;
    assert_int_equal(snib_ring_count(r), 0);
    assert_true(snib_ring_owner(r, "k", 1) == SNIB_RING_NOBODY);
    assert_int_equal(snib_ring_owners(r, "k", 1, &out, 1), 0);
    snib_ring_free(r);
    snib_ring_free(NULL);
}

static void the_largest_ring_works(void **state)
{
    (void)state;
    struct snib_ring *r = workers(SNIB_RING_MEMBERS_MAX);
    assert_int_equal(snib_ring_count(r), SNIB_RING_MEMBERS_MAX);
    assert_true(snib_ring_owner(r, "k", 1) < SNIB_RING_MEMBERS_MAX);
    snib_ring_free(r);
}

static void refused(const struct snib_ring_member *m, size_t n, snib_err err,
                    const char *part)
{
    struct snib_ring *r = (struct snib_ring *)(void *)&error;
    snib_err got = snib_ring_new(m, n, &r, &error);
    if (got != err || r || !strstr(error.text, part)) {
        fail_msg("%s (\"%s\")%s, expected %s (\"%s\")", snib_err_name(got),
                 error.text, r ? " and a ring" : "", snib_err_name(err), part);
    }
}

static void bad_input_is_told(void **state)
{
    (void)state;
    static char long_id[SNIB_RING_ID_MAX + 2];
    memset(long_id, 'x', sizeof long_id - 1);
    const struct snib_ring_member none = {.id = NULL}, empty = {.id = ""},
                                  long_one = {.id = long_id},
                                  heavy = {.id = "a", .weight = 101},
                                  twice[] = {
                                      {.id = "b"}, {.id = "a"}, {.id = "b"}};
    refused(NULL, 1, SNIB_ERR_USAGE, "the array is NULL");
    refused(&none, 1, SNIB_ERR_USAGE, "member 0 of the ring has an id of 0");
    refused(&empty, 1, SNIB_ERR_USAGE, "expected 1 to 512");
    refused(&long_one, 1, SNIB_ERR_USAGE, "an id of 513 bytes");
    refused(&heavy, 1, SNIB_ERR_USAGE, "weight 101; expected 1 to 100");
    refused(twice, 3, SNIB_ERR_USAGE, "the member \"b\" is in the ring twice");
    refused(twice, SNIB_RING_MEMBERS_MAX + 1, SNIB_ERR_LIMIT,
            "a ring of 4097 members; at most 4096");
    assert_int_equal(snib_ring_new(twice, 1, NULL, &error), SNIB_ERR_USAGE);
    struct snib_ring *r;
    assert_int_equal(snib_ring_of_view(NULL, &r, &error), SNIB_ERR_USAGE);
    assert_non_null(strstr(error.text, "view must not be NULL"));
}

static void holders_of_a_lock_are_members(void **state)
{
    (void)state;
    const struct snib_party holders[] = {
        {.client_id = "0c", .reason = "worker-2"},
        {.client_id = "0b", .reason = ""},
        {.client_id = "0a", .reason = "worker-1"},
        {.client_id = "0d", .reason = "worker-2"}};
    const struct snib_view view = {.holder_count = 4,
                                   .holders = pointers_to(holders, 4)};
    const struct snib_view nobody = {.holder_count = 0};
    struct snib_ring *r;
    assert_int_equal(snib_ring_of_view(&view, &r, &error), 0);
    assert_int_equal(snib_ring_count(r), 3);
    assert_string_equal(snib_ring_id(r, 0, NULL), "0b");
    assert_string_equal(snib_ring_id(r, 1, NULL), "worker-1");
    assert_string_equal(snib_ring_id(r, 2, NULL), "worker-2");
    snib_ring_free(r);
    assert_int_equal(snib_ring_of_view(&nobody, &r, &error), 0);
    assert_int_equal(snib_ring_count(r), 0);
    snib_ring_free(r);
}

static void no_memory_is_told(void **state)
{
    (void)state;
    const struct snib_ring_member one = {.id = "a"};
    const struct snib_party p = {.client_id = "a", .reason = ""};
    const struct snib_view view = {.holder_count = 1,
                                   .holders = pointers_to(&p, 1)};
    struct snib_ring *r;
    snib__mem_fail_at(1, false);
    assert_int_equal(snib_ring_new(&one, 1, &r, &error), SNIB_ERR_NOMEM);
    for (int n = 1; n <= 2; n++) {
        snib__mem_fail_at(n, false);
        assert_int_equal(snib_ring_of_view(&view, &r, &error), SNIB_ERR_NOMEM);
        assert_null(r);
    }
    snib__mem_fail_at(0, false);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(the_numbers_are_those_of_the_manual),
        cmocka_unit_test(a_leaver_gives_away_only_what_it_owned),
        cmocka_unit_test(every_member_owns_about_its_share),
        cmocka_unit_test(a_weight_is_a_share_and_moves_only_its_own_keys),
        cmocka_unit_test(the_second_owner_is_who_comes_when_the_first_leaves),
        cmocka_unit_test(the_order_of_the_array_does_not_matter),
        cmocka_unit_test(two_members_are_in_order_and_differ),
        cmocka_unit_test(an_empty_ring_has_no_owner),
        cmocka_unit_test(the_largest_ring_works),
        cmocka_unit_test(bad_input_is_told),
        cmocka_unit_test(holders_of_a_lock_are_members),
        cmocka_unit_test(no_memory_is_told),
    };
    return RUN(cases);
}
