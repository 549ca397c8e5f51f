/* A client and its witness as processes: who may have one, what the witness is
 * made of, when it ends. There is no server: that is asked only when something is
 * to be ended (tests/live/test_witness.py).
 *
 * not under ThreadSanitizer: it cannot follow the process that shares our memory
 * until its program runs (driver/spawn.c). */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/api.h"
#include "driver/driver.h"
#include "snib/event.h"

/* Nobody listens there. */
#define URL      "redis://anna:hidden@127.0.0.1:1/"
#define PATIENCE 20000

static int logged; /* lines of the witness's end */

static void on_log(void *data, int level, const char *line)
{
    (void)data;
    if (strstr(line, "the witness has ended")) {
        assert_int_equal(level, SNIB_LOG_WARN);
        __atomic_add_fetch(&logged, 1, __ATOMIC_SEQ_CST);
    }
}

static struct snib_client_options options(void)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    o.url = URL;
    o.witness = true;
    o.witness_program = WITNESS_PROGRAM;
    o.request_ms = 50;
    o.log = on_log;
    return o;
}

static struct snib_client *must_open(const struct snib_client_options *o)
{
    struct snib_client *c;
    struct snib_error e;
    if (snib_client_open(o, &c, &e)) {
        fail_msg("%s", e.text);
    }
    return c;
}

static void is_refused(const struct snib_client_options *o, snib_err err,
                       const char *word)
{
    struct snib_client *c;
    struct snib_error e;
    assert_int_equal(snib_client_open(o, &c, &e), err);
    assert_null(c);
    if (!strstr(e.text, word)) {
        fail_msg("\"%s\" does not say \"%s\"", e.text, word);
    }
    assert_null(strstr(e.text, "hidden"));
}

/* Of a pidfd; -1: it is over. */
static pid_t pid_of(int pidfd)
{
    char path[64], line[128];
    pid_t pid = -1;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (!strncmp(line, "Pid:", 4)) {
            pid = atoi(line + 4);
        }
    }
    fclose(f);
    return pid;
}

static pid_t witness_of(const struct snib_client *c)
{
    pid_t pid = pid_of(c->witness.over);
    assert_true(pid > 1);
    return pid;
}

static bool ends_within(int pidfd, int ms)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

/* "Key:" of /proc/PID/status, as a hexadecimal number. */
static uint64_t mask_of(pid_t pid, const char *key)
{
    char path[64], line[256];
    uint64_t mask = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (!strncmp(line, key, strlen(key))) {
            mask = strtoull(line + strlen(key), NULL, 16);
            found = true;
        }
    }
    fclose(f);
    assert_true(found);
    return mask;
}

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
    o.witness_program = "/";
    is_refused(&o, SNIB_ERR_CONFIG, "Permission denied");
}

static void another_program_is_no_witness(void **state)
{
    struct snib_client_options o = options();
    (void)state;
    o.witness_program = "/bin/true";
    is_refused(&o, SNIB_ERR_CONFIG, "ended before it was ready");
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

/* -- what it is made of ------------------------------------------------------ */

static int children; /* SIGCHLD */

static void on_child(int sig)
{
    (void)sig;
    children++;
}

static void the_program_has_no_child_by_it(void **state)
{
    struct snib_client_options o = options();
    (void)state;
    children = 0;
    signal(SIGCHLD, on_child);
    struct snib_client *c = must_open(&o);
    assert_int_equal(snib_client_witness(c), SNIB_WITNESS_WATCHES);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    pid_t pid = witness_of(c);
    assert_int_not_equal(getsid(pid), getsid(0));
    assert_int_equal(getsid(pid), pid);
    snib_client_free(c);
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(children, 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
    assert_int_equal(errno, ECHILD);
}

static void no_password_stands_in_the_list_of_processes(void **state)
{
    char path[64], text[4096];
    struct snib_client_options o = options();
    (void)state;
    struct snib_client *c = must_open(&o);
    snprintf(path, sizeof path, "/proc/%d/cmdline", witness_of(c));
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    assert_true(n > 13);
    assert_null(memmem(text, n, "hidden", 6));
    assert_string_equal(text, "snib-witness");
    assert_int_equal(atoi(text + 13), getpid());
    snib_client_free(c);
}

static void it_keeps_no_descriptor_of_the_program(void **state)
{
    char path[64], file[300], to[300];
    struct snib_client_options o = options();
    struct dirent *entry;
    (void)state;
    int mine = open("/proc/self/status", O_RDONLY); /* without O_CLOEXEC */
    assert_true(mine > 2);
    assert_int_equal(dup2(mine, 100), 100);
    struct snib_client *c = must_open(&o);
    snprintf(path, sizeof path, "/proc/%d/fd", witness_of(c));
    DIR *d = opendir(path);
    assert_non_null(d);
    while ((entry = readdir(d))) {
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        ssize_t n = readlink(file, to, sizeof to - 1);
        if (n < 0) {
            continue; /* . and .. */
        }
        to[n] = 0;
        if (strcmp(to, "/dev/null") && strncmp(to, "socket:", 7) &&
            strcmp(to, "anon_inode:[pidfd]")) {
            fail_msg("%s is %s", file, to);
        }
    }
    closedir(d);
    close(mine);
    close(100);
    snib_client_free(c);
}

static void its_signals_are_its_own(void **state)
{
    struct snib_client_options o = options();
    sigset_t some, before;
    uint64_t deaf = 0;
    (void)state;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    sigaddset(&some, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &some, &before);
    signal(SIGUSR1, SIG_IGN);
    struct snib_client *c = must_open(&o);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    signal(SIGUSR1, SIG_DFL);
    pid_t pid = witness_of(c);
    for (int i = 0; i < 5; i++) {
        deaf |= UINT64_C(1) << ((const int[]){SIGTERM, SIGINT, SIGHUP, SIGQUIT,
                                              SIGPIPE}[i] -
                                1);
    }
    assert_int_equal(mask_of(pid, "SigBlk:"), 0);
    assert_int_equal(mask_of(pid, "SigIgn:"), deaf);
    kill(pid, SIGTERM);
    assert_false(ends_within(c->witness.over, 20));
    snib_client_free(c);
}

/* -- when it ends -------------------------------------------------------------- */

static void it_ends_with_its_client(void **state)
{
    struct snib_client_options o = options();
    (void)state;
    struct snib_client *c = must_open(&o);
    int over = dup(c->witness.over);
    snib_client_free(c);
    assert_true(ends_within(over, PATIENCE));
    close(over);
}

static void clients_have_a_witness_each(void **state)
{
    struct snib_client_options o = options();
    (void)state;
    struct snib_client *one = must_open(&o), *two = must_open(&o);
    assert_int_not_equal(witness_of(one), witness_of(two));
    snib_client_free(one);
    assert_int_equal(snib_client_witness(two), SNIB_WITNESS_WATCHES);
    assert_false(ends_within(two->witness.over, 20));
    snib_client_free(two);
}

static void a_forked_child_is_not_the_client(void **state)
{
    struct snib_client_options o = options();
    (void)state;
    struct snib_client *c = must_open(&o);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        char line[600];
        bool bad = snib_client_witness(c) != SNIB_WITNESS_NONE;
        FILE *f = fopen("/proc/self/maps", "re");
        while (fgets(line, sizeof line, f)) {
            bad = bad || strstr(line, "snib-registry");
        }
        fclose(f);
        snib_client_free(c);
        _exit(bad);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(c->witness.registry->closed, 0);
    assert_false(ends_within(c->witness.over, 20));
    assert_int_equal(snib_client_witness(c), SNIB_WITNESS_WATCHES);
    snib_client_free(c);
}

static void it_is_told_that_it_was_killed(void **state)
{
    struct snib_client_options o = options();
    (void)state;
    logged = 0;
    struct snib_client *c = must_open(&o);
    kill(witness_of(c), SIGKILL);
    assert_true(ends_within(c->witness.over, PATIENCE));
    assert_int_equal(snib_client_witness(c), SNIB_WITNESS_ENDED);
    assert_int_equal(snib_client_witness(c), SNIB_WITNESS_ENDED);
    assert_int_equal(logged, 1);
    snib_client_free(c);
}

static void the_background_thread_notices_it(void **state)
{
    struct snib_client_options o = options();
    struct snib_lock *l;
    struct snib_grant g;
    (void)state;
    logged = 0;
    struct snib_client *c = must_open(&o);
    assert_int_equal(snib_lock_new(c, "n", NULL, &l, NULL), SNIB_ERR_OK);
    assert_int_not_equal(snib_try(l, NULL, &g, NULL), SNIB_ERR_OK);
    kill(witness_of(c), SIGKILL);
    for (int ms = 0; !__atomic_load_n(&logged, __ATOMIC_SEQ_CST); ms++) {
        assert_true(ms < PATIENCE);
        poll(NULL, 0, 1);
    }
    assert_int_equal(snib_client_witness(c), SNIB_WITNESS_ENDED);
    assert_int_equal(logged, 1);
    snib_client_free(c);
}

static void an_event_loop_notices_it(void **state)
{
    struct snib_client_options o = options();
    (void)state;
    logged = 0;
    o.pull = true;
    struct snib_client *c = must_open(&o);
    struct pollfd p = {.fd = snib_client_fd(c), .events = POLLIN};
    assert_true(p.fd >= 0);
    assert_int_equal(poll(&p, 1, 0), 0);
    kill(witness_of(c), SIGKILL);
    assert_int_equal(poll(&p, 1, PATIENCE), 1);
    assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
    assert_int_equal(logged, 1);
    assert_int_equal(poll(&p, 1, 0), 0);
    snib_client_free(c);
}

/* It sees that at once, and that there is nothing to end. */
static void it_ends_with_a_process_that_frees_nothing(void **state)
{
    struct snib_client_options o = options();
    int pids[2];
    pid_t witness = 0;
    (void)state;
    assert_int_equal(pipe(pids), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        struct snib_client *c = must_open(&o);
        witness = witness_of(c);
        (void)!write(pids[1], &witness, sizeof witness);
        pause();
    }
    assert_int_equal(read(pids[0], &witness, sizeof witness), sizeof witness);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    for (int ms = 0; !kill(witness, 0); ms++) {
        assert_true(ms < PATIENCE);
        poll(NULL, 0, 1);
    }
    close(pids[0]);
    close(pids[1]);
}

/* -- limits ----------------------------------------------------------------------- */

static void too_little_address_space_is_told(void **state)
{
    struct snib_client_options o = options();
    struct rlimit before, few;
    struct snib_client *c;
    struct snib_error e;
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
            return;
        }
        assert_true(err == SNIB_ERR_LIMIT || err == SNIB_ERR_CONFIG ||
                    err == SNIB_ERR_UNSUPPORTED);
    }
    fail();
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
        cmocka_unit_test(another_program_is_no_witness),
        cmocka_unit_test(nobody_else_can_use_the_program),
        cmocka_unit_test(a_url_that_is_too_long_is_refused),
    };
    const struct CMUnitTest is[] = {
        cmocka_unit_test(the_program_has_no_child_by_it),
        cmocka_unit_test(no_password_stands_in_the_list_of_processes),
        cmocka_unit_test(it_keeps_no_descriptor_of_the_program),
        cmocka_unit_test(its_signals_are_its_own),
    };
    const struct CMUnitTest ends[] = {
        cmocka_unit_test(it_ends_with_its_client),
        cmocka_unit_test(clients_have_a_witness_each),
        cmocka_unit_test(a_forked_child_is_not_the_client),
        cmocka_unit_test(it_is_told_that_it_was_killed),
        cmocka_unit_test(the_background_thread_notices_it),
        cmocka_unit_test(an_event_loop_notices_it),
        cmocka_unit_test(it_ends_with_a_process_that_frees_nothing),
    };
    const struct CMUnitTest limits[] = {
        cmocka_unit_test(too_little_address_space_is_told),
        cmocka_unit_test(memory_that_is_missing_is_told),
    };
    return RUN(may) | RUN(is) | RUN(ends) | RUN(limits);
}
