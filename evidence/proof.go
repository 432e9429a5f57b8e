package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A proof is a C2SP tlog-proof: that the tree of a checkpoint has an entry at an index. It is text,
// as in
//
//	c2sp.org/tlog-proof@v1
//	index 1
//	6fzyXBGEivgEGjO61n0/XTq/G8IDdjvqxzO8v22dOG4=
//	(an empty line, and then the checkpoint)
//
// with the hashes of RFC 6962, section 2.1.1, from the leaf to the root. There is no extra data,
// and each field has one spelling.
type proof struct {
	index      int64 // -1: it cannot be read
	path       tlog.RecordProof
	checkpoint []byte
	bad        error // what is wrong with it, but for the checkpoint
}

const (
	proofHeader = "c2sp.org/tlog-proof@v1\n"
	maxPath     = 63             // hashes
	maxProof    = 4096 + maxNote // bytes: 63 hashes have fewer than 4,096
)

// append appends the text of a proof.
func (p *proof) append(dst []byte) []byte {
	dst = fmt.Appendf(dst, "%sindex %d\n", proofHeader, p.index)
	for _, h := range p.path {
		dst = append(crypto.AppendBase64(dst, h[:]), '\n')
	}
	return append(append(dst, '\n'), p.checkpoint...)
}

// parseProof reads a proof. It looks at nothing of the checkpoint.
func parseProof(b []byte) proof {
	p := proof{index: -1}
	fail := func(format string, args ...any) proof {
		p.bad = fmt.Errorf(format, args...)
		return p
	}
	rest, ok := bytes.CutPrefix(b, []byte(proofHeader))
	if !ok {
		return fail("line 1 is not %q", proofHeader[:len(proofHeader)-1])
	}
	line, rest, _ := bytes.Cut(rest, []byte("\n"))
	digits, ok := bytes.CutPrefix(line, []byte("index "))
	index, err := strconv.ParseUint(string(digits), 10, 64)
	if !ok || err != nil || index > crypto.MaxInt || strconv.FormatUint(index, 10) != string(digits) {
		return fail("line 2 is not the index of an entry")
	}
	p.index = int64(index)
	for {
		line, rest, ok = bytes.Cut(rest, []byte("\n"))
		switch {
		case !ok:
			return fail("no empty line between hashes and checkpoint")
		case len(line) == 0:
			p.checkpoint = rest
			return p
		case len(p.path) == maxPath:
			return fail("more than %d hashes", maxPath)
		}
		var h tlog.Hash
		hash, err := crypto.DecodeBase64(nil, line)
		if err != nil || len(hash) != len(h) {
			return fail("line %d is not the base64 of a hash", 3+len(p.path))
		}
		p.path = append(p.path, tlog.Hash(hash))
	}
}

// check returns an error if the proof does not show that a tree of that size and root has the leaf
// at its index.
func (p *proof) check(leaf contracts.Digest, size uint64, root contracts.Digest) error {
	if uint64(p.index) >= size {
		return fmt.Errorf("of entry %d, and the checkpoint is of %d entries", p.index, size)
	}
	if tlog.CheckRecord(p.path, int64(size), tlog.Hash(root), p.index, tlog.Hash(leaf)) != nil {
		return errors.New("it does not lead from the entry to the root of the checkpoint")
	}
	return nil
}
