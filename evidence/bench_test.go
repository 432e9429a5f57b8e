//go:build unix

package evidence

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/helmkernel/helm/receipts"
	"github.com/helmkernel/helm/trust/registry"
)

// A raw is what must be verified of an entry whatever else is done.
type raw struct{ message, sig []byte }

func raws(t testing.TB, pack []byte) (out []raw) {
	var r contracts.Reader
	for line := range bytes.Lines(forge.Untar(t, pack)[forge.EntriesAt].Body) {
		s, err := r.Open(bytes.TrimSuffix(line, []byte("\n")))
		require.NoError(t, err)
		out = append(out, raw{crypto.AppendPAE(nil, contracts.PayloadType, s.Payload), bytes.Clone(s.Sig)})
	}
	return out
}

// BenchmarkVerify measures a whole verification with replay against the bare signatures of the same
// bytes, which are verified in between.
func BenchmarkVerify(b *testing.B) { benchmarkVerify(b, forge.LongLog(b, 10_000)) }

func benchmarkVerify(b *testing.B, m *forge.Maker) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	pack := m.Pack(Write)
	x := bench{TB: b, bare: raws(b, pack), public: forge.Public(b, forge.SeedK1)}
	n := float64(len(x.bare))
	var ours, ratios []float64
	for b.Loop() {
		each, ratio := x.verify(len(x.bare), len(x.bare), func(progress func(done, total uint64)) error {
			r, err := Verify(b.Context(), bytes.NewReader(pack), int64(len(pack)),
				Options{Trust: m.Trust, Progress: progress})
			if !r.Success(Logged) || r.Replay.Replayed < 5_000 || r.Replay.NotReplayable != 0 {
				b.Fatal(r, err)
			}
			return err
		})
		ours, ratios = append(ours, each), append(ratios, ratio)
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x/verify") // the median
	b.ReportMetric(slices.Min(ours)*1e6, "µs/entry")
	b.ReportMetric(float64(len(pack))/n, "pack-B/entry")
	all, _ := held(b, m, pack)
	b.ReportMetric(all/n, "held-B/entry")
}

// A bench has what is compared with.
type bench struct {
	testing.TB
	bare   []raw
	public crypto.PublicKey
}

// verify runs a verification of so many entries, and whenever it tells of its progress bare
// signatures, so many in all: other load on the processor then slows both. It returns
// the seconds for an entry, and what they are of those for a signature.
func (x *bench) verify(entries, signatures int,
	run func(progress func(done, total uint64)) error) (seconds, ratio float64) {
	n, bare, all := 0, time.Duration(0), processor(x)
	err := run(func(done, total uint64) {
		from := processor(x)
		for ; float64(n) < float64(done)/float64(total)*float64(signatures); n++ {
			r := x.bare[n%len(x.bare)]
			require.True(x, crypto.Verify(x.public, r.message, r.sig), "a signature does not verify")
		}
		bare += processor(x) - from
	})
	require.True(x, err == nil && n == signatures, "%v %v", n, err)
	seconds = (processor(x) - all - bare).Seconds() / float64(entries)
	return seconds, seconds / (bare.Seconds() / float64(n))
}

// processor is the time that this process has had: on a machine shared with others it says more
// than a clock.
func processor(t testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// held is how many bytes a verification holds at its end, and how many it thinks that it holds of
// sessions whose past was asked for.
func held(t testing.TB, m *forge.Maker, pack []byte) (all, told float64) {
	v, all := holding(t, func(v *verifier) error { return v.inPack(bytes.NewReader(pack), int64(len(pack))) },
		Options{Trust: m.Trust})
	runtime.KeepAlive(pack)
	runtime.KeepAlive(m)
	return all, float64(v.replay.sessions.weight)
}

// holding is how many bytes a verification holds at its end, but for what is constant.
func holding(t testing.TB, verify func(*verifier) error, o Options) (*verifier, float64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools hold goes with the second one
	runtime.ReadMemStats(&before)
	v := newVerifier(t.Context(), o)
	require.NoError(t, verify(v))
	v.blobs.far, v.pack.wide, v.reread.second, v.fold.buf, v.replay.text = nil, nil, nil, nil, nil
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(v)
	return v, float64(after.HeapAlloc) - float64(before.HeapAlloc)
}

// pastLog is one of so many entries in which every second call is judged by the receipt of the one
// before.
func pastLog(t testing.TB, n int) *forge.Maker {
	m := forge.NewMaker(t)
	m.Use(`{"bundle":{"name":"code","version":1},"helm":"policy/v1","layer":"P1","rules":[{"allow":["edit",` +
		`"view"],"id":"all","when":{"caller":"roles","has":"writer"}}],` +
		`"requires":[{"id":"seen","tools":"edit","all":[{"receipt":"view","same":["/path"]}]}],` +
		`"tools":{"edit":{"effect":"write","input":{"properties":{"path":{"type":"string"},` +
		`"text":{"type":"string"}},"required":["path","text"],"type":"object"}},` +
		`"view":{"effect":"read","input":{"properties":{"path":{"type":"string"}},"required":["path"],` +
		`"type":"object"}}}}`)
	text := strings.Repeat(`if err != nil {\n\treturn err\n}\n`, 24)
	for i := 0; i < n; i += 4 {
		session := fmt.Sprint("chat-", i%64)
		path := fmt.Sprintf("/srv/work/%d", i)
		m.Allowed(forge.Ask{Session: session, Tool: "view", Args: fmt.Sprintf(`{"path":%q}`, path), Who: forge.Writer}).
			End(receipts.Result{Reason: contracts.ReasonAllow, Output: []byte("null"), Form: "jcs"}, false)
		m.Allowed(forge.Ask{Session: session, Tool: "edit", Args: fmt.Sprintf(`{"path":%q,"text":"%s"}`, path, text),
			Who: forge.Writer}).
			End(receipts.Result{Reason: contracts.ReasonAllow, Output: []byte("null"), Form: "jcs"}, false)
	}
	m.Checkpoint()
	return m
}

// BenchmarkVerifyPast is BenchmarkVerify of a log in which the guardian asks for the past.
func BenchmarkVerifyPast(b *testing.B) { benchmarkVerify(b, pastLog(b, 10_000)) }

// BenchmarkWrite writes a pack of a store in memory, to nowhere and to a file that is synced,
// compared with a bare write of the same bytes.
func BenchmarkWrite(b *testing.B) {
	m := forge.LongLog(b, 10_000)
	pack := m.Pack(Write)
	write := func(b *testing.B, to io.Writer, store proofgraph.Store) {
		if err := Write(b.Context(), to, store, forge.Key(b, forge.SeedK1)); err != nil {
			b.Fatal(err)
		}
	}
	files, err := filestore.Open(filepath.Join(b.TempDir(), "log"), filestore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer files.Close()
	for name, store := range map[string]proofgraph.Store{"memory": m.Store,
		"files": forge.Shelve(b, pack).Fill(b, files)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(pack)))
			from := processor(b)
			for b.Loop() {
				write(b, io.Discard, store)
			}
			b.ReportMetric(float64(len(pack))*float64(b.N)/1e6/(processor(b)-from).Seconds(), "MB/cpu-s")
		})
	}
	b.Run("file", func(b *testing.B) {
		b.SetBytes(int64(len(pack)))
		dir := b.TempDir()
		timed := func(name string, fill func(io.Writer)) time.Duration {
			from := time.Now()
			f, err := os.Create(filepath.Join(dir, name))
			if err != nil {
				b.Fatal(err)
			}
			fill(f)
			if err := errors.Join(f.Sync(), f.Close()); err != nil {
				b.Fatal(err)
			}
			return time.Since(from)
		}
		var ratios []float64
		for b.Loop() {
			ours := timed("pack", func(w io.Writer) { write(b, w, m.Store) })
			bare := timed("bare", func(w io.Writer) {
				if _, err := w.Write(pack); err != nil {
					b.Fatal(err)
				}
			})
			ratios = append(ratios, float64(ours)/float64(bare))
		}
		slices.Sort(ratios)
		b.ReportMetric(ratios[len(ratios)/2], "x/write+sync")
	})
}

// TestMemory holds a verification to what the format promises: 64 bytes an entry, not counting what
// the report lists, and what is told of sessions, of which there is a bound.
func TestMemory(t *testing.T) {
	race.Alone(t)
	entries := 8_000 / forge.Sample(3)
	for name, m := range map[string]*forge.Maker{"nothing is asked": forge.LongLog(t, entries),
		"the past is asked for": pastLog(t, entries)} {
		t.Run(name, func(t *testing.T) {
			pack := m.Pack(Write)
			n := float64(len(raws(t, pack)))
			r, err := verifyBytes(t, pack, Options{Trust: m.Trust})
			require.NoError(t, err)
			listed := float64(len(r.Erased)*32 + len(r.Replay.Entries)*8)
			got, told := held(t, m, pack)
			got = (got - told - listed - 128<<10) / n
			t.Logf("%.1f bytes an entry, %.1f of what is listed, and %.1f of what is told of sessions", got, listed/n,
				told/n)
			assert.True(t, !(got > 64) && !(told > maxSessions),
				"%.1f bytes an entry are held, and %.0f are told of sessions", got, told)
		})
	}
}

// BenchmarkVerifyCores is how much sooner a verification ends with a second processor, by the
// clock, so others' work shows in it; what the second one costs, by the processors' time; and by
// that time the share of the work that is not done ahead.
func BenchmarkVerifyCores(b *testing.B) {
	if runtime.NumCPU() < 2 {
		b.Skip("one processor")
	}
	m := forge.LongLog(b, 10_000)
	pack := m.Pack(Write)
	body := forge.Untar(b, pack)[forge.EntriesAt].Body
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	verify := func(processors int) (wall, cpu float64) {
		runtime.GOMAXPROCS(processors)
		t0, c0 := time.Now(), processor(b)
		if r, err := verifyBytes(b, pack, Options{Trust: m.Trust}); err != nil || !r.Success(Logged) {
			b.Fatal(r, err)
		}
		return time.Since(t0).Seconds(), (processor(b) - c0).Seconds()
	}
	metrics := map[string][]float64{}
	for b.Loop() {
		one, alone := verify(1)
		two, both := verify(2)
		runtime.GOMAXPROCS(1)
		var x opener
		from, index := processor(b), uint64(0)
		for line := range bytes.Lines(body) {
			if x.open(line[:len(line)-1], m.Trust, index).statement == nil {
				b.Fatal("an entry is not opened")
			}
			index++
		}
		ahead := (processor(b) - from).Seconds()
		for name, x := range map[string]float64{"x/sooner": one / two, "x/cpu": both / alone,
			"fold-share": 1 - ahead/alone} {
			metrics[name] = append(metrics[name], x)
		}
	}
	for name, list := range metrics {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], name)
	}
}

// BenchmarkVerifyMillion verifies a file of 10^6 entries, once, with -full. Between its entries
// bare signatures are verified, one in ten.
func BenchmarkVerifyMillion(b *testing.B) {
	if !*forge.Full {
		b.Skip("a file of 2.6 GB: with -full")
	}
	x := bench{TB: b, bare: raws(b, forge.LongLog(b, 6_000).Pack(Write)), public: forge.Public(b, forge.SeedK1)}
	f, size, trust, n := million(b)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for b.Loop() {
		runtime.GOMAXPROCS(1)
		v, held := holding(b, func(v *verifier) error {
			each, ratio := x.verify(n, n/10, func(progress func(done, total uint64)) error {
				v.o.Progress = progress
				return v.inPack(f, size)
			})
			b.ReportMetric(ratio, "x/verify")
			b.ReportMetric(each*1e6, "µs/entry")
			return nil
		}, Options{Trust: trust})
		if v.report.Replay.Replayed < 400_000 || v.report.Replay.NotReplayable > 0 {
			b.Fatal(v.report.Replay)
		}
		held = (held - float64(32*len(v.report.Erased))) / float64(n) // without what the report lists
		if b.ReportMetric(held, "held-B/entry"); held > 64 {
			b.Error("more is held than the formats allow")
		}
		for _, processors := range []int{1, 2} {
			runtime.GOMAXPROCS(processors)
			from := time.Now()
			if _, err := Verify(b.Context(), f, size, Options{Trust: trust}); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(time.Since(from).Seconds(), fmt.Sprintf("s-on-%d", processors))
		}
	}
}

// million is the pack of a log of 10^6 entries, in a file; nothing else is kept of the log.
func million(b *testing.B) (f *os.File, size int64, trust *registry.State, entries int) {
	f, err := os.Create(filepath.Join(b.TempDir(), "million.pack"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	m := forge.LongLog(b, 1_000_000)
	w := bufio.NewWriterSize(f, 1<<20)
	n, err := m.Store.Size(b.Context())
	if err := errors.Join(err, Write(b.Context(), w, m.Store, forge.Key(b, forge.SeedK1)), w.Flush()); err != nil ||
		n < 1e6 {
		b.Fatal(n, err)
	}
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	return f, info.Size(), m.Trust, int(n)
}

// yearLog is a log of so many calls in sessions that are closed, one in 32 of which was denied, and
// a condense entry over it two days later.
func yearLog(t testing.TB, calls int) *letGoer {
	m := forge.NewMaker(t)
	m.Use(floor, `{"bundle":{"name":"code","version":1},"helm":"policy/v1","layer":"P1","rules":[`+
		`{"deny":"edit","id":"secrets","when":{"arg":"/path","within":["/srv/secret"]}},{"allow":"edit","id":"all"}],`+
		`"tools":{"edit":{"effect":"write","input":{"properties":{"path":{"type":"string"},`+
		`"text":{"type":"string"}},"required":["path","text"],"type":"object"}}}}`)
	const sessions = 64
	args := `{"path":"/srv/%s/%d","text":"` + strings.Repeat(`if err != nil {\n\treturn err\n}\n`, 24) + `"}`
	for i := range calls {
		ask := forge.Ask{Session: fmt.Sprint("chat-", i%sessions), Tool: "edit", Who: forge.Writer}
		if i%32 == 31 {
			ask.Args = fmt.Sprintf(args, "secret", i)
			m.Denied(contracts.ReasonPolicyViolation, ask)
			continue
		}
		ask.Args = fmt.Sprintf(args, "work", i)
		m.Allowed(ask).End(receipts.Result{Reason: contracts.ReasonAllow, Output: fmt.Appendf(nil, `{"ok":%d}`, i),
			Form: "jcs"}, false)
	}
	for i := range sessions {
		m.Close(fmt.Sprint("chat-", i))
	}
	m.Now += 2 * day
	x := newLetGoer(t, m)
	x.letGo(2, x.read())
	m.Checkpoint()
	return x
}

// BenchmarkVerifyCondensed measures the verification of a pack of which nearly all stands as stubs
// against that of the same log whole, on one processor, in turn.
func BenchmarkVerifyCondensed(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	x := yearLog(b, 10_000)
	whole, condensed := packOf(b, x.store(nothing)), packOf(b, x.store(everything))
	o := Options{Trust: x.m.Trust}
	verify := func(pack []byte) time.Duration {
		from := processor(b)
		r, err := Verify(b.Context(), bytes.NewReader(pack), int64(len(pack)), o)
		if err != nil || !r.Success(Logged) {
			b.Fatal(r, err)
		}
		return processor(b) - from
	}
	n := float64(len(x.lines))
	var of, less, ratios []float64
	for b.Loop() {
		w, c := verify(whole).Seconds(), verify(condensed).Seconds()
		of, less, ratios = append(of, w), append(less, c), append(ratios, c/w)
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x/whole") // the median
	b.ReportMetric(slices.Min(of)/n*1e6, "whole-µs/entry")
	b.ReportMetric(slices.Min(less)/n*1e6, "µs/entry")
	b.ReportMetric(float64(len(x.stubs))/n, "stubs/entry")
	b.ReportMetric(float64(len(condensed))/float64(len(whole)), "B/whole-B")
	all, _ := held(b, x.m, condensed)
	b.ReportMetric(all/n, "held-B/entry")
}

// TestStubsMemory: of a log with condense entries and stubs at most 96 bytes an entry are held.
func TestStubsMemory(t *testing.T) {
	race.Alone(t)
	x := yearLog(t, 4_000)
	for name, goes := range map[string]func(uint64) bool{"stubs": everything, "whole": nothing,
		"half": func(i uint64) bool { return i%2 == 0 }} {
		pack := packOf(t, x.store(goes))
		all, _ := held(t, x.m, pack)
		each := (all - 128<<10) / float64(len(x.lines))
		assert.LessOrEqual(t, each, 96.0, "%s: bytes for each of %d entries", name, len(x.lines))
		t.Logf("%s: %.1f bytes an entry", name, each)
	}
	runtime.KeepAlive(x)
}
