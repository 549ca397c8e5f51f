-- inspect.lua: who holds and who waits. A holder whose `end` is over but whose
-- lock-delay runs is shown, too, since it keeps others out. The script writes
-- nothing, so that it runs on a server that refuses writes; so it does not
-- settle either.
--
-- KEYS  1 holders  2 token  3 queue  4 waiters  5 alive  6 params  7 the epoch,
--       if this login may use it: whoever looks is told of a recovery
-- ARGV  1 first position to show (0 to 10^9)  2 how many waiters (1 to 100);
--       holders are shown twice as many, from twice that position on
--       3 with the epoch: recovery ms, with replicas= zeros before it; or 0 of who
--         does not ask for it
-- Reply {now, last token, waiters in all, {field, record, …} of holders,
--        {request, alive-until, record, …} of waiters,
--        {size, latch count}, -1 where there is none}
--       and behind that, if there are more holders, how many (else 0), for how
--       many ms nobody is let in anew, 1 if these begin when somebody wants a
--       lock, and how many replicas are missing before they can; 0s may be left
--       out
local M -- the mark is not looked at
local H, T, Q, W, A, C = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local shows = KEYS[7]
local call, fmt = redis.call, string.format
local from, size = tonumber(ARGV[1]), tonumber(ARGV[2])
local recovery = tonumber(ARGV[3])
if #KEYS ~= (shows and 7 or 6) or #ARGV ~= (shows and 3 or 2)
    or shows and not string.find(ARGV[3], '^%d+$')
    or not string.find(ARGV[1], '^%d+$')
    or not string.find(ARGV[2], '^%d+$') or from > 1000000000
    or size < 1 or size > 100 then
    return redis.error_reply('SNIBARG inspect: bad arguments')
end
-- @include enter
clock()
local ahead, missing -- the recovery has not begun; nor can it without so many more
local function recovers()
    local asks, v = recovery > 0, redis.pcall('GET', shows)
    local id, till, its = string.match(type(v) == 'string' and v or '',
        '^(%x+) (%d+) (%d+) %d+$')
    id = id and tonumber(its) <= 86400000 and id or nil
    if not asks and not id then
        return nil
    end
    -- Who does not ask for it may have no right to INFO: then nobody knows.
    local info = (asks and call or redis.pcall)('INFO', 'replication')
    info = type(info) == 'string' and info or ''
    if asks and not string.find(info, 'role:master', 1, true) then
        return 'READONLY this server is a replica'
    elseif v and not id then
        return 'CORRUPT the epoch ' .. shows .. ' is not ours: rename or '
            .. 'delete it, which begins a recovery'
    end
    closed = id and math.max(till - now, 0) or recovery
    if not id or id ~= (string.match(info, 'master_replid:(%x+)') or id)
        or closed > tonumber(its) then
        closed = tonumber(its) or recovery
        ahead = info ~= '' and 1 or nil
        -- An older primary may go on with the others, so nobody can say from when
        -- it could count.
        local copies = #string.match(its or ARGV[3], '^0*')
        local _, online = string.gsub(info, 'state=online', '')
        missing = ahead and online < copies and copies - online or nil
    end
end
local other = shows and recovers()
if other then
    return redis.error_reply(other)
end
memory()
if bad then
    return redis.error_reply(bad)
end
-- Of thousands of holders only those of this page are shown, and a thousand in
-- all, because each page costs the server a reading of all of them.
local holders = {}
local v = standing()
if bad then
    return redis.error_reply(bad)
end
for i = 4 * from + 1, math.min(4 * (from + size), #v, 2000), 2 do
    local id, till, wants =
        string.match(v[i + 1], '^(%x+) %d+ (%d+) %d (%S+) ')
    if not id then
        return redis.error_reply(damaged('a holder record of', H))
    end
    if till + (string.match(wants, ',d(%d+)') or 0) > now then
        holders[#holders + 1] = v[i]
        holders[#holders + 1] = v[i + 1]
    end
end
-- Count the holders behind this page that hold or keep others out.
local more = 0
for i = 4 * (from + size) + 1, #v, 2 do
    local till, wants = string.match(v[i + 1], '^%x+ %d+ (%d+) %d (%S+) ')
    if not till
        or till + (string.match(wants, ',d(%d+)') or 0) > now then
        more = more + 1
    end
end
-- Was this waiter's request granted meanwhile?
local function holds(id, record)
    local client = string.match(record, '^%S+') or ''
    for _, at in ipairs({client, client .. ':' .. id}) do
        local own = redis.pcall('HGET', H, at)
        local till, wants = string.match(type(own) == 'string' and own or '',
            '^' .. id .. ' %d+ (%d+) %d (%S+) ')
        if till and till + (string.match(wants, ',d(%d+)') or 0) > now then
            return true
        end
    end
    return false
end
local ids = call('ZRANGE', Q, from, from + size - 1)
if #ids < size and call('ZCARD', A) > call('ZCARD', Q) then
    -- Unresponsive waiters, which have stepped aside, come last: where they
    -- will stand again is not known.
    for _, id in ipairs(call('ZRANGE', A, 0, 199)) do
        if #ids < size and not call('ZSCORE', Q, id) then
            ids[#ids + 1] = id
        end
    end
end
local waiters = {}
for _, id in ipairs(ids) do
    local alive, record = call('ZSCORE', A, id), call('HGET', W, id)
    if record and not waiting(record) then
        return redis.error_reply(damaged('a waiter record of', W))
    end
    if alive and record and tonumber(alive) > now
        and not holds(id, record) then
        waiters[#waiters + 1] = id
        waiters[#waiters + 1] = fmt('%.0f', alive)
        waiters[#waiters + 1] = record
    end
end
local counter = call('HGET', W, '#')
if counter and not tonumber(counter) then
    return redis.error_reply(damaged('the rank counter of', W))
end
local params = call('HMGET', C, 'size', 'gate')
if (params[1] and not tonumber(params[1]))
    or (params[2] and not tonumber(params[2])) then
    return redis.error_reply(damaged('the params record', C))
end
return {now, last, call('ZCARD', Q), holders, waiters,
    {tonumber(params[1] or -1), tonumber(params[2] or -1)},
    (more > 0 or closed > 0) and more or nil, closed > 0 and closed or nil,
    ahead, missing}
