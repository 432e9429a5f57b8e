package forge

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Finding is a report in the words of the second implementation of the formats, but for its
// errors.
type Finding struct {
	Success                           bool
	Level                             string
	History, Signer                   string
	Origin                            string
	Size, Sessions, Receipts          uint64
	Allows, Denies                    uint64
	Open, Erased                      []string
	MerkleRoot, ProofGraphHash, Trust string
	Replay                            struct{ Compared, Refusals, NotReplayable, Differing, Unseen uint64 }
}

// FindingOf returns r, an evidence.Report without a fault, as a Finding.
func FindingOf(t testing.TB, r json.Marshaler) Finding {
	t.Helper()
	var f struct {
		Finding
		Denials uint64
		Open    []struct{ ID string }
		Replay  struct{ Replayed, KernelsOwn, NotReplayable, Differing, Unseen uint64 }
	}
	b, err := r.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	require.NoError(t, err)
	x := f.Replay
	f.Finding.Denies, f.Finding.Open = f.Denials, []string{}
	f.Finding.Replay.Compared, f.Finding.Replay.Refusals = x.Replayed, x.KernelsOwn
	f.Finding.Replay.NotReplayable, f.Finding.Replay.Differing = x.NotReplayable, x.Differing
	f.Finding.Replay.Unseen = x.Unseen
	for _, x := range f.Open {
		f.Finding.Open = append(f.Finding.Open, x.ID)
	}
	slices.Sort(f.Finding.Open)
	return f.Finding
}
