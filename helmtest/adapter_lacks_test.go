package helmtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func attackNamed(t *testing.T, name string) attackCase {
	t.Helper()
	for _, c := range attacks {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("there is no attack %s", name)
	return attackCase{}
}

// planted returns an adapter with the fault of a broken toy.
func planted(t *testing.T, attack, toy string) Adapter {
	t.Helper()
	for _, group := range brokenToys {
		for _, b := range group.toys {
			if group.attack == attack && b.name == toy {
				f := honestToy()
				b.plant(f)
				return f.adapter()
			}
		}
	}
	t.Fatalf("there is no toy that %s", toy)
	return Adapter{}
}

// Lacks excuses what a framework cannot do, with its reason, and nothing that an adapter must never
// do.
func TestLacks(t *testing.T) {
	t.Parallel()
	const why = "arguments are decoded before any hook"
	unable := honestToy().adapter()
	unable.Turn = func(context.Context, Turn) Answer {
		return Answer{Err: fmt.Errorf("no hooks: %w", errors.ErrUnsupported)}
	}
	plainOnly := honestToy().adapter()
	plainOnly.Kinds = []string{"plain"}
	for _, x := range []struct {
		name, attack string
		adapter      Adapter
		lacks        map[string]string
		want         result
	}{
		{"lossy", "04-keys", planted(t, "04-keys", "decodes arguments to a map"), map[string]string{"04-keys": why},
			result{outcome: outcomeLacks, reason: why}},
		{"lossy in one kind", "04-keys", planted(t, "04-keys", "decodes arguments to a map"),
			map[string]string{"04-keys/plain": why, "04-keys/streamed": "another reason"},
			result{outcome: outcomeLacks, reason: why + "; another reason"}},
		{"unable", "02-changed", unable, map[string]string{"02-changed": "it has no hooks"},
			result{outcome: outcomeLacks, reason: "it has no hooks"}},
		{"unable without a reason", "02-changed", unable, nil, result{outcome: outcomeBroken, faults: []string{
			"plain: not made: no hooks: unsupported operation: name the framework's reason in Lacks",
			"streamed: not made: no hooks: unsupported operation: name the framework's reason in Lacks",
		}}},
		{"no streams", "08-streams", plainOnly, map[string]string{"08-streams": "it has no streams"},
			result{outcome: outcomeLacks, reason: "it has no streams"}},
		{"no streams without a reason", "08-streams", plainOnly, nil, result{outcome: outcomeBroken, faults: []string{
			"not made with any kind of tool: name the framework's reason in Lacks"}}},
		{"holds", "04-keys", honestToy().adapter(), map[string]string{"04-keys": why},
			result{outcome: outcomeBroken, faults: []string{"the adapter holds: take 04-keys out of Lacks"}}},
		{"holds in one kind", "04-keys", honestToy().adapter(), map[string]string{"04-keys/streamed": why},
			result{outcome: outcomeBroken, faults: []string{
				"streamed: the adapter holds: take 04-keys/streamed out of Lacks"}}},
		{"an effect without an ALLOW", "18-late", planted(t, "18-late", "wraps the tools of its construction only"),
			map[string]string{"18-late": "it cannot see them"},
			result{outcome: outcomeBroken, faults: []string{
				"plain: vault_open ran without a durable ALLOW of its own",
				"plain: note_add ran without a durable ALLOW of its own",
				"streamed: vault_open ran without a durable ALLOW of its own",
				"streamed: note_add ran without a durable ALLOW of its own",
			}}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			x.adapter.Lacks = x.lacks
			r := x.adapter.try(attackNamed(t, x.attack), patience)
			r.notes = nil
			assert.Equal(t, x.want, r)
		})
	}
}

func TestAdapterCheck(t *testing.T) {
	t.Parallel()
	ok := honestToy().adapter()
	for want, change := range map[string]func(a *Adapter){
		"needs a Name":              func(a *Adapter) { a.Name = "" },
		"needs Kinds":               func(a *Adapter) { a.Kinds = nil },
		"needs a Turn":              func(a *Adapter) { a.Turn = nil },
		"there is no such attack":   func(a *Adapter) { a.Lacks = map[string]string{"19-none": "x"} },
		"has no reason for 04-keys": func(a *Adapter) { a.Lacks = map[string]string{"04-keys": ""} },
		"names 04-keys/structured,": func(a *Adapter) { a.Lacks = map[string]string{"04-keys/structured": "x"} },
	} {
		a := ok
		change(&a)
		require.ErrorContains(t, a.check(), want)
	}
	ok.Lacks = map[string]string{"04-keys/streamed": "x"}
	require.NoError(t, ok.check())
}

// The table is that of the golden file, unless it is to be written.
func TestSuiteTable(t *testing.T) {
	t.Chdir(t.TempDir())
	a := Adapter{Name: "toy"}
	results := map[string]result{}
	for _, c := range attacks {
		results[c.name] = result{outcome: outcomeHeld}
	}
	results["08-streams"] = result{outcome: outcomeLacks, reason: "it has no streams"}
	table := tableOf(results)
	assert.Equal(t, len(attacks), strings.Count(table, "\n"))
	assert.Contains(t, table, "\n08-streams    lacks   it has no streams\n09-parallel   held\n")
	t.Setenv("HELMTEST_UPDATE", "")
	t.Setenv("HELMTEST_TABLE", "")
	require.ErrorContains(t, a.keep(table), "no table to compare with")
	t.Setenv("HELMTEST_UPDATE", "1")
	require.NoError(t, a.keep(table))
	t.Setenv("HELMTEST_UPDATE", "")
	t.Setenv("HELMTEST_TABLE", "out.txt")
	require.NoError(t, a.keep(table))
	for _, file := range []string{"out.txt", filepath.Join("testdata", "suite.txt")} {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, "# toy\n"+table, string(b))
	}
	require.ErrorContains(t, a.keep(strings.Replace(table, "held", "lacks", 1)), "not that of testdata/suite.txt")
}
