-- params.lua: read or change the params of a lock: the size of a semaphore, the
-- count of a latch. A closed latch keeps everybody out. Waiters that fit after
-- the change are granted before this returns.
--
-- KEYS  1 holders  2 token  3 queue  4 waiters  5 alive  6 this request's
--       tombstone, which keeps the answer to a change for a repeat  7 params
--       8 the mark, if this login may use it
-- ARGV  1 client  2 request: 32 bytes each  3 what  4 number, to 10^9, and of
--       add from -10^9  5 not_after (server ms)  6 with the epoch: recovery ms
--       what: get · size n (set) · init n (set if it has none) · add n (more,
--       or fewer if below 0) · gate n (close an open latch, n to go) · down n
--       (count a closed latch down) · open (a latch)
-- Reply {done, now, size or -1, permits in use, latch count, waiters}
--                       done: 1, or 0: not applied, because a size is set,
--                       the latch is closed (gate), or it is open (down)
--       {4, now}        too late, or a strange not_after: no change was made
--       {6, now, size}  the size would fall below 0 or grow beyond bounds
--       {9, now}        the semaphore has no size
local H, T, Q, W, A, X, C, M = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5],
    KEYS[6], KEYS[7], KEYS[8]
local call, fmt = redis.call, string.format
local client, request, what = ARGV[1], ARGV[2], ARGV[3]
local n, not_after = tonumber(ARGV[4]), tonumber(ARGV[5])
local most = 1000000000
if #KEYS < 7 or #KEYS > 8 or #ARGV ~= (M == 'snib:epoch' and 6 or 5)
    or #client ~= 32 or #request ~= 32
    or not string.find(ARGV[4], '^-?%d+$') or ARGV[4] == '-0'
    or math.abs(n) > most or (n < 0 and what ~= 'add')
    or not string.find(ARGV[5], '^%d+$') or string.find(what, '%A')
    or not string.find(' get size init add gate down open ',
        ' ' .. what .. ' ', 1, true) then
    return redis.error_reply('SNIBARG params: bad arguments')
end
-- @include enter
-- @include settle
-- Reading.
local other = clock()
if other -- who only asks needs no epoch
    and not (what == 'get' and string.find(other, '^SNIBEPOCH')) then
    return redis.error_reply(other)
end
if what ~= 'get' and (now > not_after or not_after > now + 10000) then
    return {4, now}
end
memory(what == 'get') -- to ask needs no mark, whosever it is
survey(standing())
params()
local done, seen = 1, call('GET', X)
local old_size, old_latch = size, latch
if seen then -- this is a repeat
    done, what = tonumber(seen) or 0, 'get'
elseif what == 'size' or (what == 'init' and not size) then
    size = n
elseif what == 'add' then
    if not size then
        return {9, now}
    elseif size + n < 0 or size + n > most then
        return {6, now, size}
    end
    size = size + n
elseif what == 'gate' and latch == 0 then
    latch = n
elseif what == 'down' and latch > 0 then
    latch = math.max(latch - n, 0)
elseif what == 'open' then
    latch = 0
elseif what ~= 'get' then
    done = 0
end
local changed = size ~= old_size or latch ~= old_latch
if changed then
    walk()
end
local used = live and live.used or 0
local waiting = call('ZCARD', Q) - #drop - #aside -- walk found these in Q
if bad then
    return redis.error_reply(bad)
end

-- Writing.
if what ~= 'get' then
    call('DEL', X)
end
if changed then
    sweep()
    if size then
        call('HSET', C, 'size', fmt('%.0f', size), 'gate', fmt('%.0f', latch))
        call('PEXPIRE', C, '2592000000')
    elseif latch > 0 then
        call('HSET', C, 'gate', fmt('%.0f', latch))
        call('PEXPIRE', C, '2592000000')
    else
        call('DEL', C)
    end
    hand()
    if latch > 0 then
        guard(2592000000) -- a thin grant must not pass it
    else
        unguard()
    end
end
if what ~= 'get' then
    call('SET', X, done, 'PX', '10000')
end
tell()
return {done, now, size or -1, used, latch, waiting}
