/* lua_host.c — one Lua state with Redis' sandbox, shared by many servers
 *
 * Redis locks its globals with a read-only flag that it patched into Lua. Stock
 * Lua has none, so the global table scripts see is an empty proxy: its __index
 * is the table that holds everything, its __newindex raises Redis' error. The
 * libraries are wrapped in the same way. So nothing a script does can reach the
 * next script, or the next run, and the state never has to be rebuilt. What
 * would reach behind the proxies is gone (rawset, setmetatable), as is what
 * tells of the outside world: the garbage collector's numbers, math.random, and
 * addresses in tostring. */
#include "internal.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- read-only tables -------------------------------------------------- */

static int readonly_error(lua_State *L)
{
    return luaL_error(L, "Attempt to modify a readonly table");
}

static int missing_global(lua_State *L)
{
    return luaL_error(
        L, "Script attempted to access nonexistent global variable '%s'",
        lua_tostring(L, 2));
}

/* Replaces the table on top by an empty read-only proxy of it. */
static void protect(lua_State *L)
{
    lua_newtable(L);          /* real proxy */
    lua_createtable(L, 0, 3); /* real proxy meta */
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, readonly_error);
    lua_setfield(L, -2, "__newindex");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    lua_remove(L, -2);
}

/* ---- replaced library functions ---------------------------------------- */

static int sandbox_tostring(lua_State *L)
{
    luaL_checkany(L, 1);
    int t = lua_type(L, 1);
    if (t == LUA_TNUMBER || t == LUA_TSTRING) {
        lua_settop(L, 1);
        lua_tostring(L, 1);
        return 1;
    }
    if (luaL_callmeta(L, 1, "__tostring")) {
        return 1;
    }
    if (t == LUA_TBOOLEAN) {
        lua_pushstring(L, lua_toboolean(L, 1) ? "true" : "false");
    } else if (t == LUA_TNIL) {
        lua_pushliteral(L, "nil");
    } else {
        lua_pushfstring(L, "%s: 0x0", luaL_typename(L, 1));
    }
    return 1;
}

/*
 * Redis' pcall: since 7.0 errors are tables, so for old scripts' sake a table
 * with a string `err` is handed out as that string.
 */
static int sandbox_pcall(lua_State *L)
{
    int argc = lua_gettop(L);
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    if (lua_pcall(L, argc - 1, LUA_MULTRET, 0) != 0) {
        lua_remove(L, 1);
        if (lua_istable(L, -1)) {
            lua_getfield(L, -1, "err");
            if (lua_isstring(L, -1)) {
                lua_replace(L, -2);
            }
        }
        lua_pushboolean(L, 0);
        lua_insert(L, 1);
    }
    return lua_gettop(L);
}

/* ---- errors ------------------------------------------------------------ */

/*
 * Every error becomes {err =, source =, line =}, as by Redis'
 * __redis__err__handler: the place is the function that raised it, or its
 * caller when that is a C function.
 */
static int error_handler(lua_State *L)
{
    lua_Debug ar;
    memset(&ar, 0, sizeof ar);
    bool found = lua_getstack(L, 1, &ar) && lua_getinfo(L, "Sl", &ar);
    if (found && strcmp(ar.what, "C") == 0) {
        found = lua_getstack(L, 2, &ar) && lua_getinfo(L, "Sl", &ar);
    }
    lua_settop(L, 1);
    if (!lua_istable(L, 1)) {
        lua_newtable(L);
        lua_pushliteral(L, "ERR ");
        lua_pushcfunction(L, sandbox_tostring);
        lua_pushvalue(L, 1);
        lua_call(L, 1, 1);
        lua_concat(L, 2);
        lua_setfield(L, 2, "err");
        lua_replace(L, 1);
    }
    if (found) {
        lua_pushstring(L, ar.source);
        lua_setfield(L, 1, "source");
        lua_pushinteger(L, ar.currentline);
        lua_setfield(L, 1, "line");
    }
    return 1;
}

/* ---- building ---------------------------------------------------------- */

static void open_lib(lua_State *L, const char *name, lua_CFunction open)
{
    lua_pushcfunction(L, open);
    lua_pushstring(L, name);
    lua_call(L, 1, 0);
}

/* The plain globals stand on top of the stack. */
static void fill_globals(struct sim_lua *h)
{
    static const char *const gone[] = {
        "dofile",   "loadfile", "print",        "getfenv",       "setfenv",
        "newproxy", "require",  "module",       "package",       "rawget",
        "rawset",   "gcinfo",   "setmetatable", "collectgarbage"};
    lua_State *L = h->L;
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        lua_pushnil(L);
        lua_setfield(L, -2, gone[i]);
    }
    static const struct luaL_Reg own[] = {
        {"tostring", sandbox_tostring},
        {"pcall", sandbox_pcall},
    };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        lua_pushcfunction(L, own[i].func);
        lua_setfield(L, -2, own[i].name);
    }
    lua_pushcfunction(L, error_handler);
    lua_setfield(L, -2, "__redis__err__handler");

    lua_getfield(L, -1, "math");
    lua_pushnil(L);
    lua_setfield(L, -2, "random");
    lua_pushnil(L);
    lua_setfield(L, -2, "randomseed");
    lua_pop(L, 1);

    sr_lua_open_short(L);

    lua_newtable(L);
    sr_lua_open_redis(h);
    lua_setfield(L, -2, "redis");
}

static void protect_globals(struct sim_lua *h)
{
    static const char *const libs[] = {"redis", "string", "table", "math",
                                       "coroutine"};
    lua_State *L = h->L;
    for (size_t i = 0; i < sizeof libs / sizeof libs[0]; i++) {
        lua_getfield(L, -1, libs[i]);
        protect(L);
        lua_setfield(L, -2, libs[i]);
    }
    lua_newtable(L);
    lua_pushcfunction(L, missing_global);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);

    lua_pushvalue(L, -1);
    h->real_globals = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushvalue(L, -1);
    protect(L); /* real proxy */
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "_G");
    lua_replace(L, LUA_GLOBALSINDEX);
    lua_pop(L, 1);

    lua_pushliteral(L, ""); /* strings' own metatable: out of reach */
    lua_getmetatable(L, -1);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 2);
}

/* An error outside lua_pcall: a bug of this host. */
static int panic(lua_State *L)
{
    fprintf(stderr, "lua: %s\n", lua_tostring(L, -1));
    abort();
}

struct sim_lua *sim_lua_new(void)
{
    struct sim_lua *h = sr_zalloc(sizeof *h);
    h->L = lua_newstate(sr_pool_alloc, &h->pool);
    if (h->L == NULL) {
        abort();
    }
    lua_atpanic(h->L, panic);
    sr_cmd_index_build(&h->commands);
    open_lib(h->L, "", luaopen_base);
    open_lib(h->L, LUA_TABLIBNAME, luaopen_table);
    open_lib(h->L, LUA_STRLIBNAME, luaopen_string);
    open_lib(h->L, LUA_MATHLIBNAME, luaopen_math);
    lua_pushvalue(h->L, LUA_GLOBALSINDEX);
    fill_globals(h);
    protect_globals(h);
    lua_pushcfunction(h->L, error_handler);
    h->errh = luaL_ref(h->L, LUA_REGISTRYINDEX);
    lua_settop(h->L, 0);
    /* Garbage is small and short-lived: collect later, in one go. */
    lua_gc(h->L, LUA_GCSETPAUSE, 400);
    return h;
}

void sim_lua_free(struct sim_lua *h)
{
    if (h == NULL) {
        return;
    }
    uint32_t pos = 0;
    struct sr_ent *e;
    while ((e = sr_dict_next(&h->scripts, &pos)) != NULL) {
        free(e->v.ptr);
    }
    sr_dict_clear(&h->scripts);
    for (size_t i = 0; i < SR_NAMED; i++) {
        free(h->named[i].text);
    }
    lua_close(h->L);
    sr_pool_free(&h->pool);
    free(h->argv);
    free(h->numbuf);
    free(h);
}

/* ---- scripts ----------------------------------------------------------- */

/* The same few texts come again and again by EVAL: comparing costs a
 * hundredth of hashing. */
void sr_lua_sha(struct sim_lua *h, char out[41],
                const struct sim_redis_arg *body)
{
    struct sr_named *at = &h->named[body->len % SR_NAMED];
    if (at->text == NULL || at->n != body->len ||
        memcmp(at->text, body->ptr, at->n) != 0) {
        free(at->text);
        at->n = body->len;
        at->text = sr_alloc(at->n);
        memcpy(at->text, body->ptr, at->n);
        sr_sha1_hex(at->sha, body->ptr, body->len);
    }
    memcpy(out, at->sha, sizeof at->sha);
}

struct sr_script *sr_lua_compile(struct sim_lua *h, struct sr_client *c,
                                 const char *sha,
                                 const struct sim_redis_arg *body)
{
    struct sr_ent *e = sr_dict_find(&h->scripts, sha, 40);
    if (e != NULL) {
        return e->v.ptr;
    }
    if (luaL_loadbuffer(h->L, body->ptr, body->len, "@user_script") != 0) {
        sr_err(c, "Error compiling script (new function): %s",
               lua_tostring(h->L, -1));
        lua_pop(h->L, 1);
        return NULL;
    }
    struct sr_script *s = sr_zalloc(sizeof *s);
    s->ref = luaL_ref(h->L, LUA_REGISTRYINDEX);
    memcpy(s->sha, sha, 41);
    bool fresh;
    sr_dict_put(&h->scripts, sha, 40, &fresh)->v.ptr = s;
    return s;
}

static void set_array(lua_State *L, const char *name,
                      const struct sim_redis_arg *v, int n)
{
    /* Redis fills an empty table, which then has room for the next power of
     * two. The same room at once: # must not differ when a script makes
     * holes. */
    int room = n > 0 ? 1 : 0;
    while (room < n) {
        room *= 2;
    }
    lua_createtable(L, room, 0);
    for (int i = 0; i < n; i++) {
        lua_pushlstring(L, v[i].ptr, v[i].len);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, name);
}

/* A string field of the error table on top; "" when it is not there. */
static const char *error_field(lua_State *L, const char *name)
{
    lua_getfield(L, -1, name);
    const char *s = lua_isstring(L, -1) ? lua_tostring(L, -1) : NULL;
    return s; /* stays on the stack */
}

static void reply_error(lua_State *L, struct sr_client *c, const char *sha)
{
    if (!lua_istable(L, -1)) {
        const char *msg =
            lua_isstring(L, -1) ? lua_tostring(L, -1) : "execution failure";
        sr_err(c, "Error running script %s, %.100s\n", sha, msg);
        return;
    }
    int top = lua_gettop(L);
    const char *msg = error_field(L, "err");
    lua_pushvalue(L, top);
    const char *source = error_field(L, "source");
    lua_pushvalue(L, top);
    const char *wire = error_field(L, "line");
    struct sr_buf b = {0};
    sr_buf_add_cstr(&b, "-");
    sr_buf_add_cstr(&b, msg == NULL ? "ERR unknown error" : msg);
    if (source != NULL && wire != NULL) {
        sr_buf_add_cstr(&b, " script: ");
        sr_buf_add_cstr(&b, sha);
        sr_buf_add_cstr(&b, ", on ");
        sr_buf_add_cstr(&b, source);
        sr_buf_add_cstr(&b, ":");
        sr_buf_add_cstr(&b, wire);
        sr_buf_add_cstr(&b, ".");
    }
    sr_err_bytes(c, b.p, b.len);
    sr_buf_free(&b);
}

void sr_lua_run(struct sim_lua *h, struct sr_run *run,
                const struct sr_script *script, int nkeys,
                const struct sim_redis_arg *argv, int argc)
{
    lua_State *L = h->L;
    h->run = run;
    lua_rawgeti(L, LUA_REGISTRYINDEX, h->errh);
    lua_rawgeti(L, LUA_REGISTRYINDEX, h->real_globals);
    set_array(L, "KEYS", argv, nkeys);
    set_array(L, "ARGV", argv + nkeys, argc - nkeys);
    lua_pop(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, script->ref);
    if (lua_pcall(L, 0, 1, 1) != 0) {
        reply_error(L, run->caller, script->sha);
    } else {
        sr_lua_reply(h, run->caller);
    }
    lua_settop(L, 0);
    h->run = NULL;
}
