/* store/redis/slots.c: the slot of a key, and who serves it, from what nodes say:
 * also from nodes that talk nonsense. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "store/redis/slots.h"

#define ID(c)                                                                  \
    "0123456789abcdef0123456789abcdef0123456" c /* 40 hexadecimal digits */

static struct snib__slots slots;
static int tag;

static int set_up(void **state)
{
    (void)state;
    memset(&slots, 0, sizeof slots);
    tag = 7;
    return 0;
}

static snib__slots_said reads(const char *text)
{
    return snib__slots_read(&slots, "10.0.0.9:7000", text, strlen(text), &tag);
}

static const char *home_of(uint32_t slot)
{
    uint8_t k = slots.home_of[slot];
    return k ? slots.home[k - 1].address : "";
}

/* -- the hash ------------------------------------------------------------------ */

static uint32_t slot(const char *key)
{
    return snib__slot_of_key(key, strlen(key));
}

/* By the specification and the page of CLUSTER KEYSLOT; others by redis-cli. */
static void a_key_has_the_slot_that_the_documents_name(void **state)
{
    (void)state;
    assert_int_equal(slot("123456789"), 0x31c3 % 16384);
    assert_int_equal(slot("somekey"), 11058);
    assert_int_equal(slot("foo{hash_tag}"), 2515);
    assert_int_equal(slot("bar{hash_tag}"), 2515);
    assert_int_equal(slot("foo"), 12182);
    assert_int_equal(slot("bar"), 5061);
    assert_int_equal(slot("hello"), 866);
    assert_int_equal(slot(""), 0);
}

static void a_tag_is_what_stands_between_the_first_braces(void **state)
{
    (void)state;
    assert_int_equal(slot("{user1000}.following"), slot("user1000"));
    assert_int_equal(slot("{user1000}.followers"), slot("user1000"));
    assert_int_equal(slot("foo{{bar}}zap"), slot("{bar"));
    assert_int_equal(slot("foo{bar}{zap}"), slot("bar"));
    /* with nothing between them, or without a second one, all of it counts */
    assert_int_not_equal(slot("foo{}{bar}"), slot("bar"));
    assert_int_not_equal(slot("foo{}"), slot("foo"));
    assert_int_equal(slot("foo{bar"), slot("foo{bar"));
    assert_int_not_equal(slot("{bar"), slot("bar"));
}

static void a_lock_has_the_slot_of_all_its_keys(void **state)
{
    (void)state;
    static const char *const names[] = {"n",   "a{b}c", "}", "ä",
                                        "x:y", "{",     "%"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct snib__name *n;
        char key[200];
        assert_int_equal(snib__name_new(names[i], 0, &n, NULL), SNIB_ERR_OK);
        snprintf(key, sizeof key, "snib:{%s}:q", n->safe);
        assert_int_equal(slot(key), snib__slot_of(n));
        snib__free(n);
    }
}

/* -- a map --------------------------------------------------------------------- */

/* clang-format off */
#define THREE                                                                  \
    ID("1") " 10.0.0.1:7001@17001,one.example master - 0 5 1 connected 0-5460\n" \
    ID("2") " 10.0.0.2:7002@17002,, myself,master - 0 5 2 connected "          \
            "5461-10922 [93-<-" ID("1") "]\n"                                  \
    ID("3") " 10.0.0.3:7003@17003 master,fail - 0 5 3 disconnected 10923 "     \
            "10924-16383\n"                                                    \
    ID("4") " 10.0.0.4:7004@17004 slave " ID("1") " 0 5 1 connected\n"         \
    ID("5") " :0@0 master,noaddr - 0 5 9 disconnected\n"
/* clang-format on */

static void a_map_says_who_serves_what(void **state)
{
    (void)state;
    assert_int_equal(reads(THREE), SNIB__SLOTS_TAKEN);
    assert_string_equal(home_of(0), "10.0.0.1:7001");
    assert_string_equal(home_of(5460), "10.0.0.1:7001");
    assert_string_equal(home_of(5461), "10.0.0.2:7002");
    assert_string_equal(home_of(10923), "10.0.0.3:7003");
    assert_string_equal(home_of(16383), "10.0.0.3:7003");
    assert_int_equal(snib__slots_unserved(&slots), 0);
    assert_int_equal(slots.heard, 1);
    assert_false(slots.moved);
    assert_int_equal(slots.home[0].slots, 5461);
    /* the keys of the node that spoke are of a slot that it serves */
    char name[30];
    snprintf(name, sizeof name, "%%node%d", tag);
    assert_string_equal(home_of(slot(name)), "10.0.0.2:7002");
}

static void what_nobody_serves_has_no_home(void **state)
{
    (void)state;
    assert_int_equal(
        reads(ID("1") " 10.0.0.1:7001@17001 myself,master - 0 0 1 connected "
                      "0-99 200 300-16383\n"),
        SNIB__SLOTS_TAKEN);
    assert_string_equal(home_of(99), "10.0.0.1:7001");
    assert_string_equal(home_of(100), "");
    assert_string_equal(home_of(200), "10.0.0.1:7001");
    assert_string_equal(home_of(299), "");
    assert_int_equal(snib__slots_unserved(&slots), 199);
}

static void with_tls_a_name_is_preferred(void **state)
{
    (void)state;
    slots.secure = true;
    assert_int_equal(reads(THREE), SNIB__SLOTS_TAKEN);
    assert_string_equal(home_of(0), "one.example:7001");
    assert_string_equal(home_of(5461), "10.0.0.2:7002");
    bool ask;
    static const char moved[] = "MOVED 7000 10.0.0.1:7001";
    assert_int_equal(
        snib__slots_redirect(&slots, "h:1", moved, sizeof moved - 1, &ask),
        0); /* the same server, by its other name */
}

static void addresses_are_translated(void **state)
{
    (void)state;
    assert_true(snib__slots_nat(
        &slots, "10.0.0.1:7001=localhost:1,10.0.0.2:7002=[::1]:2"));
    assert_int_equal(reads(THREE), SNIB__SLOTS_TAKEN);
    assert_string_equal(home_of(0), "localhost:1");
    assert_string_equal(home_of(5461), "[::1]:2");
    assert_string_equal(home_of(16383), "10.0.0.3:7003");
    static const char *const wrong[] = {
        "",    "x",     "a:1",      "a:1=",  "=b:2",
        "a=b", "a:1=b", "a:1=b:2,", "a=b:2", "a:1=b:2,c:1"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        set_up(state);
        assert_false(snib__slots_nat(&slots, wrong[i]));
    }
}

static void a_node_without_an_address_is_who_was_asked(void **state)
{
    (void)state;
    assert_int_equal(reads(ID("1") " :7001@17001 myself,master - 0 0 0 "
                                   "connected 0-16383\n"),
                     SNIB__SLOTS_TAKEN);
    assert_string_equal(home_of(0), "10.0.0.9:7001");
}

static void an_address_of_ipv6_gets_its_brackets(void **state)
{
    (void)state;
    assert_int_equal(reads(ID("1") " fe80::1:7001@17001 myself,master - 0 0 0 "
                                   "connected 0-16383\n"),
                     SNIB__SLOTS_TAKEN);
    assert_string_equal(home_of(0), "[fe80::1]:7001");
}

static void a_server_that_takes_the_place_of_another_is_noticed(void **state)
{
    (void)state;
    /* clang-format off */
    static const char before[] =
        ID("1") " 1.1.1.1:1@2 myself,master - 0 0 1 connected 0-8000\n"
        ID("2") " 2.2.2.2:1@2 master - 0 0 2 connected 8001-16383\n"
        ID("3") " 3.3.3.3:1@2 slave " ID("1") " 0 0 1 connected\n";
    static const char resharded[] =
        ID("1") " 1.1.1.1:1@2 myself,master - 0 0 1 connected 0-7000\n"
        ID("2") " 2.2.2.2:1@2 master - 0 0 3 connected 7001-16383\n";
    static const char promoted[] =
        ID("1") " 1.1.1.1:1@2 master,fail - 0 0 1 connected\n"
        ID("2") " 2.2.2.2:1@2 myself,master - 0 0 3 connected 7001-16383\n"
        ID("3") " 3.3.3.3:1@2 master - 0 0 4 connected 0-7000\n";
    /* clang-format on */
    assert_int_equal(reads(before), SNIB__SLOTS_TAKEN);
    assert_int_equal(reads(resharded), SNIB__SLOTS_TAKEN);
    assert_false(slots.moved);
    assert_string_equal(home_of(7500), "2.2.2.2:1");
    assert_int_equal(reads(promoted), SNIB__SLOTS_TAKEN);
    assert_true(slots.moved);
    assert_string_equal(home_of(0), "3.3.3.3:1");
    assert_int_equal(slots.home[0].slots, 0);
}

static void a_node_that_is_behind_is_believed_only_where_all_are(void **state)
{
    (void)state;
    static const char new[] =
        ID("1") " 1.1.1.1:1@2 myself,master - 0 0 7 connected 0-16383\n";
    static const char old[] =
        ID("1") " 1.1.1.1:1@2 master - 0 0 1 connected\n" ID(
            "2") " 2.2.2.2:1@2 myself,master - 0 0 6 connected 0-16383\n";
    assert_true(snib__slots_seed(&slots, "4.4.4.4", 1) >= 0);
    assert_int_equal(reads(new), SNIB__SLOTS_TAKEN);
    assert_int_equal(reads(old), SNIB__SLOTS_BEHIND);
    assert_string_equal(home_of(0), "1.1.1.1:1");
    assert_int_equal(reads(new), SNIB__SLOTS_TAKEN);
    assert_int_equal(reads(old), SNIB__SLOTS_BEHIND);
    assert_int_equal(reads(old), SNIB__SLOTS_TAKEN); /* so many homes */
    assert_string_equal(home_of(0), "2.2.2.2:1");
}

/* Its address was one of this cluster's nodes. It serves the slots, and would
 * grant what is held at the right one. */
static void a_node_of_another_cluster_is_not_believed(void **state)
{
    (void)state;
    static const char other[] =
        ID("6") " 10.0.0.1:7001@2 myself,master - 0 0 99 connected 0-8000\n" ID(
            "7") " 10.0.1.1:1@2 master - 0 0 98 connected 8001-16383\n";
    assert_int_equal(reads(THREE), SNIB__SLOTS_TAKEN);
    for (int i = 0; i < 100; i++) {
        tag = 7;
        assert_int_equal(snib__slots_read(&slots, "10.0.0.1:7001", other,
                                          strlen(other), &tag),
                         SNIB__SLOTS_FOREIGN);
        assert_int_equal(tag, -1);
    }
    assert_int_equal(slots.heard, 1);
    assert_string_equal(home_of(8001), "10.0.0.2:7002");
    /* all but one node were replaced since: it is the same cluster */
    assert_int_equal(reads(ID("4") " 10.0.0.4:7004@2 slave " ID(
                         "8") " 0 0 9 connected\n" ID("8") " 10.0.0.8:1@2 "
                                                           "master - 0 0 9 "
                                                           "connected "
                                                           "0-16383\n"),
                     SNIB__SLOTS_TAKEN);
    assert_string_equal(home_of(0), "10.0.0.8:1");
}

/* The host that the URL names is what is meant, whoever it is by now. */
static void a_cluster_that_was_set_up_anew_is_believed_in_the_end(void **state)
{
    (void)state;
    static const char new[] =
        ID("6") " 10.0.0.9:7000@2 myself,master - 0 0 0 connected 0-16383\n";
    assert_true(snib__slots_seed(&slots, "10.0.0.9", 7000) >= 0);
    assert_int_equal(reads(THREE), SNIB__SLOTS_TAKEN); /* four homes */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(reads(new), SNIB__SLOTS_FOREIGN);
    }
    assert_int_equal(reads(THREE), SNIB__SLOTS_TAKEN);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(reads(new), SNIB__SLOTS_FOREIGN);
    }
    assert_int_equal(reads(new), SNIB__SLOTS_TAKEN);
    assert_true(slots.moved);
    assert_string_equal(home_of(0), "10.0.0.9:7000");
    assert_int_equal(reads(THREE), SNIB__SLOTS_FOREIGN);
}

/* It was not told yet to which cluster it belongs. */
static void a_node_without_a_cluster_says_nothing_of_others(void **state)
{
    (void)state;
    assert_int_equal(reads(ID("6") " :7000@2 myself,master - 0 0 0 "
                                   "connected\n"),
                     SNIB__SLOTS_TAKEN);
    assert_int_equal(reads(THREE), SNIB__SLOTS_TAKEN);
}

static void nonsense_changes_nothing(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "\n\n",
        "hello\n",
        "1 10.0.0.1:1@2 master - 0 0 1 connected 0-5\n",
        ID("1") " 10.0.0.1:1@2 master - 0 0 1\n",
        ID("1") " 10.0.0.1:1@2 master - 0 0 x connected 0-5\n",
        ID("1") " 10.0.0.1:1@2 master - 0 0 -1 connected 0-5\n",
        ID("1") " 10.0.0.1:1@2 master - 0 0 1 connected 5-0\n",
        ID("1") " 10.0.0.1:1@2 master - 0 0 1 connected 0-16384\n",
        ID("1") " 10.0.0.1:1@2 master - 0 0 1 connected 16384\n",
        ID("1") " 10.0.0.1:1@2 master - 0 0 1 connected a-b\n",
        ID("1") " 10.0.0.1:1@2 master - 0 0 1 connected -5\n",
        ID("1") " 10.0.0.1:1@2 master - 0 0 1 connected 99999999999999999999\n",
        ID("1") " 10.0.0.1:1@2 master  0 0 1 connected 0-5\n",
        ID("1") " 10.0.0.1:1@2 master - 0 0 1 connected 0-16383 7\n",
        ID("1") " 10.0.0.1:1@2 master - 0 0 1 connected 0-16383\n" ID(
            "2") " 10.0.0.2:1@2 master - 0 0 1 connected 0\n",
        THREE "and more\n"};
    assert_int_equal(reads(THREE), SNIB__SLOTS_TAKEN);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        if (reads(wrong[i]) != SNIB__SLOTS_STRANGE) {
            fail_msg("%s", wrong[i]);
        }
        assert_int_equal(tag, -1);
        assert_int_equal(slots.heard, 1);
        assert_string_equal(home_of(0), "10.0.0.1:7001");
        assert_int_equal(snib__slots_unserved(&slots), 0);
    }
}

static void a_node_whose_address_is_unusable_serves_nothing(void **state)
{
    (void)state;
    static const char *const where[] = {"nothing", "h:0@1",   "h:70000@1",
                                        "h/x:1@2", "a@b:1@2", "h:@2"};
    for (size_t i = 0; i < COUNT_OF(where); i++) {
        char text[300];
        set_up(state);
        snprintf(text, sizeof text,
                 ID("1") " %s myself,master - 0 0 1 connected 0-16383\n",
                 where[i]);
        assert_int_equal(reads(text), SNIB__SLOTS_TAKEN);
        assert_string_equal(home_of(0), "");
    }
}

static void more_servers_than_there_is_room_for_are_left_out(void **state)
{
    (void)state;
    static char text[100 * 200];
    for (int i = 0; i < 100; i++) {
        size_t at = strlen(text);
        snprintf(text + at, sizeof text - at,
                 ID("1") " 10.0.0.1:%d@2 master - 0 0 1 connected %d\n", i + 1,
                 i);
    }
    assert_int_equal(reads(text), SNIB__SLOTS_TAKEN);
    assert_true(slots.crowded);
    assert_string_equal(home_of(SNIB__HOMES_MAX - 1), "10.0.0.1:80");
    assert_string_equal(home_of(SNIB__HOMES_MAX), "");
    assert_int_equal(reads(ID("1") " 10.0.0.2:1@2 master - 0 0 2 connected "
                                   "0-16383\n"),
                     SNIB__SLOTS_TAKEN);
    assert_string_equal(home_of(0), "10.0.0.2:1");
    assert_false(slots.crowded);
}

static void addresses_that_change_again_and_again_leave_room(void **state)
{
    (void)state;
    char text[1000];
    for (int i = 0; i < 100; i++) {
        text[0] = 0;
        for (int k = 0; k < 3; k++) {
            size_t at = strlen(text);
            snprintf(text + at, sizeof text - at,
                     ID("1") " 10.0.%d.%d:1@2 master - 0 0 %d connected %d\n",
                     i, k, i, k);
        }
        assert_int_equal(reads(text), SNIB__SLOTS_TAKEN);
        assert_int_equal(snib__slots_unserved(&slots), SNIB__SLOTS - 3);
        assert_false(slots.crowded);
    }
}

static void a_map_of_as_old_a_kind_does_not_overrule_a_fresh_moved(void **state)
{
    (void)state;
    static const char map[] =
        ID("1") " 1.1.1.1:1@2 master - 0 0 1 connected 0-8191\n" ID(
            "2") " 2.2.2.2:1@2 master - 0 0 2 connected "
                 "8192-16383\n" ID("3") " 3.3.3.3:1@2 master - 0 0 0 "
                                        "connected\n";
    static const char newer[] =
        ID("1") " 1.1.1.1:1@2 master - 0 0 1 connected 1-8191\n" ID(
            "2") " 2.2.2.2:1@2 master - 0 0 3 connected 0 8192-16383\n";
    static const char moved[] = "MOVED 0 3.3.3.3:1";
    for (int who = 0; who < 4; who++) {
        static const char *const from[] = {"2.2.2.2:1", "1.1.1.1:1",
                                           "3.3.3.3:1", "2.2.2.2:1"};
        bool ask;
        set_up(state);
        assert_int_equal(reads(map), SNIB__SLOTS_TAKEN);
        assert_true(snib__slots_redirect(&slots, "1.1.1.1:1", moved,
                                         sizeof moved - 1, &ask) >= 0);
        assert_string_equal(home_of(0), "3.3.3.3:1");
        const char *text = who == 3 ? newer : map,
                   *home = who == 3 ? "2.2.2.2:1" : "1.1.1.1:1";
        /* who has said so, who was named, who knows more are believed */
        assert_int_equal(
            snib__slots_read(&slots, from[who], text, strlen(text), &tag),
            who ? SNIB__SLOTS_TAKEN : SNIB__SLOTS_BEHIND);
        assert_string_equal(home_of(0), who ? home : "3.3.3.3:1");
        assert_true(slots.stale == !who);
    }
}

static void a_name_and_an_address_are_one_home(void **state)
{
    (void)state;
    static const char moved[] = "MOVED 0 one.example:7001";
    bool ask;
    int k = snib__slots_redirect(&slots, "h:1", moved, sizeof moved - 1, &ask);
    assert_int_equal(reads(THREE), SNIB__SLOTS_TAKEN);
    assert_int_equal(slots.home_of[0], k + 1);
    assert_string_equal(slots.home[k].other, "10.0.0.1:7001");
    /* nodes that call themselves by one name stay two */
    assert_int_equal(
        reads(ID("1") " 10.0.0.1:7001@1,one.example master - 0 0 9 connected "
                      "0-5\n" ID("2") " 10.0.0.2:7001@1,one.example master - "
                                      "0 0 9 connected 6-16383\n"),
        SNIB__SLOTS_TAKEN);
    assert_int_not_equal(slots.home_of[0], slots.home_of[6]);
}

/* Whatever bytes come, nothing outside the map is touched, and what is counted
 * is what stands there. */
static void bytes_by_chance_do_no_harm(void **state)
{
    (void)state;
    static const char *const bits[] = {
        " ",       "\n",        "0-16383", "myself",   "master,", "@",
        ":",       "-",         ID("1"),   "10.0.0.1", ":7000@1", ",h.x,",
        "9999999", "[",         "]",       "slave",    "fail",    "\r\n",
        THREE,     "connected", "0",       "1",        "\1",      "\xff"};
    uint64_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        char text[3000] = "";
        size_t n = 0;
        uint32_t parts = dice(&seed) % 30;
        for (uint32_t i = 0; i < parts && n < 2000; i++) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s",
                                  bits[dice(&seed) % COUNT_OF(bits)],
                                  dice(&seed) % 2 ? " " : "");
        }
        snib__slots_read(&slots, "h:1", text, n, &tag);
        bool ask;
        snib__slots_redirect(&slots, "h:1", text, n, &ask);
        uint32_t served = 0;
        for (int k = 0; k < SNIB__HOMES_MAX; k++) {
            served += slots.home[k].slots;
        }
        assert_int_equal(served, SNIB__SLOTS - snib__slots_unserved(&slots));
    }
}

/* -- redirections --------------------------------------------------------------- */

static int redirect(const char *text, bool *ask)
{
    return snib__slots_redirect(&slots, "10.0.0.9:7000", text, strlen(text),
                                ask);
}

static void moved_names_the_home_of_a_slot(void **state)
{
    (void)state;
    bool ask = true;
    assert_int_equal(reads(THREE), SNIB__SLOTS_TAKEN);
    assert_int_equal(snib__slots_seed(&slots, "10.0.0.9", 7000), 3);
    int k = redirect("MOVED 5 10.0.0.2:7002", &ask);
    assert_int_equal(k, 1);
    assert_false(ask);
    assert_string_equal(home_of(5), "10.0.0.2:7002");
    assert_string_equal(home_of(6), "10.0.0.1:7001");
    assert_int_equal(slots.home[0].slots, 5460);
    assert_true(slots.stale);
    assert_false(slots.moved); /* it served slots before */
    k = redirect("MOVED 6 :7009", &ask);
    assert_string_equal(slots.home[k].address, "10.0.0.9:7009");
    assert_true(slots.moved);
    assert_int_equal(reads(THREE), SNIB__SLOTS_TAKEN);
    assert_false(slots.stale);
}

static void ask_changes_no_home(void **state)
{
    (void)state;
    bool ask = false;
    assert_int_equal(reads(THREE), SNIB__SLOTS_TAKEN);
    assert_int_equal(redirect("ASK 5 10.0.0.2:7002", &ask), 1);
    assert_true(ask);
    assert_string_equal(home_of(5), "10.0.0.1:7001");
    assert_false(slots.stale);
}

static void other_errors_are_no_redirections(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "MOVED",
        "MOVED ",
        "MOVED 5",
        "MOVED 5 ",
        "MOVED 5 h",
        "MOVED 5 h:",
        "MOVED 5 h:0",
        "MOVED 5 h:65536",
        "MOVED 16384 h:1",
        "MOVED -1 h:1",
        "MOVED x h:1",
        "MOVED 5 h h:1",
        "moved 5 h:1",
        "MOVEDX 5 h:1",
        "ASKING 5 h:1",
        "ASK 5 h",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN Hash slot not served"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        bool ask;
        if (redirect(wrong[i], &ask) >= 0) {
            fail_msg("%s", wrong[i]);
        }
        assert_int_equal(snib__slots_unserved(&slots), SNIB__SLOTS);
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(a_key_has_the_slot_that_the_documents_name),
        cmocka_unit_test(a_tag_is_what_stands_between_the_first_braces),
        cmocka_unit_test(a_lock_has_the_slot_of_all_its_keys),
        cmocka_unit_test_setup(a_map_says_who_serves_what, set_up),
        cmocka_unit_test_setup(what_nobody_serves_has_no_home, set_up),
        cmocka_unit_test_setup(with_tls_a_name_is_preferred, set_up),
        cmocka_unit_test_setup(addresses_are_translated, set_up),
        cmocka_unit_test_setup(a_node_without_an_address_is_who_was_asked,
                               set_up),
        cmocka_unit_test_setup(an_address_of_ipv6_gets_its_brackets, set_up),
        cmocka_unit_test_setup(
            a_server_that_takes_the_place_of_another_is_noticed, set_up),
        cmocka_unit_test_setup(
            a_node_that_is_behind_is_believed_only_where_all_are, set_up),
        cmocka_unit_test_setup(a_node_of_another_cluster_is_not_believed,
                               set_up),
        cmocka_unit_test_setup(
            a_cluster_that_was_set_up_anew_is_believed_in_the_end, set_up),
        cmocka_unit_test_setup(a_node_without_a_cluster_says_nothing_of_others,
                               set_up),
        cmocka_unit_test_setup(nonsense_changes_nothing, set_up),
        cmocka_unit_test_setup(a_node_whose_address_is_unusable_serves_nothing,
                               set_up),
        cmocka_unit_test_setup(more_servers_than_there_is_room_for_are_left_out,
                               set_up),
        cmocka_unit_test_setup(addresses_that_change_again_and_again_leave_room,
                               set_up),
        cmocka_unit_test_setup(
            a_map_of_as_old_a_kind_does_not_overrule_a_fresh_moved, set_up),
        cmocka_unit_test_setup(a_name_and_an_address_are_one_home, set_up),
        cmocka_unit_test_setup(bytes_by_chance_do_no_harm, set_up),
        cmocka_unit_test_setup(moved_names_the_home_of_a_slot, set_up),
        cmocka_unit_test_setup(ask_changes_no_home, set_up),
        cmocka_unit_test_setup(other_errors_are_no_redirections, set_up),
    };
    return RUN(cases);
}
#endif
