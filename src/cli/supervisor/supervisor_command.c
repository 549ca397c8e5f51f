/* supervisor_command.c — from the fork to the exec of the command.
 *
 * Between the two stands the gate: the child waits for a byte, so that its
 * group is in the shared page before it can do anything. So at whichever
 * instant the supervisor or the holder dies, the other one knows which group to
 * kill. The child arms PDEATHSIG and then compares its parent with the
 * supervisor, which may have died in between. If the exec fails, its errno goes
 * back through the gate.
 */
#define _GNU_SOURCE
#include "cli/holder/held.h"
#include "cli/store/storeurl.h"
#include "cli/supervisor/proc.h"
#include "cli/supervisor/supervisor_i.h"
#include "cli/words/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: the errno of a variable that could not be set; 0: all were. */
static int not_set;

/* A failure is noted: a command without its token, or with another store, is
 * not what the user asked for. */
static void supervisor_command_put(const char *name, const char *value)
{
    if (setenv(name, value, 1) != 0) {
        not_set = errno;
    }
}

static void supervisor_command_set_number(const char *name, int64_t number)
{
    char value[32] = "";
    struct text t = TEXT_IN(value);

    text_addf(&t, "%" PRId64, number);
    supervisor_command_put(name, value);
}

/* One name as it is; several percent-encoded and joined by ':'. */
static void supervisor_command_set_names(const struct plan *p)
{
    static char value[PLAN_NAMES_MAX * (3 * SNIB_NAME_MAX + 1) + 1];
    struct text t = TEXT_IN(value);

    if (p->name_count == 1) {
        supervisor_command_put("SNIB_NAME", p->names[0]);
        return;
    }
    for (size_t i = 0; i < p->name_count; i++) {
        text_add(&t, i > 0 ? ":" : "");
        text_add_percent(&t, p->names[i], strlen(p->names[i]));
    }
    supervisor_command_put("SNIB_NAME", value);
}

static void supervisor_command_set_tokens(const struct body *b)
{
    char value[PLAN_NAMES_MAX * 21] = "";
    struct text t = TEXT_IN(value);

    for (size_t i = 0; i < b->plan->name_count; i++) {
        text_addf(&t, "%s%" PRId64, i > 0 ? ":" : "", b->page->tokens[i]);
    }
    supervisor_command_put("SNIB_TOKEN", value);
    if (b->plan->elect) {
        supervisor_command_put("SNIB_TERM", value);
    }
}

/* The SNIB_SLOT of a command further up the process tree is removed. None is
 * set where a stronger lock held up there stands for the permits. */
static void supervisor_command_set_slots(const struct body *b)
{
    char value[PLAN_NAMES_MAX * 21] = "";
    struct text t = TEXT_IN(value);

    unsetenv("SNIB_SLOT");
    for (size_t i = 0; i < b->plan->name_count; i++) {
        if (b->page->permit_slots[i] < 0) {
            return;
        }
        text_addf(&t, "%s%" PRId64, i > 0 ? ":" : "", b->page->permit_slots[i]);
    }
    supervisor_command_put("SNIB_SLOT", value);
}

static void supervisor_command_set_held(const struct body *b)
{
    const char *outer = getenv("SNIB_HELD");
    size_t size =
        (outer != NULL ? strlen(outer) : 0) +
        b->plan->name_count * (3 * SNIB_NAME_MAX + CONTROL_ADDRESS_MAX + 2) + 1;
    struct text t = {.bytes = malloc(size), .size = size};

    if (t.bytes == NULL) {
        not_set = ENOMEM;
        return;
    }
    t.bytes[0] = '\0';
    if (outer != NULL) {
        text_add(&t, outer);
    }
    for (size_t i = 0; i < b->plan->name_count; i++) {
        held_add(&t, b->plan->names[i], b->page->address);
    }
    supervisor_command_put("SNIB_HELD", t.bytes);
}

/* The command's own snib must use the same store, whatever chose it: so
 * SNIB_URL names that store now, or SNIB_STORE_FILE the file that holds the
 * URL. But no credentials are passed on: a URL with a password becomes one with
 * *** in its place, which a snib refuses with an explanation. SNIB_STORE_FILE
 * is removed then, because it would be used instead, and this snib did not use
 * it. */
static void supervisor_command_set_store(const struct body *b)
{
    static char text[STOREURL_MAX];
    const struct cli_args *args = b->plan->args;
    const char *file = args->store_file, *env = getenv("SNIB_URL");
    const char *url = b->plan->url, *in_use = b->page->store;

    if (args->store == NULL && file == NULL && url != NULL &&
        (env == NULL || env[0] == '\0' || storeurl_was_redacted(env))) {
        file = getenv("SNIB_STORE_FILE");
    }
    if (file != NULL) {
        supervisor_command_put("SNIB_STORE_FILE",
                               storeurl_absolute(file, false));
        unsetenv("SNIB_URL");
    } else if (url != NULL && storeurl_has_secret(url)) {
        storeurl_redact(url, text, sizeof text);
        supervisor_command_put("SNIB_URL", text);
        unsetenv("SNIB_STORE_FILE");
    } else if ((url == NULL || strcasecmp(url, "file:") == 0) &&
               storeurl_is_whole(in_use)) {
        supervisor_command_put(
            "SNIB_URL", in_use); /* another user's default is another file */
    } else if (url != NULL) {
        supervisor_command_put("SNIB_URL", url);
    }
}

static void supervisor_command_set_environment(const struct body *b, int lease)
{
    supervisor_command_set_names(b->plan);
    supervisor_command_set_tokens(b);
    supervisor_command_set_slots(b);
    supervisor_command_set_held(b);
    supervisor_command_put("SNIB_OWNER", b->page->client_id);
    supervisor_command_set_number("SNIB_TTL_MS",
                                  b->supervisor.rules.ttl / SUPERVISOR_MS);
    supervisor_command_set_number("SNIB_LEASE_FD", lease);
    supervisor_command_set_store(b);
}

/* Give errno to the supervisor, which says it. */
static _Noreturn void supervisor_command_give_up(int gate, int code)
{
    int error = errno;

    TEMP_FAILURE_RETRY(send(gate, &error, sizeof error, MSG_NOSIGNAL));
    _exit(code);
}

/* Runs in the child. */
_Noreturn void supervisor_become_command(struct body *b, pid_t supervisor,
                                         int gate, int lease)
{
    char go;
    ssize_t heard;

    setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
        supervisor_command_give_up(gate, CLI_INTERNAL);
    }
    if (getppid() != supervisor) {
        _exit(CLI_INTERNAL);
    }
    heard = TEMP_FAILURE_RETRY(recv(gate, &go, 1, 0));
    if (heard != 1) { /* 0: the supervisor is dead, nobody listens */
        supervisor_command_give_up(gate, CLI_INTERNAL);
    }
    supervisor_command_set_environment(b, lease);
    if (not_set != 0) {
        errno = not_set;
        supervisor_command_give_up(gate, CLI_INTERNAL);
    }
    proc_set_mark(b->page->address);
    fcntl(lease, F_SETFD, 0);
    sigaction(SIGCHLD, &b->old_chld, NULL);
    sigprocmask(SIG_SETMASK, &b->old_mask, NULL);
    execvp(b->plan->command[0], b->plan->command);
    supervisor_command_give_up(gate, errno == ENOENT ? CLI_NOT_FOUND
                                                     : CLI_NOT_EXECUTABLE);
}
