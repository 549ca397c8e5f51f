/*
 * lua_redis.c — the `redis` table
 *
 * redis.call runs a command as the script's own client; what it answered
 * becomes a Lua value in lua_convert.c. Errors are tables with a field `err`,
 * raised by call and returned by pcall.
 */
#include "internal.h"

#include <lauxlib.h>
#include <lua.h>
#include <string.h>

static struct sim_lua *host_of(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

/* ---- errors as tables -------------------------------------------------- */

/*
 * {err = "CODE text"}: "-CODE text" keeps its code, anything else is ERR.
 */
void sr_lua_push_error(lua_State *L, const char *text)
{
    const char *code = "ERR";
    size_t code_n = 3;
    const char *msg = text;
    if (text[0] == '-') {
        const char *blank = strchr(text, ' ');
        if (blank == NULL) {
            msg = text + 1;
        } else {
            code = text + 1;
            code_n = (size_t)(blank - code);
            msg = blank + 1;
        }
    }
    size_t n = strlen(msg);
    while (n > 0 && (msg[n - 1] == '\r' || msg[n - 1] == '\n')) {
        n--;
    }
    while (n > 0 && (*msg == '\r' || *msg == '\n')) {
        msg++;
        n--;
    }
    lua_newtable(L);
    lua_pushlstring(L, code, code_n);
    lua_pushliteral(L, " ");
    lua_pushlstring(L, msg, n);
    lua_concat(L, 3);
    lua_setfield(L, -2, "err");
}

void sr_lua_mark_counted(lua_State *L)
{
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "ignore_error_stats_update");
}

static int raise(lua_State *L, const char *text)
{
    sr_lua_push_error(L, text);
    return lua_error(L);
}

/* ---- redis.call, redis.pcall ------------------------------------------- */

static void want_args(struct sim_lua *h, int n)
{
    if (n <= h->argv_cap) {
        return;
    }
    int cap = h->argv_cap == 0 ? 32 : h->argv_cap;
    while (cap < n) {
        cap *= 2;
    }
    h->argv = sr_realloc(h->argv, (size_t)cap * sizeof *h->argv);
    h->numbuf = sr_realloc(h->numbuf, (size_t)cap * sizeof *h->numbuf);
    h->argv_cap = cap;
}

/* Arguments of the call into h->argv; on failure an error is pushed. The
 * strings stay on the stack, so they live until the command is done. */
static bool take_args(lua_State *L, struct sim_lua *h, int n)
{
    if (n == 0) {
        sr_lua_push_error(L, "Please specify at least one argument for this "
                             "redis lib call");
        return false;
    }
    want_args(h, n);
    for (int i = 0; i < n; i++) {
        if (lua_type(L, i + 1) == LUA_TNUMBER) {
            char *buf = h->numbuf[i];
            h->argv[i].len = sr_format_double(buf, sizeof h->numbuf[i],
                                              lua_tonumber(L, i + 1));
            h->argv[i].ptr = buf;
            continue;
        }
        h->argv[i].ptr = lua_tolstring(L, i + 1, &h->argv[i].len);
        if (h->argv[i].ptr == NULL) {
            sr_lua_push_error(L, "Lua redis lib command arguments must be "
                                 "strings or integers");
            return false;
        }
    }
    return true;
}

static int call_generic(lua_State *L, bool raises)
{
    struct sim_lua *h = host_of(L);
    if (h->run == NULL) {
        return raise(L, "redis.call/pcall can only be called inside a script "
                        "invocation");
    }
    int n = lua_gettop(L);
    if (!take_args(L, h, n)) {
        return raises ? lua_error(L) : 1;
    }
    struct sr_client *c = &h->run->srv->script_client;
    c->argv = h->argv;
    c->argc = n;
    const char *err;
    sr_script_call(h->run, &err);
    c->argv = NULL;
    c->argc = 0;
    if (err != NULL) {
        sr_lua_push_error(L, err);
        sr_lua_mark_counted(L);
        return raises ? lua_error(L) : 1;
    }
    sr_buf_add(&c->out, "", 1); /* NUL for the parser */
    const char *p = c->out.p;
    bool failed = *p == '-';
    sr_lua_push_reply(L, &p);
    return failed && raises ? lua_error(L) : 1;
}

static int redis_call(lua_State *L)
{
    return call_generic(L, true);
}

static int redis_pcall(lua_State *L)
{
    return call_generic(L, false);
}

/* ---- the rest of redis.* ----------------------------------------------- */

static int redis_sha1hex(lua_State *L)
{
    char sha[41];
    size_t n = 0;
    if (lua_gettop(L) != 1) {
        return raise(L, "wrong number of arguments");
    }
    const char *s = lua_tolstring(L, 1, &n);
    sr_sha1_hex(sha, s, n);
    lua_pushlstring(L, sha, 40);
    return 1;
}

static int redis_error_reply(lua_State *L)
{
    if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TSTRING) {
        sr_lua_push_error(L, "wrong number or type of arguments");
        return 1;
    }
    const char *text = lua_tostring(L, 1);
    if (text[0] != '-') {
        text = lua_pushfstring(L, "-%s", text);
    }
    sr_lua_push_error(L, text);
    return 1;
}

static int redis_status_reply(lua_State *L)
{
    if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TSTRING) {
        sr_lua_push_error(L, "wrong number or type of arguments");
        return 1;
    }
    lua_newtable(L);
    lua_pushvalue(L, 1);
    lua_setfield(L, -2, "ok");
    return 1;
}

static int redis_log(lua_State *L)
{
    int n = lua_gettop(L);
    if (n < 2) {
        return raise(L, "redis.log() requires two arguments or more.");
    }
    if (!lua_isnumber(L, 1)) {
        return raise(L, "First argument must be a number (log level).");
    }
    long long level = sr_double_to_ll(lua_tonumber(L, 1));
    if (level < 0 || level > 3) {
        return raise(L, "Invalid debug level.");
    }
    return 0;
}

static int redis_setresp(lua_State *L)
{
    struct sim_lua *h = host_of(L);
    if (h->run == NULL) {
        return raise(L, "redis.setresp can only be called inside a script "
                        "invocation");
    }
    if (lua_gettop(L) != 1) {
        return raise(L, "redis.setresp() requires one argument.");
    }
    long long resp = sr_double_to_ll(lua_tonumber(L, 1));
    if (resp != 2 && resp != 3) {
        return raise(L, "RESP version must be 2 or 3.");
    }
    h->run->srv->script_client.resp = (int)resp;
    return 0;
}

static int redis_set_repl(lua_State *L)
{
    if (lua_gettop(L) != 1) {
        return raise(L, "redis.set_repl() requires two arguments.");
    }
    long long flags = sr_double_to_ll(lua_tonumber(L, 1));
    if ((flags & ~3) != 0) {
        return raise(L, "Invalid replication flags. Use REPL_AOF, "
                        "REPL_REPLICA, REPL_ALL or REPL_NONE.");
    }
    return 0;
}

static int redis_true(lua_State *L)
{
    lua_pushboolean(L, 1);
    return 1;
}

static int redis_breakpoint(lua_State *L)
{
    lua_pushboolean(L, 0);
    return 1;
}

static int redis_debug(lua_State *L)
{
    (void)L;
    return 0;
}

static int redis_acl_check_cmd(lua_State *L)
{
    struct sim_lua *h = host_of(L);
    int n = lua_gettop(L);
    if (h->run == NULL) {
        return raise(L, "redis.acl_check_cmd can only be called inside a "
                        "script invocation");
    }
    if (!take_args(L, h, n)) {
        return lua_error(L);
    }
    struct sr_client *c = &h->run->srv->script_client;
    c->cmd = sr_cmd_lookup(&h->commands, h->argv, n);
    if (c->cmd == NULL) {
        return raise(L, "Invalid command passed to redis.acl_check_cmd()");
    }
    c->argv = h->argv;
    c->argc = n;
    lua_pushboolean(L, sr_acl_check(h->run->srv, c) == SR_ACL_OK);
    return 1;
}

void sr_lua_open_redis(struct sim_lua *h)
{
    static const struct luaL_Reg functions[] = {
        {"call", redis_call},
        {"pcall", redis_pcall},
        {"sha1hex", redis_sha1hex},
        {"error_reply", redis_error_reply},
        {"status_reply", redis_status_reply},
        {"log", redis_log},
        {"setresp", redis_setresp},
        {"set_repl", redis_set_repl},
        {"replicate_commands", redis_true},
        {"breakpoint", redis_breakpoint},
        {"debug", redis_debug},
        {"acl_check_cmd", redis_acl_check_cmd},
    };
    static const struct {
        const char *name;
        int value;
    } numbers[] = {
        {"LOG_DEBUG", 0},    {"LOG_VERBOSE", 1},
        {"LOG_NOTICE", 2},   {"LOG_WARNING", 3},
        {"REPL_NONE", 0},    {"REPL_AOF", 1},
        {"REPL_REPLICA", 2}, {"REPL_SLAVE", 2},
        {"REPL_ALL", 3},     {"REDIS_VERSION_NUM", 0x0007000f},
    };
    lua_State *L = h->L;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        lua_pushlightuserdata(L, h);
        lua_pushcclosure(L, functions[i].func, 1);
        lua_setfield(L, -2, functions[i].name);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        lua_pushinteger(L, numbers[i].value);
        lua_setfield(L, -2, numbers[i].name);
    }
    lua_pushliteral(L, "7.0.15");
    lua_setfield(L, -2, "REDIS_VERSION");
}
