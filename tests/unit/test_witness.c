/* Who may have a witness (WITNESS_PROGRAM), and what is told to who gets none.
 *
 * not under ThreadSanitizer: it cannot follow the process that shares our memory
 * until its program runs (driver/spawn.c). */
#include "witness_client.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/registry.h"

/* -- who may have one ------------------------------------------------------- */

static void who_asks_for_none_has_none(void **state)
{
    struct snib_client_options o = options();
    (void)state;
    o.witness = false;
    struct snib_client *c = must_open(&o);
    assert_int_equal(snib_client_witness(c), SNIB_WITNESS_NONE);
    snib_client_free(c);
}

static void a_store_of_this_host_needs_none(void **state)
{
    struct snib_client_options o = options();
    (void)state;
    o.url = "memory:";
    struct snib_client *c = must_open(&o);
    assert_int_equal(snib_client_witness(c), SNIB_WITNESS_NEEDLESS);
    snib_client_free(c);
}

static void what_has_no_witness_says_so(void **state)
{
    struct snib_client_options o = options();
    (void)state;
    o.url = "postgres://a/b";
    is_refused(&o, SNIB_ERR_UNSUPPORTED,
               snib__store_find("postgres") ? "postgres: has no witness yet"
                                            : "there is no store");
}

static snib_err give_login(void *data, struct snib_login *login)
{
    (void)data;
    (void)login;
    return SNIB_ERR_OK;
}

static void a_function_that_gives_logins_has_no_witness(void **state)
{
    struct snib_client_options o = options();
    (void)state;
    o.url = "redis://127.0.0.1:1/";
    o.login = give_login;
    is_refused(&o, SNIB_ERR_UNSUPPORTED, "password_file");
}

static void what_outlives_the_process_is_not_watched(void **state)
{
    struct snib_client_options o = options();
    (void)state;
    o.leashed = true;
    is_refused(&o, SNIB_ERR_USAGE, "leashed");
    o.url = "memory:"; /* wrong anywhere */
    is_refused(&o, SNIB_ERR_USAGE, "leashed");
}

static void a_program_that_is_missing_is_named(void **state)
{
    struct snib_client_options o = options();
    (void)state;
    o.witness_program = "/nowhere/snib-witness";
    is_refused(&o, SNIB_ERR_CONFIG, "/nowhere/snib-witness");
    is_refused(&o, SNIB_ERR_CONFIG, "No such file");
    is_refused(&o, SNIB_ERR_CONFIG, "witness_program");
    o.witness_program = "/";
    is_refused(&o, SNIB_ERR_CONFIG, "Permission denied");
}

static void cannot_be_started(const char *path, const char *why)
{
    struct snib_client_options o = options();
    struct snib_client *c;
    struct snib_error e;
    char text[sizeof e.text];
    o.witness_program = path;
    assert_int_equal(snib_client_open(&o, &c, &e), SNIB_ERR_CONFIG);
    assert_null(c);
    snprintf(text, sizeof text, "the witness %s cannot be started: %s", path,
             why);
    assert_string_equal(e.text, text);
}

/* Only of one that is not there, or may not be run, it may be asked where it is. */
static void why_a_program_cannot_be_started_is_told(void **state)
{
    char path[] = "/tmp/snib-witness-XXXXXX";
    (void)state;
    cannot_be_started("/nowhere/snib-witness",
                      "No such file or directory; witness_program names it "
                      "where it is elsewhere");
    cannot_be_started("/", "Permission denied; witness_program names it where "
                           "it is elsewhere");
    cannot_be_started("/dev/null/snib-witness", "Not a directory");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "\1\2\3\4\n", 5), 5);
    assert_int_equal(fchmod(fd, 0700), 0);
    close(fd);
    cannot_be_started(path, "Exec format error");
    unlink(path);
}

static void another_program_is_no_witness(void **state)
{
    struct snib_client_options o = options();
    (void)state;
    o.witness_program = "/bin/true";
    is_refused(&o, SNIB_ERR_CONFIG, "ended before it was ready");
}

static bool runs(int pid)
{
    char path[40], line[10] = "";
    snprintf(path, sizeof path, "/proc/%d/cmdline",
             pid); /* a zombie has none */
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(line, 1, sizeof line, f) : 0;
    if (f) {
        fclose(f);
    }
    return n > 0;
}

/* Whoever named it would have a process for ever, with descriptors of his. */
static void a_program_that_says_something_else_is_ended(void **state)
{
    struct snib_client_options o = options();
    char path[] = "/tmp/snib-witness-XXXXXX", note[sizeof path + 4], text[400];
    int pid, has_100;
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    snprintf(note, sizeof note, "%s.pid", path);
    int size = snprintf(text, sizeof text,
                        "#!/bin/sh\n"
                        "test -e /proc/$$/fd/100; echo $$ $? >%s\n"
                        "printf x >&3\n"
                        "exec sleep 1000\n",
                        note);
    assert_int_equal(write(fd, text, (size_t)size), size);
    assert_int_equal(fchmod(fd, 0700), 0);
    close(fd);
    assert_int_equal(dup2(0, 100), 100); /* exec does not close it */
    o.witness_program = path;
    is_refused(&o, SNIB_ERR_CONFIG, "is no witness of this release");
    close(100);
    FILE *f = fopen(note, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d %d", &pid, &has_100), 2);
    fclose(f);
    assert_int_equal(has_100, 1);
    for (int i = 0; i < PATIENCE && runs(pid); i++) {
        usleep(1000);
    }
    assert_false(runs(pid));
    unlink(path);
    unlink(note);
}

static void nobody_else_can_use_the_program(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 2);
        dup2(null, 3); /* no socket */
        execl(WITNESS_PROGRAM, "snib-witness", NULL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 64);
}

static void a_url_that_is_too_long_is_refused(void **state)
{
    static char url[70000];
    struct snib_client_options o = options();
    (void)state;
    snprintf(url, sizeof url, "redis://u:");
    memset(url + strlen(url), 'p', 65000);
    memcpy(url + 65010, "@127.0.0.1:1", 13);
    struct snib_client *c;
    struct snib_error e;
    o.url = url;
    assert_int_equal(snib_client_open(&o, &c, &e), SNIB_ERR_USAGE);
}

/* -- limits ----------------------------------------------------------------------- */

static void too_few_descriptors_are_told(void **state)
{
    struct snib_client_options o = options();
    struct rlimit before, few;
    struct snib_client *c;
    struct snib_error e;
    bool while_it_starts = false;
    (void)state;
    getrlimit(RLIMIT_NOFILE, &before);
    for (rlim_t n = 3; n < 40; n++) {
        few = before;
        few.rlim_cur = n;
        setrlimit(RLIMIT_NOFILE, &few);
        snib_err err = snib_client_open(&o, &c, &e);
        setrlimit(RLIMIT_NOFILE, &before);
        if (!err) {
            snib_client_free(c);
            assert_true(n >= 13);
            assert_true(while_it_starts);
            return;
        }
        if (err != SNIB_ERR_LIMIT) {
            fail_msg("%d: %s: %s", (int)n, snib_err_name(err), e.text);
        }
        while_it_starts =
            while_it_starts ||
            strcmp(e.text, "no file descriptor is left to start the witness "
                           "with (ulimit -n, 13 at least)") == 0;
    }
    fail();
}

/* Who goes beyond that limit is ended by SIGXFSZ. To the byte it fits. */
static void a_limit_of_files_is_told(void **state)
{
    const size_t bytes = snib__registry_bytes(SNIB__REGISTRY_ENTRIES);
    struct snib_client_options o = options();
    struct rlimit before, small;
    struct snib_client *c;
    struct snib_error e;
    char text[sizeof e.text];
    (void)state;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = bytes - 1;
    setrlimit(RLIMIT_FSIZE, &small);
    snib_err err = snib_client_open(&o, &c, &e);
    small.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &small);
    assert_int_equal(err, SNIB_ERR_LIMIT);
    assert_null(c);
    snprintf(text, sizeof text,
             "what is shared with the witness has %zu bytes, and a file of "
             "this process may have %zu (ulimit -f); raise that limit",
             bytes, bytes - 1);
    assert_string_equal(e.text, text);
    err = snib_client_open(&o, &c, &e);
    setrlimit(RLIMIT_FSIZE, &before);
    if (err) {
        fail_msg("%s", e.text);
    }
    assert_int_equal(snib_client_witness(c), SNIB_WITNESS_WATCHES);
    snib_client_free(c);
}

static void memory_that_is_missing_is_told(void **state)
{
    struct snib_client_options o = options();
    struct snib_client *c;
    struct snib_error e;
    (void)state;
    for (int64_t n = 1; n < 1000; n++) {
        snib__mem_fail_at(n, false);
        snib_err err = snib_client_open(&o, &c, &e);
        snib__mem_fail_at(0, false);
        if (!err) {
            snib_client_free(c);
            return;
        }
        assert_int_equal(err, SNIB_ERR_NOMEM);
    }
    fail();
}

int main(void)
{
    const struct CMUnitTest may[] = {
        cmocka_unit_test(who_asks_for_none_has_none),
        cmocka_unit_test(a_store_of_this_host_needs_none),
        cmocka_unit_test(what_has_no_witness_says_so),
        cmocka_unit_test(a_function_that_gives_logins_has_no_witness),
        cmocka_unit_test(what_outlives_the_process_is_not_watched),
        cmocka_unit_test(a_program_that_is_missing_is_named),
        cmocka_unit_test(why_a_program_cannot_be_started_is_told),
        cmocka_unit_test(another_program_is_no_witness),
        cmocka_unit_test(a_program_that_says_something_else_is_ended),
        cmocka_unit_test(nobody_else_can_use_the_program),
        cmocka_unit_test(a_url_that_is_too_long_is_refused),
    };
    const struct CMUnitTest limits[] = {
        cmocka_unit_test(too_few_descriptors_are_told),
        cmocka_unit_test(a_limit_of_files_is_told),
        cmocka_unit_test(memory_that_is_missing_is_told),
    };
    return RUN(may) | RUN(limits);
}
