-- release.lua: end our grant. The next waiters that fit have the lock when this
-- returns.
--
-- KEYS  1 holders  2 token  3 queue  4 waiters  5 alive  6 forced releases
--       7 params  8 this request's tombstone, if one is to be left  then the
--       mark, if this login may use it
-- ARGV  1 client  2 request: 32 bytes each  3 token
--       4 leave a tombstone (1: yes, else no)  5 the latest not_after that the
--       client has written (server ms)  6 with the epoch: recovery ms
-- Reply {1} it is ended  {0} another token is there, or nobody holds
--       {2, text} it was ended by force before, and its client may not have
--       heard of that: "REVOKED " and who forced the release and why
--       {3} it is not known, nobody shows who came later, and a recovery runs:
--       the server has forgotten it
-- A tombstone ends the request for good. A late copy of its acquire may have
-- been granted meanwhile, under a token that the client does not know, or may
-- have queued: that grant is ended and that position is given up, too.
local H, A = KEYS[1], KEYS[5]
local call = redis.call
local client, request, tombstone = ARGV[1], ARGV[2], ARGV[4] == '1'
local keys = tombstone and 8 or 7
if #KEYS < keys or #KEYS > keys + 1
    or #ARGV ~= (KEYS[keys + 1] == 'snib:epoch' and 6 or 5)
    or not string.find(ARGV[5], '^%d+$') or #client ~= 32
    or #request ~= 32 then
    return redis.error_reply('SNIBARG release: bad arguments')
end
-- The short way, where nobody waits. A grant that was held for half a day takes
-- the long way, which refreshes the token memory; so does a damaged record, and
-- a thin one, and where the hash outlives its holders.
if not tombstone and call('EXISTS', A) == 0 then
    local at = client
    local v = redis.pcall('HMGET', H, at, at .. ':' .. request, '~')
    local own = v[1]
    if not own or string.sub(own, 1, 33) ~= request .. ' ' then
        -- Not an exclusive holder: a reader, a holder of permits, or a party.
        at = client .. ':' .. request
        own = v[2]
    end
    local id, token, till =
        string.match(own or '', '^(%x+) (%d+) (%d+) ')
    if id == request and token == ARGV[3] and not v[3]
        and till - token / 1024 < 43200000 then
        call('HDEL', H, at)
        return {1}
    end
end

local T, Q, W, R, C = KEYS[2], KEYS[3], KEYS[4], KEYS[6], KEYS[7]
local X, M = tombstone and KEYS[8], KEYS[keys + 1]
local fmt = string.format
-- @include enter
-- @include settle
-- Reading.
local gone, ours, revoked
local other = clock()
if other then
    return redis.error_reply(other)
end
local holders = standing()
local own, at = own_of(holders, client, request)
if own then
    local id, token = string.match(own, '^(%x+) (%d+) %d+ ')
    if not id then
        return redis.error_reply(damaged('a holder record of', H))
    end
    ours = token == ARGV[3] or token == '0'
    if ours or tombstone then
        gone = at
    end
end
if not ours then -- one that is over may be of an earlier grant
    local forced = call('HGET', R, request)
    revoked = forced and tonumber(string.match(forced, '^%d+') or 0) > now
        and forced
end
memory(true)
local known = last
survey(holders, gone)
-- Did somebody come later? One without recovery= may, at a server that was emptied.
-- (Its reserve of tokens is 31 at most. A thin record does not show its token.)
local later = not tonumber(ARGV[3]) or last > tonumber(ARGV[3]) + 31
    or fresh and #holders > 0
if tombstone then
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

-- Writing. A right may have been taken from the user since the connection was
-- made, and then the script fails half-way. If our grant is removed by then, the
-- release is done, and nobody could say so later; what is left is the waiters'
-- affair, and their next poll tells them. (A tombstone must stand.)
if tombstone then
    call('DEL', X)
end
local fine, why = pcall(sweep)
if fine then
    fine, why = pcall(hand)
end
if not fine then
    if tombstone or not ours or redis.pcall('HEXISTS', H, gone) ~= 0 then
        error(why, 0)
    end
    return {1}
end
if #nexts == 0 and #dead > 0 and last > 0
    and (last > known or last < (now - 43200000) * 1024) then
    call('SET', T, fmt('%.0f', last), 'PX', '86400000')
end
if tombstone then
    local tomb = tomb_ms(ARGV[5])
    call('SET', X, '1', 'PX', fmt('%.0f', tomb))
    guard(tomb, true)
end
unguard()
tell()
if revoked and not ours then
    return {2, 'REVOKED ' .. (string.match(revoked, '^%d+ (.*)$') or '')}
end
if E and closed > 0 and not own and not later then
    return {3}
end
return {ours and 1 or 0}
