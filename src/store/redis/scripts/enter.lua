-- enter.lua: the token memory and the one place where a grant is written.
-- Put in place of the line "-- @include enter".
local bad, now, least, last

-- One field of what HGETALL gave.
local function field(v, name)
    for i = 1, #v, 2 do
        if v[i] == name then
            return v[i + 1]
        end
    end
end

local function clock()
    local t = call('TIME')
    now = t[1] * 1000 + math.floor(t[2] / 1000)
    least = now * 1024 + math.floor(t[2] % 1000 * 1.024)
end

-- last: the highest token given so far, reserved room included.
local function memory()
    local v = call('GET', T)
    last = v and tonumber(v) or 0
    if v and not (string.find(v, '^%d+$') and last < 9007199254740000) then
        bad = 'CORRUPT the token memory ' .. T .. ' is not a token'
        last = 0
    end
end

-- token = max(last + 1, server ms * 1024, floor + 1), printed by %.0f (a
-- double turned to text by `..` loses digits). The ms with its fraction, so
-- that tokens rise even when all was flushed within the same ms. The memory ends a day after
-- the later of now and the token's own time, else a clock set back would let
-- tokens fall. PEXPIRE on the holders is only the broom; `end` is the truth.
local function enter(client, request, lease, room, floor, mode, permits, about)
    local token = math.max(last + 1, least, floor + 1)
    call('HSET', H, client, fmt('%s %.0f %.0f %s %s 1 %d %s', request,
        token, now + lease, mode, permits, room, about))
    call('PEXPIRE', H, fmt('%d', lease + 100))
    call('SET', T, fmt('%.0f', token + room), 'PX',
        fmt('%.0f', math.max(now, math.floor(token / 1024)) - now + 86400000))
    return token
end
