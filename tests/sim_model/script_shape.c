/*
 * script_shape.c — a line of text as the call of a script; see script_rig.h
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "script_rig.h"

#define FIVE_KEYS "", ":t", ":q", ":w", ":a"
#define ACQUIRE_ARGS                                                           \
    {"client", "~@"}, {"request", "~@@"}, {"lease", "30000"}, {"wait", "0"},   \
        {"poll", "1"}, {"until", "now+9900"}, {"floor", "0"}, {"room", "31"},  \
        {"prior", "0"}, {"channel", "snib:~@"}, {"mode", "0"},                 \
        {"permits", "1"}, {"window", "3000"}, {"about", "host=h"},             \
        {"size", "0"},                                                         \
    {                                                                          \
        "class", "128"                                                         \
    }

static const struct rig_shape shapes[] = {
    {"acquire",
     SNIB__SCRIPT_ACQUIRE,
     false,
     {FIVE_KEYS, ":x:@", ":c"},
     {{NULL, NULL}},
     {ACQUIRE_ARGS},
     true},
    {"several",
     SNIB__SCRIPT_SEVERAL,
     true,
     {FIVE_KEYS, ":x:@", ":c"},
     {{"all", "1"}},
     {ACQUIRE_ARGS},
     true},
    {"release",
     SNIB__SCRIPT_RELEASE,
     false,
     {FIVE_KEYS, ":r", ":c"}, /* and :x:@, with a tombstone */
     {{NULL, NULL}},
     {{"client", "~@"},
      {"request", "~@@"},
      {"token", "t+0"},
      {"tomb", "0"},
      {"copies", "now+9900"}},
     true},
    {"cancel",
     SNIB__SCRIPT_CANCEL,
     false,
     {FIVE_KEYS, ":x:@", ":c"},
     {{NULL, NULL}},
     {{"client", "~@"},
      {"request", "~@@"},
      {"prior", "0"},
      {"copies", "now+9900"}},
     true},
    {"renew",
     SNIB__SCRIPT_RENEW,
     true,
     {"", ":r"},
     {{"client", "~@"}},
     {{"request", "~@@"}, {"token", "t+0"}, {"lease", "30000"}},
     false},
    {"drop",
     SNIB__SCRIPT_DROP,
     false,
     {""},
     {{NULL, NULL}},
     {{"request", "~@@"}},
     false},
    {"keep",
     SNIB__SCRIPT_KEEP,
     false,
     {FIVE_KEYS, ":x:@", ":r", ":c"},
     {{NULL, NULL}},
     {{"client", "~@"},
      {"request", "~@@"},
      {"token", "t+0"},
      {"memory", "t+31"},
      {"lease", "30000"},
      {"how", "1"},
      {"until", "now+9900"},
      {"room", "31"},
      {"about", "host=h"}},
     true},
    {"force",
     SNIB__SCRIPT_FORCE,
     false,
     {FIVE_KEYS, ":r", ":c"},
     {{NULL, NULL}},
     {{"why", "bad release"}},
     true},
    {"params",
     SNIB__SCRIPT_PARAMS,
     false,
     {FIVE_KEYS, ":x:@", ":c"},
     {{NULL, NULL}},
     {{"client", "~@"},
      {"request", "~@@"},
      {"what", "get"},
      {"number", "0"},
      {"until", "now+9900"}},
     true},
    {"inspect",
     SNIB__SCRIPT_INSPECT,
     false,
     {FIVE_KEYS, ":c"},
     {{NULL, NULL}},
     {{"from", "0"}, {"count", "100"}},
     false},
    {"value_get",
     SNIB__SCRIPT_VALUE_GET,
     false,
     {":v"},
     {{NULL, NULL}},
     {{NULL, NULL}},
     false},
    {"value_put",
     SNIB__SCRIPT_VALUE_PUT,
     false,
     {":v", ":u"},
     {{NULL, NULL}},
     {{"request", "~@@"},
      {"expected", "0"},
      {"keep", "60000"},
      {"again", "0"},
      {"age", "0"},
      {"until", "now+9900"},
      {"floor", "0"},
      {"bytes", "bytes"}},
     false},
    {"probe",
     SNIB__SCRIPT_PROBE,
     false,
     {":h", ":s", ":z", ":m"},
     {{NULL, NULL}},
     {{"channel", "snib:~@"}},
     false},
    {"epoch",
     SNIB__SCRIPT_EPOCH,
     false,
     {"=snib:epoch", "=snib:m"},
     {{NULL, NULL}},
     {{"recovery", "30000"}, {"wish", "0"}},
     false},
    {"ears",
     SNIB__SCRIPT_EARS,
     false,
     {NULL},
     {{NULL, NULL}},
     {{NULL, NULL}},
     false},
};

static void *checked(void *p)
{
    if (!p) {
        abort();
    }
    return p;
}

const struct rig_shape *rig_shape_named(const char *name)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (strcmp(shapes[i].name, name) == 0) {
            return &shapes[i];
        }
    }
    return NULL;
}

int rig_words(char *line, char *word[RIG_WORDS])
{
    int n = 0;
    for (char *p = line; n < RIG_WORDS;) {
        p += strspn(p, " \n");
        if (!*p) {
            break;
        }
        char *to = word[n++] = p;
        for (bool quoted = false; *p && (quoted || !strchr(" \n", *p)); p++) {
            if (*p == '"') {
                quoted = !quoted;
            } else {
                *to++ = *p;
            }
        }
        p += *p != 0;
        *to = 0;
    }
    return n;
}

/* ~a1: the two digits sixteen times; so one, or four. Returns what is behind. */
static const char *put_id(FILE *out, const char *p)
{
    size_t n = 1;
    while (n < 4 && isxdigit((unsigned char)p[n])) {
        n++;
    }
    n -= n == 3;
    for (size_t i = 0; i < 32; i++) {
        fputc(p[i % n], out);
    }
    return p + n;
}

char *rig_value(const char *text, int64_t now_us)
{
    char *value = NULL;
    size_t size;
    FILE *out = checked(open_memstream(&value, &size));
    if (strncmp(text, "now", 3) == 0) {
        fprintf(out, "%lld",
                (long long)(now_us / 1000 + strtoll(text + 3, NULL, 10)));
    } else if (strncmp(text, "t+", 2) == 0 || strncmp(text, "t-", 2) == 0) {
        fprintf(out, "%lld",
                (long long)(RIG_T0_MS * 1024 + strtoll(text + 1, NULL, 10)));
    } else {
        for (const char *p = text; *p;) {
            if (p[0] == '~' && isxdigit((unsigned char)p[1])) {
                p = put_id(out, p + 1);
            } else {
                fputc(*p++, out);
            }
        }
    }
    (void)fclose(out);
    return value;
}

/* A part's own words: who, the name of its lock, arguments. */
struct part {
    const char *who, *lock;
    char *const *word;
    int words;
};

static struct part part_of(char *const word[], int words)
{
    struct part p = {"a1", "n", word, words};
    for (int i = 0; i < words; i++) {
        if (strncmp(word[i], "lock=", 5) == 0) {
            p.lock = word[i] + 5;
        } else if (!strchr(word[i], '=')) {
            p.who = word[i];
        }
    }
    return p;
}

/* With @@ for the request, @ for the client. */
static char *usual_of(const struct part *p, const char *usual)
{
    char *text = NULL;
    size_t size;
    FILE *out = checked(open_memstream(&text, &size));
    for (const char *c = usual; *c; c++) {
        if (c[0] == '@' && c[1] == '@') {
            fputs(p->who, out);
            c++;
        } else if (*c == '@') {
            fputc(p->who[0], out);
        } else {
            fputc(*c, out);
        }
    }
    (void)fclose(out);
    return text;
}

static void add_arg(struct rig_call *c, const struct part *p,
                    const struct rig_arg *a, int64_t now_us)
{
    size_t n = strlen(a->name);
    char *usual = usual_of(p, a->usual);
    const char *value = usual;
    for (int i = 0; i < p->words; i++) {
        if (strncmp(p->word[i], a->name, n) == 0 && p->word[i][n] == '=') {
            value = p->word[i] + n + 1;
        }
    }
    c->arg[c->args++] = rig_value(value, now_us);
    free(usual);
}

static void add_key(struct rig_call *c, const struct part *p,
                    const char *suffix)
{
    char text[200], id[8], *request;
    if (*suffix == '=') { /* of no lock */
        c->key[c->keys++] = checked(strdup(suffix + 1));
        return;
    }
    snprintf(id, sizeof id, "~%s", p->who);
    request = rig_value(id, 0);
    snprintf(text, sizeof text, "snib:{%s}%.*s%s", p->lock,
             (int)strcspn(suffix, "@"), suffix,
             strchr(suffix, '@') ? request : "");
    free(request);
    c->key[c->keys++] = checked(strdup(text));
}

static void add_part(struct rig_call *c, const struct part *p, int64_t now_us)
{
    const struct rig_shape *s = c->shape;
    for (int i = 0; i < 9 && s->key[i]; i++) {
        add_key(c, p, s->key[i]);
    }
    for (int i = 0; s->each[i].name; i++) {
        add_arg(c, p, &s->each[i], now_us);
    }
    if (s->which == SNIB__SCRIPT_RELEASE && !strcmp(c->arg[3], "1")) {
        add_key(c, p, ":x:@");
    }
}

static int slash(char *const word[], int words, int at)
{
    while (at < words && strcmp(word[at], "/") != 0) {
        at++;
    }
    return at;
}

void rig_call_init(struct rig_call *c, char *const word[], int words,
                   int64_t now_us)
{
    const struct rig_shape *s = rig_shape_named(word[0]);
    int at = s && s->parts ? slash(word, words, 1) : 0;
    *c = (struct rig_call){.shape = checked((void *)(uintptr_t)s)};
    struct part head = part_of(word + 1, at ? at - 1 : 0);
    for (int i = 0; s->head[i].name; i++) {
        add_arg(c, &head, &s->head[i], now_us);
    }
    for (int end; at < words; at = end) {
        end = s->parts ? slash(word, words, at + 1) : words;
        struct part p = part_of(word + at + 1, end - at - 1);
        add_part(c, &p, now_us);
    }
    bool marked = s->marked;
    const char *recovery = NULL;
    for (int i = 1; i < words; i++) {
        marked = marked && strcmp(word[i], "mark=0") != 0;
        recovery = strncmp(word[i], "epoch=", 6) ? recovery : word[i] + 6;
    }
    if (recovery) {
        c->arg[c->args++] = checked(strdup(recovery));
    }
    if (recovery || marked) {
        c->key[c->keys++] = checked(strdup(recovery ? "snib:epoch" : "snib:m"));
    }
}

void rig_call_free(struct rig_call *c)
{
    for (int i = 0; i < c->keys; i++) {
        free(c->key[i]);
    }
    for (int i = 0; i < c->args; i++) {
        free(c->arg[i]);
    }
}

int rig_arg_at(const struct rig_shape *s, const char *name)
{
    int at = 0;
    for (int i = 0; s->head[i].name; i++, at++) {
        if (strcmp(s->head[i].name, name) == 0) {
            return at;
        }
    }
    for (int i = 0; s->each[i].name; i++, at++) {
        if (strcmp(s->each[i].name, name) == 0) {
            return at;
        }
    }
    return -1;
}
