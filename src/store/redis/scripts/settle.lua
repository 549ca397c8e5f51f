-- settle.lua: what every script that may free a lock shares. Not a script by
-- itself: embed.cmake puts it in place of the line "-- @include settle".
--
-- The including script has set H, T, Q, W, A (keys), call, fmt, now, last,
-- bad. Work is cut in two so that no command that can fail stands between the
-- first write and the last (Redis scripts do not roll back):
--   reading: memory, survey, heir   note what is to be done, write nothing;
--                                   a wrong type raises here, damage sets bad
--   writing: sweep, enter, hand     removing writes first (they pass at
--                                   maxmemory, and Redis lets the rest pass)
local live                          -- a holder whose lease runs, or nil
local dead, drop, aside = {}, {}, {} -- to remove: holders, waiters; deaf ones
local message, channel              -- for tell()

-- v: all of H. Holders whose `end` is over are dead, whatever PEXPIRE says;
-- `gone` is the holder that this script ends. Their tokens count as given.
local function survey(v, gone)
    for i = 1, #v, 2 do
        local request, token, till, room =
            string.match(v[i + 1], '^(%x+) (%d+) (%d+) %d+ %d+ %d+ (%d+)')
        if not request then
            bad = 'CORRUPT a holder record of ' .. H .. ' is damaged'
        elseif v[i] ~= gone and tonumber(till) > now then
            live = {till = tonumber(till), request = request}
        else
            dead[#dead + 1] = v[i]
            last = math.max(last, tonumber(token) + tonumber(room))
        end
    end
end

-- The first waiter that is alive (has polled lately) and heard of (its
-- client's channel has exactly one subscriber on this very node: PUBLISH's
-- own answer would count patterns and prove nothing, and asking is no
-- delivery). Only ranks below `rank` if given; never `skip`. Dead ones are
-- dropped; deaf ones step aside keeping their rank in W and A, so nobody is
-- looked at twice without having polled in between: O(log n) amortised.
local function heir(rank, skip)
    local at, size = 0, 1
    while true do
        local v = call('ZRANGE', Q, at, at + size - 1, 'WITHSCORES')
        if #v == 0 then
            return nil
        end
        for i = 1, #v, 2 do
            local id = v[i]
            if rank and tonumber(v[i + 1]) >= rank then
                return nil
            end
            if id ~= skip then
                local alive = call('ZSCORE', A, id)
                local record = call('HGET', W, id)
                if not alive or not record or tonumber(alive) <= now then
                    drop[#drop + 1] = id
                else
                    local client, chan, poll, lease, room, floor, rest =
                        string.match(record, '^(%x+) (%S+) (%d+) %d+ (%d+) '
                            .. '(%d+) (%d+) (%d+ %d+ .*)$')
                    if not client then
                        bad = 'CORRUPT a waiter record of ' .. W
                            .. ' is damaged'
                        return nil
                    end
                    if tonumber(call('PUBSUB', 'NUMSUB', chan)[2]) == 1 then
                        drop[#drop + 1] = id
                        return {id = id, client = client, chan = chan,
                            poll = poll, lease = tonumber(lease),
                            room = tonumber(room), floor = tonumber(floor),
                            rest = rest}
                    end
                    aside[#aside + 1] = id
                end
            end
        end
        at, size = at + size, 16
    end
end

local function each(command, key, ids)
    for i = 1, #ids, 100 do
        call(command, key, unpack(ids, i, math.min(i + 99, #ids)))
    end
end

local function sweep()
    each('HDEL', H, dead)
    each('ZREM', Q, drop)
    each('ZREM', A, drop)
    each('HDEL', W, drop)
    each('ZREM', Q, aside)
end

-- Direct grant under a claim lease. The message names the last poll seen: the
-- client counts its deadline from the instant when it sent that one.
local function hand(w)
    local claim = math.min(w.lease, 3000)
    local mode, permits, about = string.match(w.rest, '^(%d+) (%d+) (.*)$')
    local token = enter(w.client, w.id, claim, w.room, w.floor, mode, permits,
        about)
    live = {till = now + claim, request = w.id}
    channel = w.chan
    message = fmt('g %s %.0f %d %d %s %.0f %s', w.id, token, w.room, claim,
        w.poll, now, H)
end

-- Last of all, and by pcall: without the right to publish the waiter finds
-- its grant by its next poll.
local function tell()
    if message then
        redis.pcall('PUBLISH', channel, message)
    end
end
