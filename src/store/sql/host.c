/* store/sql/host.c — this host, for the stores in databases across a network.
 *
 * Their threads wait here and nowhere else (but for the look-up of a host name,
 * here and inside the database's library), so that a server that is silent keeps a thread
 * no longer than was promised. */
#include "store/sql/host.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "store/host.h"

snib_instant snib__sql_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (snib_instant){ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec};
}

void snib__sql_host_name(char ret[65])
{
    memset(ret, 0, 65);
    if (gethostname(ret, 64)) {
        ret[0] = 0;
    }
    for (char *c = ret; *c; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                     (*c >= '0' && *c <= '9') || *c == '.' || *c == '-';
        *c = plain ? *c : '_';
    }
}

bool snib__sql_wait(int socket, int stop, bool to_read, bool to_write,
                    snib_instant until)
{
    struct pollfd fd[2] = {{.fd = socket}, {.fd = stop, .events = POLLIN}};
    fd[0].events = (short)((to_read ? POLLIN : 0) | (to_write ? POLLOUT : 0));
    for (;;) {
        int64_t ns = snib__between(snib__sql_now(), until).ns;
        if (ns <= 0) {
            return false;
        }
        int64_t ms = ns / 1000000 + 1;
        int n = poll(fd, 2, ms < 60000 ? (int)ms : 60000);
        if (n > 0) {
            return fd[1].revents == 0;
        }
    }
}

/* The library's text of a name that it could not resolve may be in any language,
 * and does not tell a name that nobody knows from a resolver that is away. */
bool snib__sql_no_such_host(const char *host)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int err = getaddrinfo(host, NULL, &hints, &found);
    if (!err) {
        freeaddrinfo(found);
    }
    return err == EAI_NONAME || err == EAI_NODATA;
}

/* libmariadb tells the number, libpq the words. Either may have met the want on
 * the way and tell of something else, so it is tried, too. */
bool snib__sql_lacks_descriptor(const char *where, const char *text,
                                struct snib_error *e)
{
    char what[300], number[12];
    struct snib_error why = {.code = SNIB_ERR_OK};
    int fd = eventfd(0, EFD_CLOEXEC), none = fd < 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
    }
    snprintf(number, sizeof number, "(%d)", EMFILE);
    if (text && (strstr(text, strerror(EMFILE)) || strstr(text, number))) {
        none = EMFILE;
    }
    snprintf(what, sizeof what, "a connection to %s", where);
    if (snib__host_lacks(none, what, &why) != SNIB_ERR_LIMIT) {
        return false;
    }
    snib__fail(e, why.code, "%s", why.text);
    return true;
}

const char *snib__sql_authorities(const char *ca)
{
    static const char *const usual[] = {
        "/etc/ssl/certs/ca-certificates.crt", /* Debian, Arch */
        "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
        "/etc/ssl/ca-bundle.pem",             /* SUSE */
        "/etc/ssl/cert.pem",                  /* Alpine */
    };
    if (ca) {
        return ca;
    }
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        if (access(usual[i], R_OK) == 0) {
            return usual[i];
        }
    }
    return usual[0];
}
