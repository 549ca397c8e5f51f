-- settle.lua: what every script shares that may free a lock. It drops the dead
-- and grants to the next waiters. This is no script by itself: embed.cmake puts
-- it in place of the line "-- @include settle".
--
-- The including script has set H, T, Q, W, A, C (keys), M (or nil), call and
-- fmt, and has included enter.lua (now, last, live, bad). The work is cut in two
-- so that no command that can fail stands between the first write and the last,
-- because Redis scripts do not roll back:
--   reading: memory, survey, walk   keep in tables what is to be done and write
--                                   nothing; a wrong type raises an error here,
--                                   damage sets bad
--   writing: sweep, hand            remove first: that passes at maxmemory, and
--                                   then Redis lets the other writes pass
--
-- A lock is a resource with one queue. An exclusive request (mutex, write) fits
-- when nobody holds. A reader fits when nobody holds exclusively; so do k
-- permits if k of the size are free, and a barrier of n if n of its kind stand
-- at the head of the queue. Nothing fits while a latch is closed. A waiter that
-- does not fit makes everybody behind it wait.
--
-- dead: the fields of holders to remove; drop: the requests of waiters to
-- remove; aside: those of unresponsive waiters, which leave Q only. nexts: the
-- next holders. size: of a semaphore; latch: the latch count, 0 if it is open.
local dead, drop, aside = {}, {}, {} -- to remove: holders, waiters; unresponsive ones
local nexts = {}                     -- waiters to be granted
local size, latch                    -- of a semaphore; > 0: a closed latch
local kept_by -- the client of the holder, if it may keep what was released

-- The value of one field in the reply of HGETALL.
local function field(v, name)
    for i = 1, #v, 2 do
        if v[i] == name then
            return v[i + 1]
        end
    end
end

-- This request's record among all holders, and the field where it stands.
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

-- Is that record the client's own earlier grant (prior)? A token is given once. A
-- thin record does not show its token, but its request, which never comes again:
-- so a late copy of a call does not end a later thin grant of the client.
-- request: ",<request>", or "" where the client does not know it.
local function is_prior(record, token, request)
    local id, its = string.match(record or '', '^(%x+) (%d+) ')
    return its and (its == token or (its == '0' and request == ',' .. id))
end

-- Read the params, size and latch count. This costs a command, so it is done
-- only where they matter: while an exclusive grant stands, no other client gets
-- one.
local function params()
    local v = call('HMGET', C, 'size', 'gate')
    size, latch = tonumber(v[1] or nil), tonumber(v[2] or 0)
    if not latch or (v[1] and not size) then
        bad = damaged('the params record', C)
        latch = 1
    end
end

local function exclusive(mode)
    return mode == '0' or mode == '2'
end

-- Count one more holder in `live`. till: until when it is in the way of others.
-- live.till is the first such end and live.longest the last, live.used the
-- permits in use, live.sole the exclusive holder's request. The table is made
-- with these fields at once, because to grow it costs as much as a command.
-- Permits add live.slots, the slots taken, and live.slot, where to search next.
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

-- Sort the holders into live and dead. v: all of them (standing). A holder whose
-- `end` and lock-delay are over is dead, whatever the key's TTL says. gone: the
-- field of the holder that this script ends.
local function survey(v, gone)
    for i = 1, #v, 2 do
        local request, token, till, mode, permits, more, reserve = string.match(
            v[i + 1], '^(%x+) (%d+) (%d+) (%d) (%d+)(%S*) %d+ (%d+)')
        if not request then
            bad = damaged('a holder record of', H)
        else
            last = math.max(last, tonumber(token) + tonumber(reserve))
            fresh = fresh or token == '0'
            local lease_end = tonumber(till)
            till = lease_end
            local taken
            local kept = string.byte(more, 2) == 107 -- ",k50"
            if more ~= '' and not kept then
                till = till + (string.match(more, ',d(%d+)') or 0)
                taken = string.match(more, ',s(%d+)')
            end
            if v[i] ~= gone and till > now then
                occupy(request, mode, tonumber(permits), till)
                kept_by = kept and v[i] or kept_by
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

-- Read into w what a waiter asks for: "12,d…,b…" in its record. (The record of
-- a holder of permits has ",s<slot>" as well.)
local function wants(w, permits, more)
    w.permits, w.permits_word, w.delay = tonumber(permits), permits .. more, 0
    if more ~= '' and string.byte(more, 2) ~= 107 then
        w.upgrade_of = string.match(more, ',b(%x+)')
        w.delay = tonumber(string.match(more, ',d(%d+)') or 0)
    end
    return w
end

-- Lua makes a script's functions anew at each call. Half of the calls find the
-- lock held exclusively and need none of these three, so walk makes them only
-- when they are needed.
local fits, waiter, take
local mine, group = false, {}

local function tools()
    if fits then
        return
    end
    -- Could w be granted now? w.upgrade_of: a grant of the same owner,
    -- which is not in the way.
    function fits(w)
        if latch > 0 then
            return false
        elseif w.mode == '3'
            and (live and live.used or 0) + w.permits > size then
            return false
        elseif not live then
            return true
        elseif exclusive(w.mode) then
            return live.count ==
                (w.upgrade_of and live[w.upgrade_of] and 1 or 0)
        end
        return not live.sole or live.sole == w.upgrade_of
    end

    -- The waiter of this id. nil: it has not polled lately, its record is gone,
    -- or it can never be served (it wants more permits than there are, or the
    -- grant that it upgrades has ended). The answer to its next poll tells it.
    -- Or it holds: a late copy came during a recovery (acquire.lua).
    function waiter(id)
        local alive = call('ZSCORE', A, id)
        local record = call('HGET', W, id)
        if not alive or not record or tonumber(alive) <= now then
            return nil
        end
        local client, channel, poll, _, lease, reserve, floor, mode, permits,
            more, about = waiting(record)
        if not client then
            bad = damaged('a waiter record of', W)
            return nil
        end
        local w = wants({id = id, client = client, channel = channel,
            poll = poll, lease = lease, reserve = reserve, floor = floor,
            mode = mode, about = about, permits = 0, permits_word = '',
            delay = 0, message = ''}, permits, more)
        if (mode == '3' and w.permits > (size or 0))
            or (w.upgrade_of and not (live and live[w.upgrade_of]))
            or (live and live[id]) then
            return nil
        end
        return w
    end

    -- Will the waiter's client hear of a grant? It will if its channel has
    -- exactly one subscriber on this very node. (PUBLISH's own answer counts
    -- pattern subscribers, too, so it proves nothing; and to ask sends
    -- nothing.)
    local function heard(w)
        return tonumber(call('PUBSUB', 'NUMSUB', w.channel)[2]) == 1
    end

    -- Grant to the caller, whose record is written by the including script.
    -- It counts at once: who is considered next must fit with it.
    local function let_in(me)
        mine = true
        occupy(me.id, me.mode, me.permits, now + me.lease + me.delay)
    end

    local function grant(w)
        drop[#drop + 1] = w.id
        nexts[#nexts + 1] = w
        local push = math.min(w.lease, 3000)
        occupy(w.id, w.mode, w.permits, now + push + w.delay)
    end

    -- Decide on w, the next in the queue. False: it does not fit. Else it is
    -- granted, or steps aside if its client would not hear of that. me is the
    -- caller's own request, which needs no message. Permits get the lowest slot
    -- that no other holder of permits has. The parties of a barrier gather in
    -- `group` until they are enough; they are granted together and share one
    -- token. Most polls of parties come while others are still to arrive: then
    -- the length of the queue says so, and no party costs a command.
    function take(w, me)
        local other = #group > 0
            and (w.mode ~= '4' or w.permits ~= group[1].permits)
        if other and group[1] == me and #group == 1 and not me.stays then
            group, other = {}, false -- who only tries is in nobody's way
        end
        if other or not fits(w) then
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
                w.slot, w.permits_word = slot,
                    fmt('%s,s%d', w.permits_word, slot)
            end
            if w == me then
                let_in(me)
            else
                grant(w)
            end
            if w.slot then
                live.slot = w.slot + 1 -- lower ones are taken
            end
            return true
        end
        if #group == 0 then -- too few in the whole queue: look at nobody else
            local short = w.permits - call('ZCARD', Q)
            if short > 1
                or short == 1 and not (me and not call('ZSCORE', Q, me.id)) then
                return false
            end
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
                    let_in(me)
                else
                    grant(one)
                end
            end
            group = {}
        end
        return true
    end
end

-- Find the waiters to be granted now, in the order of the queue, until one does
-- not fit. me: the caller's own request, {id, rank, mode, permits, upgrade_of,
-- …}, or nil; it is considered at its rank. The result is true if it is granted.
-- If it does not fit, it makes the waiters behind it wait only if it is going to
-- queue (me.stays). skip: the request that this script ends. Dead waiters are
-- dropped. Unresponsive ones step aside: they leave Q, but keep their rank in W
-- and their entry in A, and their next poll puts them back. So no waiter is
-- inspected twice without a poll between: the cost is O(log n) amortised.
local function walk(me, skip)
    local at, step, placed = 0, 1, not me
    if live and live.sole and not (me and me.upgrade_of) then
        return false
    end
    -- Nor is the exclusive holder let in to read besides: its record may be one
    -- that this server remembers though the next one's is forgotten.
    if closed > 0 then
        return false
    end
    tools()
    if not latch then
        params()
    end
    if me and me.upgrade_of then -- ahead of all: they wait for its other grant
        placed = true
        if not take(me, me) and me.stays then
            return false
        end
    end
    while latch == 0 and #nexts < 256 and not (live and live.sole) do
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
    fatten()
    each('HDEL', H, dead)
    each('ZREM', Q, drop)
    each('ZREM', A, drop)
    each('HDEL', W, drop)
    each('ZREM', Q, aside)
end

-- Write the direct grants, each under a push lease of min(lease, 3 s). The
-- message names the last poll that this server saw: the client counts its
-- deadline from the instant when it sent that poll.
local function hand()
    for _, w in ipairs(nexts) do
        local push = math.min(w.lease, 3000)
        local token = enter(w.client, w.id, push, w.reserve, w.floor, w.mode,
            w.permits_word, w.about, w.shared)
        w.message = fmt('g %s %.0f %d %d %s %.0f %s', w.id, token, w.reserve,
            push, w.poll, now, w.slot and fmt('%d %s', w.slot, H) or H)
    end
end

-- Nobody is granted the lock in this step. If nobody holds or waits either, H
-- ends, at once or with what lasts.
local function unguard()
    if guarded and not live and latch == 0 and call('EXISTS', A) == 0 then
        if guarded <= now then
            call('DEL', H)
        elseif call('PTTL', H) > guarded - now then
            call('PEXPIRE', H, fmt('%.0f', guarded - now))
        end
    end
end

-- Send the messages. This comes last of all, and by pcall: where the user may
-- not publish, the waiter finds its grant by its next poll.
local function tell()
    for _, w in ipairs(nexts) do
        redis.pcall('PUBLISH', w.channel, w.message)
    end
end

-- Tell the client that holds, or merely keeps what was released, that somebody
-- waits. By pcall: where the user may not publish, a second passes before that
-- client asks by itself.
local function ask_back()
    -- it listens there at first, or here once it has subscribed again
    redis.pcall('PUBLISH', 'snib:' .. kept_by, 'k ' .. live.sole)
    redis.pcall('PUBLISH', 'snib:' .. kept_by .. ':r', 'k ' .. live.sole)
end
