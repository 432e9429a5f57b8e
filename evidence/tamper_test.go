package evidence

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
)

// A tampering is one named way to falsify a pack, with the answer that a verifier must give: a row of the tamper catalogue, or a case of it.
type tampering struct {
	id   string
	name string                             // of the case
	cut  func(m *model)                     // falsifies; whatever depends on it is made right again and signed
	pack func(m *model, pack []byte) []byte // falsifies bytes
	o    func(m *model, o *Options)         // changes what the caller gives
	want error                              // INVALID with that check
	then Report                             // or Level, History and Signer, where it is no check that says so
}

// mustRefuse wants that check, and nothing that the pack says to be handed out.
func mustRefuse(t *testing.T, r Report, err error, want error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Check != want || !errors.Is(err, want) {
		t.Errorf("%s, %v; want %v", r.Level, err, want)
		return
	}
	bare := Report{Asked: r.Asked, Fault: e, Replay: Replay{Differing: r.Replay.Differing}}
	if !reflect.DeepEqual(r, bare) || (want == ErrReplay) != (r.Replay.Differing > 0) && want == ErrReplay || r.Success(Invalid) {
		t.Errorf("an INVALID report says more than what is wrong: %+v", r)
	}
}

// set changes a field of an entry's predicate, of its judgement, or of a statement after hashing.
func setP(name, field string, value any) func(*model) {
	return func(m *model) { m.the(name).p()[field] = value }
}

func setD(name, field string, value any) func(*model) {
	return func(m *model) { m.the(name).d()[field] = value }
}

// left changes the predicate when links and hashes are right already.
func left(name string, change func(p object)) func(*model) {
	return func(m *model) { m.the(name).linked = func(st object) { change(st["predicate"].(object)) } }
}

// statement does so with the whole statement.
func statement(name string, change func(st object)) func(*model) {
	return func(m *model) { m.the(name).linked = change }
}

var (
	zeros64 = strings.Repeat("0", 64)
	ones64  = strings.Repeat("1", 64)
)

func charge(before, amount, limit any) []any {
	return []any{object{"amount": amount, "before": before, "budget": "P1:files:reads", "limit": limit, "window": "total"}}
}

// closing is a close of a session.
func closing(m *model, session string) *node {
	c := m.copy(m.the("x"))
	c.p()["session"], c.by = session, seedK2
	c.p()["time"] = m.nodes[len(m.nodes)-1].text("time")
	return c
}

func (m *model) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// the records of one entry.
var recordRows = []tampering{
	{id: "R01", cut: setD("d1", "verdict", "ALLOW"), want: ErrRecord},
	{id: "R02", name: "verdict", cut: setP("d1", "verdict", "DENY"), want: ErrRecord},
	{id: "R02", name: "reason", cut: setP("d1", "reason", "NO_POLICY_DEFINED"), want: ErrRecord},
	{id: "R02", name: "argsHash", cut: func(m *model) { m.the("d1").p()["argsHash"] = m.the("d1").d()["argsHash"] }, want: ErrRecord},
	{id: "R03", cut: setP("d1", "outcome", "EXECUTED"), want: ErrRecord},
	{id: "R04", name: "a2", cut: setP("a2", "verdict", "DENY"), want: ErrRecord},
	{id: "R04", name: "w2", cut: setP("w2", "verdict", "ALLOW"), want: ErrRecord},
	{id: "R04", name: "i2", cut: setP("i2", "outcome", "EXECUTED"), want: ErrRecord},
	{id: "R05", cut: left("a1", func(p object) {
		d := p["decision"].(object)
		rule := d["rule"]
		delete(d, "rule")
		hashDecision(d)
		d["rule"] = rule
	}), want: ErrRecord},
	{id: "R06", name: "d1", cut: setD("d1", "pending", ones64), want: ErrRecord},
	{id: "R06", name: "h", cut: func(m *model) { delete(m.the("h").d(), "pending") }, want: ErrRecord},
	{id: "R07", name: "unknown", cut: setD("d1", "reason", "NO_POLICY"), want: ErrRecord},
	{id: "R07", name: "KERNEL_SEALED", cut: setD("q", "reason", "KERNEL_SEALED"), want: ErrRecord},
	{id: "R07", name: "RECEIPT_NOT_STORED", cut: setD("q", "reason", "RECEIPT_NOT_STORED"), want: ErrRecord},
	{id: "R07", name: "OUTPUT_NOT_KEPT", cut: setD("q", "reason", "OUTPUT_NOT_KEPT"), want: ErrRecord},
	{id: "R07", name: "verdict", cut: setD("a1", "verdict", "allow"), want: ErrRecord},
	{id: "R09", cut: func(m *model) {
		n := m.the("d1")
		d := n.d()
		d["reason"], d["rule"] = "POLICY_VIOLATION", "P1:files:writers"
		delete(n.p(), "outcome")
		n.st["predicateType"] = "https://github.com/helmkernel/helm/decision/v1"
	}, want: ErrRecord},
	{id: "R10", name: "a1", cut: setD("a1", "condition", 7), want: ErrRecord},
	{id: "R10", name: "d1", cut: setD("d1", "condition", 3), want: ErrRecord},
	{id: "R10", name: "h", cut: setD("h", "condition", 8), want: ErrRecord},
	{id: "R11", name: "ALLOW", cut: setP("o", "session", "@refused"), want: ErrRecord},
	{id: "R11", name: "receipt", cut: setP("a2", "session", "@refused"), want: ErrRecord},
	{id: "R11", name: "message", cut: func(m *model) {
		n := m.the("r")
		p := n.p()
		for _, k := range []string{"decision", "outcome"} {
			delete(p, k)
		}
		p["textHash"] = ones64
		n.st["predicateType"] = "https://github.com/helmkernel/helm/message/v1"
		n.linked = func(st object) { setSubject(st, "message", ones64) }
	}, want: ErrRecord},
	{id: "R11", name: "condition 5", cut: setP("d1", "session", "@refused"), want: ErrRecord},
	{id: "R11", name: "SESSION_CLOSED in main", cut: setP("r", "session", "main"), want: ErrRecord},
	{id: "R12", name: "bound twice", cut: setD("f1", "idempotency", "once"), want: ErrReference},
	{id: "R12", name: "conflict with nothing", cut: func(m *model) {
		d := m.the("d1").d()
		d["reason"], d["condition"], d["idempotency"] = "IDEMPOTENCY_CONFLICT", 0, "never"
	}, want: ErrReference},
	{id: "R12", name: "conflict with itself", cut: func(m *model) {
		k, a1 := m.the("k").d(), m.the("a1").d()
		k["argsHash"], k["tool"] = a1["argsHash"], a1["tool"]
	}, want: ErrReference},
	{id: "R13", cut: left("a1", func(p object) { p["decision"].(object)["rule"] = "P1:files:writers" }), want: ErrRecord},
	{id: "R14", name: "outputHash", cut: left("a2", func(p object) { p["outputHash"] = ones64 }), want: ErrRecord},
	{id: "R14", name: "effectHash", cut: statement("a2", func(st object) {
		p := st["predicate"].(object)
		output := p["outputHash"]
		delete(p, "outputHash")
		hashEffect(p)
		p["outputHash"] = output
		setSubject(st, p["tool"], p["effectHash"])
	}), want: ErrRecord},
	{id: "R15", name: "f2", cut: func(m *model) { m.the("f2").p()["factsHash"] = m.blob([]byte(`{"n":[1]}`)) }, want: ErrRecord},
	{id: "R15", name: "w2", cut: func(m *model) { m.the("w2").p()["factsHash"] = m.blob([]byte(`{"n":[1]}`)) }, want: ErrRecord},
	{id: "R16", name: "a2", cut: func(m *model) { delete(m.the("a2").p(), "outputHash") }, want: ErrRecord},
	{id: "R16", name: "f2", cut: func(m *model) {
		p := m.the("f2").p()
		p["outputHash"], p["outputForm"] = ones64, "jcs"
	}, want: ErrRecord},
	{id: "R17", name: "argsHash", cut: func(m *model) { m.the("a2").p()["argsHash"] = m.the("f1").d()["argsHash"] }, want: ErrReference},
	{id: "R17", name: "tool", cut: setP("a2", "tool", "fs.list"), want: ErrReference},
	{id: "R18", name: "effect", cut: func(m *model) {
		d := m.the("e1").d()
		d["effectType"], d["risk"] = "read", "low"
		m.the("e2").p()["effectType"] = "read"
	}, want: ErrReplay},
	{id: "R18", name: "expires", cut: func(m *model) {
		d := m.the("a1").d()
		at, err := contracts.ParseTime(d["expires"].(string))
		m.must(err)
		d["expires"] = (at + 3_600_000).String()
	}, want: ErrReplay},
	{id: "R19", cut: func(m *model) {
		c := m.copy(m.the("a2"))
		c.by, c.parents = seedK2, []*node{c.decision}
		c.p()["outputHash"], c.p()["time"] = ones64, m.the("o").text("time")
		m.push(c)
	}, want: ErrReference},
	{id: "R20", name: "f1", cut: func(m *model) {
		b2 := m.the("b2")
		b2.decision, b2.parents = m.the("f1"), []*node{m.the("f1")}
	}, want: ErrReference},
	{id: "R20", name: "a2", cut: func(m *model) {
		b2 := m.the("b2")
		b2.decision, b2.parents = m.the("a2"), []*node{m.the("a2")}
	}, want: ErrReference},
	{id: "R21", cut: func(m *model) { m.push(closing(m, "main")) }, want: ErrReference},
	{id: "R22", name: "id", cut: left("a1", func(p object) { p["decision"].(object)["id"] = "main/1" }), want: ErrRecord},
	{id: "R22", name: "expires", cut: func(m *model) {
		a1 := m.the("a1")
		at, err := contracts.ParseTime(a1.text("time"))
		m.must(err)
		a1.d()["expires"] = (at - 1).String()
	}, want: ErrRecord},
	{id: "R23", name: "engine", cut: statement("p", func(st object) {
		p := st["predicate"].(object)
		p["policy"] = hexOf(p["documents"])
		setSubject(st, "policy", p["policy"])
	}), want: ErrRecord},
	{id: "R23", name: "order", cut: func(m *model) { m.the("p").p()["documents"].([]any)[1].(object)["layer"] = "P0" }, want: ErrRecord},
	{id: "R24", name: "later policy", cut: func(m *model) { m.the("a1").d()["policyHash"] = m.the("p2").p()["policy"] }, want: ErrReference},
	{id: "R24", name: "policy twice", cut: func(m *model) {
		c := m.copy(m.the("p"))
		c.by = seedK2
		c.p()["time"] = m.the("o").text("time")
		m.push(c)
	}, want: ErrReference},
	{id: "R25", cut: func(m *model) {
		d1 := m.the("d1")
		m.inputs(d1, func(in object) { in["caller"].(object)["roles"] = []any{"writer"} })
		d1.d()["caller"].(object)["roles"] = []any{"writer"}
	}, want: ErrReplay},
	{id: "R27", cut: func(m *model) {
		b3 := m.the("b3")
		p, d := b3.p(), b3.d()
		delete(p, "outcome")
		b3.st["predicateType"] = "https://github.com/helmkernel/helm/decision/v1"
		d["verdict"], d["reason"], d["condition"], d["rule"] = "ALLOW", "ALLOW", 8, "P1:files:readers"
		d["expires"], d["charges"] = p["time"], charge(3, 1, 3)
	}, want: ErrRecord},
	{id: "R31", cut: setD("b3", "charges", charge(2, 1, 3)), want: ErrRecord},
	{id: "R32", cut: func(m *model) { writing(m, 0) }, want: ErrReference},
	{id: "R34", name: "args", cut: func(m *model) {
		m.inputs(m.the("a1"), func(in object) { in["args"].(object)["path"] = "/srv/z" })
	}, want: ErrReplay},
	{id: "R34", name: "default", cut: func(m *model) {
		var hash string
		m.inputs(m.the("a1"), func(in object) {
			args := in["args"].(object)
			if args["lines"] == nil {
				m.Fatal("no default was filled in")
			}
			delete(args, "lines")
			hash = hexOf(args)
			in["argsHash"] = hash
		})
		m.the("a1").d()["argsHash"], m.the("a2").p()["argsHash"] = hash, hash
	}, want: ErrReplay},
	{id: "R35", cut: func(m *model) { writing(m, 1) }, want: ErrReplay},
	{id: "R36", cut: func(m *model) {
		f2 := m.the("f2")
		f2.p()["session"] = "s2"
		f2.parents = []*node{m.the("f1")}
		m.relink()
	}, want: ErrReference},
	{id: "R37", cut: func(m *model) { m.inputs(m.the("r"), func(in object) { in["session"] = "main" }) }, want: ErrReplay},
	{id: "R38", cut: func(m *model) {
		m.inputs(m.the("e1"), func(in object) { in["state"].(object)["trust"] = m.the("g").p()["trust"] })
	}, want: ErrReplay},
}

// relink finds the entry before each in its session anew.
func (m *model) relink() {
	last := map[string]*node{}
	for _, n := range m.nodes {
		n.prev = last[n.text("session")]
		last[n.text("session")] = n
	}
}

// seq gives an entry another seq, and its judgement the id that goes with it.
func seq(st object, change int) {
	p := st["predicate"].(object)
	n := p["seq"].(int) + change
	p["seq"] = n
	if d, ok := p["decision"].(object); ok {
		d["id"] = fmt.Sprintf("%s/%d", p["session"], n)
	}
}
