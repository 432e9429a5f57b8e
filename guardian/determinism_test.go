package guardian

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// spelt writes a document in YAML, its keys in any order, in block or flow style.
func spelt(t testing.TB, v any, r *rand.Rand, indent string) string {
	word := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		var parts []string
		if len(v) == 0 || indent == "" && r.IntN(4) == 0 || indent != "" && r.IntN(2) == 0 {
			for _, k := range keys {
				parts = append(parts, word(k)+": "+flow(t, v[k], r))
			}
			return "{" + strings.Join(parts, " , ") + "}"
		}
		for _, k := range keys {
			parts = append(parts, "\n"+indent+word(k)+":   "+spelt(t, v[k], r, indent+"  "))
		}
		return strings.Join(parts, " # a comment")
	case []any:
		if len(v) == 0 || r.IntN(2) == 0 {
			return flow(t, v, r)
		}
		var b strings.Builder
		for _, e := range v {
			b.WriteString("\n" + indent + "- " + flow(t, e, r))
		}
		return b.String()
	}
	return flow(t, v, r)
}

func flow(t testing.TB, v any, r *rand.Rand) string {
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return shuffled(t, string(b), r)
}

// Deterministic judges the calls of 40 random stacks, one after the other, and returns the digest
// of everything that is hashed, signed or said. The stacks and calls are always the same; how
// documents are spelt, and in what order they are handed in, is random. parse reads YAML.
func Deterministic(t testing.TB, shuffle uint64, parse func(string, []byte) (contracts.Document, error)) string {
	g, r := newWide(t, 91), rand.New(rand.NewPCG(shuffle, 1))
	sum := sha256.New()
	var judged []func() bool // makes a decision again
	reasons := map[contracts.ReasonCode]int{}
	for n := 0; n < 40; {
		docs := g.stack(t)
		p := wide(t, docs)
		if p == nil {
			continue
		}
		n++
		var mixed []contracts.Document
		for i, d := range docs {
			text := spelt(t, map[string]any(d), r, "")
			x, err := parse(strconv.Itoa(i), []byte(text))
			require.NoError(t, err, "%v\n%s", err, text)
			require.True(t, bytes.Equal(x.Canonical, canonical(t, d.text())), "another document:\n%s\n%s", x.Canonical,
				text)
			mixed = append(mixed, x)
		}
		r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		p, err := Compile(mixed...)
		require.NoError(t, err)
		sum.Write(p.hash[:])
		past := newTold()
		for seq := range uint64(25) {
			in := g.ask(t, p)
			if in.ArgsForm == "" {
				again := inputs(t, in.Tool, shuffled(t, string(in.Args.Append(nil)), r))
				in.Args = again.Args
				require.Equal(t, again.ArgsHash, in.ArgsHash, "another order of keys, another argsHash")
			}
			in.State.Trust = g.state.Digest()
			d, why := g.consult(t, p, &in, past, pick(g.generator, approvers...))
			reasons[d.Reason]++
			blob := in.Append(nil)
			d.Seal(in.Session, seq, crypto.Sum(blob))
			text := d.Append(nil)
			sum.Write(append(append(blob, text...), why.String()...))
			judged = append(judged, func() bool {
				read, err := contracts.ParseInputs(blob)
				if err != nil {
					return false
				}
				again, whyAgain := p.judged(*read, g.state)
				again.Seal(read.Session, seq, crypto.Sum(blob))
				return bytes.Equal(again.Append(nil), text) && reflect.DeepEqual(whyAgain, why)
			})
			past.add(t, &in, &d)
		}
	}
	// Many at once say the same, from the inputs alone.
	var wg sync.WaitGroup
	for from := range 8 {
		wg.Go(func() {
			for i := from; i < len(judged); i += 8 {
				assert.True(t, judged[i](), "decision %d is another from its inputs", i)
			}
		})
	}
	wg.Wait()
	assert.True(t, len(judged) == 1000 && reasons[contracts.ReasonAllow] >= 80 && len(reasons) >= 12,
		"%d decisions: %v", len(judged), reasons)
	return crypto.Digest(sum.Sum(nil)).String()
}
