-- settle.lua: what every script that may free a lock shares. Not a script by
-- itself: embed.cmake puts it in place of the line "-- @include settle".
--
-- The including script has set H, T, Q, W, A, C (keys), call, fmt, now, last,
-- bad. Work is cut in two so that no command that can fail stands between the
-- first write and the last (Redis scripts do not roll back):
--   reading: memory, survey, walk   note what is to be done, write nothing;
--                                   a wrong type raises here, damage sets bad
--   writing: sweep, hand            removing writes first (they pass at
--                                   maxmemory, and Redis lets the rest pass)
--
-- A lock is a resource with one queue. An exclusive request (mutex, write)
-- wants nobody else; a reader wants nobody exclusive; k permits want nobody
-- exclusive and k of the size to be free; a barrier of n wants n of its kind
-- at the head of the queue. Who does not fit makes everybody behind it wait.
local dead, drop, aside = {}, {}, {} -- to remove: holders, waiters; unresponsive ones
local heirs = {}                     -- waiters to be granted
local size, gate                     -- of a semaphore; > 0: a closed latch

-- One field of what HGETALL gave.
local function field(v, name)
    for i = 1, #v, 2 do
        if v[i] == name then
            return v[i + 1]
        end
    end
end

-- A client's record of this request among all holders, and its field.
local function own_of(v, client, request)
    local at = client
    local record = field(v, at)
    if record and string.sub(record, 1, 33) == request .. ' ' then
        return record, at
    end
    at = client .. ':' .. request
    record = field(v, at)
    if record and string.sub(record, 1, 33) == request .. ' ' then
        return record, at
    end
end

-- Read when they matter: nobody is granted anything beside an exclusive one.
local function terms()
    local v = call('HMGET', C, 'size', 'gate')
    size, gate = tonumber(v[1] or nil), tonumber(v[2] or 0)
    if not gate or (v[1] and not size) then
        bad = damaged('the record of terms', C)
        gate = 1
    end
end

local function exclusive(mode)
    return mode == '0' or mode == '2'
end

-- One more holder. till: until when it stands in the way of others. (A table
-- made with all its fields does not grow, which costs as much as a command.
-- Only permits add to it: slots, those taken, and slot, the first to look at.)
local function occupy(request, mode, permits, till)
    if live then
        live.count = live.count + 1
        live.till = math.min(live.till, till)
        live.longest = math.max(live.longest, till)
    else
        live = {count = 1, used = 0, till = till, longest = till, sole = false}
    end
    live[request] = true
    if exclusive(mode) then
        live.sole = request
    elseif mode == '3' then
        live.used = live.used + permits
    end
end

-- v: all of H. Holders whose `end` and lock-delay are over are dead, whatever
-- PEXPIRE says; `gone` is the holder that this script ends.
local function survey(v, gone)
    for i = 1, #v, 2 do
        local request, token, till, mode, permits, more, room = string.match(
            v[i + 1], '^(%x+) (%d+) (%d+) (%d) (%d+)(%S*) %d+ (%d+)')
        if not request then
            bad = damaged('a holder record of', H)
        else
            last = math.max(last, tonumber(token) + tonumber(room))
            local lease_end = tonumber(till)
            till = lease_end
            local taken
            if more ~= '' then
                till = till + (string.match(more, ',d(%d+)') or 0)
                taken = string.match(more, ',s(%d+)')
            end
            if v[i] ~= gone and till > now then
                occupy(request, mode, tonumber(permits), till)
                live[request] = lease_end > now or nil
                if taken then
                    live.slots = live.slots or {}
                    live.slots[tonumber(taken)] = true
                end
            else
                dead[#dead + 1] = v[i]
            end
        end
    end
end

-- What a waiter wants: "12,d…,b…" in its record. (A holder of permits has
-- ",s<slot>" besides.)
local function wants(w, permits, more)
    w.permits, w.terms, w.delay = tonumber(permits), permits .. more, 0
    if more ~= '' then
        w.beside = string.match(more, ',b(%x+)')
        w.delay = tonumber(string.match(more, ',d(%d+)') or 0)
    end
    return w
end

-- A chunk makes its functions anew at each call, and half of the calls find
-- the lock exclusively held and need none of these: so walk makes them.
local fits, waiter, take
local mine, group = false, {}

local function tools()
    if fits then
        return
    end
    -- beside: a grant of the same owner, which does not stand in its own way.
    function fits(w)
        if gate > 0 then
            return false
        elseif w.mode == '3'
            and (live and live.used or 0) + w.permits > size then
            return false
        elseif not live then
            return true
        elseif exclusive(w.mode) then
            return live.count == (w.beside and live[w.beside] and 1 or 0)
        end
        return not live.sole or live.sole == w.beside
    end

    -- The waiter of this id, or nil: it has not polled lately, its record is
    -- gone, or it can never be served (more permits than there are, its other
    -- grant has ended); it hears of that by its poll.
    function waiter(id)
        local alive = call('ZSCORE', A, id)
        local record = call('HGET', W, id)
        if not alive or not record or tonumber(alive) <= now then
            return nil
        end
        local client, chan, poll, _, lease, room, floor, mode, permits, more,
            about = waiting(record)
        if not client then
            bad = damaged('a waiter record of', W)
            return nil
        end
        local w = wants({id = id, client = client, chan = chan, poll = poll,
            lease = lease, room = room, floor = floor, mode = mode,
            about = about, permits = 0, terms = '', delay = 0, message = ''},
            permits, more)
        if (mode == '3' and w.permits > (size or 0))
            or (w.beside and not (live and live[w.beside])) then
            return nil
        end
        return w
    end

    -- Heard of: the client's channel has exactly one subscriber on this very
    -- node. (PUBLISH's own answer would count patterns and prove nothing, and
    -- asking is no delivery.)
    local function heard(w)
        return tonumber(call('PUBSUB', 'NUMSUB', w.chan)[2]) == 1
    end

    local function grant(w)
        drop[#drop + 1] = w.id
        heirs[#heirs + 1] = w
        local claim = math.min(w.lease, 3000)
        occupy(w.id, w.mode, w.permits, now + claim + w.delay)
    end

    -- Takes w in if it fits and notes whom that grants; false: it does not fit.
    -- Permits get the lowest slot that no other lot of them has. The parties
    -- of a barrier gather in `group` until they are enough; those are granted
    -- together and share a token, the number of their generation.
    function take(w, me)
        if not fits(w) or (#group > 0
            and (w.mode ~= '4' or w.permits ~= group[1].permits)) then
            return false
        elseif w.mode ~= '4' then
            if w ~= me and not heard(w) then
                aside[#aside + 1] = w.id
                return true
            end
            if w.mode == '3' then
                local slots, slot = live and live.slots, live and live.slot or 0
                while slots and slots[slot] do
                    slot = slot + 1
                end
                w.slot, w.terms = slot, fmt('%s,s%d', w.terms, slot)
            end
            if w == me then
                mine = true
                occupy(me.id, me.mode, me.permits, now + me.lease + me.delay)
            else
                grant(w)
            end
            if w.slot then
                live.slot = w.slot + 1 -- lower ones are taken
            end
            return true
        end
        group[#group + 1] = w
        if #group < w.permits then
            return true
        end
        local all, shared = {}, {}
        for _, one in ipairs(group) do
            if one == me or heard(one) then
                all[#all + 1] = one
            else
                aside[#aside + 1] = one.id
            end
        end
        group = all
        if #group == w.permits then
            for _, one in ipairs(group) do
                one.shared = shared
                if one == me then
                    mine = true
                else
                    grant(one)
                end
            end
            group = {}
        end
        return true
    end
end

-- Who is to be granted now, in the order of the queue, until one does not fit.
-- me: the asker, {id, rank, mode, permits, beside, …}, or nil; true when it
-- may enter at its rank; one that does not fit and will not queue keeps nobody
-- waiting (me.stays). Dead waiters
-- are dropped; unresponsive ones step aside keeping their rank in W and A, so nobody
-- is looked at twice without having polled in between: O(log n) amortised.
local function walk(me, skip)
    local at, step, placed = 0, 1, not me
    if live and live.sole and not (me and me.beside) then
        return false
    end
    tools()
    if not gate then
        terms()
    end
    if me and me.beside then -- ahead of all: they wait for its other grant
        placed = true
        if not take(me, me) and me.stays then
            return false
        end
    end
    while gate == 0 and #heirs < 256 and not (live and live.sole) do
        local v = call('ZRANGE', Q, at, at + step - 1, 'WITHSCORES')
        for i = 1, #v, 2 do
            if live and live.sole then
                return mine
            end
            if not placed and tonumber(v[i + 1]) >= me.rank then
                placed = true
                if not take(me, me) and me.stays then
                    return mine
                end
            end
            local id = v[i]
            local w = id ~= skip and not (me and me.id == id) and waiter(id)
            if w and not take(w, me) then
                return mine
            elseif w == nil then
                drop[#drop + 1] = id
            end
        end
        if #v < 2 * step then
            if not placed then
                take(me, me)
            end
            return mine
        end
        at, step = at + step, 16
    end
    return mine
end

local function each(command, key, ids)
    for i = 1, #ids, 100 do
        call(command, key, unpack(ids, i, math.min(i + 99, #ids)))
    end
end

local function sweep()
    each('HDEL', H, dead)
    each('ZREM', Q, drop)
    each('ZREM', A, drop)
    each('HDEL', W, drop)
    each('ZREM', Q, aside)
end

-- Direct grants under a claim lease. The message names the last poll seen: the
-- client counts its deadline from the instant when it sent that one.
local function hand()
    for _, w in ipairs(heirs) do
        local claim = math.min(w.lease, 3000)
        local token = enter(w.client, w.id, claim, w.room, w.floor, w.mode,
            w.terms, w.about, w.shared)
        w.message = fmt('g %s %.0f %d %d %s %.0f %s', w.id, token, w.room,
            claim, w.poll, now, w.slot and fmt('%d %s', w.slot, H) or H)
    end
end

-- Last of all, and by pcall: without the right to publish the waiter finds
-- its grant by its next poll.
local function tell()
    for _, w in ipairs(heirs) do
        redis.pcall('PUBLISH', w.chan, w.message)
    end
end
