-- examples/fence/enter.lua — a fence in Redis, first half: raise the mark
-- before the section's first read.
--
-- KEYS  1 the mark   (same hash tag as what it guards, for Redis Cluster)
-- ARGV  1 the grant's fencing token
-- Reply 1 go on · 0 a later holder was here, stop
--
-- Tokens are below 2^53, so Lua's numbers compare them exactly; the mark is
-- stored as the text that came, never as a number turned to text. It has no
-- TTL on purpose: a mark that expires lets a late writer in. Delete it with
-- the thing it guards.
local token = tonumber(ARGV[1])
if not string.find(ARGV[1], '^%d+$') or token >= 9007199254740992 then
    return redis.error_reply('FENCE the token is not one')
end
if tonumber(redis.call('GET', KEYS[1]) or '0') > token then
    return 0
end
redis.call('SET', KEYS[1], ARGV[1])
return 1
