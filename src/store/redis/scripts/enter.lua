-- enter.lua: the server's clock, the error for damage, the token memory, and
-- the one place besides keep.lua where a new grant is written. This is no
-- script by itself: embed.cmake puts it in place of the line "-- @include
-- enter". The including script has set call, fmt and the keys H and T.
local bad, now, least, last
local live -- the holders that stand, see settle.lua; nil: there are none

local function clock()
    local t = call('TIME')
    now = t[1] * 1000 + math.floor(t[2] / 1000)
    least = now * 1024 + math.floor(t[2] % 1000 * 1.024)
end

-- The error for a record that is not ours, or no longer whole. force.lua
-- removes such records.
local function damaged(what, key)
    return 'CORRUPT ' .. what .. ' ' .. key .. ' is damaged; '
        .. 'snib force-release mends it'
end

-- A waiter's record in its parts. Nothing, if the record is damaged, or holds a
-- number that no acquire lets in: a command might refuse it in the middle of a
-- step.
local function waiting(record)
    local client, channel, poll, rank, lease, reserve, floor, mode, permits,
        more, about = string.match(record, '^(%x+) (%S+) (%d+) (%d+) (%d+) (%d+) '
            .. '(%d+) (%d) (%d+)(%S*) (.*)$')
    if client and tonumber(lease) <= 86400000 and tonumber(reserve) <= 31
        and tonumber(floor) < 9007199254740000
        and tonumber(string.match(more, ',d(%d+)') or 0) <= 86400000 then
        return client, channel, poll, rank, tonumber(lease), tonumber(reserve),
            tonumber(floor), mode, permits, more, about
    end
end

-- Read `last`, the highest token given so far, token reserves included.
local function memory()
    local v = call('GET', T)
    last = v and tonumber(v) or 0
    if v and not (string.find(v, '^%d+$') and last < 9007199254740000) then
        bad = 'CORRUPT the token memory ' .. T .. ' is not a token; '
            .. 'snib force-release begins it anew'
        last = 0
    end
end

-- Write a grant and return its token.
-- token = max(last + 1, server ms * 1024, floor + 1), printed by %.0f, since a
-- double turned to text by `..` loses digits. The ms carry their fraction, so
-- that tokens rise even when all was flushed within the same ms. The token
-- memory ends a day after the later of now and the token's own time, else a
-- clock set back would let tokens fall. PEXPIRE on the holders is only the
-- cleaner; `end` in the record is the truth. A reader gets no token of its own
-- but the era that it reads: the highest token given so far, if one is known.
-- permits: a number, then ",d<ms>", the lock-delay, then ",b<request>", the own
-- grant that is not in the way, then, of permits only, ",s<number>", the slot.
-- Modes: 0 mutex, 1 read, 2 write, 3 permits, 4 barrier. The record of an
-- exclusive holder (0, 2) is found by its client, all others by client and
-- request. The record says, by this server's clock, since when it is a grant:
-- `about` comes from the client, of a time before the wait.
-- shared: a table in which requests that are granted together (the parties of a
-- barrier) keep their common token.
local function enter(client, request, lease, reserve, floor, mode, permits,
    about, shared)
    local token = shared and shared.token
    if mode == '1' and last > 0 then
        token = last
    elseif not token then
        token = math.max(last + 1, least, floor + 1)
        last = token + reserve
    end
    if shared then
        shared.token = token
    end
    local keep = now + lease
    if permits ~= '1' then
        keep = keep + (string.match(permits, ',d(%d+)') or 0)
    end
    if live then
        live.longest = math.max(live.longest, keep)
        keep = live.longest
    end
    local at = client
    if mode ~= '0' and mode ~= '2' then
        at = client .. ':' .. request
    end
    call('HSET', H, at,
        fmt('%s %.0f %.0f %s %s %.0f %d %s', request, token, now + lease, mode,
            permits, now, reserve, about))
    call('PEXPIRE', H, fmt('%.0f', keep - now + 100))
    call('SET', T, fmt('%.0f', last), 'PX',
        fmt('%.0f', math.max(now, math.floor(last / 1024)) - now + 86400000))
    return token
end
