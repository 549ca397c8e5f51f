-- release.lua: end our grant; the first waiter has the lock when this
-- returns.
--
-- KEYS  1 holders  2 token  3 queue  4 waiters  5 alive  6 marks  7 terms
--       8 this request's tombstone, if one is to be left
-- ARGV  1 client  2 request: 32 bytes each  3 token  4 leave a tombstone (1, else
--       not)
-- Reply {1} ended  {0} another token is there, or nobody
--       {2, text} it was ended by force, and its client may not have heard:
--       "REVOKED " and the mark's text
-- With a tombstone the request is over for good: what a late copy of it was
-- given meanwhile under a token that its client does not know is ended, too,
-- and a place that it took is given up.
local H, A = KEYS[1], KEYS[5]
local call = redis.call
local client, request, tomb = ARGV[1], ARGV[2], ARGV[4] == '1'
if #KEYS ~= (tomb and 8 or 7) or #ARGV ~= 4 or #client ~= 32
    or #request ~= 32 then
    return redis.error_reply('SNIBARG release: bad arguments')
end
-- The short way: nobody waits. A grant held for hours goes the long way, which
-- refreshes the token memory; so does what is damaged.
if not tomb and call('EXISTS', A) == 0 then
    local at = client
    local own = call('HGET', H, at)
    if not own or string.sub(own, 1, 33) ~= request .. ' ' then
        -- Not the exclusive holder: a reader, or one with permits.
        at = client .. ':' .. request
        own = call('HGET', H, at)
    end
    local id, token, till =
        string.match(own or '', '^(%x+) (%d+) (%d+) ')
    if id == request and token == ARGV[3]
        and till - token / 1024 < 43200000 then
        call('HDEL', H, at)
        return {1}
    end
end

local T, Q, W, R, C, X =
    KEYS[2], KEYS[3], KEYS[4], KEYS[6], KEYS[7], KEYS[8]
local fmt = string.format
-- @include enter
-- @include settle
-- Reading.
local gone, ours, revoked
local holders = call('HGETALL', H)
local own, at = own_of(holders, client, request)
if own then
    local id, token = string.match(own, '^(%x+) (%d+) %d+ ')
    if not id then
        return redis.error_reply(damaged('a holder record of', H))
    end
    ours = token == ARGV[3]
    if ours or tomb then
        gone = at
    end
end
clock()
if not ours then -- a mark that is over may be of an earlier grant
    local mark = call('HGET', R, request)
    revoked = mark and tonumber(string.match(mark, '^%d+') or 0) > now
        and mark
end
memory()
local known = last
survey(holders, gone)
if tomb then
    drop[1] = request -- a late copy may have queued again
    call('ZCARD', A) -- types, before anything is written
    call('ZCARD', Q)
    call('HEXISTS', W, request)
    walk(nil, request)
else
    walk()
end
if bad then
    return redis.error_reply(bad)
end

-- Writing.
if tomb then
    call('DEL', X)
end
sweep()
hand()
if #heirs == 0 and #dead > 0 and (last > known or last < (now - 43200000) * 1024) then
    call('SET', T, fmt('%.0f', last), 'PX', '86400000')
end
if tomb then
    call('SET', X, '1', 'PX', '10000')
end
tell()
if revoked and not ours then
    return {2, 'REVOKED ' .. (string.match(revoked, '^%d+ (.*)$') or '')}
end
return {ours and 1 or 0}
