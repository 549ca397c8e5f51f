-- value_put.lua: write or remove a value if its version is the expected one.
-- The rules, and why a repeat is safe: src/core/version.h.
--
-- KEYS  1 value: hash, v version, b bytes  2 memory: "last forgotten end"
--       (end in server ms) and up to 8 changes "request:number", oldest first
--       (number 0: the request was refused)
-- ARGV  1 request, 32 hexadecimal digits  2 expected version, 0: absent
--       3 ms to keep it, to 30 days, 0: remove  4 this is a repeat (0, 1)  5 ms
--       since the request was first made, to 30 days  6 not_after (server ms)
--       7 floor  8 bytes, to 64 KiB; none of a removal
-- Reply {1, now, version}  done, now or by an earlier copy; 0: removed
--       {0, now, version}  another version is there; 0: none
--       {4, now}           too late, or a strange not_after: nothing was done
--       {5, now}           a repeat, of which it is not known any more whether
--                          an earlier copy was applied
local V, M = KEYS[1], KEYS[2]
local call, fmt = redis.call, string.format
local request, again, bytes = ARGV[1], ARGV[4], ARGV[8]
local expected, keep, age = tonumber(ARGV[2]), tonumber(ARGV[3]),
    tonumber(ARGV[5])
local not_after, floor = tonumber(ARGV[6]), tonumber(ARGV[7])
if #KEYS ~= 2 or #ARGV ~= 8 or #request ~= 32
    or not string.find(request, '^%x+$')
    or not string.find(ARGV[2] .. ARGV[3] .. ARGV[5] .. ARGV[6] .. ARGV[7],
        '^%d+$')
    or not (expected and expected < 9007199254740992)
    or not (keep and keep <= 2592000000)
    or not (again == '0' or again == '1')
    or not (age and age <= 2592000000) or not not_after
    or not (floor and floor < 9007199254740000) or #bytes > 65536
    or (keep == 0 and (expected == 0 or bytes ~= '')) then
    return redis.error_reply('SNIBARG value_put: bad arguments')
end
-- Reading.
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now > not_after or not_after > now + 10000 then
    return {4, now}
end
if floor > (now + 86400000) * 1024 then
    return redis.error_reply('SNIBFLOOR the clock of this server is more than '
        .. 'a day behind versions seen before')
end
local v = call('HGET', V, 'v')
if v and not (#v <= 16 and string.find(v, '^[1-9]%d*$'))
    or not v and call('EXISTS', V) == 1 then
    return redis.error_reply('CORRUPT ' .. V .. ' is not a value of ours')
end
local version = v and tonumber(v) or 0
local last, forgotten, till, changes, own = version, version, now, {}, nil
local memory = call('GET', M)
if memory then
    local a, b, d, rest = string.match(memory, '^(%d+) (%d+) (%d+)(.*)$')
    if not a or tonumber(a) >= 9007199254740992 or tonumber(b) > tonumber(a)
        then
        return redis.error_reply('CORRUPT ' .. M .. ' is not a memory of ours')
    end
    last, forgotten, till = math.max(last, tonumber(a)), tonumber(b),
        math.min(tonumber(d), now + 2678400000)
    for id, number in string.gmatch(rest, ' (%x+):(%d+)') do
        changes[#changes + 1] = {id, tonumber(number)}
        if id == request then
            own = tonumber(number)
        end
    end
end

local function remember(number)
    changes[#changes + 1] = {request, number}
    while #changes > 8 do
        local gone, i = table.remove(changes, 1)[2], 1
        -- A refusal has no number. All copies of it were sent before the change
        -- that came next, or else before now, so it counts as that one.
        while gone == 0 do
            gone = changes[i] and changes[i][2] or now * 1024
            i = i + 1
        end
        forgotten = math.max(forgotten, gone)
    end
    last = math.max(last, forgotten)
    -- The memory outlives the value by a day, else a clock set back would let
    -- versions fall. Its end never moves back.
    till = math.max(till, now + keep + 86400000,
        math.floor(last / 1024) + 86400000)
    local text = {fmt('%.0f %.0f %.0f', last, forgotten, till)}
    for _, c in ipairs(changes) do
        text[#text + 1] = fmt('%s:%.0f', c[1], c[2])
    end
    call('SET', M, table.concat(text, ' '), 'PX', fmt('%.0f', till - now))
end

if own and own > 0 then
    return {1, now, keep > 0 and own or 0}
end
if own then
    return {0, now, version}
end
if again == '1' then
    if expected == 0 and math.floor(forgotten / 1024) >= now - age - 10000
        or expected > 0 and expected ~= version
        and (forgotten > expected or last < expected) then
        return {5, now}
    end
elseif expected == 0 and forgotten >= (not_after - 9900) * 1024
    and forgotten < (now + 1) * 1024 then
    -- This may be a late copy whose repeat was forgotten since. A client that
    -- still waits for it sends it again.
    return {4, now}
end
if expected ~= version then
    if again == '1' and expected == 0 then
        remember(0)
    end
    return {0, now, version}
end

-- Writing. The memory comes first: at maxmemory SET may be refused, but no
-- command after the first write may be.
last = math.max(last + 1, now * 1024 + math.floor(t[2] % 1000 * 1.024),
    floor + 1)
remember(last)
if keep == 0 then
    call('DEL', V)
    return {1, now, 0}
end
call('HSET', V, 'v', fmt('%.0f', last), 'b', bytes)
call('PEXPIRE', V, fmt('%.0f', keep))
return {1, now, last}
