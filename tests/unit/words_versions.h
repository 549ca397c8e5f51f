/* tests/unit/words_versions.h — values that are put, deleted, put again, by
 * copies that come late, and what is refused in which words. */
#ifndef SNIB_TESTS_WORDS_VERSIONS_H
#define SNIB_TESTS_WORDS_VERSIONS_H

#include "core_same.h"

#include "core/engine_i.h"
#include "core/refusals.h"
#include "core/version.h"

static void tell_version(const struct snib__version *v)
{
    uint8_t bytes[SNIB__VERSION_BYTES];
    struct snib__version back;
    snib__version_pack(v, bytes);
    tell_bytes("version", bytes, sizeof bytes);
    bool good = snib__version_unpack(bytes, sizeof bytes, &back);
    TELL("read", good);
    if (good) { /* not where the clock is beyond the range of versions */
        assert_memory_equal(&back, v, sizeof back);
    }
}

static int64_t some_version(const struct snib__version *v)
{
    const int64_t some[] = {
        0,       0,           v->version,  v->version,   v->version,
        v->last, v->last + 1, v->last - 1, v->forgotten, v->forgotten + 1};
    int64_t n = ONE_OF(some);
    return n > 0 ? n : 0;
}

/* One value's life: changes, and copies of changes. */
static void change_values(void)
{
    struct snib__version v = {0};
    struct snib__request sent[20] = {0};
    struct snib_error error = {0};
    int64_t now_ms =
        one_in(20) ? (SNIB__VERSION_END >> 10) - 3 : 1 + below(30000);
    uint32_t count = 0;
    for (int i = 0; i < 40; i++) {
        struct snib__request r = {
            .verb = one_in(3) ? SNIB__VALUE_DELETE : SNIB__VALUE_PUT,
            .id = {1 + count, one_in(2)},
            .token = some_version(&v),
            .resent = one_in(3),
            .value.age = snib__ms(one_in(2) ? below(3000) : 0),
            .said.reterr = &error};
        r.floor = one_in(8) ? v.last + below(3) : 0;
        r.floor = one_in(60) ? SNIB__VERSION_END - 2 + below(3) : r.floor;
        if (count && one_in(3)) {
            r = sent[below(count < 20 ? count : 20)];
            r.resent = true;
        } else {
            sent[count++ % 20] = r;
        }
        error = (struct snib_error){0};
        r.said.reterr = &error;
        snib__version_todo todo = snib__version_step(&v, &r, now_ms);
        TELL("change", todo, r.said.answer, r.said.err, r.token);
        assert_true(r.said.answer != SNIB__PENDING && v.version <= v.last);
        tell_error(&error);
        tell_version(&v);
        now_ms += one_in(4) ? below(12000) : below(2);
        /* so that what is forgotten is just as old as a late copy */
        if (one_in(6) && v.forgotten / 1024 + SNIB__VALUE_LATE_MS > now_ms) {
            now_ms = v.forgotten / 1024 + SNIB__VALUE_LATE_MS + below(2);
        }
    }
}

static void put_i64(uint8_t *p, int64_t v)
{
    for (int i = 0; i < 8; i++) {
        p[i] = (uint8_t)((uint64_t)v >> (8 * i));
    }
}

/* Bytes that somebody has damaged. */
static void unpack_versions(void)
{
    const int64_t some[] = {
        0, 1, 5, 6, SNIB__VERSION_END - 1, SNIB__VERSION_END, -1};
    uint8_t bytes[SNIB__VERSION_BYTES] = {0};
    struct snib__version v;
    int64_t last = ONE_OF(some);
    put_i64(bytes, one_in(3) ? ONE_OF(some) : last);
    put_i64(bytes + 8, last);
    put_i64(bytes + 16, one_in(3) ? ONE_OF(some) : last);
    put_i64(bytes + 24, below(SNIB__CHANGES + 2));
    for (int i = 0; i < SNIB__CHANGES; i++) {
        put_i64(bytes + 32 + 24 * i, below(9));
        put_i64(bytes + 40 + 24 * i, below(9));
        put_i64(bytes + 48 + 24 * i, one_in(9) ? ONE_OF(some) : below(9));
    }
    bool good = snib__version_unpack(
        one_in(30) ? NULL : bytes,
        one_in(20) ? below(2 * SNIB__VERSION_BYTES) : sizeof bytes, &v);
    TELL("unpacked", good);
    if (good) {
        tell_version(&v);
    }
}

/* -- words ----------------------------------------------------------------------- */

static void refuse(void)
{
    static const int64_t sizes[] = {0, 1, 7, SNIB_PERMITS_MAX,
                                    SNIB_PERMITS_MAX - 1};
    static const int64_t amounts[] = {-9, -1, 0, 1, 1000000000};
    struct snib_error error = {0};
    struct snib__request r = {.acquire.permits = below(4),
                              .params.amount = ONE_OF(amounts),
                              .said.reterr = one_in(9) ? NULL : &error};
    switch (below(5)) {
    case 0:
        snib__refuse_too_many(&r, ONE_OF(sizes));
        break;
    case 1:
        snib__refuse_no_size(&r);
        break;
    case 2:
        snib__refuse_size(&r, ONE_OF(sizes));
        break;
    case 3:
        snib__refuse_upgrade_over(&r);
        break;
    default:
        snib__refuse_second_upgrade(&r);
    }
    TELL("refused", r.said.answer, r.said.err);
    tell_error(&error);
}

static void fill(char *to, size_t size)
{
    static const char *const pieces[] = {"why",
                                         "\xc3\xa4",
                                         "\xe2\x82\xac",
                                         "\xf0\x9f\x98\x80",
                                         "\x80\x80\x80\x80",
                                         "\x01",
                                         "\x7f",
                                         "\xc3",
                                         "\xf0"};
    size_t n = 0;
    to[0] = 0;
    for (;;) {
        const char *p = ONE_OF(pieces);
        if (n + strlen(p) + 1 > size) {
            return;
        }
        memcpy(to + n, p, strlen(p) + 1);
        n += strlen(p);
    }
}

/* Cut at every place, in the middle of characters, too. */
static void revoke(void)
{
    static const char *const texts[] = {
        "revoked", "revoked by anna: x\n", "", "revoke", "\x7f", "killed",
        "revokedx"};
    struct snib__about by = {.pid = 1};
    struct snib_error error = {.code = SNIB_ERR_STORE};
    struct snib__buf out;
    char reason[1200];
    fill(by.user, one_in(3) ? 1 : 1 + below(sizeof by.user));
    fill(by.host, one_in(3) ? 1 : 1 + below(sizeof by.host));
    fill(reason, one_in(2) ? 900 + below(120) : 1 + below(40));
    snib__buf_init(&out, 5000);
    snib__explain_force(&by, one_in(5) ? NULL : reason, &out);
    tell_bytes("force", snib__buf_bytes(&out), snib__buf_size(&out));
    snib__buf_free(&out);
    snprintf(error.text, sizeof error.text, "%s", ONE_OF(texts));
    snib__explain_revoked(&error);
    tell_error(&error);
}

#endif
