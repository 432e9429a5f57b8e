package guardian

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/table"
)

var (
	denied5  = want{contracts.ReasonPolicyViolation, 5, "P1:bank:d"}
	allowed8 = want{contracts.ReasonAllow, 8, "P1:bank:all"}
	failed5  = want{contracts.ReasonFailClosedError, 5, ""}
)

// withFacts is lookedAt with one fact replaced.
func withFacts(change string) string {
	if change == "-" {
		return lookedAt
	}
	name, values, _ := strings.Cut(change, `":`)
	name += `":`
	before, rest, ok := strings.Cut(lookedAt, name)
	if !ok {
		panic(change)
	}
	end := strings.IndexByte(rest, ']') + 1
	return before + name + values + rest[end:]
}

// Each predicate over the facts of a receipt answers the same if it is judged again by the inputs.
func TestThat(t *testing.T) {
	t.Parallel()
	for _, c := range table.Read[struct{ That, Facts, Answer string }](t, "that", 100) {
		receipt := `{"receipt":"look","that":` + c.That + `}`
		when := mustCompile(t, payee(`{"id":"d","deny":["pay"],"when":`+receipt+`},`, ``, ``))
		k := newKnowing(t)
		k.looked(1, "look", `{}`, withFacts(c.Facts), noon.Add(-time.Minute))
		wants := map[string]want{"y": denied5, "n": allowed8}
		w, decided := wants[c.Answer]
		if !decided {
			w = failed5
		}
		in := inChat(t, "pay", payBob)
		w.settled(t, c.That+c.Facts, when, in, nil, k)
		_, why := settled(t, when, &in, nil, k)
		if !decided {
			assert.Equal(t, c.Answer, why.What, c.That)
		}
		if strings.Contains(c.That, "finds") {
			continue
		}
		unless := mustCompile(t, payee(`{"id":"d","deny":["pay"],"unless":`+receipt+`},`, ``, ``))
		if decided {
			w = wants[map[string]string{"y": "n", "n": "y"}[c.Answer]]
		}
		w.settled(t, c.That+c.Facts, unless, in, nil, k)
	}
}

func TestThatRefusals(t *testing.T) {
	t.Parallel()
	const that = `{"fact":"to","eq":"bob"}`
	good := payee(`{"id":"d","deny":["pay"],"when":{"receipt":"look","that":`+that+`}},`, ``, ``)
	mustCompile(t, good) // or the refusals would prove nothing
	for _, c := range readRefusals(t, "that_refusals", 33) {
		require.Equal(t, 1, strings.Count(good, c.old), c.old)

		e := mustRefuse(t, document(t, "b.yaml", strings.Replace(good, c.old, c.new, 1)))
		assert.Equal(t, "/rules/0/when"+c.at, e.Pointer, "%s gives %v", c.new, e)
		for _, part := range strings.Split(c.says, "|") {
			assert.Contains(t, e.Error(), part, c.new)
		}
		assert.NotEqual(t, "", e.Remedy, "%v has no remedy", e)
	}
	// finds is refused where a true answer relaxes, in a need too.
	finds := `{"receipt":"look","that":{"fact":"to","finds":"b"}}`
	for at, text := range map[string]string{
		"/rules/0/unless/that/finds":           payee(`{"id":"d","deny":["pay"],"unless":`+finds+`},`, ``, ``),
		"/requires/0/all/0/that/finds":         payee(``, `{"id":"q","tools":["pay"],"all":[`+finds+`]}`, ``),
		"/requires/0/all/0/that/not/not/finds": payee(``, `{"id":"q","tools":["pay"],"all":[`+strings.Replace(finds, `{"fact":"to","finds":"b"}`, `{"not":{"not":{"fact":"to","finds":"b"}}}`, 1)+`]}`, ``),
	} {
		_, err := Compile(document(t, "", text))
		require.Error(t, err, at)
		assert.Contains(t, err.Error(), at+": finds where a true answer permits more")
	}
	mustCompile(t, payee(``, `{"id":"q","tools":["pay"],"all":[`+strings.Replace(finds, `{"fact":"to","finds":"b"}`, `{"not":{"fact":"to","finds":"b"}}`, 1)+`]}`, ``))
}

// Only the latest receipt that fits tells its facts: one that is stale and would permit the call
// does not win, nor one with other values, nor one that is too old.
func TestThatLatest(t *testing.T) {
	t.Parallel()
	good, bad := lookedAt, withFacts(`"/late":[true]`)
	const paid = `{"fact":"late","eq":false}`
	needs := func(more string) *Policy {
		return mustCompile(t, payee(``, `{"id":"q","tools":["pay"],"all":[{"receipt":"look","that":`+paid+more+`}]}`, ``))
	}
	lacks := want{contracts.ReasonMissingRequirement, 4, "P1:bank:q"}
	fails := want{contracts.ReasonFailClosedError, 4, ""}
	const same = `,"same":["/id"]`
	ago := func(d time.Duration) contracts.Time { return noon.Add(-d) }
	type ran struct {
		args, facts string
		at          contracts.Time
	}
	for name, c := range map[string]struct {
		more  string
		ran   []ran
		want  want
		asked int // for facts
	}{
		"none":                           {``, nil, lacks, 0},
		"good":                           {``, []ran{{`{}`, good, ago(0)}}, allowed8, 1},
		"bad":                            {``, []ran{{`{}`, bad, ago(0)}}, lacks, 1},
		"good, then bad":                 {``, []ran{{`{}`, good, ago(time.Hour)}, {`{}`, bad, ago(0)}}, lacks, 1},
		"bad, then good":                 {``, []ran{{`{}`, bad, ago(time.Hour)}, {`{}`, good, ago(0)}}, allowed8, 1},
		"good, then without facts":       {``, []ran{{`{}`, good, ago(time.Hour)}, {`{}`, "", ago(0)}}, fails, 1},
		"good, then null":                {``, []ran{{`{}`, good, ago(time.Hour)}, {`{}`, withFacts(`"/late":null`), ago(0)}}, fails, 1},
		"good, then another declaration": {``, []ran{{`{}`, good, ago(time.Hour)}, {`{}`, `{"/status":["paid"]}`, ago(0)}}, fails, 1},
		"the same":                       {same, []ran{{`{"id":7}`, good, ago(0)}}, allowed8, 1},
		"of another order":               {same, []ran{{`{"id":8}`, good, ago(0)}}, lacks, 0},
		"the same, then of another":      {same, []ran{{`{"id":7}`, good, ago(time.Hour)}, {`{"id":8}`, bad, ago(0)}}, allowed8, 1},
		"of another, then bad":           {same, []ran{{`{"id":8}`, good, ago(time.Hour)}, {`{"id":7}`, bad, ago(0)}}, lacks, 1},
		"too old":                        {`,"max_age":"10m"`, []ran{{`{}`, good, ago(10*time.Minute + time.Millisecond)}}, lacks, 0},
		"just in time":                   {`,"max_age":"10m"`, []ran{{`{}`, good, ago(10 * time.Minute)}}, allowed8, 1},
		"too old, and null":              {`,"max_age":"10m"`, []ran{{`{}`, withFacts(`"/late":null`), ago(time.Hour)}}, lacks, 0},
		"good in time, then bad":         {`,"max_age":"10m"`, []ran{{`{}`, good, ago(time.Minute)}, {`{}`, bad, ago(0)}}, lacks, 1},
	} {
		k := newKnowing(t)
		for i, r := range c.ran {
			k.looked(i, "look", r.args, r.facts, r.at)
		}
		c.want.settled(t, name, needs(c.more), inChat(t, "pay", payBob), nil, k)
		asked := 0
		for _, q := range k.questions {
			if q == "facts look" {
				asked++
			}
		}
		assert.Equal(t, c.asked, asked, name)
	}
}

// What is read of facts is recorded with its receipt, each once, and nothing else of them.
func TestThatRecords(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, payee(`{"id":"d","deny":["pay"],"when":{"any":[{"receipt":"look","that":{"all":[{"fact":"late","eq":false},{"fact":"to","eq":"eve"}]}},`+
		`{"receipt":"look","max_age":"1h","that":{"any":[{"fact":"to","eq":"kim"},{"arg":"/to","not_in":{"fact":"all"}},{"fact":"memo","exists":true}]}},`+
		`{"receipt":"book","that":{"arg":"/to","in":{"fact":"name"}}},{"receipt":"read"}]}},`, ``, ``))
	k := newKnowing(t)
	k.looked(1, "look", `{}`, lookedAt, noon)
	k.looked(2, "book", `{}`, `{"/*":["eve","kim"]}`, noon)
	in := inChat(t, "pay", payBob)
	r, why := settled(t, p, &in, nil, k)
	require.Equal(t, contracts.ReasonAllow, r.Reason, why.String())
	got := map[string]string{}
	for _, r := range in.State.Receipts {
		got[r.Tool] = string(r.Facts.Append(nil))
	}
	assert.Equal(t, map[string]string{"look": `{"/all/*":["bob","kim"],"/late":[false],"/memo":[],"/to":["bob"]}`,
		"book": `{"/*":["eve","kim"]}`, "read": ``}, got)
	slices.Sort(k.questions)
	assert.Equal(t, []string{"facts book", "facts look"}, k.questions, "asked once each")
	// Without any of it nothing is allowed.
	for i := range in.State.Receipts {
		for _, name := range slices.Sorted(maps.Keys(got)) {
			if in.State.Receipts[i].Tool == name && name != "read" {
				less := in
				less.State.Receipts = slices.Clone(in.State.Receipts)
				less.State.Receipts[i].Facts = valueOf(t, `{"/x":[]}`)
				r, why := p.judgedAlike(less, nil)
				assert.Equal(t, contracts.ReasonFailClosedError, r.Reason, why.String())
			}
		}
	}
}

// Facts that cannot be read are an error. So is a receipt in main.
func TestThatErrs(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, payee(`{"id":"d","deny":["pay"],"unless":{"receipt":"look","that":{"any":[{"fact":"to","eq":"bob"},{"arg":"/id","eq":7}]}}},`, ``, ``))
	k := newKnowing(t)
	k.looked(1, "look", `{}`, lookedAt, noon)
	k.fails["receipt"] = true
	in := inChat(t, "pay", payBob)
	failed5.settled(t, "unreadable", p, in, nil, k)
	_, why := settled(t, p, &in, nil, k)
	assert.Equal(t, Why{Rule: "P1:bank:d", What: "the facts of look cannot be read"}, why)
	assert.Equal(t, contracts.ReasonFailClosedError, func() contracts.ReasonCode {
		in := inputs(t, "pay", payBob)
		r, why := settled(t, p, &in, nil, k)
		assert.Equal(t, unnamedSession, why.What)
		assert.Empty(t, in.State.Receipts)
		return r.Reason
	}())
	k.fails["receipt"] = false
	allowed8.settled(t, "readable", p, in, nil, k)
}

// All facts that a call reads have 1 MiB together, or the call is denied: no reader would take the
// inputs.
func TestThatBounded(t *testing.T) {
	t.Parallel()
	const facts = 32
	var tools, tests []string
	var properties, declared []string
	for i := range facts {
		properties = append(properties, fmt.Sprintf(`"f%d":{"type":"string"}`, i))
		declared = append(declared, fmt.Sprintf(`"f%d":{"at":"/f%d","text":true}`, i, i))
	}
	for n := range 3 {
		tools = append(tools, fmt.Sprintf(`"t%d":{"effect":"read","input":{"type":"object","properties":{}},"output":{"type":"object","required":["f0","f1","f2","f3","f4","f5","f6","f7"],"properties":{%s}},"facts":{%s}}`,
			n, strings.Join(properties, ","), strings.Join(declared, ",")))
		var each []string
		for i := range 8 {
			each = append(each, fmt.Sprintf(`{"fact":"f%d","eq":"no"}`, i))
		}
		tests = append(tests, fmt.Sprintf(`{"receipt":"t%d","that":{"any":[%s]}}`, n, strings.Join(each, ",")))
	}
	for name, c := range map[string]struct {
		tests int
		size  int
		want  want
	}{
		"two": {2, 60 << 10, want{contracts.ReasonAllow, 8, "P1:b:a"}}, "three": {3, 60 << 10, want{contracts.ReasonFailClosedError, 5, ""}},
		"three short": {3, 40 << 10, want{contracts.ReasonAllow, 8, "P1:b:a"}},
	} {
		p := mustCompile(t, bundle("b", strings.Join(tools, ","), `{"id":"d","deny":"t0","when":{"any":[`+strings.Join(tests[:c.tests], ",")+`]}},{"id":"a","allow":["t0","t1","t2"]}`))
		k := newKnowing(t)
		for n := range 3 {
			var list []string
			for i := range 8 {
				list = append(list, fmt.Sprintf(`"/f%d":["%s"]`, i, strings.Repeat("x", c.size)))
			}
			k.looked(n, fmt.Sprintf("t%d", n), `{}`, `{`+strings.Join(list, ",")+`}`, noon)
		}
		in := inChat(t, "t0", `{}`)
		c.want.settled(t, name, p, in, nil, k)
	}
}
