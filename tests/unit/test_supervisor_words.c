/* cli/supervisor/supervisor_words.c, cli/supervisor/statusline.h: each line that `snib run` says, and the
 * line of --status-fd, word by word. wraps: clock_gettime */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/supervisor/statusline.h"
#include "cli/supervisor/supervisor_i.h"

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

static int64_t now_ns;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    (void)clock;
    *ret = (struct timespec){.tv_sec = (time_t)(now_ns / SUPERVISOR_S),
                             .tv_nsec = (long)(now_ns % SUPERVISOR_S)};
    return 0;
}

/* -- what was written ------------------------------------------------------------ */

static int stderr_was, sheet, status_sheet;

static int catch_words(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    stderr_was = dup(2);
    sheet = memfd_create("stderr", MFD_CLOEXEC);
    status_sheet = memfd_create("status", MFD_CLOEXEC);
    return dup2(sheet, 2) == 2 && status_sheet >= 0 ? 0 : -1;
}

static int let_words_go(void **state)
{
    (void)state;
    dup2(stderr_was, 2);
    close(stderr_was);
    close(sheet);
    close(status_sheet);
    return 0;
}

/* And it is empty again. */
static const char *written_to(int fd)
{
    static char text[4096];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    assert_int_equal(ftruncate(fd, 0), 0);
    lseek(fd, 0, SEEK_SET);
    return text;
}

static void is_row(size_t row, const char *got, const char *want)
{
    char is[4200], due[4200];
    snprintf(is, sizeof is, "row %zu: %s", row, got);
    snprintf(due, sizeof due, "row %zu: %s", row, want);
    assert_string_equal(is, due);
}

/* -- a supervisor ---------------------------------------------------------------- */

static struct cli_args args;
static struct plan plan;
static struct plan_page page;
static const char *names[] = {"n\x01", "m"};

static struct body supervisor(size_t name_count)
{
    args = (struct cli_args){.busy_exit = -1, .status_fd = -1};
    plan =
        (struct plan){.args = &args, .names = names, .name_count = name_count};
    page = (struct plan_page){0};
    return (struct body){
        .plan = &plan, .page = &page, .holder = 4711, .status = -1};
}

/* -- stderr ---------------------------------------------------------------------- */

struct line {
    const char *words, *lost_text, *risk_text;
    unsigned todo;
    enum supervisor_why lost_why;
    enum supervisor_on_lost on_lost;
    bool quiet, busy_ok, several, ended;
};

static void is_said(size_t row, const struct line *l)
{
    struct body b = supervisor(l->several ? 2 : 1);
    args.quiet = l->quiet;
    args.busy_ok = l->busy_ok;
    b.supervisor.lost_why = l->lost_why;
    b.supervisor.rules.on_lost = l->on_lost;
    b.supervisor.ended = l->ended;
    snprintf(b.lost_text, sizeof b.lost_text, "%s",
             l->lost_text ? l->lost_text : "");
    snprintf(b.risk_text, sizeof b.risk_text, "%s",
             l->risk_text ? l->risk_text : "");
    supervisor_speak(&b, l->todo);
    is_row(row, written_to(sheet), l->words);
}

#define STOPPED "; the command is stopped\n"

static void a_loss_is_told_with_its_cause(void **state)
{
    (void)state;
    static const struct line t[] = {
        {"snib: n\\x01: lock lost (expired)" STOPPED,
         .lost_why = SUPERVISOR_CAUSE_EXPIRED},
        {"snib: n\\x01: lock lost (stolen)" STOPPED,
         .lost_why = SUPERVISOR_CAUSE_STOLEN},
        {"snib: n\\x01: lock lost (paused)" STOPPED,
         .lost_why = SUPERVISOR_CAUSE_PAUSED},
        {"snib: n\\x01: lock lost (revoked)" STOPPED,
         .lost_why = SUPERVISOR_CAUSE_REVOKED},
        {"snib: n\\x01: lock lost (the holder process died)" STOPPED,
         .lost_why = SUPERVISOR_CAUSE_HOLDER},
        {"snib: n\\x01: lock lost (unreachable)" STOPPED,
         .lost_why = SUPERVISOR_CAUSE_UNREACHABLE},
        {"snib: n\\x01: lock lost (unreachable: gone\\x0A)" STOPPED,
         .lost_why = SUPERVISOR_CAUSE_UNREACHABLE, .risk_text = "gone\n"},
        {"snib: n\\x01: lock lost (expired)" STOPPED,
         .lost_why = SUPERVISOR_CAUSE_EXPIRED, .risk_text = "gone"},
        {"snib: n\\x01: lock lost (revoked by a on h: \\x1B)" STOPPED,
         .lost_why = SUPERVISOR_CAUSE_UNREACHABLE,
         .lost_text = "revoked by a on h: \x1b", .risk_text = "gone"},
        {"snib: n\\x01: lock lost (expired)\n",
         .lost_why = SUPERVISOR_CAUSE_EXPIRED, .ended = true},
        {"snib: n\\x01: lock lost (expired)\n",
         .lost_why = SUPERVISOR_CAUSE_EXPIRED,
         .on_lost = SUPERVISOR_LOST_SIGNAL},
        {"snib: n\\x01: lock lost (expired)\n",
         .lost_why = SUPERVISOR_CAUSE_EXPIRED,
         .on_lost = SUPERVISOR_LOST_IGNORE},
        {"snib: n\\x01: lock lost (expired)" STOPPED,
         .lost_why = SUPERVISOR_CAUSE_EXPIRED, .quiet = true, .several = true},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct line l = t[i];
        l.todo = SUPERVISOR_SAY_LOST | SUPERVISOR_DO_KILL;
        is_said(i, &l);
    }
}

static void each_other_word_has_its_line(void **state)
{
    (void)state;
    static const struct line t[] = {
        {"snib: n\\x01: the holder process, which talks to the store, "
         "died while it waited for the lock; nothing ran\n",
         .todo = SUPERVISOR_SAY_HOLDER},
        {"snib: n\\x01: not acquired within the wait limit (the holder process "
         "4711, which talks to the store, did not answer)\n",
         .todo = SUPERVISOR_SAY_LIMIT},
        {"snib: the locks were not acquired within the wait limit (the "
         "holder process 4711, which talks to the store, did not answer)\n",
         .todo = SUPERVISOR_SAY_LIMIT, .several = true},
        {"", .todo = SUPERVISOR_SAY_LIMIT, .busy_ok = true},
        {"snib: n\\x01: --max-run is over; the command is stopped\n",
         .todo = SUPERVISOR_SAY_MAX_RUN},
        {"snib: n\\x01: at risk (a renewal failed); the lease still runs\n",
         .todo = SUPERVISOR_SAY_RISK},
        {"snib: n\\x01: at risk (refused\\x0A); the lease still runs\n",
         .todo = SUPERVISOR_SAY_RISK, .risk_text = "refused\n",
         .lost_text = "not this"},
        {"snib: n\\x01: at risk (x); the lease still runs\n",
         .todo = SUPERVISOR_SAY_RISK, .risk_text = "x"},
        {"snib: n\\x01: the command left processes behind; they are stopped "
         "before the lock is released\n",
         .todo = SUPERVISOR_SAY_LEFT},
        {"snib: n\\x01: the release was not confirmed; the lock is free when "
         "its lease ends\n",
         .todo = SUPERVISOR_SAY_UNRELEASED},
        {"snib: n\\x01: lock lost (expired)\n"
         "snib: n\\x01: the command left processes behind; they are stopped "
         "before the lock is released\n",
         .todo = SUPERVISOR_SAY_LOST | SUPERVISOR_SAY_LEFT,
         .lost_why = SUPERVISOR_CAUSE_EXPIRED, .ended = true},
        {"", .todo = SUPERVISOR_DO_START | SUPERVISOR_DO_TERM |
                     SUPERVISOR_DO_KILL | SUPERVISOR_DO_SIGNAL |
                     SUPERVISOR_DO_EOF | SUPERVISOR_DO_LEAVE |
                     SUPERVISOR_DO_RELEASE | SUPERVISOR_DO_EXIT |
                     SUPERVISOR_DO_REFUSE},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        is_said(i, &t[i]);
    }
}

/* --quiet leaves out what does not change how it ends. */
static void who_is_quiet_hears_why_it_ended_and_no_more(void **state)
{
    (void)state;
    static const struct {
        unsigned todo;
        bool said;
    } t[] = {{SUPERVISOR_SAY_HOLDER, true},     {SUPERVISOR_SAY_LIMIT, true},
             {SUPERVISOR_SAY_LOST, true},       {SUPERVISOR_SAY_MAX_RUN, true},
             {SUPERVISOR_SAY_RISK, false},      {SUPERVISOR_SAY_LEFT, false},
             {SUPERVISOR_SAY_UNRELEASED, false}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct body b = supervisor(1);
        args.quiet = true;
        supervisor_speak(&b, t[i].todo);
        assert_int_equal(written_to(sheet)[0] != '\0', t[i].said);
    }
}

static void a_command_that_cannot_begin_is_told_why(void **state)
{
    (void)state;
    static const struct {
        const char *words, *script;
        int error;
        bool dashes;
    } t[] = {
        {"snib: no\\x0A: No such file or directory (without a --, the command "
         "begins behind the first name)\n",
         NULL, ENOENT, false},
        {"snib: no\\x0A: No such file or directory\n", NULL, ENOENT, true},
        {"snib: no\\x0A: Permission denied\n", "no\n", EACCES, false},
    };
    static char word[] = "no\n";
    static char *command[] = {word, NULL};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct body b = supervisor(1);
        plan.command = command;
        args.script = t[i].script;
        args.has_dashes = t[i].dashes;
        supervisor_say_not_begun(&b, t[i].error);
        is_row(i, written_to(sheet), t[i].words);
    }
}

/* -- exit status ------------------------------------------------------------------- */

static void
a_lock_that_is_not_to_be_had_has_the_status_that_was_asked_for(void **state)
{
    (void)state;
    static const struct {
        int exit, status;
        int64_t busy_exit;
        bool by_command, busy_ok;
    } t[] = {
        {75, 75, -1, false, false}, {75, 0, -1, false, true},
        {75, 9, 9, false, false},   {75, 0, 0, false, false},
        {75, 75, 9, true, false},   {75, 75, -1, true, true},
        {76, 76, 9, false, false},  {76, 76, -1, false, true},
        {69, 69, 9, false, false},  {0, 0, 9, true, false},
        {3, 3, 9, true, false},     {130, 130, 9, false, false},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct body b = supervisor(1);
        args.busy_exit = t[i].busy_exit;
        args.busy_ok = t[i].busy_ok;
        b.supervisor.exit = t[i].exit;
        b.supervisor.by_command = t[i].by_command;
        assert_int_equal(supervisor_exit_status(&b), t[i].status);
    }
}

/* -- the line of --status-fd, and --verbose ------------------------------------------ */

static void each_cause_has_its_word(void **state)
{
    (void)state;
    static const char *const words[] = {
        "exited",      "signalled",   "expired",   "stolen",
        "forgotten",   "unreachable", "paused",    "revoked",
        "keeper-died", "busy",        "timeout",   "deadlock",
        "interrupted", "max-run",     "not-found", "not-executable",
        "denied",      "store",       "config",    "usage",
        "internal"};
    assert_int_equal(COUNT_OF(words), SUPERVISOR_CAUSE_INTERNAL + 1);
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        char line[200], verbose[200];
        struct body b = supervisor(1);
        b.status = status_sheet;
        args.verbose = true;
        b.supervisor.why = (enum supervisor_why)i;
        b.supervisor.by_command = i < 2;
        b.supervisor.ran = i != 8;
        page.tokens[0] = i == 8 ? 0 : INT64_C(9007199254740991);
        now_ns = b.supervisor.started = b.supervisor.granted = SUPERVISOR_S;
        supervisor_report(&b, (int)i);
        snprintf(line, sizeof line,
                 "{\"by\":\"%s\",\"exit\":%zu,\"cause\":\"%s\",\"ran\":%s,"
                 "\"token\":%s,\"waited_ms\":0,\"held_ms\":0}\n",
                 i < 2 ? "command" : "snib", i, words[i],
                 i != 8 ? "true" : "false",
                 i != 8 ? "9007199254740991" : "null");
        is_row(i, written_to(status_sheet), line);
        snprintf(verbose, sizeof verbose,
                 "snib: n\\x01: exit %zu by %s (%s), %s, waited 0ms, held "
                 "0ms\n",
                 i, i < 2 ? "command" : "snib", words[i],
                 i != 8 ? "token 9007199254740991" : "no token");
        is_row(i, written_to(sheet), verbose);
    }
}

/* Whole milliseconds, none below 0: the clock of who reports may have been read
 * before the clock of who granted. */
static void waits_and_holds_are_told_in_milliseconds(void **state)
{
    (void)state;
    static const struct {
        int64_t started, granted, now; /* ns */
        const char *waited, *held;
    } t[] = {
        {SUPERVISOR_S, SUPERVISOR_S, SUPERVISOR_S, "0", "0"},
        {SUPERVISOR_S, SUPERVISOR_S + 999999, SUPERVISOR_S + 2 * 999999, "0",
         "0"},
        {SUPERVISOR_S, SUPERVISOR_S + SUPERVISOR_MS,
         SUPERVISOR_S + 3 * SUPERVISOR_MS, "1", "2"},
        {SUPERVISOR_S, SUPERVISOR_S + 999 * SUPERVISOR_MS, 2 * SUPERVISOR_S,
         "999", "1"},
        {SUPERVISOR_S, 2 * SUPERVISOR_S, 3 * SUPERVISOR_S - 1, "1000", "999"},
        {SUPERVISOR_S, SUPERVISOR_S, SUPERVISOR_S + 59900 * SUPERVISOR_MS, "0",
         "59900"},
        {SUPERVISOR_S, 3601 * SUPERVISOR_S, 90001 * SUPERVISOR_S, "3600000",
         "86400000"},
        {3 * SUPERVISOR_S, 2 * SUPERVISOR_S, SUPERVISOR_S, "0", "0"},
        {SUPERVISOR_S, 0, 5 * SUPERVISOR_S, "4000", "0"}, /* never granted */
        {0, 0, 5 * SUPERVISOR_S, "0", "0"},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char line[200], verbose[200];
        struct body b = supervisor(1);
        b.status = status_sheet;
        args.verbose = true;
        b.supervisor.started = t[i].started;
        b.supervisor.granted = t[i].granted;
        b.supervisor.deadline = SUPERVISOR_NEVER;
        now_ns = t[i].now;
        supervisor_report(&b, 0);
        snprintf(line, sizeof line,
                 "{\"by\":\"snib\",\"exit\":0,\"cause\":\"exited\",\"ran\":"
                 "false,\"token\":null,\"waited_ms\":%s,\"held_ms\":%s}\n",
                 t[i].waited, t[i].held);
        is_row(i, written_to(status_sheet), line);
        snprintf(verbose, sizeof verbose,
                 "snib: n\\x01: exit 0 by snib (exited), no token, waited "
                 "%sms, held %sms\n",
                 t[i].waited, t[i].held);
        is_row(i, written_to(sheet), verbose);
    }
}

static void a_line_that_cannot_be_written_is_told(void **state)
{
    (void)state;
    struct body b = supervisor(1);
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    b.status = ends[1];
    args.status_fd = 7;
    while (write(ends[1], "x", 1) == 1) {
    }
    supervisor_report(&b, 0);
    assert_string_equal(written_to(sheet),
                        "snib: --status-fd 7: the line could not be written: "
                        "Resource temporarily unavailable\n");
    close(ends[0]);
    supervisor_report(&b, 0);
    assert_string_equal(written_to(sheet),
                        "snib: --status-fd 7: the line could not be written: "
                        "Broken pipe\n");
    close(ends[1]);
    b.status = -1; /* not wanted */
    supervisor_report(&b, 0);
    assert_string_equal(written_to(sheet), "");
}

/* Each in a process of its own: there is one line. */
static void refuse(int first, int second)
{
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        statusline_write_refused(-1, first);
        statusline_write_refused(status_sheet, first);
        statusline_write_refused(status_sheet, second);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void what_was_not_even_begun_has_one_line(void **state)
{
    (void)state;
    static const struct {
        int exit;
        const char *cause;
    } t[] = {{64, "usage"}, {78, "config"}, {70, "internal"}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char line[200];
        refuse(t[i].exit, 70);
        snprintf(line, sizeof line,
                 "{\"by\":\"snib\",\"exit\":%d,\"cause\":\"%s\",\"ran\":false,"
                 "\"token\":null,\"waited_ms\":0,\"held_ms\":0}\n",
                 t[i].exit, t[i].cause);
        is_row(i, written_to(status_sheet), line);
    }
}

/* However long the release was tried after it. */
static void nothing_is_held_beyond_the_deadline(void **state)
{
    (void)state;
    struct body b = supervisor(1);
    b.status = status_sheet;
    b.supervisor.started = b.supervisor.granted = SUPERVISOR_S;
    b.supervisor.deadline = 3 * SUPERVISOR_S;
    now_ns = 9 * SUPERVISOR_S;
    supervisor_report(&b, 0);
    assert_non_null(strstr(written_to(status_sheet), "\"held_ms\":2000}"));
}

/* In a process of its own, which has it under the number `fd`: is the copy one
 * that no command inherits, and does the command inherit that number? */
static int kept(int fd)
{
    struct body b = supervisor(1);
    if (dup2(fcntl(status_sheet, F_DUPFD, 10), fd) != fd) {
        return 99;
    }
    supervisor_keep_status_fd(&b, fd);
    return (b.status > 2 && b.status != fd ? 0 : 1) |
           (fcntl(b.status, F_GETFD) == FD_CLOEXEC ? 0 : 2) |
           (fcntl(fd, F_GETFD) == FD_CLOEXEC ? 4 : 0);
}

/* The first three are its streams, and stay. */
static void a_command_inherits_a_status_only_as_its_stream(void **state)
{
    (void)state;
    struct body b = supervisor(1);
    int status;
    for (int fd = 0; fd <= 4; fd++) {
        pid_t pid = fork();
        if (pid == 0) {
            _exit(kept(fd));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, (fd > 2 ? 4 : 0) << 8);
    }
    supervisor_keep_status_fd(&b, -1);
    assert_int_equal(b.status, -1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, catch_words, let_words_go)

int main(void)
{
    const struct CMUnitTest supervisor_words[] = {
        CASE(what_was_not_even_begun_has_one_line), /* before any other line */
        CASE(a_loss_is_told_with_its_cause),
        CASE(each_other_word_has_its_line),
        CASE(who_is_quiet_hears_why_it_ended_and_no_more),
        CASE(a_command_that_cannot_begin_is_told_why),
        CASE(a_lock_that_is_not_to_be_had_has_the_status_that_was_asked_for),
        CASE(each_cause_has_its_word),
        CASE(waits_and_holds_are_told_in_milliseconds),
        CASE(nothing_is_held_beyond_the_deadline),
        CASE(a_line_that_cannot_be_written_is_told),
        CASE(a_command_inherits_a_status_only_as_its_stream),
    };
    return RUN(supervisor_words);
}
