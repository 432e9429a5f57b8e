package forge

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// A cosigning is a log whose pack has some lines and the checkpoint that comes with it others, with
// what follows.
type cosigning struct {
	within, later func(text string) string // lines after the log's; nil: none, and no later checkpoint
	unsigned      bool                     // the pack has no line of the log
	quorum        int
	level         evidence.Level
	by            []string // "name seconds"
	oracle        string   // why the second implementation says otherwise; "": it does not
}

func cosignings(t *testing.T) map[string]cosigning {
	t.Helper()
	line := func(seed byte, at uint64) func(string) string {
		return func(text string) string { return cosignature(t, text, seed, at) }
	}
	all := func(parts ...func(string) string) func(string) string {
		return func(text string) (s string) {
			for _, f := range parts {
				s += f(text)
			}
			return s
		}
	}
	logs := func(text string) string { return noteLineOf(t, text, Origin, SeedL) }
	w1, w2 := line(SeedW1, 7), line(seedW2, 8)
	x := func(text string) string { return cosignatureBy(t, text, "x.example", SeedX, SeedX, 9) }
	const wit, log, intact = evidence.Witnessed, evidence.Logged, evidence.Intact
	const last = "w1.example 253402300799" // of the year 9999
	return map[string]cosigning{
		"both within":                     {all(w1, w2), nil, false, 2, wit, []string{"w1.example 7", "w2.example 8"}, ""},
		"in the order of the caller":      {all(w2, w1), nil, false, 2, wit, []string{"w1.example 7", "w2.example 8"}, ""},
		"both later":                      {nil, all(w1, w2), false, 2, wit, []string{"w1.example 7", "w2.example 8"}, ""},
		"one and one":                     {w1, w2, false, 2, wit, []string{"w1.example 7", "w2.example 8"}, ""},
		"one of one":                      {w2, nil, false, 1, wit, []string{"w2.example 8"}, ""},
		"two of one":                      {w2, w1, false, 1, wit, []string{"w1.example 7", "w2.example 8"}, ""},
		"one of two":                      {w2, nil, false, 2, log, []string{"w2.example 8"}, ""},
		"one, in both":                    {w1, w1, false, 2, log, []string{"w1.example 7"}, ""},
		"none":                            {nil, nil, false, 1, log, nil, ""},
		"strangers":                       {x, all(x, x), false, 1, log, nil, ""},
		"a stranger and one":              {all(x, w1), x, false, 1, wit, []string{"w1.example 7"}, ""},
		"the latest, first":               {all(line(SeedW1, 70), w1), nil, false, 2, log, []string{"w1.example 70"}, ""},
		"the latest, last":                {all(w1, line(SeedW1, 70)), nil, false, 2, log, []string{"w1.example 70"}, ""},
		"the latest is later":             {w1, line(SeedW1, 70), false, 1, wit, []string{"w1.example 70"}, ""},
		"the earliest is later":           {line(SeedW1, 70), w1, false, 1, wit, []string{"w1.example 70"}, ""},
		"at the first second":             {line(SeedW1, 1), nil, false, 1, wit, []string{"w1.example 1"}, ""},
		"at the last second":              {line(SeedW1, math.MaxInt64), nil, false, 1, wit, []string{last}, ""},
		"at the end of the year 9999":     {line(SeedW1, 253402300799), nil, false, 1, wit, []string{last}, ""},
		"unsigned":                        {all(w1, w2), nil, true, 2, intact, []string{"w1.example 7", "w2.example 8"}, ""},
		"unsigned, and all else is later": {w1, w2, true, 2, intact, []string{"w1.example 7", "w2.example 8"}, ""},
		"99 lines": {all(slices.Repeat([]func(string) string{w1}, 99)...), w2, false, 2, wit,
			[]string{"w1.example 7", "w2.example 8"}, ""},
		"the log's line is later": {w1, all(logs, w2), true, 2, intact, []string{"w1.example 7", "w2.example 8"},
			"the log's line counts there, and here it is not looked at"},
		"a wrong line of the log is later": {w1, all(func(text string) string {
			return noteLine(&Model{TB: t}, signWith(t, seedK2, []byte(text)), SeedL)
		}, w2), false, 2, wit, []string{"w1.example 7", "w2.example 8"},
			"it is CHECKPOINT there, and here it is not looked at"},
	}
}

// made returns the pack and the checkpoint that comes with it.
func (c *cosigning) made(m *Model) (pack, later []byte) {
	m.note = func(text string) []byte {
		b := []byte(text + "\n")
		if !c.unsigned {
			b = signNote(m, text, Origin, SeedL)
		}
		if c.within != nil {
			b = append(b, c.within(text)...)
		}
		if c.later != nil {
			later = []byte(text + "\n" + c.later(text))
		}
		return b
	}
	return m.Build(), later
}

// TestWitnesses: who has cosigned, when, and what it comes to, in a pack and in a store.
func TestWitnesses(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	w := newTampered(t)
	for name, c := range cosignings(t) {
		t.Run(name, func(t *testing.T) {
			pack, later := c.made(TakeApart(t, w.pack))
			o := w.o
			o.Witnesses, o.Quorum, o.Cosigned = WitnessKeys(t), c.quorum, later
			store := Shelve(t, pack).Fill(t, proofgraph.NewMemory())
			for from, verify := range map[string]func(evidence.Options) (evidence.Report, error){
				"Verify": func(o evidence.Options) (evidence.Report, error) { return verifyBytes(t, pack, o) },
				"VerifyStore": func(o evidence.Options) (evidence.Report, error) {
					return evidence.VerifyStore(t.Context(), store, o)
				},
				"OpenPack": func(o evidence.Options) (evidence.Report, error) {
					_, r, err := evidence.OpenPack(t.Context(), bytes.NewReader(pack), int64(len(pack)), o)
					return r, err
				},
			} {
				r, err := verify(o)
				require.NoError(t, err, from)
				var by []string
				for _, x := range r.Witnesses {
					by = append(by, fmt.Sprintf("%s %d", x.Name, x.Time.Unix()))
					assert.Equal(t, time.UTC, x.Time.Location())
				}
				assert.True(t, r.Level == c.level && slices.Equal(by, c.by), "%s: %s by %q", from, r.Level, by)
				assert.Equal(t, evidence.Witnessed, r.Asked, from)
				assert.Equal(t, c.level == evidence.Witnessed, r.Success(0), from)
				reread(t, r)
				for _, level := range []evidence.Level{evidence.Intact, evidence.Logged, evidence.Witnessed} {
					asked := o
					asked.Level = level
					r, err := verify(asked)
					assert.True(t, err == nil && r.Asked == level && r.Success(0) == (c.level >= level) &&
						r.Success(level) == (c.level >= level), "%s, asked for %s: %+v, %v", from, level, r, err)
				}
				unasked := o
				unasked.Witnesses, unasked.Quorum = nil, 0
				r, err = verify(unasked)
				assert.True(t, err == nil && r.Witnesses == nil && r.Asked == evidence.Logged &&
					r.Level == min(c.level, evidence.Logged), "%s, without witnesses: %+v, %v", from, r, err)
			}
		})
	}
}

// TestNobodyWitnesses: the level can be asked for without witnesses, and is then not reached.
func TestNobodyWitnesses(t *testing.T) {
	t.Parallel()
	w := newTampered(t)
	w.witness()
	o := w.o
	o.Witnesses, o.Quorum, o.Level = nil, 0, evidence.Witnessed
	r, err := verifyBytes(t, w.pack, o)
	assert.True(t, err == nil && r.Level == evidence.Logged && !r.Success(0) && r.Success(evidence.Logged),
		"%+v, %v", r, err)
	assert.True(t, strings.HasPrefix(r.String(), "NO SUCCESS: LOGGED, FRESH, TRUSTED: WITNESSED was asked for\n"), "%s", r)
}

// TestBackTestOfWitnessed: a back-test holds its pack to the witnesses too.
func TestBackTestOfWitnessed(t *testing.T) {
	t.Parallel()
	w := newTampered(t)
	w.witness()
	candidate := Compiled(t, BasePolicy(3), MailPolicy)
	test := func(pack []byte) (evidence.Report, error) {
		d, err := evidence.BackTest(t.Context(), bytes.NewReader(pack), int64(len(pack)), w.o, candidate,
			func(evidence.Change) error { return nil })
		return d.Report, err
	}
	r, err := test(w.pack)
	assert.True(t, err == nil && r.Level == evidence.Witnessed && r.Success(0), "%+v, %v", r, err)
	m := TakeApart(t, w.pack)
	cosigned(by1(bit(40)))(m)
	r, err = test(m.Build())
	mustRefuse(t, r, err, errCosign)
}

// TestCosignIsLast: all other checks come before COSIGN, and of another checkpoint no line is
// looked at.
func TestCosignIsLast(t *testing.T) {
	t.Parallel()
	w := newTampered(t)
	w.witness()
	wrong := cosigned(by1(bit(40)))
	for name, x := range map[string]struct {
		cut  func(*Model)
		want error
	}{
		"alone":    {func(*Model) {}, errCosign},
		"RECORD":   {setD("d1", "verdict", "ALLOW"), errRecord},
		"MERKLE":   {wrongTree(func(*Model) [32]byte { return [32]byte{1} }), errMerkle},
		"MANIFEST": {func(m *Model) { m.Manifest = func(p Object) { p["size"] = 1 } }, errManifest},
		"REPLAY": {func(m *Model) {
			m.inputs(m.The("a1"), func(in Object) { in["state"].(Object)["trust"] = ones64 })
		}, errReplay},
	} {
		m := TakeApart(t, w.pack)
		wrong(m)
		x.cut(m)
		r, err := verifyBytes(t, m.Build(), w.o)
		t.Run(name, func(t *testing.T) { mustRefuse(t, r, err, x.want) })
	}
	o := w.o
	text, _, _ := strings.Cut(string(Untar(t, w.pack)[CheckpointAt].Body), "\n\n")
	other := strings.Replace(text, "\n43\n", "\n42\n", 1) + "\n"
	o.Cosigned = []byte(other + "\n" + cosignature(t, text+"\n", SeedW1, 7)) // over the log's, in a note of another
	r, err := verifyBytes(t, w.pack, o)
	mustRefuse(t, r, err, errCheckpoint)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = evidence.Verify(ctx, bytes.NewReader(w.pack), int64(len(w.pack)), o)
	assert.ErrorIs(t, err, context.Canceled)
}

// TestOracleWitnesses: both implementations find the same level, and the same check.
func TestOracleWitnesses(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	o := newOracle(t, "levels of cosigned packs (TestWitnesses verifies them by itself)")
	w := newTampered(t)
	trust := o.file("trust.json", w.o.Trust.Canonical())
	args := func(quorum int, later []byte) []string {
		a := []string{"-trust", trust, "-origin", Origin, "-last", o.file("last", w.o.Last), "-quorum", fmt.Sprint(quorum)}
		for _, k := range WitnessKeys(t) {
			a = append(a, "-witness", k)
		}
		if later != nil {
			a = append(a, "-checkpoint", o.file("later", later))
		}
		return a
	}
	for name, c := range cosignings(t) {
		pack, later := c.made(TakeApart(t, w.pack))
		f := o.verify(pack, args(c.quorum, later)...)
		assert.Equal(t, c.oracle != "", f.Level != c.level.String(), "%s: the oracle says %s, %v; otherwise because %q", name,
			f.Level, f.Errors, c.oracle)
	}
	w.witness()
	compared := 0
	for _, x := range cosignRows {
		_, pack, with := w.falsify(t, x)
		if x.o != nil && with.Cosigned == nil { // a policy of witnesses, as its own tests have
			continue
		}
		f := o.verify(pack, args(2, with.Cosigned)...)
		ours := "-"
		if x.want != nil {
			ours = x.want.Error()
		}
		theirs := "-"
		if len(f.Errors) > 0 {
			theirs = f.Errors[0].Check
		}
		compared++
		otherwise := map[string]string{ // it knows neither bounds of times nor of lines
			"time 0": "-", "time 2^63": "-", "the last time that there is": "-", "101 lines": "-", "later, 101 lines": "-",
		}[x.name]
		if otherwise == "" {
			otherwise = ours
		}
		assert.Equal(t, otherwise, theirs, "%s %s", x.id, x.name)
		assert.True(t, ours != "-" || f.Level == x.then.Level.String(), "%s %s: %s", x.id, x.name, f.Level)
	}
	assert.Greater(t, compared, 30)
}
