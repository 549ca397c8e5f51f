-- acquire.lua: take the lock, or a position in its queue, or hear how long the
-- first holder may hold. The client may send the same request again (a poll, or
-- a repeat after a lost reply). Then a grant that still stands is re-armed and
-- told again, and a waiter keeps its position.
--
-- KEYS  1 holders  2 token  3 queue by rank  4 waiters  5 waiters by alive-
--       until  6 this request's tombstone  7 params  8 the mark, if this login
--       may use it
-- ARGV  1 client  2 request: 32 hexadecimal digits each  3 lease ms, 1 to a day
--       4 may queue (0, 1)  5 poll number, 32 bits  6 not_after (server ms),
--       now to 10 s ahead  7 floor  8 token reserve, to 31  9 an own earlier
--       grant that ends in the same step (prior): "<token>,<request>", or 0
--       10 channel  11 mode (see enter.lua)  12 permits, 32 bits, from 1 (mode
--       3: 0, all that are left), then ",d<ms>", the lock-delay, to a day, then
--       ",b<request>", the own grant that is not in the way (upgrade_of); or, of
--       mode 0, ",k<ms>": the client may keep the grant for so long after a
--       release, to 1 s, and gives it back when it is told that somebody waits
--       13 alive window ms, 1 to 60 s  14 about, to 1024 bytes
--       15 size of the semaphore if it has none yet, or 0; 32 bits
--       16 class, to 255: lower ones are served first, 0 is for upgrades
--       17 recovery ms, where the epoch stands in the mark's place (enter.lua)
-- Reply {1, now, token, token reserve, lease, permits}  granted; the lease
--                        counts from the send of this copy; of permits the slot
--                        stands behind that, of a grant that may be kept 1 if
--                        nobody waits, else 0
--       {2, now, position, left, 1}  queued; left: ms to the first holder's end,
--                              0 if nobody holds; 1, else left out: as far as
--                              the server knows this request holds, too
--       {3, now, left, closed, kept}  held by another, not queued; or nobody is let
--                              in for `closed` ms: the server was restarted,
--                              replaced or emptied; kept: 1 if its client may
--                              merely keep it, and was told; 0s may be left out
--       {4, now}               too late, or a strange not_after
--       {5, now}               this request was cancelled
--       {6, now, size}         the semaphore has fewer permits than asked for
--       {7, now}               the grant named by upgrade_of has ended
--       {8, now}               another reader is waiting to become the writer
--       {9, now}               the semaphore has no size
local H, T, Q, W, A, X, C, M = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5],
    KEYS[6], KEYS[7], KEYS[8]
local call, fmt = redis.call, string.format
local client, request = ARGV[1], ARGV[2]
local prior, prior_request = string.match(ARGV[9] or '', '^(%d+)(.*)$')
local lease, poll = tonumber(ARGV[3]), tonumber(ARGV[5])
local not_after, floor = tonumber(ARGV[6]), tonumber(ARGV[7])
local reserve, window = tonumber(ARGV[8]), tonumber(ARGV[13])
local mode, permits, about = ARGV[11], ARGV[12], ARGV[14]
local capacity, class = tonumber(ARGV[15]), tonumber(ARGV[16])
local count, more, keeps = '1', '', nil
if permits ~= '1' then
    keeps = string.match(permits, '^1,k(%d+)$')
    if keeps then
        more = ',k' .. keeps
    else
        count, more = string.match(permits, '^(%d+)([,%x]*)$')
    end
end
if #KEYS < 7 or #KEYS > 8 or #ARGV ~= (M == 'snib:epoch' and 17 or 16)
    or #client ~= 32 or #request ~= 32
    or not string.find(client .. request, '^%x+$')
    or not string.find(ARGV[3] .. ARGV[5] .. ARGV[6] .. ARGV[7] .. ARGV[8]
        .. mode .. ARGV[13] .. ARGV[15] .. ARGV[16], '^%d+$')
    or not (ARGV[4] == '0' or ARGV[4] == '1')
    or not (lease and lease >= 1 and lease <= 86400000)
    or not (poll and poll <= 4294967295) or not not_after
    or not (floor and floor < 9007199254740000) or not prior
    or not (prior_request == '' or string.find(prior_request, '^,%x+$')
        and #prior_request == 33)
    or not (reserve and reserve <= 31) or #mode ~= 1 or tonumber(mode) > 4
    or not count or #count > 10 or tonumber(count) > 4294967295
    or (mode ~= '3' and tonumber(count) == 0)
    or not (more == '' or keeps or string.find(more, '^,b%x+$')
        or string.find(more, '^,d%d+$') or string.find(more, '^,d%d+,b%x+$'))
    or tonumber(string.match(more, '^,d(%d+)') or 0) > 86400000
    or (keeps and (mode ~= '0' or tonumber(keeps) > 1000))
    or not (capacity and capacity <= 4294967295) or not (class and class <= 255)
    or not (window and window >= 1 and window <= 60000)
    or not string.find(ARGV[10], '^snib:[%x:]+$') or #about > 1024 then
    return redis.error_reply('SNIBARG acquire: bad arguments')
end
-- @include enter
local other = clock()
if other then
    return redis.error_reply(other)
end
if now > not_after or not_after > now + 10000 then
    return {4, now}
end
if floor > (now + 86400000) * 1024 then
    return redis.error_reply('SNIBFLOOR the clock of this server is more than '
        .. 'a day behind tokens seen before')
end
if least > 9007199254000000 then -- 2^53 and the room of a few; nothing is left
    return redis.error_reply('SNIBCLOCK the clock of this server is beyond '
        .. 'the range of tokens (the year 2248): set it')
end

-- The short way: nobody holds or waits, this request was not cancelled, and the
-- lock has no params.
local plain = mode ~= '3' and mode ~= '4'
    and (more == '' or not string.find(more, 'b', 1, true))
if plain and closed == 0 and call('EXISTS', H, A, X, C) == 0 then
    fresh = true
    memory()
    if bad then
        return redis.error_reply(bad)
    end
    local token = enter(client, request, lease, reserve, floor, mode, permits,
        about)
    return {1, now, token, reserve, lease, tonumber(count), keeps and 1 or nil}
end

-- @include settle
-- Reading.
if call('EXISTS', X) == 1 then
    return {5, now}
end
local holders = standing()
local at = exclusive(mode) and client or client .. ':' .. request
local own = field(holders, at)
local stands = false
if own and string.sub(own, 1, 33) == request .. ' ' then
    local id, token, till, rest, k, kept = string.match(own,
        '^(%x+) (%d+) (%d+) (%d (%d+)%S* %d+ (%d+) .*)$')
    if not id then
        return redis.error_reply(damaged('a holder record of', H))
    end
    till = tonumber(till)
    stands = till > now and closed > 0
    if stands then
        -- Ours, as far as this server knows. It may have ended, and another's
        -- may be forgotten: that is known when the epoch's recovery is over. So
        -- it waits like others, at the head of its class. (If its client knows
        -- of the grant, this copy came late.)
    elseif till > now and token == '0' then
        -- Ours, by a thin record of which this is a repeat. Nobody can know
        -- which token it had.
        memory()
        if bad then
            return redis.error_reply(bad)
        end
        fatten()
        token = enter(client, request, math.max(lease, till - now), reserve,
            floor, mode, '1', about)
        return {1, now, token, reserve, lease, 1}
    elseif till > now then
        -- Ours already. The lease is re-armed, but never shortened: this may be
        -- a late copy.
        till = math.max(till, now + lease)
        fatten()
        local delay = tonumber(string.match(rest, '^%d %d+,d(%d+)') or 0)
        call('PEXPIRE', H, fmt('%.0f',
            math.max(till - now + delay + 100, call('PTTL', H))))
        call('HSET', H, at, fmt('%s %s %.0f %s', id, token, till, rest))
        return {1, now, tonumber(token), tonumber(kept), lease, tonumber(k),
            tonumber(string.match(rest, '^3 %S+,s(%d+)') or nil)}
    end
end
local gone
own = prior ~= '0' and field(holders, client)
if is_prior(own, prior, prior_request) then
    gone = client
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
        bad = damaged('a waiter record of', W)
    end
end
if not counter then
    bad = damaged('the rank counter of', W)
end
local queue = ARGV[4] == '1' or rank
for _, id in ipairs(call('ZRANGEBYSCORE', A, '-inf', fmt('%.0f', now),
    'LIMIT', 0, 16)) do
    if id ~= request then
        drop[#drop + 1] = id
    end
end
if mode == '3' then
    params()
end
-- A newcomer stands behind the waiters of its class, ahead of those with a
-- higher class number.
local me = wants({id = request, mode = mode, lease = lease, permits = 0,
    rank = rank or class * 1099511627776 + (counter or 0) + 1,
    permits_word = '',
    delay = 0}, count, more)
local set = mode == '3' and not size and capacity > 0
local refused
size = size or (set and capacity)
if mode == '3' and not size then
    refused = 9
elseif mode == '3' and me.permits > size then
    refused = 6
elseif me.upgrade_of and not (live and live[me.upgrade_of])
    and (closed == 0 or exclusive(mode)) then
    refused = 7 -- in a recovery a writer who reads may reclaim it yet
elseif me.upgrade_of and exclusive(mode) then
    tools()
    -- Of the readers that wait to become the writer only the first that is
    -- alive may go on. One that was unresponsive and comes back may find that
    -- another reader has taken that part.
    for _, id in ipairs(call('ZRANGEBYSCORE', Q, '-inf', '(1099511627776')) do
        if id == request or refused then
            break
        elseif waiter(id) then
            refused = 8
        end
    end
elseif mode == '3' and me.permits == 0 then -- all that are left
    me.permits = math.max(size - (live and live.used or 0), 0)
    me.permits_word = fmt('%.0f%s', me.permits, more)
    queue = queue and me.permits > 0
end
if refused or me.permits == 0 then
    if rank then
        drop[#drop + 1] = request
    end
    walk(nil, request)
else
    me.stays = queue
    walk(me)
end
if #dead > 0 or #drop > 0 then
    call('ZCARD', Q) -- its type; else a write to it comes first
end
if bad then
    return redis.error_reply(bad)
end

-- Writing. A thin record that is only in the way stays one, unless it would be
-- in the way for longer than its lease, if nobody but such callers came.
local shut = mode == '3' and not refused and latch > 0
if not mine and not queue and #dead == 0 and not thin_ahead and not shut then
    thin = nil
end
if mine and rank then
    drop[#drop + 1] = request
end
sweep()
if set and not refused then
    call('HSET', C, 'size', fmt('%.0f', size))
end
if mode == '3' and not refused then
    call('PEXPIRE', C, '2592000000')
end
if shut then
    guard(2592000000) -- as long as the latch, which it has just prolonged
end
local token
if mine then
    token = enter(client, request, lease, reserve, floor, mode,
        me.permits_word, about, me.shared)
end
hand()
if mine then
    tell()
    local alone = keeps and (call('EXISTS', A) == 0 and 1 or 0)
    return {1, now, token, reserve, lease, me.permits, alone or me.slot}
end
if refused then
    tell()
    return {refused, now, size or 0}
end
local left = math.max(live and live.till - now or 0, closed)
if not queue then
    tell()
    if kept_by then
        ask_back()
        return {3, now, left, closed, 1}
    end
    return {3, now, left, closed > 0 and closed or nil}
end
if stands and not rank then
    rank = (me.upgrade_of and 0 or class) * 1099511627776
end
if not rank then
    counter = counter + 1
    rank = (me.upgrade_of and 0 or class) * 1099511627776 + counter
end
-- Since when a request has been waiting is told by this server's clock, not by
-- the client's.
local since = string.match(place[2] or '', '[ &]since=(%d+)')
about = string.sub(string.gsub('&' .. about, '&since=%d+',
    '&since=' .. (since or fmt('%.0f', now)), 1), 2)
call('ZADD', Q, fmt('%.0f', rank), request)
call('HSET', W, '#', fmt('%.0f', counter), request,
    fmt('%s %s %.0f %.0f %d %d %.0f %s %s %s', client, ARGV[10], poll, rank,
        lease, reserve, floor, mode, permits, about))
call('ZADD', A, fmt('%.0f', now + window), request)
local before = call('ZRANK', Q, request)
-- The cleaner: keys without waiters expire. Q and W get their TTL anew at each
-- poll, but not at each first entry, to save commands. Every waiter polls
-- within 1.5 s, so eight entries without a poll between them take less than 20
-- s.
local keep = fmt('%d', window + 20000)
call('PEXPIRE', A, keep)
if place[2] or before == 0 or counter % 8 <= 1 then
    call('PEXPIRE', Q, keep)
    call('PEXPIRE', W, keep)
end
guard(window + 20000)
if latch and latch > 0 then
    guard(2592000000) -- in case it was lost
end
tell()
if kept_by and before == 0 then -- those behind it wait for the same message
    ask_back()
end
return {2, now, before + 1, left, stands and 1 or nil}
