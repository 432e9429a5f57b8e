package source

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
)

// thousands returns facts of so many values of 35 bytes, and those.
func thousands(t testing.TB, n int) (*Facts, []string) {
	t.Helper()
	f := NewFacts([]Fact{{Key: "/*/to", Vouches: true}})
	var values []string
	for i := range n {
		values = append(values, fmt.Sprintf("payee-%05d-of-the-ledger-of-acme-c", i))
	}
	for i := 0; i < n; i += 1000 {
		f.Add(document(t, `{"/*/to":["`+strings.Join(values[i:min(n, i+1000)], `","`)+`"]}`))
	}
	require.Len(t, values[0], 35)
	require.False(t, f.Full())
	return f, values
}

func BenchmarkPlain(b *testing.B) {
	f, values := thousands(b, MaxPlain)
	for _, want := range []bool{true, false} {
		var asked []crypto.Value
		for _, s := range values {
			if !want {
				s = s[:34] + "x"
			}
			asked = append(asked, str(b, s))
		}
		b.Run(map[bool]string{true: "hit", false: "miss"}[want], func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				values, _, _ := f.Of("/*/to")
				if values.Has(asked[i]) != want {
					b.Fatal("the other answer")
				}
				i = (i + 1) % len(asked)
			}
		})
	}
}

// BenchmarkMemory prints what 10,000 facts of 35 bytes take.
func BenchmarkMemory(b *testing.B) {
	var all []*Facts
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		f, _ := thousands(b, MaxPlain)
		all = append(all, f)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(all)), "held-B")
	runtime.KeepAlive(all)
}

// prose returns that many bytes of words and numbers, as people write them.
func prose(n int) string {
	r := rand.New(rand.NewPCG(8, 9))
	words := strings.Fields("the order for alice was paid on time, but not that of bob@corp.com: please refund 42.50 to " +
		"GB29NWBK60161331926818 and tell them (kindly) at https://corp.com/help/7 that we are sorry. Thanks!")
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[r.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.String()[:n]
}

// worst returns texts that make a search for values long: nearly everywhere the value, or nearly
// the value.
func worst(n int) map[string][2]string {
	x := func(s string) string { return strings.Repeat(s, n/len(s)) }
	long := strings.Repeat("a", 255)
	return map[string][2]string{
		"everywhere":    {"aaaa", x("a")},
		"everywhere256": {long + "a", x("a")},
		"nearly256":     {long + "b", x("a")},
		"nearly64":      {long[:63] + "b", x("a")},
		"periods":       {strings.Repeat("aaaaaaab", 32), x("aaaaaaab")},
		"periods64":     {strings.Repeat(long[:63]+"b", 4), x(long[:63] + "b")},
		"sides":         {"éééé", x("é")},
		"joined":        {"a.a.a", x("a.")},
		"words":         {"支付给1", x("支付给1x")},
		"sparse":        {long[:200] + "b", x(long[:200] + "bx" + strings.Repeat("a", 60))},
		"near":          {long[:64] + "b" + long[:64], x(long[:64] + "b" + long[:63] + "c")},
	}
}

// BenchmarkTexts looks for what is not there, and for what is at the end.
func BenchmarkTexts(b *testing.B) {
	run := func(name, value, text string) {
		b.Run(name, func(b *testing.B) {
			var missing, there Words
			missing.Add([]byte(text))
			there.Add([]byte(text[:len(text)-len(value)-3] + "( " + value))
			v := str(b, value)
			b.ReportAllocs()
			for b.Loop() {
				if missing.Has(v) || !there.Has(v) {
					b.Fatal("the other answer")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(2*len(text)), "ns/byte")
		})
	}
	run("prose4KiB", "GB29NWBK60161331926819", prose(4<<10))
	run("prose256KiB", "GB29NWBK60161331926819", prose(MaxTexts))
	run("common256KiB", "Thanks?", prose(MaxTexts))
	for name, c := range worst(MaxTexts) {
		run("worst/"+name, c[0], c[1])
	}
}
