-- cancel.lua: end a request, whatever became of it. If it was waiting, it is
-- removed; if it was granted, it is released. In every case a tombstone keeps
-- late copies of it out for as long as any not_after can reach (10 s, or more
-- where this server's clock was set back). The tombstone of a grant keeps its
-- token, so that a repeat of the cancel is told the same: the client has to learn
-- that a barrier has opened with this party.
--
-- KEYS  1 holders  2 token  3 queue  4 waiters  5 alive  6 tombstone  7 params
--       8 the mark, if this login may use it
-- ARGV  1 client  2 request: 32 bytes each  3 an own earlier grant to be ended,
--       too (prior): "<token>,<request>", or 0  4 the latest not_after that the
--       client has written (server ms)  5 with the epoch: recovery ms
-- Reply {1} it was waiting  {2, token} it was granted (token 0: thinly)
--       {3} neither
local H, T, Q, W, A, X, C, M = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5],
    KEYS[6], KEYS[7], KEYS[8]
local call, fmt = redis.call, string.format
local client, request = ARGV[1], ARGV[2]
local prior, prior_request = string.match(ARGV[3] or '', '^(%d+)(.*)$')
if #KEYS < 7 or #KEYS > 8 or #ARGV ~= (M == 'snib:epoch' and 5 or 4)
    or not string.find(ARGV[4], '^%d+$')
    or #client ~= 32 or #request ~= 32 or not prior
    or not (prior_request == '' or string.find(prior_request, '^,%x+$')
        and #prior_request == 33) then
    return redis.error_reply('SNIBARG cancel: bad arguments')
end
-- @include enter
-- @include settle
-- Reading.
local other = clock()
if other then
    return redis.error_reply(other)
end
memory(true)
local result, gone, token = 3, nil, tonumber(call('GET', X) or 0)
if token and token > 1 then -- an earlier copy or a force ended it (else: 1)
    result = 2
end
local holders = standing()
local own, at = own_of(holders, client, request)
if own then
    result, gone = 2, at
    token = tonumber(string.match(own, '^%x+ (%d+) ') or 0)
else
    own = prior ~= '0' and field(holders, client)
    if is_prior(own, prior, prior_request) then
        gone = client
    end
end
local known = last
survey(holders, gone)
call('ZCARD', A)
call('ZCARD', Q)
if call('HEXISTS', W, request) == 1 then
    if result == 3 then
        result = 1
    end
    drop[#drop + 1] = request
end
walk(nil, request)
if bad then
    return redis.error_reply(bad)
end

-- Writing.
call('DEL', X)
sweep()
hand()
if #nexts == 0 and #dead > 0 and last > 0
    and (last > known or last < (now - 43200000) * 1024) then
    call('SET', T, fmt('%.0f', last), 'PX', '86400000')
end
local tomb = tomb_ms(ARGV[4])
call('SET', X, result == 2 and fmt('%.0f', token) or '1', 'PX',
    fmt('%.0f', tomb))
guard(tomb, true)
unguard()
tell()
if result == 2 then
    return {result, token}
end
return {result}
