/* tests/unit/test_rabbitmq.c — the parts of the store rabbitmq that look at bytes:
 * its protocol, what messages say, names of queues, what follows from what was
 * seen. */
#include "unit.h"

#include "core/url.h"
#include "proto/amqp/wire.h"
#include "store/rabbitmq/rabbitmq.h"
#include "store/rabbitmq/rabbitmq_i.h"

static struct snib__buf bytes;

static void begin(void)
{
    snib__buf_free(&bytes);
    snib__buf_init(&bytes, 1 << 20);
}

static int read_frame(struct snib__amqp_frame *ret)
{
    return snib__amqp_frame(snib__buf_bytes(&bytes), snib__buf_size(&bytes),
                            ret);
}

/* -- the protocol ------------------------------------------------------------- */

static void a_frame_is_whole_or_not_there_or_none(void **state)
{
    (void)state;
    struct snib__amqp_frame frame;
    begin();
    assert_int_equal(read_frame(&frame), 0);
    snib__amqp_put_heartbeat(&bytes);
    assert_int_equal(read_frame(&frame), 1);
    assert_int_equal(frame.type, SNIB__AMQP_HEARTBEAT);
    assert_int_equal(frame.whole, 8);
    for (size_t n = 0; n < 8; n++) {
        assert_int_equal(snib__amqp_frame(snib__buf_bytes(&bytes), n, &frame),
                         0);
    }
    bytes.data[bytes.start + 7] = 0; /* the byte behind the payload */
    assert_int_equal(read_frame(&frame), -1);
    begin();
    snib__buf_add(&bytes, "AMQP\0\0\x09\x01",
                  8); /* another version is spoken */
    assert_int_equal(read_frame(&frame), -1);
    begin();
    snib__buf_add(&bytes, "\x01\0\0\x7f\xff\xff\xff", 7);
    assert_int_equal(read_frame(&frame), -1);
}

static void the_login_is_user_and_password_in_one_field(void **state)
{
    (void)state;
    struct snib__amqp_frame frame;
    begin();
    snib__amqp_put_start_ok(&bytes, "anna", "s3cret");
    assert_int_equal(read_frame(&frame), 1);
    struct snib__amqp_in in = {.at = frame.bytes, .left = frame.size};
    assert_int_equal(snib__amqp_get(&in, 4), SNIB__AMQP_START_OK);
    struct snib__amqp_bytes table = snib__amqp_get_long(&in);
    struct snib__amqp_bytes product = snib__amqp_find(table, "product");
    assert_int_equal(product.size, 4);
    assert_memory_equal(product.bytes, "snib", 4);
    assert_int_equal(snib__amqp_find(table, "prod").size, 0);
    assert_int_equal(snib__amqp_get_short(&in).size, 5);
    struct snib__amqp_bytes secret = snib__amqp_get_long(&in);
    assert_int_equal(secret.size, 12);
    assert_memory_equal(secret.bytes, "\0anna\0s3cret", 12);
    assert_int_equal(snib__amqp_get_short(&in).size, 5);
    assert_true(!in.bad && !in.left);
    (void)snib__amqp_get(&in, 1);
    assert_true(in.bad);
}

static void a_message_is_a_method_a_header_and_a_body(void **state)
{
    (void)state;
    struct snib__amqp_frame frame;
    struct snib__amqp_content content;
    const struct snib__amqp_message message = {.queue = "q",
                                               .expires_ms = 1500,
                                               .reply_to = "me",
                                               .bytes = "text",
                                               .size = 4};
    begin();
    snib__amqp_put_publish(&bytes, 7, &message);
    assert_int_equal(read_frame(&frame), 1);
    assert_int_equal(frame.type, SNIB__AMQP_METHOD);
    assert_int_equal(frame.channel, 7);
    struct snib__amqp_in in = {.at = frame.bytes, .left = frame.size};
    assert_int_equal(snib__amqp_get(&in, 4), SNIB__AMQP_PUBLISH);
    snib__amqp_get(&in, 2);
    assert_int_equal(snib__amqp_get_short(&in).size, 0);
    assert_int_equal(snib__amqp_get_short(&in).size, 1);
    assert_int_equal(snib__amqp_get(&in, 1), 1); /* mandatory */
    assert_true(!in.bad && !in.left);
    snib__buf_consume(&bytes, frame.whole);
    assert_int_equal(read_frame(&frame), 1);
    assert_true(snib__amqp_read_header(&frame, &content));
    assert_int_equal(content.size, 4);
    assert_int_equal(content.reply_to.size, 2);
    snib__buf_consume(&bytes, frame.whole);
    assert_int_equal(read_frame(&frame), 1);
    assert_int_equal(frame.type, SNIB__AMQP_BODY);
    assert_memory_equal(frame.bytes, "text", 4);
}

static void a_bound_and_a_cancel_are_what_the_specification_says(void **state)
{
    (void)state;
    static const uint8_t bound[] = {1,  0, 7, 0, 0, 0, 11, 0, 60,  0,
                                    10, 0, 0, 0, 0, 0, 2,  0, 0xCE};
    static const uint8_t cancel[] =
        "\1\0\7\0\0\0\20\0\74\0\36\12messages-3\0\xCE";
    begin();
    snib__amqp_put_qos(&bytes, 7, 2);
    assert_int_equal(snib__buf_size(&bytes), sizeof bound);
    assert_memory_equal(snib__buf_bytes(&bytes), bound, sizeof bound);
    begin();
    snib__amqp_put_cancel(&bytes, 7, 3);
    assert_int_equal(snib__buf_size(&bytes), sizeof cancel - 1);
    assert_memory_equal(snib__buf_bytes(&bytes), cancel, sizeof cancel - 1);
}

static void a_method_that_is_cut_off_is_bad(void **state)
{
    (void)state;
    struct snib__amqp_method method;
    static const uint8_t close[] = {0, 10, 0, 50, 1, 0x47, 3, 'n', 'o'};
    const struct snib__amqp_frame frame = {.bytes = close,
                                           .size = sizeof close};
    assert_false(snib__amqp_read_method(&frame, &method));
}

/* -- messages --------------------------------------------------------------------- */

static struct mq_message read_message(const char *text)
{
    struct mq_message says;
    snib__mq_message_read(text, strlen(text), &says);
    return says;
}

static void a_message_is_read_as_it_was_written(void **state)
{
    (void)state;
    const struct mq_message held = {.kind = MQ_HELD,
                                    .id = {UINT64_MAX, 1},
                                    .token = (INT64_C(1) << 53) - 1,
                                    .lease_ms = 30000,
                                    .serial = 3};
    begin();
    snib__mq_message_write(&held, "pid=1", 5, &bytes);
    struct mq_message got = read_message(snib__buf_text(&bytes));
    assert_int_equal(got.kind, MQ_HELD);
    assert_true(got.id[0] == UINT64_MAX && got.id[1] == 1);
    assert_true(got.token == held.token && got.lease_ms == 30000);
    assert_int_equal(got.serial, 3);
}

#define ID "00112233445566778899aabbccddeeff"

static void what_others_write_is_foreign(void **state)
{
    (void)state;
    static const char *const text[] = {"",
                                       "hello",
                                       "snib2 held " ID " 1 1 1\n",
                                       "snib1 hold " ID " 1 1 1\n",
                                       "snib1 held 0011 1 1 1\n",
                                       "snib1 held " ID " -1 1 1\n",
                                       "snib1 held " ID " 1 600001 1\n",
                                       "snib1 held " ID " 1 -1 1\n",
                                       "snib1 held " ID " 1 1\n",
                                       "snib1 held " ID "0 1 1 1\n"};
    for (size_t i = 0; i < COUNT_OF(text); i++) {
        assert_int_equal(read_message(text[i]).kind, MQ_FOREIGN);
    }
    assert_int_equal(read_message("snib1 held " ID " 1 1 1\n").kind, MQ_HELD);
}

static void queues_have_the_names_of_locks(void **state)
{
    (void)state;
    struct snib__name *name;
    struct snib_error e;
    char queue[MQ_QUEUE_MAX], later[MQ_QUEUE_MAX], other[MQ_QUEUE_MAX];
    char text[SNIB_NAME_MAX];
    assert_false(snib__name_new("a b\n", 0, &name, &e));
    snib__mq_queue(name, queue);
    assert_string_equal(queue, "snib.l.a b%0A");
    snib__mq_queue_later(queue, later);
    assert_string_equal(later, "snib.w.a b%0A");
    snib__free(name);
    memset(text, 'x', sizeof text);
    for (size_t size = 240; size <= 260; size++) {
        assert_false(snib__name_new(text, size, &name, &e));
        snib__mq_queue(name, queue);
        snib__free(name);
        assert_true(strlen(queue) < MQ_QUEUE_MAX);
        assert_int_equal(strncmp(queue, size <= 248 ? "snib.l." : "snib.h.", 7),
                         0);
        snib__mq_queue_later(queue, later); /* no two of them share one */
        assert_int_equal(strncmp(later, size <= 248 ? "snib.w." : "snib.v.", 7),
                         0);
        assert_string_equal(later + 7, queue + 7);
        text[size - 1] = 'y';
        assert_false(snib__name_new(text, size, &name, &e));
        snib__mq_queue(name, other);
        snib__free(name);
        assert_string_not_equal(queue, other);
        text[size - 1] = 'x';
    }
}

/* -- what was seen ------------------------------------------------------------------ */

static struct mq_view view;

static void saw(mq_kind kind, uint64_t id, int64_t token, int64_t lease_ms,
                int64_t came_ms)
{
    const struct mq_seen seen = {.says = {.kind = kind,
                                          .id = {id, id},
                                          .token = token,
                                          .lease_ms = lease_ms},
                                 .tag = view.count + 1,
                                 .came = {came_ms * 1000000}};
    assert_true(snib__mq_view_add(&view, &seen));
}

static int64_t until_ms(uint64_t id)
{
    const uint64_t ids[2] = {id, id};
    return snib__mq_view_until(&view, ids).ns / 1000000;
}

static void others_are_waited_for_unless_they_are_over(void **state)
{
    (void)state;
    assert_int_equal(until_ms(1), 0);
    saw(MQ_HELD, 1, 5, 1000, 100);
    assert_int_equal(until_ms(1), 0); /* one's own is in nobody's way */
    assert_int_equal(until_ms(2), 1100);
    saw(MQ_HELD, 3, 4, 5000, 200);
    assert_int_equal(until_ms(2), 5200);
    saw(MQ_FREE, 3, 4, 0, 300);
    assert_int_equal(until_ms(2), 1100);
    saw(MQ_FREE, 1, 9, 0, 300);
    assert_int_equal(until_ms(2), 0);
    assert_true(snib__mq_view_token(&view, 0) == 9);
    assert_true(snib__mq_view_token(&view, 4) == 5);
}

/* The serial tells which of two messages of one request was sent first. */
static void a_grant_behind_its_free_is_not_over(void **state)
{
    (void)state;
    const uint64_t other[2] = {9, 9};
    struct mq_seen held = {
        .says = {.kind = MQ_HELD, .id = {1, 1}, .lease_ms = 1000, .serial = 5},
        .came = {1}};
    struct mq_seen free = {.says = {.kind = MQ_FREE, .id = {1, 1}}};
    for (uint64_t serial = 4; serial <= 6; serial++) {
        snib__mq_view_free(&view);
        free.says.serial = serial;
        assert_true(snib__mq_view_add(&view, &free));
        assert_true(snib__mq_view_add(&view, &held));
        assert_int_equal(snib__mq_view_until(&view, other).ns != 0, serial < 5);
    }
    snib__mq_view_free(&view);
}

/* Of a holder that has renewed the last message counts, unless that is shorter. */
static void a_grant_that_was_renewed_is_one_message(void **state)
{
    (void)state;
    static const struct {
        int64_t lease_ms;
        uint64_t id, serial;
        bool pruned;
    } row[] = {{1000, 1, 5, true},
               {1500, 1, 5, true},
               {999, 1, 5, false},
               {1000, 2, 5, false},
               {1000, 1, 3, false}};
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        struct mq_seen seen = {.says = {.kind = MQ_HELD,
                                        .id = {1, 1},
                                        .token = 7,
                                        .lease_ms = 1000,
                                        .serial = 4},
                               .tag = 1};
        snib__mq_view_free(&view);
        assert_true(snib__mq_view_add(&view, &seen));
        seen.tag = 2;
        seen.says.id[0] = row[i].id;
        seen.says.lease_ms = row[i].lease_ms;
        seen.says.serial = row[i].serial;
        assert_true(snib__mq_view_add(&view, &seen));
        bool second = row[i].serial < 4; /* it is the other one that goes */
        assert_int_equal(snib__mq_view_prune(&view), row[i].pruned ? 1
                                                     : second      ? 2
                                                                   : 0);
    }
    snib__mq_view_free(&view);
}

/* The highest token stays, and what ends something that is there. */
static void what_says_nothing_any_more_is_taken_out(void **state)
{
    (void)state;
    snib__mq_view_free(&view);
    saw(MQ_FREE, 1, 5, 0, 1);
    assert_int_equal(snib__mq_view_prune(&view), 0);
    saw(MQ_FREE, 1, 5, 0, 1);
    assert_int_equal(snib__mq_view_prune(&view), 1);
    assert_int_equal(snib__mq_view_prune(&view), 0);
    snib__mq_view_free(&view);
    saw(MQ_FREE, 2, 4, 0, 1); /* of one that does not lie there */
    saw(MQ_HELD, 3, 7, 1000, 1);
    assert_int_equal(snib__mq_view_prune(&view), 1);
    assert_int_equal(snib__mq_view_prune(&view), 0);
    saw(MQ_FREE, 3, 7, 0, 1);
    assert_int_not_equal(snib__mq_view_prune(&view), 0); /* the grant */
    assert_int_equal(view.count, 1);
    assert_int_equal(view.seen[0].says.kind, MQ_FREE);
    snib__mq_view_free(&view);
    saw(MQ_HELD, 3, 7, 1000, 1);
    saw(MQ_FREE, 3, 6, 0, 1); /* nobody else has its token */
    assert_int_equal(snib__mq_view_prune(&view), 0);
    snib__mq_view_free(&view);
}

static void texts_of_the_server_are_plain(void **state)
{
    (void)state;
    char text[8];
    const struct snib__amqp_bytes from = {"a\x1b[\x7f\xc3\xa4zyx", 9};
    snib__amqp_text(from, text, sizeof text);
    assert_string_equal(text, "a [???z");
    snib__amqp_text((struct snib__amqp_bytes){NULL, 0}, text, sizeof text);
    assert_string_equal(text, "");
}

static void there_is_a_bound_to_what_is_seen(void **state)
{
    (void)state;
    const struct mq_seen one = {.tag = 1};
    while (view.count < 256) {
        saw(MQ_FREE, 7, 1, 0, 1);
    }
    assert_false(snib__mq_view_add(&view, &one));
}

/* -- URLs ---------------------------------------------------------------------------- */

static void urls_that_say_nothing_sensible_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        snib_err err;
    } row[] = {{"amqp://h", SNIB_ERR_OK},
               {"amqp://u:p@h:1/v", SNIB_ERR_OK},
               {"amqp://h,i/v?heartbeat_s=600", SNIB_ERR_OK},
               {"amqps://h?tls_verify=no", SNIB_ERR_OK},
               {"amqp://u@h", SNIB_ERR_USAGE},
               {"amqp://h,h", SNIB_ERR_USAGE},
               {"amqp://h?heartbeat_s=601", SNIB_ERR_USAGE},
               {"amqp://h?heartbeat_s=-1", SNIB_ERR_USAGE},
               {"amqp://h?tls_verify=no", SNIB_ERR_USAGE},
               {"amqp://h?x=1", SNIB_ERR_USAGE}};
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        struct snib__url *url;
        struct snib_error e;
        struct snib__store *store;
        struct snib__out out = {.limit = 0};
        snib__list_init(&out.answered);
        snib__list_init(&out.exec);
        snib__conns_init(&out, 1 << 20);
        assert_false(snib__url_parse(row[i].url, &url, &e));
        const struct snib__store_config c = {.url = url, .out = &out};
        assert_int_equal(snib__rabbitmq_store_ops.open(&c, &store, &e),
                         row[i].err);
        snib__rabbitmq_store_ops.free(store);
        snib__conns_free(&out);
        snib__url_free(url);
    }
}

static int tidy(void **state)
{
    (void)state;
    snib__buf_free(&bytes);
    snib__mq_view_free(&view);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_is_whole_or_not_there_or_none),
        cmocka_unit_test(the_login_is_user_and_password_in_one_field),
        cmocka_unit_test(a_message_is_a_method_a_header_and_a_body),
        cmocka_unit_test(a_bound_and_a_cancel_are_what_the_specification_says),
        cmocka_unit_test(a_method_that_is_cut_off_is_bad),
        cmocka_unit_test(a_message_is_read_as_it_was_written),
        cmocka_unit_test(what_others_write_is_foreign),
        cmocka_unit_test(queues_have_the_names_of_locks),
        cmocka_unit_test(others_are_waited_for_unless_they_are_over),
        cmocka_unit_test(a_grant_behind_its_free_is_not_over),
        cmocka_unit_test(a_grant_that_was_renewed_is_one_message),
        cmocka_unit_test(what_says_nothing_any_more_is_taken_out),
        cmocka_unit_test(texts_of_the_server_are_plain),
        cmocka_unit_test(there_is_a_bound_to_what_is_seen),
        cmocka_unit_test(urls_that_say_nothing_sensible_are_refused),
    };
    return all_is_freed(cmocka_run_group_tests(tests, NULL, tidy));
}
