-- value_get.lua: read a versioned value; writes nothing. It is a script only
-- for the sake of the bound: a field of megabytes that somebody else wrote must
-- not come down our connection.
--
-- KEYS  1 value
-- ARGV  none
-- Reply {version, bytes}  {0, ''} absent
local V = KEYS[1]
if #KEYS ~= 1 or #ARGV ~= 0 then
    return redis.error_reply('SNIBARG value_get: bad arguments')
end
local v = redis.call('HMGET', V, 'v', 'b')
if not v[1] and not v[2] and redis.call('EXISTS', V) == 0 then
    return {0, ''}
end
if not v[1] or not v[2] or #v[2] > 65536 or #v[1] > 16
    or not string.find(v[1], '^[1-9]%d*$') then
    return redis.error_reply('CORRUPT ' .. V .. ' is not a value of ours')
end
return {tonumber(v[1]), v[2]}
