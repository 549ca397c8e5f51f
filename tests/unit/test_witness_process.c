/* A client's witness (WITNESS_PROGRAM) as a process: what it is made of, and when
 * it ends.
 *
 * not under ThreadSanitizer: it cannot follow the process that shares our memory
 * until its program runs (driver/spawn.c). */
#include "witness_client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include "snib/event.h"

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

/* What only root may do, in a child. */
static void as_root(bool (*may)(void), bool (*works)(void))
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        _exit(!may() ? 77 : works() ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("skipped: needs root to make a namespace\n");
        skip();
    }
    assert_int_equal(status, 0);
}

static bool hides_dev(void)
{
    return !unshare(CLONE_NEWNS) &&
           !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
           !mount("none", "/dev", "tmpfs", 0, NULL);
}

/* Who reads what the program prints would wait for the witness. */
static bool output_is_the_programs_alone(void)
{
    struct snib_client_options o = options();
    struct snib_client *c;
    int ends[2];
    if (pipe(ends) || dup2(ends[1], 1) != 1 || close(ends[1]) ||
        snib_client_open(&o, &c, NULL)) {
        return false;
    }
    struct pollfd p = {.fd = ends[0]};
    close(1);
    bool alone = poll(&p, 1, 1000) == 1 && p.revents & POLLHUP;
    snib_client_free(c);
    return alone;
}

static bool has_all(void)
{
    return true;
}

static void it_keeps_no_output_open(void **state)
{
    (void)state;
    as_root(has_all, output_is_the_programs_alone);
    as_root(hides_dev, output_is_the_programs_alone);
}

static bool unshares_numbers(void)
{
    return !unshare(CLONE_NEWPID);
}

/* The first process that is made there ends all others with its end. */
static bool no_witness_is_made_there(void)
{
    struct snib_client_options o = options();
    struct snib_client *c;
    struct snib_error e;
    int status;
    bool refused = snib_client_open(&o, &c, &e) == SNIB_ERR_UNSUPPORTED &&
                   strstr(e.text, "another PID namespace");
    pid_t pid = fork(); /* it is still to be had */
    if (!pid) {
        _exit(getpid() != 1);
    }
    return refused && pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

static void who_starts_processes_elsewhere_has_none(void **state)
{
    (void)state;
    as_root(unshares_numbers, no_witness_is_made_there);
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

int main(void)
{
    const struct CMUnitTest is[] = {
        cmocka_unit_test(the_program_has_no_child_by_it),
        cmocka_unit_test(no_password_stands_in_the_list_of_processes),
        cmocka_unit_test(it_keeps_no_descriptor_of_the_program),
        cmocka_unit_test(it_keeps_no_output_open),
        cmocka_unit_test(who_starts_processes_elsewhere_has_none),
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
    return RUN(is) | RUN(ends);
}
