package evidence

import (
	"bytes"
	"encoding/base64"
	"math/big"
	"slices"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// sealed changes the envelope of an entry, after it was signed.
func sealed(name string, change func(m *model, e []byte) []byte) func(*model) {
	return func(m *model) { m.the(name).sealed = func(e []byte) []byte { return change(m, e) } }
}

// reseal signs a payload in an envelope that is not that of the format.
func reseal(m *model, n *node, change func(env object)) {
	n.sealed = func(e []byte) []byte {
		env := parseObject(m, e)
		change(env)
		return canonical(env)
	}
}

// payload changes what an entry signs.
func payload(name string, change func(b []byte) []byte) func(*model) {
	return func(m *model) {
		m.the(name).payload = func(b []byte) []byte {
			c := change(bytes.Clone(b))
			if bytes.Equal(b, c) {
				m.Fatal("the payload has nothing to change")
			}
			return c
		}
	}
}

func replace(from, to string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.Replace(b, []byte(from), []byte(to), 1) }
}

// sigOf gives the signature of an envelope.
func sigOf(env object) object { return env["signatures"].([]any)[0].(object) }

// the bytes of entries.
var byteRows = []tampering{
	{id: "E01", name: "space", cut: sealed("a2", func(_ *model, e []byte) []byte { return replace(":", ": ")(e) }), want: ErrEncoding},
	{id: "E01", name: "order", cut: sealed("a2", func(_ *model, e []byte) []byte {
		i := bytes.Index(e, []byte(`,"signatures"`))
		return slices.Concat([]byte("{"), e[i+1:len(e)-1], []byte(","), e[1:i], []byte("}"))
	}), want: ErrEncoding},
	{id: "E02", cut: func(m *model) { reseal(m, m.the("a2"), func(env object) { env["note"] = "x" }) }, want: ErrEnvelope},
	{id: "E03", name: "payload twice", cut: sealed("a2", func(_ *model, e []byte) []byte { return replace("{", `{"payload":"e30=",`)(e) }), want: ErrEncoding},
	{id: "E03", name: "verdict twice", cut: payload("a1", replace(`"verdict":"ALLOW"`, `"verdict":"DENY","verdict":"ALLOW"`)), want: ErrEncoding},
	{id: "E04", cut: func(m *model) {
		n := m.the("e1")
		reseal(m, n, func(env object) {
			other := parseObject(m, m.seal(base64Of(m, env["payload"]), seedK2, nil))
			env["signatures"] = append(env["signatures"].([]any), sigOf(other))
		})
	}, want: ErrEnvelope},
	{id: "E05", cut: func(m *model) { reseal(m, m.the("a2"), func(env object) { env["signatures"] = []any{} }) }, want: ErrEnvelope},
	{id: "E06", cut: func(m *model) {
		n := m.the("a2")
		n.message = func(pae []byte) []byte {
			return crypto.AppendPAE(nil, "application/json", pae[bytes.IndexByte(pae, '{'):])
		}
		reseal(m, n, func(env object) { env["payloadType"] = "application/json" })
	}, want: ErrEnvelope},
	{id: "E07", cut: func(m *model) {
		m.the("a2").message = func(pae []byte) []byte { return pae[bytes.IndexByte(pae, '{'):] }
	}, want: ErrSignature},
	{id: "E08", cut: func(m *model) {
		reseal(m, m.the("e1"), func(env object) {
			s := env["payload"].(string)
			if !strings.ContainsAny(s, "+/") {
				m.Fatal("the payload has neither + nor /")
			}
			env["payload"] = strings.NewReplacer("+", "-", "/", "_").Replace(s)
		})
	}, want: ErrEncoding},
	{id: "E09", cut: func(m *model) {
		reseal(m, m.the("o"), func(env object) {
			s := sigOf(env)["sig"].(string)
			const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
			i := len(s) - 3
			s = s[:i] + string(alphabet[strings.IndexByte(alphabet, s[i])|15]) + s[i+1:]
			if b, err := base64.StdEncoding.DecodeString(s); err != nil || len(b) != 64 {
				m.Fatal("not the same 64 bytes to a lenient reader")
			}
			sigOf(env)["sig"] = s
		})
	}, want: ErrEncoding},
	{id: "E10", cut: sealed("a2", func(_ *model, e []byte) []byte { return slices.Concat(e[:100], []byte(`\n`), e[100:]) }), want: ErrEncoding},
	{id: "E11", cut: func(m *model) {
		reseal(m, m.the("o"), func(env object) {
			sig := base64Of(m, sigOf(env)["sig"])
			s := bytes.Clone(sig[32:])
			slices.Reverse(s)
			order, _ := new(big.Int).SetString("1000000000000000000000000000000014def9dea2f79cd65812631a5cf5d3ed", 16)
			sum := order.Add(order, new(big.Int).SetBytes(s)).FillBytes(make([]byte, 32))
			slices.Reverse(sum)
			sigOf(env)["sig"] = base64.StdEncoding.EncodeToString(append(sig[:32], sum...))
		})
	}, want: ErrSignature},
	{id: "E12", cut: func(m *model) {
		n := m.the("a2")
		n.linked = func(st object) { st["predicate"].(object)["key"] = strings.ToUpper(keyHex(m, seedK1)) }
		reseal(m, n, func(env object) { sigOf(env)["keyid"] = strings.ToUpper(keyHex(m, seedK1)) })
	}, want: ErrEnvelope},
	{id: "E13", cut: func(m *model) {
		n := m.the("e1")
		n.by = seedK2
		reseal(m, n, func(env object) {
			pae := crypto.AppendPAE(nil, "application/vnd.in-toto+json", base64Of(m, env["payload"]))
			sigOf(env)["sig"] = base64.StdEncoding.EncodeToString(signWith(m, seedK1, pae))
		})
	}, want: ErrSignature},
	{id: "E14", cut: func(m *model) {
		n := m.the("e1") // signed by K1
		n.linked = func(st object) { st["predicate"].(object)["key"] = keyHex(m, seedK2) }
	}, want: ErrKey},
	{id: "E15", name: "_type", cut: statement("a2", func(st object) { st["_type"] = "https://in-toto.io/Statement/v0.1" }), want: ErrEnvelope},
	{id: "E15", name: "predicateType", cut: statement("a2", func(st object) { st["predicateType"] = "https://github.com/helmkernel/helm/receipt/v2" }), want: ErrEnvelope},
	{id: "E16", cut: statement("a2", func(st object) { st["predicateType"] = "https://github.com/helmkernel/helm/decision/v1" }), want: ErrRecord},
	{id: "E17", cut: statement("a1", func(st object) { setSubject(st, "fs.read", ones64) }), want: ErrRecord},
	{id: "E18", cut: statement("a1", func(st object) {
		st["subject"] = append(st["subject"].([]any), object{"digest": object{"sha256": ones64}, "name": "x"})
	}), want: ErrEnvelope},
	{id: "E19", name: "digits", cut: retime("a1", func(s string) string { return s[:22] + "Z" }), want: ErrRecord},
	{id: "E19", name: "offset", cut: retime("a1", func(s string) string { return s[:23] + "+00:00" }), want: ErrRecord},
	{id: "E19", name: "hour 24", cut: retime("a1", func(s string) string { return s[:11] + "24" + s[13:] }), want: ErrRecord},
	{id: "E20", cut: left("a1", func(p object) {
		d := p["decision"].(object)
		d["Verdict"], d["verdict"] = "ALLOW", "DENY"
	}), want: ErrRecord},
	{id: "E21", name: "1.0", cut: payload("a2", replace(`"seq":1`, `"seq":1.0`)), want: ErrEncoding},
	{id: "E21", name: "1e0", cut: payload("a2", replace(`"seq":1`, `"seq":1e0`)), want: ErrEncoding},
	{id: "E21", name: "escape", cut: payload("a2", replace(`"tool":"fs.`, `"tool":"\u0066s.`)), want: ErrEncoding},
	{id: "E22", name: "-1", cut: setD("a1", "charges", charge(0, -1, 3)), want: ErrRecord},
	{id: "E22", name: "0.5", cut: setD("a1", "charges", charge(0, 0.5, 3)), want: ErrRecord},
	{id: "E22", name: "2^53", cut: setD("a1", "charges", charge(0, 1<<53, 1<<53)), want: ErrRecord},
	{id: "E22", name: "window", cut: func(m *model) {
		c := charge(0, 1, 3)
		c[0].(object)["window"] = "day"
		m.the("a1").d()["charges"] = c
	}, want: ErrRecord},
	{id: "E23", name: "surrogate", cut: payload("a1", replace(`"id":"ada"`, `"id":"\ud800"`)), want: ErrEncoding},
	{id: "E23", name: "C0 AF", cut: payload("a1", replace(`"id":"ada"`, "\"id\":\"\xc0\xaf\"")), want: ErrEncoding},
	{id: "E24", name: "null", cut: setD("d1", "rule", nil), want: ErrRecord},
	{id: "E24", name: "empty", cut: setD("d1", "delegation", ""), want: ErrRecord},
	{id: "E24", name: "no approvals", cut: setD("d1", "approvals", []any{}), want: ErrRecord},
	{id: "E25", cut: func(m *model) {
		n := m.the("a1")
		n.payload = func(b []byte) []byte {
			return replace(`"id":"ada"`, `"id":"`+strings.Repeat("a", 3+16385-len(b))+`"`)(b)
		}
	}, want: ErrEncoding},
	{id: "E26", name: "line feed", cut: payload("a1", func(b []byte) []byte { return append(b, '\n') }), want: ErrEncoding},
	{id: "E26", name: "byte order mark", cut: payload("a1", func(b []byte) []byte { return append([]byte("\xef\xbb\xbf"), b...) }), want: ErrEncoding},
}

// retime writes an entry's time otherwise, there, in expires and in the inputs.
func retime(name string, change func(string) string) func(*model) {
	return func(m *model) {
		n := m.the(name)
		n.p()["time"] = change(n.text("time"))
		n.d()["expires"] = change(n.d()["expires"].(string))
		m.inputs(n, func(in object) { in["time"] = change(in["time"].(string)) })
	}
}
