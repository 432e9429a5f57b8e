package helmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Golden compares the log so far with testdata/NAME.receipts: the payloads of all entries, one a
// line. They have no arguments and no outputs, only their hashes. If the environment has
// HELMTEST_UPDATE=1 the file is written in place of that: read its diff.
func (w *World) Golden(name string) {
	w.t.Helper()
	if !fs.ValidPath(name) {
		w.t.Fatalf("helmtest: %q is no name of a file", name)
	}
	got, err := w.payloads()
	if err != nil {
		w.t.Fatalf("helmtest: %v", err)
	}
	file := filepath.Join("testdata", filepath.FromSlash(name)+".receipts")
	if os.Getenv("HELMTEST_UPDATE") == "1" {
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, got, 0o644)
		}
		if err != nil {
			w.t.Fatalf("helmtest: %v", err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		w.t.Fatalf("helmtest: no %s: run the test with HELMTEST_UPDATE=1, and read what it writes", file)
	}
	if err != nil {
		w.t.Fatalf("helmtest: %v", err)
	}
	if differs := unlike(want, got); differs != "" {
		w.t.Errorf("helmtest: %s:%s\n\tif that is meant, run the test with HELMTEST_UPDATE=1", file, differs)
	}
}

// payloads returns those of all entries.
func (b *bench) payloads() ([]byte, error) {
	ctx := context.Background()
	size, err := b.store.Size(ctx)
	if err != nil {
		return nil, err
	}
	var out []byte
	var r contracts.Reader
	for e, err := range b.store.Entries(ctx, 0, size) {
		if err != nil {
			return nil, err
		}
		if contracts.IsStub(e) { // the kernel let go of the entry
			out = append(append(out, e...), '\n')
			continue
		}
		sealed, err := r.Open(e)
		if err != nil {
			return nil, err
		}
		out = append(append(out, sealed.Payload...), '\n')
	}
	return out, nil
}

// unlike says where two logs differ first: the line, and the members that do.
func unlike(want, got []byte) string {
	a, b := bytes.Split(want, []byte("\n")), bytes.Split(got, []byte("\n"))
	for i := range max(len(a), len(b)) {
		switch {
		case i < len(a) && i < len(b) && bytes.Equal(a[i], b[i]):
			continue
		case i >= len(a) || i == len(a)-1 && len(a[i]) == 0:
			return fmt.Sprintf("%d: the log has %d entries more", i+1, len(b)-i-1)
		case i >= len(b) || i == len(b)-1 && len(b[i]) == 0:
			return fmt.Sprintf("%d: the log has %d entries fewer", i+1, len(a)-i-1)
		}
		var x, y crypto.Tree
		if x.Parse(a[i], limitsOf(a[i])) != nil || y.Parse(b[i], limitsOf(b[i])) != nil {
			return fmt.Sprintf("%d: no payload of an entry", i+1)
		}
		var list []string
		differing(x.Root(), y.Root(), "", &list)
		return fmt.Sprintf("%d: another entry\n\t%s", i+1, strings.Join(list, "\n\t"))
	}
	return ""
}

func limitsOf(b []byte) crypto.Limits {
	return crypto.Limits{Bytes: len(b), Depth: contracts.MaxRecordDepth}
}

// differing adds the members of two values that differ.
func differing(a, b crypto.Value, at string, list *[]string) {
	if a.Equal(b) {
		return
	}
	if a.Kind() != crypto.Object || b.Kind() != crypto.Object {
		*list = append(*list, fmt.Sprintf("%s: want %s, got %s", at, shown(a), shown(b)))
		return
	}
	var keys []string
	for _, v := range []crypto.Value{a, b} {
		for it := v.Iter(); it.Next(); {
			keys = append(keys, string(it.Key()))
		}
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		differing(a.Get(key), b.Get(key), at+"/"+key, list)
	}
}

func shown(v crypto.Value) string {
	if !v.Exists() {
		return "nothing"
	}
	return string(v.Append(nil))
}
