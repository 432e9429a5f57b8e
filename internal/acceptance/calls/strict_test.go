package calls

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
)

// Arguments that are not strict JSON are denied with their reason and a DENIED receipt, and nothing
// runs.
func TestStrictArguments(t *testing.T) {
	t.Parallel()
	keys := func(n int, last string) string {
		var b strings.Builder
		b.WriteByte('{')
		for i := range n {
			fmt.Fprintf(&b, `"%05d":1,`, i)
		}
		b.WriteString(last + ":1}")
		return b.String()
	}
	cases := map[string]string{
		"nothing":                        "",
		"white space":                    "  ",
		"not an object":                  `["text"]`,
		"null":                           `null`,
		"two values":                     `{}{}`,
		"trailing comma":                 `{"text":"x",}`,
		"BOM":                            "\ufeff{}",
		"invalid UTF-8":                  "{\"text\":\"\xc0\xaf\"}",
		"control character":              "{\"text\":\"\x00\"}",
		"lone surrogate":                 `{"text":"\ud800"}`,
		"duplicate key":                  `{"text":"x","text":"secret"}`,
		"duplicate key, escaped":         `{"text":"x","te\u0078t":"secret"}`,
		"keys that differ by case":       `{"text":"x","Text":"secret"}`,
		"keys equal by the Kelvin sign":  `{"k":1,"\u212a":2}`,
		"keys equal by the long s":       `{"s":1,"\u017f":2}`,
		"big integer":                    `{"n":9007199254740993}`,
		"too many digits":                `{"n":0.10000000000000001}`,
		"number out of range":            `{"n":1e400}`,
		"number that underflows":         `{"n":1e-400}`,
		"leading zero":                   `{"n":01}`,
		"NaN":                            `{"n":NaN}`,
		"comment":                        `{/**/}`,
		"single quotes":                  `{'text':1}`,
		"1 MiB and one byte":             `{"text":"` + strings.Repeat("x", 1<<20-10) + `"}`,
		"depth 65":                       `{"text":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`,
		"a million brackets":             strings.Repeat("[", 1_000_000),
		"a million braces":               strings.Repeat(`{"a":`, 200_000),
		"a number of a million digits":   `{"n":` + strings.Repeat("1", 1_000_000) + `}`,
		"100,000 keys, the last twice":   keys(99_999, `"99998"`),
		"100,000 keys, in another order": keys(99_999, `"00000"`),
	}
	w := kerneltest.New(t)
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			w.T = t
			d, r := w.MustCall(kerneltest.Denied(contracts.ReasonArgsCanonicalization), "echo", args)
			got := r.Record.Decision
			assert.Equal(t, "raw", got.ArgsForm)
			assert.Zero(t, got.Condition)
			assert.True(t, strings.HasPrefix(d.Why, "args: "), "why: %q", d.Why)
		})
	}
	w.T = t
	w.MustVerify()
}

// Strict JSON in another spelling is judged, hashed and run in its canonical form.
func TestDriverGetsWhatWasJudged(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	var got contracts.Call
	w.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
		got = c
		got.Args = append([]byte(nil), c.Args...)
		for i := range c.Args { // a driver that writes to its arguments changes nothing that is recorded
			c.Args[i] = 'x'
		}
		return executor.Result{}, nil
	}
	for args, canonical := range map[string]string{
		` { "text" : "\u0061\/b" } `:                       `{"n":1,"text":"a/b"}`,
		`{"text":"é","n":1.0}`:                             `{"n":1,"text":"é"}`,
		`{"n":-0}`:                                         `{"n":0}`,
		`{"n":1e21}`:                                       `{"n":1e+21}`,
		`{"n":5e-324,"text":"\u2028\u007f😀"}`:              "{\"n\":5e-324,\"text\":\"\u2028\u007f😀\"}",
		`{"n":1.7976931348623157e308}`:                     `{"n":1.7976931348623157e+308}`,
		`{"n":9007199254740991}`:                           `{"n":9007199254740991}`,
		`{"text":"` + strings.Repeat("x", 1<<20-17) + `"}`: `{"n":1,"text":"` + strings.Repeat("x", 1<<20-17) + `"}`,
	} {
		d, _ := w.MustCall(kerneltest.Executed("null"), "echo", args)
		assert.Equal(t, canonical, string(got.Args), "%.60s: the driver got %.60s", args, got.Args)
		p := got.Permit
		assert.Equal(t, d.Record.ID, p.DecisionID)
		assert.Equal(t, d.Record.Expires, p.Expires)
		assert.NotEmpty(t, p.Decision)
		assert.Equal(t, "echo", got.Tool)
		assert.Equal(t, "s", got.Session)
	}
	// With its default the same object is over the limit.
	w.MustCall(kerneltest.Denied(contracts.ReasonArgsCanonicalization), "echo",
		`{"text":"`+strings.Repeat("x", 1<<20-11)+`"}`)
	w.MustVerify()
}

// Calls outside the limits of their fields are denied at condition 0, and recorded.
func TestMalformedIntents(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 129)
	roles := make([]string, 33)
	for i := range roles {
		roles[i] = fmt.Sprint("role", i)
	}
	w := kerneltest.New(t)
	_, first := w.Call("echo", `{}`)
	w.Runs.Store(0)
	for name, change := range map[string]func(in *helm.Intent){
		"tool too long":               func(in *helm.Intent) { in.Tool = long },
		"no tool":                     func(in *helm.Intent) { in.Tool = "" },
		"tool with a space":           func(in *helm.Intent) { in.Tool = "fs read" },
		"tool in invalid UTF-8":       func(in *helm.Intent) { in.Tool = "\xff" },
		"session with a space":        kerneltest.InSession("a b"),
		"session of the kernel":       kerneltest.InSession("@refused"),
		"session too long":            kerneltest.InSession(long),
		"caller id too long":          func(in *helm.Intent) { in.Caller.ID = strings.Repeat(`"`, 129) },
		"caller id with a control":    func(in *helm.Intent) { in.Caller.ID = "a\x7f" },
		"tenant in invalid UTF-8":     func(in *helm.Intent) { in.Caller.Tenant = "\xc0\xaf" },
		"33 roles":                    func(in *helm.Intent) { in.Caller.Roles = roles },
		"empty role":                  func(in *helm.Intent) { in.Caller.Roles = []string{""} },
		"role too long":               func(in *helm.Intent) { in.Caller.Roles = []string{long} },
		"key too long":                func(in *helm.Intent) { in.Idempotency = strings.Repeat("k", 257) },
		"after an entry nobody knows": func(in *helm.Intent) { in.After = []contracts.Ref{{Index: 1}} },
		"after the right hash elsewhere": func(in *helm.Intent) {
			in.After = []contracts.Ref{{Index: first.Index + 1, Hash: first.Ref().Hash}}
		},
		"after 33 entries": func(in *helm.Intent) {
			for range 33 {
				in.After = append(in.After, first.Ref())
			}
		},
		"17 approvals": func(in *helm.Intent) {
			for range 17 {
				in.Approvals = append(in.Approvals, contracts.Envelope(`{}`))
			}
		},
		"a delegation that is none": func(in *helm.Intent) {
			in.Delegation = []contracts.Envelope{contracts.Envelope(`{}`)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.T = t
			d, _ := w.MustCall(kerneltest.Denied(contracts.ReasonIntentMalformed), "echo", `{}`, change)
			assert.NotEqual(t, "", d.Why, "nothing says what is malformed")
		})
	}
	w.T = t
	w.MustVerify()
}
