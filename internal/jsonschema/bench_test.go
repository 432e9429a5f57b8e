package jsonschema

import (
	"bytes"
	"crypto/ed25519"
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
)

// The schema and the arguments of the goals: seven properties, one pattern, 900 bytes.
//
//go:embed testdata/hot.json
var hotSchema string

var hotArgs = `{"path":"/srv/work/project/internal/server/handler.go","mode":"replace","line":120,"tags":["go","http"],"dry":false,"limit":null,"content":"` +
	strings.Repeat(`func add(a, b int) int {\n\treturn a + b\n}\n`, 18)[:700] + `\n"}`

// BenchmarkValidate times us, santhosh-tekuri/jsonschema and one Ed25519 signature of 256 bytes in
// one loop. Each reads values that are parsed already; the verdict is checked each time.
func BenchmarkValidate(b *testing.B) {
	// as byte tables, and by package regexp
	for _, pattern := range []string{"^/[a-z0-9/._-]{1,200}$", "^/(?:[a-z0-9/._-]{1,200})$|^$"} {
		b.Run(pattern, func(b *testing.B) {
			benchmarkValidate(b, strings.Replace(hotSchema, "^/[a-z0-9/._-]{1,200}$", pattern, 1))
		})
	}
}

func benchmarkValidate(b *testing.B, schema string) {
	s, v := compile(b, schema, true), parse(b, hotArgs)
	text, err := santhosh.UnmarshalJSON(strings.NewReader(strings.Replace(schema, `{`, `{"additionalProperties":false,`,
		1)))
	if err != nil {
		b.Fatal(err)
	}
	c := santhosh.NewCompiler()
	if err := c.AddResource("mem:///s", text); err != nil {
		b.Fatal(err)
	}
	theirs := c.MustCompile("mem:///s")
	instance, err := santhosh.UnmarshalJSON(bytes.NewReader([]byte(hotArgs)))
	if err != nil {
		b.Fatal(err)
	}
	key, message := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), make([]byte, 256)
	b.ReportMetric(float64(len(hotArgs)), "bytes")
	b.ReportAllocs()
	var ours, other, sign time.Duration
	const each = 16 // so that the clock costs little
	for b.Loop() {
		t0 := time.Now()
		for range each {
			if s.Validate(v) != nil {
				b.Fatal("not valid")
			}
		}
		t1 := time.Now()
		if err := theirs.Validate(instance); err != nil {
			b.Fatal(err)
		}
		t2 := time.Now()
		ed25519.Sign(key, message)
		ours, other, sign = ours+t1.Sub(t0)/each, other+t2.Sub(t1), sign+time.Since(t2)
	}
	n := float64(b.N)
	b.ReportMetric(float64(ours)/n, "ns/validate")
	b.ReportMetric(float64(ours)/float64(sign), "x/sign")
	b.ReportMetric(float64(other)/float64(sign), "x/sign-santhosh")
}

// BenchmarkViolation times a refusal, in which the message is made.
func BenchmarkViolation(b *testing.B) {
	s := compile(b, hotSchema, true)
	for _, c := range []struct{ name, value string }{
		{"undeclared", strings.Replace(hotArgs, `"dry"`, `"try"`, 1)},
		{"pattern", strings.Replace(hotArgs, `/srv`, `\\srv`, 1)},
	} {
		v := parse(b, c.value)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if s.Validate(v) == nil {
					b.Fatal("valid")
				}
			}
		})
	}
}

// BenchmarkAppendDefaults times filling in two defaults, and finding that none is missing.
func BenchmarkAppendDefaults(b *testing.B) {
	schema := strings.Replace(strings.Replace(hotSchema, `"type":"boolean"`, `"type":"boolean","default":false`, 1),
		`"minimum":0`, `"minimum":0,"default":0`, 1)
	s := compile(b, schema, true)
	for _, value := range []string{hotArgs, `{"path":"/a","mode":"append","content":"` + strings.Repeat("x",
		800) + `"}`} {
		v := parse(b, value)
		_, want := s.AppendDefaults(nil, v)
		b.Run(fmt.Sprint("missing=", want), func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]byte, 0, 2048)
			for b.Loop() {
				if _, got := s.AppendDefaults(dst[:0], v); got != want {
					b.Fatal(got)
				}
			}
		})
	}
}
