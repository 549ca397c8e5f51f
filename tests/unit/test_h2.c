/* tests/unit/test_h2.c — gRPC over HTTP/2, at a server that says what the test
 * writes: frames as bytes. */
#include "unit.h"

#include "base/mem.h"
#include "proto/grpc/h2.h"
#include "proto/grpc/nghttp2_i.h"

static struct {
    struct snib__nghttp2 *lib;
    struct snib__h2 h;
    struct snib__h2_stream s;
    struct snib__buf wire;
} w;

static int begin(void **state)
{
    (void)state;
    memset(&w, 0, sizeof w);
    struct snib_error e;
    assert_int_equal(snib__h2_load(&w.lib, &e), SNIB_ERR_OK);
    w.h.lib = w.lib;
    assert_true(snib__h2_open(&w.h));
    snib__h2_stream_init(&w.s);
    snib__buf_init(&w.wire, 1 << 24);
    return 0;
}

static int end(void **state)
{
    (void)state;
    snib__h2_close(&w.h);
    snib__h2_stream_free(&w.s);
    snib__buf_free(&w.wire);
    snib__free(w.lib);
    return 0;
}

enum {
    DATA = 0,
    HEADERS = 1,
    RST_STREAM = 3,
    SETTINGS = 4,
    PING = 6,
    GOAWAY = 7
};
enum { END_HEADERS = 4, END_STREAM = 1 };

static bool says(uint8_t type, uint8_t flags, uint32_t stream,
                 const void *bytes, size_t size)
{
    uint8_t frame[9 + 16384] = {(uint8_t)(size >> 16),
                                (uint8_t)(size >> 8),
                                (uint8_t)size,
                                type,
                                flags,
                                0,
                                0,
                                0,
                                (uint8_t)stream};
    if (size) {
        memcpy(frame + 9, bytes, size);
    }
    bool good = snib__h2_input(&w.h, frame, 9 + size);
    return good && snib__h2_output(&w.h, &w.wire);
}

static void call(void)
{
    const struct snib__h2_head head = {"a:1", false, NULL};
    assert_true(snib__h2_call(&w.h, &w.s, &head, "/x/Y", "abc", 3, false));
    assert_true(snib__h2_output(&w.h, &w.wire));
    assert_true(says(SETTINGS, 0, 0, NULL, 0));
}

/* :status 200, content-type application/grpc */
static const char head[] = "\x88\x0f\x10\x10"
                           "application/grpc";
/* grpc-status 0 */
static const char good_trailer[] = "\x00\x0bgrpc-status\x01"
                                   "0";

static void an_answer_is_a_message_and_a_status(void **state)
{
    const uint8_t *message;
    size_t size;
    (void)state;
    call();
    assert_true(says(HEADERS, END_HEADERS, 1, head, sizeof head - 1));
    assert_true(says(DATA, 0, 1, "\0\0\0\0\2hi", 7));
    assert_int_equal(w.s.end, SNIB__H2_OPEN);
    assert_int_equal(w.h.held, 7);
    assert_true(says(HEADERS, END_HEADERS | END_STREAM, 1, good_trailer,
                     sizeof good_trailer - 1));
    assert_int_equal(w.s.end, SNIB__H2_ANSWERED);
    assert_int_equal(w.s.status, SNIB__GRPC_OK);
    assert_true(snib__h2_message(&w.s, &message, &size));
    assert_int_equal(size, 2);
    assert_memory_equal(message, "hi", 2);
    snib__h2_take(&w.h, &w.s);
    assert_int_equal(w.h.held, 0);
}

static bool lies_in(const struct snib__buf *b, const char *words)
{
    return b->data && memmem(b->data, b->cap, words, strlen(words));
}

static void what_is_secret_is_overwritten(void **state)
{
    const struct snib__h2_head to = {"a:1", false, NULL};
    (void)state;
    w.s.secret = true;
    for (int i = 0; i < 2; i++) {
        assert_true(snib__h2_call(&w.h, &w.s, &to, "/x/Y", "passw0rd", 8, 0));
        assert_true(w.s.out.secret && w.s.in.secret);
        assert_true(snib__h2_output(&w.h, &w.wire));
        assert_false(lies_in(&w.s.out, "passw0rd"));
        snib__h2_drop(&w.h, &w.s);
    }
}

/* A terminal would do what some of them say. */
static void a_text_of_the_server_is_plain(void **state)
{
    static const char trailer[] = "\x00\x0bgrpc-status\x01"
                                  "5"
                                  "\x00\x0cgrpc-message\x0c"
                                  "a%9b%1b%c3\xc3z";
    (void)state;
    call();
    assert_true(says(HEADERS, END_HEADERS, 1, head, sizeof head - 1));
    assert_true(says(HEADERS, END_HEADERS | END_STREAM, 1, trailer,
                     sizeof trailer - 1));
    assert_int_equal(w.s.status, 5);
    assert_string_equal(w.s.text, "a? ??z");
}

static void an_answer_that_does_not_end_is_lost(void **state)
{
    static const uint8_t much[16384];
    (void)state;
    w.s.in.limit = 100000;
    call();
    assert_true(says(HEADERS, END_HEADERS, 1, head, sizeof head - 1));
    for (int i = 0; i < 20 && w.s.end == SNIB__H2_OPEN; i++) {
        assert_true(says(DATA, 0, 1, much, sizeof much));
        assert_true(w.h.held <= 100000);
    }
    assert_int_equal(w.s.end, SNIB__H2_LOST);
    assert_int_equal(w.h.held, 0);
}

/* All of them together are bounded, whatever the limit of each. */
static void answers_share_what_a_connection_may_hold(void **state)
{
    static const uint8_t much[16384];
    (void)state;
    call();
    assert_true(says(HEADERS, END_HEADERS, 1, head, sizeof head - 1));
    w.h.held = SNIB__H2_IN - 20000; /* of other streams */
    assert_true(says(DATA, 0, 1, much, sizeof much));
    assert_int_equal(w.s.end, SNIB__H2_OPEN);
    assert_true(says(DATA, 0, 1, much, sizeof much));
    assert_int_equal(w.s.end, SNIB__H2_LOST);
    assert_int_equal(w.h.held, SNIB__H2_IN - 20000);
}

static void answer(const void *bytes, size_t size)
{
    assert_true(says(HEADERS, END_HEADERS, 1, head, sizeof head - 1));
    for (size_t n = 0; n < size; n += 16384) {
        assert_true(says(DATA, 0, 1, bytes, 16384));
    }
    assert_true(says(HEADERS, END_HEADERS | END_STREAM, 1, good_trailer,
                     sizeof good_trailer - 1));
    assert_int_equal(w.s.end, SNIB__H2_ANSWERED);
}

/* Its owner reads in it while it waits for something else, perhaps behind the
 * end of the connection. */
static void an_answer_counts_until_nobody_wants_it(void **state)
{
    static const uint8_t much[16384];
    const struct snib__h2_head to = {"a:1", false, NULL};
    (void)state;
    call();
    answer(much, 10 * sizeof much);
    assert_int_equal(w.h.held, 10 * sizeof much);
    snib__h2_close(&w.h);
    assert_true(snib__h2_open(&w.h));
    assert_int_equal(w.h.held, 10 * sizeof much);
    assert_true(snib__h2_call(&w.h, &w.s, &to, "/x/Y", "abc", 3, false));
    assert_int_equal(w.h.held, 0);
    assert_true(w.s.in.cap < 5 * sizeof much);
    assert_true(snib__h2_output(&w.h, &w.wire));
    assert_true(says(SETTINGS, 0, 0, NULL, 0));
    answer(much, 10 * sizeof much);
    snib__h2_drop(&w.h, &w.s);
    assert_int_equal(w.h.held, 0);
    assert_true(w.s.in.cap < 5 * sizeof much);
}

/* A header of 4000 bytes that is said again and again, by a byte each time. */
static snib__h2_end repeats(int times)
{
    static const uint8_t first[] = {0x40, 1, 'x', 0x7f, 0xa1, 0x1e};
    uint8_t block[16384];
    size_t n = sizeof head - 1;
    memcpy(block, head, n);
    memcpy(block + n, first, sizeof first);
    n += sizeof first;
    memset(block + n, 'y', 4000);
    n += 4000;
    memset(block + n, 0xbe, (size_t)times);
    call();
    (void)says(HEADERS, END_HEADERS, 1, block, n + (size_t)times);
    return w.s.end;
}

static void headers_are_bounded(void **state)
{
    assert_int_equal(repeats(5), SNIB__H2_OPEN);
    end(state);
    begin(state);
    assert_int_equal(repeats(30), SNIB__H2_LOST);
}

static int32_t no_number(nghttp2_session *session,
                         const nghttp2_priority_spec *priority,
                         const nghttp2_nv *nv, size_t count,
                         const nghttp2_data_provider *body, void *stream)
{
    (void)session;
    (void)priority;
    (void)nv;
    (void)count;
    (void)body;
    (void)stream;
    return NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE;
}

static void without_numbers_a_connection_is_away(void **state)
{
    const struct snib__h2_head to = {"a:1", false, NULL};
    (void)state;
    w.lib->nghttp2_submit_request = no_number;
    assert_false(snib__h2_call(&w.h, &w.s, &to, "/x/Y", "abc", 3, false));
    assert_true(w.h.away);
}

/* What is asked whether it is there is sent, and its answer no nonsense. */
static void a_ping_is_sent(void **state)
{
    (void)state;
    call();
    snib__buf_clear(&w.wire);
    assert_true(snib__h2_ping(&w.h));
    assert_true(snib__h2_output(&w.h, &w.wire));
    assert_int_equal(snib__buf_size(&w.wire), 9 + 8);
    assert_int_equal(snib__buf_bytes(&w.wire)[3], PING);
    assert_true(says(PING, 1, 0, "\0\0\0\0\0\0\0\0", 8));
}

static void what_was_answered_was_looked_at(void **state)
{
    static const char refused[] = "\0\0\0\7"; /* REFUSED_STREAM */
    (void)state;
    call();
    assert_true(says(HEADERS, END_HEADERS, 1, head, sizeof head - 1));
    assert_true(says(RST_STREAM, 0, 1, refused, 4));
    assert_int_equal(w.s.end, SNIB__H2_LOST);
}

static void what_the_server_has_not_looked_at_is_told_apart(void **state)
{
    (void)state;
    call();
    (void)says(GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8); /* last stream 0 */
    assert_true(w.h.away);
    assert_int_equal(w.s.end, SNIB__H2_UNSEEN);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest cases[] = {
        CASE(an_answer_is_a_message_and_a_status),
        CASE(what_is_secret_is_overwritten),
        CASE(a_text_of_the_server_is_plain),
        CASE(an_answer_that_does_not_end_is_lost),
        CASE(answers_share_what_a_connection_may_hold),
        CASE(an_answer_counts_until_nobody_wants_it),
        CASE(headers_are_bounded),
        CASE(without_numbers_a_connection_is_away),
        CASE(a_ping_is_sent),
        CASE(what_was_answered_was_looked_at),
        CASE(what_the_server_has_not_looked_at_is_told_apart),
    };
    return RUN(cases);
}
