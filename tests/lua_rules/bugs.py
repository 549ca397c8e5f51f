"""The bugs that tests/lua_rules/plant plants: what each is called, the file, and
how the text there changes, once or more. RULES stands for whichever file of the
rules in C has the text.

Not listed: what both sides would have to be asked too late for, since the
histories send no copy after its time: how long a tombstone stays, not_after."""
LUA = "src/store/redis/scripts/"
RULES = "the rules"
BUGS = [
    # -- the scripts
    ("a reader fits beside a writer", LUA + "settle.lua",
     "return not live.sole or live.sole == w.upgrade_of", "return true"),
    ("one permit more than the size fits", LUA + "settle.lua",
     "(live and live.used or 0) + w.permits > size then",
     "(live and live.used or 0) + w.permits > size + 1 then"),
    ("two lots of one step get the same slot", LUA + "settle.lua",
     "live.slot = w.slot + 1 -- lower ones are taken", "live.slot = nil"),
    ("the lock-delay keeps nobody out", LUA + "settle.lua",
     "till = till + (string.match(more, ',d(%d+)') or 0)\n"
     "                taken",
     "taken"),
    ("a pushed grant has the whole lease", LUA + "settle.lua",
     "local push = math.min(w.lease, 3000)\n        local token",
     "local push = w.lease\n        local token"),
    ("a reader gets a token of its own", LUA + "enter.lua",
     "if mode == '1' and last > 0 then", "if mode == '1' and last < 0 then"),
    ("a yield does not end the grant", LUA + "acquire.lua",
     "    gone = client\nend\nmemory()", "    gone = nil\nend\nmemory()"),
    ("a second reader may wait to write", LUA + "acquire.lua",
     "            refused = 8\n", "            refused = nil\n"),
    ("a try that does not fit stops the queue", LUA + "settle.lua",
     "                if not take(me, me) and me.stays then\n"
     "                    return mine",
     "                if not take(me, me) then\n                    return mine"),
    ("a renewal looks at no token", LUA + "renew.lua",
     "if id ~= request or given ~= token or till <= now then",
     "if id ~= request or till <= now then"),
    ("a release serves nobody", LUA + "release.lua",
     "else\n    walk()\nend", "end"),
    ("a latch is counted down past open", LUA + "params.lua",
     "latch = math.max(latch - n, 0)", "latch = latch - n"),
    ("all or none keeps what it had", LUA + "several.lua",
     "if missed and all then", "if missed and not all then"),
    ("a forced release leaves no word for the holder", LUA + "force.lua",
     "if #forced > 0 then", "if #forced < 0 then"),
    ("a higher class is served later", LUA + "acquire.lua",
     "rank = rank or class * 1099511627776 + (counter or 0) + 1,",
     "rank = rank or (255 - class) * 1099511627776 + (counter or 0) + 1,"),
    ("a new grant cuts the time of the others' records", LUA + "enter.lua",
     "        keep = live.longest\n", ""),
    ("a renewal cuts the time of the others' records", LUA + "renew.lua",
     "    keep = math.max(keep, ttl)\n", ""),
    ("the short way does not look at the params", LUA + "acquire.lua",
     "call('EXISTS', H, A, X, C) == 0", "call('EXISTS', H, A, X) == 0"),
    ("a change of params counts whom it served as waiting", LUA + "params.lua",
     "call('ZCARD', Q) - #drop - #aside --", "call('ZCARD', Q) --"),
    ("a forced release forgets the grant", LUA + "force.lua",
     "one[2], one[3], 'PX'", "one[2], '1', 'PX'"),
    ("a party that only tries is in the way", LUA + "settle.lua",
     "and #group == 1 and not me.stays then", "and false then"),
    ("the one party of a barrier is not counted", LUA + "settle.lua",
     "                if one == me then\n                    let_in(me)",
     "                if one == me then\n                    mine = true"),
    ("a barrier is not counted for who comes last", LUA + "settle.lua",
     "if short > 1\n", "if short > 0\n"),
    # -- the rules
    ("permits: the last one fits nobody", RULES,
     "st->permits + (int64_t)c->permits > st->params.size",
     "st->permits + (int64_t)c->permits >= st->params.size"),
    ("a newcomer goes ahead of its equals", RULES,
     "q->newcomer->rank < q->at.rank", "q->newcomer->rank <= q->at.rank"),
    ("the floor is not heard", RULES,
     "int64_t t = last >= floor ? last + 1 : floor + 1;",
     "int64_t t = last + 1;"),
    ("the reserve is given twice", RULES,
     "b->ops->set_token(b, name, t + reserve);",
     "b->ops->set_token(b, name, t);"),
    ("the lock-delay is over with the lease", RULES,
     "return snib__reached(b->now, snib__after(c->until, c->delay));",
     "return snib__reached(b->now, c->until);"),
    ("a waiter is alive for two seconds", RULES,
     "#define SNIB__ALIVE_MS 3000", "#define SNIB__ALIVE_MS 2000"),
    ("a closed latch lets in", RULES,
     "    if (st->params.latch > 0) {\n        return false;\n    }\n", ""),
    ("an upgrade does not go to the head of the queue", RULES,
     "        ret->rank = INT8_MIN;\n", "        ret->rank = 0;\n"),
    ("a yield ends the grant whatever its token", RULES,
     "c.token == r->token &&\n        !snib__same_id(c.request, r->id)",
     "!snib__same_id(c.request, r->id)"),
    ("a batch of all or none keeps what it had", RULES,
     "    if (r->batch.all) {\n", "    if (!r->batch.all) {\n"),
    ("a cancel that was re-sent leaves no tombstone", RULES,
     "(r->resent || (granted && c.kind == SNIB_KIND_BARRIER))",
     "(granted && c.kind == SNIB_KIND_BARRIER)"),
    ("a forced release tells nobody", RULES,
     "        /* notified, it asks, and hears that it lost */\n"
     "        b->ops->granted(b, r->name, &c);\n", ""),
    ("a lease that is over can still be upgraded", RULES,
     "return b->ops->find(b, name, request, &c) && "
     "snib__rules_claim_holds(&c) &&\n"
     "           !snib__reached(b->now, c.until);",
     "return b->ops->find(b, name, request, &c) && "
     "snib__rules_claim_holds(&c);"),
    ("a barrier opens for one less", RULES,
     "return n >= c->permits;", "return n + 1 >= c->permits;"),
    ("the last party stands behind all", RULES,
     "q->newcomer->rank < q->at.rank",
     "(q->newcomer->kind != SNIB_KIND_BARRIER &&\n"
     "                               q->newcomer->rank < q->at.rank)"),
    ("a drain of nothing serves nobody", RULES,
     "bool mine = snib__rules_walk(",
     "bool mine = me->permits > 0 && snib__rules_walk("),
    ("who is refused sets the size", RULES,
     "    if (rules_acquire_refuse(b, r, me, size)) {\n",
     "    if (sets_size) {\n"
     "        struct snib__params p = st.params;\n"
     "        p.size = size;\n"
     "        b->ops->set_params(b, r->name, &p);\n"
     "    }\n"
     "    if (rules_acquire_refuse(b, r, me, size)) {\n"),
]
