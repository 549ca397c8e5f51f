-- drop.lua: end thin grants (enter.lua), each where nobody has come meanwhile.
--
-- KEYS  for each lock, 1 to 64: holders
-- ARGV  for each: request
-- Reply for one lock one of these, for several an array of them
--       1 it is ended  0 it is not there in this form: release.lua is to be
--       asked  an error of the server
local count = #KEYS
if count == 1 and #ARGV == 1 and #ARGV[1] == 32 then -- the usual case, quickly
    local v = redis.pcall('GET', KEYS[1])
    if type(v) == 'string' and string.find(v, ARGV[1], 1, true) == 1 then
        return redis.call('DEL', KEYS[1])
    end
    return 0
end
local done = {}
local fine = count >= 1 and count <= 64 and #ARGV == count
for i = 1, count do
    fine = fine and #ARGV[i] == 32
end
if not fine then
    return redis.error_reply('SNIBARG drop: bad arguments')
end
local pcall, find = redis.pcall, string.find
for i = 1, count do
    local v = pcall('GET', KEYS[i])
    if type(v) == 'string' and find(v, ARGV[i], 1, true) == 1 then
        done[i] = pcall('DEL', KEYS[i])
    else
        done[i] = 0
    end
end
return done
