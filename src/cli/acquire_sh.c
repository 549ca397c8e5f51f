/* acquire_sh.c — eval "$(snib acquire --sh NAME)".
 *
 * The lock is to end with the script, and only the script's own shell knows
 * which process that is: $$ there is right in a function, in a pipe, in a
 * subshell, below sudo or a unit; the parent of snib acquire may be a subshell
 * that has ended before the text is read. So the text does it: it runs snib
 * again, which ties the grant to $$. Until then the keeper holds the lock for
 * some seconds only (keeper_detached.c).
 *
 * The status of the eval is that of the text: 0 when the lock is held and tied,
 * else not, so that `eval "$(…)" || exit` and `set -e` work. Nothing in it needs
 * more than a POSIX shell, or a variable that is set.
 */
#define _GNU_SOURCE
#include "acquire_sh.h"
#include "held.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* 'x', a quote in it as '\'' */
static void add_quoted(struct text *t, const char *s)
{
    text_add(t, "'");
    for (; *s != '\0'; s++) {
        char one[2] = {*s, '\0'};

        text_add(t, *s == '\'' ? "'\\''" : one);
    }
    text_add(t, "'");
}

/* This very program: the shell's PATH may have another one, or none. */
static void add_program(struct text *t)
{
    char path[4096];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);

    path[size > 0 ? size : 0] = '\0';
    add_quoted(t, size > 0 && access(path, X_OK) == 0 ? path : "snib");
}

static void add_variable(struct text *t, const char *name, const char *value)
{
    text_addf(t, "export %s=", name);
    add_quoted(t, value);
    text_add(t, "\n");
}

static void add_number(struct text *t, const char *name, int64_t value)
{
    text_addf(t, "export %s=%" PRId64 "\n", name, value);
}

void acquire_sh_text(struct text *t, const struct plan *plan,
                     const struct plan_page *page, const struct grantfile *g)
{
    char grant[GRANT_TEXT_MAX], entry[3 * SNIB_NAME_MAX + 64] = "";
    struct text held = TEXT_IN(entry);

    grantfile_text(g, grant);
    held_add(&held, plan->names[0], page->address);
    text_add(t, "if ");
    add_program(t);
    text_add(t, " renew --holder-pid \"$$\" ");
    add_quoted(t, grant);
    text_add(t, "; then\n");
    add_variable(t, "SNIB_GRANT", grant);
    add_variable(t, "SNIB_NAME", plan->names[0]);
    add_number(t, "SNIB_TOKEN", g->token);
    add_variable(t, "SNIB_OWNER", page->owner);
    add_number(t, "SNIB_TTL_MS", plan->ttl_ms);
    if (page->permit_slots[0] >= 0) {
        add_number(t, "SNIB_SLOT", page->permit_slots[0]);
    } else { /* not that of a command up the tree */
        text_add(t, "unset SNIB_SLOT\n");
    }
    text_add(t, "export SNIB_HELD=\"${SNIB_HELD:+$SNIB_HELD:}\"");
    add_quoted(t, entry);
    text_add(t, "\nelse (exit 76)\nfi\n");
}
