package conformance

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

//go:embed vectors
var embedded embed.FS

// Vectors returns the published vectors of this version: the folder conformance/vectors of the
// module. It is what [Grade] takes, and what another implementation reads.
func Vectors() fs.FS {
	sub, err := fs.Sub(embedded, "vectors")
	if err != nil {
		return embedded // cannot happen: the name is one that the compiler read
	}
	return sub
}

const (
	vectorList = "vectors.json" // lists every other file with its SHA-256
	wantFile   = "want.json"    // of a case
	maxAnswer  = 1 << 20        // bytes of one answer
)

// A vectorCase is a folder with input and want.json.
type vectorCase struct {
	Name string // folder and number: canonical/0001
	Gate int    // 1 to 11
}

// A vectorFile is a line of vectors.json.
type vectorFile struct {
	Path   string           `json:"path"`
	SHA256 contracts.Digest `json:"sha256"`
}

// vectorFiles reads vectors.json.
func vectorFiles(v fs.FS) (list []vectorFile, text []byte, err error) {
	text, err = fs.ReadFile(v, vectorList)
	if err != nil {
		return nil, nil, err
	}
	var index struct {
		Files   []vectorFile `json:"files"`
		Version int          `json:"version"`
	}
	if err := decodeStrict(text, &index); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", vectorList, err)
	}
	sorted := slices.IsSortedFunc(index.Files, func(a, b vectorFile) int { return strings.Compare(a.Path, b.Path) })
	if index.Version != 1 || len(index.Files) == 0 || !sorted {
		return nil, nil, errors.New(vectorList + ": not a sorted list of files, version 1")
	}
	return index.Files, text, nil
}

// vectorsDigest returns the SHA-256 of vectors.json. It refuses vectors of which a file differs
// from the list, is missing, or is not in it.
func vectorsDigest(v fs.FS) (contracts.Digest, error) {
	list, text, err := vectorFiles(v)
	if err != nil {
		return contracts.Digest{}, vectorsError(err)
	}
	listed := map[string]bool{vectorList: true}
	for _, f := range list {
		b, err := fs.ReadFile(v, f.Path)
		if err != nil {
			return contracts.Digest{}, vectorsError(err)
		}
		if crypto.Sum(b) != f.SHA256 {
			return contracts.Digest{}, vectorsError(errors.New(f.Path + ": not the file that " + vectorList + " lists"))
		}
		listed[f.Path] = true
	}
	err = fs.WalkDir(v, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !listed[path] {
			err = errors.New(path + ": not listed in " + vectorList)
		}
		return err
	})
	if err != nil {
		return contracts.Digest{}, vectorsError(err)
	}
	return crypto.Sum(text), nil
}

func vectorsError(err error) error { return fmt.Errorf("conformance: vectors: %w", err) }

// vectorCases returns the cases in the order of their names.
func vectorCases(v fs.FS) ([]vectorCase, error) {
	list, _, err := vectorFiles(v)
	if err != nil {
		return nil, vectorsError(err)
	}
	var cases []vectorCase
	for _, f := range list {
		name, ok := strings.CutSuffix(f.Path, "/"+wantFile)
		if !ok {
			continue
		}
		gate, err := vectorGate(v, name)
		if err != nil {
			return nil, vectorsError(err)
		}
		cases = append(cases, vectorCase{name, gate})
	}
	if cases == nil {
		return nil, vectorsError(errors.New("no case"))
	}
	return cases, nil
}

// The gates of the folders. That of a pack follows from what is wrong with it.
var vectorGates = map[string]int{"canonical": 1, "numbers": 1, "meter": 3, "proofs": 5, "envelopes": 6, "points": 6,
	"trust": 6, "checkpoints": 7, "policies": 8, "verdicts": 8}

// vectorGate returns the gate of a case.
func vectorGate(v fs.FS, name string) (int, error) {
	folder, _, _ := strings.Cut(name, "/")
	if gate, ok := vectorGates[folder]; ok {
		return gate, nil
	}
	if folder != "packs" {
		return 0, errors.New(name + ": in no folder that this version knows")
	}
	var want packAnswer
	if err := readJSON(v, name+"/"+wantFile, &want); err != nil {
		return 0, err
	}
	switch want.Check {
	case "ENCODING", "ENVELOPE", "KEY", "SIGNATURE", "RECORD", "CHAIN", "GRAPH", "REFERENCE", "BUDGET", "TRUST":
		return 5, nil
	case "REPLAY":
		return 8, nil
	case "":
		if want.Replay.Replayed > 0 {
			return 8, nil
		}
	}
	return 7, nil
}

// sameAnswer returns nil if two answers are the same JSON value. Its error names the first key that
// differs, not the values.
func sameAnswer(want, got []byte) error {
	var w, g crypto.Tree
	limits := crypto.Limits{Bytes: maxAnswer, Depth: 8}
	if err := w.Parse(want, limits); err != nil {
		return err
	}
	if err := g.Parse(got, limits); err != nil {
		return fmt.Errorf("the answer: %w", err)
	}
	return sameValue("", w.Root(), g.Root())
}

// sameValue compares values that are at a path.
func sameValue(at string, want, got crypto.Value) error {
	switch {
	case bytes.Equal(want.Append(nil), got.Append(nil)):
		return nil
	case want.Kind() == crypto.Array && got.Kind() == crypto.Array:
		return sameElements(at, slices.Collect(want.Elements()), slices.Collect(got.Elements()))
	case want.Kind() != crypto.Object || got.Kind() != crypto.Object:
		return errors.New("another value" + place(at))
	}
	it := want.Iter()
	for it.Next() {
		key := string(it.Key())
		other := got.Get(key)
		if !other.Exists() {
			return errors.New("nothing" + place(at+"/"+key))
		}
		if err := sameValue(at+"/"+key, it.Value(), other); err != nil {
			return err
		}
	}
	return errors.New("a key too many" + place(at))
}

func sameElements(at string, want, got []crypto.Value) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d elements, want %d%s", len(got), len(want), place(at))
	}
	for i := range want {
		if err := sameValue(fmt.Sprint(at, "/", i), want[i], got[i]); err != nil {
			return err
		}
	}
	return errors.New("another value" + place(at))
}

func place(at string) string {
	if at == "" {
		return ""
	}
	return " at " + at
}

// decodeStrict reads JSON of the vectors: unknown fields are refused.
func decodeStrict(b []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return nil
}

// readJSON reads a file of the vectors.
func readJSON(v fs.FS, name string, to any) error {
	b, err := fs.ReadFile(v, name)
	if err != nil {
		return err
	}
	if err := decodeStrict(b, to); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
