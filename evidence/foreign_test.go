package evidence

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/proofgraph"
)

// TestForeign: what is no pack is refused in words that say what it is.
func TestForeign(t *testing.T) {
	t.Parallel()
	m := forge.SmallLog(t, 0)
	pack := m.Pack(Write)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(pack); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	var other bytes.Buffer
	w := tar.NewWriter(&other)
	require.NoError(t, errors.Join(w.WriteHeader(&tar.Header{Name: "x", Mode: 0o600, Format: tar.FormatUSTAR}), w.Close()))
	size := len(pack)
	for name, x := range map[string]struct {
		r    io.ReaderAt // of the bytes, where nil
		b    []byte
		size int64 // that of the bytes, where 0
		want error
		say  string
	}{
		"empty":       {want: ErrArchive, say: "empty"},
		"text":        {b: []byte("# Not a pack\n"), want: ErrArchive, say: "ARCHIVE: text"},
		"a long text": {b: bytes.Repeat([]byte("{\"α\": 1}\n"), 1000), want: ErrArchive, say: "ARCHIVE: text"},
		"gzip": {b: zipped.Bytes(), want: ErrArchive,
			say: "compressed with gzip; a pack is a plain USTAR archive"},
		"little gzip": {b: []byte{0x1f, 0x8b}, want: ErrArchive, say: "compressed with gzip"},
		"zstd": {b: append([]byte{0x28, 0xb5, 0x2f, 0xfd}, pack...), want: ErrArchive,
			say: "compressed with zstd"},
		"zip":      {b: append([]byte("PK\x03\x04"), pack...), want: ErrArchive, say: "a ZIP archive"},
		"anything": {b: append([]byte{0}, pack...), want: ErrArchive, say: "not an archive"},
		"zeros":    {b: make([]byte, 2*forge.TarBlock), want: ErrArchive, say: "manifest.json: it is missing"},
		"another's archive": {b: other.Bytes(), want: ErrArchive,
			say: "manifest.json: the header at byte 0 is not the one that its name and size have: a pack is verified " +
				"as it was written"},
		"a few bytes of it": {b: pack[:100], want: ErrArchive,
			say: "truncated: it goes on to byte 512 at least, and ends at 100"},
		"its first header": {b: pack[:forge.TarBlock], want: ErrArchive, say: "manifest.json: truncated"},
		"half of it":       {b: pack[:size/2], want: ErrArchive, say: fmt.Sprintf("and ends at %d", size/2)},
		"no end":           {b: pack[:size-2*forge.TarBlock], want: ErrArchive, say: "truncated"},
		"half an end":      {b: pack[:size-forge.TarBlock], want: ErrArchive, say: "truncated"},
		"nearly all":       {b: pack[:size-1], want: ErrArchive, say: "truncated"},
		"more":             {b: append(bytes.Clone(pack), 0), want: ErrArchive, say: "end: 1 bytes follow it"},
		"a size too large": {b: pack, size: int64(size) + forge.TarBlock, want: ErrArchive,
			say: "truncated: the reader ends before"},
		"a negative size": {b: pack, size: -1, want: ErrInput, say: "INPUT: size: negative"},
		"a broken disk": {r: gone{}, size: int64(size), want: ErrArchive,
			say: "copy it to a file first: the disk is gone"},
		"a negative disk": {r: gone{}, size: -9, want: ErrInput, say: "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			if x.size == 0 {
				x.size = int64(len(x.b))
			}
			if x.r == nil {
				x.r = bytes.NewReader(x.b)
			}
			report, err := Verify(t.Context(), x.r, x.size, Options{Trust: m.Trust})
			assert.True(t, errors.Is(err, x.want) && strings.Contains(err.Error(), x.say) && report.Level == Invalid &&
				report.Fault != nil, "%s, %v; want %v: %s", report.Level, err, x.want, x.say)
		})
	}
	// or all of the above were refused for nothing
	_, err := verifyBytes(t, pack, Options{Trust: m.Trust})
	assert.NoError(t, err)
	if _, err := verifyBytes(t, pack, Options{Trust: forge.StateOf(t, 0, forge.SeedX, forge.SeedL)}); !errors.Is(err,
		ErrKey) || !strings.Contains(err.Error(), "see that the one that was given is this log's") {
		t.Errorf("the trust state of another log: %v", err)
	}
}

// TestNothingGiven: nothing is an error, and a context of nothing one that never ends.
func TestNothingGiven(t *testing.T) {
	t.Parallel()
	var none context.Context // what a caller might give
	m := forge.SmallLog(t, 0)
	pack := m.Pack(Write)
	key := forge.Key(t, m.By)
	for name, x := range map[string]struct {
		to    io.Writer
		store proofgraph.Store
		key   crypto.Signer
		say   string
	}{
		"no writer": {nil, m.Store, key, "no writer"},
		"no store":  {io.Discard, nil, key, "no store"},
		"no key":    {io.Discard, m.Store, nil, "no signer"},
		"zero key":  {io.Discard, m.Store, crypto.PrivateKey{}, "signer"},
		"nil key":   {io.Discard, m.Store, (*crypto.PrivateKey)(nil), "signer"},
		"empty":     {io.Discard, new(proofgraph.Memory), key, "Checkpoint first"},
	} {
		err := Write(none, x.to, x.store, x.key)
		assert.True(t, err != nil && strings.Contains(err.Error(), x.say), "%s: %v", name, err)
	}
	_, err := Verify(none, nil, 1, Options{Trust: m.Trust})
	assert.True(t, errors.Is(err, ErrInput) && strings.Contains(err.Error(), "no reader"), "no reader: %v", err)
	var b bytes.Buffer
	err = Write(none, &b, m.Store, key)
	assert.True(t, err == nil && bytes.Equal(b.Bytes(), pack), "written without a context: %v", err)
	r, err := Verify(none, bytes.NewReader(pack), int64(len(pack)), Options{Trust: m.Trust})
	assert.True(t, err == nil && r.Success(Logged), "verified without a context: %s, %v", r.Level, err)
}

// TestShared: many goroutines verify one pack, with one reader and one Options.
func TestShared(t *testing.T) {
	t.Parallel()
	m := forge.SmallLog(t, 0)
	pack := m.Pack(Write)
	r, o := bytes.NewReader(pack), Options{Trust: m.Trust, Origin: forge.Origin,
		Last: forge.Untar(t, pack)[forge.CheckpointAt].Body}
	want, err := Verify(t.Context(), r, r.Size(), o)
	require.True(t, err == nil && want.Success(Logged), "%+v, %v", want, err)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			got, err := Verify(t.Context(), r, r.Size(), o)
			assert.True(t, err == nil && reflect.DeepEqual(got, want), "%+v, %v", got, err)
		})
	}
	wait.Wait()
}

// TestBothOrigins: names are public, and an error shows the one that is and the one that was asked
// for.
func TestBothOrigins(t *testing.T) {
	t.Parallel()
	m := forge.SmallLog(t, 0)
	pack := m.Pack(Write)
	last := forge.LastOf(forge.TakeApart(t, pack), 1, contracts.Digest{}, "example.test/other")
	for name, o := range map[string]Options{
		"the pack's":         {Origin: "example.test/other"},
		"the checkpoint's":   {Origin: forge.Origin, Last: last},
		"the pack's by last": {Last: last},
	} {
		_, err := verifyBytes(t, pack, o)
		assert.True(t, err != nil && strings.Contains(err.Error(), forge.Origin) && strings.Contains(err.Error(),
			"example.test/other"), "%s: %v", name, err)
	}
}

// A gone reader has an error for every byte.
type gone struct{}

func (gone) ReadAt([]byte, int64) (int, error) { return 0, errDisk }
