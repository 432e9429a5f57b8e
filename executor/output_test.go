package executor

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// JSON is released in its canonical form, other output as it is, and a limit holds for both.
func TestOutput(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, c := range map[string]struct {
		output, want, form string
		limit              int // 0: ample
	}{
		"object":                        {`{"b":1, "a":[true,null]}`, `{"a":[true,null],"b":1}`, "jcs", 0},
		"scalar":                        {`1.50`, `1.5`, "jcs", 0},
		"string":                        {`"\u0041\/"`, `"A/"`, "jcs", 0},
		"white space around":            {" \n{}\t", `{}`, "jcs", 0},
		"null":                          {`null`, `null`, "jcs", 0},
		"nothing":                       {``, `null`, "jcs", 0},
		"nothing, though 4 bytes are 2": {``, `null`, "jcs", 2},
		"white space alone":             {" \n", " \n", "raw", 0},
		"keys that fold alike":          {`{"a":1,"A":2}`, `{"A":2,"a":1}`, "jcs", 0},
		"duplicate keys":                {`{"a":1,"a":2}`, `{"a":1,"a":2}`, "raw", 0},
		"two values":                    {`{} {}`, `{} {}`, "raw", 0},
		"byte order mark":               {"\ufeff{}", "\ufeff{}", "raw", 0},
		"broken UTF-8":                  {"\"\xc0\xaf\"", "\"\xc0\xaf\"", "raw", 0},
		"lone surrogate":                {`"\ud800"`, `"\ud800"`, "raw", 0},
		"number that would change":      {`9007199254740993`, `9007199254740993`, "raw", 0},
		"NaN":                           {`NaN`, `NaN`, "raw", 0},
		"nested 128 deep":               {deep(128), deep(128), "jcs", 0},
		"nested 129 deep":               {deep(129), deep(129), "raw", 0},
		"exactly its limit":             {`[1,2,3]`, `[1,2,3]`, "jcs", 7},
		"over its limit":                {`[1,2,3]`, ``, "", 6},
		"over it by white space":        {`[1,2,3] `, ``, "", 7},
		"raw, exactly its limit":        {`hello`, `hello`, "raw", 5},
		"raw, over its limit":           {`hello`, ``, "", 4},
		"short, canonical form over":    {`1e20`, ``, "", 20},
		"short, canonical form within":  {`1e20`, `100000000000000000000`, "jcs", 21},
	} {
		l := ample
		if c.limit > 0 {
			l.Output = c.limit
		}
		o := try(t, context.Background(), returns(c.output, nil), l)
		want := contracts.ReasonAllow
		if c.form == "" {
			want = contracts.ReasonOutputExhausted
		}
		assert.True(t, o.Reason == want && string(o.Output) == c.want && o.Form == c.form &&
			(o.Output == nil) == (c.form == ""), "%s: %s %q %q, want %s %q %q", name, o.Reason, o.Output, o.Form, want,
			c.want, c.form)
		// With a schema pinned, whatever is not JSON breaks it: withheld, but hashed as it is.
		l.Check = func(crypto.Value) bool { return true }
		if o = try(t, context.Background(), returns(c.output, nil), l); c.form == "raw" {
			want = contracts.ReasonContractDrift
		}
		assert.True(t, o.Reason == want && string(o.Output) == c.want && o.Form == c.form,
			"%s, with a schema: %s %q %q, want %s %q %q", name, o.Reason, o.Output, o.Form, want, c.want, c.form)
	}
}

func TestSchemaSeesTheWholeOutput(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]crypto.Kind{``: crypto.Null, `[]`: crypto.Array, `"x"`: crypto.String,
		`{"a":{}}`: crypto.Object} {
		seen := crypto.Missing
		l := ample
		l.Check = func(v crypto.Value) bool { seen = v.Kind(); return true }
		o := try(t, context.Background(), returns(text, nil), l)
		assert.True(t, o.Reason == contracts.ReasonAllow && seen == want, "%q: the schema saw %s, want %s; %s", text,
			seen, want, o.Reason)
	}
	l := ample
	l.Check = func(crypto.Value) bool { t.Error("the schema was asked about a failure"); return true }
	try(t, context.Background(), returns("{}", errOwn), l)
	l.Output = 1
	try(t, context.Background(), returns("{}", nil), l)
}

// A check that panics has not accepted the output.
func TestSchemaThatPanics(t *testing.T) {
	t.Parallel()
	l := ample
	l.Check = func(crypto.Value) bool { panic("in the schema") }
	o := try(t, context.Background(), returns(`{"a":1}`, nil), l)
	assert.True(t, o.Reason == contracts.ReasonContractDrift && string(o.Output) == `{"a":1}` && o.Form == "jcs", "%+v",
		o)
	o = try(t, context.Background(), returns(`{"a":1}`, nil), ample)
	assert.Equal(t, contracts.ReasonAllow, o.Reason, "after it: %+v", o)
}

// Memory is reused from run to run; no output ever shows in another.
func TestConcurrentRunsKeepTheirOutputs(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for i := range 16 {
		all.Add(1)
		go func() {
			defer all.Done()
			text := `{"z":` + strings.Repeat(string(rune('1'+i%9)), i+1) + `,"a":"` + strings.Repeat("x", i*97) + `"}`
			want := `{"a":"` + strings.Repeat("x", i*97) + `","z":` + strings.Repeat(string(rune('1'+i%9)), i+1) + `}`
			if i >= 14 {
				text, want = strings.Repeat("y", 70<<10), strings.Repeat("y", 70<<10)
			}
			for range 20 {
				o := try(t, context.Background(), returns(text, nil), Limits{Timeout: time.Hour, Output: 1 << 20})
				assert.Equal(t, want, string(o.Output), "%d: %.80s", i, o.Output)
				runtime.Gosched()
			}
		}()
	}
	all.Wait()
}

// A permitted call without its log: Admit and Run, with 900 bytes of arguments.
func BenchmarkRun(b *testing.B) {
	s, call := permitted()
	call.Args = []byte(`{"code":"` + strings.Repeat("x", 890) + `"}`)
	s.decision.ArgsHash = crypto.Sum(call.Args)
	s.entry = make([]byte, 1668)
	canonical, other := json.RawMessage(`{"ok":true,"text":"`+strings.Repeat("x", 200)+`"}`),
		json.RawMessage(`{"text":"`+strings.Repeat("x", 200)+`","ok":true}`)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, c := range map[string]struct {
		ctx context.Context
		f   Func
	}{
		"no output": {context.Background(),
			func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, nil }},
		"output": {context.Background(),
			func(context.Context, json.RawMessage) (json.RawMessage, error) { return canonical, nil }},
		"unsorted output": {context.Background(),
			func(context.Context, json.RawMessage) (json.RawMessage, error) { return other, nil }},
		"cancelable caller": {ctx,
			func(context.Context, json.RawMessage) (json.RawMessage, error) { return canonical, nil }},
		"derived context": {ctx, func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			_, cancel := context.WithCancel(ctx)
			cancel()
			return canonical, nil
		}},
	} {
		once := func() {
			p, err := Admit(s, call)
			if err != nil {
				b.Fatal(err)
			}
			if o := Run(c.ctx, p, c.f, ample); o.Reason != contracts.ReasonAllow {
				b.Fatal(o.Err)
			}
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
			b.ReportMetric(testing.AllocsPerRun(100, once), "allocs/run")
		})
	}
}
