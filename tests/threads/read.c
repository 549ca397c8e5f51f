/* read.c — the text of a program becomes its threads and their steps. */
#include <stdio.h>
#include <string.h>

#include "kinds.h"
#include "program.h"

const char *const verb_text[VERB_COUNT] = {
#define VERB(name, text, of) text,
    VERBS(VERB)
#undef VERB
};

static const char *const things[VERB_COUNT] = {
#define VERB(name, text, of) of,
    VERBS(VERB)
#undef VERB
};

const char handle_letters[] = "abnrcst";

static bool read_call(const char *word, struct step *ret)
{
    size_t n = strcspn(word, ".");
    *ret = (struct step){.letter = -1};
    for (int v = 0; v < VERB_COUNT; v++) {
        if (strlen(verb_text[v]) != n || strncmp(verb_text[v], word, n) != 0) {
            continue;
        }
        ret->verb = (verb)v;
        if (!*things[v]) {
            return !word[n];
        }
        if (!word[n] || !word[n + 1] || word[n + 2] ||
            !strchr(things[v], word[n + 1])) {
            return false;
        }
        ret->thing = word[n + 1];
        const char *at = strchr(handle_letters, ret->thing);
        ret->letter = at ? (int)(at - handle_letters) : -1;
        return true;
    }
    return false;
}

/* A reply that is lost has to be that of a value: of a lock it would end
 * in time only. */
static const char *check_lost(const struct world *w)
{
    bool loses = false, others = false;
    for (int i = 0; i < w->actors; i++) {
        for (int k = 0; k < w->actor[i].steps; k++) {
            const struct step *s = &w->actor[i].step[k];
            loses |= s->verb == VERB_LOSE;
            others |= s->thing && s->thing != 'v';
        }
    }
    return loses && others ? "lose goes with values only" : NULL;
}

/* What is asked of the space of memory: itself, or looked up there. */
static const char *check_redis(const struct world *w)
{
    for (int i = 0; i < w->actors; i++) {
        for (int k = 0; k < w->actor[i].steps; k++) {
            const struct step *s = &w->actor[i].step[k];
            if (!w->redis) {
                if (s->verb == VERB_CUT) {
                    return "cut goes with redis:";
                }
                continue;
            }
            if (s->verb == VERB_EXPIRE || s->verb == VERB_LOSE ||
                s->verb == VERB_FORK ||
                (s->thing && strchr("lmeox", s->thing))) {
                return "redis: goes with locks and values";
            }
        }
    }
    return w->redis && w->slow      ? "slow: is for memory:"
           : w->far && w->word      ? "word: is not far:"
           : w->narrow && !w->redis ? "narrow: goes with redis:"
                                    : NULL;
}

static bool read_flag(const char *word, struct world *to)
{
    bool *flag = !strcmp(word, "slow:")     ? &to->slow
                 : !strcmp(word, "far:")    ? &to->far
                 : !strcmp(word, "word:")   ? &to->word
                 : !strcmp(word, "pull:")   ? &to->pull
                 : !strcmp(word, "closed:") ? &to->closed
                 : !strcmp(word, "redis:")  ? &to->redis
                 : !strcmp(word, "narrow:") ? &to->narrow
                                            : NULL;
    if (flag) {
        *flag = true;
    }
    to->slow = to->slow || to->far || to->word;
    return flag != NULL;
}

const char *program_read(const char *text, struct world *to)
{
    static char copy[PROGRAM_TEXT];
    char *rest = NULL;
    struct actor *a = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    to->actors = 0;
    for (char *word = strtok_r(copy, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        if (!a && read_flag(word, to)) {
            continue;
        }
        if (word[0] >= '0' && word[0] < '0' + CLIENTS && !word[1] &&
            (!a || a->client < 0)) {
            if (!a) {
                a = &to->actor[to->actors++];
            }
            a->client = word[0] - '0';
        } else if (!strcmp(word, "|") && a && to->actors < ACTORS) {
            a = &to->actor[to->actors++];
            a->client = -1;
        } else if (!a || a->client < 0 || a->steps == STEPS ||
                   !read_call(word, &a->step[a->steps++])) {
            snprintf(copy, sizeof copy, "what is '%s'?", word);
            return copy;
        }
    }
    const char *wrong = check_lost(to);
    return !to->actors ? "no thread" : wrong ? wrong : check_redis(to);
}

const char *program_check(const char *text)
{
    static struct world scratch;
    memset(&scratch, 0, sizeof scratch);
    return program_read(text, &scratch);
}
