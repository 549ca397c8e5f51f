/*
 * script.c — EVAL, EVALSHA, SCRIPT, and what a script may call
 *
 * A script that begins with "#!lua" declares its flags and is judged by them
 * before it starts; one without (the common kind) is let in and each of its
 * commands is judged as it is called. The rule that lock scripts live by:
 * once a first write was let through, neither memory, disk, replicas nor the
 * replica's read-only state can refuse a later one, so a script that begins
 * with a removing write (not deny-oom) finishes at maxmemory.
 */
#include "commands.h"

#include <stdlib.h>
#include <string.h>

/* ---- shebang ----------------------------------------------------------- */

static bool word_is(const char *p, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(p, word, n) == 0;
}

static bool parse_flag(struct sr_client *c, const char *p, size_t n,
                       unsigned *flags)
{
    if (word_is(p, n, "no-writes")) {
        *flags |= SR_SCRIPT_NO_WRITES;
    } else if (word_is(p, n, "allow-oom")) {
        *flags |= SR_SCRIPT_ALLOW_OOM;
    } else if (word_is(p, n, "allow-stale")) {
        *flags |= SR_SCRIPT_ALLOW_STALE;
    } else if (!word_is(p, n, "no-cluster") &&
               !word_is(p, n, "allow-cross-slot-keys")) {
        if (c != NULL) {
            sr_err(c, "Unexpected flag in script shebang: %.*s", (int)n, p);
        }
        return false;
    }
    return true;
}

static bool parse_option(struct sr_client *c, const char *p, size_t n,
                         unsigned *flags)
{
    if (n < 6 || memcmp(p, "flags=", 6) != 0) {
        if (c != NULL) {
            sr_err(c, "Unknown lua shebang option: %.*s", (int)n, p);
        }
        return false;
    }
    const char *end = p + n;
    p += 6;
    if (p == end) {
        return true; /* no flags; but "a," is a and an empty one: wrong */
    }
    for (;;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const char *stop = comma == NULL ? end : comma;
        if (!parse_flag(c, p, (size_t)(stop - p), flags)) {
            return false;
        }
        if (comma == NULL) {
            return true;
        }
        p = comma + 1;
    }
}

/* *skip: bytes of the first line to leave out. c NULL: no reply. */
bool sr_script_shebang(struct sr_client *c, const struct sim_redis_arg *body,
                       unsigned *flags, size_t *skip)
{
    *flags = SR_SCRIPT_COMPAT;
    *skip = 0;
    if (body->len < 2 || memcmp(body->ptr, "#!", 2) != 0) {
        return true;
    }
    const char *end = memchr(body->ptr, '\n', body->len);
    if (end == NULL) {
        if (c != NULL) {
            sr_err(c, "Invalid script shebang");
        }
        return false;
    }
    *skip = (size_t)(end - body->ptr);
    *flags = 0;
    const char *p = body->ptr;
    for (int word = 0;; word++) {
        while (p < end && (*p == ' ' || *p == '\t' || *p == '\r')) {
            p++;
        }
        const char *stop = p;
        while (stop < end && *stop != ' ' && *stop != '\t' && *stop != '\r') {
            stop++;
        }
        size_t n = (size_t)(stop - p);
        if (n == 0) {
            return true;
        }
        if (word == 0 && !word_is(p, n, "#!lua")) {
            if (c != NULL) {
                sr_err(c, "Unexpected engine in script shebang: %.*s", (int)n,
                       p);
            }
            return false;
        }
        if (word > 0 && !parse_option(c, p, n, flags)) {
            return false;
        }
        p = stop;
    }
}

/* ---- finding and loading ----------------------------------------------- */

static void lower_sha(char out[41], const char *p)
{
    for (size_t i = 0; i < 40; i++) {
        out[i] = p[i] >= 'A' && p[i] <= 'Z' ? (char)(p[i] - 'A' + 'a') : p[i];
    }
    out[40] = '\0';
}

static const struct sr_script *known(const struct sim_redis *s, const char *sha)
{
    struct sr_ent *e = sr_dict_find(&s->scripts, sha, 40);
    return e == NULL ? NULL : e->v.ptr;
}

static const struct sr_script *load(struct sim_redis *s, struct sr_client *c,
                                    const char *sha,
                                    const struct sim_redis_arg *body)
{
    const struct sr_script *script = known(s, sha);
    if (script != NULL) {
        return script;
    }
    struct sr_script *made = sr_lua_compile(s->lua, c, sha, body);
    if (made != NULL) {
        bool fresh;
        sr_dict_put(&s->scripts, sha, 40, &fresh)->v.ptr = made;
    }
    return made;
}

unsigned sr_script_cmd_flags(const struct sim_redis *s,
                             const struct sr_client *c)
{
    unsigned flags = c->cmd->flags;
    if ((flags & SR_EVAL) == 0) {
        return flags;
    }
    unsigned sf = SR_SCRIPT_COMPAT;
    if (c->cmd->proc == sr_cmd_eval || c->cmd->proc == sr_cmd_eval_ro) {
        size_t skip;
        if (!sr_script_shebang(NULL, &c->argv[1], &sf, &skip)) {
            return flags;
        }
    } else if (c->argv[1].len == 40) {
        char sha[41];
        lower_sha(sha, c->argv[1].ptr);
        const struct sr_script *script = known(s, sha);
        sf = script == NULL ? SR_SCRIPT_COMPAT : script->flags;
    }
    if ((sf & SR_SCRIPT_COMPAT) != 0) {
        return flags;
    }
    flags &= ~(unsigned)(SR_STALE_OK | SR_DENYOOM | SR_WRITE | SR_MAY_REPL);
    if ((sf & (SR_SCRIPT_ALLOW_OOM | SR_SCRIPT_NO_WRITES)) == 0) {
        flags |= SR_DENYOOM;
    }
    if ((sf & SR_SCRIPT_NO_WRITES) == 0) {
        flags |= SR_WRITE;
    }
    if ((sf & SR_SCRIPT_ALLOW_STALE) != 0) {
        flags |= SR_STALE_OK;
    }
    return flags;
}

/* ---- running ----------------------------------------------------------- */

/* Redis' scriptPrepareForRun; false after replying. */
static bool prepare(struct sim_redis *s, struct sr_client *c, unsigned sf,
                    bool ro)
{
    unsigned f = s->faults;
    bool stale = (f & SIM_REDIS_MASTERDOWN) != 0;
    if ((sf & SR_SCRIPT_COMPAT) != 0) {
        if (stale) {
            sr_err(c, "%s", SR_TXT_MASTERDOWN);
        }
        return !stale;
    }
    if (stale && (sf & SR_SCRIPT_ALLOW_STALE) == 0) {
        sr_err(c, "-MASTERDOWN Link with MASTER is down, "
                  "replica-serve-stale-data is set to 'no' and 'allow-stale' "
                  "flag is not set on the script.");
        return false;
    }
    if ((sf & SR_SCRIPT_NO_WRITES) == 0) {
        if ((f & SIM_REDIS_READONLY) != 0 || stale) {
            sr_err(c, "-READONLY Can not run script with write flag on "
                      "readonly replica");
            return false;
        }
        if ((f & SIM_REDIS_MISCONF) != 0) {
            sr_err(c, "-MISCONF Redis is configured to save RDB snapshots, "
                      "but it's currently unable to persist to disk. "
                      "Writable scripts are blocked. Use 'no-writes' flag "
                      "for read only scripts.");
            return false;
        }
        if (ro) {
            sr_err(c, "Can not execute a script with write flag using *_ro "
                      "command.");
            return false;
        }
        if ((f & SIM_REDIS_NOREPLICAS) != 0) {
            sr_err(c, "%s", SR_TXT_NOREPLICAS);
            return false;
        }
    }
    if (s->oom_now && (sf & (SR_SCRIPT_ALLOW_OOM | SR_SCRIPT_NO_WRITES)) == 0) {
        sr_err(c, "-OOM allow-oom flag is not set on the script, can not run "
                  "it when used memory > 'maxmemory'");
        return false;
    }
    return true;
}

static void eval_generic(struct sim_redis *s, struct sr_client *c, bool sha1,
                         bool ro)
{
    static const char noscript[] =
        "-NOSCRIPT No matching script. Please use EVAL.\r\n";
    char sha[41];
    long long nkeys;
    if (sha1 && c->argv[1].len != 40) {
        sr_raw(c, noscript);
        return;
    }
    if (!sr_arg_ll(c, 2, &nkeys)) {
        return;
    }
    if (nkeys > c->argc - 3) {
        sr_err(c, "Number of keys can't be greater than number of args");
        return;
    }
    if (nkeys < 0) {
        sr_err(c, "Number of keys can't be negative");
        return;
    }
    const struct sr_script *script;
    if (sha1) {
        lower_sha(sha, c->argv[1].ptr);
        script = known(s, sha);
        if (script == NULL) {
            sr_raw(c, noscript);
            return;
        }
    } else {
        sr_lua_sha(s->lua, sha, &c->argv[1]);
        script = load(s, c, sha, &c->argv[1]);
        if (script == NULL) {
            return;
        }
    }
    if (!prepare(s, c, script->flags, ro)) {
        return;
    }
    struct sr_run run = {.srv = s, .caller = c};
    bool compat = (script->flags & SR_SCRIPT_COMPAT) != 0;
    run.read_only =
        ro || (!compat && (script->flags & SR_SCRIPT_NO_WRITES) != 0);
    run.allow_oom = !compat && (script->flags & SR_SCRIPT_ALLOW_OOM) != 0;
    s->script_client.db = c->db;
    s->script_client.resp = 2;
    sr_lua_run(s->lua, &run, script, (int)nkeys, c->argv + 3, c->argc - 3);
    s->script_ran = true;
}

void sr_cmd_eval(struct sim_redis *s, struct sr_client *c)
{
    eval_generic(s, c, false, false);
}

void sr_cmd_evalsha(struct sim_redis *s, struct sr_client *c)
{
    eval_generic(s, c, true, false);
}

void sr_cmd_eval_ro(struct sim_redis *s, struct sr_client *c)
{
    eval_generic(s, c, false, true);
}

void sr_cmd_evalsha_ro(struct sim_redis *s, struct sr_client *c)
{
    eval_generic(s, c, true, true);
}

static const char *acl_text(enum sr_acl acl)
{
    switch (acl) {
    case SR_ACL_CMD:
        return "The user executing the script can't run this command or "
               "subcommand";
    case SR_ACL_KEY:
        return "The user executing the script can't access at least one of "
               "the keys mentioned in the command arguments";
    case SR_ACL_CHANNEL:
        return "The user executing the script can't publish to the channel "
               "mentioned in the command";
    case SR_ACL_OK:
        break;
    }
    return NULL;
}

/* The checks of Redis' scriptCall, in its order; NULL: go ahead. */
static const char *refusal(struct sr_run *run, struct sr_client *c)
{
    unsigned f = run->srv->faults;
    unsigned cf = c->cmd->flags;
    bool replica = (f & (SIM_REDIS_READONLY | SIM_REDIS_MASTERDOWN)) != 0;
    if ((cf & SR_NOSCRIPT) != 0) {
        return "This Redis command is not allowed from script";
    }
    if ((f & SIM_REDIS_MASTERDOWN) != 0 && (cf & SR_STALE_OK) == 0) {
        return "Can not execute the command on a stale replica";
    }
    const char *acl = acl_text(sr_acl_check(run->srv, c));
    if (acl != NULL) {
        return acl;
    }
    if (run->read_only && (cf & (SR_WRITE | SR_MAY_REPL)) != 0) {
        return "Write commands are not allowed from read-only scripts.";
    }
    if ((cf & SR_WRITE) != 0 && !run->dirty) {
        if (replica) {
            return SR_TXT_READONLY;
        }
        if ((f & SIM_REDIS_MISCONF) != 0) {
            return SR_TXT_MISCONF;
        }
        if ((f & SIM_REDIS_NOREPLICAS) != 0) {
            return SR_TXT_NOREPLICAS;
        }
    }
    if (!run->allow_oom && !run->dirty && run->srv->oom_now &&
        (cf & SR_DENYOOM) != 0) {
        return SR_TXT_OOM;
    }
    return NULL;
}

void sr_script_call(struct sr_run *run, const char **err)
{
    struct sim_redis *s = run->srv;
    struct sr_client *c = &s->script_client;
    *err = NULL;
    c->cmd = sr_cmd_lookup(&s->lua->commands, c->argv, c->argc);
    if (c->cmd == NULL) {
        *err = "Unknown Redis command called from script";
        return;
    }
    if (!sr_cmd_arity_ok(c->cmd, c->argc)) {
        *err = "Wrong number of args calling Redis command from script";
        return;
    }
    *err = refusal(run, c);
    if (*err != NULL) {
        return;
    }
    if ((c->cmd->flags & SR_WRITE) != 0) {
        run->dirty = true;
    }
    c->out.len = 0;
    sr_call(s, c, true, run->caller->id);
}

/* ---- SCRIPT ------------------------------------------------------------ */

void sr_cmd_script_load(struct sim_redis *s, struct sr_client *c)
{
    char sha[41];
    sr_lua_sha(s->lua, sha, &c->argv[2]);
    if (load(s, c, sha, &c->argv[2]) != NULL) {
        sr_bulk(c, sha, 40);
    }
}

void sr_cmd_script_exists(struct sim_redis *s, struct sr_client *c)
{
    sr_array(c, (size_t)c->argc - 2);
    for (int i = 2; i < c->argc; i++) {
        char sha[41];
        bool hit = false;
        if (c->argv[i].len == 40) {
            lower_sha(sha, c->argv[i].ptr);
            hit = known(s, sha) != NULL;
        }
        sr_int(c, hit);
    }
}

void sr_cmd_script_flush(struct sim_redis *s, struct sr_client *c)
{
    if (c->argc > 3 || (c->argc == 3 && !sr_is(&c->argv[2], "sync") &&
                        !sr_is(&c->argv[2], "async"))) {
        sr_err(c, "SCRIPT FLUSH only support SYNC|ASYNC option");
        return;
    }
    sim_redis_script_flush(s);
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
