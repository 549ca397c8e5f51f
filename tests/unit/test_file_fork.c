/* tests/unit/test_file_fork.c — the mapped file: a child that came by fork() opens
 * a client of its own.
 * labels: thread */
#define SCHEME "file"
#include "forked.h"

#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh_dir, remove_dir)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest cases[] = {
        CASE(children_of_a_busy_parent_open_clients_of_their_own),
        CASE(grandchildren_open_clients_of_their_own),
    };
    return RUN(cases);
}
