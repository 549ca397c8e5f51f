/* driver/passfile.c — a password that stands in a file, read anew for each login.
 *
 * Who rotates passwords (a secret that a container sees as a file, a tool that
 * fetches one) changes the file; the next connection logs in with what it holds
 * then, and a login that the server has just refused is looked up once more. It
 * is a function that gives logins like a program's (login.c), so the file is
 * read on that thread: a file system that hangs delays nobody else. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "driver/driver.h"
#include "store/host.h"

struct snib__passfile {
    char *user; /* NULL: the server's default user */
    char path[];
};

/* Up to the first line's end. Returns what went wrong; NULL: nothing. */
static const char *passfile_read(int fd, char *to, size_t size)
{
    size_t used = 0;
    ssize_t n = 1;
    while (n && used < size) {
        n = read(fd, to + used, size - used);
        if (n < 0 && errno != EINTR) {
            return strerror(errno);
        }
        used += n > 0 ? (size_t)n : 0;
    }
    char *end = memchr(to, '\n', used);
    size_t length = end ? (size_t)(end - to) : used;
    length -= length && to[length - 1] == '\r';
    if (length >= size) {
        return "its first line is longer than any password";
    }
    explicit_bzero(to + length, size - length);
    return length ? NULL : "its first line is empty";
}

static snib_err passfile_fail(struct snib_login *l, const char *path,
                              const char *why)
{
    explicit_bzero(l->password, sizeof l->password);
    snprintf(l->text, sizeof l->text, "password_file=%.120s: %s", path, why);
    return SNIB_ERR_CONFIG;
}

static snib_err passfile_login(void *data, struct snib_login *l)
{
    const struct snib__passfile *f = data;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) { /* descriptors that lack are no refusal */
        struct snib_error lack = {.code = SNIB_ERR_OK};
        int e = errno;
        if (snib__host_lacks(e, "the password_file", &lack) != SNIB_ERR_LIMIT) {
            return passfile_fail(l, f->path, strerror(e));
        }
        snprintf(l->text, sizeof l->text, "%s", lack.text);
        return SNIB_ERR_LIMIT;
    }
    const char *why = passfile_read(fd, l->password, sizeof l->password);
    close(fd);
    if (why) {
        return passfile_fail(l, f->path, why);
    }
    snprintf(l->user, sizeof l->user, "%s", f->user ? f->user : "");
    return SNIB_ERR_OK;
}

snib_err snib__passfile_open(struct snib_client *c, const struct snib__url *url,
                             struct snib_error *reterr)
{
    const char *path = snib__url_query(url, "password_file");
    if (!path) {
        return SNIB_ERR_OK;
    }
    if (c->logins.ask || url->password) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: password_file= and another login, in the "
                          "URL or by the option login; leave one of them out",
                          url->safe);
    }
    if (url->user && strlen(url->user) >= sizeof c->logins.answer->user) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: a user has at most 255 bytes", url->safe);
    }
    struct snib__passfile *f = snib__alloc(sizeof *f + strlen(path) + 1);
    c->logins.file = f;
    if (f) {
        memcpy(f->path, path, strlen(path) + 1);
        f->user = snib__strdup(url->user);
    }
    if (!f || (url->user && !f->user) ||
        !(c->logins.answer = snib__alloc(sizeof *c->logins.answer))) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    c->logins.ask = passfile_login;
    c->logins.data = f;
    return SNIB_ERR_OK;
}

void snib__passfile_free(struct snib_client *c)
{
    if (c->logins.file) {
        snib__free(c->logins.file->user);
        snib__free(c->logins.file);
        c->logins.file = NULL;
    }
}
