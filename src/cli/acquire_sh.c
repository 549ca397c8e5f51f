/* acquire_sh.c — text=$(snib acquire --sh NAME) && eval "$text" || exit
 *
 * The lock is to end with the script, and only the script's own shell knows
 * which process that is: $$ is right there, in a function, in a pipe, in a
 * subshell, below sudo or a unit. The parent of snib acquire may be a subshell
 * that has ended before the text is read. So the text ties the lock: it runs
 * snib again, which ties the grant to $$. Until then the holder holds the lock
 * for some seconds only (holder_detached.c).
 *
 * The status of the eval is that of the text: 0 when the lock is held and tied,
 * else not 0. So `eval "$(…)" || exit` and `set -e` work, too. The text needs
 * nothing but a POSIX shell, and no variable has to be set.
 *
 * SNIB_HELD must stay small and true in a script that acquires and releases for
 * ever: snib release cannot change a variable of the shell. Entries of an
 * earlier grant of this name are removed, since the name is held again. An
 * entry of another name for which no holder answers may be released, or lost
 * since its holder was killed. So it stays, and snib check without an operand
 * still says "not held". Of these only the last KEPT entries stay.
 *
 * The holder process of a lost lock stays to tell the cause. When its entry is
 * removed, nobody in this shell can ask it any more. But a child has the
 * variable of its parent, and the parent may still ask. So only the shell that
 * the holder is tied to ends it: by the renewal in the text, which passes $$.
 */
#define _GNU_SOURCE
#include "cli/acquire_sh.h"
#include "cli/holder/held.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 'x', a quote in it as '\'' */
static void acquire_sh_add_quoted(struct text *t, const char *s)
{
    text_add(t, "'");
    for (; *s != '\0'; s++) {
        char one[2] = {*s, '\0'};

        text_add(t, *s == '\'' ? "'\\''" : one);
    }
    text_add(t, "'");
}

/* This very program: the shell's PATH may have another one, or none. */
static void acquire_sh_add_program(struct text *t)
{
    char path[4096];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);

    path[size > 0 ? size : 0] = '\0';
    acquire_sh_add_quoted(t,
                          size > 0 && access(path, X_OK) == 0 ? path : "snib");
}

static void acquire_sh_add_variable(struct text *t, const char *name,
                                    const char *value)
{
    text_addf(t, "export %s=", name);
    acquire_sh_add_quoted(t, value);
    text_add(t, "\n");
}

static void acquire_sh_add_number(struct text *t, const char *name,
                                  int64_t value)
{
    text_addf(t, "export %s=%" PRId64 "\n", name, value);
}

enum { KEPT = 32, ANSWER_MS = 300 };

enum entry_state { ENTRY_HELD, ENTRY_LOST, ENTRY_DEAD, ENTRY_UNKNOWN };

/* ret_reply: of the holder that answers. */
static enum entry_state acquire_sh_ask_entry(const struct held_entry *entry,
                                             enum control_verb verb,
                                             int64_t holder_pid,
                                             struct control_reply *ret_reply)
{
    struct control_request request = {
        .magic = CONTROL_MAGIC, .verb = verb, .holder_pid = holder_pid};

    request.name_size = (uint32_t)entry->name_size;
    memcpy(request.name, entry->name, entry->name_size);
    if (!control_ask(entry->address, &request, ANSWER_MS, ret_reply)) {
        return errno == ECONNREFUSED ? ENTRY_DEAD : ENTRY_UNKNOWN;
    }
    return ret_reply->code == 0          ? ENTRY_HELD
           : ret_reply->code == CLI_LOST ? ENTRY_LOST
                                         : ENTRY_UNKNOWN;
}

/* The lock that was just acquired. */
struct fresh {
    const char *name, *store, *address;
    size_t name_size;
};

/* What becomes of the entry now that this lock is held? ENTRY_HELD: it stays,
 * or is not asked. behind: how many entries come after this one. */
static enum entry_state acquire_sh_judge(const struct held_entry *entry,
                                         size_t behind,
                                         const struct fresh *fresh)
{
    bool same = fresh->name_size == entry->name_size &&
                memcmp(fresh->name, entry->name, entry->name_size) == 0;
    struct control_reply reply;
    enum entry_state state;

    if (!same && behind < KEPT) {
        return ENTRY_HELD;
    }
    state = acquire_sh_ask_entry(entry, CONTROL_STATUS, 0, &reply);
    /* At another store the same name is another lock. */
    return state == ENTRY_LOST && same && strcmp(reply.store, fresh->store) != 0
               ? ENTRY_HELD
               : state;
}

/* How many entries there are, without that of the lock itself. */
static size_t acquire_sh_count_others(const char *held,
                                      const struct fresh *fresh)
{
    struct held_entry entry;
    size_t count = 0;

    while (held_next(&held, &entry)) {
        count += strcmp(entry.address, fresh->address) != 0;
    }
    return count;
}

/* The entries of the old SNIB_HELD that stay, and the new entry. */
static void acquire_sh_add_held(struct text *t, const char *old,
                                const struct plan *plan,
                                const struct plan_page *page)
{
    char store[CONTROL_STORE_MAX];
    const struct fresh fresh = {.name = plan->names[0],
                                .store = store,
                                .address = page->address,
                                .name_size = strlen(plan->names[0])};
    size_t count = acquire_sh_count_others(old, &fresh);
    struct held_entry entry;

    control_set_store(store, page->store);
    while (held_next(&old, &entry)) {
        enum entry_state state = acquire_sh_judge(&entry, --count, &fresh);

        if (state == ENTRY_HELD || state == ENTRY_UNKNOWN) {
            held_add(t, entry.name, entry.address);
        }
    }
    held_add(t, plan->names[0], page->address);
}

/* The shell may have evaluated another text since this process was started:
 * then the entry is added to the value that is there. */
static void acquire_sh_add_held_lines(struct text *t, const struct plan *plan,
                                      const struct plan_page *page,
                                      const char *old, struct text *held)
{
    char entry[3 * SNIB_NAME_MAX + 64] = "";
    struct text own = TEXT_IN(entry);

    held_add(&own, plan->names[0], page->address);
    acquire_sh_add_held(held, old, plan, page);
    text_add(t, "case \"${SNIB_HELD:-}\" in\n");
    acquire_sh_add_quoted(t, old);
    text_add(t, ") SNIB_HELD=");
    acquire_sh_add_quoted(t, held->bytes);
    text_add(t, " ;;\n*) SNIB_HELD=\"${SNIB_HELD:+$SNIB_HELD:}\"");
    acquire_sh_add_quoted(t, entry);
    text_add(t, " ;;\nesac\nexport SNIB_HELD\n");
}

static const char *acquire_sh_old_held(void)
{
    const char *old = getenv("SNIB_HELD");

    return old != NULL ? old : "";
}

void acquire_sh_end_lost(const struct grantfile *g, const char *store,
                         int64_t shell)
{
    const struct fresh fresh = {.name = g->name,
                                .store = store,
                                .address = g->address,
                                .name_size = g->name_size};
    const char *held = acquire_sh_old_held();
    size_t count = acquire_sh_count_others(held, &fresh);
    struct control_reply reply;
    struct held_entry entry;

    while (held_next(&held, &entry)) {
        if (strcmp(entry.address, g->address) != 0 &&
            acquire_sh_judge(&entry, --count, &fresh) == ENTRY_LOST) {
            acquire_sh_ask_entry(&entry, CONTROL_FORGET, shell, &reply);
        }
    }
}

/* For the old value, as it is, each byte taking four when quoted; and for the
 * entries that stay. */
size_t acquire_sh_size(void)
{
    return ACQUIRE_SH_LEAST + 8 * strlen(acquire_sh_old_held());
}

bool acquire_sh_text(struct text *t, const struct plan *plan,
                     const struct plan_page *page, const struct grantfile *g)
{
    const char *old = acquire_sh_old_held();
    char grant[GRANT_TEXT_MAX];
    struct text held = {.size = 3 * strlen(old) + 3 * SNIB_NAME_MAX + 64};

    held.bytes = calloc(1, held.size);
    if (held.bytes == NULL) {
        return false;
    }
    grantfile_text(g, grant);
    text_add(t, "if ");
    acquire_sh_add_program(t);
    text_add(t, " renew --holder-pid \"$$\" ");
    acquire_sh_add_quoted(t, grant);
    text_add(t, "; then\n");
    acquire_sh_add_variable(t, "SNIB_GRANT", grant);
    acquire_sh_add_variable(t, "SNIB_NAME", plan->names[0]);
    acquire_sh_add_number(t, "SNIB_TOKEN", g->token);
    acquire_sh_add_variable(t, "SNIB_OWNER", page->client_id);
    acquire_sh_add_number(t, "SNIB_TTL_MS", plan->ttl_ms);
    if (page->permit_slots[0] >= 0) {
        acquire_sh_add_number(t, "SNIB_SLOT", page->permit_slots[0]);
    } else { /* a value would be an outer command's */
        text_add(t, "unset SNIB_SLOT\n");
    }
    acquire_sh_add_held_lines(t, plan, page, old, &held);
    text_add(t, "else (exit 76)\nfi\n");
    free(held.bytes);
    return !t->cut && !held.cut;
}
