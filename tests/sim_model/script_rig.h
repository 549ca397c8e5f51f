/*
 * script_rig.h — the Lua scripts on a model server, by lines of text
 *
 * A line names a script and what differs from usual in its arguments:
 *
 *     acquire a1 wait=1 lease=5000 lock=m      client ~a, request ~a1, of {m}
 *     several all=1 / a1 / a2 lock=m           parts: one for each lock
 *
 * Arguments have names (script_shape.c). With epoch=30000 the epoch is the last
 * key, and that the last argument. In a value `~a1` is an id of 32
 * digits, a1 again and again; `now+900` is the clock's ms and 900; `t+32` is
 * the number of a token, that of the first instant and 32. What comes back is
 * text too, with ids written the same way: the reply, the messages heard by
 * those who listen, the keys with their times to live.
 */
#ifndef SNIB_TESTS_SIM_MODEL_SCRIPT_RIG_H
#define SNIB_TESTS_SIM_MODEL_SCRIPT_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "redis_scripts.h"

#define RIG_T0_MS INT64_C(1700000000000)

enum { RIG_WORDS = 300, RIG_KEYS = 300, RIG_ARGS = 450 };

/* -- shapes: what a script's keys and arguments are ------------------------- */

struct rig_arg {
    const char *name, *usual;
};

struct rig_shape {
    const char *name;
    enum snib__script which;
    bool parts;              /* several locks: key and each are of one   */
    const char *key[9];      /* behind "snib:{n}"; @: the request; "=k": k   */
    struct rig_arg head[3];  /* once                                     */
    struct rig_arg each[17]; /* once a part                              */
    bool marked;             /* the mark is its last key, but with "mark=0" */
};

const struct rig_shape *rig_shape_named(const char *name);

/* A call, ready to be sent; its texts are on the heap. */
struct rig_call {
    const struct rig_shape *shape;
    int keys, args;
    char *key[RIG_KEYS], *arg[RIG_ARGS];
};

/* The words of a line, in place; "" hold words together. How many. */
int rig_words(char *line, char *word[RIG_WORDS]);
/* A value with its ids and numbers put in; free it. */
char *rig_value(const char *text, int64_t now_us);
/* Makes the call of these words; aborts the test when they make none. */
void rig_call_init(struct rig_call *, char *const word[], int words,
                   int64_t now_us);
void rig_call_free(struct rig_call *);
/* Where the argument of that name is in the first part, or -1. */
int rig_arg_at(const struct rig_shape *, const char *name);

/* -- the server -------------------------------------------------------------- */

struct rig;

struct rig *rig_new(void);
void rig_free(struct rig *);
/* An empty server at T0, no listener, no fault. */
void rig_reset(struct rig *);
void rig_set_now(struct rig *, int64_t us);
int64_t rig_now(const struct rig *);
/* From now on somebody listens to that channel; or one fewer does. */
void rig_listen(struct rig *, const char *channel);
void rig_leave(struct rig *, const char *channel);
/* "none", "oom", "no-get,hset" …; false: there is no such fault. */
bool rig_fault(struct rig *, const char *name);
/* Any command; the reply as text. */
void rig_command(struct rig *, char *const word[], int words, FILE *out);
/* The script; the reply as text, and how many commands it needed. */
void rig_send(struct rig *, const struct rig_call *, FILE *out);
int rig_commands(const struct rig *);
/* What listeners have heard since the last time, a line each. */
void rig_heard(struct rig *, FILE *out);

/* -- the keys ---------------------------------------------------------------- */

struct rig_keys;

struct rig_keys *rig_keys_now(struct rig *);
void rig_keys_free(struct rig_keys *);
/* A line for each key that is another, or is gone; false: none is. */
bool rig_keys_differ(const struct rig_keys *before,
                     const struct rig_keys *after, FILE *out);

/* Bytes as text: ids as ~a1, long runs of one character as x*1025. */
void rig_text(FILE *out, const char *bytes, size_t size);

#endif
