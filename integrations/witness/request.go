package witness

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// maxProof is how many hashes a proof may have.
const maxProof = 63

// A request is the body of an add-checkpoint.
type request struct {
	old   uint64
	proof []contracts.Digest
	note  []byte
}

// parseRequest parses a body: an old size line, the lines of a proof, an empty line, and the note,
// of which it looks at nothing.
func parseRequest(body []byte) (request, error) {
	var q request
	head, note, ok := bytes.Cut(body, []byte("\n\n"))
	if !ok {
		return request{}, errors.New("no empty line before the checkpoint")
	}
	q.note = note
	for i, line := range bytes.Split(head, []byte("\n")) {
		if i == 0 {
			size, ok := bytes.CutPrefix(line, []byte("old "))
			n, err := strconv.ParseUint(string(size), 10, 64)
			if !ok || err != nil || strconv.FormatUint(n, 10) != string(size) {
				return request{}, errors.New("line 1 is not old and a size")
			}
			q.old = n
			continue
		}
		if i > maxProof {
			return request{}, errors.New("more than 63 hashes in the proof")
		}
		hash, err := crypto.DecodeBase64(nil, line)
		if err != nil || len(hash) != len(contracts.Digest{}) {
			return request{}, errors.New("line " + strconv.Itoa(i+1) + " is not the base64 of a hash")
		}
		q.proof = append(q.proof, contracts.Digest(hash))
	}
	return q, nil
}
