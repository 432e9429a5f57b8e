package forge

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/trust/registry"
)

// A miscut is one way to falsify an excerpt, and the answer that a verifier must give.
type miscut struct {
	id, name string
	of       string                                // the receipt; "": a2
	log      func(m *Model)                        // falsifies the log, and all else is right
	cut      func(c *cutting)                      // falsifies the excerpt
	pack     func(ms []Member) []Member            // falsifies the archive
	raw      func(b []byte) []byte                 // falsifies its bytes
	o        func(c *cutting, o *evidence.Options) // changes the options
	want     error                                 // INVALID with that check
	then     evidence.Report                       // or Level, History and Signer
}

// reforged replaces entry i of the excerpt by one that is like it but for a change, well signed.
func reforged(i int, change func(p Object)) func(*cutting) {
	return func(c *cutting) {
		n := c.copy(c.Nodes[c.of[i]])
		change(n.P())
		hashes(n, n.P(), n.Text("session"))
		c.sign(n)
		c.lines[i] = n.Line
	}
}

// line replaces the bytes of an entry.
func line(i int, change func(b []byte) []byte) func(*cutting) {
	return func(c *cutting) { c.lines[i] = change(bytes.Clone(c.lines[i])) }
}

// proven changes the text of a proof.
func proven(i int, change func(s string) string) func([]Member) []Member {
	return func(ms []Member) []Member {
		x := &ms[2+2*i]
		x.Body = []byte(change(string(x.Body)))
		return ms
	}
}

// spelt writes the index of the receipt, which is 3, in another way.
func spelt(index string) func([]Member) []Member {
	return proven(1, func(s string) string { return strings.Replace(s, "\nindex 3\n", "\n"+index+"\n", 1) })
}

// exchanged exchanges two members with their names, or without.
func exchanged(i, j int, names bool) func([]Member) []Member {
	return func(ms []Member) []Member {
		ms[i], ms[j] = ms[j], ms[i]
		if !names {
			ms[i].Name, ms[j].Name = ms[j].Name, ms[i].Name
		}
		return ms
	}
}

// noted replaces the checkpoint, in the proofs too.
func noted(note func(c *cutting, text string) []byte) func(*cutting) {
	return func(c *cutting) { c.note = note(c, textOf(c.Model, c.size)) }
}

// cosignedBy has the log's line, and then whatever lines.
func cosignedBy(lines func(m *Model, text string) string) func(*cutting) {
	return noted(func(c *cutting, text string) []byte {
		return append(signNote(c, text, Origin, SeedL), lines(c.Model, text)...)
	})
}

// last passes a checkpoint of a size as the last one that was seen.
func last(size int, root func(c *cutting) [32]byte) func(*cutting, *evidence.Options) {
	return func(c *cutting, o *evidence.Options) { o.Last = LastOf(c.Model, size, root(c), Origin) }
}

func rootAt(size int) func(*cutting) [32]byte {
	return func(c *cutting) [32]byte { return merkle(leavesOf(c.Model, size)) }
}

// member replaces the content of one.
func member(i int, body []byte) func([]Member) []Member {
	return func(ms []Member) []Member { ms[i].Body = body; return ms }
}

// kind puts the entry of that name, with its right proof, in the place of entry i.
func kind(i int, name string) func(*cutting) {
	return func(c *cutting) {
		at := c.index(c.The(name))
		c.lines[i], c.at[i], c.path[i] = c.Nodes[at].Line, at, path(leavesOf(c.Model, c.size), at)
	}
}

func witnessedBy(then evidence.History) evidence.Report {
	return evidence.Report{Level: evidence.Witnessed, History: then, Signer: evidence.Trusted}
}

var (
	unwitnessed = evidence.Report{Level: evidence.Logged, Signer: evidence.Trusted}
	unlogged    = evidence.Report{Level: evidence.Intact, Signer: evidence.Trusted}
)

var miscuts = slices.Concat([]miscut{
	{id: "M06", cut: reforged(1, func(p Object) { p["outputHash"] = ones64 }), want: errMerkle},
	{id: "M06", name: "another outcome", cut: reforged(1, func(p Object) {
		p["outcome"], p["reason"] = "FAILED", "TOOL_ERROR"
		for _, k := range []string{"factsHash", "outputForm", "outputHash"} {
			delete(p, k)
		}
	}), want: errMerkle},
	{id: "M06", name: "a denial", of: "d1", cut: reforged(0, func(p Object) {
		p["decision"].(Object)["argsHash"] = ones64
	}), want: errMerkle},
	{id: "M06", name: "an entry beyond the log", of: "y2", cut: func(c *cutting) { c.at[1] = c.size }, want: errMerkle},
	{id: "M07", cut: func(c *cutting) { c.at[1]++ }, want: errMerkle},
	{id: "M07", name: "the decision's", cut: func(c *cutting) { c.at[0]-- }, want: errMerkle},
	{id: "M07", name: "of a denial", of: "d1", cut: func(c *cutting) { c.at[0]-- }, want: errMerkle},
	{id: "M08", name: "more", cut: func(c *cutting) { c.path[1] = append(c.path[1], c.path[1][0]) }, want: errMerkle},
	{id: "M08", name: "fewer", cut: func(c *cutting) { c.path[0] = c.path[0][:len(c.path[0])-1] }, want: errMerkle},
	{id: "M08", name: "another size", cut: func(c *cutting) { c.path[1] = path(leavesOf(c.Model, 20), 3) },
		want: errMerkle},
	{id: "M08", name: "another size, with its checkpoint", cut: func(c *cutting) {
		c.path[1] = path(leavesOf(c.Model, 20), 3)
		c.notes = map[int][]byte{1: LastOf(c.Model, 20, rootAt(20)(c), Origin)}
	}, want: errMerkle},

	{name: "the proof of the decision", cut: func(c *cutting) { c.path[1] = c.path[0] }, want: errMerkle},
	{name: "proof and checkpoint of another log", cut: func(c *cutting) {
		other := TakeApart(c, SmallLog(c, 0).Pack(evidence.Write))
		leaves := leavesOf(other, len(other.Nodes))
		c.path[0], c.path[1] = path(leaves, 2), path(leaves, 3)
		c.mark(textOf(other, len(other.Nodes)))
	}, want: errMerkle},
	{name: "hashes in another order", cut: func(c *cutting) { slices.Reverse(c.path[1]) }, want: errMerkle},
	{name: "a bit of a hash", cut: func(c *cutting) { c.path[1][2][7] ^= 4 }, want: errMerkle},
	{name: "no hash", cut: func(c *cutting) { c.path[0] = nil }, want: errMerkle},
	{name: "the first of all, proven by nothing", cut: func(c *cutting) { c.path[0], c.at[0] = nil, 0 }, want: errMerkle},
	{name: "64 hashes", cut: func(c *cutting) { c.path[1] = make([][32]byte, 64) }, want: errMerkle},
	{name: "another root", cut: noted(func(c *cutting, _ string) []byte {
		text := fmt.Sprintf("%s\n%d\n%s\n", Origin, c.size, crypto.AppendBase64(nil, make([]byte, 32)))
		return append(signNote(c, text, Origin, SeedL), cosignatures(c, text)...)
	}), want: errMerkle},
	{name: "a checkpoint of fewer entries", cut: noted(func(c *cutting, _ string) []byte {
		text := textOf(c.Model, 3)
		return append(signNote(c, text, Origin, SeedL), cosignatures(c, text)...)
	}), want: errMerkle},
	{name: "a checkpoint of none", cut: noted(func(c *cutting, _ string) []byte {
		text := textOf(c.Model, 0)
		return append(signNote(c, text, Origin, SeedL), cosignatures(c, text)...)
	}), want: errMerkle},

	// the one spelling of a proof
	{name: "index 03", pack: spelt("index 03"), want: errMerkle},
	{name: "index +3", pack: spelt("index +3"), want: errMerkle},
	{name: "index 0x3", pack: spelt("index 0x3"), want: errMerkle},
	{name: "index -3", pack: spelt("index -3"), want: errMerkle},
	{name: "a space more", pack: spelt("index  3"), want: errMerkle},
	{name: "a space at the end", pack: spelt("index 3 "), want: errMerkle},
	{name: "a tab", pack: spelt("index\t3"), want: errMerkle},
	{name: "Index", pack: spelt("Index 3"), want: errMerkle},
	{name: "a carriage return", pack: spelt("index 3\r"), want: errMerkle},
	{name: "no number", pack: spelt("index "), want: errMerkle},
	{name: "no index", pack: proven(1, func(s string) string { return strings.Replace(s, "index 3\n", "", 1) }),
		want: errMerkle},
	{name: "index 2^53", pack: spelt("index 9007199254740992"), want: errMerkle},
	{name: "index 2^63", pack: spelt("index 9223372036854775808"), want: errMerkle},
	{name: "index 2^64+3", pack: spelt("index 18446744073709551619"), want: errMerkle},
	{name: "two indexes", pack: spelt("index 3\nindex 3"), want: errMerkle},
	{name: "extra data", pack: spelt("extra AAAA\nindex 3"), want: errMerkle},
	{name: "extra data of nothing", pack: spelt("extra \nindex 3"), want: errMerkle},
	{name: "version 2", pack: proven(0, func(s string) string { return strings.Replace(s, "@v1", "@v2", 1) }),
		want: errMerkle},
	{name: "a line before", pack: proven(0, func(s string) string { return "\n" + s }), want: errMerkle},
	{name: "a byte order mark", pack: proven(0, func(s string) string { return "\ufeff" + s }), want: errMerkle},
	{name: "CR LF", pack: proven(0, func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }),
		want: errMerkle},
	{name: "no padding", pack: proven(1, func(s string) string { return strings.Replace(s, "=\n", "\n", 1) }),
		want: errMerkle},
	{name: "spare bits", pack: proven(1, func(s string) string {
		at := strings.Index(s, "=\n") - 1
		return s[:at] + string(s[at]+1) + s[at+1:]
	}), want: errMerkle},
	{name: "the URL alphabet", pack: func(ms []Member) []Member {
		for i := range 2 {
			ms = proven(i, func(s string) string {
				head, note, _ := strings.Cut(s, "\n\n")
				first, hashes, _ := strings.Cut(head, "\nindex ")
				return first + "\nindex " + strings.NewReplacer("+", "-", "/", "_").Replace(hashes) + "\n\n" + note
			})(ms)
		}
		return ms
	}, want: errMerkle},
	{name: "31 bytes", pack: proven(1, func(s string) string {
		f := strings.SplitN(s, "\n", 4)
		return strings.Join([]string{f[0], f[1], string(crypto.AppendBase64(nil, make([]byte, 31))), f[3]}, "\n")
	}), want: errMerkle},
	{name: "no empty line", pack: proven(1, func(s string) string { return strings.Replace(s, "\n\n", "\n", 1) }),
		want: errMerkle},
	{name: "hashes alone", pack: proven(1, func(s string) string { return s[:strings.Index(s, "\n\n")+1] }),
		want: errMerkle},
	{name: "no proof", pack: member(4, nil), want: errMerkle},
	{name: "no proof of the decision", pack: member(2, nil), want: errMerkle},
	{name: "a proof of a MiB more", pack: member(4, make([]byte, 2<<20)), want: errMerkle},
	{name: "the wrong proof and the wrong checkpoint", pack: func(ms []Member) []Member {
		return member(0, []byte("x"))(spelt("index 03")(ms))
	}, want: errMerkle},

	// the checkpoint
	{name: "another one in a proof", pack: proven(1, func(s string) string {
		return s[:strings.LastIndex(s[:len(s)-1], "\n")+1]
	}), want: errCheckpoint},
	{name: "another one in the decision's", pack: proven(0, func(s string) string { return s + "— x AAAAAAA=\n" }),
		want: errCheckpoint},
	{name: "none in a proof", pack: proven(1, func(s string) string { return s[:strings.Index(s, "\n\n")+2] }),
		want: errCheckpoint},
	{name: "an empty line more in a proof", pack: proven(1, func(s string) string {
		return strings.Replace(s, "\n\n", "\n\n\n", 1)
	}), want: errCheckpoint},
	{name: "none", pack: member(0, nil), want: errCheckpoint},
	{name: "a long one", pack: member(0, make([]byte, 1_000_001)), want: errCheckpoint},
	{name: "an extension line", cut: noted(func(c *cutting, text string) []byte {
		return signNote(c, text+"x\n", Origin, SeedL)
	}), want: errCheckpoint},
	{name: "of another origin", cut: noted(func(c *cutting, text string) []byte {
		return signNote(c, strings.Replace(text, Origin, Origin+"2", 1), Origin+"2", SeedL)
	}), want: errCheckpoint},
	{name: "the log's line is second", cut: noted(func(c *cutting, text string) []byte {
		return []byte(text + "\n" + cosignature(c, text, SeedW1, CosignedAt) + noteLineOf(c, text, Origin, SeedL))
	}), want: errCheckpoint},
	{name: "another key's signature in the log's line", cut: noted(func(c *cutting, text string) []byte {
		return []byte(text + "\n" + noteLine(c.Model, signWith(c, seedK2, []byte(text)), SeedL))
	}), want: errCheckpoint},
	{name: "without the log's line", cut: noted(func(c *cutting, text string) []byte {
		return []byte(text + "\n" + cosignatures(c, text))
	}), then: unlogged},
	{name: "signed by a kernel key", cut: noted(func(c *cutting, text string) []byte {
		return signNote(c, text, Origin, seedK2)
	}), then: unlogged},
	{name: "a line of a witness over another checkpoint", cut: cosignedBy(func(m *Model, text string) string {
		return cosignature(m, textOf(m, 20), SeedW1, CosignedAt) + cosignature(m, text, seedW2, CosignedAt)
	}), want: errCosign},
	{name: "one witness of two", cut: cosignedBy(func(m *Model, text string) string {
		return cosignature(m, text, SeedW1, CosignedAt)
	}), then: unwitnessed},
	{name: "later lines are of another checkpoint", o: func(c *cutting, o *evidence.Options) {
		text := textOf(c.Model, 20)
		o.Cosigned = []byte(text + "\n" + cosignatures(c, text))
	}, want: errCheckpoint},
	{name: "a later line does not verify", o: func(c *cutting, o *evidence.Options) {
		text := textOf(c.Model, c.size)
		o.Cosigned = []byte(text + "\n" + by1(bit(30))(c.Model, text))
	}, want: errCosign},
	{name: "later lines make up the quorum", cut: cosignedBy(func(m *Model, text string) string {
		return cosignature(m, text, SeedW1, CosignedAt)
	}), o: func(c *cutting, o *evidence.Options) {
		text := textOf(c.Model, c.size)
		o.Cosigned = []byte(text + "\n" + cosignature(c, text, seedW2, CosignedAt))
	}, then: witnessedBy(evidence.None)},
}, excerptEntryMiscuts, excerptArchiveMiscuts, excerptCallerMiscuts)

// faults of entries.
var excerptEntryMiscuts = []miscut{
	{name: "a line feed at its end", cut: line(1, func(b []byte) []byte { return append(b, '\n') }), want: errEncoding},
	{name: "nothing", cut: line(1, func([]byte) []byte { return nil }), want: errEncoding},
	{name: "a space", cut: line(0, func(b []byte) []byte {
		return bytes.Replace(b, []byte(`{"payload":`), []byte(`{"payload": `), 1)
	}), want: errEncoding},
	{name: "32,769 bytes", cut: line(1, func(b []byte) []byte { return append(b, make([]byte, 32_769-len(b))...) }),
		want: errEncoding},
	{name: "a stub", cut: line(1, func([]byte) []byte { return []byte(`{"stub":{"decision":2}}`) }), want: errRecord},
	{name: "its stub", cut: func(c *cutting) {
		sealed, err := new(contracts.Reader).Open(c.lines[1])
		require.NoError(c, err)
		st, err := sealed.Statement()
		require.NoError(c, err)
		c.lines[1] = contracts.NewStub(st, contracts.Entry(c.lines[1]).Hash(), 2).Append(nil)
	}, want: errRecord},
	{name: "a gap", cut: line(1, func([]byte) []byte { return []byte(`{"gap":{"from":2,"nodes":[],"to":3}}`) }),
		want: errEnvelope},
	{name: "another payload type", log: func(m *Model) {
		m.The("a2").sealed = func(b []byte) []byte {
			return bytes.Replace(b, []byte("application/vnd.in-toto+json"), []byte("application/json"), 1)
		}
	}, want: errEnvelope},
	{name: "a bit of its signature", cut: func(c *cutting) {
		env := parseObject(c, c.lines[1])
		sig := base64Of(c, sigOf(env)["sig"])
		sig[40] ^= 1
		sigOf(env)["sig"] = encoded(sig)
		c.lines[1] = canonical(env)
	}, want: errSignature},
	{name: "a bit of what is signed", cut: func(c *cutting) {
		env := parseObject(c, c.lines[0])
		env["payload"] = encoded(bytes.Replace(base64Of(c, env["payload"]), []byte(`"risk":"low"`),
			[]byte(`"risk":"bow"`), 1))
		c.lines[0] = canonical(env)
	}, want: errSignature},
	{name: "a stranger signs", log: func(m *Model) { m.The("a2").by = SeedX }, want: errKey},
	{name: "the log key signs", log: func(m *Model) { m.The("a2").by = SeedL }, want: errKey},
	{name: "an approver signs", log: func(m *Model) { m.The("a1").by = SeedA }, want: errKey},
	{name: "a key that comes later signs", log: func(m *Model) { m.The("a2").by = seedK2 }, want: errKey},
	{name: "a revoked key signs", of: "y2", log: func(m *Model) { m.The("y2").by = SeedK1 }, want: errKey},
	{name: "a revoked key signs, and its proof says an earlier index", of: "y2",
		log: func(m *Model) { m.The("y2").by = SeedK1 }, cut: func(c *cutting) { c.at[0], c.at[1] = 2, 3 }, want: errKey},
	{name: "all of it by revoked keys, and proofs of earlier indexes", of: "y2", log: func(m *Model) {
		m.The("y1").by, m.The("y2").by = SeedK1, SeedK1
	}, cut: func(c *cutting) { c.at[0], c.at[1] = 2, 3 }, want: errMerkle},
	{name: "another key in the header", log: func(m *Model) {
		m.The("a2").linked = func(st Object) { st["predicate"].(Object)["key"] = keyHex(m, seedK2) }
	}, want: errKey},
	{name: "a wrong record", log: setP("a2", "verdict", "DENY"), want: errRecord},
	{name: "a wrong hash of its own", log: left("a2", func(p Object) { p["outputHash"] = ones64 }), want: errRecord},
	{name: "a wrong decision", log: setD("a1", "condition", 7), want: errRecord},
	{name: "no receipt, but a decision", cut: kind(1, "f1"), want: errRecord},
	{name: "no receipt, but a policy", cut: kind(1, "p"), want: errRecord},
	{name: "no decision, but a receipt", cut: kind(0, "d1"), want: errRecord},
	{name: "the two exchanged", pack: func(ms []Member) []Member {
		return exchanged(1, 3, false)(exchanged(2, 4, false)(ms))
	}, want: errRecord},

	{name: "the decision of another call", of: "f2", cut: kind(0, "a1"), want: errReference},
	{name: "the like decision of another session", of: "b2", cut: kind(0, "f1"), want: errReference},
	{name: "the like decision of another call", of: "m1", log: func(m *Model) {
		m.The("n2").D()["argsHash"] = m.The("n1").D()["argsHash"]
		m.The("m2").P()["argsHash"] = m.The("n1").D()["argsHash"]
	}, cut: kind(0, "n2"), want: errReference},
	{name: "the decision of an open call", cut: func(c *cutting) {
		kind(0, "o")(c)
	}, want: errReference},
	{name: "a decision that is not in the log", cut: reforged(0, func(p Object) { p["lamport"] = 7 }), want: errReference},
	{name: "the two at one index", cut: func(c *cutting) { c.at[1] = c.at[0] }, want: errReference},
	{name: "the decision after the receipt", cut: func(c *cutting) { c.at[0] = c.at[1] + 1 }, want: errReference},
	{name: "another session", of: "f2", log: func(m *Model) {
		f2 := m.The("f2")
		f2.P()["session"] = "s2"
		f2.parents = []*Node{m.The("f1")}
		m.relink()
	}, want: errReference},
	{name: "another session, and nothing else", log: func(m *Model) {
		m.The("a2").linked = func(st Object) {
			p := st["predicate"].(Object)
			p["session"], p["seq"], p["prev"], p["parents"] = "s2", 99, ones64, []any{m.The("a1").hash}
		}
	}, want: errReference},
	{name: "an earlier seq", log: func(m *Model) {
		m.The("a2").linked = func(st Object) {
			p := st["predicate"].(Object)
			p["seq"], p["prev"], p["parents"] = 0, ones64, []any{m.The("a1").hash}
		}
	}, want: errReference},
	{name: "not after the entry before", log: func(m *Model) {
		m.The("a2").linked = func(st Object) {
			p := st["predicate"].(Object)
			p["prev"], p["parents"] = ones64, []any{m.The("a1").hash}
		}
	}, want: errReference},
	{name: "the entry before, and a seq between", log: left("a2", func(p Object) { p["seq"] = 9 }), want: errReference},
	{name: "an earlier lamport", log: left("a2", func(p Object) { p["lamport"] = 1 }), want: errReference},
	{name: "an earlier time", log: setP("a2", "time", "2026-01-01T00:00:00.000Z"), want: errReference},
	{name: "other arguments", log: setP("a2", "argsHash", ones64), want: errReference},
	{name: "another tool", log: setP("a2", "tool", "fs.list"), want: errReference},
	{name: "settled, and nothing was charged", log: setP("a2", "settled",
		[]any{Object{"amount": 1, "budget": "P1:files:reads"}}), want: errBudget},
	{name: "a charge that is not settled", log: setD("a1", "charges", charge(0, 1, 3)), want: errBudget},
}

// faults of the archive, and of blobs.
var excerptArchiveMiscuts = []miscut{
	{name: "a decision with a denial", of: "d1", cut: func(c *cutting) {
		c.lines, c.at, c.path = append(c.lines, nil), append(c.at, 3), append(c.path, c.path[0])
		c.lines[1], c.at[1], c.path[1] = c.lines[0], c.at[0], c.path[0]
		c.of = []int{2, c.of[0]}
		kind(0, "a1")(c)
	}, want: errArchive},
	{name: "no decision", cut: func(c *cutting) {
		c.lines, c.at, c.path, c.of = c.lines[1:], c.at[1:], c.path[1:], c.of[1:]
	}, want: errArchive},
	{name: "no entry", pack: func(ms []Member) []Member { return ms[:1] }, want: errArchive},
	{name: "no member", pack: func([]Member) []Member { return nil }, want: errArchive},
	{name: "no proof of the receipt", pack: func(ms []Member) []Member { return ms[:4] }, want: errArchive},
	{name: "without the decision's proof", pack: func(ms []Member) []Member { return slices.Delete(ms, 2, 3) },
		want: errArchive},
	{name: "a decision without proof", of: "d1", pack: func(ms []Member) []Member {
		return slices.Insert(ms, 1, Member{Name: "decision", Body: ms[1].Body})
	}, want: errArchive},
	{name: "the receipt first", pack: func(ms []Member) []Member {
		return exchanged(1, 3, true)(exchanged(2, 4, true)(ms))
	}, want: errArchive},
	{name: "the checkpoint last", pack: exchanged(0, 4, true), want: errArchive},
	{name: "a proof first", pack: exchanged(1, 2, true), want: errArchive},
	{name: "blobs in another order", pack: func(ms []Member) []Member { return exchanged(5, 6, true)(ms) },
		want: errArchive},
	{name: "a blob twice", pack: func(ms []Member) []Member { return slices.Insert(ms, 6, ms[5]) }, want: errArchive},
	{name: "a receipt twice", pack: func(ms []Member) []Member { return slices.Insert(ms, 5, ms[3], ms[4]) },
		want: errArchive},
	{name: "a manifest", pack: func(ms []Member) []Member {
		return slices.Insert(ms, 0, Member{Name: "manifest.json"})
	}, want: errArchive},
	{name: "a member more", pack: func(ms []Member) []Member { return append(ms, Member{Name: "README"}) },
		want: errArchive},
	{name: "a member between", pack: func(ms []Member) []Member {
		return slices.Insert(ms, 5, Member{Name: "entries.jsonl"})
	}, want: errArchive},
	{name: "another mode", pack: func(ms []Member) []Member {
		ms[3].Head = func(h []byte) { copy(h[100:], "0000755\x00") }
		return ms
	}, want: errArchive},
	{name: "padding", pack: func(ms []Member) []Member { ms[4].Pad = 1; return ms }, want: errArchive},
	{name: "one zero block", raw: func(b []byte) []byte { return b[:len(b)-TarBlock] }, want: errArchive},
	{name: "a byte more", raw: func(b []byte) []byte { return append(b, 0) }, want: errArchive},
	{name: "two of them", raw: func(b []byte) []byte { return append(b, b...) }, want: errArchive},
	{name: "a pack", pack: func(ms []Member) []Member {
		return []Member{{Name: "manifest.json"}, ms[0], {Name: "entries.jsonl"}}
	}, want: errArchive},
	{name: "of no bytes", raw: func([]byte) []byte { return nil }, want: errArchive},
	{name: "text", raw: func([]byte) []byte { return []byte("c2sp.org/tlog-proof@v1\n") }, want: errArchive},

	{name: "a blob that neither names", cut: func(c *cutting) { c.blobs[HexSum([]byte("x"))] = []byte("x") },
		want: errBlob},
	{name: "a blob of a denial that it does not name", of: "d1", cut: func(c *cutting) {
		c.blobs[HexSum(nil)] = nil
	}, want: errBlob},
	{name: "the inputs of another call", cut: func(c *cutting) {
		name := c.The("f1").D()["inputsHash"].(string)
		c.blobs[name] = c.Blobs[name]
	}, want: errBlob},
	{name: "a policy document", cut: func(c *cutting) { c.blobs[Document(c.Model)] = c.Blobs[Document(c.Model)] },
		want: errBlob},
	{name: "the module", of: "y2", log: func(m *Model) {
		m.The("y2").P()["sandbox"].(Object)["module"] = m.blob([]byte("wasm, and more"))
		m.inputs(m.The("y1"), func(in Object) { in["sandbox"].(Object)["module"] = HexSum([]byte("wasm, and more")) })
	}, cut: func(c *cutting) {
		name := HexSum([]byte("wasm, and more"))
		c.blobs[name] = c.Blobs[name]
	}, want: errBlob},
	{name: "other inputs", pack: func(ms []Member) []Member { ms[5].Body[20] ^= 1; return ms }, want: errBlob},
	{name: "another output", pack: func(ms []Member) []Member { ms[6].Body[2] ^= 1; return ms }, want: errBlob},
	{name: "no bytes of a blob", pack: member(5, nil), want: errBlob},
	{name: "inputs that are not canonical", log: func(m *Model) {
		d := m.The("a1").D()
		was := d["inputsHash"].(string)
		d["inputsHash"] = m.blob(append(bytes.Clone(m.Blobs[was]), ' '))
		delete(m.Blobs, was)
	}, want: errBlob},
	{name: "an output that is not canonical", log: output("a2", "jcs", `{"text": "a"}`), want: errBlob},
	{name: "facts that are none", log: func(m *Model) { m.The("a2").P()["factsHash"] = m.blob([]byte(`{"/a":1}`)) },
		want: errBlob},
}

// what callers pass.
var excerptCallerMiscuts = []miscut{
	{name: "no trust root", o: func(_ *cutting, o *evidence.Options) { o.Trust = nil }, want: errInput},
	{name: "two trust roots", o: func(c *cutting, o *evidence.Options) { o.Kernel = Public(c, SeedK1) }, want: errInput},
	{name: "a pinned key", o: func(c *cutting, o *evidence.Options) { o.Trust, o.Kernel = nil, Public(c, SeedK1) },
		then: unlogged},
	{name: "another pinned key", o: func(c *cutting, o *evidence.Options) { o.Trust, o.Kernel = nil, Public(c, seedK2) },
		want: errKey},
	{name: "a pinned key, and a bit", cut: func(c *cutting) {
		env := parseObject(c, c.lines[1])
		sig := base64Of(c, sigOf(env)["sig"])
		sig[4] ^= 1
		sigOf(env)["sig"] = encoded(sig)
		c.lines[1] = canonical(env)
	}, o: func(c *cutting, o *evidence.Options) { o.Trust, o.Kernel = nil, Public(c, SeedK1) }, want: errSignature},
	{name: "a pinned key that signed one of two", of: "u2", log: func(m *Model) { m.The("u1").by = SeedK1 },
		o: func(c *cutting, o *evidence.Options) { o.Trust, o.Kernel = nil, Public(c, SeedK1) }, want: errKey},
	{name: "an earlier state", of: "y2", o: func(c *cutting, o *evidence.Options) { o.Trust = State(c) }, want: errKey},
	{name: "the state of another log", o: func(c *cutting, o *evidence.Options) {
		o.Trust = StateOf(c, 0, SeedX, SeedL, registry.Key{Name: "kernel 2", Public: Public(c, seedK2),
			Role: registry.Kernel})
	}, want: errKey},
	{name: "another origin", o: func(_ *cutting, o *evidence.Options) { o.Origin = Origin + "2" }, want: errCheckpoint},
	{name: "no origin", o: func(_ *cutting, o *evidence.Options) { o.Origin = "a b" }, want: errInput},
	{name: "no quorum", o: func(_ *cutting, o *evidence.Options) { o.Quorum = 0 }, want: errInput},
	{name: "no level", o: func(_ *cutting, o *evidence.Options) { o.Level = 9 }, want: errInput},
	{name: "a last one that is none", o: func(_ *cutting, o *evidence.Options) { o.Last = []byte{} }, want: errInput},
	{name: "the same one is the last", o: last(43, rootAt(43)), then: witnessedBy(evidence.Fresh)},
	{name: "another root was the last", o: last(43, rootAt(42)), then: witnessedBy(evidence.Diverged)},
	{name: "an earlier one was the last", o: last(20, rootAt(20)), then: witnessedBy(evidence.Unknown)},
	{name: "a wrong earlier one was the last", o: last(20, rootAt(21)), then: witnessedBy(evidence.Unknown)},
	{name: "a later one was the last", o: last(44, rootAt(43)), then: witnessedBy(evidence.Unknown)},
	{name: "the last one is of another log", o: func(c *cutting, o *evidence.Options) {
		o.Last, o.Origin = LastOf(c.Model, 43, rootAt(43)(c), Origin+"2"), ""
	}, want: errInput},
	{name: "a line of the last one does not verify", o: func(c *cutting, o *evidence.Options) {
		text := textOf(c.Model, 43)
		o.Last = []byte(text + "\n" + noteLine(c.Model, signWith(c, seedK2, []byte(text)), SeedL))
	}, want: errInput},
}

// TestExcerptTampered runs the rows of the catalogue that are of excerpts, and those of this
// version's own.
func TestExcerptTampered(t *testing.T) {
	race.Alone(t)
	maker := BaseLog(t)
	maker.Checkpoint()
	base := maker.Pack(evidence.Write)
	names := map[string]bool{}
	for _, x := range miscuts {
		key := x.id + "/" + x.name
		require.False(t, names[key] || key == "/", "two rows %q", key)
		names[key] = true
		t.Run(strings.Trim(key, "/"), func(t *testing.T) {
			if x.id != "" {
				ranRow(t, x.id)
			}
			x.run(t, base, maker.state)
		})
	}
}

func (x *miscut) run(t *testing.T, base []byte, state *registry.State) {
	of := x.of
	if of == "" {
		of = "a2"
	}
	taken := func(log func(*Model)) *cutting {
		m := TakeApart(t, base)
		if log != nil {
			log(m)
			m.Build()
		}
		return cut(m, m.index(m.The(of)), len(m.Nodes), true)
	}
	archive := func(c *cutting, pack func([]Member) []Member) []byte {
		ms := c.members()
		for i := range ms {
			ms[i].Body = bytes.Clone(ms[i].Body)
		}
		if pack != nil {
			ms = pack(ms)
		}
		return TarOf(ms)
	}
	whole := taken(nil)
	good := archive(whole, nil)
	o := evidence.Options{Trust: state, Origin: Origin, Witnesses: WitnessKeys(t), Quorum: 2}
	r, err := verifyExcerpt(t, good, o)
	require.True(t, err == nil && r.Success(0), "the excerpt to be falsified: %+v, %v", r, err)
	takes := Allocated(func() { _, _ = verifyExcerpt(t, good, o) })

	c := taken(x.log)
	if x.cut != nil {
		x.cut(c)
	}
	bad := archive(c, x.pack)
	if x.raw != nil {
		bad = x.raw(bad)
	}
	falsified := x.log != nil || x.cut != nil || x.pack != nil || x.raw != nil
	require.True(t, falsified || x.o != nil, "the row does nothing")
	assert.True(t, x.o != nil || !bytes.Equal(good, bad), "nothing was falsified")
	if x.o != nil {
		x.o(c, &o)
	}
	used := Allocated(func() { r, err = verifyExcerpt(t, bad, o) })
	assert.True(t, used <= takes+takes/4+4*uint64(len(bad)), "%d bytes were allocated, %d for the valid one", used, takes)
	if x.want == nil {
		assert.True(t, err == nil && r.Level == x.then.Level && r.History == x.then.History && r.Signer == x.then.Signer,
			"%s, %s, %s, %v", r.Level, r.History, r.Signer, err)
		asked := r.Level >= evidence.Witnessed && (r.History == evidence.None || r.History == evidence.Fresh)
		assert.Equal(t, asked, r.Success(0))
		return
	}
	mustRefuse(t, r, err, x.want)
	if r.Fault == nil {
		return
	}
	placed := r.Fault.Field != "" || len(bad) < TarBlock
	assert.True(t, placed, "%v has no place", r.Fault)
	ofEntries := slices.Contains([]error{errEncoding, errEnvelope, errKey, errSignature, errRecord, errReference,
		errBudget}, x.want)
	assert.True(t, !ofEntries || r.Fault.Entry >= 0 && (strings.HasPrefix(r.Fault.Field, "receipt") ||
		strings.HasPrefix(r.Fault.Field, "decision")), "%v", r.Fault)
}
