-- release.lua: end our grant; the first waiter has the lock when this
-- returns.
--
-- KEYS  1 holders  2 token  3 queue  4 waiters  5 alive  6 tombstone
-- ARGV  1 client  2 request  3 token  4 leave a tombstone (0, 1)
-- Reply {1} ended  {0} another token is there, or nobody
local H, T, Q, W, A, X = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local call, fmt = redis.call, string.format
local client, request = ARGV[1], ARGV[2]
if #KEYS ~= 6 or #ARGV ~= 4 or #client ~= 32 or #request ~= 32 then
    return redis.error_reply('SNIBARG release: bad arguments')
end
-- @include enter
local gone
local holders = call('HGETALL', H)
local own = field(holders, client)
if own then
    local id, token, till = string.match(own, '^(%x+) (%d+) (%d+) ')
    if not id then
        return redis.error_reply('CORRUPT a holder record of ' .. H
            .. ' is damaged')
    end
    if id == request and token == ARGV[3] then
        gone = client
        -- The short way: nobody waits. A grant held for hours goes the long
        -- way, which refreshes the token memory.
        if ARGV[4] == '0' and till - token / 1024 < 43200000
            and call('EXISTS', A) == 0 then
            call('HDEL', H, client)
            return {1}
        end
    end
end

-- @include settle
-- Reading.
clock()
memory()
local known = last
survey(holders, gone)
local first
if not live then
    first = heir()
end
if bad then
    return redis.error_reply(bad)
end

-- Writing.
if ARGV[4] == '1' then
    call('DEL', X)
end
sweep()
if first then
    hand(first)
elseif #dead > 0 and (last > known or last < (now - 43200000) * 1024) then
    call('SET', T, fmt('%.0f', last), 'PX', '86400000')
end
if ARGV[4] == '1' then
    call('SET', X, '1', 'PX', '10000')
end
tell()
return {gone and 1 or 0}
