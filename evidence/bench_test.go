//go:build unix

package evidence

import (
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

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/receipts"
)

// longLog is one of so many entries: calls with 900 bytes of arguments that ran, one call in eight denied.
func longLog(t testing.TB, n int) *maker {
	m := newMaker(t)
	m.use(`{"bundle":{"name":"code","version":1},"helm":"policy/v1","layer":"P1","rules":[` +
		`{"deny":"edit","id":"secrets","when":{"arg":"/path","within":["/srv/secret"]}},{"allow":"edit","id":"all","when":{"caller":"roles","has":"writer"}}],` +
		`"tools":{"edit":{"effect":"write","input":{"properties":{"path":{"type":"string"},"text":{"type":"string"}},"required":["path","text"],"type":"object"}}}}`)
	args := `{"path":"/srv/%s/%d","text":"` + strings.Repeat(`if err != nil {\n\treturn err\n}\n`, 24) + `"}`
	for i := 0; i < n; i += 2 {
		session := fmt.Sprint("chat-", i%64)
		if i%16 == 0 {
			m.denied(contracts.ReasonPolicyViolation, ask{session: session, tool: "edit", args: fmt.Sprintf(args, "secret", i), who: writer})
			i--
			continue
		}
		m.allowed(ask{session: session, tool: "edit", args: fmt.Sprintf(args, "work", i), who: writer}).
			end(receipts.Result{Reason: contracts.ReasonAllow, Output: fmt.Appendf(nil, `{"ok":%d}`, i), Form: "jcs"}, false)
	}
	m.checkpoint()
	return m
}

// A raw is what must be verified of an entry whatever else is done.
type raw struct{ message, sig []byte }

func raws(t testing.TB, pack []byte) (out []raw) {
	var r contracts.Reader
	for line := range bytes.Lines(untar(t, pack)[entriesMember].body) {
		s, ferr := r.Open(bytes.TrimSuffix(line, []byte("\n")))
		if ferr != nil {
			t.Fatal(ferr)
		}
		out = append(out, raw{crypto.AppendPAE(nil, contracts.PayloadType, s.Payload), bytes.Clone(s.Sig)})
	}
	return out
}

// BenchmarkVerify measures a whole verification with replay against the bare signatures of the same bytes, both in one loop.
func BenchmarkVerify(b *testing.B) { benchmarkVerify(b, longLog(b, 10_000)) }

func benchmarkVerify(b *testing.B, m *maker) {
	runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(runtime.NumCPU())
	pack := m.pack()
	bare := raws(b, pack)
	public := testPublic(b, seedK1)
	var ours []time.Duration
	var ratios []float64
	for b.Loop() {
		t0 := processor(b)
		r, err := Verify(b.Context(), bytes.NewReader(pack), int64(len(pack)), Options{Trust: m.trust})
		t1 := processor(b)
		if err != nil || !r.Success(Logged) || r.Replay.Replayed < 5_000 || r.Replay.NotReplayable != 0 {
			b.Fatal(r, err)
		}
		for _, x := range bare {
			if !crypto.Verify(public, x.message, x.sig) {
				b.Fatal("a signature does not verify")
			}
		}
		ours, ratios = append(ours, t1-t0), append(ratios, float64(t1-t0)/float64(processor(b)-t1))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x/verify") // the median
	b.ReportMetric(float64(slices.Min(ours).Microseconds())/float64(len(bare)), "µs/entry")
	b.ReportMetric(float64(len(pack))/float64(len(bare)), "pack-B/entry")
	all, _ := held(b, m, pack)
	b.ReportMetric(all/float64(len(bare)), "held-B/entry")
}

// processor is the time that this process has had: on a machine shared with others it says more than a clock.
func processor(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// held is how many bytes a verification holds at its end, and how many it thinks that it holds of sessions whose past was asked for.
func held(t testing.TB, m *maker, pack []byte) (all, told float64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools hold goes with the second one
	runtime.ReadMemStats(&before)
	v := newVerifier(t.Context(), Options{Trust: m.trust})
	if err := v.inPack(bytes.NewReader(pack), int64(len(pack))); err != nil {
		t.Fatal(err)
	}
	v.far, v.pack.wide, v.second, v.buf, v.text = nil, nil, nil, nil, nil // constant
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(v)
	runtime.KeepAlive(pack)
	runtime.KeepAlive(m)
	return float64(after.HeapAlloc) - float64(before.HeapAlloc), float64(v.stories.weight)
}

// pastLog is one of so many entries in which every second call is judged by the receipt of the one before.
func pastLog(t testing.TB, n int) *maker {
	m := newMaker(t)
	m.use(`{"bundle":{"name":"code","version":1},"helm":"policy/v1","layer":"P1","rules":[{"allow":["edit","view"],"id":"all","when":{"caller":"roles","has":"writer"}}],` +
		`"requires":[{"id":"seen","tools":"edit","all":[{"receipt":"view","same":["/path"]}]}],` +
		`"tools":{"edit":{"effect":"write","input":{"properties":{"path":{"type":"string"},"text":{"type":"string"}},"required":["path","text"],"type":"object"}},` +
		`"view":{"effect":"read","input":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"}}}}`)
	text := strings.Repeat(`if err != nil {\n\treturn err\n}\n`, 24)
	for i := 0; i < n; i += 4 {
		session := fmt.Sprint("chat-", i%64)
		path := fmt.Sprintf("/srv/work/%d", i)
		m.allowed(ask{session: session, tool: "view", args: fmt.Sprintf(`{"path":%q}`, path), who: writer}).
			end(receipts.Result{Reason: contracts.ReasonAllow, Output: []byte("null"), Form: "jcs"}, false)
		m.allowed(ask{session: session, tool: "edit", args: fmt.Sprintf(`{"path":%q,"text":"%s"}`, path, text), who: writer}).
			end(receipts.Result{Reason: contracts.ReasonAllow, Output: []byte("null"), Form: "jcs"}, false)
	}
	m.checkpoint()
	return m
}

// BenchmarkVerifyPast is BenchmarkVerify of a log in which the guardian asks for the past.
func BenchmarkVerifyPast(b *testing.B) { benchmarkVerify(b, pastLog(b, 10_000)) }

// BenchmarkWrite writes a pack of a store in memory, to nowhere and to a file that is synced, beside the bare write of the same bytes.
func BenchmarkWrite(b *testing.B) {
	m := longLog(b, 10_000)
	pack := m.pack()
	write := func(b *testing.B, to io.Writer) {
		if err := Write(b.Context(), to, m.store, testKey(b, seedK1)); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("memory", func(b *testing.B) {
		b.SetBytes(int64(len(pack)))
		from := processor(b)
		for b.Loop() {
			write(b, io.Discard)
		}
		b.ReportMetric(float64(len(pack))*float64(b.N)/1e6/(processor(b)-from).Seconds(), "MB/cpu-s")
	})
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
			ours := timed("pack", func(w io.Writer) { write(b, w) })
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

// TestMemory holds a verification to what the format promises: 64 bytes an entry, beside what the report lists, and what is told of sessions,
// of which there is a bound.
func TestMemory(t *testing.T) {
	race.Alone(t)
	for name, m := range map[string]*maker{"nothing is asked": longLog(t, 8_000), "the past is asked for": pastLog(t, 8_000)} {
		t.Run(name, func(t *testing.T) {
			pack := m.pack()
			n := float64(len(raws(t, pack)))
			r, err := verifyBytes(t, pack, Options{Trust: m.trust})
			if err != nil {
				t.Fatal(err)
			}
			listed := float64(len(r.Erased)*32 + len(r.Replay.Entries)*8)
			got, told := held(t, m, pack)
			got = (got - told - listed - 128<<10) / n
			t.Logf("%.1f bytes an entry, %.1f of what is listed, and %.1f of what is told of sessions", got, listed/n, told/n)
			if got > 64 || told > maxStories {
				t.Errorf("%.1f bytes an entry are held, and %.0f are told of sessions", got, told)
			}
		})
	}
}
