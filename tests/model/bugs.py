"""The bugs that tests/model/plant plants: what each is called, the file, and how
the text there changes. Those of supervisor_step.c and supervisor_moves.c are the
product's; the others are in what the model has instead of the product's loops."""
STEP = "src/cli/supervisor/supervisor_step.c"
MOVES = "src/cli/supervisor/supervisor_moves.c"
SUP, HOLDER = "tests/model/supervisor.c", "tests/model/holder.c"
BUGS = [
    ("the holder's death is not looked at while the command runs", STEP,
     "        supervisor_step_note_lost(l, a, SUPERVISOR_CAUSE_HOLDER);\n        l->state = "
     "SUPERVISOR_STOPPING;\n        supervisor_step_act_kill(l, a, now);\n        break;",
     "        break;"),
    ("KILL is not armed", MOVES,
     "l->timer = supervisor_step_smaller(l->kill_at, l->lost", "l->timer = supervisor_step_smaller(SUPERVISOR_NEVER, l->lost"),
    ("a renewal leads back from STOPPING", STEP,
     "            supervisor_step_arm_stopping(l);",
     "            l->state = SUPERVISOR_RUNNING;\n"
     "            supervisor_step_arm_running(l);"),
    ("a loss is forgotten when a renewal comes late", STEP,
     "        if (supervisor_step_extends(l, ev->at)) {\n"
     "            supervisor_step_arm_stopping(l);",
     "        if (ev->at > l->deadline) {\n            l->lost = false;\n"
     "            l->state = SUPERVISOR_RUNNING;\n"
     "            l->deadline = ev->at;\n            l->risk = false;\n"
     "            supervisor_step_arm_running(l);"),
    ("the command's status stands over the loss, stopped", STEP,
     "    if (l->lost && l->rules.on_lost != SUPERVISOR_LOST_IGNORE) {\n"
     "        return;\n    }\n", ""),
    ("the command's status stands over the loss, running", STEP,
     "    if (!l->lost || l->rules.on_lost == SUPERVISOR_LOST_IGNORE) {\n"
     "        supervisor_step_set_outcome(l, ev->code,",
     "    if (true) {\n        supervisor_step_set_outcome(l, ev->code,"),
    ("KILL waits for the grace past the margin", MOVES,
     "        l->kill_at = supervisor_step_smaller(l->kill_at, l->deadline - l->rules.margin);",
     "        l->kill_at = supervisor_step_after(now, l->rules.grace + l->rules.margin);"),
    ("TERM comes when KILL is due", MOVES,
     "return l->deadline - l->rules.margin - l->rules.grace;",
     "return l->deadline - l->rules.margin;"),
    ("TERM comes when the lease is over", MOVES,
     "return l->deadline - l->rules.margin - l->rules.grace;",
     "return l->deadline;"),
    ("KILL in the place of TERM", MOVES,
     "    if (now >= l->kill_at) {\n        supervisor_step_act_kill(l, a, now);\n"
     "        return;\n    }\n    a->todo |= SUPERVISOR_DO_TERM;",
     "    supervisor_step_act_kill(l, a, now);"),
    ("the lock is released while others of the group are left", STEP,
     "    if (!ev->others) {\n        supervisor_step_out(l, a, now);\n        return;\n    }\n",
     "    if (true) {\n        supervisor_step_out(l, a, now);\n        return;\n    }\n"),
    ("nobody looks when the last of them is gone", STEP,
     "    case SUPERVISOR_EV_EMPTY:\n        supervisor_step_out(l, a, now);\n        break;\n"
     "    case SUPERVISOR_EV_TIMER:\n        supervisor_step_stopping_timer",
     "    case SUPERVISOR_EV_EMPTY:\n        break;\n"
     "    case SUPERVISOR_EV_TIMER:\n        supervisor_step_stopping_timer"),
    ("a loss told at the release is not looked at", STEP,
     "        if (ev->lost && !l->lost && l->ran) {\n",
     "        if (false) {\n"),
    ("SNIB_LEASE_FD stays open at a loss", MOVES,
     "    a->todo |= SUPERVISOR_DO_EOF | SUPERVISOR_SAY_LOST;",
     "    a->todo |= SUPERVISOR_SAY_LOST;"),
    ("a lease that ends while the command is stopped is not told", STEP,
     "    if (!l->lost && now >= l->deadline) {\n        supervisor_step_note_lost(l, a, l->risk",
     "    if (false) {\n        supervisor_step_note_lost(l, a, l->risk"),
    ("the signal of --on-lost is not sent", MOVES,
     "        a->todo |= SUPERVISOR_DO_SIGNAL;\n        a->signal = "
     "l->rules.lost_signal;\n", ""),
    ("the signal of --on-lost is sent at each look", MOVES,
     "    l->timer = supervisor_step_smaller(l->lost ? SUPERVISOR_NEVER : supervisor_step_lease_stop(l), "
     "supervisor_step_max_run_stop(l));",
     "    l->lost = false;\n    l->timer = supervisor_step_smaller(l->deadline, supervisor_step_max_run_stop(l));"),
    ("--on-lost ignore stops the command", MOVES,
     "    case SUPERVISOR_LOST_IGNORE:\n        supervisor_step_arm_running(l);\n        break;\n"
     "    }\n}\n\nvoid supervisor_step_tell_release",
     "    case SUPERVISOR_LOST_IGNORE:\n        l->state = SUPERVISOR_STOPPING;\n"
     "        supervisor_step_act_stop(l, a, now);\n        break;\n"
     "    }\n}\n\nvoid supervisor_step_tell_release"),
    ("--hold-min is not held", MOVES,
     "    if (!l->lost && l->ran && !l->asked && now < until) {",
     "    if (false) {"),
    ("INT does not end --hold-min", MOVES,
     "    l->asked = l->asked || (supervisor_step_terminates(sig) && sig != SIGHUP);\n", ""),
    ("--max-run that is over is a success", STEP,
     "ev->code != 0 ? ev->code : EXIT_SIGNAL + SIGTERM", "ev->code"),
    ("--max-run is not looked at", STEP,
     "    if (now >= supervisor_step_max_run_stop(l)) {", "    if (false) {"),
    ("who waits does not hear signals", STEP,
     "        if (supervisor_step_terminates(ev->code)) {\n            supervisor_step_set_outcome(l, "
     "EXIT_SIGNAL",
     "        if (false) {\n            supervisor_step_set_outcome(l, EXIT_SIGNAL"),
    ("the holder's word stands over a signal", STEP,
     "        if (l->why == SUPERVISOR_CAUSE_TIMEOUT) {\n            supervisor_step_set_outcome(l, "
     "ev->code, false, ev->why);",
     "        if (true) {\n            supervisor_step_set_outcome(l, ev->code, false, ev->why);"),
    ("the holder's word does not count behind our limit", STEP,
     "        if (l->why == SUPERVISOR_CAUSE_TIMEOUT) {\n            supervisor_step_set_outcome(l, "
     "ev->code, false, ev->why);\n        }\n",
     ""),
    ("a holder that dies while it waits is waited for", STEP,
     "    case SUPERVISOR_EV_RELEASED:\n    case SUPERVISOR_EV_HOLDER_EOF:\n"
     "        supervisor_step_set_outcome(l, EXIT_INTERNAL",
     "    case SUPERVISOR_EV_HOLDER_EOF:\n        break;\n"
     "    case SUPERVISOR_EV_RELEASED:\n        supervisor_step_set_outcome(l, EXIT_INTERNAL"),
    ("a holder that dies behind the release is waited for", STEP,
     "    case SUPERVISOR_EV_HOLDER_EOF:\n        if (!l->lost) {\n"
     "            a->todo |= SUPERVISOR_SAY_UNRELEASED;\n        }\n"
     "        supervisor_step_act_exit(l, a);\n        break;",
     "    case SUPERVISOR_EV_HOLDER_EOF:\n        l->timer = SUPERVISOR_NEVER;\n"
     "        break;"),
    ("a word that cannot be sent is the holder's end", SUP,
     "    if (w->holder >= KILLED || !w->holder_socket) {\n        return;\n",
     "    if (w->holder >= KILLED || !w->holder_socket) {\n"
     "        step_of(w, SUPERVISOR_EV_HOLDER_EOF);\n        return;\n"),
    ("a reset is the holder's end", SUP,
     "        w->sup_reset = 0;\n        return;\n",
     "        w->sup_reset = w->sup_socket = 0;\n"
     "        step_of(w, SUPERVISOR_EV_HOLDER_EOF);\n        return;\n"),
    ("a gate is opened too late", SUP,
     "        if (w->page_group == TOO_LATE) {", "        if (false) {"),
    ("the page is read before the clock only", SUP,
     "    /* supervisor_act.c| supervisor_look_at_page(b, now); */\n    look_at_page(w);\n", ""),
    ("the clock is looked at before the holder's last word", SUP,
     "    if (timer_due(w) && waits && socket_ready(w)) {",
     "    (void)waits;\n    if (false) {"),
    ("an offer that was withdrawn is taken", SUP,
     "            if (w->page_offer != OFFERED) {", "            if (false) {"),
    ("the command outlives a killed supervisor", SUP,
     "    if (w->leader == AT_GATE || w->leader == RUNNING) {\n"
     "        end_leader(w, BY_KILL);\n    }\n", ""),
    ("a loss of an earlier grant counts for the next", HOLDER,
     "    forget_told(w);\n", "    (void)forget_told;\n"),
    ("the holder does not kill in a stopped supervisor's place", HOLDER,
     "        if (w->page_group == PUBLISHED) {\n            group_kill(w);\n"
     "            /* holder.c| proc",
     "        if (false) {\n            /* holder.c| proc"),
    ("… kills the group only", HOLDER,
     "proc_kill_marked(k->page->address, true) */\n            away_kill(w);\n",
     "proc_kill_marked(k->page->address, true) */\n"),
    ("the holder releases at once when the supervisor is killed", HOLDER,
     "        w->holder_at = KILLS;\n        return;\n",
     "        leave(w);\n        return;\n"),
    ("an offer that nobody takes is kept", HOLDER,
     "    w->offer_at = OFFER;\n    w->age", "    w->offer_at = NEVER;\n    w->age"),
]
