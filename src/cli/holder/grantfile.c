/* grantfile.c — see grantfile.h. */
#define _GNU_SOURCE
#include "cli/holder/grantfile.h"
#include "cli/supervisor/proc.h"
#include "cli/words/text.h"
#include "snib/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX          "snib1:"
#define DETACHED_PREFIX PREFIX "nokeeper"

enum { FILE_MAX = 8192 };

static void grantfile_short_boot(struct grantfile *g)
{
    char boot[PROC_BOOT_ID];

    proc_boot_id(boot);
    snprintf(g->boot, sizeof g->boot, "%.18s", boot);
}

void grantfile_of(const struct plan *plan, const struct plan_page *page,
                  struct grantfile *ret)
{
    *ret =
        (struct grantfile){.holder_process_pid = page->holder_process_pid,
                           .holder_start = proc_start(page->holder_process_pid),
                           .token = page->tokens[0],
                           .name_size = strlen(plan->names[0]),
                           .ttl_ms = plan->ttl_ms};
    memcpy(ret->name, plan->names[0], ret->name_size);
    memcpy(ret->address, page->address, sizeof ret->address);
    grantfile_short_boot(ret);
}

void grantfile_of_detached(const struct plan *plan,
                           const struct plan_page *page, struct grantfile *ret)
{
    *ret = (struct grantfile){.token = page->tokens[0],
                              .no_holder = true,
                              .name_size = strlen(plan->names[0]),
                              .kind = plan->kind,
                              .permits = plan->permits,
                              .ttl_ms = plan->ttl_ms,
                              .deadline_ns = atomic_load(&page->deadline_ns)};
    memcpy(ret->name, plan->names[0], ret->name_size);
    memcpy(ret->detached_grant, page->detached_grant,
           sizeof ret->detached_grant);
    grantfile_short_boot(ret);
}

static void grantfile_detached_text(const struct grantfile *g,
                                    char ret[GRANT_TEXT_MAX])
{
    struct text t = {.bytes = ret, .size = GRANT_TEXT_MAX};

    text_add(&t, DETACHED_PREFIX);
    if (g->kind == SNIB_KIND_READ) {
        text_add(&t, ".read");
    } else if (g->kind == SNIB_KIND_PERMITS) {
        text_addf(&t, ".semaphore.%" PRIu32, g->permits);
    }
    text_add(&t, ":");
    text_add_percent(&t, g->name, g->name_size);
    text_add(&t, ":");
    text_add(&t, g->detached_grant + strlen(PREFIX));
    text_addf(&t, ":%" PRId64 ":%" PRId64 ":%s", g->ttl_ms, g->deadline_ns,
              g->boot);
}

void grantfile_text(const struct grantfile *g, char ret[GRANT_TEXT_MAX])
{
    struct text t = {.bytes = ret, .size = GRANT_TEXT_MAX};

    if (g->no_holder) {
        grantfile_detached_text(g, ret);
        return;
    }
    text_addf(&t,
              PREFIX "%s:%" PRId64 ".%" PRId64 ":%" PRId64 ":%s:%" PRId64 ":",
              g->address, g->holder_process_pid, g->holder_start, g->token,
              g->boot, g->ttl_ms);
    text_add_percent(&t, g->name, g->name_size);
}

static int grantfile_write_all(int fd, const char *bytes, size_t size)
{
    int error = text_write(fd, bytes, size);

    return error != 0 || fsync(fd) == 0 || errno == EINVAL ? error : errno;
}

static int grantfile_is_replaceable(const char *path)
{
    struct stat st;

    if (lstat(path, &st) != 0) {
        return errno == ENOENT ? 0 : errno;
    }
    return S_ISREG(st.st_mode) ? 0 : GRANTFILE_OCCUPIED;
}

/* A new file is made there, also in place of an old one. */
static int grantfile_check_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char directory[PATH_MAX];

    if (slash == NULL) {
        return path[0] == '\0'                                          ? ENOENT
               : faccessat(AT_FDCWD, ".", W_OK | X_OK, AT_EACCESS) == 0 ? 0
                                                                        : errno;
    }
    if ((size_t)(slash - path) >= sizeof directory) {
        return ENAMETOOLONG;
    }
    /* With the slash: "/" is one, and what is no directory is refused. */
    snprintf(directory, sizeof directory, "%.*s", (int)(slash - path) + 1,
             path);
    return faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) == 0 ? 0
                                                                        : errno;
}

int grantfile_place(const char *path)
{
    int error = grantfile_is_replaceable(path);

    return error != 0 ? error : grantfile_check_directory(path);
}

/* Exchange fresh with the regular file at path, then remove the old one. */
static int grantfile_take_the_place(const char *fresh, const char *path,
                                    bool *ret_exchanged)
{
    int error;

    if (renameat2(AT_FDCWD, fresh, AT_FDCWD, path, RENAME_EXCHANGE) != 0) {
        return errno;
    }
    *ret_exchanged = true;
    error = grantfile_is_replaceable(fresh);
    if (error != 0) {
        renameat2(AT_FDCWD, fresh, AT_FDCWD, path, RENAME_EXCHANGE);
        return error;
    }
    return unlink(fresh) == 0 ? 0 : errno;
}

/* A plain rename would replace a device or a link that was put there after the
 * check. So the file goes where nothing is; or it is exchanged with what is
 * there, which is checked afterwards, and put back if it is no regular file. */
static int grantfile_put_in_place(const char *fresh, const char *path)
{
    int error = grantfile_is_replaceable(path);
    bool exchanged = false;

    if (error != 0) {
        return error;
    }
    for (int round = 0; round < 3; round++) {
        if (renameat2(AT_FDCWD, fresh, AT_FDCWD, path, RENAME_NOREPLACE) == 0) {
            return 0;
        }
        error = errno == EEXIST
                    ? grantfile_take_the_place(fresh, path, &exchanged)
                    : errno;
        if (exchanged || error != ENOENT) {
            break;
        }
        error = EBUSY; /* it was removed in between, again and again */
    }
    if (exchanged || (error != EINVAL && error != ENOSYS)) {
        return error;
    }
    /* A file system that cannot exchange (NFS): the check before must do. */
    return rename(fresh, path) == 0 ? 0 : errno;
}

static int grantfile_write_file(const char *path, const char *bytes,
                                size_t size)
{
    char *fresh;
    int fd, error;

    if (asprintf(&fresh, "%s.%ld", path, (long)getpid()) < 0) {
        return ENOMEM;
    }
    fd =
        open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    error = fd < 0 ? errno : grantfile_write_all(fd, bytes, size);
    if (fd >= 0) {
        close(fd);
        if (error == 0) {
            error = grantfile_put_in_place(fresh, path);
        }
        if (error != 0) {
            unlink(fresh);
        }
    }
    free(fresh);
    return error;
}

const char *grantfile_error(int error)
{
    return error == GRANTFILE_OCCUPIED
               ? "exists and is no regular file (a device, a pipe, a link or a "
                 "directory); expected a new name, or that of a regular file"
               : say_errno(error);
}

int grantfile_exit(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EIO:
    case ENOMEM:
        return CLI_INTERNAL;
    default:
        return CLI_CONFIG;
    }
}

void grantfile_remove(const char *path, const struct grantfile *g)
{
    char grant[GRANT_TEXT_MAX], first[GRANT_TEXT_MAX + 8] = "";
    char there[GRANT_TEXT_MAX + 8];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    struct text t = TEXT_IN(first);
    ssize_t size;
    struct stat st;

    if (fd < 0) {
        return;
    }
    grantfile_text(g, grant);
    text_add(&t, "grant=");
    text_add(&t, grant);
    text_add(&t, "\n");
    size = fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
               ? TEMP_FAILURE_RETRY(read(fd, there, t.used))
               : -1;
    close(fd);
    if (size == (ssize_t)t.used && memcmp(there, first, t.used) == 0) {
        unlink(path);
    }
}

int grantfile_write(const char *path, const struct grantfile *g,
                    const struct plan *plan, const struct plan_page *page)
{
    static char bytes[FILE_MAX];
    char grant[GRANT_TEXT_MAX], boot[PROC_BOOT_ID];
    struct text t = TEXT_IN(bytes);

    grantfile_text(g, grant);
    proc_boot_id(boot);
    text_add(&t, "grant=");
    text_add(&t, grant);
    text_addf(&t, "\ntoken=%" PRId64 "\n", g->token);
    text_add(&t, "name=");
    text_add_percent(&t, plan->names[0], strlen(plan->names[0]));
    text_add(&t, "\nowner=");
    text_add(&t, page->client_id);
    text_add(&t, "\nstore=");
    text_add_shown(&t, page->store, strlen(page->store));
    if (g->no_holder) {
        text_addf(&t, "\nkeeper=none\nttl_ms=%" PRId64, g->ttl_ms);
        text_addf(&t, "\ndeadline_ns=%" PRId64, g->deadline_ns);
    } else {
        text_addf(&t, "\nkeeper_pid=%" PRId64 "\nkeeper_start=%" PRId64,
                  g->holder_process_pid, g->holder_start);
    }
    text_addf(&t, "\nboot_id=%s\n", boot);
    return grantfile_write_file(path, bytes, t.used);
}

/* ":", ".read:" or ".semaphore.PERMITS:"; returns what follows, or NULL. */
static const char *grantfile_parse_kind(const char *text, struct grantfile *ret)
{
    int64_t permits;
    int end = 0;

    if (sscanf(text, ".semaphore.%10" SCNd64 ":%n", &permits, &end) == 1 &&
        end > 0 && permits > 0 && permits <= SNIB_PERMITS_MAX) {
        ret->kind = SNIB_KIND_PERMITS;
        ret->permits = (uint32_t)permits;
        return text + end;
    }
    if (strncmp(text, ".read:", 6) == 0) {
        ret->kind = SNIB_KIND_READ;
        return text + 6;
    }
    return text[0] == ':' ? text + 1 : NULL;
}

/* KIND:NAME:CLIENT:REQUEST:TOKEN:TTL:DEADLINE:BOOT */
static bool grantfile_parse_detached(const char *text, struct grantfile *ret)
{
    const char *ids;
    char client[33], request[33], token[20], rest;

    *ret = (struct grantfile){.no_holder = true};
    text = grantfile_parse_kind(text, ret);
    if (text == NULL) {
        return false;
    }
    ids = text + strcspn(text, ":");
    if (sscanf(ids,
               ":%32[0-9a-f]:%32[0-9a-f]:%19[0-9]:%19" SCNd64 ":%19" SCNd64
               ":%18[0-9a-f-]%c",
               client, request, token, &ret->ttl_ms, &ret->deadline_ns,
               ret->boot, &rest) != 6) {
        return false;
    }
    ret->token = strtoll(token, NULL, 10);
    snprintf(ret->detached_grant, sizeof ret->detached_grant, PREFIX "%s:%s:%s",
             client, request, token);
    return text_unpercent(text, (size_t)(ids - text), ret->name,
                          sizeof ret->name, &ret->name_size) &&
           ret->name_size > 0 && ret->ttl_ms >= SNIB_LEASE_MIN_MS &&
           ret->ttl_ms <= SNIB_LEASE_MAX_MS && ret->deadline_ns > 0 &&
           snib_grant_identity(ret->detached_grant, ret->identity,
                               sizeof ret->identity, NULL) == SNIB_ERR_OK;
}

/* :TTL:NAME, or nothing. */
static bool grantfile_parse_rest(const char *text, struct grantfile *ret)
{
    int end = 0;

    if (*text == '\0') {
        return true;
    }
    if (sscanf(text, ":%19" SCNd64 ":%n", &ret->ttl_ms, &end) != 1 ||
        end == 0 || ret->ttl_ms <= 0) {
        return false;
    }
    text += end;
    return text_unpercent(text, strlen(text), ret->name, sizeof ret->name,
                          &ret->name_size) &&
           ret->name_size > 0;
}

static bool grantfile_parse(const char *text, struct grantfile *ret)
{
    int end = 0;

    if (strncmp(text, DETACHED_PREFIX, strlen(DETACHED_PREFIX)) == 0) {
        return grantfile_parse_detached(text + strlen(DETACHED_PREFIX), ret);
    }
    *ret = (struct grantfile){0};
    if (sscanf(text,
               PREFIX "%47[0-9a-f.]:%" SCNd64 ".%" SCNd64 ":%" SCNd64
                      ":%18[0-9a-f-]%n",
               ret->address, &ret->holder_process_pid, &ret->holder_start,
               &ret->token, ret->boot, &end) != 5) {
        return false;
    }
    return grantfile_parse_rest(text + end, ret) &&
           control_address_valid(ret->address) && ret->holder_process_pid > 0 &&
           ret->token > 0;
}

/* The line store=URL. */
static void grantfile_read_store(const char *lines, struct grantfile *ret)
{
    const char *store = strstr(lines, "\nstore=");
    size_t size = store != NULL ? strcspn(store + 7, "\n") : 0;

    if (size < sizeof ret->store && store != NULL && store[7 + size] == '\n') {
        memcpy(ret->store, store + 7, size);
    }
}

bool grantfile_read(const struct cli_args *args, const char *operand,
                    struct grantfile *ret)
{
    char lines[FILE_MAX] = "", line[GRANT_TEXT_MAX + 8] = "";
    int fd;
    ssize_t size;

    if (strncmp(operand, PREFIX, strlen(PREFIX)) == 0) {
        if (!grantfile_parse(operand, ret)) {
            usage_error(args, "'%s' is not a grant", shown_short(operand));
            return false;
        }
        return true;
    }
    fd = open(operand, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        usage_error(args,
                    "%s: %s; expected a grant (what snib acquire printed) or "
                    "the file of --token-file",
                    shown_short(operand), say_errno(errno));
        return false;
    }
    size = TEMP_FAILURE_RETRY(read(fd, lines, sizeof lines - 1));
    close(fd);
    lines[size > 0 ? size : 0] = '\0';
    snprintf(line, sizeof line, "%.*s", (int)strcspn(lines, "\n"), lines);
    if (strncmp(line, "grant=", 6) != 0 || !grantfile_parse(line + 6, ret)) {
        usage_error(args, "%s is not a token file of snib acquire",
                    shown_short(operand));
        return false;
    }
    grantfile_read_store(lines, ret);
    return true;
}

static bool grantfile_is_of_this_boot(const struct grantfile *g)
{
    char boot[PROC_BOOT_ID];

    proc_boot_id(boot);
    return strncmp(boot, g->boot, 18) == 0;
}

/* Does the holder of that grant still live? Its pid may belong to another
 * process by now, so the start time counts, too. False in another pid
 * namespace, where it is not seen. */
static bool grantfile_holder_lives(const struct grantfile *g)
{
    return proc_start((pid_t)g->holder_process_pid) == g->holder_start &&
           !proc_ended((pid_t)g->holder_process_pid);
}

enum grantfile_answer grantfile_no_answer(int error, bool lives)
{
    switch (error) {
    case EPERM:
        return GRANTFILE_FOREIGN;
    case EADDRINUSE:
        return GRANTFILE_SQUATTED;
    case ECONNREFUSED: /* it does not listen any more: it is ending */
        return GRANTFILE_GONE;
    case ETIMEDOUT: /* it listens */
    case EAGAIN:
        return GRANTFILE_SILENT;
    default:
        return lives ? GRANTFILE_SILENT : GRANTFILE_GONE;
    }
}

int grantfile_ask(const struct grantfile *g,
                  const struct control_request *request,
                  struct control_reply *ret, enum grantfile_answer *ret_by)
{
    *ret_by = GRANTFILE_ANSWERED;
    if (!grantfile_is_of_this_boot(g)) {
        *ret_by = GRANTFILE_GONE;
        return CLI_LOST;
    }
    if (!control_ask(g->address, request, 3000, ret)) {
        int error = errno;

        *ret_by = grantfile_no_answer(error, grantfile_holder_lives(g));
        return CLI_LOST;
    }
    if (ret->code != 0 && ret->code != CLI_LOST) {
        say("%s%s", grantfile_named(g),
            ret->text[0] != '\0' ? shown(ret->text) : "refused");
    }
    return ret->code;
}

bool grantfile_counts_pids_alike(const struct grantfile *g)
{
    struct control_request request = {
        .magic = CONTROL_MAGIC, .verb = CONTROL_STATUS, .token = g->token};
    struct control_reply reply;
    pid_t holder;

    return grantfile_holder_lives(g) ||
           !control_ask_whom(g->address, &request, 3000, &reply, &holder) ||
           holder == g->holder_process_pid;
}
