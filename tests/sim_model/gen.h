/*
 * gen.h — random requests for the differential test
 *
 * Everything is drawn from one seeded generator, so a seed names a run. The
 * key set is small and shared by all types: most of the interesting answers
 * (wrong type, key gone, last element removed) come from collisions.
 */
#ifndef SNIB_TESTS_SIM_MODEL_GEN_H
#define SNIB_TESTS_SIM_MODEL_GEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t s;
};

uint64_t rng_next(struct rng *r);
/* Uniform in [0, n). */
size_t rng_below(struct rng *r, size_t n);
/* True in `percent` of cases. */
bool rng_chance(struct rng *r, unsigned percent);
#define RNG_PICK(r, array)                                                     \
    ((array)[rng_below((r), sizeof(array) / sizeof((array)[0]))])

/* How the two answers are compared; see difftest.c. */
enum compare { EXACT, NEAR, SORTED, SHAPE, FIELDS };

#define REQ_ARGS  40
#define REQ_BYTES 6000

struct request {
    int argc;
    size_t off[REQ_ARGS]; /* into bytes */
    size_t len[REQ_ARGS];
    char bytes[REQ_BYTES];
    size_t used;
    enum compare compare;
};

void req_reset(struct request *q);
void req_add(struct request *q, const char *p, size_t n);
void req_word(struct request *q, const char *word);

/* A data command. `plain`: only such as compare EXACT (for MULTI, for scripts
 * and for groups). */
void gen_command(struct rng *r, struct request *q, bool plain);
/* SUBSCRIBE and its like; `may_leave_all`: an argument-less UNSUBSCRIBE has
 * at most one channel to leave, so its order is defined. */
void gen_pubsub(struct rng *r, struct request *q, bool may_leave_all);
/* Scripts that fail, or that touch the sandbox. */
extern const char *const gen_fixed[];
extern const size_t gen_fixed_n;
/* EVAL, EVALSHA of an earlier script, or SCRIPT. */
void gen_script(struct rng *r, struct request *q);

#endif
