-- epoch.lua: is this the server that it was, with all that it has acknowledged?
-- A client that asks for recovery begins each connection with this.
--
-- A server that was restarted, promoted or emptied may have forgotten grants.
-- Their holders go on, for a lease at most. So nobody is let in anew until the
-- longest lease is over that may be forgotten: that is the *recovery* of an
-- *epoch*. Meanwhile holders reclaim what is theirs (keep.lua). E tells whether
-- the epoch began here: a server takes another replication id when it is
-- restarted or promoted, and when it is emptied E is gone.
--     "<replication id> <recovery is over, server ms> <recovery ms> <least token>"
-- Each script that may let somebody in compares (clock in enter.lua), and lets
-- nobody in where E is not of this server. So an epoch need not begin before
-- somebody wants a lock, and who only looks writes nothing. A recovery that lies
-- further ahead than it lasts began before the server's clock was set back: it
-- begins anew.
--
-- All clients have to ask for the same recovery. Who gives another number than
-- stands in E is refused, and changes nothing: it may be mistyped. But a shorter
-- one may have been the first at a server that was emptied. So while a recovery
-- runs, or as one begins, a longer one of a client that was served with it
-- before, or holds by it, counts, from when the recovery began: the server may
-- have forgotten a lease of that length.
--
-- A recovery may be ended by hand. Who does so says that nobody goes on who held
-- before, and has not reclaimed it: nothing here can know that. It is named by
-- when it is over. Another one, which has begun since it was looked at, goes on.
-- One that has not begun has no end, and is named by when it was looked at. That
-- counts for no longer than the recovery lasts: until then nobody can have been let
-- in since the look. Later one may have begun and be over, and the server may have
-- forgotten once more. Of an epoch that is there nothing else changes, its life
-- neither.
--
-- M, the mark, is taken from all who do not ask for recovery: thin grants need
-- its ids and would look at nothing else. Its last id becomes the least token.
--
-- With replicas=N a grant counts when N replicas have acknowledged it. So an
-- epoch begins only where N are connected: from then on they acknowledge nothing
-- to a primary that was there before, and goes on. How many they are stands in
-- front of the recovery, as so many zeros, wherever that is written: the number
-- stays the same, and the scripts compare the text. It is refused like another
-- recovery. Where a longer recovery would count, so do more replicas, in an epoch
-- that begins now. The larger of each counts, whoever brings it: else who asked for
-- the other one would be let in by less than he relies on. So it may be that both
-- are refused until one number is written everywhere. Where an epoch is to begin
-- and fewer are connected, who looks is told how many are missing: it cannot be
-- said from when on nobody is let in.
--
-- KEYS  1 the epoch  2 the mark
-- ARGV  1 recovery ms, to a day: no lease is longer; with replicas= zeros before it
--       2 0: only look; begin: somebody wants a lock; known: and this client was
--         served with that number, or holds a lock; else a number: the recovery
--         that is to be over now, as the reply names it
-- Reply {now, for so many ms nobody is let in anew, its name: when that is over
--        (server ms), or -now: it begins when somebody wants a lock, 1: it was
--        ended by this, the replication id, how many replicas are missing before
--        one can begin}; a 0 at the end may be left out
local E, M = KEYS[1], KEYS[2]
local call, pcall, fmt = redis.call, redis.pcall, string.format
local recovery = string.find(ARGV[1] or '', '^%d+$') and tonumber(ARGV[1])
local wish = ARGV[2] or ''
local begins = wish == 'begin' or wish == 'known'
if #KEYS ~= 2 or #ARGV ~= 2 or not recovery or recovery < 1
    or recovery > 86400000
    or not (begins or string.find(wish, '^%-?%d+$') and wish ~= '-0'
        and math.abs(tonumber(wish)) <= 9007199254740991) then
    return redis.error_reply('SNIBARG epoch: bad arguments')
end
local function replicas(text)
    return #string.match(text, '^0*')
end
local function failed(v, why)
    return type(v) == 'table' and string.find(v.err, why, 1, true)
end
local info = pcall('INFO', 'replication')
if failed(info, 'nknown') then
    info = '' -- the server has no such command, or calls it otherwise
elseif type(info) == 'table' then
    return redis.error_reply('NOPERM recovery= needs the right to INFO: give '
        .. 'the user +info')
end
local id = string.match(info, 'master_replid:(%x+)')
if not id or not string.find(info, 'role:master', 1, true) then
    return redis.error_reply(id and 'READONLY this server is a replica'
        or 'SNIBRECOVERY this server tells scripts no replication id (INFO '
        .. 'replication): recovery= needs it')
end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local v = pcall('GET', E)
local its, till, text, least = string.match(type(v) == 'string' and v or '',
    '^(%x+) (%d+) (%d+) (%d+)$')
if failed(v, 'WRONGTYPE') or type(v) == 'string'
    and not (its and tonumber(text) <= 86400000) then
    return redis.error_reply('CORRUPT the epoch ' .. E .. ' is not ours: '
        .. 'rename or delete it, which begins a recovery')
elseif type(v) == 'table' then
    call('GET', E) -- raises it
end
till, least = tonumber(till), tonumber(least or 0)
local known = tonumber(text)
local fresh = its ~= id or till > now + known
local copies, has = replicas(ARGV[1]), replicas(text or '')
if known and (known ~= recovery or has ~= copies)
    and not (wish == 'known' and (known < recovery or has < copies)
        and (fresh or till > now)) then
    local function shown(ms, n)
        return (ms % 1000 == 0 and fmt('%.0fs', ms / 1000) or fmt('%.0fms', ms))
            .. (n > 0 and fmt('&replicas=%d', n) or '')
    end
    return redis.error_reply(fmt('SNIBRECOVERY the server is used with '
        .. 'recovery=%s, this URL says %s: write %s here; to change it for all, '
        .. 'stop them, wait for the longest lease, delete snib:epoch',
        shown(known, has), shown(recovery, copies), shown(known, has)))
end
fresh = fresh or has < copies
recovery, copies = math.max(recovery, known or 0), math.max(copies, has)
local asked = string.rep('0', copies) .. fmt('%.0f', recovery)
local looked = not begins and -tonumber(wish)
local opens = fresh and looked and looked > 0 and looked <= now
    and now < looked + recovery
local _, online = string.gsub(info, 'state=online', '')
local missing = fresh and online < copies and copies - online or nil
if missing and (begins or opens) then
    return redis.error_reply(fmt('SNIBREPLICAS %d of the %d replicas that '
        .. 'replicas= asks for are connected: without them the server lets '
        .. 'nobody in', online, copies))
end
local mark = pcall('GET', M)
local length = mark ~= 'recovery' and pcall('XLEN', M)
if failed(length, 'WRONGTYPE') then
    return redis.error_reply('CORRUPT the mark ' .. M .. ' is of another '
        .. 'type, so not ours: rename or delete it')
elseif type(length) == 'table' then
    call('XLEN', M) -- raises it
end
if not begins and not opens then
    local ends = not fresh and till > now and wish == fmt('%.0f', till)
    if ends then
        local life = call('PTTL', E)
        call('SET', E, fmt('%s %.0f %s %.0f', id, now, text, least), 'PX',
            fmt('%.0f', life > 0 and life or 31536000000))
    end
    return {now, fresh and recovery or math.max(till - now, 0),
        fresh and -now or till, ends and 1 or 0, id, missing}
end
-- Every key of ours ends some day. At maxmemory the first write passes if it
-- takes no room, and then the others do.
local life = '31536000000'
if length then
    call('PEXPIRE', E, life)
    local drawn = pcall('XADD', M, 'NOMKSTREAM', 'MAXLEN', '0', '*', 'a', '')
    local ms, number = string.match(type(drawn) == 'string' and drawn or '',
        '^(%d+)-(%d+)$')
    if ms and ms * 1024 < 9007199254740000 then
        least = math.max(least,
            ms * 1024 + math.min(tonumber(number), 1023) + 1)
    elseif type(drawn) == 'table' and not failed(drawn, ' ID') then
        return redis.error_reply(drawn.err)
    end
end
if fresh then
    till = now + recovery
elseif known < recovery then
    till = till + recovery - known
end
if opens then
    till = now
end
if fresh or text ~= asked or length or call('PTTL', E) < 15768000000 then
    call('DEL', E, M)
    call('SET', E, fmt('%s %.0f %s %.0f', id, till, asked, least), 'PX', life)
    call('SET', M, 'recovery', 'PX', '31622400000')
end
if opens then
    return {now, recovery, till, 1, id}
end
return {now, math.max(till - now, 0), till, 0, id}
