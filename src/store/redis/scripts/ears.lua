-- ears.lua: how many listen to the channels on which clients are told of their
-- grants? `snib doctor` asks this. A channel should have one listener, its
-- client.
--
-- KEYS  none
-- ARGV  none
-- Reply {channels, how many of them have more listeners, one of those or ''}
-- At most ten thousand channels are counted, because each costs the server some
-- microseconds.
local all = redis.pcall('PUBSUB', 'CHANNELS', 'snib:*')
if all.err then
    return all
end
local count, more, one = math.min(#all, 10000), 0, ''
for i = 1, count, 100 do
    local v = redis.call('PUBSUB', 'NUMSUB',
        unpack(all, i, math.min(i + 99, count)))
    for k = 1, #v, 2 do
        if tonumber(v[k + 1]) > 1 then
            more, one = more + 1, v[k]
        end
    end
end
return {count, more, one}
