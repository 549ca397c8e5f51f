/* core/url.c — a store URL taken apart.
 *
 *   URL       = scheme ":" ( "//" authority path | path ) [ "?" query ]
 *   authority = [ user [ ":" password ] "@" ]
 *               [ host [ ":" port ] *( "," host [ ":" port ] ) ]
 *   host      = name / IPv4 / "[" IPv6 [ "%25" zone ] "]"
 *   query     = key "=" value *( "&" key "=" value )
 *
 * It differs from RFC 3986 on purpose. '#' starts nothing. The user part ends
 * at the *last* '@' of the authority, since people paste passwords. '@' may not
 * stand raw behind the host: there it is the sign of a password with a raw '/'
 * or '?', which would be shown as part of the path.
 *
 * Secrets. No error text repeats any part of the input: in a malformed URL
 * nobody knows what stands where, and it may be the password. Everything lives
 * in one block that is wiped before it is freed. */
#include "core/url.h"

#include <string.h>

#include "base/error.h"
#include "base/list.h"
#include "base/mem.h"
#include "core/url_show.h"

enum {
    TEXT_MAX = 4096, /* longest URL */
    PARTS_MAX = 8 + SNIB__URL_NODES + 2 * SNIB__URL_PAIRS
};

struct block {
    struct snib__url url;
    size_t size; /* of the whole block, for wiping */
    char text[];
};

struct piece {
    const char *p;
    size_t size;
};

/* One parse. It decodes the parts into the block, one behind the other. */
struct parser {
    struct snib__url *url;
    struct snib_error *reterr;
    char *to;    /* next free byte of the block */
    bool opaque; /* "scheme:path", no authority */
};

static snib_err url_wrong(struct parser *p, const char *what)
{
    return snib__fail(p->reterr, SNIB_ERR_USAGE, "store URL: %s", what);
}

static bool url_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool url_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char url_lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static int url_hex_value(char c)
{
    if (url_is_digit(c)) {
        return c - '0';
    }
    c = url_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool url_has(struct piece s, char c)
{
    return s.size && memchr(s.p, c, s.size);
}

/* Returns what stands before the next `stop`; s moves behind it. found may be
 * NULL. */
static struct piece url_split(struct piece *s, char stop, bool *found)
{
    struct piece head = *s;
    const char *at = s->size ? memchr(s->p, stop, s->size) : NULL;
    if (at) {
        head.size = (size_t)(at - s->p);
        s->p = at + 1;
        s->size -= head.size + 1;
    } else {
        s->p += s->size;
        s->size = 0;
    }
    if (found) {
        *found = at != NULL;
    }
    return head;
}

/* -- parts ---------------------------------------------------------------- */

static char *url_keep(struct parser *p, struct piece s)
{
    char *text = p->to;
    memcpy(text, s.p, s.size);
    text[s.size] = 0;
    p->to += s.size + 1;
    return text;
}

static snib_err url_decode(struct parser *p, struct piece s, char **ret)
{
    char *to = p->to;
    for (size_t i = 0; i < s.size; i++) {
        int c = (uint8_t)s.p[i];
        if (c == '%') {
            bool two = s.size - i > 2;
            int high = two ? url_hex_value(s.p[i + 1]) : -1;
            int low = two ? url_hex_value(s.p[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return url_wrong(p, "'%' must be followed by two hexadecimal "
                                    "digits; a percent sign is written %25");
            }
            c = high * 16 + low;
            i += 2;
        }
        if (c < 0x20 || c == 0x7f) {
            return url_wrong(p, "a NUL or another control character is not "
                                "allowed, nor is its %XX form");
        }
        *to++ = (char)c;
    }
    *to++ = 0;
    *ret = p->to;
    p->to = to;
    return SNIB_ERR_OK;
}

static snib_err url_parse_scheme(struct parser *p, struct piece *text)
{
    bool found;
    struct piece rest = *text, scheme = url_split(&rest, ':', &found);
    if (!found || !scheme.size || !url_is_letter(scheme.p[0])) {
        return url_wrong(p, "it must start with a scheme, as in file:PATH or "
                            "redis://HOST");
    }
    for (size_t i = 0; i < scheme.size; i++) {
        char c = scheme.p[i];
        if (!url_is_letter(c) && !url_is_digit(c) && c != '+' && c != '-' &&
            c != '.') {
            return url_wrong(p, "it must start with a scheme, as in file:PATH "
                                "or redis://HOST");
        }
    }
    p->url->scheme = url_keep(p, scheme);
    for (char *c = p->url->scheme; *c; c++) {
        *c = url_lower(*c);
    }
    *text = rest;
    return SNIB_ERR_OK;
}

static snib_err url_parse_login(struct parser *p, struct piece login)
{
    bool has_password;
    struct piece user = url_split(&login, ':', &has_password);
    if (user.size) {
        snib_err err = url_decode(p, user, &p->url->user);
        if (err) {
            return err;
        }
    }
    return has_password ? url_decode(p, login, &p->url->password) : SNIB_ERR_OK;
}

static snib_err url_parse_port(struct parser *p, struct piece digits)
{
    uint32_t port = 0;
    bool good = digits.size >= 1 && digits.size <= 5;
    for (size_t i = 0; good && i < digits.size; i++) {
        good = url_is_digit(digits.p[i]);
        port = port * 10 + (uint32_t)(digits.p[i] - '0');
    }
    if (!good || port < 1 || port > 65535) {
        return url_wrong(p, "the port must be a number from 1 to 65535 (in a "
                            "password, '/' is written %2F and '?' %3F)");
    }
    p->url->port = (uint16_t)port;
    return SNIB_ERR_OK;
}

static bool url_good_name(struct piece host)
{
    for (size_t i = 0; i < host.size; i++) {
        char c = host.p[i];
        if (!url_is_letter(c) && !url_is_digit(c) && c != '.' && c != '-' &&
            c != '_') {
            return false;
        }
    }
    return host.size <= 253;
}

/* Checks what stands between the brackets, in shape only: the resolver knows
 * the rest. */
static bool url_good_ipv6(struct piece address, struct piece zone)
{
    for (size_t i = 0; i < address.size; i++) {
        char c = address.p[i];
        if (url_hex_value(c) < 0 && c != ':' && c != '.') {
            return false;
        }
    }
    return address.size >= 2 && address.size <= 45 && url_has(address, ':') &&
           zone.size <= 15 && url_good_name(zone);
}

static snib_err url_parse_ipv6(struct parser *p, struct piece inside)
{
    bool zoned;
    struct piece zone = inside, address = url_split(&zone, '%', &zoned);
    if (zoned) { /* RFC 6874: the '%' itself is written %25 */
        if (zone.size < 3 || memcmp(zone.p, "25", 2) != 0) {
            return url_wrong(p, "an IPv6 zone is written [ADDRESS%25ZONE]");
        }
        zone.p += 2;
        zone.size -= 2;
    }
    if (!url_good_ipv6(address, zone)) {
        return url_wrong(p, "between the brackets must stand an IPv6 address");
    }
    p->url->host = url_keep(p, address);
    if (zoned) {
        p->to[-1] = '%';
        url_keep(p, zone);
    }
    return SNIB_ERR_OK;
}

static snib_err url_parse_host(struct parser *p, struct piece s)
{
    bool has_port = false;
    if (s.size && s.p[0] == '[') {
        bool closed;
        s.p++;
        s.size--;
        struct piece inside = url_split(&s, ']', &closed);
        if (!closed || (s.size && s.p[0] != ':')) {
            return url_wrong(p, "an IPv6 address is written [ADDRESS] or "
                                "[ADDRESS]:PORT");
        }
        snib_err err = url_parse_ipv6(p, inside);
        if (err || !s.size) {
            return err;
        }
        s.p++;
        s.size--;
        return url_parse_port(p, s);
    }
    struct piece host = url_split(&s, ':', &has_port);
    if (!url_good_name(host)) {
        return url_wrong(p, "the host has a character that no host name has "
                            "(in a password, '@' is written %40)");
    }
    if (host.size) {
        p->url->host = url_keep(p, host);
    } else if (has_port) {
        return url_wrong(p, "the host is empty");
    }
    return has_port ? url_parse_port(p, s) : SNIB_ERR_OK;
}

/* Several servers, separated by commas. */
static snib_err url_parse_hosts(struct parser *p, struct piece s)
{
    struct snib__url *url = p->url;
    bool more = true;
    while (more) {
        struct piece one = url_split(&s, ',', &more);
        if (url->nodes == SNIB__URL_NODES) {
            return url_wrong(p, "a list has at most 7 hosts");
        }
        if (!one.size) {
            return url_wrong(p, "a host is empty; several are written "
                                "HOST[:PORT],HOST[:PORT],HOST[:PORT]");
        }
        snib_err err = url_parse_host(p, one);
        if (err) {
            return err;
        }
        url->node[url->nodes].host = url->host;
        url->node[url->nodes++].port = url->port;
        url->host = NULL;
        url->port = 0;
    }
    return SNIB_ERR_OK;
}

/* These are always lists, also of one. */
static bool url_lists_hosts(const struct snib__url *url)
{
    return !strncmp(url->scheme, "redlock", 7) || snib__url_is_sentinel(url) ||
           snib__url_is_cluster(url);
}

static snib_err url_parse_authority(struct parser *p, struct piece s)
{
    const char *at = s.size ? memrchr(s.p, '@', s.size) : NULL;
    if (at) {
        struct piece login = {s.p, (size_t)(at - s.p)};
        s.size -= login.size + 1;
        s.p = at + 1;
        snib_err err = url_parse_login(p, login);
        if (err) {
            return err;
        }
    }
    return url_lists_hosts(p->url) || url_has(s, ',') ? url_parse_hosts(p, s)
                                                      : url_parse_host(p, s);
}

static snib_err url_parse_query(struct parser *p, struct piece s)
{
    struct snib__url *url = p->url;
    while (s.size) {
        bool has_value;
        struct piece value = url_split(&s, '&', NULL);
        struct piece key = url_split(&value, '=', &has_value);
        char *text;
        if (!key.size || !has_value) {
            return url_wrong(p,
                             "behind '?' must stand key=value, several joined "
                             "by '&'");
        }
        if (url->queries == SNIB__URL_PAIRS) {
            return url_wrong(p, "too many key=value pairs");
        }
        snib_err err = url_decode(p, key, &text);
        if (err) {
            return err;
        }
        if (snib__url_query(url, text)) {
            return url_wrong(p, "a key stands twice behind '?'");
        }
        url->query[url->queries].key = text;
        err = url_decode(p, value, &url->query[url->queries].value);
        if (err) {
            return err;
        }
        url->queries++;
    }
    return SNIB_ERR_OK;
}

/* A socket's path stands in the host's place. */
static bool url_may_lack_host(const struct snib__url *url)
{
    size_t n = strlen(url->scheme);
    return (n > 5 && strcmp(url->scheme + n - 5, "+unix") == 0) ||
           snib__url_query(url, "socket");
}

static snib_err url_raw_at(struct parser *p)
{
    return url_wrong(p,
                     "'@' behind the host is written %40 (in a password, '/' "
                     "is written %2F and '?' %3F)");
}

static snib_err url_parse_rest(struct parser *p, struct piece text)
{
    bool has_query;
    p->opaque = text.size < 2 || memcmp(text.p, "//", 2) != 0;
    struct piece query = text, path = url_split(&query, '?', &has_query);
    if (url_has(query, '@')) {
        return url_raw_at(p);
    }
    if (!p->opaque) {
        path.p += 2;
        path.size -= 2;
        struct piece authority = path;
        const char *slash = path.size ? memchr(path.p, '/', path.size) : NULL;
        authority.size = slash ? (size_t)(slash - path.p) : path.size;
        path.p += authority.size;
        path.size -= authority.size;
        if (url_has(path, '@')) {
            return url_raw_at(p);
        }
        snib_err err = url_parse_authority(p, authority);
        if (err) {
            return err;
        }
    }
    snib_err err = url_decode(p, path, &p->url->path);
    if (!err && has_query) {
        err = url_parse_query(p, query);
    }
    if (!err && !p->opaque && !p->url->host && !p->url->nodes &&
        !url_may_lack_host(p->url)) {
        err = url_wrong(p, "the host is empty; a file is written scheme:/PATH, "
                           "with one slash");
    }
    return err;
}

/* -- the header's functions ----------------------------------------------- */

snib_err snib__url_parse(const char *text, struct snib__url **ret,
                         struct snib_error *reterr)
{
    struct parser p = {.reterr = reterr};
    *ret = NULL;
    struct piece rest = {text, text ? strnlen(text, TEXT_MAX + 1) : 0};
    if (!rest.size) {
        return url_wrong(&p, "it is empty");
    }
    if (rest.size > TEXT_MAX) {
        return url_wrong(&p, "it is too long (more than 4096 bytes)");
    }
    /* Decoded parts are no longer than the text and end in a NUL each; then the
     * shown spelling. */
    size_t size = sizeof(struct block) + 4 * rest.size +
                  (size_t)PARTS_MAX * (sizeof SNIB__URL_MASK + 4);
    struct block *b = snib__alloc(size);
    if (!b) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    b->size = size;
    p.url = &b->url;
    p.to = b->text;
    snib_err err = url_parse_scheme(&p, &rest);
    if (!err) {
        err = url_parse_rest(&p, rest);
    }
    if (err) {
        snib__url_free(&b->url);
        return err;
    }
    snib__url_show(p.url, p.opaque, p.to);
    *ret = &b->url;
    return SNIB_ERR_OK;
}

void snib__url_free(struct snib__url *url)
{
    if (url) {
        struct block *b = SNIB__CONTAINER(url, struct block, url);
        explicit_bzero(b, b->size);
        snib__free(b);
    }
}
