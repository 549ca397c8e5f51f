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

#include "cli/cli.h"

enum { STOREURL_MAX = 4096 };

/* Choose: --store, --store-file, SNIB_URL, the file of SNIB_STORE_FILE, default
 * (*ret NULL). A SNIB_URL whose password was taken out gives way to
 * SNIB_STORE_FILE. The result lives as long as the process. CLI_OK, CLI_USAGE
 * (password in --store, both options) or CLI_CONFIG (file not readable, or
 * readable by others; no password but ***; memory:), said. */
int storeurl_choose(const struct cli_args *, const char **ret);

/* The error of an open. A store's URL is configuration, wherever it stands: a
 * wrong one in an argument ends with the status of one in the environment. */
struct snib_error *storeurl_blame(struct snib_error *);

/* The URL that was chosen last, as it was given, when its path hangs on the
 * current directory (what was chosen is absolute); else NULL. */
const char *storeurl_relative(void);

/* The path as another directory does not change it. in_url: what a URL would
 * take for something else is percent-encoded in the directory's part. Static;
 * a path that is too long is given back as it is. */
const char *storeurl_absolute(const char *path, bool in_url);

/* Does this URL, as it is shown, lead to the store from anywhere? Not a path
 * that hangs on a directory, nor bytes that were escaped, nor "". */
bool storeurl_is_whole(const char *url);

/* Does the URL hold a password (user:PASSWORD@, or a query field that is
 * named like one)? */
bool storeurl_has_secret(const char *url);

/* Does it have *** in the place of a password? */
bool storeurl_was_redacted(const char *url);

/* Copy the URL with every password replaced by "***". Cut if too long. */
void storeurl_redact(const char *url, char *to, size_t size);

#endif
