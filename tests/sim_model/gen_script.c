/*
 * gen_script.c — random Lua scripts
 *
 * Five kinds: a random value returned (conversion out of Lua); random
 * commands called and their answers returned, inspected or rethrown
 * (conversion into Lua, redis.call against redis.pcall); numbers to text and
 * back (the model has short ways for the plain cases); a fixed collection of
 * scripts that fail or touch the sandbox; and scripts sent by name.
 */
#include "gen.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct text {
    char p[4096];
    size_t n;
};

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
put(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int w = vsnprintf(t->p + t->n, sizeof t->p - t->n, fmt, ap);
    va_end(ap);
    if (w > 0 && t->n + (size_t)w < sizeof t->p) {
        t->n += (size_t)w;
    }
}

static void put_literal(struct text *t, const char *p, size_t n)
{
    put(t, "'");
    for (size_t i = 0; i < n; i++) {
        put(t, "\\%03d", (unsigned char)p[i]);
    }
    put(t, "'");
}

/* ---- values ------------------------------------------------------------ */

static void value(struct rng *r, struct text *t, int depth)
{
    static const char *const scalars[] = {"1",
                                          "0",
                                          "-1",
                                          "2.7",
                                          "-2.7",
                                          "1e15",
                                          "1/0",
                                          "-1/0",
                                          "0/0",
                                          "1e300",
                                          "9007199254740993",
                                          "true",
                                          "false",
                                          "nil",
                                          "'x'",
                                          "''",
                                          "'a\\r\\nb'",
                                          "'\\0z'",
                                          "function() end",
                                          "KEYS[1]",
                                          "ARGV[1]",
                                          "ARGV[2]",
                                          "#ARGV",
                                          "KEYS",
                                          "ARGV",
                                          "9223372036854775807",
                                          "2^53",
                                          "-2^63",
                                          "2^31",
                                          "1e18",
                                          "_VERSION",
                                          "'str'",
                                          "-0.5",
                                          "0.99999"};
    static const char *const special[] = {"{ok='fine'}",
                                          "{err='MY error'}",
                                          "{err='plain'}",
                                          "{ok=1}",
                                          "{err=1}",
                                          "{ok='a\\r\\nb'}",
                                          "{err='a\\r\\nb c'}",
                                          "{[0]=1,[1]=2}",
                                          "{n=3}",
                                          "{err='MY e',source='s',line=3}",
                                          "{1,err='both'}",
                                          "{ok='y',1,2}",
                                          "redis.error_reply('MY err')",
                                          "redis.error_reply('one')",
                                          "redis.error_reply('-A b')",
                                          "redis.error_reply('')",
                                          "redis.status_reply('st')",
                                          "redis.status_reply(1)",
                                          "redis.error_reply()",
                                          "redis.error_reply({})",
                                          "redis.error_reply('-')",
                                          "redis.error_reply('- x')",
                                          "redis.error_reply('A  b')"};
    if (depth > 0 && rng_chance(r, 40)) {
        put(t, "{");
        for (size_t n = rng_below(r, 5); n > 0; n--) {
            value(r, t, depth - 1);
            put(t, ",");
        }
        put(t, "}");
    } else if (rng_chance(r, 30)) {
        put(t, "%s", RNG_PICK(r, special));
    } else {
        put(t, "%s", RNG_PICK(r, scalars));
    }
}

/* ---- calls ------------------------------------------------------------- */

static void call(struct rng *r, struct text *t, const char *how)
{
    struct request q;
    gen_command(r, &q, true);
    put(t, "redis.%s(", how);
    for (int i = 0; i < q.argc; i++) {
        const char *p = q.bytes + q.off[i];
        static const char *const odd[] = {"1.5",
                                          "1e15",
                                          "-3",
                                          "1e20",
                                          "0.1",
                                          "2^53",
                                          "1/3",
                                          "{}",
                                          "true",
                                          "nil",
                                          "100000000000000",
                                          "12345678901234567"};
        put(t, i == 0 ? "" : ",");
        if (i > 0 && rng_chance(r, 4)) {
            put(t, "%s", RNG_PICK(r, odd));
        } else {
            put_literal(t, p, q.len[i]);
        }
    }
    put(t, ")");
}

static void call_script(struct rng *r, struct text *t)
{
    static const char *const whole[] = {
        "return v",
        "return {v}",
        "return {1,v,2}",
        "return type(v)",
        "return tostring(v):sub(1,5)",
        "if type(v)=='table' then return {#v, v.err or '', v.ok or ''} end "
        "return v",
        "if v then return 1 else return 0 end",
        "if type(v)=='table' and v.err then return v.err end return v",
        "if type(v)=='table' and v.err then error(v) end return v",
        "if type(v)=='table' and v.err then return redis.error_reply(v.err) "
        "end return {v,v}",
        "return {type(v), v==false, v==nil}",
        "if type(v)=='table' then return v[1] end return v",
        "local n=0 if type(v)=='table' then for k in pairs(v) do n=n+1 end "
        "end return n",
        "return v or 'none'",
    };
    switch (rng_below(r, 6)) {
    case 0:
        put(t, "return ");
        call(r, t, rng_chance(r, 50) ? "call" : "pcall");
        break;
    case 1:
        put(t, "local v=");
        call(r, t, rng_chance(r, 30) ? "call" : "pcall");
        put(t, " %s", RNG_PICK(r, whole));
        break;
    case 2:
        put(t, "local r={}\n");
        for (size_t n = 1 + rng_below(r, 4); n > 0; n--) {
            put(t, "r[#r+1]=");
            call(r, t, rng_chance(r, 15) ? "call" : "pcall");
            put(t, "\n");
        }
        put(t, "return r");
        break;
    case 3:
        put(t, "local ok,e=pcall(function() return ");
        call(r, t, "call");
        put(t, " end) return {ok,e,type(e)}");
        break;
    case 4:
        put(t, "local ok,e=pcall(redis.call");
        put(t, ",'get','k%d') ", (int)(1 + rng_below(r, 6)));
        put(t, "return {type(ok),ok,type(e),e}");
        break;
    default:
        put(t, "return {");
        call(r, t, "pcall");
        put(t, ",");
        call(r, t, "pcall");
        put(t, "}");
        break;
    }
}

/* ---- numbers and text --------------------------------------------------- */

static const char *operand(struct rng *r)
{
    static const char *const operands[] = {"0",
                                           "-0",
                                           "7",
                                           "-7",
                                           "1.5",
                                           "-1.5",
                                           "2^53",
                                           "2^53-1",
                                           "1-2^53",
                                           "1e15",
                                           "1e300",
                                           "1/0",
                                           "0/0",
                                           "'0'",
                                           "'007'",
                                           "'12'",
                                           "'-12'",
                                           "' 12 '",
                                           "'12x'",
                                           "'1e3'",
                                           "'0x1F'",
                                           "''",
                                           "'ab09'",
                                           "'AF'",
                                           "'g'",
                                           "'a\\0b'",
                                           "'1\\0'",
                                           "'%d'",
                                           "nil",
                                           "{}",
                                           "true",
                                           "#ARGV",
                                           "KEYS",
                                           "ARGV[1]",
                                           "12345678.25",
                                           "'.5'",
                                           "print==1",
                                           "('9'):rep(15)",
                                           "('9'):rep(16)",
                                           "('9'):rep(20)",
                                           "('x'):rep(99)",
                                           "('x'):rep(100)",
                                           "('12'):rep(600)",
                                           "('ab'):rep(600)"};
    return RNG_PICK(r, operands);
}

static void put_format(struct rng *r, struct text *t)
{
    static const char *const pieces[] = {"%d",   "%d",  "%s",   "%s",   "%.0f",
                                         "%.0f", "%s ", "x",    "%%",   "%5d",
                                         "%.1f", "%.f", "%03d", "%.5s", "%g",
                                         "%",    "%x",  "%c",   "%q",   "\\0"};
    put(t, "string.format('");
    size_t n = rng_below(r, 4);
    for (size_t i = 0; i < n; i++) {
        put(t, "%s", RNG_PICK(r, pieces));
    }
    put(t, "'");
    for (n = rng_chance(r, 80) ? n : rng_below(r, 3); n > 0; n--) {
        put(t, ",%s", operand(r));
    }
    put(t, ")");
}

/* Patterns of records, whole and damaged; made up ones for short texts only,
 * since a real server takes n^pieces steps for some. */
static void put_pattern(struct rng *r, struct text *t, bool made_up)
{
    static const char *const patterns[] = {
        "^%d+$",  "^%x+$",     "^%d+",   "%x+$",  "^%d*$",    "^%a+$",
        "^(%x+)", "^%x+%d+$",  "^%d+a?", "^a(b)", "^(a(b)0)", "^()%d+",
        "^(%d+",  "^%d+)",     "^%",     "^%d",   "^[a",      "^.*$",
        "^(.*)$", "^(.*)(.*)", "^.*b",   "^$",    "^",        "^%d+$$",
        "^12%",   "^1-2",      "^%1",    "",      "^%S+$",    "^%d+$\\0"};
    static const char *const pieces[] = {
        "%x+", "%d+", "%S+", "%d+", "%x+",   "(",   ")",   "(",   ")",     "1",
        "12",  "a",   ".*",  "\\t", "[%d]+", "%d*", "%D+", "%u+", "%x+%x+"};
    if (!made_up) {
        put(t, "'%s'", RNG_PICK(r, patterns));
        return;
    }
    put(t, "'^");
    for (size_t n = rng_below(r, 6); n > 0; n--) {
        put(t, "%s", RNG_PICK(r, pieces));
        put(t, "%s", rng_chance(r, 40) ? " " : "");
    }
    put(t, "%s'", rng_chance(r, 50) ? "$" : "");
}

static void put_find(struct rng *r, struct text *t)
{
    static const char *const records[] = {
        "'ab12 7 1700 0 1 1 4 note of some kind'",
        "'ab12 7 '",
        "'12 13 14'",
        "'12  13'",
        "'a1\\tb 3'",
        "'1 1 1 1 1 1 1 1 1 1 1'",
        "'12\\0 4'",
        "'beef 12 \\n'"};
    put(t, "string.%s(", rng_chance(r, 70) ? "match" : "find");
    bool record = rng_chance(r, 70);
    put(t, "%s,", record ? RNG_PICK(r, records) : operand(r));
    if (rng_chance(r, 95)) {
        put_pattern(r, t, record && rng_chance(r, 60));
    } else {
        put(t, "%s", operand(r));
    }
    if (rng_chance(r, 10)) {
        put(t, ",%d", (int)rng_below(r, 4) - 1);
        put(t, "%s", rng_chance(r, 30) ? ",true" : "");
    }
    put(t, ")");
}

/* What comes out, with its type, or how it fails. */
static void digits_script(struct rng *r, struct text *t)
{
    bool caught = rng_chance(r, 50);
    put(t, caught ? "local v={pcall(function() return " : "local v={");
    switch (rng_below(r, 3)) {
    case 0:
        put_format(r, t);
        break;
    case 1:
        put(t, "tonumber(%s", operand(r));
        if (rng_chance(r, 20)) {
            put(t, ",%s", rng_chance(r, 50) ? "10" : operand(r));
        }
        put(t, ")");
        break;
    default:
        put_find(r, t);
        break;
    }
    put(t, caught ? " end)}" : "}");
    put(t, " for i=1,9 do v[i]=type(v[i])..tostring(v[i]) end return v");
}

static void script_text(struct rng *r, struct text *t)
{
    t->n = 0;
    t->p[0] = '\0';
    switch (rng_below(r, 5)) {
    case 0:
        put(t, "return ");
        value(r, t, 3);
        break;
    case 1:
        put(t, "%s", gen_fixed[rng_below(r, gen_fixed_n)]);
        break;
    case 2:
        digits_script(r, t);
        break;
    default:
        call_script(r, t);
        break;
    }
}

/* ---- requests ---------------------------------------------------------- */

static void keys_and_args(struct rng *r, struct request *q)
{
    static const char *const keys[] = {"k1", "k2", "k3", "{t}a"};
    static const char *const args[] = {"1", "x", "", "2.5", "-7", "1e3", "a b"};
    static const char *const bad[] = {"-1", "9", "x", "", "1.5", "99999999"};
    char n[8];
    size_t nkeys = rng_below(r, 3);
    snprintf(n, sizeof n, "%zu", nkeys);
    req_word(q, rng_chance(r, 2) ? RNG_PICK(r, bad) : n);
    for (size_t i = 0; i < nkeys; i++) {
        req_word(q, RNG_PICK(r, keys));
    }
    for (size_t i = rng_below(r, 3); i > 0; i--) {
        req_word(q, RNG_PICK(r, args));
    }
}

/* Scripts with known names, to be sent, run by name and flushed. */
static const char *const named[][2] = {
    {"return 1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"},
    {"return KEYS[1]", "4a2267357833227dd98abdedb8cf24b15a986445"},
    {"return {KEYS[1],ARGV[1]}", "bfbf458525d6a0b19200bfd6db3af481156b367b"},
};

void gen_script(struct rng *r, struct request *q)
{
    static const char *const flush[] = {"sync", "async", "bad"};
    req_reset(q);
    const char *const *one = named[rng_below(r, 3)];
    size_t what = rng_below(r, 100);
    if (what < 4) {
        req_word(q, "eval");
        req_word(q, one[0]);
        keys_and_args(r, q);
    } else if (what < 14) {
        req_word(q, "evalsha");
        req_word(q, rng_chance(r, 30)
                        ? "E0e1f9fabfc9d4800c877a703b823ac0578ff8db"
                        : one[1]);
        keys_and_args(r, q);
    } else if (what < 15) {
        req_word(q, "script");
        req_word(q, "flush");
        if (rng_chance(r, 60)) {
            req_word(q, RNG_PICK(r, flush));
        }
    } else if (what < 16) {
        req_word(q, "script");
        req_word(q, "kill");
    } else {
        static struct text t;
        script_text(r, &t);
        req_word(q, "eval");
        req_add(q, t.p, t.n);
        keys_and_args(r, q);
    }
}
