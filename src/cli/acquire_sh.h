/* acquire_sh.h — what snib acquire --sh prints for a shell to evaluate. */
#ifndef SNIB_CLI_ACQUIRE_SH_H
#define SNIB_CLI_ACQUIRE_SH_H

#include "cli/holder/grantfile.h"
#include "cli/words/text.h"

/* For quoted names and addresses, in which a quote takes four bytes. */
enum { ACQUIRE_SH_LEAST = 32768 };

/* How many bytes the text needs here, at most. */
size_t acquire_sh_size(void);
/* False: no memory. */
bool acquire_sh_text(struct text *, const struct plan *,
                     const struct plan_page *, const struct grantfile *);
/* g, of that store, was just tied to a shell. The holder processes of lost
 * locks that the text takes out of the shell's SNIB_HELD end, if they are tied
 * to it, too. */
void acquire_sh_end_lost(const struct grantfile *g, const char *store,
                         int64_t shell);

#endif
