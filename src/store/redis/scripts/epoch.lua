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
-- Each script that may let somebody in compares (clock in enter.lua).
--
-- M, the mark, is taken from all who do not ask for recovery: thin grants need
-- its ids and would look at nothing else. Its last id becomes the least token.
--
-- KEYS  1 the epoch  2 the mark
-- ARGV  1 recovery ms, to a day: no lease is longer
-- Reply {now, for so many ms nobody is let in anew}
local E, M = KEYS[1], KEYS[2]
local call, fmt = redis.call, string.format
local recovery = string.find(ARGV[1] or '', '^%d+$') and tonumber(ARGV[1])
if #KEYS ~= 2 or #ARGV ~= 1 or not recovery or recovery < 1
    or recovery > 86400000 then
    return redis.error_reply('SNIBARG epoch: bad arguments')
end
local info = call('INFO', 'replication')
local id = string.match(info, 'master_replid:(%x+)')
if not string.find(info, 'role:master', 1, true) or not id then
    return redis.error_reply(id and 'READONLY this server is a replica'
        or 'SNIBRECOVERY this server tells no replication id: recovery= needs '
        .. 'it')
end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local its, till, known, least = string.match(call('GET', E) or '',
    '^(%x+) (%d+) (%d+) (%d+)$')
if known and tonumber(known) ~= recovery then
    return redis.error_reply('SNIBRECOVERY the locks of this server are used '
        .. 'with recovery=' .. known .. 'ms: it must be the same in all URLs')
end
till, least = tonumber(till or 0), tonumber(least or 0)
local mark = redis.pcall('GET', M)
if mark ~= 'recovery' then
    local drawn = redis.pcall('XADD', M, 'NOMKSTREAM', 'MAXLEN', '0', '*', 'a',
        '')
    local ms, number = string.match(type(drawn) == 'string' and drawn or '',
        '^(%d+)-(%d+)$')
    if ms then
        least = math.max(least,
            ms * 1024 + math.min(tonumber(number), 1023) + 1)
    elseif type(drawn) == 'table'
        and string.find(drawn.err, 'WRONGTYPE', 1, true) then
        return redis.error_reply('CORRUPT the mark ' .. M .. ' is of another '
            .. 'type, so not ours: rename or delete it')
    end
end
if its ~= id then
    till = now + recovery
end
-- Every key of ours ends some day. At maxmemory DEL passes, and then the others
-- do.
if its ~= id or mark ~= 'recovery' or call('PTTL', E) < 15768000000 then
    call('DEL', E, M)
    call('SET', E, fmt('%s %.0f %d %.0f', id, till, recovery, least), 'PX',
        '31536000000')
    call('SET', M, 'recovery', 'PX', '31622400000')
end
return {now, math.max(till - now, 0)}
