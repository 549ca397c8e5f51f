-- several.lua: try several locks in one step (a batch). acquire.lua is run for
-- each of them, in the order given, until one is not granted.
--
-- KEYS  7 for each lock, as for acquire.lua; then the mark, if this login may
--       use it
-- ARGV  1  1: all or none, else the grants before the first refusal are kept
--       then 16 for each lock, as for acquire.lua; then, with the epoch,
--       recovery ms
-- Reply an array with one of these for each lock
--       the reply of acquire.lua
--       {0, now, error}  it failed, and nothing was done for it
--       {10, now}        it was not tried, or it was granted and given back,
--                        because another one was refused
local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
local count = math.floor(#KEYS / 7)
local mark = KEYS[7 * count + 1]
local all = ARGV[1] == '1'
local recovery = ARGV[16 * count + 2]
if count < 1 or #KEYS - 7 * count > 1
    or #ARGV ~= 16 * count + (mark == 'snib:epoch' and 2 or 1) then
    return redis.error_reply('SNIBARG several: bad arguments')
end

local function acquire(KEYS, ARGV)
-- @include acquire
end

-- release.lua gets acquire.lua's keys, so the sixth is a tombstone's and not
-- that of the forced releases. It is not read here: release.lua reads it only
-- where the grant is not ours, and this grant was given a moment ago.
local function release(KEYS, ARGV)
-- @include release
end

-- True: an earlier copy of this request was granted. Its reply may be in use
-- already, so that grant is not given back.
local function stood(keys, args)
    local client, request = args[1], args[2]
    for _, at in ipairs({client, client .. ':' .. request}) do
        local own = redis.pcall('HGET', keys[1], at)
        if type(own) == 'string' and string.sub(own, 1, 33) == request .. ' ' then
            return true
        end
    end
    return false
end

local function keys_of(i)
    local keys = {unpack(KEYS, 7 * i - 6, 7 * i)}
    keys[8] = mark
    return keys
end

local function args_of(i)
    local args = {unpack(ARGV, 16 * i - 14, 16 * i + 1)}
    args[17] = recovery
    return args
end

local function attempt(keys, args)
    local fresh = all and not stood(keys, args)
    local reply = acquire(keys, args)
    if reply.err then
        error(reply.err, 0)
    end
    return reply, fresh
end

local replies, fresh, missed = {}, {}, nil
for i = 1, count do
    replies[i] = {10, now}
    if not missed then
        local done, reply, new = pcall(attempt, keys_of(i), args_of(i))
        if not done then
            reply = type(reply) == 'table' and reply.err or tostring(reply)
            reply = {0, now, (string.gsub(reply, '^@?user_script:%s*%d+: ', ''))}
        end
        replies[i] = reply
        fresh[i] = new
        if reply[1] ~= 1 then
            missed = i
        end
    end
end
if missed and all then
    for i = missed - 1, 1, -1 do
        if fresh[i] then
            local done, reply = pcall(release, keys_of(i), {ARGV[16 * i - 14],
                ARGV[16 * i - 13], string.format('%.0f', replies[i][3]), '0',
                '0', recovery})
            if done and not reply.err then
                replies[i] = {10, now}
            end
        end
    end
end
return replies
