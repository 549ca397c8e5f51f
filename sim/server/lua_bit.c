/*
 * lua_bit.c — the `bit` library (LuaBitOp) that Redis gives to scripts
 *
 * Numbers are taken modulo 2^32 and come back signed, as in LuaBitOp 1.0.2.
 */
#include "internal.h"

#include <lauxlib.h>
#include <lua.h>
#include <string.h>

/* LuaBitOp's conversion: the low 32 bits of the nearest integer, by adding
 * 1.5 * 2^52 and reading the mantissa. */
static uint32_t arg_bits(lua_State *L, int i)
{
    double d = luaL_checknumber(L, i) + 6755399441055744.0;
    uint64_t u;
    memcpy(&u, &d, sizeof u);
    return (uint32_t)u;
}

static int push_bits(lua_State *L, uint32_t b)
{
    lua_pushnumber(L, (lua_Number)(int32_t)b);
    return 1;
}

static int bit_tobit(lua_State *L)
{
    return push_bits(L, arg_bits(L, 1));
}

static int bit_bnot(lua_State *L)
{
    return push_bits(L, ~arg_bits(L, 1));
}

static int bit_band(lua_State *L)
{
    uint32_t b = arg_bits(L, 1);
    for (int i = lua_gettop(L); i > 1; i--) {
        b &= arg_bits(L, i);
    }
    return push_bits(L, b);
}

static int bit_bor(lua_State *L)
{
    uint32_t b = arg_bits(L, 1);
    for (int i = lua_gettop(L); i > 1; i--) {
        b |= arg_bits(L, i);
    }
    return push_bits(L, b);
}

static int bit_bxor(lua_State *L)
{
    uint32_t b = arg_bits(L, 1);
    for (int i = lua_gettop(L); i > 1; i--) {
        b ^= arg_bits(L, i);
    }
    return push_bits(L, b);
}

static int bit_lshift(lua_State *L)
{
    uint32_t b = arg_bits(L, 1);
    return push_bits(L, b << (arg_bits(L, 2) & 31));
}

static int bit_rshift(lua_State *L)
{
    uint32_t b = arg_bits(L, 1);
    return push_bits(L, b >> (arg_bits(L, 2) & 31));
}

static int bit_arshift(lua_State *L)
{
    uint32_t b = arg_bits(L, 1);
    uint32_t n = arg_bits(L, 2) & 31;
    uint32_t r = b >> n;
    if (n > 0 && (b & 0x80000000u) != 0) {
        r |= ~(0xffffffffu >> n);
    }
    return push_bits(L, r);
}

static int bit_rol(lua_State *L)
{
    uint32_t b = arg_bits(L, 1);
    uint32_t n = arg_bits(L, 2) & 31;
    return push_bits(L, n == 0 ? b : (b << n) | (b >> (32 - n)));
}

static int bit_ror(lua_State *L)
{
    uint32_t b = arg_bits(L, 1);
    uint32_t n = arg_bits(L, 2) & 31;
    return push_bits(L, n == 0 ? b : (b >> n) | (b << (32 - n)));
}

static int bit_bswap(lua_State *L)
{
    uint32_t b = arg_bits(L, 1);
    return push_bits(L, (b >> 24) | ((b >> 8) & 0xff00u) |
                            ((b << 8) & 0xff0000u) | (b << 24));
}

static int bit_tohex(lua_State *L)
{
    uint32_t b = arg_bits(L, 1);
    int32_t n = lua_isnone(L, 2) ? 8 : (int32_t)arg_bits(L, 2);
    const char *digits = "0123456789abcdef";
    if (n < 0) {
        n = n < -8 ? 8 : -n;
        digits = "0123456789ABCDEF";
    }
    if (n > 8) {
        n = 8;
    }
    char buf[8];
    for (int32_t i = n - 1; i >= 0; i--) {
        buf[i] = digits[b & 15];
        b >>= 4;
    }
    lua_pushlstring(L, buf, (size_t)n);
    return 1;
}

void sr_lua_open_bit(lua_State *L)
{
    static const struct luaL_Reg functions[] = {
        {"tobit", bit_tobit},   {"bnot", bit_bnot},
        {"band", bit_band},     {"bor", bit_bor},
        {"bxor", bit_bxor},     {"lshift", bit_lshift},
        {"rshift", bit_rshift}, {"arshift", bit_arshift},
        {"rol", bit_rol},       {"ror", bit_ror},
        {"bswap", bit_bswap},   {"tohex", bit_tohex},
    };
    lua_newtable(L);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        lua_pushcfunction(L, functions[i].func);
        lua_setfield(L, -2, functions[i].name);
    }
}
