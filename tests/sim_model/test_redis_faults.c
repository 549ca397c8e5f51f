/*
 * test_redis_faults.c — refusals, outside scripts and inside
 *
 * The texts are Redis 7.0.15's; difftest brings a real server into most of
 * these states too and compares. What lock scripts live by is spelled out
 * here: a script whose first write removes something finishes at maxmemory.
 */
#include "model_test.h"

static void assert_begins(const char *text, const char *head)
{
    assert_true(strncmp(text, head, strlen(head)) == 0);
}

static const char set_in_script[] =
    "eval \"return redis.call('set','k','v')\" 0";

static void loading_refuses_all_but_a_few(void **state)
{
    struct fixture *f = *state;
    sim_redis_set_fault(f->srv, SIM_REDIS_LOADING, true);
    ask(f, f->a, "get k",
        "-LOADING Redis is loading the dataset in memory\r\n");
    ask(f, f->a, "eval 'return 1' 0",
        "-LOADING Redis is loading the dataset in memory\r\n");
    ask(f, f->a, "select 0", "+OK\r\n");
    sim_redis_set_fault(f->srv, SIM_REDIS_LOADING, false);
    ask(f, f->a, "get k", "$-1\r\n");
}

static void busy_ends_with_script_kill(void **state)
{
    struct fixture *f = *state;
    sim_redis_set_fault(f->srv, SIM_REDIS_BUSY, true);
    ask(f, f->a, "ping",
        "-BUSY Redis is busy running a script. You can only call SCRIPT KILL "
        "or SHUTDOWN NOSAVE.\r\n");
    ask(f, f->a, "script kill", "+OK\r\n");
    ask(f, f->a, "ping", "+PONG\r\n");
}

static void replica_refuses_writes(void **state)
{
    struct fixture *f = *state;
    sim_redis_set_fault(f->srv, SIM_REDIS_READONLY, true);
    ask(f, f->a, "set k v",
        "-READONLY You can't write against a read only replica.\r\n");
    tell(f, f->a, set_in_script);
    assert_string_equal(
        heard(f, f->a),
        "-READONLY You can't write against a read only replica. script: "
        "d223ed8c7345b684e8ed044ed472601f536fa58b, on @user_script:1.\r\n");
    ask(f, f->a, "eval \"return redis.call('get','k')\" 0", "$-1\r\n");
}

static void adding_write_first_is_refused_at_maxmemory(void **state)
{
    struct fixture *f = *state;
    sim_redis_set_fault(f->srv, SIM_REDIS_OOM, true);
    ask(f, f->a, "set k v",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    ask(f, f->a, "eval \"return redis.call('hset','h','f','v')\" 0",
        "-OOM command not allowed when used memory > 'maxmemory'. script: "
        "46b8a0e2aecebae5bf861b6a13dbad8ba48fe871, on @user_script:1.\r\n");
}

static void removing_write_lets_the_rest_pass(void **state)
{
    struct fixture *f = *state;
    tell(f, f->a, "rpush q w1");
    heard(f, f->a);
    sim_redis_set_fault(f->srv, SIM_REDIS_OOM, true);
    ask(f, f->a,
        "eval \"redis.call('lpop','q') return redis.call('hset','h','f',1)\" "
        "0",
        ":1\r\n");
    ask(f, f->a, "eval \"return redis.call('get','k')\" 0", "$-1\r\n");
    ask(f, f->a, "del h", ":1\r\n");
}

static void misconf_refuses_writes_and_ping(void **state)
{
    struct fixture *f = *state;
    sim_redis_set_fault(f->srv, SIM_REDIS_MISCONF, true);
    tell(f, f->a, "ping");
    assert_begins(heard(f, f->a), "-MISCONF Redis is configured to ");
    tell(f, f->a, set_in_script);
    assert_begins(heard(f, f->a), "-MISCONF Redis is configured to ");
    ask(f, f->a, "get k", "$-1\r\n");
}

static void noreplicas_refuses_writes(void **state)
{
    struct fixture *f = *state;
    sim_redis_set_fault(f->srv, SIM_REDIS_NOREPLICAS, true);
    ask(f, f->a, "set k v",
        "-NOREPLICAS Not enough good replicas to write.\r\n");
    tell(f, f->a, set_in_script);
    assert_begins(heard(f, f->a),
                  "-NOREPLICAS Not enough good replicas to write. script: ");
}

static void stale_replica_refuses_scripts(void **state)
{
    struct fixture *f = *state;
    const char *down = "-MASTERDOWN Link with MASTER is down and "
                       "replica-serve-stale-data is set to 'no'.\r\n";
    sim_redis_set_fault(f->srv, SIM_REDIS_MASTERDOWN, true);
    ask(f, f->a, "get k", down);
    ask(f, f->a, "eval 'return 1' 0", down);
    ask(f, f->a, "time", "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n");
}

static void password_is_asked_of_new_connections(void **state)
{
    struct fixture *f = *state;
    sim_redis_set_password(f->srv, "secret");
    ask(f, f->a, "ping", "+PONG\r\n");
    int c = sim_redis_connect(f->srv);
    ask(f, c, "ping", "-NOAUTH Authentication required.\r\n");
    ask(f, c, "auth wrong",
        "-WRONGPASS invalid username-password pair or user is disabled."
        "\r\n");
    ask(f, c, "auth default secret", "+OK\r\n");
    ask(f, c, "ping", "+PONG\r\n");
    sim_redis_set_fault(f->srv, SIM_REDIS_NOAUTH, true);
    ask(f, c, "ping", "-NOAUTH Authentication required.\r\n");
    ask(f, c, "auth secret", "+OK\r\n");
}

static void acl_refuses_by_command_key_and_channel(void **state)
{
    struct fixture *f = *state;
    sim_redis_deny_command(f->srv, "publish");
    ask(f, f->a, "publish c x",
        "-NOPERM this user has no permissions to run the 'publish' command"
        "\r\n");
    ask(f, f->a, "eval \"return redis.pcall('publish','c','x').err\" 0",
        "$70\r\nERR The user executing the script can't run this command or "
        "subcommand\r\n");
    sim_redis_deny_command(f->srv, NULL);
    sim_redis_set_fault(f->srv, SIM_REDIS_NOPERM_CHANNEL, true);
    ask(f, f->a, "eval \"return redis.pcall('publish','c','x').err\" 0",
        "$87\r\nERR The user executing the script can't publish to the "
        "channel mentioned in the command\r\n");
}

static void a_command_that_was_renamed_is_unknown(void **state)
{
    struct fixture *f = *state;
    sim_redis_rename_command(f->srv, "exec");
    tell(f, f->a, "multi");
    tell(f, f->a, "get k");
    ask(f, f->a, "exec",
        "+OK\r\n+QUEUED\r\n-ERR unknown command 'exec', with args beginning "
        "with: \r\n");
    ask(f, f->a, "get k", "+QUEUED\r\n"); /* the transaction is open */
    sim_redis_rename_command(f->srv, NULL);
    ask(f, f->a, "exec",
        "-EXECABORT Transaction discarded because of previous errors.\r\n");
    sim_redis_rename_command(f->srv, "xlen");
    ask(f, f->a, "eval \"return redis.pcall('xlen','k').err\" 0",
        "$44\r\nERR Unknown Redis command called from script\r\n");
}

static void max_clients_is_told_and_closed(void **state)
{
    struct fixture *f = *state;
    sim_redis_set_fault(f->srv, SIM_REDIS_MAXCLIENTS, true);
    int c = sim_redis_connect(f->srv);
    assert_string_equal(heard(f, c), "-ERR max number of clients reached\r\n");
    assert_true(sim_redis_is_closing(f->srv, c));
    ask(f, f->a, "ping", "+PONG\r\n");
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)
const struct CMUnitTest fault_tests[] = {
    TEST(loading_refuses_all_but_a_few),
    TEST(busy_ends_with_script_kill),
    TEST(replica_refuses_writes),
    TEST(adding_write_first_is_refused_at_maxmemory),
    TEST(removing_write_lets_the_rest_pass),
    TEST(misconf_refuses_writes_and_ping),
    TEST(noreplicas_refuses_writes),
    TEST(stale_replica_refuses_scripts),
    TEST(password_is_asked_of_new_connections),
    TEST(acl_refuses_by_command_key_and_channel),
    TEST(a_command_that_was_renamed_is_unknown),
    TEST(max_clients_is_told_and_closed),
};
const size_t fault_tests_n = sizeof fault_tests / sizeof fault_tests[0];
