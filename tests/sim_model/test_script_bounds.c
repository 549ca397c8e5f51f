/*
 * test_script_bounds.c — what the scripts take, and what they refuse
 *
 * For each argument of each script a rule says what it may be. The test tries
 * the least and the most, what lies just outside, and what is no number or no
 * id at all. Whoever is taken gets the reply that the script's head promises,
 * with the values of the call in it. Whoever is refused gets the refusal word
 * for word, and nothing is changed: no key, no time to live, no message, in a
 * store where anybody whom it let in would find something to do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "script_rules.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

/* -- stores --------------------------------------------------------------------- */

static struct rig *rig;

static void do_line(const char *line)
{
    char text[400], *word[RIG_WORDS], *told = NULL;
    size_t size;
    struct rig_call c;
    FILE *out = open_memstream(&told, &size);
    snprintf(text, sizeof text, "%s", line);
    rig_call_init(&c, word, rig_words(text, word), rig_now(rig));
    rig_send(rig, &c, out);
    rig_call_free(&c);
    (void)fclose(out);
    assert_true(told[0] == '{' && told[1] != '0');
    free(told);
}

/* Something to do for whoever comes: the holder's lease is over, who waits is
 * alive and listens, a change of the value is known. */
static void make_busy(void)
{
    rig_reset(rig);
    rig_set_now(rig, (RIG_T0_MS - 5000) * 1000);
    do_line("acquire c1 lease=4000");
    do_line("params c2 what=size number=9");
    do_line("value_put c3");
    do_line("acquire c4 lock=m");
    rig_set_now(rig, (RIG_T0_MS - 2000) * 1000);
    do_line("acquire d1 wait=1");
    do_line("acquire e1 wait=1");
    rig_listen(rig, "snib:dddddddddddddddddddddddddddddddd");
    rig_set_now(rig, RIG_T0_MS * 1000);
}

/* -- replies --------------------------------------------------------------------- */

/* A reply with the call's values in the place of @name. */
static char *promised(const struct rig_call *c, const char *reply)
{
    char *text = NULL, name[20];
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (const char *p = reply; *p;) {
        if (*p != '@') {
            fputc(*p++, out);
            continue;
        }
        size_t n = strspn(p + 1, "abcdefghijklmnopqrstuvwxyz");
        snprintf(name, sizeof name, "%.*s", (int)n, p + 1);
        p += n + 1;
        int64_t number = RIG_T0_MS;
        int at = rig_arg_at(c->shape, name),
            floor = rig_arg_at(c->shape, "floor");
        if (!strcmp(name, "token")) {
            int64_t above = strtoll(c->arg[floor], NULL, 10) + 1;
            number = above > RIG_T0_MS * 1024 ? above : RIG_T0_MS * 1024;
        } else if (at >= 0) {
            number = strtoll(c->arg[at], NULL, 10);
        }
        fprintf(out, "%lld", (long long)number);
    }
    (void)fclose(out);
    return text;
}

/* "-": the script's own refusal; "-SNIB…": one that begins so. */
static bool is_promised(const struct rig_call *c, const char *reply,
                        const char *told)
{
    char own[80];
    snprintf(own, sizeof own, "-SNIBARG %s: bad arguments", c->shape->name);
    if (reply[0] == '-') {
        return reply[1] ? strncmp(told, reply, strlen(reply)) == 0 &&
                              told[strlen(reply)] == ' '
                        : strcmp(told, own) == 0;
    }
    char *text = promised(c, reply);
    bool good = strcmp(text, told) == 0;
    free(text);
    return good;
}

static bool is_refusal(const char *reply)
{
    return reply[0] == '-' || strcmp(reply, LATE) == 0;
}

static void show(const struct rig_call *c, const char *reply, const char *what)
{
    char *told = NULL, *changed = NULL;
    size_t size;
    bool refused = is_refusal(reply);
    if (refused) {
        make_busy();
    } else {
        rig_reset(rig);
    }
    FILE *out = open_memstream(&told, &size);
    FILE *differ = open_memstream(&changed, &size);
    struct rig_keys *before = rig_keys_now(rig);
    rig_send(rig, c, out);
    struct rig_keys *after = rig_keys_now(rig);
    (void)rig_keys_differ(before, after, differ);
    rig_heard(rig, differ);
    (void)fclose(out);
    (void)fclose(differ);
    if (!is_promised(c, reply, told) || (refused && *changed)) {
        fail_msg("%s, %s: %.300s, expected %s%s%.600s", c->shape->name, what,
                 told, reply, refused ? "; changed: " : "",
                 refused ? changed : "");
    }
    rig_keys_free(before);
    rig_keys_free(after);
    free(told);
    free(changed);
}

/* -- one argument, one value --------------------------------------------------------- */

static const char *odd_reply(const struct subject *s, const char *arg,
                             const char *value)
{
    for (size_t i = 0; i < COUNT_OF(s->odd) && s->odd[i].arg; i++) {
        char *odd = rig_value(s->odd[i].value, rig_now(rig));
        bool same = !strcmp(s->odd[i].arg, arg) && !strcmp(odd, value);
        free(odd);
        if (same) {
            return s->odd[i].reply ? s->odd[i].reply : s->reply;
        }
    }
    return NULL;
}

static void begin_call(struct rig_call *c, const char *line)
{
    char text[400], *word[RIG_WORDS];
    snprintf(text, sizeof text, "%s", line);
    rig_call_init(c, word, rig_words(text, word), rig_now(rig));
}

static void try_value(const struct subject *s, const char *arg,
                      const char *value, bool good)
{
    struct rig_call c;
    char what[120];
    const char *odd = odd_reply(s, arg, value);
    begin_call(&c, s->call);
    int at = rig_arg_at(c.shape, arg);
    assert_true(at >= 0);
    free(c.arg[at]);
    c.arg[at] = strdup(value);
    snprintf(what, sizeof what, "%s \"%.60s\"", arg, value);
    show(&c, odd ? odd : good ? s->reply : "-", what);
    rig_call_free(&c);
}

static void try_number(const struct subject *s, const struct rule *r, int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)v);
    try_value(s, r->arg, text,
              v >= r->min && v <= r->max && (v >= 0 || r->kind == WHOLE));
}

static void try_size(const struct subject *s, const struct rule *r,
                     int64_t size, char fill)
{
    static char text[70000];
    memset(text, fill, (size_t)size);
    text[size] = 0;
    bool good = size >= r->min && size <= r->max;
    try_value(s, r->arg, text, good);
}

static void try_words(const struct subject *s, const struct rule *r)
{
    static const char *const words[] = {"x",   "-0",  "1.5", "",    " 1", "1 ",
                                        "0x1", "1e1", "+1",  "nan", "inf"};
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        try_value(s, r->arg, words[i], r->kind == YES);
    }
}

static void try_rule(const struct subject *s, const struct rule *r)
{
    static const struct rule id = {.min = 32, .max = 32};
    switch (r->kind) {
    case NUMBER:
    case WHOLE:
        try_number(s, r, r->min - 1);
        try_number(s, r, r->min);
        try_number(s, r, r->max);
        if (r->max < INT64_MAX) {
            try_number(s, r, r->max + 1);
        }
        try_number(s, r, INT64_C(1) << 53);
        try_words(s, r);
        break;
    case ID:
        for (int64_t size = 31; size <= 33; size++) {
            struct rule so = id;
            so.arg = r->arg;
            try_size(s, &so, size, 'b');
        }
        try_value(s, r->arg, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbg", false);
        try_value(s, r->arg, "", false);
        break;
    case BYTES:
        for (int64_t by = -1; by <= 1; by++) {
            try_size(s, r, r->min + by < 0 ? 0 : r->min + by, 'y');
            try_size(s, r, r->max + by, 'y');
        }
        break;
    case FLAG:
    case YES:
        try_value(s, r->arg, "0", true);
        try_value(s, r->arg, "1", true);
        try_value(s, r->arg, "2", r->kind == YES);
        try_words(s, r);
        break;
    }
}

static void each_argument_is_taken_within_its_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(subjects); i++) {
        const struct subject *s = &subjects[i];
        for (size_t k = 0; k < COUNT_OF(s->rule) && s->rule[k].arg; k++) {
            try_rule(s, &s->rule[k]);
        }
        for (size_t k = 0; k < COUNT_OF(s->odd) && s->odd[k].arg; k++) {
            char *value = rig_value(s->odd[k].value, rig_now(rig));
            try_value(s, s->odd[k].arg, value, false);
            free(value);
        }
    }
}

/* -- their number ----------------------------------------------------------------- */

static void each_script_counts_its_keys_and_arguments(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(subjects); i++) {
        const struct subject *s = &subjects[i];
        for (int what = 0; what < 5; what++) {
            struct rig_call c;
            begin_call(&c, s->call);
            int keys = c.keys, args = c.args;
            /* without the mark it is taken as well */
            c.keys += what == 1 ? -1 - c.shape->marked : what == 2;
            c.args += what == 3 ? -1 : what == 4;
            if (c.keys > keys) {
                c.key[keys] = strdup("snib:{n}:more");
            } else if (c.args > args) {
                c.arg[args] = strdup("0");
            }
            if (c.args >= 0 && c.keys >= 0 && (!what || !s->as_it_comes)) {
                show(&c, what ? "-" : s->reply,
                     what < 3 ? "another number of keys"
                              : "another number of arguments");
            }
            c.keys = keys > c.keys ? keys : c.keys;
            c.args = args > c.args ? args : c.args;
            rig_call_free(&c);
        }
    }
}

/* 128 grants are the most that one renewal takes. */
static void a_renewal_takes_so_many(void **state)
{
    (void)state;
    for (int count = 127; count <= 129; count++) {
        char *line = NULL;
        size_t size;
        FILE *out = open_memstream(&line, &size);
        struct rig_call c;
        begin_call(&c, "renew a");
        c.args = 1;
        for (int i = 0; i < count; i++) {
            c.key[c.keys++] = strdup("snib:{n}");
            c.key[c.keys++] = strdup("snib:{n}:r");
            c.arg[c.args++] = strdup("a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1");
            c.arg[c.args++] = strdup("7");
            c.arg[c.args++] = strdup("30000");
        }
        fputs("{@now", out);
        for (int i = 0; i < count; i++) {
            fputs(", 2", out);
        }
        fputs("}", out);
        (void)fclose(out);
        show(&c, count <= 128 ? line : "-", "so many");
        rig_call_free(&c);
        free(line);
    }
}

/* Each argument that a shape has is in a rule or among the odd ones. */
static bool is_ruled(const char *script, const char *arg)
{
    size_t n = strlen(script);
    for (size_t i = 0; i < COUNT_OF(subjects); i++) {
        const struct subject *s = &subjects[i];
        bool its = strncmp(s->call, script, n) == 0 &&
                   (s->call[n] == ' ' || !s->call[n]);
        for (size_t k = 0; its && k < COUNT_OF(s->rule); k++) {
            if (s->rule[k].arg && strcmp(s->rule[k].arg, arg) == 0) {
                return true;
            }
        }
        for (size_t k = 0; its && k < COUNT_OF(s->odd); k++) {
            if (s->odd[k].arg && strcmp(s->odd[k].arg, arg) == 0) {
                return true;
            }
        }
    }
    return false;
}

static void no_argument_is_left_out(void **state)
{
    (void)state;
    for (int i = 0; i < SNIB__SCRIPTS; i++) {
        const char *name = snib__redis_scripts[i].name;
        const struct rig_shape *s = rig_shape_named(name);
        assert_non_null(s);
        assert_int_equal(s->which, i);
        if (s->which == SNIB__SCRIPT_SEVERAL ||
            s->which == SNIB__SCRIPT_PROBE) {
            continue; /* acquire's, each; looks at none */
        }
        for (int k = 0; s->each[k].name; k++) {
            if (!is_ruled(name, s->each[k].name)) {
                fail_msg("%s: %s has no rule", name, s->each[k].name);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_argument_is_taken_within_its_bounds),
        cmocka_unit_test(each_script_counts_its_keys_and_arguments),
        cmocka_unit_test(a_renewal_takes_so_many),
        cmocka_unit_test(no_argument_is_left_out),
    };
    rig = rig_new();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rig_free(rig);
    return failed;
}
