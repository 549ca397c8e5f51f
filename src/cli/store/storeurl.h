/* storeurl.h — which store is used, and where its secrets may stand.
 *
 * Secrets come from SNIB_URL or from a file (--store-file, SNIB_STORE_FILE),
 * never from argv, which every user of the host can read. The command's
 * environment gets none.
 */
#ifndef SNIB_CLI_STOREURL_H
#define SNIB_CLI_STOREURL_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/cli.h"

enum { STOREURL_MAX = 4096 };

/* Choose the store: --store, --store-file, SNIB_URL, the file of
 * SNIB_STORE_FILE, default (*ret NULL). A SNIB_URL whose password was taken out
 * gives way to SNIB_STORE_FILE. The result lives as long as the process.
 * CLI_OK, CLI_USAGE (password in --store, both options) or CLI_CONFIG (file not
 * readable, or readable by others; no password but ***; memory:), said. */
int storeurl_choose(const struct cli_args *, const char **ret);

/* Adapt the error of an open. A store's URL is configuration, wherever it
 * stands: a wrong one in an argument ends with the same status as one in the
 * environment. */
struct snib_error *storeurl_blame(struct snib_error *);

/* The URL that was chosen last, as it was given, if its path depends on the
 * current directory (the chosen URL is absolute); else NULL. */
const char *storeurl_relative(void);

/* The path in a form that no change of directory affects. in_url: bytes of the
 * directory's part that a URL would misread are percent-encoded. Static; a path
 * that is too long is returned as it is. */
const char *storeurl_absolute(const char *path, bool in_url);

/* Does this URL, as it is shown, lead to the store from anywhere? Not one with
 * a relative path, with bytes that were escaped, nor "". */
bool storeurl_is_whole(const char *url);

/* Does the URL hold a password (user:PASSWORD@, or a query field that is named
 * like one)? */
bool storeurl_has_secret(const char *url);

/* What it is called, if it is a store at which nobody stands in a queue; else NULL.
 * url: NULL is the default. */
const char *storeurl_without_queue(const char *url);

/* The same of a store that cannot show who waits: there is no queue, or the server
 * tells nobody of it, as MySQL's named locks. */
const char *storeurl_without_waiters(const char *url);

/* The same of a store at which nobody can see who waits for what, so that no
 * deadlock is found. */
const char *storeurl_without_search(const char *url);

/* Is it a store that has no forced release, whatever is forced? It says so itself. */
bool storeurl_without_force(const char *url);

/* Say that anybody may answer in the place of the server, if this URL of a
 * client that was opened allows it (tls_verify=no). */
void storeurl_tell_unverified(const char *url);

/* Does it have *** instead of a password? */
bool storeurl_was_redacted(const char *url);

/* Copy the URL with every password replaced by "***". Cut if too long. */
void storeurl_redact(const char *url, char *to, size_t size);

#endif
