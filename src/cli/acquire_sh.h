/* acquire_sh.h — what snib acquire --sh prints for a shell to evaluate. */
#ifndef SNIB_CLI_ACQUIRE_SH_H
#define SNIB_CLI_ACQUIRE_SH_H

#include "cli/holder/grantfile.h"
#include "cli/words/text.h"

/* Names and addresses quoted, a quote in them takes four bytes. */
enum { ACQUIRE_SH_LEAST = 32768 };

/* The room that the text needs here, at most. */
size_t acquire_sh_size(void);
/* false: no memory. */
bool acquire_sh_text(struct text *, const struct plan *,
                     const struct plan_page *, const struct grantfile *);
/* g, of that store, was just tied to a shell: the holder processes of lost locks
 * that the text takes out of its SNIB_HELD end, if they are tied to it, too. */
void acquire_sh_end_lost(const struct grantfile *g, const char *store,
                         int64_t shell);

#endif
