package forge

import (
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// the records of one entry.
var recordRows = []tampering{
	{id: "R01", cut: setD("d1", "verdict", "ALLOW"), want: errRecord},
	{id: "R02", name: "verdict", cut: setP("d1", "verdict", "DENY"), want: errRecord},
	{id: "R02", name: "reason", cut: setP("d1", "reason", "NO_POLICY_DEFINED"), want: errRecord},
	{id: "R02", name: "argsHash", cut: func(m *Model) { m.The("d1").P()["argsHash"] = m.The("d1").D()["argsHash"] },
		want: errRecord},
	{id: "R03", cut: setP("d1", "outcome", "EXECUTED"), want: errRecord},
	{id: "R04", name: "a2", cut: setP("a2", "verdict", "DENY"), want: errRecord},
	{id: "R04", name: "w2", cut: setP("w2", "verdict", "ALLOW"), want: errRecord},
	{id: "R04", name: "i2", cut: setP("i2", "outcome", "EXECUTED"), want: errRecord},
	{id: "R05", cut: left("a1", func(p Object) {
		d := p["decision"].(Object)
		rule := d["rule"]
		delete(d, "rule")
		hashDecision(d)
		d["rule"] = rule
	}), want: errRecord},
	{id: "R06", name: "d1", cut: setD("d1", "pending", ones64), want: errRecord},
	{id: "R06", name: "h", cut: func(m *Model) { delete(m.The("h").D(), "pending") }, want: errRecord},
	{id: "R07", name: "unknown", cut: setD("d1", "reason", "NO_POLICY"), want: errRecord},
	{id: "R07", name: "KERNEL_SEALED", cut: setD("q", "reason", "KERNEL_SEALED"), want: errRecord},
	{id: "R07", name: "RECEIPT_NOT_STORED", cut: setD("q", "reason", "RECEIPT_NOT_STORED"), want: errRecord},
	{id: "R07", name: "OUTPUT_NOT_KEPT", cut: setD("q", "reason", "OUTPUT_NOT_KEPT"), want: errRecord},
	{id: "R07", name: "verdict", cut: setD("a1", "verdict", "allow"), want: errRecord},
	{id: "R09", cut: func(m *Model) {
		n := m.The("d1")
		d := n.D()
		d["reason"], d["rule"] = "POLICY_VIOLATION", "P1:files:writers"
		delete(n.P(), "outcome")
		n.st["predicateType"] = "https://github.com/helmkernel/helm/decision/v1"
	}, want: errRecord},
	{id: "R10", name: "a1", cut: setD("a1", "condition", 7), want: errRecord},
	{id: "R10", name: "d1", cut: setD("d1", "condition", 3), want: errRecord},
	{id: "R10", name: "h", cut: setD("h", "condition", 8), want: errRecord},
	{id: "R11", name: "ALLOW", cut: setP("o", "session", "@refused"), want: errRecord},
	{id: "R11", name: "receipt", cut: setP("a2", "session", "@refused"), want: errRecord},
	{id: "R11", name: "message", cut: func(m *Model) {
		n := m.The("r")
		p := n.P()
		for _, k := range []string{"decision", "outcome"} {
			delete(p, k)
		}
		p["textHash"] = ones64
		n.st["predicateType"] = "https://github.com/helmkernel/helm/message/v1"
	}, want: errRecord},
	{id: "R11", name: "condition 5", cut: setP("d1", "session", "@refused"), want: errRecord},
	{id: "R11", name: "SESSION_CLOSED in main", cut: setP("r", "session", "main"), want: errRecord},
	{id: "R12", name: "bound twice", cut: setD("f1", "idempotency", "once"), want: errReference},
	{id: "R12", name: "conflict with nothing", cut: func(m *Model) {
		d := m.The("d1").D()
		d["reason"], d["condition"], d["idempotency"] = "IDEMPOTENCY_CONFLICT", 0, "never"
	}, want: errReference},
	{id: "R12", name: "conflict with itself", cut: func(m *Model) {
		k, a1 := m.The("k").D(), m.The("a1").D()
		k["argsHash"], k["tool"] = a1["argsHash"], a1["tool"]
	}, want: errReference},
	{id: "R13", cut: left("a1", func(p Object) { p["decision"].(Object)["rule"] = "P1:files:writers" }),
		want: errRecord},
	{id: "R14", name: "outputHash", cut: left("a2", func(p Object) { p["outputHash"] = ones64 }), want: errRecord},
	{id: "R14", name: "effectHash", cut: statement("a2", func(st Object) {
		p := st["predicate"].(Object)
		output := p["outputHash"]
		delete(p, "outputHash")
		hashEffect(p)
		p["outputHash"] = output
		setSubject(st, p["tool"], p["effectHash"])
	}), want: errRecord},
	{id: "R15", name: "f2", cut: func(m *Model) { m.The("f2").P()["factsHash"] = m.blob([]byte(`{"n":[1]}`)) },
		want: errRecord},
	{id: "R15", name: "w2", cut: func(m *Model) { m.The("w2").P()["factsHash"] = m.blob([]byte(`{"n":[1]}`)) },
		want: errRecord},
	{id: "R16", name: "a2", cut: func(m *Model) { delete(m.The("a2").P(), "outputHash") }, want: errRecord},
	{id: "R16", name: "f2", cut: func(m *Model) {
		p := m.The("f2").P()
		p["outputHash"], p["outputForm"] = m.blob(nil), "raw"
	}, want: errRecord},
	{id: "R17", name: "argsHash", cut: func(m *Model) { m.The("a2").P()["argsHash"] = m.The("f1").D()["argsHash"] },
		want: errReference},
	{id: "R17", name: "tool", cut: setP("a2", "tool", "fs.list"), want: errReference},
	{id: "R18", name: "effect", cut: func(m *Model) {
		d := m.The("e1").D()
		d["effectType"], d["risk"] = "read", "low"
		m.The("e2").P()["effectType"] = "read"
	}, want: errReplay},
	{id: "R18", name: "expires", cut: func(m *Model) {
		d := m.The("a1").D()
		at, err := contracts.ParseTime(d["expires"].(string))
		require.NoError(m, err)
		d["expires"] = (at + 3_600_000).String()
	}, want: errReplay},
	{id: "R19", cut: func(m *Model) {
		c := m.copy(m.The("a2"))
		c.by, c.parents = seedK2, []*Node{c.decision}
		c.P()["outputHash"], c.P()["time"] = ones64, m.The("o").Text("time")
		m.push(c)
	}, want: errReference},
	{id: "R20", name: "f1", cut: func(m *Model) {
		b2 := m.The("b2")
		b2.decision, b2.parents = m.The("f1"), []*Node{m.The("f1")}
	}, want: errReference},
	{id: "R20", name: "a2", cut: func(m *Model) {
		b2 := m.The("b2")
		b2.decision, b2.parents = m.The("a2"), []*Node{m.The("a2")}
	}, want: errReference},
	{id: "R21", cut: func(m *Model) { m.push(closing(m, "main")) }, want: errReference},
	{id: "R22", name: "id", cut: left("a1", func(p Object) { p["decision"].(Object)["id"] = "main/1" }),
		want: errRecord},
	{id: "R22", name: "expires", cut: func(m *Model) {
		a1 := m.The("a1")
		at, err := contracts.ParseTime(a1.Text("time"))
		require.NoError(m, err)
		a1.D()["expires"] = (at - 1).String()
	}, want: errRecord},
	{id: "R23", name: "engine", cut: statement("p", func(st Object) {
		p := st["predicate"].(Object)
		p["policy"] = HexOf(p["documents"])
		setSubject(st, "policy", p["policy"])
	}), want: errRecord},
	{id: "R23", name: "order", cut: func(m *Model) { m.The("p").P()["documents"].([]any)[1].(Object)["layer"] = "P0" },
		want: errRecord},
	{id: "R24", name: "later policy", cut: func(m *Model) { m.The("a1").D()["policyHash"] = m.The("p2").P()["policy"] },
		want: errReference},
	{id: "R24", name: "policy twice", cut: func(m *Model) {
		c := m.copy(m.The("p"))
		c.by = seedK2
		c.P()["time"] = m.The("o").Text("time")
		m.push(c)
	}, want: errReference},
	{id: "R25", cut: func(m *Model) {
		d1 := m.The("d1")
		m.inputs(d1, func(in Object) { in["caller"].(Object)["roles"] = []any{"writer"} })
		d1.D()["caller"].(Object)["roles"] = []any{"writer"}
	}, want: errReplay},
	{id: "R27", cut: func(m *Model) {
		b3 := m.The("b3")
		p, d := b3.P(), b3.D()
		delete(p, "outcome")
		b3.st["predicateType"] = "https://github.com/helmkernel/helm/decision/v1"
		d["verdict"], d["reason"], d["condition"], d["rule"] = "ALLOW", "ALLOW", 8, "P1:files:readers"
		d["expires"], d["charges"] = p["time"], charge(3, 1, 3)
	}, want: errRecord},
	{id: "R31", cut: setD("b3", "charges", charge(2, 1, 3)), want: errRecord},
	{id: "R32", cut: func(m *Model) { writing(m, 0) }, want: errReference},
	{id: "R34", name: "args", cut: func(m *Model) {
		m.inputs(m.The("a1"), func(in Object) { in["args"].(Object)["path"] = "/srv/z" })
	}, want: errReplay},
	{id: "R34", name: "default", cut: func(m *Model) {
		var hash string
		m.inputs(m.The("a1"), func(in Object) {
			args := in["args"].(Object)
			if args["lines"] == nil {
				m.Fatal("no default was filled in")
			}
			delete(args, "lines")
			hash = HexOf(args)
			in["argsHash"] = hash
		})
		m.The("a1").D()["argsHash"], m.The("a2").P()["argsHash"] = hash, hash
	}, want: errReplay},
	{id: "R35", cut: func(m *Model) { writing(m, 1) }, want: errReplay},
	{id: "R36", cut: func(m *Model) {
		f2 := m.The("f2")
		f2.P()["session"] = "s2"
		f2.parents = []*Node{m.The("f1")}
		m.relink()
	}, want: errReference},
	{id: "R37", cut: func(m *Model) { m.inputs(m.The("r"), func(in Object) { in["session"] = "main" }) },
		want: errReplay},
	{id: "R38", cut: func(m *Model) {
		m.inputs(m.The("e1"), func(in Object) { in["state"].(Object)["trust"] = m.The("g").P()["trust"] })
	}, want: errReplay},
}
