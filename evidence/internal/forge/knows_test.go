package forge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/race"
)

// knowsPack is the pack of KnowsLog, which verifies.
func knowsPack(t *testing.T) (*Maker, []byte, evidence.Options) {
	t.Helper()
	made := KnowsLog(t)
	pack, o := made.Pack(evidence.Write), evidence.Options{Trust: made.Trust, Origin: Origin}
	r, err := verifyBytes(t, pack, o)
	require.True(t, err == nil && r.Success(0) && r.Erased == nil && r.Replay.Replayed == 39 &&
		r.Replay.NotReplayable+r.Replay.Unseen == 0, "%+v, %v", r, err)
	return made, pack, o
}

// follow has the inputs of all judgements follow the log, in what they say of earlier entries: the
// receipts that they name, and how much the sources said.
func (m *Model) follow() { m.followBut(nil) }

// followBut has the inputs of all judgements but one follow the log.
func (m *Model) followBut(one *Node) {
	byHash := map[string]*Node{}
	for _, n := range m.Nodes {
		byHash[n.hash] = n
	}
	type source struct {
		count int
		state [32]byte
	}
	said := map[string]source{}
	m.relate = func(n *Node) {
		if d := n.D(); d != nil && n != one && m.Blobs[d["inputsHash"].(string)] != nil {
			m.inputs(n, func(in Object) {
				s := in["state"].(Object)
				from, _ := s["from"].([]any)
				for _, x := range from {
					tool, _, isFact := strings.Cut(x.(Object)["source"].(string), "#")
					if !isFact {
						tool = ""
					}
					is := said[n.Text("session")+"\n"+tool]
					x.(Object)["count"], x.(Object)["state"] = is.count, hex.EncodeToString(is.state[:])
				}
				receipts, _ := s["receipts"].([]any)
				for _, x := range receipts {
					if h, ok := x.(Object)["entry"].(string); ok {
						x.(Object)["entry"] = byHash[h].hash
					}
				}
			})
		}
		tool, digest := n.Text("tool"), n.Text("factsHash")
		if n.Kind() == "message" {
			tool, digest = "", n.Text("textHash")
		}
		if digest != "" {
			k := n.Text("session") + "\n" + tool
			b, err := hex.DecodeString(digest)
			require.NoError(m, err)
			is := said[k]
			said[k] = source{is.count + 1, sha256.Sum256(append(is.state[:], b...))}
		}
	}
}

// which returns the nth entry of a kind and, unless it is "", of a tool. A denial is no receipt
// here.
func (m *Model) which(kind, tool string, n int) *Node {
	m.Helper()
	for _, x := range m.Nodes {
		is, of := x.Text("tool"), x.Kind()
		if d := x.D(); d != nil {
			is = d["tool"].(string)
			if of == "receipt" {
				of = "denial"
			}
		}
		if of == kind && (tool == "" || is == tool) {
			if n == 0 {
				return x
			}
			n--
		}
	}
	m.Fatalf("no %s of %q", kind, tool)
	return nil
}

// says changes the text of a message, with all that follows from it.
func says(n int, text string) func(m *Model) {
	return func(m *Model) {
		x := m.which("message", "", n)
		delete(m.Blobs, x.Text("textHash"))
		x.P()["textHash"] = m.blob([]byte(text))
		m.follow()
	}
}

// judged changes the state in the inputs of a judgement.
func judged(kind, tool string, n int, change func(s Object)) func(m *Model) {
	return func(m *Model) {
		m.inputs(m.which(kind, tool, n), func(in Object) { change(in["state"].(Object)) })
	}
}

// first returns the first object of a list in a state.
func first(s Object, list string) Object { return s[list].([]any)[0].(Object) }

// TestKnows: whatever is falsified of what a session knows, the check that the formats name refuses
// it, even if all else is made right again.
func TestKnows(t *testing.T) {
	t.Parallel()
	_, pack, o := knowsPack(t)
	hash := func(json string) string { return HexSum([]byte(json)) }
	lose := func(kind, tool string, n int, field string) func(m *Model) {
		return func(m *Model) { delete(m.Blobs, m.which(kind, tool, n).Text(field)) }
	}
	const said, first4711 = "pay GB29NWBK60161331926819, and 4711, please \u2713", 1
	for name, x := range map[string]struct {
		row    string // of the catalogue
		cut    func(m *Model)
		want   error
		gone   int
		unseen uint64
	}{
		"nothing, but made again":  {cut: func(m *Model) { m.follow(); m.Manifest = func(Object) {} }},
		"another text with it all": {cut: says(first4711, said+" Thanks!")},
		"a text without what was found": {row: "R33", cut: says(first4711,
			"pay GB29NWBK6016133192681, and 4711, please"),
			want: errReplay},
		"a text in which it is longer": {cut: says(first4711, "pay GB29NWBK60161331926819.x, please"),
			want: errReplay},
		"a text with what was not found": {cut: says(first4711, said+" DE89"), want: errReplay},
		"another text, and the inputs stay": {cut: func(m *Model) {
			says(first4711, said+" Thanks!")(m)
			m.relate = nil
		}, want: errReplay},

		"the texts are not there": {cut: lose("message", "", 1, "textHash"), gone: 1, unseen: 5},
		"the texts are not there, and another was found": {cut: both(lose("message", "", 1, "textHash"),
			judged("decision", "pay", 1, func(s Object) {
				s["from"].([]any)[1].(Object)["found"] = []any{hash(`"DE89"`)}
			})), want: errReplay}, // list#payee is not asked then
		"the texts are not there, and it was not found": {cut: both(lose("message", "", 1, "textHash"),
			judged("decision", "pay", 0, func(s Object) { first(s, "from")["found"] = []any{} })), want: errReplay},
		"the texts are not there, and more was found": {cut: both(lose("message", "", 1, "textHash"),
			judged("denial", "pay", 1, func(s Object) {
				s["from"].([]any)[2].(Object)["found"] = []any{hash(`"nobody"`)}
			})), want: errReplay},
		"the texts are not there, and another count": {cut: both(lose("message", "", 1, "textHash"),
			judged("decision", "pay", 0, func(s Object) { first(s, "from")["count"] = 2 })), want: errReplay},
		"the texts are not there, and another state": {cut: both(lose("message", "", 1, "textHash"),
			judged("decision", "pay", 0, func(s Object) { first(s, "from")["state"] = ones64 })), want: errReplay},
		"the facts are not there":          {cut: both(lose("receipt", "list", 0, "factsHash")), gone: 1, unseen: 7},
		"facts of a receipt are not there": {cut: lose("receipt", "order", 0, "factsHash"), gone: 1},
		"facts of a receipt are not there, and others were read": {cut: both(lose("receipt", "order", 0, "factsHash"),
			judged("decision", "cancel", 0, func(s Object) {
				first(s, "receipts")["facts"].(Object)["count:/bags"] = []any{2}
			})), want: errReplay}, // the verdict does not follow from these
		"facts of a receipt are not there, and one was not read": {cut: both(lose("receipt", "order", 0, "factsHash"),
			judged("decision", "cancel", 0, func(s Object) {
				delete(first(s, "receipts")["facts"].(Object), "count:/bags")
			})), want: errReplay},
		"an output is not there, and a signal that no table has": {cut: both(lose("receipt", "search", 3, "outputHash"),
			func(m *Model) { m.which("receipt", "search", 3).P()["signals"] = []any{"zzz"} }), want: errReplay},

		"a source less": {cut: judged("decision", "pay", 1, func(s Object) { s["from"] = s["from"].([]any)[1:] }),
			want: errReplay},
		"a source more": {cut: judged("decision", "pay", 0, func(s Object) {
			s["from"] = []any{Object{"count": 1, "found": []any{}, "source": "list#payee", "state": ones64},
				first(s, "from")}
		}), want: errReplay},
		"no source": {cut: judged("decision", "pay", 0, func(s Object) { delete(s, "from") }), want: errReplay},
		"a source that is not declared": {cut: judged("decision", "note", 0, func(s Object) {
			first(s, "from")["source"] = "list#kin"
		}), want: errReplay},
		"a source of no tool": {cut: judged("decision", "note", 0, func(s Object) {
			first(s, "from")["source"] = "nobody#amount"
		}), want: errReplay},
		"a source that is a count": {cut: judged("decision", "note", 0, func(s Object) {
			first(s, "from")["source"] = "list#n"
		}), want: errReplay},
		"a source that may not vouch": {cut: judged("decision", "note", 0, func(s Object) {
			first(s, "from")["source"] = "list#who"
		}), want: errReplay},
		"another source": {cut: judged("decision", "note", 0, func(s Object) {
			first(s, "from")["source"] = "list#payee"
		}), want: errReplay},
		"a source where none was asked": {cut: judged("decision", "list", 0, func(s Object) {
			s["from"] = []any{Object{"count": 1, "found": []any{}, "source": "user", "state": ones64}}
		}), want: errReplay},
		"found, of no argument": {cut: judged("decision", "pay", 0, func(s Object) {
			first(s, "from")["found"] = []any{hash(`"4711"`)}
		}), want: errReplay},

		"labels where none were read": {cut: judged("decision", "list", 0, func(s Object) { s["labels"] = []any{} }),
			want: errReplay},
		"taint where none was read": {cut: judged("decision", "list", 0, func(s Object) { s["tainted"] = false }),
			want: errReplay},
		"marks that were not read": {cut: judged("decision", "mail", 0, func(s Object) { delete(s, "labels") }),
			want: errReplay},
		"a label more": {cut: judged("decision", "mail", 0, func(s Object) { s["labels"] = []any{"bank", "web"} }),
			want: errReplay},
		"a parent that taints": {cut: func(m *Model) { m.which("denial", "act", 1).parents = nil }, want: errReplay},
		"a parent that brings labels": {cut: func(m *Model) {
			m.which("decision", "mail", 1).parents = append(m.which("decision", "mail", 1).parents,
				m.which("receipt", "order", 0))
			m.follow()
		}, want: errReplay},
		"facts where none were read": {cut: judged("denial", "cancel", 1, func(s Object) {
			first(s, "receipts")["facts"] = Object{"/class": []any{"business"}}
		}), want: errReplay}, // of no entry
		"facts by name": {cut: judged("decision", "cancel", 0, func(s Object) {
			first(s, "receipts")["facts"] = Object{"class": []any{"first"}}
		}), want: errBlob},
		"facts of another receipt": {cut: judged("decision", "cancel", 0, func(s Object) {
			first(s, "receipts")["facts"].(Object)["/class"] = []any{"economy"}
		}), want: errReplay},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if x.row != "" {
				ranRow(t, x.row)
			}
			m := TakeApart(t, pack)
			x.cut(m)
			r, err := verifyBytes(t, m.Build(), o)
			if x.want != nil {
				mustRefuse(t, r, err, x.want)
				return
			}
			assert.True(t, err == nil && r.Success(0) && len(r.Erased) == x.gone && r.Replay.Replayed == 39,
				"%+v, %v", r, err)
			assert.Equal(t, x.unseen, r.Replay.Unseen)
		})
	}
}

// TestKnowsEachField: each value that inputs hold of what a session knows is changed in turn, and
// so are the digests that receipts and messages name, and the signals. What breaks the form of a
// blob is BLOB, what an entry shows by itself RECORD, and all else REPLAY.
func TestKnowsEachField(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	_, pack, o := knowsPack(t)
	tried, at, step := map[error]int{}, 0, Sample(4)
	// refused has cut change the pack, and return the check that must refuse it.
	refused := func(what string, cut func(m *Model) error) {
		t.Helper()
		if at++; at%step != 0 {
			return
		}
		m := TakeApart(t, pack)
		want := cut(m)
		tried[want]++
		_, err := verifyBytes(t, m.Build(), o)
		assert.ErrorIs(t, err, want, what)
	}
	unless := func(ok bool, check error) error {
		if ok {
			return errReplay
		}
		return check
	}
	whole := TakeApart(t, pack)
	for i, n := range whole.Nodes {
		if d := n.D(); d != nil {
			state := parseObject(t, whole.Blobs[d["inputsHash"].(string)])["state"].(Object)
			for _, k := range []string{"from", "labels", "receipts", "tainted"} {
				for _, c := range changes(state[k]) {
					refused(fmt.Sprintf("entry %d: %s: %s", i, k, canonical(c)), func(m *Model) error {
						m.inputs(m.Nodes[i], func(in Object) { in["state"].(Object)[k] = c })
						_, err := contracts.ParseInputs(m.Blobs[m.Nodes[i].D()["inputsHash"].(string)])
						return unless(err == nil, errBlob)
					})
				}
			}
		}
		for _, k := range []string{"factsHash", "textHash"} {
			h := n.Text(k)
			if h == "" || n.Text("session") == "main" { // whose messages nobody reads
				continue
			}
			for _, c := range []struct{ old, new string }{{"e", "a"}, {"[", "[0,"}, {"]", "]]"}} {
				text := strings.Replace(string(whole.Blobs[h]), c.old, c.new, 1)
				if text == string(whole.Blobs[h]) {
					continue
				}
				refused(fmt.Sprintf("entry %d: %s: %s", i, k, text), func(m *Model) error {
					delete(m.Blobs, h)
					m.Nodes[i].P()[k] = m.blob([]byte(text))
					_, err := contracts.ParseFacts([]byte(text))
					return unless(k == "textHash" || err == nil, errBlob)
				})
			}
		}
		// Where signals may stand, and what has them.
		x, may := n.P(), n.Text("outputHash") != "" && n.Text("outcome") != "WITHHELD"
		if d := n.D(); d != nil {
			condition, _ := d["condition"].(json.Number).Int64()
			x, may = d, condition >= 7
		} else if n.Kind() != "receipt" {
			continue
		}
		least := 0
		if x["reason"] == string(contracts.ReasonThreatSignalDetected) {
			least = 1
		}
		was, _ := x["signals"].([]any)
		for _, c := range append(changes(append([]any{}, was...)), append(slices.Clone(was), "zzz"), []any{"nul"}) {
			refused(fmt.Sprintf("entry %d: signals: %s", i, canonical(c)), func(m *Model) error {
				x := m.Nodes[i].P()
				if m.Nodes[i].D() != nil {
					x = m.Nodes[i].D()
				}
				if x["signals"] = c; len(c.([]any)) == 0 {
					delete(x, "signals")
				}
				return unless(may && len(c.([]any)) >= least, errRecord)
			})
		}
	}
	t.Logf("%d changes are BLOB, %d RECORD, %d REPLAY", tried[errBlob], tried[errRecord], tried[errReplay])
	assert.True(t, tried[errBlob] >= 90/step && tried[errRecord] >= 10/step && tried[errReplay] >= 200/step, "%v",
		tried)
}

// changes returns JSON with one value in it changed, each in turn, and each member left out.
func changes(x any) (list []any) {
	switch x := x.(type) {
	case json.Number:
		n, _ := x.Int64()
		return []any{n + 1}
	case bool:
		return []any{!x}
	case string:
		last := "0"
		if strings.HasSuffix(x, last) {
			last = "1"
		}
		return []any{x[:len(x)-1] + last}
	case Object:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			c := clone(x).(Object)
			delete(c, k)
			list = append(list, c)
			for _, v := range changes(x[k]) {
				c := clone(x).(Object)
				c[k] = v
				list = append(list, c)
			}
		}
	case []any:
		for i := range x {
			list = append(list, slices.Delete(clone(x).([]any), i, i+1))
			for _, v := range changes(x[i]) {
				c := clone(x).([]any)
				c[i] = v
				list = append(list, c)
			}
		}
	}
	return list
}

// TestKnowsLies: a kernel that tells its guardian another past than its log has is found, though
// the verdict follows from what it told.
func TestKnowsLies(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		lie  Liar
		tell func(m *Maker)
	}{
		"the user said it": {Liar{FakeSource: func(_ past.Source, s past.Supply) (past.Supply, error) {
			s.Values = always(true)
			return s, nil
		}}, func(m *Maker) { m.Allowed(Ask{Session: "s", Tool: "pay", Args: `{"to":"XX00"}`}).Ran(`1`) }},
		"nobody said it": {Liar{FakeSource: func(_ past.Source, s past.Supply) (past.Supply, error) {
			s.Values = always(false)
			return s, nil
		}}, func(m *Maker) {
			m.Denied(contracts.ReasonPolicyViolation, Ask{Session: "s", Tool: "pay", Args: `{"to":"DE89"}`})
		}},
		"more was said": {Liar{FakeSource: func(_ past.Source, s past.Supply) (past.Supply, error) {
			s.Count++
			return s, nil
		}}, func(m *Maker) { m.Allowed(Ask{Session: "s", Tool: "pay", Args: `{"to":"DE89"}`}) }},
		"the session is clean": {Liar{FakeMarks: func(bool, []string) (bool, []string) { return false, nil }},
			func(m *Maker) { m.Allowed(Ask{Session: "s", Tool: "act", Args: `{}`}) }},
		"it is not": {Liar{FakeMarks: func(_ bool, l []string) (bool, []string) { return true, l }},
			func(m *Maker) {
				m.Denied(contracts.ReasonCeilingViolation, Ask{Session: "new", Tool: "act", Args: `{}`})
			}},
		"it has no labels": {Liar{FakeMarks: func(is bool, _ []string) (bool, []string) { return is, nil }},
			func(m *Maker) { m.Allowed(Ask{Session: "s", Tool: "mail", Args: `{}`}) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := KnowsLog(t)
			m.Memory.Lie = func(p past.Past) past.Past { x.lie.Past = p; return x.lie }
			x.tell(m)
			m.Checkpoint()
			r, err := verifyBytes(t, m.Pack(evidence.Write), evidence.Options{Trust: m.Trust, Origin: Origin})
			mustRefuse(t, r, err, errReplay)
		})
	}
}

// An always is a source that has every value, or none.
type always bool

func (a always) Has(crypto.Value) bool { return bool(a) }
