/* tests/fuzz/commands.h — what a client asks a Redis server for, as whoever
 * reads its bytes knows it: the word, or by how many keys and arguments a
 * script has. */
#ifndef SNIB_TESTS_COMMANDS_H
#define SNIB_TESTS_COMMANDS_H

#include <inttypes.h>
#include <stdio.h>

#include "fuzz.h"

typedef enum asked {
    ASKED_OTHER,
    ASKED_HELLO,
    ASKED_OK, /* AUTH, SELECT, SET                                      */
    ASKED_LAYOUT,
    ASKED_TIME,
    ASKED_SUBSCRIBE,
    ASKED_PING,
    ASKED_INFO,
    ASKED_CONFIG,
    ASKED_SCAN,
    ASKED_ACQUIRE,
    ASKED_SEVERAL,
    ASKED_RENEW,
    ASKED_KEEP,
    ASKED_ENDED, /* release, cancel                                        */
    ASKED_DROP,
    ASKED_MULTI,
    ASKED_QUEUED, /* SET, XADD behind MULTI                                 */
    ASKED_EXEC,
    ASKED_FORCE,
    ASKED_TERMS,
    ASKED_INSPECT,
    ASKED_PROBE,
    ASKED_EARS,
    ASKED_VALUE_GET,
    ASKED_VALUE_PUT
} asked;

struct word {
    const char *p;
    size_t n;
};

static inline void keep_word(char *ret, size_t size, struct word w)
{
    snprintf(ret, size, "%.*s", (int)w.n, w.p);
}

static inline int64_t word_number(struct word w)
{
    char text[24];
    keep_word(text, sizeof text, w);
    return strtoll(text, NULL, 10);
}

static inline bool word_is(struct word w, const char *text)
{
    return w.n == strlen(text) && !memcmp(w.p, text, w.n);
}

/* keys: without the mark. (A release without a tombstone has as many as a
 * change of params.) */
static inline asked of_script(uint32_t keys, uint32_t args)
{
    static const struct {
        uint32_t keys, args;
        asked what;
    } shapes[] = {{7, 16, ASKED_ACQUIRE},  {7, 5, ASKED_TERMS},
                  {8, 5, ASKED_ENDED},     {7, 4, ASKED_ENDED},
                  {7, 1, ASKED_FORCE},     {6, 2, ASKED_INSPECT},
                  {7, 3, ASKED_INSPECT},   {4, 1, ASKED_PROBE},
                  {2, 8, ASKED_VALUE_PUT}, {8, 9, ASKED_KEEP},
                  {1, 0, ASKED_VALUE_GET}, {0, 0, ASKED_EARS}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (shapes[i].keys == keys && shapes[i].args == args) {
            return shapes[i].what;
        }
    }
    if (keys && keys % 7 == 0 && args == 1 + 16 * (keys / 7)) {
        return ASKED_SEVERAL;
    }
    if (keys && keys == args) {
        return ASKED_DROP;
    }
    MUST(keys && keys % 2 == 0 && args == 1 + 3 * (keys / 2));
    return ASKED_RENEW;
}

static inline asked of_word(struct word w)
{
    static const struct {
        const char *word;
        asked what;
    } plain[] = {{"HELLO", ASKED_HELLO},   {"AUTH", ASKED_OK},
                 {"SELECT", ASKED_OK},     {"SET", ASKED_OK},
                 {"GET", ASKED_LAYOUT},    {"MULTI", ASKED_MULTI},
                 {"XADD", ASKED_QUEUED},   {"EXEC", ASKED_EXEC},
                 {"TIME", ASKED_TIME},     {"SUBSCRIBE", ASKED_SUBSCRIBE},
                 {"PING", ASKED_PING},     {"INFO", ASKED_INFO},
                 {"CONFIG", ASKED_CONFIG}, {"SCAN", ASKED_SCAN}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (word_is(w, plain[i].word)) {
            return plain[i].what;
        }
    }
    return ASKED_OTHER;
}

#endif
