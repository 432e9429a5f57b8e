package conformance

import (
	"bytes"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// This module writes no proofs yet, so what reads them is here.

const proofType = "c2sp.org/tlog-proof@v1"

// answerProof reports whether a proof holds: that an entry is in the log, if the case has one, else
// that a checkpoint extends an older one.
func answerProof(v fs.FS) (any, error) {
	s, err := readSigners(v)
	if err != nil {
		return nil, err
	}
	proof, err := fs.ReadFile(v, "input")
	if err != nil {
		return nil, err
	}
	if old, err := fs.ReadFile(v, "last"); err == nil {
		return okAnswer{extends(proof, old, s)}, nil
	}
	entry, err := fs.ReadFile(v, "entry")
	if err != nil {
		return nil, err
	}
	return okAnswer{included(proof, entry, s)}, nil
}

// included reports whether a tlog-proof is one of the entry.
func included(proof, entry []byte, s signers) bool {
	text, ok := bytes.CutPrefix(proof, []byte(proofType+"\n"))
	if !ok {
		return false
	}
	if extra, rest, found := bytes.Cut(text, []byte("\n")); found && bytes.HasPrefix(extra, []byte("extra ")) {
		if _, err := crypto.DecodeBase64(nil, extra[len("extra "):]); err != nil {
			return false
		}
		text = rest // it proves nothing
	}
	index, hashes, c, ok := readProof(text, "index", s)
	if !ok || index >= c.Size {
		return false
	}
	leaf := tlog.Hash(crypto.LeafHash(entry))
	return tlog.CheckRecord(hashes, int64(c.Size), tlog.Hash(c.Root), int64(index), leaf) == nil
}

// extends reports whether a checkpoint extends an older one: the text is a line "old SIZE", the
// hashes, an empty line and the checkpoint, as a log sends it to a witness.
func extends(proof, last []byte, s signers) bool {
	old, ok := checkpointBy(last, s)
	if !ok {
		return false
	}
	size, hashes, c, ok := readProof(proof, "old", s)
	if !ok || size != old.Size || size == 0 || size > c.Size {
		return false
	}
	err := tlog.CheckTree(tlog.TreeProof(hashes), int64(c.Size), tlog.Hash(c.Root), int64(size), tlog.Hash(old.Root))
	return err == nil
}

// readProof reads a line of a word and a number, hashes, an empty line, and a checkpoint.
func readProof(text []byte, word string, s signers) (n uint64, hashes []tlog.Hash, c proofgraph.Checkpoint, ok bool) {
	head, note, found := bytes.Cut(text, []byte("\n\n"))
	lines := strings.Split(string(head), "\n")
	number, prefixed := strings.CutPrefix(lines[0], word+" ")
	n, err := strconv.ParseUint(number, 10, 64)
	if !found || !prefixed || err != nil || n > crypto.MaxInt || strconv.FormatUint(n, 10) != number {
		return 0, nil, c, false
	}
	for _, line := range lines[1:] {
		b, err := crypto.DecodeBase64(nil, []byte(line))
		if err != nil || len(b) != tlog.HashSize {
			return 0, nil, c, false
		}
		hashes = append(hashes, tlog.Hash(b))
	}
	c, ok = checkpointBy(note, s)
	return n, hashes, c, ok
}
