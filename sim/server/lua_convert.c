/*
 * lua_convert.c — values between Lua and RESP
 *
 * redis.call reads back the RESP bytes that its command answered; a script's
 * result takes the way out. The conversions lose what Redis' lose: fractions
 * of numbers, everything after the first nil of an array, the difference
 * between null and false. Of tables that mean something else than an array
 * there are {err = } and {ok = }.
 */
#include "internal.h"

#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <string.h>

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

/* ---- RESP to Lua ------------------------------------------------------- */

static long long read_number(const char **p)
{
    long long v = 0;
    const char *s = *p;
    bool negative = *s == '-';
    if (negative) {
        s++;
    }
    while (*s != '\r') {
        v = (long long)((unsigned long long)v * 10u +
                        (unsigned long long)(*s++ - '0'));
    }
    *p = s + 2;
    return negative ? (long long)(0ull - (unsigned long long)v) : v;
}

static void push_array(lua_State *L, const char **p, long long n)
{
    lua_newtable(L); /* not sized: # of a table with holes would differ */
    for (long long i = 1; i <= n; i++) {
        sr_lua_push_reply(L, p);
        lua_rawseti(L, -2, (int)i);
    }
}

static void push_line(lua_State *L, const char **p, char type)
{
    const char *cr = strchr(*p, '\r');
    size_t n = (size_t)(cr - *p);
    if (type == '+') {
        lua_createtable(L, 0, 1);
        lua_pushlstring(L, *p, n);
        lua_setfield(L, -2, "ok");
    } else {
        char text[512];
        snprintf(text, sizeof text, "-%.*s", (int)n, *p);
        sr_lua_push_error(L, text);
        sr_lua_mark_counted(L);
    }
    *p = cr + 2;
}

void sr_lua_push_reply(lua_State *L, const char **p)
{
    luaL_checkstack(L, 6, "reply too deep");
    char type = *(*p)++;
    if (type == '+' || type == '-') {
        push_line(L, p, type);
        return;
    }
    long long n = read_number(p);
    if (type == ':') {
        lua_pushnumber(L, (lua_Number)n);
    } else if (n < 0) {
        lua_pushboolean(L, 0);
    } else if (type == '*') {
        push_array(L, p, n);
    } else {
        lua_pushlstring(L, *p, (size_t)n);
        *p += n + 2;
    }
}

/* ---- Lua to RESP ------------------------------------------------------- */

static void raw_field(lua_State *L, const char *name)
{
    lua_pushstring(L, name);
    lua_rawget(L, -2);
}

static void reply_status(struct sr_client *c, const char *text)
{
    size_t n = strlen(text);
    size_t at = c->out.len + 1;
    sr_status(c, text, n);
    for (size_t i = at; i < at + n; i++) {
        if (c->out.p[i] == '\r' || c->out.p[i] == '\n') {
            c->out.p[i] = ' ';
        }
    }
}

static void reply_array(struct sim_lua *h, struct sr_client *c)
{
    lua_State *L = h->L;
    int n = 0;
    for (;;) {
        lua_rawgeti(L, -1, n + 1);
        bool end = lua_isnil(L, -1);
        lua_pop(L, 1);
        if (end) {
            break;
        }
        n++;
    }
    sr_array(c, (size_t)n);
    for (int i = 1; i <= n; i++) {
        lua_rawgeti(L, -1, i);
        sr_lua_reply(h, c);
    }
}

static void reply_table(struct sim_lua *h, struct sr_client *c)
{
    lua_State *L = h->L;
    int top = lua_gettop(L);
    raw_field(L, "err");
    if (lua_type(L, -1) == LUA_TSTRING) {
        sr_err(c, "-%s", lua_tostring(L, -1));
        lua_settop(L, top);
        return;
    }
    lua_settop(L, top);
    raw_field(L, "ok");
    if (lua_type(L, -1) == LUA_TSTRING) {
        reply_status(c, lua_tostring(L, -1));
        lua_settop(L, top);
        return;
    }
    lua_settop(L, top);
    reply_array(h, c);
}

void sr_lua_reply(struct sim_lua *h, struct sr_client *c)
{
    lua_State *L = h->L;
    if (!lua_checkstack(L, 6)) {
        sr_err(c, "reached lua stack limit");
        lua_pop(L, 1);
        return;
    }
    int type = lua_type(L, -1);
    if (type == LUA_TSTRING) {
        size_t n;
        const char *s = lua_tolstring(L, -1, &n);
        sr_bulk(c, s, n);
    } else if (type == LUA_TNUMBER) {
        sr_int(c, sr_double_to_ll(lua_tonumber(L, -1)));
    } else if (type == LUA_TTABLE) {
        reply_table(h, c);
    } else if (lua_toboolean(L, -1) && type == LUA_TBOOLEAN) {
        sr_int(c, 1);
    } else {
        sr_null(c);
    }
    lua_pop(L, 1);
}
