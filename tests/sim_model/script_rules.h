/*
 * script_rules.h — what each argument of each script may be
 *
 * By the scripts' heads; test_script_bounds.c tries it.
 */
#ifndef SNIB_TESTS_SIM_MODEL_SCRIPT_RULES_H
#define SNIB_TESTS_SIM_MODEL_SCRIPT_RULES_H

#include "script_rig.h"

enum kind {
    NUMBER, /* digits, from min to max                                      */
    WHOLE,  /* the same, and a sign                                         */
    ID,     /* 32 hexadecimal digits                                        */
    BYTES,  /* so many bytes, any: from min to max                          */
    FLAG,   /* 0 or 1                                                       */
    YES     /* 1, and all else is 0: nothing is refused                     */
};

struct rule {
    const char *arg;
    enum kind kind;
    int64_t min, max;
};

/* One value whose reply is another. */
struct odd {
    const char *arg, *value, *reply;
};

struct subject {
    const char *call; /* a line that is taken in an empty store           */
    const char *reply;
    struct rule rule[17];
    struct odd odd[40];
    bool as_it_comes; /* it does not count its keys and arguments         */
};

#define MOST_TOKEN INT64_C(9007199254739999)
#define LATE       "{4, @now}"
#define LIFE       "\"4b9d8b2ce3689c2ad0d209fcb3036b6d0fe3a23e\""

static const struct subject subjects[] = {
    {"acquire a1",
     "{1, @now, @token, @room, @lease, @permits}",
     {{"client", ID, 0, 0},
      {"request", ID, 0, 0},
      {"lease", NUMBER, 1, 86400000},
      {"wait", FLAG, 0, 0},
      {"poll", NUMBER, 0, 4294967295},
      {"until", NUMBER, RIG_T0_MS, RIG_T0_MS + 10000},
      {"floor", NUMBER, 0, MOST_TOKEN},
      {"room", NUMBER, 0, 31},
      {"prior", NUMBER, 0, INT64_MAX},
      {"permits", NUMBER, 1, 4294967295},
      {"window", NUMBER, 1, 60000},
      {"about", BYTES, 0, 1024},
      {"size", NUMBER, 0, 4294967295},
      {"class", NUMBER, 0, 255}},
     {{"until", "now-1", LATE},
      {"until", "now+10001", LATE},
      {"until", "9007199254740992", LATE},
      {"floor", "t+88473600000", NULL}, /* a day ahead is believed        */
      {"floor", "t+88473600001", "-SNIBFLOOR"},
      {"floor", "9007199254739999", "-SNIBFLOOR"},
      {"prior", "1,~a1", NULL},
      {"prior", "1,", "-"},
      {"prior", "1,~a1~a1", "-"},
      {"prior", "1~a1", "-"},
      {"channel", "snib:", "-"},
      {"channel", "snib:xyz", "-"},
      {"channel", "snab:a", "-"},
      {"channel", "snib:a:1", NULL},
      {"mode", "0", NULL},
      {"mode", "1", NULL},
      {"mode", "2", NULL},
      {"mode", "3", "{9, @now, 0}"},
      {"mode", "4", NULL},
      {"mode", "5", "-"},
      {"mode", "10", "-"},
      {"mode", "", "-"},
      {"mode", "x", "-"},
      {"mode", "-0", "-"},
      {"permits", "1,b0a", "{7, @now, 0}"},
      {"permits", "1,d5000", "{1, @now, @token, @room, @lease, 1}"},
      {"permits", "1,d5000,b0a", "{7, @now, 0}"},
      {"permits", "1,b0a,d5000", "-"},
      {"permits", "1,", "-"},
      {"permits", "1,d", "-"},
      {"permits", "1,d86400000", "{1, @now, @token, @room, @lease, 1}"},
      {"permits", "1,d86400001", "-"},
      {"permits", "1,d86400001,b0a", "-"},
      {"permits", "1,d99999999999999999999", "-"},
      {"permits", "1,b", "-"},
      {"permits", "1,s0", "-"}},
     false},
    {"value_put a1",
     "{1, @now, @token}",
     {{"request", ID, 0, 0},
      {"keep", NUMBER, 1, 2592000000},
      {"again", FLAG, 0, 0},
      {"age", NUMBER, 0, 2592000000},
      {"until", NUMBER, RIG_T0_MS, RIG_T0_MS + 10000},
      {"floor", NUMBER, 0, MOST_TOKEN},
      {"bytes", BYTES, 0, 65536}},
     {{"expected", "0", NULL},
      {"expected", "1", "{0, @now, 0}"},
      {"expected", "9007199254740991", "{0, @now, 0}"},
      {"expected", "9007199254740992", "-"},
      {"expected", "-1", "-"},
      {"expected", "", "-"},
      {"expected", "1.5", "-"},
      {"expected", "x", "-"},
      {"keep", "0", "-"}, /* a removal of nothing, and with bytes */
      {"until", "now-1", LATE},
      {"until", "now+10001", LATE},
      {"until", "9007199254740992", LATE},
      {"floor", "t+88473600000", NULL},
      {"floor", "t+88473600001", "-SNIBFLOOR"},
      {"floor", "9007199254739999", "-SNIBFLOOR"}},
     false},
    {"value_put a1 expected=7 keep=0 bytes=",
     "{0, @now, 0}",
     {{"expected", NUMBER, 1, INT64_C(9007199254740991)}},
     {{"bytes", "x", "-"}},
     false},
    {"value_get a1", "{0, \"\"}", {{NULL, NUMBER, 0, 0}}, {{NULL}}, false},
    {"params a1 what=size number=3",
     "{1, @now, @number, 0, 0, 0}",
     {{"client", BYTES, 32, 32},
      {"request", BYTES, 32, 32},
      {"number", NUMBER, 0, 1000000000},
      {"until", NUMBER, RIG_T0_MS, RIG_T0_MS + 10000}},
     {{"until", "now-1", LATE},
      {"until", "now+10001", LATE},
      {"until", "9007199254740992", LATE},
      {"what", "add", "{9, @now}"},
      {"what", "siz", "-"},
      {"what", "size init", "-"},
      {"what", "", "-"}},
     false},
    {"params a1 what=add number=3",
     "{9, @now}",
     {{"number", WHOLE, -1000000000, 1000000000}},
     {{NULL}},
     false},
    {"epoch a1",
     "{@now, @recovery, -1700000000000, 0, " LIFE "}",
     {{"recovery", NUMBER, 1, 86400000},
      {"wish", WHOLE, -INT64_C(9007199254740991), INT64_C(9007199254740991)}},
     {{"wish", "-1700000000000", "{@now, @recovery, @now, 1, " LIFE "}"},
      {"wish", "-1699999970001", "{@now, @recovery, @now, 1, " LIFE "}"},
      {"wish", "-1699999970000", NULL}, /* the look is too old */
      {"wish", "-1700000000001", NULL}, /* it is to come */
      {"wish", "begin", "{@now, @recovery, 1700000030000, 0, " LIFE "}"},
      {"wish", "known", "{@now, @recovery, 1700000030000, 0, " LIFE "}"},
      {"wish", "look", "-"}},
     false},
    {"force", "{0, @now}", {{"why", BYTES, 0, 1024}}, {{NULL}}, false},
    {"cancel a1",
     "{3}",
     {{"client", BYTES, 32, 32},
      {"request", BYTES, 32, 32},
      {"prior", NUMBER, 0, INT64_MAX},
      {"copies", NUMBER, 0, INT64_MAX}},
     {{"prior", "1,~a1", NULL},
      {"prior", "1,~a10", "-"},
      {"prior", "1~a1", "-"}},
     false},
    {"release a1",
     "{0}",
     {{"client", BYTES, 32, 32},
      {"request", BYTES, 32, 32},
      {"copies", NUMBER, 0, INT64_MAX}},
     {{"token", "", NULL}, {"token", "x", NULL}, {"token", "1.5", NULL}},
     false},
    {"release a1 tomb=1",
     "{0}",
     {{"client", BYTES, 32, 32}, {"request", BYTES, 32, 32}},
     {{"token", "", NULL}, {"tomb", "0", "-"}, {"tomb", "", "-"}},
     false},
    {"drop a1", "0", {{"request", BYTES, 32, 32}}, {{NULL}}, false},
    {"renew a / a1",
     "{@now, 2}",
     {{"request", BYTES, 32, 32}, {"lease", NUMBER, 0, 86400000}},
     {{"token", "", NULL}, {"client", "", NULL}},
     false},
    {"renew a / b1 / a1 lock=m",
     "{@now, 2, 2}",
     {{"request", BYTES, 32, 32}, {"lease", NUMBER, 0, 86400000}},
     {{NULL}},
     false},
    {"keep a1 how=2",
     "{@now, 1}",
     {{"client", ID, 0, 0},
      {"request", ID, 0, 0},
      {"token", NUMBER, 1, RIG_T0_MS * 1024 + 31},
      {"memory", NUMBER, RIG_T0_MS * 1024, MOST_TOKEN},
      {"lease", NUMBER, 1, 86400000},
      {"until", NUMBER, RIG_T0_MS, RIG_T0_MS + 10000},
      {"room", NUMBER, 0, 31},
      {"about", BYTES, 0, 1024}},
     {{"how", "1", NULL},
      {"how", "0", "-"},
      {"how", "3", "-"},
      {"how", "", "-"},
      {"how", "x", "-"},
      {"memory", "t+88473600000", NULL},
      {"memory", "t+88473600001", "-SNIBFLOOR"},
      {"memory", "9007199254739999", "-SNIBFLOOR"},
      {"until", "now-1", "-SNIBLATE"},
      {"until", "now+10001", "-SNIBLATE"},
      {"until", "9007199254740992", "-SNIBLATE"}},
     false},
    {"inspect",
     "{@now, 0, 0, {}, {}, {-1, -1}}",
     {{"from", NUMBER, 0, INT64_C(1000000000)}, {"count", NUMBER, 1, 100}},
     {{NULL}},
     false},
    {"several / a1",
     "{{1, @now, @token, @room, @lease, @permits}}",
     {{"all", YES, 0, 0}},
     {{"lease", "0", "{{0, @now, \"SNIBARG acquire: bad arguments\"}}"},
      {"mode", "3", "{{9, @now, 0}}"}},
     false},
    {"probe", "{{}, 0}", {{NULL, NUMBER, 0, 0}}, {{NULL}}, true},
    {"ears", "{0, 0, \"\"}", {{NULL, NUMBER, 0, 0}}, {{NULL}}, true},
};

#endif
