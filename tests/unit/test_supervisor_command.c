/* cli/supervisor/supervisor_command.c: what a command finds in its environment, of
 * each way in which a store may be given, and how it ends if it cannot begin. Each
 * is a process, as under `snib run`. */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/supervisor/supervisor_i.h"

enum { WITHOUT_GATE = 1, WITHOUT_PARENT = 2 };

/* -- a command --------------------------------------------------------------------- */

static struct cli_args args;
static struct plan plan;
static struct plan_page page;
static const char *names[] = {"a b:", "c"};

#define SHOW(name) "printf '%s\\n' \"" name "=${" name "-(none)}\";"

static char shell[] = "sh", option[] = "-c";
static char script[] =
    SHOW("SNIB_NAME") SHOW("SNIB_TOKEN") SHOW("SNIB_TERM") SHOW("SNIB_SLOT")
        SHOW("SNIB_HELD") SHOW("SNIB_OWNER") SHOW("SNIB_TTL_MS") "exit 3";
static char stores[] = SHOW("SNIB_URL") SHOW("SNIB_STORE_FILE");
static char *to_show[] = {shell, option, script, NULL};
static char *of_store[] = {shell, option, stores, NULL};

static struct body body(char **command)
{
    args = (struct cli_args){.busy_exit = -1, .status_fd = -1};
    plan = (struct plan){
        .args = &args, .names = names, .name_count = 1, .command = command};
    page = (struct plan_page){.tokens = {7, 9}, .permit_slots = {-1, -1}};
    snprintf(page.client_id, sizeof page.client_id, "c0ffee:4");
    snprintf(page.address, sizeof page.address, "7.0123456789abcdef");
    struct body b = {.plan = &plan, .page = &page};
    b.supervisor.rules.ttl = 1500 * SUPERVISOR_MS;
    return b;
}

/* What it wrote on stdout, its exit status, and the errno that came through the
 * gate (0: none). */
static struct {
    char text[4096];
    int status, error;
} run_of;

static void read_all(int fd)
{
    size_t used = 0;
    ssize_t n;
    while ((n = read(fd, run_of.text + used, sizeof run_of.text - 1 - used)) >
           0) {
        used += (size_t)n;
    }
    run_of.text[used] = '\0';
}

static void run(struct body *b, int without)
{
    int gate[2], out[2];
    assert_return_code(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate),
                       0);
    assert_return_code(pipe2(out, O_CLOEXEC), 0);
    pid_t self = getpid(), pid = fork();
    assert_return_code(pid, 0);
    if (pid == 0) {
        dup2(out[1], 1);
        close(gate[0]);
        supervisor_become_command(b, self + (without & WITHOUT_PARENT), gate[1],
                                  out[1]);
    }
    close(gate[1]);
    close(out[1]);
    if (without & WITHOUT_GATE) {
        shutdown(gate[0], SHUT_WR);
    } else {
        (void)!send(gate[0], "g", 1, MSG_NOSIGNAL);
    }
    read_all(out[0]);
    run_of.error = 0;
    ssize_t n = recv(gate[0], &run_of.error, sizeof run_of.error, 0);
    assert_true(n == 0 || n == (ssize_t)sizeof run_of.error ||
                (without & WITHOUT_PARENT));
    assert_int_equal(waitpid(pid, &run_of.status, 0), pid);
    close(gate[0]);
    close(out[0]);
}

static void ended(int code, int error)
{
    assert_true(WIFEXITED(run_of.status));
    assert_int_equal(WEXITSTATUS(run_of.status), code);
    assert_int_equal(run_of.error, error);
}

static int without_store(void **state)
{
    static const char *const all[] = {
        "SNIB_NAME", "SNIB_TOKEN", "SNIB_TERM",      "SNIB_SLOT",
        "SNIB_HELD", "SNIB_URL",   "SNIB_STORE_FILE"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        unsetenv(all[i]);
    }
    return chdir("/");
}

/* -- cases --------------------------------------------------------------------------- */

static void one_name_is_told_as_it_is(void **state)
{
    struct body b = body(to_show);
    (void)state;
    run(&b, 0);
    ended(3, 0);
    assert_string_equal(run_of.text,
                        "SNIB_NAME=a b:\nSNIB_TOKEN=7\nSNIB_TERM=(none)\n"
                        "SNIB_SLOT=(none)\n"
                        "SNIB_HELD=a%20b%3A=7.0123456789abcdef\n"
                        "SNIB_OWNER=c0ffee:4\nSNIB_TTL_MS=1500\n");
}

/* Of a candidate, in a command of another run. */
static void several_names_are_parted_by_colons(void **state)
{
    struct body b = body(to_show);
    (void)state;
    setenv("SNIB_HELD", "x=1.0000000000000001", 1);
    setenv("SNIB_SLOT", "77", 1);
    plan.name_count = 2;
    plan.elect = true;
    page.permit_slots[0] = 0;
    page.permit_slots[1] = 12;
    run(&b, 0);
    ended(3, 0);
    assert_string_equal(
        run_of.text,
        "SNIB_NAME=a%20b%3A:c\nSNIB_TOKEN=7:9\nSNIB_TERM=7:9\nSNIB_SLOT=0:12\n"
        "SNIB_HELD=x=1.0000000000000001:a%20b%3A=7.0123456789abcdef"
        ":c=7.0123456789abcdef\nSNIB_OWNER=c0ffee:4\nSNIB_TTL_MS=1500\n");
}

/* A stronger lock further up stands for the permits of one: no slot is told, nor
 * that of a run further up. */
static void without_a_slot_of_each_none_is_told(void **state)
{
    struct body b = body(to_show);
    (void)state;
    plan.name_count = 2;
    page.permit_slots[0] = 4;
    setenv("SNIB_SLOT", "77", 1);
    run(&b, 0);
    assert_non_null(strstr(run_of.text, "\nSNIB_SLOT=(none)\n"));
}

static void the_lease_is_a_descriptor_that_is_inherited(void **state)
{
    static char words[] = "printf x >/proc/self/fd/$SNIB_LEASE_FD";
    static char *command[] = {shell, option, words, NULL};
    struct body b = body(command);
    (void)state;
    run(&b, 0);
    ended(0, 0);
    assert_string_equal(run_of.text, "x");
}

#define FILE_ "/etc/store"

struct given {
    const char *store, *store_file; /* options                               */
    const char *env, *env_file;     /* SNIB_URL, SNIB_STORE_FILE             */
    const char *url, *in_use;       /* what was chosen, what the holder uses */
    const char *url_then, *file_then;
};

static void set(const char *name, const char *value)
{
    if (value) {
        setenv(name, value, 1);
    } else {
        unsetenv(name);
    }
}

static void is_passed_on(size_t row, const struct given *g)
{
    struct body b = body(of_store);
    char want[300];
    args.store = g->store;
    args.store_file = g->store_file;
    plan.url = g->url;
    snprintf(page.store, sizeof page.store, "%s", g->in_use);
    set("SNIB_URL", g->env);
    set("SNIB_STORE_FILE", g->env_file);
    run(&b, 0);
    ended(0, 0);
    snprintf(want, sizeof want, "SNIB_URL=%s\nSNIB_STORE_FILE=%s\n",
             g->url_then ? g->url_then : "(none)",
             g->file_then ? g->file_then : "(none)");
    if (strcmp(run_of.text, want) != 0) {
        fail_msg("row %zu: %s, expected %s", row, run_of.text, want);
    }
}

/* Its own snib uses the same store. */
static void the_same_store_is_passed_on(void **state)
{
    static const struct given t[] = {
        /* this user's file: another user's is another */
        {.in_use = "file:/run/x", .url_then = "file:/run/x"},
        {.in_use = ""},
        {.in_use = "file:x"},       /* from here only */
        {.in_use = "file:/a\\x0A"}, /* as it is shown */
        {.env = "", .in_use = "file:/run/x", .url_then = "file:/run/x"},
        {.env_file = "",
         .in_use = "file:/run/x",
         .url_then = "file:/run/x",
         .file_then = ""},
        {.store = "file:",
         .url = "file:",
         .in_use = "file:/run/x",
         .url_then = "file:/run/x"},
        {.env = "FILE:",
         .url = "FILE:",
         .in_use = "file:/run/x",
         .url_then = "file:/run/x"},
        {.store = "file:", .url = "file:", .in_use = "", .url_then = "file:"},
        {.store = "file:/y",
         .url = "file:/y",
         .in_use = "file:/z",
         .url_then = "file:/y"},
        /* a server, as it was given */
        {.store = "redis://h",
         .url = "redis://h",
         .in_use = "redis://h:6379",
         .url_then = "redis://h"},
        {.store = "redis://h",
         .env_file = FILE_,
         .url = "redis://h",
         .in_use = "redis://h:6379",
         .url_then = "redis://h",
         .file_then = FILE_},
        {.env = "redis://h",
         .env_file = FILE_,
         .url = "redis://h",
         .in_use = "redis://h:6379",
         .url_then = "redis://h",
         .file_then = FILE_},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        is_passed_on(i, &t[i]);
    }
}

/* By the file that has it, or with *** in its place. */
static void no_password_is_passed_on(void **state)
{
    static const struct given t[] = {
        {.env = "redis://u:p@h",
         .url = "redis://u:p@h",
         .in_use = "redis://u:***@h",
         .url_then = "redis://u:***@h"},
        {.env = "redis://u:p@h",
         .env_file = FILE_,
         .url = "redis://u:p@h",
         .in_use = "redis://u:***@h",
         .url_then = "redis://u:***@h"},
        {.env_file = FILE_,
         .url = "redis://u:p@h",
         .in_use = "redis://u:***@h",
         .file_then = FILE_},
        {.env = "",
         .env_file = FILE_,
         .url = "redis://u:p@h",
         .in_use = "redis://u:***@h",
         .file_then = FILE_},
        {.env = "redis://u:***@h",
         .env_file = FILE_,
         .url = "redis://u:p@h",
         .in_use = "redis://u:***@h",
         .file_then = FILE_},
        {.store_file = "/etc/other",
         .env = "redis://x",
         .env_file = FILE_,
         .url = "redis://u:p@h",
         .in_use = "redis://u:***@h",
         .file_then = "/etc/other"},
        {.store_file = "other", /* from whichever directory */
         .url = "redis://h",
         .in_use = "redis://h:6379",
         .file_then = "/other"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        is_passed_on(i, &t[i]);
    }
}

/* snib's own statuses, and why: through the gate. */
static void a_command_that_cannot_begin_tells_why(void **state)
{
    static char missing[] = "/is/not/there", folder[] = "/";
    static char *none[] = {missing, NULL}, *no_program[] = {folder, NULL};
    struct body b = body(none);
    (void)state;
    run(&b, 0);
    ended(CLI_NOT_FOUND, ENOENT);
    plan.command = no_program;
    run(&b, 0);
    ended(CLI_NOT_EXECUTABLE, EACCES);
    assert_string_equal(run_of.text, "");
}

/* The supervisor has ended, before it opened the gate or just after the fork:
 * nothing is run. */
static void without_a_supervisor_nothing_is_run(void **state)
{
    struct body b = body(to_show);
    (void)state;
    run(&b, WITHOUT_GATE);
    assert_true(WIFEXITED(run_of.status));
    assert_int_equal(WEXITSTATUS(run_of.status), CLI_INTERNAL);
    assert_string_equal(run_of.text, "");
    run(&b, WITHOUT_PARENT);
    ended(CLI_INTERNAL, 0);
    assert_string_equal(run_of.text, "");
}

#define CASE(f) cmocka_unit_test_setup(f, without_store)

int main(void)
{
    const struct CMUnitTest commands[] = {
        CASE(one_name_is_told_as_it_is),
        CASE(several_names_are_parted_by_colons),
        CASE(without_a_slot_of_each_none_is_told),
        CASE(the_lease_is_a_descriptor_that_is_inherited),
        CASE(the_same_store_is_passed_on),
        CASE(no_password_is_passed_on),
        CASE(a_command_that_cannot_begin_tells_why),
        CASE(without_a_supervisor_nothing_is_run),
    };
    return RUN(commands);
}
