/*
 * lua_redis.c — the `redis` table: call, pcall, error_reply, status_reply
 *
 * redis.call runs a command as the script's own client; what it answered
 * becomes a Lua value in lua_convert.c. Errors are tables with a field `err`,
 * raised by call and returned by pcall.
 */
#include "internal.h"

#include <lauxlib.h>
#include <lua.h>

static struct sim_lua *host_of(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

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

static int call(lua_State *L, bool raises)
{
    struct sim_lua *h = host_of(L);
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
    return call(L, true);
}

static int redis_pcall(lua_State *L)
{
    return call(L, false);
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

void sr_lua_open_redis(struct sim_lua *h)
{
    static const struct luaL_Reg functions[] = {
        {"call", redis_call},
        {"pcall", redis_pcall},
        {"error_reply", redis_error_reply},
        {"status_reply", redis_status_reply},
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        lua_pushlightuserdata(h->L, h);
        lua_pushcclosure(h->L, functions[i].func, 1);
        lua_setfield(h->L, -2, functions[i].name);
    }
}
