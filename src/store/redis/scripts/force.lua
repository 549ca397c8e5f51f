-- force.lua: end every grant of the lock at once. A person decides that: an old
-- holder may still believe in its lease while the next one holds, so that never
-- two hold is not promised for that grant. A record of the forced release
-- tells each old holder at its next renewal. A message calls for that renewal at
-- once if the holder listens. The record lives as long as the lease would have.
-- A tombstone of each ended request lives at least as long. It keeps out late
-- copies of the acquire, and polls of a waiter that did not hear of its grant:
-- such a client asks anew, under another id. It has the token, as that of a
-- cancel: who gives up then hears that it was granted.
-- This is also the way to repair a lock: every damaged record is removed, be it
-- of a holder or a waiter, the token memory, the rank counter or the params. A
-- waiter whose record was removed takes another position by its next poll.
--
-- KEYS  1 holders  2 token  3 queue  4 waiters  5 alive  6 forced releases
--       7 params  8 the mark, if this login may use it
--       (and tombstones, whose names follow from the holders)
-- ARGV  1 who forces it and why, to 1024 bytes  2 with the epoch: recovery ms
-- Reply {how many holders were ended, damaged records included, now}
local H, T, Q, W, A, R, C, M = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5],
    KEYS[6], KEYS[7], KEYS[8]
local call, fmt = redis.call, string.format
if #KEYS < 7 or #KEYS > 8 or #ARGV ~= (M == 'snib:epoch' and 2 or 1)
    or #ARGV[1] > 1024 then
    return redis.error_reply('SNIBARG force: bad arguments')
end
-- @include enter
-- @include settle
-- Reading.
local other = clock()
if other then
    return redis.error_reply(other)
end
memory(true)
local anew = bad
bad = nil
local forced, told, count, longest = {}, {}, 0, 1000
local v = standing()
local wreck = bad
bad = nil
if wreck then
    count, fresh = 1, true
end
for i = 1, #v, 2 do
    local id, token, till, reserve =
        string.match(v[i + 1], '^(%x+) (%d+) (%d+) %d %S+ %d+ (%d+)')
    dead[#dead + 1] = v[i]
    if id then
        fresh = fresh or token == '0'
        local top = tonumber(token) + tonumber(reserve)
        if token ~= '0' and top < 9007199254740000 then
            last = math.max(last, top)
        else
            token = '1' -- it is none
        end
        local left = math.min(tonumber(till) - now, 172800000)
        if left > 0 then
            count = count + 1
            forced[#forced + 1] = id
            forced[#forced + 1] = fmt('%.0f ', now + left) .. ARGV[1]
            told[#told + 1] = {string.sub(v[i], 1, 32), id, token,
                math.max(left, 10000)}
            longest = math.max(longest, left)
        end
    else
        count = count + 1
    end
end
local old = {}
v = call('HGETALL', R)
for i = 1, #v, 2 do
    local till = tonumber(string.match(v[i + 1], '^%d+') or 0)
    if till <= now then
        old[#old + 1] = v[i]
    else
        longest = math.max(longest, till - now)
    end
end
call('ZCARD', A)
call('ZCARD', Q)
local counter, highest = 0, 0
v = call('HGETALL', W)
for i = 1, #v, 2 do
    local client, _, _, rank = waiting(v[i + 1])
    if v[i] == '#' then
        counter = string.find(v[i + 1], '^%d+$') and tonumber(v[i + 1])
    elseif client then
        highest = math.max(highest, tonumber(rank) % 1099511627776)
    else
        drop[#drop + 1] = v[i]
    end
end
if not counter or counter >= 1099511627776 then
    drop[#drop + 1] = '#'
    counter = -1
end
params()
local unset = bad
if unset then
    size, latch = nil, 0
end
walk()
-- walk has put waiters with a damaged record into drop, too.

-- Writing.
if wreck then
    call('DEL', H)
end
if anew then
    call('DEL', T)
end
sweep()
if unset then
    call('DEL', C)
end
each('HDEL', R, old)
if counter < highest then -- else two would have one rank
    call('HSET', W, '#', fmt('%.0f', highest))
end
if #dead > 0 and last > 0 then
    call('SET', T, fmt('%.0f', last), 'PX',
        fmt('%.0f', math.max(now, math.floor(last / 1024)) - now + 86400000))
end
hand()
if #forced > 0 then
    each('HSET', R, forced) -- a hundred at a time: pairs stay together
    call('PEXPIRE', R, fmt('%.0f', math.min(longest, 86400000)))
end
for _, one in ipairs(told) do
    call('SET', H .. ':x:' .. one[2], one[3], 'PX', fmt('%.0f', one[4]))
    guard(one[4], true)
end
unguard()
tell()
for _, one in ipairs(told) do -- at once, if it listens: at first, or again
    redis.pcall('PUBLISH', 'snib:' .. one[1], 'r ' .. one[2])
    redis.pcall('PUBLISH', 'snib:' .. one[1] .. ':r', 'r ' .. one[2])
end
return {count, now}
