/* rows.h — every option of snib, once. main.c makes each sub-command's table
 * from these rows; --help is printed from them, and the manual pages are
 * compared with them by a test. */
#ifndef SNIB_CLI_ROWS_H
#define SNIB_CLI_ROWS_H

#include "cli/cli.h"
#include "cli/words/duration.h"

#define ROW_FIELD_(field) offsetof(struct cli_args, field)
#define ROW_FLAG_(letter, name, field, help)                                   \
    {                                                                          \
        letter, name, NULL, OPTION_FLAG, ROW_FIELD_(field), 0, 0, help, NULL   \
    }
#define ROW_TEXT_(letter, name, arg, field, help)                              \
    {                                                                          \
        letter, name, arg, OPTION_TEXT, ROW_FIELD_(field), 0, 0, help, NULL    \
    }
#define ROW_TIME_ENV_(letter, name, arg, field, allowed, help, env)            \
    {                                                                          \
        letter, name, arg, OPTION_DURATION, ROW_FIELD_(field), allowed, 0,     \
            help, env                                                          \
    }
#define ROW_TIME_(letter, name, arg, field, allowed, help)                     \
    ROW_TIME_ENV_(letter, name, arg, field, allowed, help, NULL)
#define ROW_NUMBER_(letter, name, arg, field, most, help)                      \
    {                                                                          \
        letter, name, arg, OPTION_NUMBER, ROW_FIELD_(field), 0, most, help,    \
            NULL                                                               \
    }
/* 0 is refused later, with a text that says why. */
#define ROW_COUNT_(letter, name, arg, field, most, help)                       \
    {                                                                          \
        letter, name, arg, OPTION_NUMBER, ROW_FIELD_(field), 1, most, help,    \
            NULL                                                               \
    }

#define ROW_END                                                                \
    {                                                                          \
        0, NULL, NULL, OPTION_FLAG, 0, 0, 0, NULL, NULL                        \
    }

#define ROW_STORE                                                              \
    ROW_TEXT_('s', "store", "URL", store,                                      \
              "the store, without a password; default: SNIB_URL, else this "   \
              "host's own file")
#define ROW_STORE_FILE                                                         \
    ROW_TEXT_(0, "store-file", "PATH", store_file,                             \
              "read the URL from the first line of PATH, which nobody else "   \
              "may read")
#define ROW_QUIET ROW_FLAG_('q', "quiet", quiet, "say only what went wrong")
#define ROW_VERBOSE                                                            \
    ROW_FLAG_('v', "verbose", verbose, "say what is done, and in which store")
#define ROW_NO_PROGRESS                                                        \
    ROW_FLAG_(0, "no-progress", no_progress, "no line while waiting")
#define ROW_JSON ROW_FLAG_(0, "json", json, "print JSON")
#define ROW_SCHEMA                                                             \
    ROW_FLAG_(0, "schema", schema, "print what makes a database's tables")
#define ROW_VERSION ROW_FLAG_(0, "version", version, "print the version")
#define ROW_WAIT                                                               \
    ROW_TIME_ENV_('w', "wait", "DUR|0|forever", wait_ms,                       \
                  DURATION_ZERO_OK | DURATION_FOREVER_OK,                      \
                  "how long to wait for the lock, or for a store that is "     \
                  "away; default: SNIB_WAIT, else forever",                    \
                  "SNIB_WAIT")
#define ROW_TTL                                                                \
    ROW_TIME_ENV_('t', "ttl", "DUR", ttl_ms, 0,                                \
                  "the lease, renewed while held: how long others wait when "  \
                  "this host dies; default: SNIB_TTL, else 30s",               \
                  "SNIB_TTL")
#define ROW_NAME                                                               \
    {                                                                          \
        0, "name", "NAME", OPTION_OPERAND, 0, 0, 0,                            \
            "a name, also one that begins with a dash", NULL                   \
    }
#define ROW_READ ROW_FLAG_('r', "read", read, "the same as --kind read")
#define ROW_SCRIPT                                                             \
    ROW_TEXT_('c', "script", "SCRIPT", script,                                 \
              "run sh -c SCRIPT instead of a command")
#define ROW_DRY_RUN                                                            \
    ROW_FLAG_(0, "dry-run", dry_run,                                           \
              "acquire and run nothing; tell what would be done, and who "     \
              "is in the way")
#define ROW_GRACE                                                              \
    ROW_TIME_('g', "grace", "DUR|0", grace_ms, DURATION_ZERO_OK,               \
              "from TERM to KILL; default: the smaller of 5s and a third of "  \
              "the ttl; at most half the ttl")
#define ROW_KIND                                                               \
    ROW_TEXT_(0, "kind", "KIND", kind,                                         \
              "mutex (default), read, write or semaphore")
#define ROW_PERMITS                                                            \
    ROW_COUNT_('n', "permits", "N", permits, SNIB_PERMITS_MAX,                 \
               "how many permits of a semaphore to take; default: 1")
#define ROW_CAPACITY                                                           \
    ROW_COUNT_(0, "capacity", "N", capacity, SNIB_PERMITS_MAX,                 \
               "the semaphore's size if it has none yet; else ignored")
#define ROW_LOCK_DELAY                                                         \
    ROW_TIME_(0, "lock-delay", "DUR|0", lock_delay_ms, DURATION_ZERO_OK,       \
              "when the holder dies or loses the lock: keep it closed that "   \
              "long after the lease; default: 0")
#define ROW_PRIORITY                                                           \
    ROW_NUMBER_(0, "priority", "N", priority, SNIB_PRIORITY_MAX,               \
                "go ahead of waiters with a lower one; default: 0, up to "     \
                "100")
#define ROW_BUSY_EXIT                                                          \
    ROW_NUMBER_('E', "busy-exit", "N", busy_exit, 255,                         \
                "exit status when not acquired, 0 to 255; default: 75")
#define ROW_BUSY_OK                                                            \
    ROW_FLAG_(0, "busy-ok", busy_ok,                                           \
              "exit 0, and say nothing, when not acquired")
#define ROW_ON_LOST                                                            \
    {                                                                          \
        0, "on-lost", "kill|signal:NAME|ignore", OPTION_ON_LOST, 0, 0, 0,      \
            "when the lease cannot be kept: kill (default; TERM, then KILL "   \
            "in time),"                                                        \
            " only send a signal, or nothing; the last two give up exclusion", \
            NULL                                                               \
    }
#define ROW_HOLD_MIN                                                           \
    ROW_TIME_(0, "hold-min", "DUR|0", hold_min_ms, DURATION_ZERO_OK,           \
              "hold the lock at least that long, even when the command ends "  \
              "sooner")
#define ROW_MAX_RUN                                                            \
    ROW_TIME_(0, "max-run", "DUR|forever", max_run_ms, DURATION_FOREVER_OK,    \
              "stop the command after that long")
#define ROW_REASON ROW_TEXT_(0, "reason", "TEXT", reason, "shown to others")
#define ROW_REENTRANT                                                          \
    ROW_FLAG_(0, "reentrant", reentrant,                                       \
              "inside a command that holds this very lock, run under its "     \
              "lease")
#define ROW_STATUS_FD                                                          \
    ROW_NUMBER_(0, "status-fd", "N", status_fd, 1048575,                       \
                "write one JSON line about the end to this descriptor")
#define ROW_HOLDER_PID                                                         \
    ROW_NUMBER_(0, "holder-pid", "PID", holder_pid, 4194304,                   \
                "release when this process ends")
#define ROW_NO_HOLDER                                                          \
    ROW_FLAG_(0, "detached", no_holder,                                        \
              "leave a fixed lease of --ttl in the store and exit; nothing "   \
              "renews it; release, renew and check ask the store")
#define ROW_SH                                                                 \
    ROW_FLAG_(0, "sh", sh,                                                     \
              "print shell text: t=$(snib acquire --sh NAME) && eval \"$t\" "  \
              "ties the lock to the shell that evaluates it")
#define ROW_TIE_PID                                                            \
    ROW_NUMBER_(0, "holder-pid", "PID", holder_pid, 4194304,                   \
                "from now on release when this process ends")
#define ROW_TOKEN_FILE                                                         \
    ROW_TEXT_('o', "token-file", "PATH", token_file,                           \
              "write the grant to PATH (mode 600) instead of stdout")
#define ROW_RENEW_TTL                                                          \
    ROW_TIME_('t', "ttl", "DUR", ttl_ms, 0,                                    \
              "the new lease, from now; default: the lock's own")
#define ROW_LEFT_STORE                                                         \
    ROW_TEXT_('s', "store", "URL", store,                                      \
              "for a grant of --detached: its store; default: SNIB_URL, "      \
              "else this host's own file")
#define ROW_MARGIN                                                             \
    ROW_TIME_('m', "margin", "DUR|0", margin_ms, DURATION_ZERO_OK,             \
              "what must be left of the lease; default: the smaller of 5s "    \
              "and a sixth of the ttl")
#define ROW_CAMPAIGN                                                           \
    ROW_TIME_('w', "wait", "DUR|0|forever", wait_ms,                           \
              DURATION_ZERO_OK | DURATION_FOREVER_OK,                          \
              "the longest campaign: end with 75 when not the leader by "      \
              "then; default: forever")
#define ROW_MAX_TERM                                                           \
    ROW_TIME_(0, "max-run", "DUR|forever", max_run_ms, DURATION_FOREVER_OK,    \
              "the longest term: stop the command then, let others lead")
#define ROW_PAUSE                                                              \
    ROW_TIME_('p', "pause", "DUR|0", pause_ms, DURATION_ZERO_OK,               \
              "from the end of a term to the next campaign; doubled, up to "   \
              "1m, with each failure of the command in a row; default: 1s")
#define ROW_ONCE                                                               \
    ROW_FLAG_('1', "once", once,                                               \
              "end after the first term, with its status; with --observe: "    \
              "tell who leads now, and end")
#define ROW_OBSERVE                                                            \
    ROW_FLAG_('o', "observe", observe,                                         \
              "do not campaign: print who leads, and each change, on stdout")
#define ROW_AWAIT_LIMIT                                                        \
    ROW_TIME_('w', "wait", "DUR|0|forever", wait_ms,                           \
              DURATION_ZERO_OK | DURATION_FOREVER_OK,                          \
              "how long to wait for it to open; default: forever")
#define ROW_MEET_LIMIT                                                         \
    ROW_TIME_('w', "wait", "DUR|forever", wait_ms, DURATION_FOREVER_OK,        \
              "how long to wait for the others; default: forever")
#define ROW_LATE_EXIT                                                          \
    ROW_NUMBER_('E', "busy-exit", "N", busy_exit, 255,                         \
                "exit status instead of 75, 0 to 255")
#define ROW_LATE_OK ROW_FLAG_(0, "busy-ok", busy_ok, "exit 0 instead of 75")
#define ROW_LATCH_SET                                                          \
    ROW_COUNT_(0, "set", "N", set_to, SNIB_PERMITS_MAX,                        \
               "close it with N steps to go, unless it is closed")
#define ROW_LATCH_DOWN                                                         \
    {                                                                          \
        0, "down", "[=N]", OPTION_STEPS, ROW_FIELD_(down_by), 1,               \
            SNIB_PERMITS_MAX, "count down by N; default: 1", NULL              \
    }
#define ROW_LATCH_OPEN                                                         \
    ROW_FLAG_(0, "open", latch_open, "open it, whatever its count")
#define ROW_LATCH_AWAIT                                                        \
    ROW_FLAG_(0, "await", latch_await, "wait until it is open")
#define ROW_PARTIES                                                            \
    ROW_COUNT_('n', "parties", "N", parties, SNIB_PERMITS_MAX,                 \
               "how many pass together")
#define ROW_SIZE_SET                                                           \
    ROW_NUMBER_(0, "set", "N", set_to, SNIB_PERMITS_MAX,                       \
                "make it N permits in all")
#define ROW_SIZE_INIT                                                          \
    ROW_NUMBER_(0, "init", "N", init_to, SNIB_PERMITS_MAX,                     \
                "the same, unless it has a size")
#define ROW_SIZE_ADD                                                           \
    {                                                                          \
        0, "add", "N", OPTION_SIGNED, ROW_FIELD_(add_by), 0, SNIB_PERMITS_MAX, \
            "N permits more, or fewer when N is negative", NULL                \
    }
#define ROW_READY_YES                                                          \
    ROW_FLAG_('y', "yes", yes,                                                 \
              "end it; without this only tell what that would risk")
#define ROW_YES ROW_FLAG_('y', "yes", yes, "do not ask; needs --reason")

#endif
