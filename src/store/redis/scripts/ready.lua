-- ready.lua: for how long nobody is let in anew here (epoch.lua); and the end of
-- that, by hand. Who ends it says that nobody goes on who held before, and has
-- not reclaimed it (keep.lua): nothing here can know that.
--
-- A recovery is named by when it is over. Another one, which has begun since it
-- was looked at, goes on. Of the epoch nothing else changes, its life neither.
--
-- KEYS  1 the epoch
-- ARGV  1 0, or the end (server ms) of the recovery that is to be over now
--       2 recovery ms
-- Reply {ms for which nobody was let in, end (server ms), 1: ended by this}
local H, T, M = '', '', KEYS[1]
local call, fmt = redis.call, string.format
local function number(text, least, most)
    local n = string.find(text or '', '^%d+$') and tonumber(text)
    return n and n >= least and n <= most
end
if #KEYS ~= 1 or M ~= 'snib:epoch' or #ARGV ~= 2
    or not number(ARGV[1], 0, 9007199254740991)
    or not number(ARGV[2], 1, 86400000) then
    return redis.error_reply('SNIBARG ready: bad arguments')
end
-- @include enter
local other = clock()
if other then
    return redis.error_reply(other)
end
local id, till, recovery, top = string.match(call('GET', E),
    '^(%x+) (%d+) (%d+) (%d+)$')
local ends = closed > 0 and till == ARGV[1]
if ends then
    local life = call('PTTL', E)
    call('SET', E, fmt('%s %.0f %s %s', id, now, recovery, top), 'PX',
        fmt('%.0f', life > 0 and life or 31536000000))
end
return {closed, tonumber(till), ends and 1 or 0}
