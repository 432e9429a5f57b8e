package callindex

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestIndex: what was put is there for its caller alone, over restarts, until it is too old.
func TestIndex(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "calls.idx")
	at := time.Unix(1e9, 0)
	open := func() *Index {
		x, err := Open(name, time.Hour, func() time.Time { return at })
		require.NoError(t, err)
		return x
	}
	x := open()
	x.Put("ann", "call_0", Entry{Session: "a"})
	x.Put("ann", "call_0", Entry{Session: "b"})
	x.Put("bob", "call_0", Entry{Session: "c"})
	x.Put("ann", "resp_1", Entry{Session: "a"})
	for i := range 3 {
		x.Put("ann", fmt.Sprint("denied_", i), Entry{Session: "a", Denied: true, Kind: "function_call", Refusal: "no",
			Answer: "resp_1", Tool: "pay"})
	}
	for range 2 {
		e, ok := x.Get("ann", "call_0")
		assert.True(t, ok && e.Session == "a", "the first counts")
		e, ok = x.Get("bob", "call_0")
		assert.True(t, ok && e.Session == "c")
		_, ok = x.Get("carl", "call_0")
		assert.False(t, ok)
		list := x.Denied("ann", "resp_1")
		require.Len(t, list, 3)
		assert.Equal(t, Denied{"denied_2", Entry{"a", true, "function_call", "no", "resp_1", "pay"}}, list[2])
		assert.Empty(t, x.Denied("bob", "resp_1"))
		require.NoError(t, x.Close())
		x = open()
	}
	info, err := os.Stat(name)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	at = at.Add(time.Hour + time.Second)
	_, ok := x.Get("ann", "call_0")
	assert.False(t, ok)
	assert.Empty(t, x.Denied("ann", "resp_1"))
	require.NoError(t, x.Close())
	x = open()
	assert.Empty(t, x.entries)
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Empty(t, b, "the file does not grow without end")
	require.NoError(t, x.Close())
	x.Put("ann", "later", Entry{Session: "a"})
	require.NoError(t, x.Close())
}

// TestDamaged: a file that was cut, or has anything in it, loses what is damaged and nothing else.
func TestDamaged(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "calls.idx")
	now := func() time.Time { return time.Unix(1e9, 0) }
	x, err := Open(name, time.Hour, now)
	require.NoError(t, err)
	for i := range 50 {
		x.Put("ann", fmt.Sprint(i), Entry{Session: "s"})
	}
	require.NoError(t, x.Close())
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	for cut := 0; cut < len(whole); cut += 37 {
		require.NoError(t, os.WriteFile(name, append([]byte("\x00{}\n[]\nnull\n"), whole[:cut]...), 0o600))
		x, err := Open(name, time.Hour, now)
		require.NoError(t, err)
		want := strings.Count(string(whole[:cut]), "\n")
		assert.True(t, len(x.entries) == want || len(x.entries) == want+1)
		require.NoError(t, x.Close())
	}
	x, err = Open("", time.Hour, now)
	require.NoError(t, err)
	x.Put("ann", "a", Entry{Session: "s"})
	_, ok := x.Get("ann", "a")
	assert.True(t, ok)
	_, err = Open(filepath.Join(name, "none"), time.Hour, now)
	assert.Error(t, err)
}

// TestMany: many use it at once.
func TestMany(t *testing.T) {
	t.Parallel()
	x, err := Open(filepath.Join(t.TempDir(), "calls.idx"), time.Hour, time.Now)
	require.NoError(t, err)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 200 {
				id := fmt.Sprint(k)
				x.Put(fmt.Sprint(i%2), id, Entry{Session: fmt.Sprint(i % 2), Denied: k%3 == 0, Answer: "r"})
				e, ok := x.Get(fmt.Sprint(i%2), id)
				assert.True(t, ok && e.Session == fmt.Sprint(i%2))
				x.Denied("0", "r")
			}
		})
	}
	all.Wait()
	assert.Len(t, x.Denied("0", "r"), 67)
	require.NoError(t, x.Close())
}
