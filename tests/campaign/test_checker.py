"""The checker can fail: for each model, histories that are wrong by one thing,
and beside each the nearest one that is right."""

import itertools

import checker

MS = checker.MS


class Tale:
    """A hand-made history; times in milliseconds."""

    def __init__(self, **meta):
        self.lines = [{"t": 0, "op": "meta", "eps_ms": 50, **meta}]
        self._ids = itertools.count(1)

    def add(self, at, op, **more):
        self.lines.append({"t": at * MS, "op": op, **more})
        return self

    def acquire(self, p, asked, at, token, holds=1, caller="l0", left=None,
                lease=500, e="ok", limit=None, **kind):
        """Granted (or not) in [asked, at]; left: a query right after says so
        many milliseconds. The grant's name is p.token.holds."""
        ident = next(self._ids)
        who = {"p": p, "owner": f"{p}/{caller}", "lock": "n", "id": ident, **kind}
        self.add(asked, "acquire", e="invoke", limit_ms=limit, **who)
        if e is None:
            return self
        self.add(at, "acquire", e=e, began=asked * MS, ended=at * MS,
                 token=token, holds=holds, lease_ms=lease,
                 grant=f"{p}.{token}.{holds}", **who)
        if left is not None:
            self.probe(p, at, token, left, holds=holds)
        return self

    def probe(self, p, at, token, left, held=True, state="held", holds=1):
        return self.add(at, "probe", p=p, grant=f"{p}.{token}.{holds}",
                        began=at * MS, ended=at * MS, held=held, state=state,
                        left_ms=left)

    def release(self, p, asked, at, token, holds=1, caller="l0", e="ok",
                grant=None):
        ident = next(self._ids)
        who = {"p": p, "owner": f"{p}/{caller}", "lock": "n", "id": ident,
               "grant": grant or f"{p}.{token}.{holds}"}
        self.add(asked, "release", e="invoke", **who)
        if e is not None:
            self.add(at, "release", e=e, began=asked * MS, ended=at * MS,
                     **who)
        return self

    def told(self, p, at, token, state="lost"):
        return self.add(at, "told", p=p, token=token, state=state,
                        reason="expired")

    def write(self, element, at, token, e="ok"):
        self.add(at, "write", e="invoke", element=element, token=token)
        return self.add(at, "write", e=e, element=element, token=token)

    def final(self, *elements, count=None):
        return self.add(10_000, "final", elements=[list(e) for e in elements],
                        count=len(elements) if count is None else count)

    def verdict(self):
        return checker.check(self.lines)

    def models(self):
        return sorted({finding.model for finding in self.verdict().failures})

    def sound(self):
        verdict = self.verdict()
        assert verdict.ok and not verdict.broken, str(verdict)
        return True


def two_in_turn():
    return (Tale().acquire("a", 0, 10, 5, left=500).release("a", 100, 110, 5)
            .acquire("b", 5, 105, 6, left=500).release("b", 200, 210, 6))


# -- mutex ------------------------------------------------------------------------


def test_two_sections_in_turn_are_sound():
    assert two_in_turn().sound()


def test_two_sections_at_once_are_found():
    tale = (Tale().acquire("a", 0, 10, 5, left=500)
            .acquire("b", 5, 50, 6, left=500).release("a", 100, 110, 5))
    assert tale.models() == ["mutex"]
    assert "exclusion broken 1 times, fence held" in str(tale.verdict())


def test_two_callers_of_one_process_exclude_each_other_too():
    tale = (Tale().acquire("a", 0, 10, 5, left=500)
            .acquire("a", 5, 50, 6, left=500, caller="l1"))
    assert tale.models() == ["mutex"]


def test_an_overlap_of_a_microsecond_is_found():
    tale = (Tale().acquire("a", 0, 10, 5, left=40)
            .acquire("b", 5, 49.999, 6, left=500))
    assert tale.models() == ["mutex"]


def test_after_the_own_deadline_another_may_hold():
    assert (Tale().acquire("a", 0, 10, 5, left=40)
            .acquire("b", 5, 50, 6, left=500).sound())


def test_while_a_release_is_under_way_another_may_hold():
    assert (Tale().acquire("a", 0, 10, 5, left=500)
            .release("a", 40, 400, 5).acquire("b", 5, 50, 6, left=500).sound())


def test_a_release_without_an_answer_ends_the_section_when_asked():
    tale = Tale().acquire("a", 0, 10, 5, left=500).release("a", 40, 0, 5,
                                                           e=None)
    assert tale.acquire("b", 5, 50, 6, left=500).sound()


def test_an_unknown_acquire_holds_nothing_for_certain():
    assert (Tale().acquire("a", 0, 10, 5, e="unknown")
            .acquire("b", 5, 50, 6, left=500).sound())
    assert (Tale().acquire("a", 0, 10, 5, e=None)
            .acquire("b", 5, 50, 6, left=500).sound())


def test_a_killed_process_holds_nothing_any_more():
    tale = Tale().acquire("a", 0, 10, 5, left=500).add(40, "killed", p="a")
    assert tale.acquire("b", 5, 50, 6, left=500).sound()


def test_a_frozen_process_holds_until_its_deadline():
    tale = (Tale().acquire("a", 0, 10, 5, left=500)
            .add(20, "frozen", p="a", until=900 * MS)
            .acquire("b", 5, 400, 6, left=500))
    assert tale.models() == ["mutex"]


def test_a_loss_ends_the_section_at_the_last_query_that_said_held():
    tale = (Tale().acquire("a", 0, 10, 5, left=500).probe("a", 60, 5, 450)
            .told("a", 100, 5))
    tale.acquire("b", 5, 80, 6, left=500)
    assert tale.sound()
    tale = (Tale().acquire("a", 0, 10, 5, left=500).probe("a", 90, 5, 420)
            .told("a", 100, 5))
    assert tale.acquire("b", 5, 80, 6, left=500).models() == ["mutex"]


def test_a_command_that_still_runs_beside_the_next_is_found():
    tale = Tale()
    for at, e in ((10, "begin"), (50, "alive")):
        tale.add(at, "section", e=e, p="c1", lock="n", token=5)
    tale.add(45, "section", e="begin", p="c2", lock="n", token=6)
    tale.add(70, "section", e="end", p="c2", lock="n", token=6)
    assert tale.models() == ["mutex"]


def test_what_a_forgetful_store_breaks_is_counted_and_not_hidden():
    tale = (Tale().acquire("a", 0, 10, 5, left=500)
            .add(20, "nemesis", kind="flushall", lossy=True)
            .acquire("b", 25, 50, 6, left=500))
    verdict = tale.verdict()
    assert verdict.ok and len(verdict.broken) == 1
    assert str(verdict) == "exclusion broken 1 times, fence held"


def test_what_was_broken_before_the_store_forgot_is_a_failure():
    tale = (Tale().acquire("a", 0, 10, 5, left=500)
            .acquire("b", 5, 50, 6, left=500)
            .add(90, "nemesis", kind="flushall", lossy=True))
    assert tale.models() == ["mutex"]


# -- owner ------------------------------------------------------------------------


def test_releasing_what_another_holds_is_found():
    tale = (Tale().acquire("a", 0, 10, 5, left=20)
            .release("b", 40, 50, 5, grant="a.5.1"))
    assert tale.models() == ["owner"]


def test_releasing_what_nobody_ever_held_is_found():
    assert Tale().release("a", 40, 50, 5).models() == ["owner"]


def test_releasing_twice_is_found_and_a_refusal_is_sound():
    tale = Tale().acquire("a", 0, 10, 5, left=500).release("a", 20, 30, 5)
    assert tale.release("a", 40, 50, 5, e="fail").sound()
    tale = Tale().acquire("a", 0, 10, 5, left=500).release("a", 20, 30, 5)
    assert tale.release("a", 40, 50, 5).models() == ["owner"]


def test_a_release_that_is_done_after_the_loss_was_told_is_found():
    tale = Tale().acquire("a", 0, 10, 5, left=100).told("a", 110, 5)
    assert tale.release("a", 120, 130, 5).models() == ["owner"]
    tale = Tale().acquire("a", 0, 10, 5, left=100).told("a", 110, 5)
    assert tale.release("a", 120, 130, 5, e="fail").sound()


# -- re-entrant ---------------------------------------------------------------------


def entered_twice(token=5, holds=2):
    return (Tale().acquire("a", 0, 10, 5, left=500)
            .acquire("a", 20, 30, token, holds=holds))


def test_a_re_entry_is_sound():
    assert (entered_twice().release("a", 40, 41, 5, holds=2)
            .release("a", 42, 43, 5).sound())


def test_a_re_entry_with_another_token_is_found():
    assert "reentrant" in entered_twice(token=6).models()


def test_a_hold_that_a_repeat_counted_twice_is_found():
    assert entered_twice(holds=3).models() == ["reentrant"]


def test_a_hold_that_got_lost_is_found():
    assert entered_twice(holds=1).models() == ["reentrant"]


def test_after_all_releases_counting_begins_anew():
    tale = (Tale().acquire("a", 0, 10, 5, left=500).release("a", 20, 30, 5)
            .acquire("a", 40, 50, 6, holds=2, left=100))
    assert tale.models() == ["reentrant"]


def test_a_release_of_unknown_fate_allows_both_counts():
    for holds in (1, 2):
        tale = (Tale().acquire("a", 0, 10, 5, left=500)
                .release("a", 20, 30, 5, e="unknown")
                .acquire("a", 40, 50, 5, holds=holds))
        assert "reentrant" not in tale.models(), holds
    tale = (Tale().acquire("a", 0, 10, 5, left=500)
            .release("a", 20, 30, 5, e="unknown")
            .acquire("a", 40, 50, 5, holds=3))
    assert "reentrant" in tale.models()


def test_a_caller_that_gets_a_new_grant_before_it_unwound_the_lost_one_is_found():
    tale = (Tale().acquire("a", 0, 10, 5, left=20).told("a", 30, 5)
            .acquire("a", 100, 110, 6, left=100))
    assert tale.models() == ["reentrant"]


# -- fenced -------------------------------------------------------------------------


def test_a_token_that_falls_is_found():
    tale = (Tale().acquire("a", 0, 10, 7, left=20)
            .acquire("b", 50, 60, 6, left=500))
    assert tale.models() == ["fenced"]
    assert "fence BROKEN" in str(tale.verdict())


def test_a_token_that_falls_is_found_though_both_had_asked_before():
    tale = (Tale().acquire("a", 0, 10, 7, left=20)
            .acquire("b", 5, 60, 6, left=500))
    assert tale.models() == ["fenced"]


def test_a_token_that_falls_behind_one_long_ago_is_found():
    tale = (Tale().acquire("a", 0, 10, 9, left=20)
            .acquire("b", 50, 60, 5, left=20)
            .acquire("c", 90, 99, 6, left=20))
    assert len(tale.verdict().failures) >= 2


def test_a_forgetful_store_may_not_let_a_token_fall():
    tale = (Tale().add(5, "nemesis", kind="flushall", lossy=True)
            .acquire("a", 6, 10, 7, left=500)
            .acquire("b", 50, 60, 6, left=500))
    assert tale.models() == ["fenced"]


def test_grants_of_one_moment_may_come_in_any_order_once_exclusion_fails():
    assert (Tale().add(1, "nemesis", kind="flushall", lossy=True)
            .acquire("a", 2, 10, 7, left=20)
            .acquire("b", 5, 60, 6, left=500).verdict().ok)


def test_one_token_in_two_hands_is_found():
    tale = (Tale().acquire("a", 0, 10, 5, left=20)
            .acquire("b", 5, 60, 5, left=500))
    assert tale.models() == ["fenced"]


def test_a_token_out_of_range_is_found():
    assert Tale().acquire("a", 0, 10, 0, left=20).models() == ["fenced"]
    assert Tale().acquire("a", 0, 10, 2 ** 53, left=9).models() == ["fenced"]


# -- told -----------------------------------------------------------------------------


def lost_at(told, silent_until=2000, frozen=None, held_at=None):
    tale = (Tale(ended=5000 * MS).acquire("a", 0, 10, 5, left=490)
            .add(100, "blackout", began=100 * MS, ended=silent_until * MS))
    if frozen:
        tale.add(frozen[0], "frozen", p="a", until=frozen[1] * MS)
    if held_at:
        tale.probe("a", held_at, 5, 10)
    if told:
        tale.told("a", told, 5)
    return tale


def test_a_loss_told_by_the_deadline_is_sound():
    assert lost_at(490).sound()
    assert lost_at(600).sound()  # 100 + 500: no later deadline is possible


def test_a_loss_told_late_or_never_is_found():
    assert lost_at(700).models() == ["told"]
    assert lost_at(None).models() == ["told"]


def test_held_after_the_last_possible_deadline_is_found():
    assert lost_at(620, held_at=610).models() == ["told"]


def test_a_frozen_process_tells_when_it_runs_again():
    assert lost_at(900, frozen=(200, 890)).sound()


def test_a_frozen_process_that_then_says_held_is_found():
    assert lost_at(None, frozen=(200, 890), held_at=891).models() == ["told"]


def test_a_silence_shorter_than_the_lease_asks_for_nothing():
    assert lost_at(None, silent_until=400).sound()


def test_held_again_after_a_loss_is_found():
    tale = (Tale().acquire("a", 0, 10, 5, left=40).told("a", 50, 5)
            .probe("a", 60, 5, 0, held=False, state="lost")
            .probe("a", 70, 5, 30))
    assert tale.models() == ["told"]


def test_a_loss_that_only_a_query_shows_is_found():
    tale = (Tale(ended=5000 * MS).acquire("a", 0, 10, 5, left=40)
            .probe("a", 60, 5, 0, held=False, state="lost"))
    assert tale.models() == ["told"]
    assert tale.told("a", 80, 5).sound()


# -- outcomes -------------------------------------------------------------------------


def test_an_operation_that_ends_twice_is_found():
    tale = Tale().acquire("a", 0, 10, 5, left=20)
    tale.lines.append(dict(tale.lines[2], t=11 * MS, grant="a.5.2", holds=2))
    assert "outcomes" in tale.models()


def test_a_wait_beyond_its_limit_is_found():
    assert Tale().acquire("a", 0, 100, 5, e="fail", limit=90).sound()
    tale = Tale().acquire("a", 0, 200, 5, e="fail", limit=90)
    assert tale.models() == ["outcomes"]
    assert tale.add(50, "frozen", p="a", until=190 * MS).sound()


def test_a_hang_and_a_lock_that_stays_stuck_are_found():
    assert Tale().add(9, "hang", p="a", text="…").models() == ["outcomes"]
    assert Tale().add(9, "stuck", err="TIMEOUT", text="").models() == [
        "outcomes"]


def test_an_exit_status_that_no_fault_explains_is_found():
    run = {"p": "c0.1", "text": ""}
    assert Tale().add(9, "run", exit=76, **run).sound()
    assert Tale().add(9, "run", exit=70, **run).models() == ["outcomes"]
    run["text"] = "snib: n: the holder … died while it waited for the lock; …"
    assert Tale().add(9, "run", exit=70, **run).sound()


# -- resource -------------------------------------------------------------------------


def test_all_acknowledged_elements_there_is_sound():
    assert (Tale().write(1, 10, 5).write(2, 20, 6)
            .final((5, 1), (6, 2)).sound())


def test_a_lost_element_is_found():
    tale = Tale().write(1, 10, 5).write(2, 20, 6).final((6, 2))
    assert tale.models() == ["resource"]
    assert "fence BROKEN" in str(tale.verdict())


def test_a_refused_element_need_not_be_there():
    assert Tale().write(1, 10, 5, e="fail").final().sound()


def test_an_element_of_a_killed_writer_may_be_there_or_not():
    asked = {"e": "invoke", "element": 1, "token": 5}
    assert Tale().add(9, "write", **asked).final().sound()
    assert Tale().add(9, "write", **asked).final((5, 1)).sound()


def test_a_counter_that_missed_an_update_is_found():
    tale = Tale().write(1, 10, 5).write(2, 20, 6)
    assert tale.final((5, 1), (6, 2), count=1).models() == ["resource"]


def test_an_element_twice_or_from_nowhere_is_found():
    assert Tale().write(1, 10, 5).final((5, 1), (5, 1)).models() == [
        "resource"]
    assert Tale().final((5, 1)).models() == ["resource"]


def test_a_write_of_an_older_token_after_a_newer_is_found():
    tale = Tale().write(1, 10, 6).write(2, 20, 5)
    assert tale.final((6, 1), (5, 2)).models() == ["resource"]


def test_acknowledged_elements_without_a_final_read_are_no_success():
    assert Tale().write(1, 10, 5).models() == ["resource"]


# -- shared -------------------------------------------------------------------------


READ, WRITE = {"kind": "read"}, {"kind": "write"}


def lot(permits, size=4):
    return {"kind": "permits", "permits": permits, "size": size}


def test_readers_and_permits_side_by_side_are_sound():
    assert (Tale().acquire("a", 0, 10, 5, left=400, **READ)
            .acquire("b", 5, 20, 5, left=400, **READ)
            .acquire("c", 5, 30, 9, left=400, **lot(4)).sound())


def test_a_writer_beside_a_reader_is_found():
    for first, second in ((READ, WRITE), (WRITE, READ), (WRITE, WRITE)):
        tale = (Tale().acquire("a", 0, 10, 5, left=400, **first)
                .acquire("b", 5, 409, 6, left=100, **second))
        assert tale.models() == ["shared"]
        assert (Tale().acquire("a", 0, 10, 5, left=400, **first)
                .acquire("b", 5, 411, 6, left=100, **second).sound())


def test_a_writer_beside_permits_is_found():
    assert (Tale().acquire("a", 0, 10, 5, left=400, **lot(1))
            .acquire("b", 5, 30, 6, left=100, **WRITE).models()) == ["shared"]


def test_a_writer_that_reads_is_sound_and_lets_no_other_in():
    tale = (Tale().acquire("a", 0, 10, 5, left=400, **WRITE)
            .acquire("a", 15, 20, 5, left=400, **READ))
    tale.lines[-2]["grant"] = "a.read"
    tale.lines[-1]["grant"] = "a.read"
    assert tale.sound()
    tale.acquire("b", 15, 30, 5, left=100, **READ)
    assert tale.models() == ["shared"]


def test_one_permit_too_many_is_found():
    assert (Tale().acquire("a", 0, 10, 5, left=400, **lot(2))
            .acquire("b", 5, 20, 6, left=100, **lot(2))
            .acquire("c", 5, 130, 7, left=100, **lot(2)).sound())
    assert (Tale().acquire("a", 0, 10, 5, left=400, **lot(2))
            .acquire("b", 5, 20, 6, left=100, **lot(2))
            .acquire("c", 5, 110, 7, left=100, **lot(1)).models()) == [
                "shared"]


def test_a_loss_told_of_one_reader_is_not_another_ones():
    """They show the same token; the ticket tells them apart."""
    tale = (Tale().acquire("a", 0, 10, 5, left=400, ticket=1, **READ)
            .acquire("a", 0, 10, 5, caller="l1", ticket=2, **READ))
    tale.lines[-1]["grant"] = "a.other"
    tale.told("a", 100, 5)
    tale.lines[-1]["ticket"] = 2
    tale.release("a", 200, 210, 5)
    assert tale.sound()


def test_a_readers_token_that_fell_is_found():
    assert (Tale().acquire("a", 0, 10, 7, left=20, **WRITE)
            .release("a", 20, 30, 7)
            .acquire("b", 40, 50, 6, left=20, **READ).models()) == ["fenced"]
    assert (Tale().acquire("a", 0, 10, 7, left=20, **WRITE)
            .release("a", 20, 30, 7)
            .acquire("b", 40, 50, 7, left=20, **READ).sound())


# -- files ----------------------------------------------------------------------------


def test_a_line_cut_off_by_a_kill_is_no_line(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text('{"t":1,"op":"meta"}\n{"t":2,"op":"wri')
    assert checker.read(path) == [{"t": 1, "op": "meta"}]
