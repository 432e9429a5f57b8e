package clienttest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A job is what a client is to do: ask a model, run the tools that it calls for, and go on until it
// says no more.
type job struct {
	URL    string            `json:"url"` // without /v1
	Model  string            `json:"model"`
	Stream bool              `json:"stream"`
	Header map[string]string `json:"header"`
}

// A result is what became of a job.
type result struct {
	Text    string   `json:"text"`    // all that the model said
	Ran     []string `json:"ran"`     // the calls that the client ran
	Status  int      `json:"status"`  // of HTTP, if the client met an error
	Message string   `json:"message"` // what the client shows of the error
}

// A client asks one API, plain and as streams.
type client struct {
	name   string
	plain  bool // it asks for whole answers, too
	stream bool
	do     func(t testing.TB, j job) result
}

// asked returns what became of a job, with the long text as LONG.
func (c client) asked(t testing.TB, j job) result {
	r := c.do(t, j)
	r.Text = strings.ReplaceAll(r.Text, long, "LONG")
	return r
}

// drive has a client do everything: without the proxy, so that it is known to understand the
// provider, and through it.
func drive(t *testing.T, c client) {
	p := newProvider(t)
	w := newWorld(t, p, rules)
	for _, stream := range []bool{false, true} {
		if stream && !c.stream || !stream && !c.plain {
			continue
		}
		name := "plain"
		if stream {
			name = "stream"
		}
		t.Run(name, func(t *testing.T) {
			t.Run("direct", func(t *testing.T) { direct(t, c, job{URL: p.url, Stream: stream}) })
			if t.Failed() {
				return
			}
			d := driven{t, c, w, name, 0}
			t.Run("rewrite", d.rewrites)
			t.Run("403", d.forbids)
		})
	}
	r := w.verify()
	assert.Empty(t, r.Open, "what is allowed was reported")
}

// direct has a client ask the provider itself. It then runs all that the model calls for.
func direct(t *testing.T, c client, j job) {
	ran := func(model string) (list []string) {
		for _, s := range scripts[model] {
			for _, c := range s.calls {
				list = append(list, c.String())
			}
		}
		slices.Sort(list)
		return list
	}
	for _, model := range []string{"mixed", "denied", "approval", "turns", "long"} {
		j.Model = model
		r := c.asked(t, j)
		assert.Equal(t, ran(model), sorted(r.Ran), model)
		if model == "long" {
			assert.Equal(t, 2, strings.Count(r.Text, "LONG"))
		} else {
			assert.Contains(t, r.Text, "done.", model)
		}
		assert.Zero(t, r.Status, "%s: %s", model, r.Message)
	}
	j.Model = "broken"
	r := c.asked(t, j)
	assert.Equal(t, 400, r.Status, "%s", r.Message)
	assert.Contains(t, r.Message, "the model is out")
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// driven is a client that asks through the proxy.
type driven struct {
	*testing.T
	client
	*world
	name string
	from uint64 // the entries before were looked at
}

// asks has the client ask, in a session of its own.
func (d *driven) asks(t testing.TB, model, mode, session string) result {
	h := map[string]string{"Helm-On-Deny": mode}
	if session != "" {
		h["Helm-Session"] = d.name + "-" + session
	}
	return d.asked(t, job{URL: d.url, Model: model, Stream: d.name == "stream", Header: h})
}

// logged compares what the log had of calls since with pairs of outcomes and their numbers.
func (d *driven) logged(t testing.TB, want map[string]int) {
	t.Helper()
	var got map[string]int
	got, d.from = d.outcomes(d.from)
	assert.Equal(t, want, got)
}

// rewrites: the allowed calls run, the denied never, and the model reads why.
func (d *driven) rewrites(t *testing.T) {
	_, d.from = d.outcomes(0)
	for _, session := range []string{"", "mixed"} {
		r := d.asks(t, "mixed", "rewrite", session)
		assert.Equal(t, []string{`look {"at":1}`, `look {"at":2}`}, sorted(r.Ran))
		assert.Contains(t, r.Text, "I look first.")
		assert.Contains(t, r.Text, "[helm] mail was denied: ")
		assert.Contains(t, r.Text, "done.")
		assert.Zero(t, r.Status, "%s", r.Message)
		d.logged(t, map[string]int{"look EXECUTED": 2, "mail DENIED": 1})
	}
	r := d.asks(t, "denied", "rewrite", "")
	assert.Empty(t, r.Ran)
	assert.Contains(t, r.Text, "I write.")
	assert.Equal(t, 2, strings.Count(r.Text, "[helm] mail was denied: "), "%s", r.Text)
	assert.Zero(t, r.Status, "%s", r.Message)
	d.logged(t, map[string]int{"mail DENIED": 2})

	r = d.asks(t, "approval", "rewrite", "pay")
	assert.Empty(t, r.Ran)
	assert.Contains(t, r.Text, "An approver must answer request ")
	d.logged(t, map[string]int{"pay DENIED": 1})
	d.approves()
	r = d.asks(t, "approval", "rewrite", "pay")
	assert.Equal(t, []string{pay.String()}, r.Ran)
	assert.Contains(t, r.Text, "done.")
	d.logged(t, map[string]int{"pay EXECUTED": 1})

	r = d.asks(t, "turns", "rewrite", "")
	assert.Len(t, r.Ran, 6)
	assert.Contains(t, r.Text, "Five.")
	assert.Contains(t, r.Text, "done.")
	d.logged(t, map[string]int{"look EXECUTED": 6})

	r = d.asks(t, "long", "rewrite", "")
	assert.Equal(t, []string{`look {"at":1}`}, r.Ran)
	assert.Equal(t, 2, strings.Count(r.Text, "LONG"))
	d.logged(t, map[string]int{"look EXECUTED": 1})

	r = d.asks(t, "broken", "rewrite", "")
	assert.Equal(t, 400, r.Status)
	assert.Contains(t, r.Message, "the model is out")
	d.logged(t, map[string]int{})
}

// forbids: nothing runs of an answer in which something was denied, and nothing is asked again.
func (d *driven) forbids(t *testing.T) {
	_, d.from = d.outcomes(0)
	r := d.asks(t, "mixed", "403", "")
	assert.Equal(t, 403, r.Status, "%s", r.Message)
	assert.Empty(t, r.Ran)
	assert.Contains(t, r.Message, "mail was denied")
	assert.NotContains(t, r.Text, "look")
	// Once: a client that asks again would be denied again, and that would be in the log.
	d.logged(t, map[string]int{"look INDETERMINATE": 2, "mail DENIED": 1})
	r = d.asks(t, "turns", "403", "")
	assert.Len(t, r.Ran, 6)
	assert.Zero(t, r.Status, "%s", r.Message)
	d.logged(t, map[string]int{"look EXECUTED": 6})
	require.NoError(t, d.Kernel().Err())
}
