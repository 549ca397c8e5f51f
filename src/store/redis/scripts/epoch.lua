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
-- Each script that may let somebody in compares (clock in enter.lua). A recovery
-- that lies further ahead than it lasts began before the server's clock was set
-- back: it begins anew.
--
-- All clients have to ask for the same recovery. While one runs the longest
-- counts, from when it began, since the server may have forgotten a lease of that
-- length. Else, and with a shorter one, another number is refused.
--
-- M, the mark, is taken from all who do not ask for recovery: thin grants need
-- its ids and would look at nothing else. Its last id becomes the least token.
--
-- With replicas=N a grant counts when N replicas have acknowledged it. So an
-- epoch begins only where N are connected: from then on they acknowledge nothing
-- to a primary that was there before, and goes on. How many they are stands in
-- front of the recovery, as so many zeros, wherever that is written: the number
-- stays the same, and the scripts compare the text. More than are known count
-- from now on, in an epoch that begins now; but only while a recovery runs.
--
-- KEYS  1 the epoch  2 the mark
-- ARGV  1 recovery ms, to a day: no lease is longer; with replicas= zeros before it
-- Reply {now, for so many ms nobody is let in anew, the replication id}
local E, M = KEYS[1], KEYS[2]
local call, pcall, fmt = redis.call, redis.pcall, string.format
local recovery = string.find(ARGV[1] or '', '^%d+$') and tonumber(ARGV[1])
if #KEYS ~= 2 or #ARGV ~= 1 or not recovery or recovery < 1
    or recovery > 86400000 then
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
if failed(v, 'WRONGTYPE') or type(v) == 'string' and not its then
    return redis.error_reply('CORRUPT the epoch ' .. E .. ' is not ours: '
        .. 'rename or delete it, which begins a recovery')
elseif type(v) == 'table' then
    call('GET', E) -- raises it
end
till, least = tonumber(till), tonumber(least or 0)
local known = tonumber(text)
local fresh = its ~= id or till > now + known
local copies, has = replicas(ARGV[1]), replicas(text or '')
local over = not fresh and till <= now
if known and (known > recovery or has > copies
    or over and (known < recovery or has < copies)) then
    return redis.error_reply(fmt('SNIBRECOVERY the locks of this server are '
        .. 'used with recovery=%.0fms%s: it must be the same in all URLs', known,
        has + copies > 0 and fmt(' and replicas=%d', has) or ''))
end
fresh = fresh or has < copies
local _, online = string.gsub(info, 'state=online', '')
if fresh and online < copies then
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
if fresh or known < recovery or length or call('PTTL', E) < 15768000000 then
    call('DEL', E, M)
    call('SET', E, fmt('%s %.0f %s %.0f', id, till, ARGV[1], least), 'PX',
        life)
    call('SET', M, 'recovery', 'PX', '31622400000')
end
return {now, math.max(till - now, 0), id}
