package forge

import (
	"bytes"
	"encoding/base64"
	"math/big"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
)

// sealed changes the envelope of an entry, after it was signed.
func sealed(name string, change func(m *Model, e []byte) []byte) func(*Model) {
	return func(m *Model) { m.The(name).sealed = func(e []byte) []byte { return change(m, e) } }
}

// reseal signs a payload in an envelope that is not that of the format.
func reseal(m *Model, n *Node, change func(env Object)) {
	n.sealed = func(e []byte) []byte {
		env := parseObject(m, e)
		change(env)
		return canonical(env)
	}
}

// payload changes what an entry signs.
func payload(name string, change func(b []byte) []byte) func(*Model) {
	return func(m *Model) {
		m.The(name).Payload = func(b []byte) []byte {
			c := change(bytes.Clone(b))
			require.False(m, bytes.Equal(b, c), "the payload has nothing to change")
			return c
		}
	}
}

func replace(from, to string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.Replace(b, []byte(from), []byte(to), 1) }
}

// the bytes of entries.
var byteRows = []tampering{
	{id: "E01", name: "space", cut: sealed("a2", func(_ *Model, e []byte) []byte { return replace(":", ": ")(e) }),
		want: errEncoding},
	{id: "E01", name: "order", cut: sealed("a2", func(_ *Model, e []byte) []byte {
		i := bytes.Index(e, []byte(`,"signatures"`))
		return slices.Concat([]byte("{"), e[i+1:len(e)-1], []byte(","), e[1:i], []byte("}"))
	}), want: errEncoding},
	{id: "E02", cut: func(m *Model) { reseal(m, m.The("a2"), func(env Object) { env["note"] = "x" }) }, want: errEnvelope},
	{id: "E03", name: "payload twice",
		cut:  sealed("a2", func(_ *Model, e []byte) []byte { return replace("{", `{"payload":"e30=",`)(e) }),
		want: errEncoding},
	{id: "E03", name: "verdict twice",
		cut: payload("a1", replace(`"verdict":"ALLOW"`, `"verdict":"DENY","verdict":"ALLOW"`)), want: errEncoding},
	{id: "E04", cut: func(m *Model) {
		n := m.The("e1")
		reseal(m, n, func(env Object) {
			other := parseObject(m, m.seal(base64Of(m, env["payload"]), seedK2, nil))
			env["signatures"] = append(env["signatures"].([]any), sigOf(other))
		})
	}, want: errEnvelope},
	{id: "E05", cut: func(m *Model) { reseal(m, m.The("a2"), func(env Object) { env["signatures"] = []any{} }) },
		want: errEnvelope},
	{id: "E06", cut: func(m *Model) {
		n := m.The("a2")
		n.message = func(pae []byte) []byte {
			return crypto.AppendPAE(nil, "application/json", pae[bytes.IndexByte(pae, '{'):])
		}
		reseal(m, n, func(env Object) { env["payloadType"] = "application/json" })
	}, want: errEnvelope},
	{id: "E07", cut: func(m *Model) {
		m.The("a2").message = func(pae []byte) []byte { return pae[bytes.IndexByte(pae, '{'):] }
	}, want: errSignature},
	{id: "E08", cut: func(m *Model) {
		reseal(m, m.The("e1"), func(env Object) {
			s := env["payload"].(string)
			require.True(m, strings.ContainsAny(s, "+/"), "the payload has neither + nor /")
			env["payload"] = strings.NewReplacer("+", "-", "/", "_").Replace(s)
		})
	}, want: errEncoding},
	{id: "E09", cut: func(m *Model) {
		reseal(m, m.The("o"), func(env Object) {
			s := sigOf(env)["sig"].(string)
			const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
			i := len(s) - 3
			s = s[:i] + string(alphabet[strings.IndexByte(alphabet, s[i])|15]) + s[i+1:]
			b, err := base64.StdEncoding.DecodeString(s)
			require.True(m, err == nil && len(b) == 64, "not the same 64 bytes to a lenient reader")
			sigOf(env)["sig"] = s
		})
	}, want: errEncoding},
	{id: "E10",
		cut:  sealed("a2", func(_ *Model, e []byte) []byte { return slices.Concat(e[:100], []byte(`\n`), e[100:]) }),
		want: errEncoding},
	{id: "E11", cut: func(m *Model) {
		reseal(m, m.The("o"), func(env Object) {
			sig := base64Of(m, sigOf(env)["sig"])
			s := bytes.Clone(sig[32:])
			slices.Reverse(s)
			order, _ := new(big.Int).SetString("1000000000000000000000000000000014def9dea2f79cd65812631a5cf5d3ed", 16)
			sum := order.Add(order, new(big.Int).SetBytes(s)).FillBytes(make([]byte, 32))
			slices.Reverse(sum)
			sigOf(env)["sig"] = base64.StdEncoding.EncodeToString(append(sig[:32], sum...))
		})
	}, want: errSignature},
	{id: "E12", cut: func(m *Model) {
		n := m.The("a2")
		n.linked = func(st Object) { st["predicate"].(Object)["key"] = strings.ToUpper(keyHex(m, SeedK1)) }
		reseal(m, n, func(env Object) { sigOf(env)["keyid"] = strings.ToUpper(keyHex(m, SeedK1)) })
	}, want: errEnvelope},
	{id: "E13", cut: func(m *Model) {
		n := m.The("e1")
		n.by = seedK2
		reseal(m, n, func(env Object) {
			pae := crypto.AppendPAE(nil, "application/vnd.in-toto+json", base64Of(m, env["payload"]))
			sigOf(env)["sig"] = base64.StdEncoding.EncodeToString(signWith(m, SeedK1, pae))
		})
	}, want: errSignature},
	{id: "E14", cut: func(m *Model) {
		n := m.The("e1") // signed by K1
		n.linked = func(st Object) { st["predicate"].(Object)["key"] = keyHex(m, seedK2) }
	}, want: errKey},
	{id: "E15", name: "_type",
		cut:  statement("a2", func(st Object) { st["_type"] = "https://in-toto.io/Statement/v0.1" }),
		want: errEnvelope},
	{id: "E15", name: "predicateType",
		cut: statement("a2",
			func(st Object) { st["predicateType"] = "https://github.com/helmkernel/helm/receipt/v2" }),
		want: errEnvelope},
	{id: "E16",
		cut: statement("a2",
			func(st Object) { st["predicateType"] = "https://github.com/helmkernel/helm/decision/v1" }),
		want: errRecord},
	{id: "E17", cut: statement("a1", func(st Object) { setSubject(st, "fs.read", ones64) }), want: errRecord},
	{id: "E18", cut: statement("a1", func(st Object) {
		st["subject"] = append(st["subject"].([]any), Object{"digest": Object{"sha256": ones64}, "name": "x"})
	}), want: errEnvelope},
	{id: "E19", name: "digits", cut: retime("a1", func(s string) string { return s[:22] + "Z" }), want: errRecord},
	{id: "E19", name: "offset", cut: retime("a1", func(s string) string { return s[:23] + "+00:00" }), want: errRecord},
	{id: "E19", name: "hour 24", cut: retime("a1", func(s string) string { return s[:11] + "24" + s[13:] }), want: errRecord},
	{id: "E20", cut: left("a1", func(p Object) {
		d := p["decision"].(Object)
		d["Verdict"], d["verdict"] = "ALLOW", "DENY"
	}), want: errRecord},
	{id: "E21", name: "1.0", cut: payload("a2", replace(`"seq":1`, `"seq":1.0`)), want: errEncoding},
	{id: "E21", name: "1e0", cut: payload("a2", replace(`"seq":1`, `"seq":1e0`)), want: errEncoding},
	{id: "E21", name: "escape", cut: payload("a2", replace(`"tool":"fs.`, `"tool":"\u0066s.`)), want: errEncoding},
	{id: "E22", name: "-1", cut: setD("a1", "charges", charge(0, -1, 3)), want: errRecord},
	{id: "E22", name: "0.5", cut: setD("a1", "charges", charge(0, 0.5, 3)), want: errRecord},
	{id: "E22", name: "2^53", cut: setD("a1", "charges", charge(0, 1<<53, 1<<53)), want: errRecord},
	{id: "E22", name: "window", cut: func(m *Model) {
		c := charge(0, 1, 3)
		c[0].(Object)["window"] = "day"
		m.The("a1").D()["charges"] = c
	}, want: errRecord},
	{id: "E23", name: "surrogate", cut: payload("a1", replace(`"id":"ada"`, `"id":"\ud800"`)), want: errEncoding},
	{id: "E23", name: "C0 AF", cut: payload("a1", replace(`"id":"ada"`, "\"id\":\"\xc0\xaf\"")), want: errEncoding},
	{id: "E24", name: "null", cut: setD("d1", "rule", nil), want: errRecord},
	{id: "E24", name: "empty", cut: setD("d1", "delegation", ""), want: errRecord},
	{id: "E24", name: "no approvals", cut: setD("d1", "approvals", []any{}), want: errRecord},
	{id: "E25", cut: func(m *Model) {
		n := m.The("a1")
		n.Payload = func(b []byte) []byte {
			return replace(`"id":"ada"`, `"id":"`+strings.Repeat("a", 3+16385-len(b))+`"`)(b)
		}
	}, want: errEncoding},
	{id: "E26", name: "line feed", cut: payload("a1", func(b []byte) []byte { return append(b, '\n') }), want: errEncoding},
	{id: "E26", name: "byte order mark",
		cut: payload("a1", func(b []byte) []byte { return append([]byte("\xef\xbb\xbf"), b...) }), want: errEncoding},
}

// retime writes an entry's time otherwise, there, in expires and in the inputs.
func retime(name string, change func(string) string) func(*Model) {
	return func(m *Model) {
		n := m.The(name)
		n.P()["time"] = change(n.Text("time"))
		n.D()["expires"] = change(n.D()["expires"].(string))
		m.inputs(n, func(in Object) { in["time"] = change(in["time"].(string)) })
	}
}
