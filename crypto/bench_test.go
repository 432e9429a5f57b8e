package crypto

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gowebpki/jcs"
)

// toolArgs returns the arguments with which a model writes a file: about 900 bytes, most of them
// code in one string.
func toolArgs() []byte {
	code := "package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\n// main greets whoever is named.\nfunc main() " +
		"{\n\tif len(os.Args) < 2 {\n\t\tfmt.Fprintln(os.Stderr, \"usage: greet NAME\")\n\t\tos.Exit(2)\n\t}\n" +
		"\tfor i, name := range os.Args[1:] {\n\t\tif name == \"\" {\n\t\t\tcontinue\n\t\t}\n\t\tfmt.Printf(\"%d: " +
		"hello, %s\\n\", i, name)\n\t}\n}\n\n" +
		"// sum adds what it is given, and is here so that the file has a certain length.\nfunc sum(xs ...int) " +
		"(total int) {\n\tfor _, x := range xs {\n\t\ttotal += x\n\t}\n\treturn total\n}\n\nfunc mean(xs ...int) int " +
		"{\n\tif len(xs) == 0 {\n\t\treturn 0\n\t}\n\treturn sum(xs...) / len(xs)\n}\n\n// largest is what no other " +
		"exceeds.\nfunc largest(xs ...int) (most int) {\n\tfor _, x := range xs {\n\t\tmost = max(most, " +
		"x)\n\t}\n\treturn most\n}\n"
	text, err := json.Marshal(code)
	if err != nil {
		panic(err)
	}
	text = bytes.ReplaceAll(text, []byte(`\u003c`), []byte("<"))
	return fmt.Appendf(nil,
		`{"path": "cmd/greet/main.go", "content": %s, "mode": 420, "create": true, "timeout": 2.5, "tags": ["go", `+
			`"example"]}`, text)
}

// records returns nested objects whose keys are not in order.
func records(size int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"name", "id", "email", "address", "city", "street", "zip", "tags", "score", "active", "parent",
		"items", "count", "note"}
	var b strings.Builder
	var record func(depth int)
	record = func(depth int) {
		b.WriteByte('{')
		for i, at := range r.Perm(len(names))[:6] {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(strconv.Quote(names[at]) + ": ")
			switch k := r.IntN(6); {
			case k == 0 && depth < 4:
				record(depth + 1)
			case k == 1 && depth < 4:
				b.WriteByte('[')
				for j := range 3 {
					if j > 0 {
						b.WriteString(", ")
					}
					b.WriteString(strconv.Itoa(r.IntN(10000)))
				}
				b.WriteByte(']')
			case k == 2:
				b.WriteString([]string{"true", "false", "null"}[r.IntN(3)])
			case k == 3:
				b.WriteString(strconv.FormatFloat(float64(r.IntN(100000))/100, 'f', -1, 64))
			default:
				b.WriteString(`"` + strings.Repeat("some text ", r.IntN(3)) + `"`)
			}
		}
		b.WriteByte('}')
	}
	b.WriteString(`{"records": [`)
	for b.Len() < size-100 {
		if b.Len() > 20 {
			b.WriteString(", ")
		}
		record(2)
	}
	b.WriteString("]}")
	return []byte(b.String())
}

func allEscapes() []byte {
	var b strings.Builder
	b.WriteString(`{"s":"`)
	for i := range 170 {
		fmt.Fprintf(&b, `\u%04x`, 0x20+i*37)
	}
	b.WriteString(`"}`)
	return []byte(b.String())
}

func allDoubles() []byte {
	r := rand.New(rand.NewPCG(3, 4))
	b := []byte(`{"n":[`)
	for len(b) < 1000 {
		f := r.Float64()
		if text := strconv.FormatFloat(f, 'f', -1, 64); len(text) == 18 { // 0. and 16 digits
			b = append(append(b, text...), ',')
		}
	}
	return append(b[:len(b)-1], "]}"...)
}

// BenchmarkCanonical reads and writes each text as arguments. jcs does the same bytes in the same
// loop, and the results are compared in it. Medians. Goals: at most 3 ns/byte for arguments and
// records, no allocation, 0.2 of jcs.
func BenchmarkCanonical(b *testing.B) {
	for _, text := range []struct {
		name string
		src  []byte
	}{
		{"args", toolArgs()},
		{"records-1K", records(1 << 10)},
		{"records-64K", records(64 << 10)},
		{"escapes", allEscapes()},
		{"doubles", allDoubles()},
	} {
		b.Run(fmt.Sprintf("%s/%dB", text.name, len(text.src)), func(b *testing.B) {
			want, err := jcs.Transform(text.src)
			if err != nil {
				b.Fatal(err)
			}
			var tree Tree
			var dst []byte
			var ours, theirs []time.Duration
			// ours for each of theirs, so that reading the clock and the garbage of jcs count
			// little
			rounds := max(16, 16<<10/len(text.src))
			for b.Loop() {
				t0 := time.Now()
				for range rounds {
					if dst, err = tree.ParseArgs(dst[:0], text.src); err != nil {
						b.Fatal(err)
					}
				}
				t1 := time.Now()
				got, err := jcs.Transform(text.src)
				ours, theirs = append(ours, t1.Sub(t0)/time.Duration(rounds)), append(theirs, time.Since(t1))
				if err != nil || !bytes.Equal(dst, want) || !bytes.Equal(got, want) {
					b.Fatalf("%s, want %s, %v", dst, want, err)
				}
			}
			slices.Sort(ours)
			slices.Sort(theirs)
			median := float64(ours[len(ours)/2])
			allocs := testing.AllocsPerRun(100, func() { dst, _ = tree.ParseArgs(dst[:0], text.src) })
			b.ReportMetric(median/float64(len(text.src)), "ns/byte")
			b.ReportMetric(median/float64(theirs[len(theirs)/2]), "x/jcs")
			b.ReportMetric(allocs, "allocs")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkWrite is the writer alone.
func BenchmarkWrite(b *testing.B) {
	for _, text := range []struct {
		name string
		src  []byte
	}{{"args", toolArgs()}, {"records-64K", records(64 << 10)}} {
		b.Run(text.name, func(b *testing.B) {
			var tree Tree
			want, err := tree.ParseArgs(nil, text.src)
			if err != nil {
				b.Fatal(err)
			}
			dst := make([]byte, 0, len(want))
			b.SetBytes(int64(len(text.src)))
			for b.Loop() {
				if dst = tree.Root().Append(dst[:0]); len(dst) != len(want) {
					b.Fatal("other bytes")
				}
			}
		})
	}
}
