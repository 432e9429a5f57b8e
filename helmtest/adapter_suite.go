package helmtest

import (
	"errors"
	"testing"
)

// AdapterSuite tests an adapter with 18 attacks and a story. Each is a subtest with the name that
// Adapter.Lacks uses. It fails if an attack succeeds, and if one was not made and Lacks has no
// reason for it. It also fails if Lacks names an attack that the adapter holds against.
//
// Tools count their runs by themselves, where the kernel does not see it. A run without a durable
// ALLOW of its own, of the very arguments that it got, always fails the suite, whatever Lacks says;
// so does a log that does not verify with full replay.
//
// Turn and Resume are called by one goroutine, one at a time, and have 30 s each. They may return
// before the tools that they ran have ended, if the host's context did.
//
// The outcome is a table: a line for each attack, which is held, lacks or broken. The table is
// logged, and written to the file that HELMTEST_TABLE names. It must be that of testdata/suite.txt;
// with HELMTEST_UPDATE=1 the suite writes the file. Run it with -race: it takes some
// 5 s for each kind of tool, most of them for time limits.
func AdapterSuite(t *testing.T, a Adapter) {
	t.Helper()
	if err := a.check(); err != nil {
		t.Fatalf("helmtest: %v", err)
	}
	results := map[string]result{}
	for _, x := range attacks {
		t.Run(x.name, func(t *testing.T) {
			r := a.try(x, patience)
			results[x.name] = r
			for _, note := range r.notes {
				t.Log(note)
			}
			for _, fault := range r.faults {
				t.Error(fault)
			}
			if r.outcome == outcomeLacks {
				t.Skip("lacks: " + r.reason)
			}
		})
	}
	table := tableOf(results)
	t.Logf("%s\n%s", a.Name, table)
	if len(results) < len(attacks) {
		return // go test -run chose some
	}
	if err := a.keep(table); err != nil {
		t.Errorf("helmtest: %v", err)
	}
}

// check reports what is missing.
func (a *Adapter) check() error {
	switch {
	case a.Name == "":
		return errors.New("an adapter needs a Name")
	case len(a.Kinds) == 0:
		return errors.New("an adapter needs Kinds: one, if the framework has one kind of tool")
	case a.Turn == nil:
		return errors.New("an adapter needs a Turn")
	}
	known := map[string]bool{}
	for _, x := range attacks {
		known[x.name] = true
		for _, kind := range a.Kinds {
			known[x.name+"/"+kind] = true
		}
	}
	for _, name := range sortedKeys(a.Lacks) {
		if !known[name] {
			return errors.New("Lacks names " + name + ", and there is no such attack")
		}
		if a.Lacks[name] == "" {
			return errors.New("Lacks has no reason for " + name)
		}
	}
	return nil
}
