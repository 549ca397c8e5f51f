/* core/url_show.c — a URL as it may be shown: without its password. */
#include "core/url_show.h"

#include <string.h>

struct showing {
    const struct snib__url *url;
    char *to;
};

static bool url_show_as_is(char c, const char *also)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || (c && strchr(also, c));
}

static void url_show_coded(struct showing *p, const char *s, const char *also)
{
    static const char digits[] = "0123456789ABCDEF";
    for (; *s; s++) {
        if (url_show_as_is(*s, also)) {
            *p->to++ = *s;
        } else {
            *p->to++ = '%';
            *p->to++ = digits[(uint8_t)*s >> 4];
            *p->to++ = digits[(uint8_t)*s & 15];
        }
    }
}

static void url_show_plain(struct showing *p, const char *s)
{
    size_t n = strlen(s);
    memcpy(p->to, s, n);
    p->to += n;
}

static void url_show_host(struct showing *p, const char *host, uint16_t port)
{
    if (host && strchr(host, ':')) {
        url_show_plain(p, "[");
        url_show_coded(p, host, "-._:");
        url_show_plain(p, "]");
    } else if (host) {
        url_show_plain(p, host);
    }
    if (port) {
        char digits[6], *at = digits + sizeof digits - 1;
        *at = 0;
        for (uint32_t n = port; n; n /= 10) {
            *--at = (char)('0' + n % 10);
        }
        url_show_plain(p, ":");
        url_show_plain(p, at);
    }
}

static void url_show_authority(struct showing *p)
{
    const struct snib__url *url = p->url;
    url_show_plain(p, "//");
    if (url->user && !url->password) {
        url_show_plain(
            p, SNIB__URL_MASK); /* no store takes it: a mistyped password */
    } else if (url->user) {
        url_show_coded(p, url->user, "-._~");
    }
    if (url->password) {
        url_show_plain(p, ":" SNIB__URL_MASK);
    }
    if (url->user || url->password) {
        url_show_plain(p, "@");
    }
    url_show_host(p, url->host, url->port);
    for (uint32_t i = 0; i < url->nodes; i++) {
        url_show_plain(p, i ? "," : "");
        url_show_host(p, url->node[i].host, url->node[i].port);
    }
}

/* "redis:anna:secret@host", where "//" was forgotten, parses as a path, and
 * "anna:secret@host" as scheme and path. File names may hold an '@' too: a path
 * is shown when it starts like a file's and has no ':' before the '@'. */
static const char *url_show_behind_login(const char *path)
{
    const char *at = strrchr(path, '@');
    if (!at || ((*path == '/' || *path == '.') &&
                !memchr(path, ':', (size_t)(at - path)))) {
        return NULL;
    }
    return at;
}

/* The command line blanks the same fields (cli/store/storeurl.c), and has only
 * public headers; unit.storeurl gives both one table. */
static bool url_show_is_secret(const char *key)
{
    static const char *const words[] = {"pass",  "secret", "auth",
                                        "token", "cred",   "pwd"};
    if (!strcmp(key, "password_file")) {
        return false; /* a path */
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasestr(key, words[i])) {
            return true;
        }
    }
    return false;
}

void snib__url_show(struct snib__url *url, bool opaque, char *to)
{
    static const char value_also[] = "-._~/:,+";
    const char *path_also = opaque ? "-._~/:,+@" : value_also;
    struct showing showing = {url, to}, *p = &showing;
    url->safe = to;
    url_show_plain(p, url->scheme);
    url_show_plain(p, ":");
    const char *path = url->path;
    if (!opaque) {
        url_show_authority(p);
    } else if (url_show_behind_login(path)) {
        path = url_show_behind_login(path);
        url_show_plain(p, SNIB__URL_MASK);
    } else if (strncmp(path, "//", 2) == 0) {
        url_show_plain(p, "/%2F"); /* "//" would start a host */
        path += 2;
    }
    url_show_coded(p, path, path_also);
    for (uint32_t i = 0; i < url->queries; i++) {
        url_show_plain(p, i ? "&" : "?");
        url_show_coded(p, url->query[i].key, "-._~");
        url_show_plain(p, "=");
        if (url_show_is_secret(url->query[i].key)) {
            url_show_plain(p, SNIB__URL_MASK);
        } else {
            url_show_coded(p, url->query[i].value, value_also);
        }
    }
    *p->to = 0;
}
