/* same.c — is it the same as it was?
 *
 * judge.c says what must hold. Of two tables that keep all of it, one may still
 * tell another cause, arm its timer a tick later, or print a word too many. So
 * a number is made of every call of supervisor_step() and supervisor_init(), in
 * the order in which the states are visited: what the supervisor knew, what
 * came, what is to be done and said, what it knows then, its exit status and
 * the words for the causes. The numbers, one for each state of the supervisor
 * in each setup, are in tests/model/steps.txt. Another number is another
 * behaviour. If it is meant, the numbers are written anew (--record). The
 * numbers also change when the model visits other states.
 *
 * They are made of values, not of bytes: every compiler has to get the same. */
#include "model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FNV_START UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

enum { STATES = SUPERVISOR_DONE + 1, LINE = 160, KEPT_MAX = 512 };

static uint64_t number[STATES];
static FILE *record;
static char kept[KEPT_MAX][LINE];
static size_t kept_count, compared;
static bool comparing, differs;

static void stir(uint64_t *n, uint64_t v)
{
    *n = (*n ^ v) * FNV_PRIME;
    *n ^= *n >> 29; /* the upper bits reach the lower ones, too */
}

static void stir_text(uint64_t *n, const char *text)
{
    do {
        stir(n, (uint64_t)(unsigned char)*text);
    } while (*text++ != '\0');
}

static void stir_supervisor(uint64_t *n, const struct supervisor *l)
{
    const int64_t times[] = {l->started, l->granted, l->deadline, l->timer,
                             l->kill_at};
    const bool flags[] = {l->killed, l->ran,  l->asked,        l->ended,
                          l->lost,   l->risk, l->max_run_over, l->by_command};
    uint64_t bits = 0;

    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        stir(n, (uint64_t)times[i]);
    }
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        bits = bits * 2 + flags[i];
    }
    stir(n, bits);
    stir(n, (uint64_t)l->state);
    stir(n, (uint64_t)l->exit);
    stir_text(n, supervisor_why_text(l->why));
    stir_text(n, supervisor_why_text(l->risk_why));
    stir_text(n, supervisor_why_text(l->lost_why));
}

void same_init(const struct supervisor *l)
{
    stir_supervisor(&number[l->state], l);
}

void same_step(const struct supervisor *before,
               const struct supervisor_event *ev,
               const struct supervisor *behind, struct supervisor_actions a)
{
    uint64_t *n = &number[before->state];

    stir_supervisor(n, before);
    stir(n, (uint64_t)ev->kind);
    stir(n, (uint64_t)ev->at);
    stir(n, (uint64_t)ev->code);
    stir_text(n, supervisor_why_text(ev->why));
    stir(n, (uint64_t)ev->others * 2 + ev->lost);
    stir_supervisor(n, behind);
    stir(n, a.todo);
    stir(n, (uint64_t)a.signal);
}

void same_begin(void)
{
    for (size_t i = 0; i < STATES; i++) {
        number[i] = FNV_START;
    }
}

/* -- the file -------------------------------------------------------------- */

static FILE *opened(const char *file, const char *how)
{
    FILE *f = fopen(file, how);

    if (f == NULL) {
        fprintf(stderr, "model: %s: %s\n", file, strerror(errno));
        exit(2);
    }
    return f;
}

void same_record(const char *file)
{
    record = opened(file, "w");
}

void same_compare(const char *file)
{
    FILE *f = opened(file, "r");

    while (kept_count < KEPT_MAX && fgets(kept[kept_count], LINE, f) != NULL) {
        kept_count++;
    }
    fclose(f);
    comparing = true;
}

static bool is_kept(const char *line)
{
    for (size_t i = 0; i < kept_count; i++) {
        if (strcmp(kept[i], line) == 0) {
            return true;
        }
    }
    return false;
}

static void end_state(const char *setup_name, int disturbances, size_t state)
{
    char line[LINE];

    snprintf(line, sizeof line, "%016" PRIx64 " %d %s: %s\n", number[state],
             disturbances, setup_name, mind_text[state]);
    if (record != NULL) {
        fputs(line, record);
    }
    if (comparing && !is_kept(line)) {
        printf("NOT THE SAME as it was, with %d disturbances: %s: %s\n",
               disturbances, setup_name, mind_text[state]);
        differs = true;
    }
    compared++;
}

void same_end(const char *setup_name, int disturbances)
{
    for (size_t i = 0; i < STATES; i++) {
        if (number[i] != FNV_START) {
            end_state(setup_name, disturbances, i);
        }
    }
}

bool same_close(bool all)
{
    if (record != NULL && fclose(record) != 0) {
        perror("model: --record");
        return false;
    }
    if (comparing && all && !differs && compared != kept_count) {
        printf("%zu numbers are kept, and there are %zu\n", kept_count,
               compared);
        differs = true;
    }
    if (differs) {
        printf("Meant? Then model --record tests/model/steps.txt\n");
    }
    return !differs;
}
