package kept

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
)

// maxSeen is how many hashes the file has at most.
const maxSeen = 1 << 16

// seen returns the file of the condense entries that were verified with their sets whole.
func (f file) seen() file { return file{path: f.path + ".seen", step: f.step} }

// hashes returns those in the file, or nil if there is no file.
func (f file) hashes() ([]crypto.Digest, error) {
	h, err := f.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer h.Close()
	const line = 2*len(crypto.Digest{}) + 1
	b, err := io.ReadAll(io.LimitReader(h, maxSeen*int64(line)+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxSeen*line {
		return nil, fmt.Errorf("more than %d hashes", maxSeen)
	}
	var list []crypto.Digest
	for text := range bytes.Lines(b) {
		d, err := crypto.ParseDigest(bytes.TrimSuffix(text, []byte("\n")))
		if err != nil || len(text) != line {
			return nil, fmt.Errorf("line %d is no hash of 64 lower-case hex digits: %s", len(list)+1,
				"put the file back as it was, or remove it: the hashes in it are lost then")
		}
		list = append(list, d)
	}
	return list, nil
}

// errMany is the error of hashes that have no place in the file.
var errMany = fmt.Errorf("more than %d hashes of condense entries whose sets stand whole: keep the hashes yourself, "+
	"pass them to evidence.Verify in Options.Seen, and the checkpoint in Options.Last", maxSeen)

// add adds hashes to the file, with that mode. If they have no place there it adds none: a file of
// more hashes would not be read again. The note's lock is held, unless there is no note.
func (f file) add(more []crypto.Digest, mode fs.FileMode) error {
	list, err := f.hashes()
	if err != nil {
		return err
	}
	list = append(list, without(more, list)...)
	if len(list) > maxSeen {
		return errMany
	}
	var b []byte
	for _, d := range list {
		b, _ = d.AppendText(b)
		b = append(b, '\n')
	}
	return f.write(b, mode, f.rename)
}

// whole returns the hashes of the condense entries of a log whose sets stand whole in it.
func whole(r evidence.Report) (list []crypto.Digest) {
	for _, x := range r.Condensed {
		if x.Stubs == 0 {
			list = append(list, x.Hash)
		}
	}
	return list
}

// without returns the hashes that others do not have.
func without(list, others []crypto.Digest) []crypto.Digest {
	known := make(map[crypto.Digest]bool, len(others))
	for _, d := range others {
		known[d] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(d crypto.Digest) bool { return known[d] })
}
