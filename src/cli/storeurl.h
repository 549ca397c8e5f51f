/* storeurl.h — which store, and where its secrets may stand.
 *
 * Secrets come from SNIB_URL or from a file (--store-file, SNIB_STORE_FILE),
 * never from argv,
 * which every user of the host can read. The command's environment gets none.
 */
#ifndef SNIB_CLI_STOREURL_H
#define SNIB_CLI_STOREURL_H

#include <stdbool.h>
#include <stddef.h>

#include "cli.h"

enum { STOREURL_MAX = 4096 };

/* Choose: --store, --store-file, SNIB_URL, the file of SNIB_STORE_FILE, default
 * (*ret NULL). A SNIB_URL whose password was taken out gives way to
 * SNIB_STORE_FILE. The result lives as long as the process. CLI_OK, CLI_USAGE
 * (password in --store, both options) or CLI_CONFIG (file not readable, or
 * readable by others; no password but ***; memory:), said. */
int storeurl_choose(const struct cli_args *, const char **ret);

/* Does the URL hold a password (user:PASSWORD@, or a query field that is
 * named like one)? */
bool storeurl_has_secret(const char *url);

/* Does it have *** in the place of a password? */
bool storeurl_was_redacted(const char *url);

/* Copy the URL with every password replaced by "***". Cut if too long. */
void storeurl_redact(const char *url, char *to, size_t size);

#endif
