package lastseen_test

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/lastseen"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// Seeds of the log keys: of the first one, of one that is added later, and of a stranger's.
const (
	log1 = 2
	log2 = kerneltest.Log2
)

// leaf returns the hash of an entry.
func leaf(i uint64) contracts.Digest { return crypto.LeafHash([]byte{byte(i)}) }

// rootOf returns the root of the first n entries.
func rootOf(n uint64) contracts.Digest {
	var tree proofgraph.Tree
	for i := range n {
		tree.Append(leaf(i))
	}
	return tree.Root()
}

// body returns the signed text of a checkpoint.
func body(size uint64, root contracts.Digest) string {
	return fmt.Sprintf("%s\n%d\n%s\n", kerneltest.Origin, size, crypto.AppendBase64(nil, root[:]))
}

// line returns a line that names a key, with the key's signature of a text.
func line(t *testing.T, name string, seed byte, text string) string {
	t.Helper()
	_, rest, _ := strings.Cut(proofgraph.VerifierKey(kerneltest.Origin, kerneltest.Public(t, seed)), "+")
	digits, _, _ := strings.Cut(rest, "+")
	hash, err := strconv.ParseUint(digits, 16, 32)
	require.NoError(t, err)
	sig, err := crypto.Sign(kerneltest.SeedKey(t, seed), []byte(text))
	require.NoError(t, err)
	return "— " + name + " " +
		string(crypto.AppendBase64(nil, append(binary.BigEndian.AppendUint32(nil, uint32(hash)), sig...))) + "\n"
}

// states returns the trust state after each entry of a log in which entry 3 adds a second log key
// and entry 6 revokes the first one.
func states(t *testing.T, n uint64) []*registry.State {
	t.Helper()
	state, err := kerneltest.Governors(t).Initial(kerneltest.Public(t, 1), kerneltest.Public(t, log1))
	require.NoError(t, err)
	adds, err := contracts.TrustEvent{Origin: kerneltest.Origin, Version: 2, Type: "key", Name: "second",
		Role: string(registry.Log)}.Prove(kerneltest.SeedKey(t, log2))
	require.NoError(t, err)
	events := map[uint64]contracts.TrustEvent{3: adds, 6: {Origin: kerneltest.Origin, Version: 3, Type: "revoke",
		ID: kerneltest.KeyID(t, log1), Why: "rotated"}}
	var list []*registry.State
	for i := range n {
		if e, ok := events[i]; ok {
			record, err := contracts.ParseTrust(kerneltest.SignEvent(t, e, kerneltest.Root1, kerneltest.Root2))
			require.NoError(t, err)
			state, err = state.Apply(record, kerneltest.Origin, i)
			require.NoError(t, err)
		}
		list = append(list, state)
	}
	return list
}

// read has the checkpoint read the first n entries of the log, and returns what it says.
func read(c *lastseen.Checkpoint, n uint64, trust []*registry.State) error {
	if err := c.Begin(n, trust[0]); err != nil {
		return err
	}
	for i := range n {
		c.Add(leaf(i), trust[i])
	}
	return c.Err()
}

// A line is held against the log keys that are valid at the checkpoint's size, and against no
// other: not one that was revoked before it, or added after it, whatever the log says at its end.
func TestKeysAtItsSize(t *testing.T) {
	t.Parallel()
	const n = 9
	trust := states(t, n)
	for size := range uint64(n + 1) {
		text := body(size, rootOf(size))
		for seed, counts := range map[byte]bool{log1: size <= 6, log2: size >= 4, kerneltest.Stranger: false, 1: false} {
			good := line(t, kerneltest.Origin, seed, text)
			changed := line(t, kerneltest.Origin, seed, text+"not this")
			renamed := line(t, "another.name", seed, text+"not this")
			for name, lines := range map[string]string{"good": good, "changed": changed, "under another name": renamed,
				"changed, after a good one": good + changed, "changed, before a good one": changed + good} {
				c, err := lastseen.Parse([]byte(text+"\n"+lines), kerneltest.Origin)
				require.NoError(t, err)
				err = read(c, n, trust)
				if what := fmt.Sprintf("size %d, key %d: %s", size, seed, name); counts && strings.Contains(name, "changed") {
					assert.ErrorContains(t, err, "a line of a log key does not verify", what)
				} else {
					assert.NoError(t, err, what)
				}
			}
		}
	}
}

// Of logs of every size, those extend a checkpoint that have its size or more, and its root there.
func TestExtends(t *testing.T) {
	t.Parallel()
	const n = 7
	trust := states(t, n)
	stranger := "— a.witness " + string(crypto.AppendBase64(nil, make([]byte, 68))) + "\n"
	kept := func(size uint64, root contracts.Digest) *lastseen.Checkpoint {
		c, err := lastseen.Parse([]byte(body(size, root)+"\n"+stranger), kerneltest.Origin)
		require.NoError(t, err)
		return c
	}
	for size := range uint64(n + 1) {
		for log := range uint64(n + 1) {
			err := read(kept(size, rootOf(size)), log, trust)
			if log >= size {
				assert.NoError(t, err, "%d entries, a checkpoint of %d", log, size)
			} else {
				assert.ErrorContains(t, err, fmt.Sprintf("the store has %d entries, and the checkpoint is of %d", log, size))
			}
		}
		other := rootOf(size + 1)
		assert.ErrorContains(t, read(kept(size, other), n, trust), "not those of the checkpoint", "size %d", size)
	}
	short := kept(3, rootOf(3))
	require.NoError(t, short.Begin(3, trust[0]))
	short.Add(leaf(0), trust[0])
	assert.Error(t, short.Err(), "a store that showed fewer entries than it said")
	assert.NoError(t, read(nil, n, trust), "no checkpoint")
}

func TestParse(t *testing.T) {
	t.Parallel()
	text := body(2, rootOf(2))
	good := text + "\n" + line(t, kerneltest.Origin, log1, text)
	c, err := lastseen.Parse([]byte(good), kerneltest.Origin)
	require.NoError(t, err)
	require.Equal(t, uint64(2), c.Size)
	c, err = lastseen.Parse(nil, kerneltest.Origin)
	assert.True(t, c == nil && err == nil, "no note: %v", err)
	for name, x := range map[string]struct{ note, origin, says string }{
		"an empty file":  {"", kerneltest.Origin, "checkpoint"},
		"cut":            {good[:len(good)-1], kerneltest.Origin, "checkpoint"},
		"of another log": {good, "b.test", "a checkpoint of the log " + kerneltest.Origin + ", and this is b.test"},
	} {
		_, err := lastseen.Parse([]byte(x.note), x.origin)
		assert.ErrorContains(t, err, x.says, name)
	}
}
