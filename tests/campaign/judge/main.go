// judge — is a recorded history one of a fenced lock?
//
//	judge [-limit DURATION] HISTORY…
//
// The second opinion of the campaign: porcupine looks for an order of the calls
// in which the model of model.go could have given these answers. It shares
// nothing with checker.py but the file.
//
// A JSON line for each history: path, verdict (good, bad, unknown: not decided
// within the limit), operations, text (what no order explains). Exit status 0:
// all good; 1: one was not; 2: one can't be judged.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

type verdict struct {
	Path       string `json:"path"`
	Verdict    string `json:"verdict"`
	Operations int    `json:"operations"`
	Text       string `json:"text"`
}

func judge(path string, limit time.Duration) (verdict, error) {
	found := verdict{Path: path, Verdict: "good"}
	file, err := os.Open(path)
	if err != nil {
		return found, err
	}
	defer file.Close()
	h, err := read(file)
	if err != nil {
		return found, fmt.Errorf("%s: %v", path, err)
	}
	locks := make([]string, 0, len(h.ops))
	for lock := range h.ops {
		locks = append(locks, lock)
	}
	sort.Strings(locks)
	for _, lock := range locks { // each is a lock of its own
		ops := h.ops[lock]
		found.Operations += len(ops)
		result, info := porcupine.CheckOperationsVerbose(model.ToModel(), ops, limit)
		switch {
		case result == porcupine.Unknown:
			return verdict{path, "unknown", found.Operations,
				fmt.Sprintf("%s: not decided within %v", lock, limit)}, nil
		case result == porcupine.Illegal:
			found.Verdict = "bad"
			found.Text = lock + ": " + stuck(ops, info)
		}
	}
	return found, nil
}

// stuck: what can't come after the longest order that the model explains: of
// what is left, the one that returned first.
func stuck(ops []porcupine.Operation, info porcupine.LinearizationInfo) string {
	longest := []porcupine.Operation{}
	for _, partials := range info.PartialLinearizationsOperations() {
		for _, partial := range partials {
			if len(partial) > len(longest) {
				longest = partial
			}
		}
	}
	type point struct {
		in        input
		call, ret int64
	}
	placed := map[point]int{}
	for _, op := range longest {
		placed[point{op.Input.(input), op.Call, op.Return}]++
	}
	left := porcupine.Operation{Return: never}
	for _, op := range ops {
		p := point{op.Input.(input), op.Call, op.Return}
		if placed[p] > 0 {
			placed[p]--
		} else if left.Input == nil || op.Return < left.Return {
			left = op
		}
	}
	return fmt.Sprintf("%v [t=%d to %d]", left.Input, left.Call, left.Return)
}

func main() {
	limit := flag.Duration("limit", 20*time.Second, "for each lock of a history")
	flag.Parse()
	status := 0
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: judge [-limit DURATION] HISTORY…")
		os.Exit(2)
	}
	for _, path := range flag.Args() {
		found, err := judge(path, *limit)
		if err != nil {
			fmt.Fprintln(os.Stderr, "judge:", err)
			os.Exit(2)
		}
		if found.Verdict != "good" {
			status = 1
		}
		_ = json.NewEncoder(os.Stdout).Encode(found)
	}
	os.Exit(status)
}
