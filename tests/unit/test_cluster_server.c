/* What a client of a cluster says of the servers that it talks to. */
#include "unit.h"

#include "core/engine_i.h"
#include "driver/client.h"
#include "snib.h"
#include "snib/inspect.h"
#include "store/cluster/cluster_i.h"

static struct snib_error e;

static struct snib_client *open_cluster(void)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    o.url = "redis+cluster://a,b";
    if (snib_client_open(&o, &c, &e)) {
        fail_msg("%s", e.text);
    }
    return c;
}

static struct snib_server *server_of(struct snib_client *c)
{
    struct snib_server *is;
    assert_int_equal(snib_client_server(c, &is, &e), SNIB_ERR_OK);
    return is;
}

static void before_the_map_is_known_there_are_no_servers(void **state)
{
    (void)state;
    struct snib_client *c = open_cluster();
    struct snib_server *is = server_of(c);
    assert_string_equal(is->address, "redis+cluster://a:6379,b:6379/0");
    assert_int_equal(is->server_count, 0);
    assert_null(is->servers);
    assert_int_equal(is->connected_ms, -1);
    assert_false(is->reachable);
    snib_server_free(is);
    snib_client_free(c);
}

static void each_primary_that_serves_slots_is_there(void **state)
{
    (void)state;
    enum { MANY = 40 };
    struct snib_client *c = open_cluster();
    struct snib__cluster *q = (void *)c->engine->store;
    for (int i = 0; i < MANY; i++) {
        struct snib__home *h = &q->slots->home[2 + i];
        snprintf(h->address, sizeof h->address, "10.0.0.%d:1", i);
        h->slots = 1;
    }
    q->slots->heard = 1;
    struct snib_server *is = server_of(c);
    assert_int_equal(is->server_count, MANY);
    assert_int_equal(strlen(is->address), 10 * 11 + 30 * 12 - 1);
    for (int i = 0; i < MANY; i++) {
        char want[20];
        snprintf(want, sizeof want, "10.0.0.%d:1", i);
        assert_string_equal(is->servers[i]->address, want);
        assert_string_equal(is->servers[i]->text, "not asked yet");
    }
    snib_server_free(is);
    snib_client_free(c);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(before_the_map_is_known_there_are_no_servers),
        cmocka_unit_test(each_primary_that_serves_slots_is_there),
    };
    return RUN(cases);
}
