-- enter.lua: the server's clock, the error for damage, the token memory, what
-- stands at the key of the holders, and the one place besides keep.lua where a
-- new grant is written. This is no script by itself: embed.cmake puts it in
-- place of the line "-- @include enter". The including script has set call, fmt
-- and the keys H, T and M.
--
-- H has two forms. A mutex that was free when it was asked for stands there as
-- a string, the *thin* record, which a client has set without a script, by SET
-- NX (encode.c):
--     "<request> <client> <lease> <since> <token> <about>"  its TTL is the lease
-- The token is 0 until a renewal tells it. All other holders stand in a hash.
-- Where H is, SET NX fails, so the hash must be there as long as anything but
-- free is true of the lock: while somebody holds, waits or keeps it closed, and
-- while a tombstone lives. It then has the field "~", whose value says how long
-- for what lasts without waiters (server ms). A script that has to write turns a
-- thin record into the hash first.
--
-- M, the mark of this server, is an empty stream. Its ids only rise, and each
-- is a token: ms * 1024 + sequence, below 1024. A thin grant takes the next id,
-- and every other grant goes above the last one and raises M. A login that may
-- not use M has none: its tokens begin a ms later, and the lock stays a hash as
-- long as its token memory lives.
--
-- E, the epoch of this server (epoch.lua), stands in M's place among the keys of
-- who asks for recovery, and the ms of that are the last argument. M is no stream
-- then, so that no thin grant comes about, and who does not ask for recovery is
-- refused.
local E
if M == 'snib:epoch' then
    E, M = M, nil
end
local closed = 0 -- for so many ms nobody is let in anew
local bad, now, least, last
local live -- the holders that stand, see settle.lua; nil: there are none
local thin -- what the hash is to begin with; nil: there is no thin record
local thin_ahead -- it would last longer than its lease: the clock was set back
local guarded -- the value of "~"; nil: it is not there
local fresh -- H had no holder, so thin grants may have come and gone

-- The result is an error: this is a replica by now, or it was restarted,
-- promoted or emptied since the epoch began, so something may be forgotten here
-- that was acknowledged. The client then begins the next one. So it does where
-- the server's clock was set back during a recovery, and where another client
-- has begun the epoch, which asks for another recovery.
local function clock()
    local t = call('TIME')
    now = t[1] * 1000 + math.floor(t[2] / 1000)
    least = now * 1024 + math.floor(t[2] % 1000 * 1.024)
    if not E then
        return nil
    end
    local v = redis.pcall('GET', E)
    if type(v) == 'table' and not string.find(v.err, 'WRONGTYPE', 1, true) then
        call('GET', E) -- raises it
    end
    local id, till, recovery, top = string.match(
        type(v) == 'string' and v or '', '^(%x+) (%d+) (%d+) (%d+)$')
    local info = call('INFO', 'replication')
    if not string.find(info, 'role:master', 1, true) then
        return 'READONLY this server is a replica'
    elseif v and not id then
        return 'CORRUPT the epoch ' .. E .. ' is not ours: rename or delete '
            .. 'it, which begins a recovery'
    elseif not id or id ~= string.match(info, 'master_replid:(%x+)') then
        return 'SNIBEPOCH the server was restarted, replaced or emptied'
    elseif recovery ~= ARGV[#ARGV] or till - now > tonumber(recovery) then
        return 'SNIBEPOCH its recovery is not the one that is asked for'
    end
    closed = math.max(till - now, 0)
    least = math.max(least, tonumber(top))
    return nil
end

-- The error for a record that is not ours, or no longer whole. force.lua
-- removes such records.
local function damaged(what, key)
    return 'CORRUPT ' .. what .. ' ' .. key .. ' is damaged; '
        .. 'snib force-release mends it'
end

-- The holders, as HGETALL gives them. A thin record is shown as the holder that
-- it becomes, with no more than its lease, though the server's clock be set
-- back. Where its token is 0 only its client knows it. One that is not whole, or
-- would stand for ever, is damage.
local function standing()
    local v = redis.pcall('HGETALL', H)
    if not v.err then
        local from = #v
        for i = 1, from, 2 do
            if v[i] == '~' then
                guarded = tonumber(v[i + 1]) or 0
                v[i], v[i + 1] = v[from - 1], v[from]
                v[from - 1], v[from] = nil, nil
                break
            end
        end
        fresh = #v == 0
        return v
    end
    local record = redis.pcall('GET', H)
    if type(record) ~= 'string' then
        return call('HGETALL', H) -- not ours: the error of another type
    end
    local request, client, lease, since, token, about = string.match(
        record, '^(%x+) (%x+) (%d+) (%d+) (%d+) (.*)$')
    local left = request and call('PTTL', H) or -1
    -- Since clock() the server may have stood still: the end counts from after.
    local t = call('TIME')
    local seen = t[1] * 1000 + math.floor(t[2] / 1000)
    if left < 0 or #request ~= 32 or #client ~= 32
        or tonumber(lease) > 86400000 then
        bad = damaged('the holder record', H)
        return {}
    end
    thin_ahead = left > tonumber(lease)
    left = math.min(left, tonumber(lease))
    thin = {client, fmt('%s %s %.0f 0 1 %s 0 %s', request, token, seen + left,
        since, about), left, record}
    return {thin[1], thin[2]}
end

-- Make the hash of a thin record. If this user may not do so to the end, the
-- record is put back before the script fails: a lock that somebody holds must
-- not be free.
local function fatten()
    if thin then
        call('DEL', H)
        local fine, why = pcall(call, 'HSET', H, thin[1], thin[2])
        if fine then
            fine, why = pcall(call, 'PEXPIRE', H, fmt('%.0f', thin[3] + 100))
        end
        if not fine then
            call('SET', H, thin[4], 'PX', fmt('%.0f', math.max(thin[3], 1)))
            error(why, 0)
        end
        thin = nil
    end
end

-- H has to be there for so many ms more, whoever holds. lasts: also when nobody
-- waits any more. A waiter polls within 1.5 s, so its part need not be renewed
-- each time.
local function guard(ms, lasts)
    local till = math.max(guarded or 0, lasts and now + ms or 0)
    if till ~= guarded then
        call('HSET', H, '~', fmt('%.0f', till))
        guarded = till
    end
    if call('PTTL', H) < (lasts and ms or ms - 8000) then
        call('PEXPIRE', H, fmt('%.0f', ms))
    end
end

-- How long a tombstone lasts: until the latest not_after that its client wrote.
local function tomb_ms(not_after)
    return math.max(10000, math.min((tonumber(not_after) or 0) - now,
        172800000))
end

-- The next id of M, as a token; 0: M is not there, or beyond all tokens. One that
-- has given its last id is done without.
local function drawn()
    local function draw(by)
        return by('XADD', M, 'NOMKSTREAM', 'MAXLEN', '0', '*', 'a', '')
    end
    local id = draw(redis.pcall)
    if type(id) == 'table' and string.find(id.err, ' ID', 1, true) then
        M = nil
        return least + 1024
    elseif type(id) == 'table' then
        draw(call) -- raises it
    end
    local ms, number = string.match(id or '', '^(%d+)-(%d+)$')
    if not ms then
        return 0
    end
    number = tonumber(number)
    local token = number < 1024 and ms * 1024 + number or (ms + 1) * 1024
    return token < 9007199254740000 and token or 0
end

-- M gives no token up to this one any more. It lives for a day longer than the
-- latest grant, by the later of the clock and the token's own time. id: the one
-- that was drawn, or 0. False: the token is more than a day ahead of the clock,
-- and not because M is. No clock made it, so it counts for its own lock alone.
local function raise(top, id)
    local ms = math.floor(top / 1024)
    if ms > now + 86400000 and top > id + 32 then
        return false
    end
    redis.pcall('XADD', M, 'MAXLEN', '0', fmt('%.0f-%.0f', ms, top - ms * 1024),
        'a', '')
    if call('PTTL', M) < 129600000 then
        call('PEXPIRE', M, fmt('%.0f', math.max(now, ms) - now + 172800000))
    end
    return true
end

-- The era of a reader who finds nobody. If M has given nothing since `last`, no
-- thin grant has come since: an id behind it, which is given up for that, shows
-- it. So far ahead of the clock that no clock made it, `last` counts for its own
-- lock alone (raise).
local function era()
    local ms = math.floor((last + 1) / 1024)
    if ms > now + 86400000 then
        return math.max(last, drawn())
    end
    local id = redis.pcall('XADD', M, 'NOMKSTREAM', 'MAXLEN', '0',
        fmt('%.0f-%.0f', ms, last + 1 - ms * 1024), 'a', '')
    return type(id) == 'table' and math.max(last, drawn()) or last
end

-- A waiter's record in its parts. Nothing, if the record is damaged, or holds a
-- number that no acquire lets in: a command might refuse it in the middle of a
-- step.
local function waiting(record)
    local client, channel, poll, rank, lease, reserve, floor, mode, permits,
        more, about = string.match(record, '^(%x+) (%S+) (%d+) (%d+) (%d+) (%d+) '
            .. '(%d+) (%d) (%d+)(%S*) (.*)$')
    if client and tonumber(lease) <= 86400000 and tonumber(reserve) <= 31
        and tonumber(floor) < 9007199254740000
        and tonumber(string.match(more, ',d(%d+)') or 0) <= 86400000 then
        return client, channel, poll, rank, tonumber(lease), tonumber(reserve),
            tonumber(floor), mode, permits, more, about
    end
end

-- Read `last`, the highest token given so far to others than thin holders,
-- token reserves included. frees: the script has to free the lock, even if M is
-- not ours; then it does without it, like a login that may not use it.
local function memory(frees)
    local v = call('GET', T)
    local length = M and redis.pcall('XLEN', M) -- else a write comes first
    if type(length) == 'table' then
        if not string.find(length.err, 'WRONGTYPE', 1, true) then
            call('XLEN', M) -- raises it
        elseif redis.pcall('GET', M) == 'recovery' then
            closed = 86400000 -- those who ask for it see when it is open again
            if not frees then
                bad = 'SNIBRECOVERY the locks of this server are used with '
                    .. 'recovery= in the URL: use it here, too'
            end
            M = nil
        elseif frees then
            M = nil
        else
            bad = 'CORRUPT the mark ' .. M .. ' is of another type, so not '
                .. 'ours: rename or delete it'
        end
    end
    last = v and tonumber(v) or 0
    if v and not (string.find(v, '^%d+$') and last < 9007199254740000) then
        bad = 'CORRUPT the token memory ' .. T .. ' is not a token; '
            .. 'snib force-release begins it anew'
        last = 0
    end
end

-- Write a grant and return its token.
-- token = max(last + 1, server ms * 1024, floor + 1), printed by %.0f, since a
-- double turned to text by `..` loses digits. The ms carry their fraction, so
-- that tokens rise even when all was flushed within the same ms. The token
-- memory ends a day after the later of now and the token's own time, else a
-- clock set back would let tokens fall. PEXPIRE on the holders is only the
-- cleaner; `end` in the record is the truth. A reader gets no token of its own
-- but the era that it reads: the highest token given so far, if one is known.
-- Where thin grants may have come since, that is the next id of M.
-- permits: a number, then ",d<ms>", the lock-delay, then ",b<request>", the own
-- grant that is not in the way, then, of permits only, ",s<number>", the slot; or
-- ",k<ms>": its client may keep it for so long when it was released.
-- Modes: 0 mutex, 1 read, 2 write, 3 permits, 4 barrier. The record of an
-- exclusive holder (0, 2) is found by its client, all others by client and
-- request. The record says, by this server's clock, since when it is a grant:
-- `about` comes from the client, of a time before the wait.
-- shared: a table in which requests that are granted together (the parties of a
-- barrier) keep their common token.
local function enter(client, request, lease, reserve, floor, mode, permits,
    about, shared)
    local token = shared and shared.token
    local marked = M
    if mode == '1' and last > 0 then
        if M and fresh then
            last = era()
        end
        token = last
        marked = marked and last / 1024 <= now + 86400000
    elseif not token then
        local id = M and drawn() or least + 1024
        token = math.max(last + 1, id, least, floor + 1)
        last = token + reserve
        marked = M and raise(last, id)
    end
    fresh = false
    if shared then
        shared.token = token
    end
    local keep = now + lease
    if permits ~= '1' then
        keep = keep + (string.match(permits, ',d(%d+)') or 0)
    end
    if live then
        live.longest = math.max(live.longest, keep)
        keep = live.longest
    end
    keep = keep - now + 100
    if guarded then
        keep = math.max(keep, call('PTTL', H))
    end
    local at = client
    if mode ~= '0' and mode ~= '2' then
        at = client .. ':' .. request
    end
    call('HSET', H, at,
        fmt('%s %.0f %.0f %s %s %.0f %d %s', request, token, now + lease, mode,
            permits, now, reserve, about))
    call('PEXPIRE', H, fmt('%.0f', keep))
    call('SET', T, fmt('%.0f', last), 'PX',
        fmt('%.0f', math.max(now, math.floor(last / 1024)) - now + 86400000))
    if not marked and not E then -- no thin grant as long as that memory lives
        guard(math.max(now, math.floor(last / 1024)) - now + 86400000, true)
    end
    return token
end
