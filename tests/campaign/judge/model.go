// The model: what a fenced lock is, as docs/ARCHITECTURE.md (Promises) and
// docs/FENCING.md tell it. Nothing in here is taken from checker.py.
//
// The lock. A state has at most one owner, who has it under one token, and the
// highest token that was ever given. Each operation is one point in time, which
// lies anywhere between its call and its return:
//
//	acquired   told OK with a token. By its owner again: the same token, one
//	           hold more. Else the token is above each one before (P2), and
//	           from this point on nobody else is the owner (P1). It needs no
//	           leave of the owner before: his lease may have ended by itself,
//	           at any time.
//	held       his own library told him that he holds: he is the owner (P1,
//	           P5). So a lease that "ended by itself" is not simply believed:
//	           whoever says so afterwards is found.
//	stands     the same at an instant at which nobody asked (history.go tells
//	           which): his library had named a later deadline.
//	released   told OK: he was the owner (P3), with one hold less now; after
//	           the last there is no owner.
//	ended      told LOST or NOT_HELD, or a loss was told (P5): allowed at any
//	           time, since a lease may end at any time. He is not the owner any
//	           more, and so never again with this token.
//	again      what was released or lost already was released with OK: never.
//
// What makes an overlap visible. That A was granted and then B proves nothing:
// A's lease may have ended in between. An overlap is seen when, after B was
// told OK, anything shows A as the owner: A's own query says held, A's deadline
// that was told to it lies later, A's release is told OK, A's command under
// `snib run` still executes (each of its stamps is a "held"). So each section
// asks before its first step and at each step after, and the deadlines fill the
// gaps between the questions. Without these questions any history of grants
// with rising tokens would be one of a lock.
//
// The resource. It keeps a mark, and the record of what it was asked is its
// own, written while it is alone (protected.py), so that it doesn't hang on
// what the clients believe:
//
//	entered    accepted: the mark was not above the token, and is the token
//	           now. Refused: the mark was above. Nobody comes with a token that
//	           was not given yet: the mark is at most the highest token.
//	written    accepted: the mark is the token. Refused: it is another.
//
// That is the second way to see an overlap, without any clock: that a token was
// refused proves that a higher one had been given and used. Whoever says "held"
// after that, is found; and so is the rightful owner of a token that went back,
// whom the resource turns away.
//
// A stale owner may use the resource as long as his successor has not entered:
// a mark can't know of a grant that nobody used. That is no gap of the model
// but what FENCING.md says.
//
// Calls without an answer may or may not have taken effect. For the lock that
// adds nothing: an acquire without an answer ends somebody's lease at most,
// skips tokens at most, and both may happen anyway; a release without an answer
// only takes steps away from its owner. They are left out. An entry without an
// answer may have raised the mark, or not: both are followed.
//
// A store that forgot (forgot; P1's conditions are broken by the one who ran
// the campaign): from then on there may be several owners. Tokens rise all the
// same, and the resource refuses all the same (P2).
//
// Not judged in here, but by checker.py: limits of time (P6, P8), the moment at
// which a loss is told (P5), order (P7), the elements in the resource, and locks
// that are shared.
package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

type verb int

const (
	acquired verb = iota
	held
	stands
	released
	ended
	again
	entered
	written
	forgot
)

// An input is one operation. Its answer is part of it.
type input struct {
	verb  verb
	owner int
	token int64
	more  bool  // acquired: this owner was given this token before
	after int64 // acquired: the next lower token of the history; 0: none
	ok    bool  // entered, written: accepted
	open  bool  // entered: without an answer
	who   string
}

const nobody = -1

type state struct {
	owner   int
	holds   int
	token   int64 // the owner's
	highest int64
	mark    int64
	forgot  bool
}

func first() []interface{} { return []interface{}{state{owner: nobody}} }

// step: all states that may follow; none: it can't have been so.
func step(before, of, _ interface{}) []interface{} {
	s, in := before.(state), of.(input)
	var next []state
	switch in.verb {
	case acquired:
		next = s.acquired(in)
	case held, stands:
		next = s.when(s.forgot || s.is(in))
	case released:
		next = s.released(in)
	case ended:
		if s.is(in) {
			s.free()
		}
		next = []state{s}
	case again:
	case entered:
		next = s.entered(in)
	case written:
		next = s.when((s.mark == in.token) == in.ok)
	case forgot:
		s.forgot = true
		next = []state{s}
	}
	found := make([]interface{}, len(next))
	for i := range next {
		found[i] = next[i]
	}
	return found
}

func (s state) is(in input) bool {
	return s.owner == in.owner && s.token == in.token
}

func (s state) when(possible bool) []state {
	if possible {
		return []state{s}
	}
	return nil
}

func (s *state) free() { s.owner, s.holds, s.token = nobody, 0, 0 }

func (s state) acquired(in input) []state {
	if in.more {
		if s.is(in) {
			s.holds++
			return []state{s}
		}
		return s.when(s.forgot)
	}
	// In each order that there may be, all of the history's tokens rise: so the
	// next lower one was given just before. Of sixteen that wait at once only
	// one is tried next, then, and not each subset of them.
	if in.token <= s.highest || in.after != s.highest {
		return nil
	}
	s.owner, s.holds, s.token, s.highest = in.owner, 1, in.token, in.token
	return []state{s}
}

func (s state) released(in input) []state {
	if !s.is(in) {
		return s.when(s.forgot)
	}
	s.holds--
	if s.holds == 0 {
		s.free()
	}
	return []state{s}
}

func (s state) entered(in input) []state {
	if in.token > s.highest {
		return nil
	}
	may := s
	may.mark = in.token
	switch {
	case in.open && s.mark <= in.token:
		return []state{s, may}
	case in.open:
		return []state{s}
	case in.ok && s.mark <= in.token:
		return []state{may}
	case !in.ok && s.mark > in.token:
		return []state{s}
	}
	return nil
}

var model = porcupine.NondeterministicModel{Init: first, Step: step}

func (in input) String() string {
	was := "accepted"
	if !in.ok {
		was = "refused"
	}
	switch in.verb {
	case acquired:
		return fmt.Sprintf("%s was granted token %d", in.who, in.token)
	case held:
		return fmt.Sprintf("%s was told that it holds (token %d)", in.who, in.token)
	case stands:
		return fmt.Sprintf("%s has a deadline that is later (token %d)", in.who, in.token)
	case released:
		return fmt.Sprintf("%s released token %d and was told OK", in.who, in.token)
	case ended:
		return fmt.Sprintf("%s lost token %d", in.who, in.token)
	case again:
		return fmt.Sprintf("%s released token %d a second time and was told OK", in.who, in.token)
	case entered:
		return fmt.Sprintf("the resource: token %d comes in, %s", in.token, was)
	case written:
		return fmt.Sprintf("the resource: token %d writes, %s", in.token, was)
	}
	return "the store forgot"
}
