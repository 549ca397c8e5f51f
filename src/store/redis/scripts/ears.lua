-- ears.lua: who listens where clients are told of their grants? For `snib
-- doctor`. A channel has one listener, its client.
--
-- Reply {channels, those with more listeners, one of these}
-- (Of ten thousand at most: looking costs the server some microseconds each.)
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
