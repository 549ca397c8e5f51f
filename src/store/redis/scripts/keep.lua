-- keep.lua: set what a server has forgotten. Two ask this.
--
-- Who asks for recovery (E, epoch.lua), and holds the lock exclusively: he
-- reclaims it, as long as nobody new is let in. An exclusive token proves that
-- all below it have ended, so who stands here with a lower one is over: his
-- release is forgotten, too. Who has a higher one came later.
--
-- A quorum: bring a node in line with the majority. Only a client
-- asks this that holds the lock on a majority of nodes (or held it, and is
-- about to renew). The grant of this request gets the quorum's token, whatever
-- token this node gave it, and the lease. A node that does not know the grant
-- (it was restarted empty, or missed the acquire) sets it if the lock is free
-- here. The token memory is raised to ARGV[4], so that whichever majority is
-- asked next gives a higher token.
--
-- KEYS  1 holders  2 token  3 queue by rank  4 waiters  5 waiters by alive-
--       until  6 this request's tombstone  7 forced releases  8 params  9 the
--       mark, if this login may use it, or the epoch
-- ARGV  1 client  2 request: 32 hexadecimal digits each  3 token  4 what the
--       token memory becomes at least; not below the token  5 lease ms, 1 to a
--       day  6 where the grant is not known: 1 set it if the lock is free and
--       no later grant was given here meanwhile, 2 set it if the lock is
--       free. To reclaim: the mode (0, 2), then 1, ",d<ms>", ",b<request>", as
--       in the record
--       7 not_after (server ms)  8 token reserve, to 31  9 about, to 1024 bytes
--       10 with the epoch: recovery ms
-- Reply {now, 1} it stands here
--       {now, 0} another holds, or this request was ended
--       {now, 2} it is too late to reclaim it; nobody holds
--       {now, "REVOKED " and who forced the release and why}
local H, T, Q, W, A, X, R, C, M = KEYS[1], KEYS[2], KEYS[3], KEYS[4],
    KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local call, fmt = redis.call, string.format
local client, request = ARGV[1], ARGV[2]
local token, least_memory = tonumber(ARGV[3]), tonumber(ARGV[4])
local lease, not_after = tonumber(ARGV[5]), tonumber(ARGV[7])
local reserve, about = tonumber(ARGV[8]), ARGV[9]
if #KEYS < 8 or #KEYS > 9 or #ARGV ~= (M == 'snib:epoch' and 10 or 9)
    or #client ~= 32 or #request ~= 32
    or not string.find(client .. request, '^%x+$')
    or not string.find(ARGV[3] .. ARGV[4] .. ARGV[5] .. ARGV[7] .. ARGV[8],
        '^%d+$')
    or not (token and token >= 1 and token < 9007199254740000)
    or not (least_memory and least_memory >= token
        and least_memory < 9007199254740000)
    or not (lease and lease >= 1 and lease <= 86400000)
    or not string.find(ARGV[6], M == 'snib:epoch' and '^[02] 1[,db%x]*$'
        or '^[12]$')
    or tonumber(string.match(ARGV[6], ',d(%d+)') or 0) > 86400000
    or not not_after
    or not (reserve and reserve <= 31) or #about > 1024 then
    return redis.error_reply('SNIBARG keep: bad arguments')
end
-- @include enter
local other = clock()
if other then
    return redis.error_reply(other)
end
if now > not_after or not_after > now + 10000 then
    return redis.error_reply('SNIBLATE the request came too late')
end
if least_memory > (now + 86400000) * 1024 then
    return redis.error_reply('SNIBFLOOR the clock of this server is more than '
        .. 'a day behind tokens seen before')
end

-- @include settle
-- Reading.
local forced = call('HGET', R, request)
if forced then
    return {now, 'REVOKED ' .. (string.match(forced, '^%d+ (.*)$') or '')}
end
if call('EXISTS', X) == 1 then
    return {now, 0}
end
memory()
local given = last
local holders = standing()
local own = field(holders, client)
local till, rest = now + lease,
    fmt('%s %.0f %d %s', E and ARGV[6] or '0 1', now, reserve, about)
local delay = tonumber(string.match(ARGV[6], ',d(%d+)') or 0)
local upgrade_of = string.match(ARGV[6], ',b(%x+)')
local known = false
if own then
    local id, _, ends, more = string.match(own,
        '^(%x+) (%d+) (%d+) (%d %S+ %d+ %d+ .*)$')
    if not id then
        return redis.error_reply(damaged('a holder record of', H))
    end
    if id == request and tonumber(ends) > now then
        known, rest = true, more
        till = math.max(till, tonumber(ends)) -- a late copy never shortens
    end
end
if not known then
    survey(holders, nil)
    if E and closed == 0 then
        return {now, live and 0 or 2}
    elseif E then
        if bad then
            return redis.error_reply(bad)
        end
        local later = fresh and #holders > 0 or given > least_memory
        for i = 1, #holders, 2 do
            local id, its, more = string.match(holders[i + 1],
                '^(%x+) (%d+) %d+ %d %d+(%S*) ')
            -- The owner's own reader that became this writer, or that it has
            -- inside, goes on.
            if id ~= upgrade_of and string.match(more, ',b(%x+)') ~= request
                and id ~= request then
                dead[#dead + 1] = holders[i]
                later = later or tonumber(its) >= token
            end
        end
        if later then
            return {now, 0}
        end
        drop[1] = request -- it waited when this server heard of it last
        call('ZCARD', A) -- types, before anything is written
        call('ZCARD', Q)
        call('HEXISTS', W, request)
    elseif live or (ARGV[6] == '1' and given > least_memory) then
        return {now, 0}
    end
end
if bad then
    return redis.error_reply(bad)
end

-- Writing.
local top = math.max(last, least_memory)
call('SET', T, fmt('%.0f', top), 'PX', fmt('%.0f',
    math.max(now, math.floor(top / 1024)) - now + 86400000))
local marked = M and raise(top, 0)
sweep()
call('HSET', H, client, fmt('%s %.0f %.0f %s', request, token, till, rest))
call('PEXPIRE', H, fmt('%d', math.max(till - now + delay + 100,
    (guarded or E) and call('PTTL', H) or 0)))
if M and not marked then
    guard(math.floor(top / 1024) - now + 86400000, true)
end
return {now, 1}
