/*
 * lua_convert.c — values between Lua and RESP
 *
 * redis.call reads back the RESP bytes that its command answered; a script's
 * result takes the way out. The conversions lose what Redis' lose: fractions
 * of numbers, everything after the first nil of an array, the difference
 * between null and false.
 */
#include "internal.h"

#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* {map = {k = v}} or {set = {k = true}}, only after redis.setresp(3). */
static void push_table_of(lua_State *L, const char **p, long long n,
                          const char *kind)
{
    lua_newtable(L);
    lua_newtable(L);
    for (long long i = 0; i < n; i++) {
        sr_lua_push_reply(L, p);
        if (kind[0] == 'm') {
            sr_lua_push_reply(L, p);
        } else {
            lua_pushboolean(L, 1);
        }
        lua_rawset(L, -3);
    }
    lua_setfield(L, -2, kind);
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
    switch (type) {
    case ':':
        lua_pushnumber(L, (lua_Number)read_number(p));
        break;
    case '$': {
        long long n = read_number(p);
        if (n < 0) {
            lua_pushboolean(L, 0);
        } else {
            lua_pushlstring(L, *p, (size_t)n);
            *p += n + 2;
        }
        break;
    }
    case '*': {
        long long n = read_number(p);
        if (n < 0) {
            lua_pushboolean(L, 0);
        } else {
            push_array(L, p, n);
        }
        break;
    }
    case '%':
        push_table_of(L, p, read_number(p), "map");
        break;
    case '~':
        push_table_of(L, p, read_number(p), "set");
        break;
    case ',': {
        lua_newtable(L);
        lua_pushnumber(L, strtod(*p, NULL));
        lua_setfield(L, -2, "double");
        *p = strchr(*p, '\r') + 2;
        break;
    }
    case '#':
        lua_pushboolean(L, **p == 't');
        *p += 3;
        break;
    case '_':
        lua_pushnil(L);
        *p += 2;
        break;
    default:
        push_line(L, p, type);
        break;
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

/* {verbatim_string = {string =, format =}}; false when it is not one. */
static bool reply_verbatim(lua_State *L, struct sr_client *c)
{
    int top = lua_gettop(L);
    raw_field(L, "verbatim_string");
    bool done = false;
    if (lua_istable(L, -1)) {
        raw_field(L, "format");
        bool format = lua_type(L, -1) == LUA_TSTRING;
        lua_pushvalue(L, -2);
        raw_field(L, "string");
        if (format && lua_type(L, -1) == LUA_TSTRING) {
            size_t n;
            const char *s = lua_tolstring(L, -1, &n);
            if (c->resp == 2) {
                sr_bulk(c, s, n);
            } else {
                char head[48];
                int m = snprintf(head, sizeof head, "=%zu\r\n%-3.3s:", n + 4,
                                 lua_tostring(L, top + 2));
                sr_buf_add(&c->out, head, (size_t)m);
                sr_buf_add(&c->out, s, n);
                sr_buf_add(&c->out, "\r\n", 2);
            }
            done = true;
        }
    }
    lua_settop(L, top);
    return done;
}

/* The table on top as a map or a set; false when it is neither. */
static bool reply_keyed(struct sim_lua *h, struct sr_client *c, int script_resp,
                        const char *kind)
{
    lua_State *L = h->L;
    bool map = kind[0] == 'm';
    raw_field(L, kind);
    if (!lua_istable(L, -1)) {
        lua_pop(L, 1);
        return false;
    }
    size_t n = 0;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        n++;
    }
    if (map) {
        sr_map(c, n);
    } else {
        sr_set(c, n);
    }
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        lua_pushvalue(L, -2);
        sr_lua_reply(h, c, script_resp);
        if (map) {
            sr_lua_reply(h, c, script_resp);
        } else {
            lua_pop(L, 1);
        }
    }
    lua_pop(L, 1);
    return true;
}

static void reply_array(struct sim_lua *h, struct sr_client *c, int script_resp)
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
        sr_lua_reply(h, c, script_resp);
    }
}

static void reply_table(struct sim_lua *h, struct sr_client *c, int script_resp)
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
    raw_field(L, "double");
    if (lua_type(L, -1) == LUA_TNUMBER) {
        sr_double(c, lua_tonumber(L, -1));
        lua_settop(L, top);
        return;
    }
    lua_settop(L, top);
    raw_field(L, "big_number");
    if (lua_type(L, -1) == LUA_TSTRING) {
        size_t n;
        const char *s = lua_tolstring(L, -1, &n);
        if (c->resp == 2) {
            sr_bulk(c, s, n);
        } else {
            sr_buf_add(&c->out, "(", 1);
            sr_buf_add(&c->out, s, n);
            sr_buf_add(&c->out, "\r\n", 2);
        }
        lua_settop(L, top);
        return;
    }
    lua_settop(L, top);
    if (!reply_verbatim(L, c) && !reply_keyed(h, c, script_resp, "map") &&
        !reply_keyed(h, c, script_resp, "set")) {
        reply_array(h, c, script_resp);
    }
}

void sr_lua_reply(struct sim_lua *h, struct sr_client *c, int script_resp)
{
    lua_State *L = h->L;
    if (!lua_checkstack(L, 6)) {
        sr_err(c, "reached lua stack limit");
        lua_pop(L, 1);
        return;
    }
    switch (lua_type(L, -1)) {
    case LUA_TSTRING: {
        size_t n;
        const char *s = lua_tolstring(L, -1, &n);
        sr_bulk(c, s, n);
        break;
    }
    case LUA_TBOOLEAN:
        if (script_resp != 2) {
            sr_bool(c, lua_toboolean(L, -1) != 0);
        } else if (lua_toboolean(L, -1)) {
            sr_int(c, 1);
        } else {
            sr_null(c);
        }
        break;
    case LUA_TNUMBER:
        sr_int(c, sr_double_to_ll(lua_tonumber(L, -1)));
        break;
    case LUA_TTABLE:
        reply_table(h, c, script_resp);
        break;
    default:
        sr_null(c);
        break;
    }
    lua_pop(L, 1);
}
