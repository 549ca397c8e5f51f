-- renew.lua: extend up to 128 grants of one client. Each lock is handled by
-- itself: a damaged key does the others no harm. The script compares request
-- and token, creates nothing, and never shortens a lease, since a late copy
-- must not undo a longer renewal. It does not settle: a lock that is renewed is
-- not free.
--
-- A lease of 0 asks only whether the grant stands, and writes nothing.
--
-- KEYS  for each lock, 1 to 128: holders, forced releases
-- ARGV  1 client; then for each lock: request (32 bytes), token, lease ms, to a
--       day
-- Reply {now, then for each lock one of}
--       1 extended  0 not ours  2 not ours, and nobody's  3 damaged
--       5 and more: extended; of permits, whose slot is this number - 5
--       "REVOKED " and who forced the release and why
--       another text: an error of the server
local client = ARGV[1]
local pcall, fmt = redis.pcall, string.format
if #KEYS < 2 or #KEYS > 256 or #ARGV ~= 1 + #KEYS / 2 * 3 then
    return redis.error_reply('SNIBARG renew: bad arguments')
end
for i = 2, #ARGV, 3 do
    local lease = string.find(ARGV[i + 2], '^%d+$') and tonumber(ARGV[i + 2])
    if #ARGV[i] ~= 32 or not (lease and lease <= 86400000) then
        return redis.error_reply('SNIBARG renew: bad arguments')
    end
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local reply = {now}

local function failed(v)
    return type(v) == 'table' and v.err
end

local function nobody(H)
    local all = pcall('HGETALL', H)
    if failed(all) then
        return false
    end
    for i = 2, #all, 2 do
        local till = string.match(all[i], '^%x+ %d+ (%d+) ')
        if all[i - 1] ~= '~' and (not till or tonumber(till) > now) then
            return false
        end
    end
    return true
end

-- Why it is not ours: an entry among the forced releases, or another's.
local function revoked(R, request)
    local forced = pcall('HGET', R, request)
    return type(forced) == 'string'
        and 'REVOKED ' .. (string.match(forced, '^%d+ (.*)$') or '')
end

-- H is a string: a thin record (enter.lua), whose TTL is its lease. The first
-- renewal writes the token into it. Who makes a hash of it later gives it no more
-- than the lease that stands in it, so a longer one is written, too.
local function extend_thin(H, R, request, token, lease, own)
    local id, client, known, since, given, about = string.match(
        type(own) == 'string' and own or '',
        '^(%x+) (%x+) (%d+) (%d+) (%d+) (.*)$')
    local ttl = pcall('PTTL', H)
    if not id or failed(ttl) or ttl < 0 then
        return 3
    end
    if id ~= request or (given ~= token and given ~= '0') or ttl == 0 then
        return revoked(R, request) or 0
    end
    if lease == 0 then
        return 1
    end
    known = tonumber(known)
    local done
    if given == '0' or lease > known then
        done = pcall('SET', H, fmt('%s %s %d %s %s %s', id, client,
            math.max(lease, known), since, token, about), 'PX',
            fmt('%d', math.max(lease, ttl)))
        if not failed(done) then
            return 1
        elseif lease > known then
            return done.err
        end -- at maxmemory, for one: the token can wait
    end
    done = lease > ttl and pcall('PEXPIRE', H, fmt('%d', lease))
    return failed(done) and done.err or 1
end

-- text: what MGET says of H, if anything.
local function extend(H, R, request, token, lease, text)
    if text then
        return extend_thin(H, R, request, token, lease, text)
    end
    local at = client
    local own = pcall('HGET', H, at)
    if failed(own) then
        return string.find(own.err, 'WRONGTYPE', 1, true)
            and extend_thin(H, R, request, token, lease, pcall('GET', H))
            or own.err
    end
    if not own or string.sub(own, 1, 33) ~= request .. ' ' then
        -- Not an exclusive holder: a reader, a holder of permits, or a party.
        at = client .. ':' .. request
        own = pcall('HGET', H, at) or own
    end
    local id, given, till, rest
    if own then
        id, given, till, rest = string.match(own, '^(%x+) (%d+) (%d+) (.*)$')
        if not id then
            return 3
        end
        till = tonumber(till)
    end
    if id == request and given == '0' then
        given = token -- it was thin, so only its client knows the token
    end
    if id ~= request or given ~= token or till <= now then
        return revoked(R, request) or id ~= request and nobody(H) and 2 or 0
    end
    local slot = string.byte(rest) == 51 -- '3': permits
        and string.match(rest, '^3 %S+,s(%d+)')
    local code = slot and 5 + slot or 1
    if lease == 0 then
        return code
    end
    till = math.max(till, now + lease)
    -- PEXPIRE comes first: it passes at maxmemory and lets HSET pass. The TTL
    -- is never shortened, since others may hold for longer. A grant that was
    -- held for half a day keeps its record for a day: the record is the token
    -- memory when the other one has ended.
    local keep = till - now + 100 + (string.match(rest, '^%d %d+,d(%d+)') or 0)
    local ttl = pcall('PTTL', H)
    if failed(ttl) then
        return ttl.err
    end
    keep = math.max(keep, ttl)
    if now - token / 1024 > 43200000 then
        keep = math.max(keep, 86400000)
    end
    local done = pcall('PEXPIRE', H, fmt('%d', keep))
    if not failed(done) then
        done = pcall('HSET', H, at,
            fmt('%s %s %.0f %s', id, given, till, rest))
    end
    if failed(done) then
        return done.err
    end
    return code
end

local keys = {}
for i = 1, #KEYS, 2 do
    keys[#keys + 1] = KEYS[i]
end
-- Which are strings? Of a hash MGET says nothing, where GET would be an error.
local texts = pcall('MGET', unpack(keys))
for i = 1, #KEYS, 2 do
    local at = (i - 1) / 2 * 3 + 2
    reply[#reply + 1] = extend(KEYS[i], KEYS[i + 1], ARGV[at], ARGV[at + 1],
        tonumber(ARGV[at + 2]), texts[(i + 1) / 2])
end
return reply
