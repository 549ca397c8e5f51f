-- examples/fence/write.lua — a fence in Redis, second half: compare with each
-- write, in the same script. This one sets fields of a hash; put what your
-- write is in the place of HSET.
--
-- KEYS  1 the mark  2 the hash
-- ARGV  1 the grant's fencing token  2 field  3 value  4 field …
-- Reply 1 written · 0 refused: the mark is not ours any more
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('HSET', KEYS[2], unpack(ARGV, 2))
return 1
