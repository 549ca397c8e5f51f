/* storeurl.c — see storeurl.h. This is no URL parser. It need only be sure
 * never to miss a secret, so it looks for "something:something@" after "://"
 * and for query fields by name, and blanks too much rather than too little. */
#define _GNU_SOURCE
#include "cli/store/storeurl.h"
#include "cli/words/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* The secret part of a URL: size bytes from start. */
struct part {
    const char *start;
    size_t size;
};

/* user:SECRET@ or :SECRET@ — up to the last @ before the path. A list of hosts
 * may hold several; then everything up to the last @ is one part. */
static struct part storeurl_userinfo_secret(const char *url)
{
    const char *start = strstr(url, "://");
    const char *end, *at = NULL, *colon;

    if (start == NULL) {
        return (struct part){NULL, 0};
    }
    start += 3;
    end = start + strcspn(start, "?#");
    for (const char *p = start; p < end; p++) {
        if (*p == '@') {
            at = p;
        }
    }
    if (at == NULL) {
        return (struct part){NULL, 0};
    }
    colon = memchr(start, ':', (size_t)(at - start));
    if (colon == NULL || colon + 1 == at) {
        return (struct part){NULL, 0};
    }
    return (struct part){colon + 1, (size_t)(at - colon - 1)};
}

static int storeurl_hex(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c != '\0' ? strchr(digits, c | 32) : NULL;

    return at != NULL ? (int)(at - digits) : -1;
}

/* The name as the library will read it, without %XX. */
static void storeurl_decode(const char *name, size_t size, char *to)
{
    for (size_t i = 0; i < size; i++) {
        int high =
            i + 2 < size && name[i] == '%' ? storeurl_hex(name[i + 1]) : -1;
        int low = high >= 0 ? storeurl_hex(name[i + 2]) : -1;

        if (low >= 0) {
            *to++ = (char)(high * 16 + low);
            i += 2;
        } else {
            *to++ = name[i];
        }
    }
    *to = '\0';
}

/* A secret goes by the names by which the library knows one
 * (core/url_show.c). A name longer than any is taken for one. */
static bool storeurl_secret_field(const char *name, size_t size)
{
    static const char *const words[] = {"pass",  "secret", "auth",
                                        "token", "cred",   "pwd"};
    char plain[128];

    if (size >= sizeof plain) {
        return true;
    }
    storeurl_decode(name, size, plain);
    if (strcmp(plain, "password_file") == 0) {
        return false; /* a path */
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasestr(plain, words[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static struct part storeurl_query_secret(const char *from)
{
    const char *field = from;

    while (*field != '\0') {
        size_t size = strcspn(field, "&#;");
        size_t name = strcspn(field, "=&#;");

        if (name < size && size > name + 1 &&
            storeurl_secret_field(field, name)) {
            return (struct part){field + name + 1, size - name - 1};
        }
        field += size;
        field += *field != '\0';
    }
    return (struct part){NULL, 0};
}

static const char *storeurl_query_of(const char *url)
{
    return url + strcspn(url, "?");
}

static bool storeurl_begins(const char *url, const char *scheme)
{
    return strncasecmp(url, scheme, strlen(scheme)) == 0;
}

/* "?dialect=getlock", say, a constant: the dialect that the URL asks for. */
static bool storeurl_has_dialect(const char *url, const char *dialect)
{
    const char *field = storeurl_query_of(url);
    size_t size = strlen(dialect + 1);

    while (*field == '?' || *field == '&') {
        field++;
        if (strncmp(field, dialect + 1, size) == 0 &&
            strcspn(field + size, "&#") == 0) {
            return true;
        }
        field += strcspn(field, "&#");
    }
    return false;
}

const char *storeurl_without_queue(const char *url)
{
    static const char *const dialects[] = {"?dialect=shedlock",
                                           "?dialect=int_lock"};

    if (url == NULL) {
        return NULL;
    }
    if (storeurl_begins(url, "redlock:") || storeurl_begins(url, "redlocks:")) {
        return "redlock:";
    }
    for (size_t i = 0; i < sizeof dialects / sizeof dialects[0]; i++) {
        if (storeurl_has_dialect(url, dialects[i])) {
            return dialects[i];
        }
    }
    return NULL;
}

const char *storeurl_without_waiters(const char *url)
{
    static const char getlock[] = "?dialect=getlock";

    return url != NULL && storeurl_has_dialect(url, getlock)
               ? getlock
               : storeurl_without_queue(url);
}

const char *storeurl_without_search(const char *url)
{
    if (url != NULL &&
        (storeurl_begins(url, "amqp:") || storeurl_begins(url, "amqps:"))) {
        return "amqp:";
    }
    return storeurl_without_waiters(url);
}

bool storeurl_without_force(const char *url)
{
    static const char *const schemes[] = {
        "zookeeper:", "zookeepers:", "amqp:", "amqps:"};
    static const char *const dialects[] = {
        "?dialect=shedlock", "?dialect=int_lock", "?dialect=getlock",
        "?dialect=advisory", "?dialect=concurrency"};
    bool without = false;

    for (size_t i = 0; url != NULL && i < sizeof schemes / sizeof schemes[0];
         i++) {
        without = without || storeurl_begins(url, schemes[i]);
    }
    for (size_t i = 0; url != NULL && i < sizeof dialects / sizeof dialects[0];
         i++) {
        without = without || storeurl_has_dialect(url, dialects[i]);
    }
    return without;
}

void storeurl_tell_unverified(const char *url)
{
    if (strstr(storeurl_query_of(url), "tls_verify=no") != NULL) {
        say("tls_verify=no: whoever is on the way to the server can read and "
            "change all of it; give tls_ca=FILE instead");
    }
}

bool storeurl_has_secret(const char *url)
{
    const char *query = storeurl_query_of(url);

    return storeurl_userinfo_secret(url).start != NULL ||
           (*query == '?' && storeurl_query_secret(query + 1).start != NULL);
}

static void storeurl_add_slice(struct text *t, const char *from, const char *to)
{
    text_add_shown(t, from, (size_t)(to - from));
}

void storeurl_redact(const char *url, char *to, size_t size)
{
    struct text t = {.bytes = to, .size = size};
    struct part part = storeurl_userinfo_secret(url);

    to[0] = '\0';
    if (part.start != NULL) {
        storeurl_add_slice(&t, url, part.start);
        text_add(&t, "***");
        url = part.start + part.size;
    }
    if (*storeurl_query_of(url) == '?') {
        const char *query = storeurl_query_of(url) + 1;

        storeurl_add_slice(&t, url, query);
        url = query;
        while ((part = storeurl_query_secret(url)).start != NULL) {
            storeurl_add_slice(&t, url, part.start);
            text_add(&t, "***");
            url = part.start + part.size;
        }
    }
    text_add_shown(&t, url, strlen(url));
}

static int storeurl_file_error(const char *label, const char *path,
                               const char *why)
{
    say("%s %s: %s", label, shown(path), why);
    return CLI_CONFIG;
}

/* Who owns the file, and who may read it? libpq ignores a .pgpass that others
 * may read; this refuses it. */
static const char *storeurl_file_unfit(int fd, const char *path)
{
    static char words[300];
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return strerror(errno);
    }
    if (!S_ISREG(st.st_mode)) {
        return "not a regular file";
    }
    if (st.st_uid != geteuid() && st.st_uid != 0) {
        return "belongs to another user";
    }
    if ((st.st_mode & 077) != 0) {
        snprintf(words, sizeof words,
                 "others may read it; do: chmod 600 %.250s", shown(path));
        return words;
    }
    return NULL;
}

static int storeurl_read_file(const char *path, const char *label,
                              const char **ret)
{
    static char line[STOREURL_MAX];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    const char *unfit;
    ssize_t size;

    if (fd < 0) {
        return storeurl_file_error(label, path, say_errno(errno));
    }
    unfit = storeurl_file_unfit(fd, path);
    if (unfit != NULL) {
        close(fd);
        return storeurl_file_error(label, path, unfit);
    }
    size = TEMP_FAILURE_RETRY(read(fd, line, sizeof line - 1));
    close(fd);
    if (size < 0) {
        return storeurl_file_error(label, path, say_errno(errno));
    }
    if (size == (ssize_t)sizeof line - 1) {
        return storeurl_file_error(label, path, "longer than a URL can be");
    }
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '\0') {
        return storeurl_file_error(label, path,
                                   "its first line is empty; expected a URL");
    }
    *ret = line;
    return CLI_OK;
}

static bool storeurl_is_blanked(struct part part)
{
    return part.size == 3 && memcmp(part.start, "***", 3) == 0;
}

bool storeurl_was_redacted(const char *url)
{
    const char *query = storeurl_query_of(url);
    struct part part = storeurl_userinfo_secret(url);

    if (part.start != NULL && storeurl_is_blanked(part)) {
        return true;
    }
    while (*query != '\0') {
        part = storeurl_query_secret(query + 1);
        if (part.start == NULL) {
            return false;
        }
        if (storeurl_is_blanked(part)) {
            return true;
        }
        query = part.start + part.size;
    }
    return false;
}

static bool storeurl_is_set(const char *variable)
{
    return variable != NULL && variable[0] != '\0';
}

/* *** replaces a password wherever a URL is shown, and in the environment of a
 * command of snib run. It is nobody's password. */
static int storeurl_secret_is_gone(const char *url)
{
    if (url == NULL || !storeurl_was_redacted(url)) {
        return CLI_OK;
    }
    say("the store's URL has *** where its password was (snib run takes it "
        "out of its command's environment): nothing is sent with that. Give "
        "the whole URL by --store-file PATH or SNIB_STORE_FILE");
    return CLI_CONFIG;
}

/* memory: is a store in this process alone: the next command would not see the
 * lock. */
static int storeurl_shared_by_nobody(const char *url)
{
    if (url == NULL || strncasecmp(url, "memory:", 7) != 0) {
        return CLI_OK;
    }
    say("the store memory: lives inside one process, so it excludes nobody "
        "here; it is for tests of programs that use the library. Expected "
        "another store, or none for this host's own file");
    return CLI_CONFIG;
}

static int choose(const struct cli_args *args, const char **ret)
{
    const char *env = getenv("SNIB_URL"), *file = getenv("SNIB_STORE_FILE");

    if (args->store != NULL && args->store_file != NULL) {
        return usage_error(args, "--store and --store-file exclude each other");
    }
    if (args->store != NULL) {
        if (storeurl_has_secret(args->store) &&
            !storeurl_was_redacted(args->store)) {
            return usage_error(
                args, "--store holds a password, and every user of this host "
                      "can read arguments; put the URL into SNIB_URL or into "
                      "a file for --store-file");
        }
        if (args->store[0] == '\0') {
            return usage_error(args, "--store is empty; expected a URL");
        }
        *ret = args->store;
        return CLI_OK;
    }
    if (args->store_file != NULL) {
        return storeurl_read_file(args->store_file, "--store-file", ret);
    }
    if (storeurl_is_set(env) &&
        (!storeurl_was_redacted(env) || !storeurl_is_set(file))) {
        *ret = env;
        return CLI_OK;
    }
    return storeurl_is_set(file)
               ? storeurl_read_file(file, "SNIB_STORE_FILE", ret)
               : CLI_OK;
}

const char *storeurl_absolute(const char *path, bool in_url)
{
    static char whole[STOREURL_MAX];
    struct text t = TEXT_IN(whole);
    char cwd[PATH_MAX];

    if (path[0] == '/' || getcwd(cwd, sizeof cwd) == NULL) {
        return path;
    }
    whole[0] = '\0';
    for (const char *p = cwd; *p != '\0'; p++) {
        if (in_url && strchr("%?#", *p) != NULL) {
            text_addf(&t, "%%%02X", (unsigned)*p);
        } else {
            text_addf(&t, "%c", *p);
        }
    }
    if (cwd[1] != '\0') { /* not "/": in a URL two slashes begin a host */
        text_add(&t, "/");
    }
    text_add(&t, path);
    return t.cut ? path : whole;
}

/* The path of a store that is a file; NULL: it is another store. */
static const char *storeurl_path(const char *url)
{
    return strncasecmp(url, "file:", 5) == 0 ? url + 5 : NULL;
}

bool storeurl_is_whole(const char *url)
{
    const char *path = storeurl_path(url);

    return url[0] != '\0' && strchr(url, '\\') == NULL &&
           (path == NULL || path[0] == '/');
}

static const char *hanging; /* see storeurl_relative */

/* A path relative to the current directory names another file in the next one.
 * So the path as it is found now is used wherever it is passed on or shown. */
static const char *storeurl_anchor(const char *url)
{
    static char whole[STOREURL_MAX];
    struct text t = TEXT_IN(whole);
    const char *path;

    hanging = NULL;
    path = url == NULL ? NULL : storeurl_path(url);
    /* no path: this host's own file */
    if (path == NULL || path[0] == '\0' || path[0] == '?' || path[0] == '/') {
        return url;
    }
    hanging = url;
    whole[0] = '\0';
    text_addf(&t, "%.*s", (int)(path - url), url);
    text_add(&t, storeurl_absolute(path, true));
    return t.cut ? url : whole;
}

const char *storeurl_relative(void)
{
    return hanging;
}

struct snib_error *storeurl_blame(struct snib_error *error)
{
    if (error->code == SNIB_ERR_USAGE) {
        error->code = SNIB_ERR_CONFIG;
    }
    return error;
}

int storeurl_choose(const struct cli_args *args, const char **ret)
{
    int code;

    *ret = NULL;
    if ((code = choose(args, ret)) != CLI_OK ||
        (code = storeurl_secret_is_gone(*ret)) != CLI_OK ||
        (code = storeurl_shared_by_nobody(*ret)) != CLI_OK) {
        return code;
    }
    *ret = storeurl_anchor(*ret);
    return CLI_OK;
}
