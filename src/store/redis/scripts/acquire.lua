-- acquire.lua: take the lock, or a place in its queue, or hear who is first.
-- The same request may come again (a poll, a repeat after a lost reply): a
-- grant that still stands is re-armed and told again, a place is kept.
--
-- KEYS  1 holders  2 token  3 queue by rank  4 waiters  5 waiters by alive-
--       until  6 this request's tombstone
-- ARGV  1 client  2 request  3 lease ms  4 may queue (0, 1)  5 poll number
--       6 not_after (server ms)  7 floor  8 room  9 prior token or 0
--       10 channel  11 mode  12 permits  13 alive window ms  14 about
-- Reply {1, now, token, room, lease}  granted, lease from the send of this
--       {2, now, place, left}         queued; the holder's lease
--       {3, now, left}                held by another, not queued
--       {4, now}                      too late, or a strange not_after
--       {5, now}                      this request was cancelled
local H, T, Q, W, A, X = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local call, fmt = redis.call, string.format
local client, request, prior = ARGV[1], ARGV[2], ARGV[9]
local lease, poll = tonumber(ARGV[3]), tonumber(ARGV[5])
local not_after, floor = tonumber(ARGV[6]), tonumber(ARGV[7])
local room, window = tonumber(ARGV[8]), tonumber(ARGV[13])
local mode, permits, about = ARGV[11], ARGV[12], ARGV[14]
if #KEYS ~= 6 or #ARGV ~= 14 or #client ~= 32 or #request ~= 32
    or not string.find(client .. request, '^%x+$')
    or not string.find(ARGV[3] .. ARGV[4] .. ARGV[5] .. ARGV[6] .. ARGV[7]
        .. ARGV[8] .. prior .. mode .. permits .. ARGV[13], '^%d+$')
    or not (lease and lease >= 1 and lease <= 86400000)
    or not (poll and poll <= 4294967295) or not not_after
    or not (floor and floor < 9007199254740000) or prior == ''
    or not (room and room <= 31) or mode ~= '0' or permits == ''
    or not (window and window >= 1 and window <= 60000)
    or not string.find(ARGV[10], '^snib:[%x:]+$') or #about > 1024 then
    return redis.error_reply('SNIBARG acquire: bad arguments')
end
-- @include enter
clock()
if now > not_after or not_after > now + 10000 then
    return {4, now}
end
if floor > (now + 86400000) * 1024 then
    return redis.error_reply('SNIBFLOOR the clock of this server is more than '
        .. 'a day behind tokens seen before')
end

-- The short way: nobody holds, nobody waits, never cancelled.
if call('EXISTS', H, A, X) == 0 then
    memory()
    if bad then
        return redis.error_reply(bad)
    end
    local token = enter(client, request, lease, room, floor, mode, permits,
        about)
    return {1, now, token, room, lease}
end

-- @include settle
-- Reading.
if call('EXISTS', X) == 1 then
    return {5, now}
end
local gone
local holders = call('HGETALL', H)
local own = field(holders, client)
if own then
    local id, token, till, rest, kept = string.match(own,
        '^(%x+) (%d+) (%d+) (%d+ %d+ %d+ (%d+) .*)$')
    if not id then
        return redis.error_reply('CORRUPT a holder record of ' .. H
            .. ' is damaged')
    end
    till = tonumber(till)
    if id == request and till > now then
        -- Ours already. Re-arm, never shorten: this may be a late copy.
        till = math.max(till, now + lease)
        call('PEXPIRE', H, fmt('%.0f', till - now + 100))
        call('HSET', H, client, fmt('%s %s %.0f %s', id, token, till, rest))
        return {1, now, tonumber(token), tonumber(kept), lease}
    end
    if token == prior then
        gone = client
    end
end
memory()
survey(holders, gone)
local place = call('HMGET', W, '#', request)
local counter = tonumber(place[1] or 0)
local rank
if place[2] then
    local seen
    seen, rank = string.match(place[2], '^%x+ %S+ (%d+) (%d+) ')
    if seen then
        rank, poll = tonumber(rank), math.max(poll, tonumber(seen))
    else
        bad = 'CORRUPT a waiter record of ' .. W .. ' is damaged'
    end
end
if not counter then
    bad = 'CORRUPT the rank counter of ' .. W .. ' is damaged'
end
local queue = ARGV[4] == '1' or rank
for _, id in ipairs(call('ZRANGEBYSCORE', A, '-inf', fmt('%.0f', now),
    'LIMIT', 0, 16)) do
    if id ~= request then
        drop[#drop + 1] = id
    end
end
local first
if not live then
    first = heir(rank, request)
elseif #dead > 0 then
    call('ZCARD', Q) -- its type; else a write to it comes first
end
if bad then
    return redis.error_reply(bad)
end

-- Writing.
if not live and not first then
    if rank then
        drop[#drop + 1] = request
    end
    sweep()
    local token = enter(client, request, lease, room, floor, mode, permits,
        about)
    return {1, now, token, room, lease}
end
sweep()
if first then
    hand(first)
end
local left = live.till - now
if not queue then
    tell()
    return {3, now, left}
end
if not rank then
    rank = counter + 1
    counter = rank
end
call('ZADD', Q, fmt('%.0f', rank), request)
call('HSET', W, '#', fmt('%.0f', counter), request,
    fmt('%s %s %.0f %.0f %d %d %.0f %s %s %s', client, ARGV[10], poll, rank,
        lease, room, floor, mode, permits, about))
call('ZADD', A, fmt('%.0f', now + window), request)
local before = call('ZRANK', Q, request)
-- The broom. Of Q and W not at each entry: every waiter polls within 1.5 s,
-- which comes here, so eight entries without a poll take less than 20 s.
local keep = fmt('%d', window + 20000)
call('PEXPIRE', A, keep)
if place[2] or before == 0 or counter % 8 <= 1 then
    call('PEXPIRE', Q, keep)
    call('PEXPIRE', W, keep)
end
tell()
return {2, now, before + 1, left}
