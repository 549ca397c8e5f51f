"""The bugs that tests/threads/plant plants: what each is called, the file, and
how the text there changes, once or more; "@file" before those of another.

Not listed: roles that are handed on before the thread is off the list of those
that wait. A call that was settled is off it already, and on a store in memory
each call is settled (unit.roles has that mistake)."""
RUN = "src/run/"
BUGS = [
    ("the last of the woken is not woken", RUN + "pump.c",
     "for (uint32_t i = 0; i < words; i++) {",
     "for (uint32_t i = 0; i + 1 < words; i++) {"),
    ("a sleeper is not roused by its answer", RUN + "roles.c",
     "    if (w->posture != SNIB__RUNNING) {\n        rouse(data, w);\n    }\n}",
     "    (void)rouse;\n    (void)data;\n}"),
    ("a sleeper makes ready for its wake-up after unlocking", RUN + "pump.c",
     "    me->w.posture = SNIB__PARKED;\n    snib__park_prepare(&me->word);\n"
     "    snib__step_pause(s);\n",
     "    me->w.posture = SNIB__PARKED;\n    snib__step_pause(s);\n"
     "    snib__park_prepare(&me->word);\n"),
    ("the worker does not look again before it waits", RUN + "worker.c",
     "if (!c->worker_stop && !may_execute(c)) {", "{"),
    ("a role is not handed on when its thread leaves", RUN + "roles.c",
     "            pass(r, i, reply, rouse, data);\n"
     "            kept |=", "            (void)rouse;\n            (void)data;\n            kept |="),
    ("a reader goes home without handing on", RUN + "pump.c",
     "bool home = w->done && !w->leads && call->brief;",
     "bool home = w->done && call->brief;",
     "    if (w->posture == SNIB__POLLING) {",
     "    if (w->posture == SNIB__POLLING && !w->done) {"),
    ("the descriptor of events is cleared while some are left",
     RUN + "events.c",
     "if (snib__list_empty(&c->events) && c->event_set) {",
     "if (c->event_set) {"),
    ("the descriptor of events is set before there is one", RUN + "events.c",
     "    snib__list_push(&s->c->events, &note->link);\n    s->event = true;",
     "    s->event = true;\n    snib__step_pause(s);\n    snib__step_again(s);\n"
     "    snib__list_push(&s->c->events, &note->link);"),
    ("who has left something to execute tells nobody", RUN + "pump.c",
     "        if (w->posture != SNIB__RUNNING) {\n            rouse(s, w);",
     "        if (w->posture != SNIB__RUNNING) {"),
    ("the keeper is not kicked", RUN + "pump.c",
     "    } else {\n        s->kick = true;\n    }\n}", "    }\n}"),
    ("close forgets what was started", RUN + "client.c",
     "        end_waiting_calls(&s);\n        snib__notes_close(&s);\n"
     "        snib__step_act(&s);\n    }",
     "        end_waiting_calls(&s);\n        snib__step_act(&s);\n    }"),
    ("close forgets the calls that wait", RUN + "client.c",
     "        snib__step_act(&s);\n        end_waiting_calls(&s);\n"
     "        snib__notes_close",
     "        snib__step_act(&s);\n        snib__notes_close"),
    ("two threads that stop both join", RUN + "client.c",
     "if (c->stopping) {", "if (c->stopped) {"),
    ("stop closes the set that a pull client's thread polls", RUN + "client.c",
     "    snib__loop_end(c);", "    snib__loop_close(c);"),
    ("freeing a handle does not wait for its callback", RUN + "lock.c",
     "    while (c->telling == lock &&",
     "    while (lock->o.lease_ms < 0 && c->telling == lock &&"),
    ("a callback is called under the mutex", RUN + "watch.c",
     "        snib__step_pause(s);\n        on_change(data, grant, state, "
     "reason);\n        snib__step_again(s);\n",
     "        on_change(data, grant, state, reason);\n"),
    ("an acquire that was started is watched for later", RUN + "events.c",
     "            snib__keeper_hurry(&s);", "            (void)c;"),
    ("a child by fork takes its parent's mutex", RUN + "client.c",
     "bool quiet = pthread_mutex_trylock(&c->mu) == 0 && !c->executing;",
     "bool quiet = pthread_mutex_lock(&c->mu) == 0 && !c->executing;"),
    ("who watches is told of a term's end before its release only",
     RUN + "elect.c",
     "    e->changes++; /* who has looked since end_term may have seen it held */\n"
     "    pthread_cond_broadcast(&e->changed);\n", ""),
    ("a resignation looks for the campaign once", RUN + "elect.c",
     "    while (e->campaigning) {", "    if (e->campaigning) {"),
    ("one of the locks that are held is not given back", RUN + "multi.c",
     "        undo(a, 0, a->held,", "        undo(a, 1, a->held,"),
    ("a cancel of several names does not reach who waits", RUN + "multi.c",
     "        if (a->waits_at) {\n            snib__stop_ask",
     "        if (a->waits_at && !a->grants) {\n            snib__stop_ask"),
    ("a count-down opens the latch", RUN + "terms.c",
     "SNIB__TERMS_DOWN, by,", "SNIB__TERMS_OPEN, by,"),
    ("a barrier waits for nobody", RUN + "terms.c",
     "    with.permits = parties;\n",
     "    with.permits = kind == SNIB_BARRIER ? 1 : parties;\n"),
    ("a drain takes as an acquire does", RUN + "terms.c",
     "    o.all_permits = true;\n", "    o.wait_ms = 0;\n"),
    ("a put whose reply was lost is repeated under a new id", RUN + "value.c",
     "        q->resent = true;\n", "        q->id[0] = q->id[1] = 0;\n"),
    ("an update that came second is taken for done", RUN + "value.c",
     "        if (err != SNIB_ERR_BUSY || u->o.wait_ms == 0) {",
     "        if (err == SNIB_ERR_BUSY) {\n            err = snib__ok(reterr);\n"
     "        }\n        if (err != SNIB_ERR_BUSY || u->o.wait_ms == 0) {"),
]
