/*
 * script.c — EVAL, EVALSHA, SCRIPT
 *
 * A script is let in whatever it will do; each of its commands is judged as it
 * is called (call.c). Lines that begin with "#!" and their flags do not exist.
 */
#include "commands.h"

#include <stdlib.h>
#include <string.h>

static void lower_sha(char out[41], const char *p)
{
    for (size_t i = 0; i < 40; i++) {
        out[i] = p[i] >= 'A' && p[i] <= 'Z' ? (char)(p[i] - 'A' + 'a') : p[i];
    }
    out[40] = '\0';
}

static struct sr_script *known(const struct sim_redis *s, const char *sha)
{
    struct sr_ent *e = sr_dict_find(&s->scripts, sha, 40);
    return e == NULL ? NULL : e->v.ptr;
}

/* ---- running ----------------------------------------------------------- */

static void run(struct sim_redis *s, struct sr_client *c,
                const struct sr_script *script, int nkeys)
{
    struct sr_run r = {.srv = s, .caller = c};
    if ((s->faults & SIM_REDIS_MASTERDOWN) != 0) {
        sr_err(c, "%s", SR_TXT_MASTERDOWN);
        return;
    }
    s->script_client.db = c->db;
    sr_lua_run(s->lua, &r, script, nkeys, c->argv + 3, c->argc - 3);
    s->script_ran = true;
}

/* How many keys follow; -1 after replying. */
static int keys_given(struct sr_client *c)
{
    long long n;
    if (!sr_arg_ll(c, 2, &n)) {
        return -1;
    }
    if (n > c->argc - 3) {
        sr_err(c, "Number of keys can't be greater than number of args");
        return -1;
    }
    if (n < 0) {
        sr_err(c, "Number of keys can't be negative");
        return -1;
    }
    return (int)n;
}

void sr_cmd_eval(struct sim_redis *s, struct sr_client *c)
{
    char sha[41];
    int nkeys = keys_given(c);
    if (nkeys < 0) {
        return;
    }
    sr_lua_sha(s->lua, sha, &c->argv[1]);
    struct sr_script *script = known(s, sha);
    if (script == NULL) {
        script = sr_lua_compile(s->lua, c, sha, &c->argv[1]);
        if (script == NULL) {
            return;
        }
        bool fresh;
        sr_dict_put(&s->scripts, sha, 40, &fresh)->v.ptr = script;
    }
    run(s, c, script, nkeys);
}

void sr_cmd_evalsha(struct sim_redis *s, struct sr_client *c)
{
    static const char noscript[] =
        "-NOSCRIPT No matching script. Please use EVAL.\r\n";
    char sha[41];
    if (c->argv[1].len != 40) {
        sr_raw(c, noscript);
        return;
    }
    int nkeys = keys_given(c);
    if (nkeys < 0) {
        return;
    }
    lower_sha(sha, c->argv[1].ptr);
    const struct sr_script *script = known(s, sha);
    if (script == NULL) {
        sr_raw(c, noscript);
        return;
    }
    run(s, c, script, nkeys);
}

/* ---- SCRIPT ------------------------------------------------------------ */

void sr_cmd_script_flush(struct sim_redis *s, struct sr_client *c)
{
    if (c->argc > 3 || (c->argc == 3 && !sr_is(&c->argv[2], "sync") &&
                        !sr_is(&c->argv[2], "async"))) {
        sr_err(c, "SCRIPT FLUSH only support SYNC|ASYNC option");
        return;
    }
    sr_dict_clear(&s->scripts);
    sr_ok(c);
}

/* No script is ever seen running, except the one of the fault BUSY. */
void sr_cmd_script_kill(struct sim_redis *s, struct sr_client *c)
{
    if ((s->faults & SIM_REDIS_BUSY) != 0) {
        s->faults &= ~(unsigned)SIM_REDIS_BUSY;
        sr_ok(c);
        return;
    }
    sr_err(c, "-NOTBUSY No scripts in execution right now.");
}
