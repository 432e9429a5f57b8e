package helmtest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Outcomes of an attack, as the table has them.
const (
	outcomeHeld   = "held"
	outcomeLacks  = "lacks"
	outcomeBroken = "broken"
)

// A result is how an attack came out.
type result struct {
	outcome string
	reason  string // of lacks
	faults  []string
	notes   []string
}

// try makes an attack with tools of each kind.
func (a *Adapter) try(c attackCase, patience time.Duration) (all result) {
	all.outcome = outcomeHeld
	made := false
	var reasons, excused []string
	for _, kind := range a.Kinds {
		reason := cmp.Or(a.Lacks[c.name+"/"+kind], a.Lacks[c.name])
		x, err := newAttack(a, kind, patience)
		if err != nil {
			all.faults = append(all.faults, fmt.Sprintf("%s: %v", kind, err))
			continue
		}
		c.make(x)
		x.settle()
		say := func(list []string) {
			for _, s := range list {
				all.faults = append(all.faults, kind+": "+s)
			}
		}
		say(x.breaches)
		for _, note := range x.notes {
			all.notes = append(all.notes, kind+": "+note)
		}
		missing := len(x.skipped) > 0 // an attack of which a part was not made
		made = made || x.made && !missing
		switch {
		case reason != "" && (len(x.faults) > 0 || missing || !x.made):
			excused = append(excused, kind)
			if !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
			for _, s := range x.faults {
				all.notes = append(all.notes, kind+" lacks: "+s)
			}
		case reason != "" && a.Lacks[c.name+"/"+kind] != "":
			say([]string{"the adapter holds: take " + c.name + "/" + kind + " out of Lacks"})
		case missing:
			say([]string{"not made: " + strings.Join(x.skipped, "; ") + ": name the framework's reason in Lacks"})
		default:
			say(x.faults)
		}
	}
	whole := a.Lacks[c.name]
	switch {
	case len(all.faults) > 0:
		all.outcome = outcomeBroken
	case len(excused) > 0:
		all.outcome = outcomeLacks
		all.reason = strings.Join(reasons, "; ")
		if len(excused) < len(a.Kinds) {
			all.reason = strings.Join(excused, ", ") + ": " + all.reason
		}
	case whole != "":
		all.outcome = outcomeBroken
		all.faults = append(all.faults, "the adapter holds: take "+c.name+" out of Lacks")
	case !made:
		all.outcome = outcomeBroken
		all.faults = append(all.faults, "not made with any kind of tool: name the framework's reason in Lacks")
	}
	return all
}

// tableOf returns the table: a line for each attack that was made.
func tableOf(results map[string]result) string {
	var b strings.Builder
	for _, c := range attacks {
		r, ok := results[c.name]
		if !ok {
			continue
		}
		line := fmt.Sprintf("%-12s  %-6s  %s", c.name, r.outcome, r.reason)
		fmt.Fprintln(&b, strings.TrimRight(line, " "))
	}
	return b.String()
}

// keep compares the table with the golden file, and writes it where the environment says.
func (a *Adapter) keep(table string) error {
	text := []byte("# " + a.Name + "\n" + table)
	if file := os.Getenv("HELMTEST_TABLE"); file != "" {
		if err := os.WriteFile(file, text, 0o666); err != nil {
			return err
		}
	}
	golden := filepath.Join("testdata", "suite.txt")
	if os.Getenv("HELMTEST_UPDATE") == "1" {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			return err
		}
		return os.WriteFile(golden, text, 0o666)
	}
	had, err := os.ReadFile(golden)
	if err != nil {
		return fmt.Errorf("no table to compare with: %w: set HELMTEST_UPDATE=1 to write it", err)
	}
	if !bytes.Equal(had, text) {
		return fmt.Errorf("the table is not that of %s: set HELMTEST_UPDATE=1 to write it", filepath.ToSlash(golden))
	}
	return nil
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
