/* cmd_check.c — snib check: is the lease good for a while yet?
 *
 * Inside a command: EOF at SNIB_LEASE_FD is a loss, known without asking. The
 * holder processes are then asked only for the cause, the innermost first,
 * since the descriptor is the innermost command's. Without EOF the holder
 * processes named in SNIB_HELD are asked for their deadlines, the outermost
 * first, until one does not vouch for its lock. A holder that does not answer
 * (killed, stopped, in another network namespace) does not vouch: 76.
 *
 * With a grant of snib acquire its holder is asked or, if it has none, the
 * store.
 */
#include "cli/holder/detached.h"
#include "cli/holder/grantfile.h"
#include "cli/holder/held.h"
#include "cli/supervisor/proc.h"
#include "cli/words/duration.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* To learn the cause of a loss takes at most CAUSE_MS, of which no silent
 * holder gets more than ONE_CAUSE_MS. */
enum { PATIENCE_MS = 3000, CAUSE_MS = 1000, ONE_CAUSE_MS = 300 };

static int64_t cmd_check_margin_ns(const struct cli_args *args, int64_t ttl)
{
    int64_t margin = 5000;

    if (args->margin_ms != CLI_UNSET) {
        return args->margin_ms * SUPERVISOR_MS;
    }
    /* A lease of 3 s never has 5 s left. A sixth of the lease is always left,
     * since a renewal is due at each third. */
    if (ttl > 0 && ttl / 6 < margin) {
        margin = ttl / 6;
    }
    return margin * SUPERVISOR_MS;
}

/* EOF at SNIB_LEASE_FD? A descriptor that somebody closed tells nothing. */
static bool cmd_check_told_lost(void)
{
    const char *text = getenv("SNIB_LEASE_FD");
    struct pollfd p = {.fd = text != NULL ? atoi(text) : -1, .events = POLLIN};

    return p.fd > 2 && poll(&p, 1, 0) == 1 && (p.revents & POLLHUP) != 0;
}

static int64_t cmd_check_ttl_of_environment(void)
{
    const char *ttl = getenv("SNIB_TTL_MS");

    return ttl != NULL ? atoll(ttl) : 0;
}

/* Of the innermost lock; 0: not known. A holder that is asked knows it better:
 * the variable may be missing. */
static int64_t cmd_check_token_of_environment(void)
{
    const char *tokens = getenv("SNIB_TOKEN"), *last;
    int64_t token;

    if (tokens == NULL) {
        return 0;
    }
    last = strrchr(tokens, ':');
    token = atoll(last != NULL ? last + 1 : tokens);
    return token > 0 ? token : 0;
}

/* name: "": not known; why: what the holder knows, or "". */
static void cmd_check_say_lost(const char *name, const char *why)
{
    say("%s%sthe lease is lost%s%s", shown(name), name[0] != '\0' ? ": " : "",
        why[0] != '\0' ? ": " : "", shown(why));
}

/* What is known of a loss: the lock's name and the cause; "": not known. */
struct loss {
    char name[SNIB_NAME_MAX + 1], why[SNIB_EXPLAIN_TEXT];
};

static void cmd_check_note_loss(struct loss *loss, const char *name,
                                const char *why)
{
    struct text n = TEXT_IN(loss->name), w = TEXT_IN(loss->why);

    text_add(&n, name);
    text_add(&w, why);
}

static void cmd_check_say_not_enough(int64_t left, int64_t margin,
                                     const struct loss *loss)
{
    char is[DURATION_TEXT_MAX], asked[DURATION_TEXT_MAX];

    if (left <= 0) {
        cmd_check_say_lost(loss->name, loss->why);
        return;
    }
    duration_text(left / SUPERVISOR_MS, is);
    duration_text(margin / SUPERVISOR_MS, asked);
    say("%s%sthe lease is held for %s more, less than the margin of %s",
        shown(loss->name), loss->name[0] != '\0' ? ": " : "", is, asked);
}

/* The lock that decides: of several, the one whose deadline less its margin
 * comes first. */
struct lease {
    int64_t deadline; /* 0: it is lost */
    int64_t margin;
    int64_t token; /* of the innermost lock; 0: not known */
};

/* loss: what is to be said of it; NULL: that has been said. */
static int cmd_check_verdict(const struct cli_args *args,
                             const struct lease *lease, const struct loss *loss)
{
    int64_t left = lease->deadline > 0 ? lease->deadline - proc_now() : 0;
    int64_t margin = lease->margin, token = lease->token;
    bool enough = left > 0 && left >= margin;

    if (args->json) {
        printf("{\"schema\":1,\"held\":%s,\"left_ms\":%" PRId64
               ",\"token\":%" PRId64 ",\"enough\":%s,\"margin_ms\":%" PRId64
               "}\n",
               left > 0 ? "true" : "false", left > 0 ? left / SUPERVISOR_MS : 0,
               token, enough ? "true" : "false", margin / SUPERVISOR_MS);
    }
    if (!enough && loss != NULL && !args->quiet) {
        cmd_check_say_not_enough(left, margin, loss);
    }
    return enough ? CLI_OK : CLI_LOST;
}

/* No holder vouches for this entry of SNIB_HELD. The variable stays when a
 * script releases what it acquired. Whether the script did, or the holder was
 * killed, no process is left to tell. Only such a script has a grant to ask
 * with. */
static void cmd_check_say_unvouched(const struct held_entry *entry,
                                    enum grantfile_answer by, const char *why)
{
    const char *name = shown(entry->name);
    const char *grant = getenv("SNIB_GRANT");

    switch (by) {
    case GRANTFILE_ANSWERED:
        cmd_check_say_lost(entry->name, why);
        return;
    case GRANTFILE_GONE:
        say("%s: not held any more: it was released, or its holder process "
            "was killed%s",
            name,
            grant != NULL && grant[0] != '\0'
                ? "; snib check \"$SNIB_GRANT\" checks only the lock acquired "
                  "last"
                : "");
        return;
    case GRANTFILE_SILENT:
        say("%s: its holder process does not answer", name);
        return;
    case GRANTFILE_SQUATTED:
        say("%s: a process of another user answers in place of its holder "
            "process, and is not believed",
            name);
        return;
    case GRANTFILE_FOREIGN:
        grantfile_say_foreign(name, entry->address);
        return;
    }
}

/* Ask about all locks that the command runs under, each with the margin of its
 * own lease. Deadline 0: one of them is not held (said, unless --quiet). */
static void cmd_check_ask_held(const struct cli_args *args, const char *held,
                               struct lease *ret, struct loss *decides)
{
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_STATUS};
    struct control_reply reply;
    struct held_entry entry;
    const char *all = held;
    int64_t least = INT64_MAX, token = ret->token;

    while (held_next(&held, &entry)) {
        enum grantfile_answer by = GRANTFILE_ANSWERED;
        int64_t margin;

        request.name_size = (uint32_t)entry.name_size;
        memcpy(request.name, entry.name, entry.name_size);
        if (!control_ask(entry.address, &request, PATIENCE_MS, &reply)) {
            /* An address that nobody listens at belongs to a process that
             * ended. */
            by = grantfile_no_answer(errno, true);
            reply.code = CLI_LOST;
        }
        if (reply.code != 0) {
            if (!args->quiet) {
                cmd_check_say_unvouched(&entry, by, reply.text);
            }
            ret->deadline = 0;
            return;
        }
        margin = cmd_check_margin_ns(
            args, reply.ttl_ns > 0 ? reply.ttl_ns / SUPERVISOR_MS
                                   : cmd_check_ttl_of_environment());
        token = reply.token;
        if (reply.deadline_ns - margin < least) {
            least = reply.deadline_ns - margin;
            ret->deadline = reply.deadline_ns;
            ret->margin = margin;
            cmd_check_note_loss(decides, entry.name, "");
        }
    }
    ret->token = token;
    if (least == INT64_MAX && !args->quiet) {
        say("SNIB_HELD names no lock: %s; expected what snib run or snib "
            "acquire --sh has put there",
            shown(all));
    }
}

static int cmd_check_grant(const struct cli_args *args, const char *operand)
{
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_STATUS};
    struct control_reply reply = {0};
    struct loss loss = {.name = ""};
    enum grantfile_answer by;
    struct grantfile grant;
    struct lease lease;
    bool told;
    int code;

    if (!grantfile_read(args, operand, &grant)) {
        return CLI_USAGE;
    }
    lease = (struct lease){.margin = cmd_check_margin_ns(args, grant.ttl_ms),
                           .token = grant.token};
    cmd_check_note_loss(&loss, grant.name, "");
    if (grant.no_holder) {
        code = detached_deadline(args, &grant, &lease.deadline);
        if (code == CLI_USAGE || code == CLI_CONFIG) {
            return code; /* that says nothing of the lease */
        }
        return cmd_check_verdict(args, &lease,
                                 lease.deadline == 0 ? NULL : &loss);
    }
    request.token = grant.token;
    code = grantfile_ask(&grant, &request, &reply, &by);
    told = code == CLI_LOST && by != GRANTFILE_ANSWERED;
    if (told && !args->quiet) {
        grantfile_say_lost(args, &grant, by, "");
    }
    lease.deadline = code == CLI_OK ? reply.deadline_ns : 0;
    cmd_check_note_loss(&loss, grant.name, reply.text);
    return cmd_check_verdict(args, &lease, told ? NULL : &loss);
}

/* The loss is known without asking, and a holder that still answers knows its
 * cause. A lock that is lost for an unknown cause is told only if no lock with
 * a known cause is found. */
static void cmd_check_find_cause(const char *held, struct loss *ret)
{
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_STATUS};
    int64_t end_ns = proc_now() + CAUSE_MS * SUPERVISOR_MS, left_ms = CAUSE_MS;
    struct control_reply reply;
    struct held_entry entry;
    size_t rest = strlen(held);

    while (left_ms > 0 && ret->why[0] == '\0' &&
           held_last(held, &rest, &entry)) {
        request.name_size = (uint32_t)entry.name_size;
        memcpy(request.name, entry.name, entry.name_size);
        if (control_ask(entry.address, &request,
                        left_ms < ONE_CAUSE_MS ? (int)left_ms : ONE_CAUSE_MS,
                        &reply) &&
            reply.code == CLI_LOST &&
            (ret->name[0] == '\0' || reply.text[0] != '\0')) {
            cmd_check_note_loss(ret, entry.name, reply.text);
        }
        left_ms = (end_ns - proc_now()) / SUPERVISOR_MS;
    }
}

int cmd_check(struct cli_args *args, int count, char **operands)
{
    const char *held = getenv("SNIB_HELD");
    struct loss loss = {.name = ""};
    struct lease lease;
    bool lost;

    if (count > 0) {
        return cmd_check_grant(args, operands[0]);
    }
    if (held == NULL || held[0] == '\0') {
        return usage_error(args, "not inside a command of snib run (SNIB_HELD "
                                 "is not set), and no grant was given");
    }
    lost = cmd_check_told_lost();
    lease = (struct lease){
        .margin = cmd_check_margin_ns(args, cmd_check_ttl_of_environment()),
        .token = cmd_check_token_of_environment()};
    if (!lost) {
        cmd_check_ask_held(args, held, &lease, &loss);
    } else if (!args->quiet) {
        cmd_check_find_cause(held, &loss);
    }
    return cmd_check_verdict(args, &lease,
                             !lost && lease.deadline == 0 ? NULL : &loss);
}
