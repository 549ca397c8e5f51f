/* URLs: no crash, no password shown, and what is shown parses to the same. */
#include "fuzz.h"

#include <ctype.h>
#include <stdio.h>

#include "core/url.h"

#define SECRET "hunter2"

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static void shown_again(const struct snib__url *u)
{
    struct snib__url *v;
    struct snib_error e;
    for (const char *c = u->safe; *c; c++) {
        MUST(*c > 0x20 && *c < 0x7f);
    }
    if (strstr(u->safe, "***")) {
        return; /* something is hidden: it cannot be the same               */
    }
    MUST(snib__url_parse(u->safe, &v, &e) == SNIB_ERR_OK);
    MUST(same(u->scheme, v->scheme) && same(u->host, v->host));
    MUST(same(u->user, v->user) && same(u->path, v->path));
    MUST(same(u->safe, v->safe));
    MUST(u->port == v->port && u->queries == v->queries);
    for (uint32_t i = 0; i < u->queries; i++) {
        MUST(same(snib__url_query(v, u->query[i].key), u->query[i].value));
    }
    snib__url_free(v);
}

/* Does it say the password itself, in whatever spelling? */
static bool says_secret(const char *text)
{
    char plain[512];
    size_t n = 0;
    for (const char *c = text; *c && n < sizeof plain - 1; c++) {
        char hex[3] = {c[0] == '%' ? c[1] : 0, c[0] == '%' && c[1] ? c[2] : 0};
        char *end;
        long byte = strtol(hex, &end, 16);
        bool coded = isxdigit((unsigned char)hex[0]) && end == hex + 2;
        plain[n++] = coded ? (char)byte : *c;
        c += coded ? 2 : 0;
    }
    plain[n] = 0;
    return strstr(text, SECRET) || strstr(plain, SECRET);
}

/* The input as the user name of a URL with a password we know. */
static void with_password(const char *text)
{
    char url[512];
    struct snib__url *u;
    struct snib_error e = {0};
    int n = snprintf(url, sizeof url, "redis://%s:" SECRET "@h/%s", text, text);
    if (n >= (int)sizeof url || says_secret(text)) {
        return;
    }
    if (snib__url_parse(url, &u, &e) == SNIB_ERR_OK) {
        MUST(!strstr(u->safe, SECRET));
        snib__url_free(u);
    } else {
        MUST(!strstr(e.text, SECRET));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = string_of(data, size);
    struct snib__url *u;
    struct snib_error e;
    if (snib__url_parse(text, &u, &e) == SNIB_ERR_OK) {
        MUST(u->scheme && u->path && u->safe);
        shown_again(u);
        snib__url_free(u);
    } else {
        MUST(e.code == SNIB_ERR_USAGE && e.text[0]);
    }
    with_password(text);
    free(text);
    return 0;
}
