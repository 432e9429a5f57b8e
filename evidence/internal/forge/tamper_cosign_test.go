package forge

import (
	"fmt"
	"math"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
)

// cosigned has the log's line, and then whatever cosignatures.
func cosigned(lines func(m *Model, text string) string) func(*Model) {
	return marked(func(m *Model, text string) []byte {
		return append(signNote(m, text, Origin, SeedL), lines(m, text)...)
	})
}

// afterwards passes a checkpoint with whatever lines as Options.Cosigned.
func afterwards(note func(m *Model, text string) string) func(*Model, *evidence.Options) {
	return func(m *Model, o *evidence.Options) { o.Cosigned = []byte(note(m, textOf(m, len(m.Nodes)))) }
}

// textOf returns the checkpoint of the first n entries, unsigned.
func textOf(m *Model, n int) string {
	root := rootOf(m, n)
	return fmt.Sprintf("%s\n%d\n%s\n", Origin, n, crypto.AppendBase64(nil, root[:]))
}

// respelt changes the bytes of a line: hash, time and signature.
func respelt(m *Model, line string, change func(b []byte) []byte) string {
	at := strings.LastIndex(line, " ") + 1
	b := change(base64Of(m, strings.TrimSuffix(line[at:], "\n")))
	return line[:at] + string(crypto.AppendBase64(nil, b)) + "\n"
}

func bit(at int) func([]byte) []byte {
	return func(b []byte) []byte { b[at] ^= 1; return b }
}

// by1 is W1's line with a change, and then W2's.
func by1(change func([]byte) []byte) func(*Model, string) string {
	return func(m *Model, text string) string {
		return respelt(m, cosignature(m, text, SeedW1, CosignedAt), change) + cosignature(m, text, seedW2, CosignedAt)
	}
}

// at1 is W1's line at another time, and then W2's.
func at1(seconds uint64) func(*Model, string) string {
	return func(m *Model, text string) string {
		return cosignature(m, text, SeedW1, seconds) + cosignature(m, text, seedW2, CosignedAt)
	}
}

// witnesses changes the policy about them.
func witnesses(quorum int, keys func(m *Model) []string) func(*Model, *evidence.Options) {
	return func(m *Model, o *evidence.Options) { o.Witnesses, o.Quorum = keys(m), quorum }
}

// key1 is a policy whose first witness has that key.
func key1(key func(m *Model) string) func(*Model, *evidence.Options) {
	return witnesses(2, func(m *Model) []string { return []string{key(m), WitnessKeys(m)[1]} })
}

// keyed does so with a verifier key that is well formed.
func keyed(name string, kind, seed byte) func(*Model, *evidence.Options) {
	return key1(func(m *Model) string { return CosignerKey(m, name, kind, seed) })
}

var logged = evidence.Report{Level: evidence.Logged, History: evidence.Fresh, Signer: evidence.Trusted}

// the cosignatures.
var cosignRows = []tampering{
	{id: "M15", cut: cosigned(func(m *Model, text string) string {
		return cosignature(m, textOf(m, 20), SeedW1, CosignedAt) + cosignature(m, text, seedW2, CosignedAt)
	}), want: errCosign},
	{id: "M16", cut: cosigned(func(m *Model, text string) string {
		return strings.Repeat(cosignature(m, text, SeedW1, CosignedAt), 2)
	}), then: logged},
	{id: "M17", cut: cosigned(func(m *Model, text string) string {
		return cosignatureBy(m, text, "x.example", SeedX, SeedX, CosignedAt) +
			cosignatureBy(m, text, "y.example", SeedB, SeedB, CosignedAt)
	}), then: logged},
	{id: "M18", cut: cosigned(func(m *Model, text string) string {
		return noteLineOf(m, text, Witness(SeedW1), SeedW1) + noteLineOf(m, text, Witness(seedW2), seedW2)
	}), then: logged},
	{id: "M19", cut: cosigned(by1(func(b []byte) []byte { b[11]++; return b })), want: errCosign},

	{id: "V04", name: "size", o: afterwards(func(m *Model, _ string) string {
		text := textOf(m, len(m.Nodes)-1)
		return string(signNote(m, text, Origin, SeedL)) + cosignatures(m, text)
	}), want: errCheckpoint},
	{id: "V04", name: "root", o: afterwards(func(m *Model, _ string) string {
		text := fmt.Sprintf("%s\n%d\n%s\n", Origin, len(m.Nodes), crypto.AppendBase64(nil, make([]byte, 32)))
		return string(signNote(m, text, Origin, SeedL)) + cosignatures(m, text)
	}), want: errCheckpoint},
	{id: "V12", o: witnesses(3, func(m *Model) []string { return WitnessKeys(m) }), want: errInput},

	{id: "own", name: "no cosignature", cut: cosigned(func(*Model, string) string { return "" }), then: logged},
	{id: "own", name: "a bit of the key hash", cut: cosigned(by1(bit(3))), then: logged},
	{id: "own", name: "a bit of the time", cut: cosigned(by1(bit(4))), want: errCosign},
	{id: "own", name: "a bit of R", cut: cosigned(by1(bit(12))), want: errCosign},
	{id: "own", name: "a bit of S", cut: cosigned(by1(bit(75))), want: errCosign},
	{id: "own", name: "a bit of the name", cut: cosigned(func(m *Model, text string) string {
		return strings.Replace(cosignatures(m, text), "w1.example", "w1.eyample", 1)
	}), then: logged},
	{id: "own", name: "a byte less", cut: cosigned(by1(func(b []byte) []byte { return b[:75] })), want: errCosign},
	{id: "own", name: "a byte more", cut: cosigned(by1(func(b []byte) []byte { return append(b, 0) })), want: errCosign},
	{id: "own", name: "a hash alone", cut: cosigned(by1(func(b []byte) []byte { return b[:5] })), want: errCosign},
	{id: "own", name: "time 0", cut: cosigned(at1(0)), want: errCosign},
	{id: "own", name: "time 2^63", cut: cosigned(at1(1 << 63)), want: errCosign},
	{id: "own", name: "the last time that there is", cut: cosigned(at1(math.MaxUint64)), want: errCosign},
	{id: "own", name: "a plain signature under the hash", cut: cosigned(func(m *Model, text string) string {
		return respelt(m, cosignature(m, text, SeedW1, CosignedAt), func(b []byte) []byte {
			return append(b[:4], signWith(m, SeedW1, []byte(text))...)
		})
	}), want: errCosign},
	{id: "own", name: "another witness signs", cut: cosigned(func(m *Model, text string) string {
		return cosignatureBy(m, text, Witness(SeedW1), SeedW1, seedW2, CosignedAt)
	}), want: errCosign},
	{id: "own", name: "another witness's key under the name", cut: cosigned(func(m *Model, text string) string {
		return cosignatureBy(m, text, Witness(SeedW1), seedW2, seedW2, CosignedAt) +
			cosignature(m, text, seedW2, CosignedAt)
	}), then: logged},
	{id: "own", name: "one that verifies, one that does not", cut: cosigned(func(m *Model, text string) string {
		return cosignatures(m, text) + respelt(m, cosignature(m, text, seedW2, CosignedAt), bit(20))
	}), want: errCosign},
	{id: "own", name: "without the log's line", cut: marked(func(m *Model, text string) []byte {
		return []byte(text + "\n" + respelt(m, cosignature(m, text, SeedW1, CosignedAt), bit(20)))
	}), want: errCosign},
	{id: "own", name: "of another origin", cut: cosigned(func(m *Model, text string) string {
		return cosignature(m, strings.Replace(text, Origin, Origin+"2", 1), SeedW1, CosignedAt)
	}), want: errCosign},
	{id: "own", name: "101 lines", cut: cosigned(func(m *Model, text string) string {
		return strings.Repeat(cosignatures(m, text), 50)
	}), want: errCheckpoint},

	{id: "own", name: "later, a line over another checkpoint", o: afterwards(func(m *Model, text string) string {
		return text + "\n" + cosignature(m, textOf(m, 20), SeedW1, CosignedAt)
	}), want: errCosign},
	{id: "own", name: "later, a bit", o: afterwards(func(m *Model, text string) string {
		return text + "\n" + by1(bit(30))(m, text)
	}), want: errCosign},
	{id: "own", name: "later, of another origin", o: afterwards(func(m *Model, text string) string {
		text = strings.Replace(text, Origin, Origin+"2", 1)
		return text + "\n" + cosignatures(m, text)
	}), want: errCheckpoint},
	{id: "own", name: "later, without lines", o: afterwards(func(_ *Model, text string) string { return text + "\n" }),
		want: errInput},
	{id: "own", name: "later, empty", o: afterwards(func(*Model, string) string { return "" }), want: errInput},
	{id: "own", name: "later, 101 lines", o: afterwards(func(m *Model, text string) string {
		return text + "\n" + strings.Repeat(cosignature(m, text, SeedW1, CosignedAt), 101)
	}), want: errInput},
	{id: "own", name: "later, an extension line", o: afterwards(func(m *Model, text string) string {
		text += "x\n"
		return text + "\n" + cosignatures(m, text)
	}), want: errInput},

	{id: "own", name: "no quorum", o: witnesses(0, func(m *Model) []string { return WitnessKeys(m) }), want: errInput},
	{id: "own", name: "a negative quorum", o: witnesses(-1, func(m *Model) []string { return WitnessKeys(m) }),
		want: errInput},
	{id: "own", name: "a quorum of nobody", o: witnesses(1, func(*Model) []string { return nil }), want: errInput},
	{id: "own", name: "one key twice", o: keyed("w3.example", 4, seedW2), want: errInput},
	{id: "own", name: "one name twice", o: keyed(Witness(seedW2), 4, SeedW1), want: errInput},
	{id: "own", name: "a key of notes", o: keyed(Witness(SeedW1), 1, SeedW1), want: errInput},
	{id: "own", name: "a key by ML-DSA", o: keyed(Witness(SeedW1), 6, SeedW1), want: errInput},
	{id: "own", name: "a hash of another name", o: key1(func(m *Model) string {
		return strings.Replace(WitnessKeys(m)[0], "w1", "w3", 1)
	}), want: errInput},
	{id: "own", name: "a key of small order", o: key1(func(*Model) string {
		return vkeyOf("w1.example", append([]byte{4, 1}, make([]byte, 31)...))
	}), want: errInput},
	{id: "own", name: "no key", o: key1(func(*Model) string { return "" }), want: errInput},
}

// vkeyOf returns a verifier key whose hash fits.
func vkeyOf(name string, key []byte) string {
	sum := crypto.Sum(append([]byte(name+"\n"), key...))
	return fmt.Sprintf("%s+%x+%s", name, sum[:4], crypto.AppendBase64(nil, key))
}
