-- probe.lua: may this user run all commands that the other scripts run? The
-- client asks this at each connect with a login, and `snib doctor` asks it. The
-- script works on keys of its own, which it removes.
--
-- KEYS  1 a hash  2 a string  3 a sorted set  4 a stream  (names that no lock
--       can have)
-- ARGV  1 channel
-- Reply {{command, error text, …} of refused ones, subscribers of the channel,
--        or -1 where they could not be counted}
local wrong = {}
local function try(...)
    local v = redis.pcall(...)
    if type(v) == 'table' and v.err then
        wrong[#wrong + 1] = (select(1, ...))
        wrong[#wrong + 1] = v.err
        return nil
    end
    return v
end
local H, S, Z, M = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
try('DEL', H, S, Z, M)
try('PEXPIRE', H, '1000')
try('TIME')
try('EXISTS', H, S, Z, M)
if #wrong > 0 then
    return {wrong, -1} -- what is written could not be removed again
end
try('SET', S, '1', 'PX', '1000')
try('GET', S)
try('HSET', H, 'a', '1')
try('PEXPIRE', H, '1000')
try('HGET', H, 'a')
try('HMGET', H, 'a', 'b')
try('HGETALL', H)
try('HEXISTS', H, 'a')
try('ZADD', Z, '1', 'a')
try('PEXPIRE', Z, '1000')
try('PTTL', Z)
try('ZRANGE', Z, '0', '0', 'WITHSCORES')
try('ZRANGEBYSCORE', Z, '-inf', '0', 'LIMIT', '0', '1')
try('ZSCORE', Z, 'a')
try('ZRANK', Z, 'a')
try('ZCARD', Z)
try('ZREM', Z, 'a')
try('HDEL', H, 'a')
try('XADD', M, 'MAXLEN', '0', '*', 'a', '')
try('PEXPIRE', M, '1000')
try('XLEN', M)
local n = try('PUBSUB', 'NUMSUB', ARGV[1])
try('PUBLISH', ARGV[1], 'p')
redis.pcall('DEL', H, S, Z, M)
return {wrong, n and tonumber(n[2]) or -1}
