package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"

	"github.com/anishathalye/porcupine"
)

// A line of a history, with what of it is read here (history.py has them all).
type line struct {
	T      int64
	Op     string
	E      string
	P      string
	Owner  string
	Lock   string
	Kind   string
	ID     json.RawMessage
	Grant  string
	Token  int64
	Began  int64
	Ended  int64
	Asked  int64
	Held   bool
	State  string
	Reason string
	Err    string
	What   string
	LeftMs int64 `json:"left_ms"`
	Lossy  bool
}

const (
	never = math.MaxInt64
	ms    = 1000000
)

// A tenure is all that one owner had under one token.
type tenure struct {
	lock, owner, p string
	token          int64
	asked, told    int64
	grants         []string
	deadline       int64 // the latest that was named to it
	lost           bool
	early          bool // lost, and not by the clock: when, nobody knows
}

type history struct {
	lines   []line
	killed  map[string]int64
	tenures map[string]*tenure // by lock, owner, token
	ofGrant map[string]*tenure
	asked   map[string]int64 // the first release of a grant
	forgot  int64
	owners  map[string]int
	ops     map[string][]porcupine.Operation // by lock
}

// A line that kill -9 cut off is no line.
func read(from io.Reader) (*history, error) {
	h := &history{killed: map[string]int64{}, tenures: map[string]*tenure{},
		ofGrant: map[string]*tenure{}, asked: map[string]int64{}, forgot: never,
		owners: map[string]int{}, ops: map[string][]porcupine.Operation{}}
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, 64<<20) // "final" has all elements
	for scanner.Scan() {
		var l line
		var cut *json.SyntaxError
		err := json.Unmarshal(scanner.Bytes(), &l)
		if errors.As(err, &cut) {
			continue
		}
		if err != nil {
			return nil, err
		}
		h.lines = append(h.lines, l)
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	if len(h.lines) == 0 {
		return nil, errors.New("no line of a history in it")
	}
	sort.SliceStable(h.lines, func(i, j int) bool { return h.lines[i].T < h.lines[j].T })
	for i := range h.lines {
		if h.lines[i].Op == "acquire" && h.lines[i].Kind != "" {
			return nil, fmt.Errorf("a lock of kind %s: no model for it", h.lines[i].Kind)
		}
		h.grant(&h.lines[i])
	}
	for i := range h.lines {
		h.fate(&h.lines[i])
	}
	h.operations()
	return h, nil
}

func key(lock, owner string, token int64) string {
	return fmt.Sprintf("%s %s %d", lock, owner, token)
}

// -- who had what -------------------------------------------------------------

func (h *history) grant(l *line) {
	switch {
	case l.Op == "acquire" && l.E == "ok":
		t := h.tenure(l.Lock, l.Owner, l.P, l.Token, l.Began, l.Ended)
		t.grants = append(t.grants, l.Grant)
		h.ofGrant[l.Grant] = t
	case l.Op == "section":
		h.tenure(l.Lock, l.P, l.P, l.Token, l.Asked, l.T)
	case l.Op == "killed":
		if _, is := h.killed[l.P]; !is {
			h.killed[l.P] = l.T
		}
	case l.Op == "nemesis" && l.Lossy && l.T < h.forgot:
		h.forgot = l.T
	}
}

func (h *history) tenure(lock, owner, p string, token, asked, told int64) *tenure {
	t := h.tenures[key(lock, owner, token)]
	if t == nil {
		t = &tenure{lock: lock, owner: owner, p: p, token: token, asked: asked, told: told}
		h.tenures[key(lock, owner, token)] = t
	}
	return t
}

func (h *history) fate(l *line) {
	switch {
	case l.Op == "probe" && h.ofGrant[l.Grant] != nil:
		t := h.ofGrant[l.Grant]
		if l.Held && l.Began+l.LeftMs*ms > t.deadline {
			t.deadline = l.Began + l.LeftMs*ms
		}
		t.lost = t.lost || l.State == "lost"
	case l.Op == "told" && l.State == "lost":
		if t := h.told(l); t != nil {
			t.lost = true
			t.early = t.early || !byTheClock[l.Reason]
		}
	case l.Op == "release" && l.E == "invoke":
		if _, is := h.asked[l.Grant]; !is {
			h.asked[l.Grant] = l.T
		}
	}
}

// The callback names process and token: two threads have no token in common.
func (h *history) told(l *line) *tenure {
	for _, t := range h.tenures {
		if t.p == l.P && t.token == l.Token {
			return t
		}
	}
	return nil
}

// Causes (snib.h) that are told at the deadline, not before it.
var byTheClock = map[string]bool{"unreachable": true, "paused": true, "expired": true}

// stands: up to when a tenure holds beyond what it asked: to the latest deadline
// that its library named, unless it gave the lock back itself, was killed, or
// lost it before, which only the answers show then.
func (h *history) stands(t *tenure) int64 {
	until := t.deadline
	if t.lost && (t.early || !h.causeTold(t)) {
		return 0
	}
	if at, is := h.killed[t.p]; is && at < until {
		until = at
	}
	last := int64(0)
	for _, grant := range t.grants {
		at, is := h.asked[grant]
		if !is {
			at = never
		}
		if at > last {
			last = at
		}
	}
	if last < until {
		until = last
	}
	return until
}

func (h *history) causeTold(t *tenure) bool {
	for i := range h.lines {
		l := &h.lines[i]
		if l.Op == "told" && l.State == "lost" && l.P == t.p && l.Token == t.token {
			return true
		}
	}
	return false
}

// -- operations ---------------------------------------------------------------

func (h *history) add(lock string, in input, call, ret int64) {
	if call > ret {
		call = ret
	}
	owner, is := h.owners[in.who]
	if !is {
		owner = len(h.owners)
		h.owners[in.who] = owner
	}
	in.owner = owner
	h.ops[lock] = append(h.ops[lock], porcupine.Operation{
		ClientId: owner, Input: in, Call: call, Return: ret})
}

func (h *history) operations() {
	returns := map[string]*line{}
	for i := range h.lines {
		if l := &h.lines[i]; l.E != "invoke" && len(l.ID) > 0 {
			returns[l.Op+string(l.ID)] = l
		}
	}
	over := map[string]int64{} // grants whose end was told, and when
	seen := map[string]bool{}
	for i := range h.lines {
		l := &h.lines[i]
		switch l.Op {
		case "acquire":
			if l.E == "ok" {
				h.acquired(l.Lock, l.Owner, l.Token, l.Began, l.Ended, seen)
			}
		case "section":
			h.section(l, seen)
		case "probe":
			h.probe(l)
		case "told":
			if t := h.told(l); t != nil && l.State == "lost" {
				h.add(t.lock, input{verb: ended, token: t.token, who: t.owner}, l.T, l.T)
			}
		case "release":
			h.released(l, over)
		case "fence":
			if l.E == "invoke" {
				h.fence(l, returns["fence"+string(l.ID)])
			}
		}
	}
	for _, t := range h.tenures {
		if until := h.stands(t); until > t.told {
			h.add(t.lock, input{verb: stands, token: t.token, who: t.owner}, until, until)
		}
	}
	for lock, ops := range h.ops {
		order(ops)
		if h.forgot != never {
			h.add(lock, input{verb: forgot}, h.forgot, h.forgot)
		}
	}
}

// order tells each token that was given which one comes before it: the next lower
// one, but for those that were asked for later. (Those are found by themselves.)
func order(ops []porcupine.Operation) {
	for i := range ops {
		in := ops[i].Input.(input)
		if in.verb != acquired {
			continue
		}
		for _, op := range ops {
			other := op.Input.(input)
			if other.verb == acquired && other.token < in.token &&
				other.token > in.after && op.Call <= ops[i].Return {
				in.after = other.token
			}
		}
		ops[i].Input = in
	}
}

// Reserved is how many tokens beyond its own a grant may bring along.
const reserved = 31

// acquired: once the store has forgotten, a client may still hand on the tokens
// that it was given in reserve before (FENCING.md, "In which order tokens
// arrive"): they were given with the first of them.
func (h *history) acquired(lock, owner string, token, call, ret int64, seen map[string]bool) {
	t := h.tenures[key(lock, owner, token)]
	in := input{verb: acquired, token: token, who: owner, more: seen[key(lock, owner, token)]}
	seen[key(lock, owner, token)] = true
	if ret > h.forgot && !in.more {
		for _, other := range h.tenures {
			if other.p == t.p && other.token < token && token-other.token <= reserved &&
				other.asked < call {
				call = other.asked
			}
		}
	}
	h.add(lock, in, call, ret)
}

// section: the command runs. Its first stamp is the answer to what was asked.
func (h *history) section(l *line, seen map[string]bool) {
	if !seen[key(l.Lock, l.P, l.Token)] {
		asked := l.T
		if l.Asked != 0 {
			asked = l.Asked
		}
		h.acquired(l.Lock, l.P, l.Token, asked, l.T, seen)
	}
	h.add(l.Lock, input{verb: held, token: l.Token, who: l.P}, l.T, l.T)
}

func (h *history) probe(l *line) {
	t := h.ofGrant[l.Grant]
	if t == nil {
		return
	}
	if l.Held {
		h.add(t.lock, input{verb: held, token: t.token, who: t.owner}, l.Began, l.Ended)
	}
	if l.State == "lost" {
		h.add(t.lock, input{verb: ended, token: t.token, who: t.owner}, l.Began, l.Ended)
	}
}

func (h *history) released(l *line, over map[string]int64) {
	token := int64(0) // nobody's: it never had that grant
	if t := h.ofGrant[l.Grant]; t != nil {
		token = t.token
	}
	at, is := over[l.Grant]
	twice := is && at < l.Began
	in := input{token: token, who: l.Owner}
	switch {
	case l.E == "ok" && twice:
		in.verb = again
	case l.E == "ok":
		in.verb = released
	case l.E == "fail" && (l.Err == "LOST" || l.Err == "NOT_HELD") && !twice:
		in.verb = ended
	default:
		return
	}
	if !is {
		over[l.Grant] = l.Ended
	}
	h.add(l.Lock, in, l.Began, l.Ended)
}

func (h *history) fence(l, answer *line) {
	in := input{verb: written, token: l.Token, who: "resource"}
	if l.What == "enter" {
		in.verb = entered
	}
	ret := int64(never)
	if answer != nil {
		in.ok, ret = answer.E == "ok", answer.T
	} else if in.open = true; in.verb == written {
		return
	}
	h.add(l.Lock, in, l.T, ret)
}
