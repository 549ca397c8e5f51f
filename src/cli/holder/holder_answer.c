/* holder_answer.c — answers at the private socket (control.h): how long is the
 * lease still, renew it, release it. */
#define _GNU_SOURCE
#include "cli/holder/holder_i.h"
#include "cli/supervisor/proc.h"
#include "cli/words/text.h"
#include "snib/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

static struct slot *
holder_answer_asked_slot(struct holder *k,
                         const struct control_request *request)
{
    if (request->name_size == 0) {
        return &k->slots[0];
    }
    for (size_t i = 0; i < k->plan->name_count; i++) {
        if (strlen(k->plan->names[i]) == request->name_size &&
            memcmp(k->plan->names[i], request->name, request->name_size) == 0) {
            return &k->slots[i];
        }
    }
    return NULL;
}

/* A text that is too long loses its end, and not all of it. */
static void holder_answer_set_text(struct control_reply *reply,
                                   const char *what, const char *text)
{
    static const char cut[] = "...";
    size_t used = strlen(what), size = strlen(text);
    size_t room = sizeof reply->text - 1 - used;

    memcpy(reply->text, what, used);
    if (size <= room) {
        memcpy(reply->text + used, text, size + 1);
        return;
    }
    size = room - strlen(cut);
    while (((unsigned char)text[size] & 0xC0u) == 0x80u) {
        size--; /* no half of a character */
    }
    memcpy(reply->text + used, text, size);
    memcpy(reply->text + used + size, cut, sizeof cut);
}

static void holder_answer_set_why_lost(const struct holder *k,
                                       const struct slot *s,
                                       struct control_reply *reply)
{
    char words[SNIB_EXPLAIN_TEXT] = "";
    struct text t = TEXT_IN(words);

    holder_why_lost(k, s, &t);
    holder_answer_set_text(reply, "", words);
}

static void holder_answer_status(struct holder *k, const struct slot *s,
                                 struct control_reply *reply)
{
    holder_check(k);
    reply->deadline_ns = atomic_load(&k->page->deadline_ns);
    reply->ttl_ns = k->rules.ttl;
    if (k->lost || proc_now() >= reply->deadline_ns) {
        reply->code = CLI_LOST;
        reply->deadline_ns = 0;
        reply->cause =
            (int32_t)(s->state == SLOT_LOST ? s->cause : k->lost_cause);
        holder_answer_set_why_lost(k, s, reply);
    }
}

/* Without an error the text tells who holds. */
static void holder_answer_set_owner(const struct holder *k,
                                    struct control_reply *reply)
{
    struct text t = TEXT_IN(reply->text);

    if (reply->code == 0) {
        text_add(&t, k->page->client_id);
    }
}

static void holder_answer_renew(struct holder *k, const struct slot *s,
                                int64_t lease_ms, struct control_reply *reply)
{
    for (size_t i = 0; i < k->plan->name_count; i++) {
        struct snib_error error = {0};
        snib_err code;

        if (k->slots[i].state != SLOT_HELD) {
            continue;
        }
        code =
            snib_renew(k->slots[i].lock, k->slots[i].grant, lease_ms, &error);
        if (code == SNIB_ERR_LOST) {
            break; /* holder_answer_status tells the cause */
        }
        if (code != SNIB_ERR_OK) {
            reply->code = snib_err_exit(code);
            holder_answer_set_text(reply, "", error.text);
            return;
        }
    }
    holder_answer_status(k, s, reply);
}

static void holder_answer_tie(struct holder *k, const struct slot *s,
                              const struct control_request *request,
                              struct control_reply *reply)
{
    struct text t = TEXT_IN(reply->text);
    int error;

    if (k->detached) {
        holder_answer_status(k, s, reply);
        if (reply->code != 0) {
            return; /* nothing is held that could be tied */
        }
    }
    error = holder_tie(k, request->holder_pid);
    if (error == EBUSY) {
        reply->code = CLI_USAGE;
        text_add(&t, "this lock belongs to a running snib run, and ends with "
                     "its command");
        return;
    }
    if (error != 0) {
        reply->code = CLI_USAGE;
        text_addf(&t, "--holder-pid %" PRId64 ": %s", request->holder_pid,
                  strerror(error));
        return;
    }
    holder_answer_renew(k, s, request->lease_ms, reply);
}

/* A run that is told no deadline must stop its command, and the release waits
 * until it has. One that already runs stays known. */
static void holder_answer_under(struct holder *k, int fd, const struct slot *s,
                                int64_t id, struct control_reply *reply)
{
    holder_answer_status(k, s, reply);
    if (reply->code != 0) {
        return;
    }
    if (k->ending || k->phase != PHASE_HOLDING) {
        reply->code = CLI_LOST;
        reply->deadline_ns = 0;
        reply->cause = SNIB_CAUSE_EXPIRED;
        holder_answer_set_text(reply, "", "the outer lock is released");
        return;
    }
    holder_inner_add(k, fd, id, reply->deadline_ns);
}

/* Runs under this lock have to end first: the asker is to ask again. */
static bool holder_answer_later(struct holder *k, struct control_reply *reply)
{
    int64_t until = k->lost ? 0 : holder_inner_until(k);

    k->ending = k->ending || until > 0;
    k->asked_ns = until > 0 ? proc_now() : k->asked_ns;
    reply->deadline_ns = until;
    return until > 0;
}

/* True: end when the answer is sent. The release is repeated after that if the
 * store has not answered; the asker need not wait for it. */
static bool holder_answer_release(struct holder *k, const struct slot *s,
                                  struct control_reply *reply,
                                  struct holder_giving *g)
{
    struct text t = TEXT_IN(reply->text);

    if (!k->detached) {
        reply->code = CLI_USAGE;
        text_add(&t, "this lock belongs to a running snib run; end its "
                     "command instead");
        return false;
    }
    holder_check(k); /* so that a loss is told with its cause */
    if (holder_answer_later(k, reply)) {
        return false;
    }
    holder_give_back(k, g);
    if (g->lost) {
        reply->code = CLI_LOST;
        holder_answer_set_why_lost(k, s, reply);
        if (g->text[0] != '\0') {
            holder_answer_set_text(reply, "", g->text);
        }
    } else if (g->silence[0] != '\0') {
        reply->code = CLI_UNREACHABLE;
        holder_answer_set_text(reply, "not released yet: ", g->silence);
    }
    return true;
}

/* True: end when the answer is sent. The process that this holder is tied to
 * may still ask for the cause of the loss, so only that process may have it
 * forgotten. */
static bool holder_answer_forget(const struct holder *k, int64_t holder_pid,
                                 struct control_reply *reply)
{
    if (k->detached && k->lost && k->holder_pidfd >= 0 &&
        k->holder_pid == holder_pid) {
        return true;
    }
    reply->code = CLI_USAGE;
    return false;
}

/* A lock that is itself held above is as strong as the lock there. This process
 * only knows that it covers the kind it asked for. */
static void holder_answer_set_kind(const struct holder *k,
                                   struct control_reply *reply)
{
    reply->kind = (int32_t)k->plan->kind;
    reply->permits = k->plan->permits;
}

static void holder_answer_above(struct holder *k, int fd, const struct slot *s)
{
    struct control_above reply = {.magic = CONTROL_MAGIC,
                                  .pid = (int32_t)getpid(),
                                  .supervisor = (int32_t)k->supervisor,
                                  .group = atomic_load(&k->page->group)};

    control_set_store(reply.store, k->page->store);
    holder_check(k);
    if (s == NULL || k->lost || k->phase != PHASE_HOLDING ||
        (s->state == SLOT_HELD &&
         snib_grant_request(s->lock, s->grant, reply.request,
                            sizeof reply.request, NULL) != SNIB_ERR_OK)) {
        reply.code = CLI_LOST;
    }
    control_send_above(fd, &reply);
}

static void holder_answer_answer(struct holder *k, int fd)
{
    struct control_request request;
    struct control_reply reply = {.magic = CONTROL_MAGIC};
    struct holder_giving giving;
    struct slot *s;
    bool end = false, forget = false;

    if (!control_receive(fd, &request)) {
        return;
    }
    control_set_store(reply.store, k->page->store);
    s = holder_answer_asked_slot(k, &request);
    if (request.verb == CONTROL_ABOVE) {
        holder_answer_above(k, fd, s);
        return;
    }
    if (s == NULL || (request.token != 0 && request.token != s->grant.token)) {
        reply.code = CLI_LOST;
        control_send(fd, &reply);
        return;
    }
    reply.token = s->grant.token;
    reply.slot = s->permit_slot;
    holder_answer_set_kind(k, &reply);
    switch ((enum control_verb)request.verb) {
    case CONTROL_STATUS:
        holder_answer_status(k, s, &reply);
        holder_answer_set_owner(k, &reply);
        break;
    case CONTROL_RENEW:
        holder_answer_renew(k, s, request.lease_ms, &reply);
        break;
    case CONTROL_RELEASE:
        end = holder_answer_release(k, s, &reply, &giving);
        break;
    case CONTROL_TIE:
        holder_answer_tie(k, s, &request, &reply);
        break;
    case CONTROL_FORGET:
        forget = holder_answer_forget(k, request.holder_pid, &reply);
        break;
    case CONTROL_UNDER:
        holder_answer_under(k, fd, s, request.lease_ms, &reply);
        break;
    case CONTROL_LEAVE:
        holder_inner_remove(k, request.lease_ms);
        holder_answer_status(k, s, &reply);
        break;
    case CONTROL_ABOVE:
        break;
    }
    control_send(fd, &reply);
    if (forget) {
        close(fd);
        holder_release_and_end(k);
    }
    if (end) {
        close(fd);
        holder_see_given_back(k, &giving);
        holder_end(k, 0);
    }
}

/* With every descriptor in use no asker could be accepted. The asker would
 * take the holder for dead, or wait in vain. Nor could the command's processes
 * be seen. So some descriptors are kept in reserve. */
bool holder_keep_spare(struct holder *k)
{
    bool all = true;

    for (size_t i = 0; i < PROC_DESCRIPTORS; i++) {
        if (k->spare[i] < 0) {
            k->spare[i] = fcntl(0, F_DUPFD_CLOEXEC, 3);
        }
        all = all && k->spare[i] >= 0;
    }
    return all;
}

void holder_free_spare(struct holder *k)
{
    for (size_t i = 0; i < PROC_DESCRIPTORS; i++) {
        if (k->spare[i] >= 0) {
            close(k->spare[i]);
        }
        k->spare[i] = -1;
    }
}

static int holder_answer_let_in(struct holder *k)
{
    int fd = control_accept(k->listener);

    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        holder_free_spare(k);
        fd = control_accept(k->listener);
    }
    return fd;
}

/* One asker at a time, and not for long: it sends at once or is dropped. */
void holder_hear_asker(struct holder *k)
{
    int fd = holder_answer_let_in(k);
    struct pollfd p = {.fd = fd, .events = POLLIN};

    if (fd >= 0) {
        if (poll(&p, 1, 20) == 1) {
            holder_answer_answer(k, fd);
        }
        close(fd);
    }
    holder_keep_spare(k);
}
