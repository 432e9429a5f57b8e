// Package cosign verifies the cosignatures of checkpoints: C2SP tlog-cosignature, version 1, by
// Ed25519.
//
// A witness is named by its verifier key, name+hash+base64 of 0x04 and the 32 bytes of the public
// key. The hash is the first 4 bytes of SHA-256 over the name, a line feed, 0x04 and the public
// key, in 8 lower-case hex digits. Its line at the end of a checkpoint has the same name and hash,
// and then 8 bytes of time, in seconds since 1970, and a signature of 64 bytes over
//
//	cosignature/v1
//	time 1790000000
//	example.test/log
//	43
//	6fzyXBGEivgEGjO61n0/XTq/G8IDdjvqxzO8v22dOG4=
//
// each line with its line feed. A time of 0, or above 2^63-1, makes no valid signature.
//
// The verifier keys of logs have 0x01 in the place of 0x04, and are the same otherwise.
//
// The package has no clock: whether a time is right is for its callers to say.
package cosign

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// A Witness cosigns checkpoints.
type Witness struct{ Key }

// Parse reads the verifier keys of witnesses. No two may have the same name or the same public key:
// one witness would count as two. The error says which is wrong, counted from 1.
func Parse(vkeys []string) ([]Witness, error) {
	list := make([]Witness, 0, len(vkeys))
	names, keys := map[string]int{}, map[string]int{}
	for i, vkey := range vkeys {
		k, err := parseKey(vkey, witnessKey)
		switch {
		case err != nil:
			return nil, fmt.Errorf("witness %d: %w", i+1, err)
		case names[k.Name] > 0:
			return nil, fmt.Errorf("witness %d: it has the name of witness %d", i+1, names[k.Name])
		case keys[string(k.Public)] > 0:
			return nil, fmt.Errorf("witness %d: it has the public key of witness %d", i+1, keys[string(k.Public)])
		}
		names[k.Name], keys[string(k.Public)] = i+1, i+1
		list = append(list, Witness{k})
	}
	return list, nil
}

// CheckQuorum returns an error if so many of n witnesses are no quorum. Of none it is 0.
func CheckQuorum(quorum, n int) error {
	switch {
	case n == 0 && quorum != 0:
		return errors.New("given without Witnesses")
	case n > 0 && (quorum < 1 || quorum > n):
		return fmt.Errorf("%d of %d witnesses: not 1 to as many as there are", quorum, n)
	}
	return nil
}

// AppendLine appends a signature line of a note, with its line end.
func AppendLine(b []byte, line proofgraph.SignatureLine) []byte {
	b = append(append(append(b, "— "...), line.Name...), ' ')
	raw := append(binary.BigEndian.AppendUint32(nil, line.KeyHash), line.Signature...)
	return append(crypto.AppendBase64(b, raw), '\n')
}

// Verify reports whether the line is a cosignature of the checkpoint by the witness, and returns
// its time. The checkpoint must be one that was parsed.
func (w *Witness) Verify(c proofgraph.Checkpoint, line proofgraph.SignatureLine) (time int64, ok bool) {
	body, _, parsed := bytes.Cut(c.Note, []byte("\n\n"))
	if !parsed || !w.Names(line) || len(line.Signature) != 8+64 {
		return 0, false
	}
	at := binary.BigEndian.Uint64(line.Signature)
	if at == 0 || at > math.MaxInt64 {
		return 0, false
	}
	message := fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s\n", at, body)
	return int64(at), crypto.Verify(w.Public, message, line.Signature[8:])
}
