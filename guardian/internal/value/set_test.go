package value

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// Sets against the plain way, on small alphabets, so that members meet.
func TestSets(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	word := func(alphabet string, most int) string {
		var b strings.Builder
		for range r.IntN(most) {
			b.WriteByte(alphabet[r.IntN(len(alphabet))])
		}
		return b.String()
	}
	hits := map[string]int{}
	for range 3000 {
		var members []string
		var trees []Subtree
		var nets []netip.Prefix
		for range r.IntN(6) {
			members = append(members, word("aAb", 4))
			trees = append(trees, Subtree{"/" + word("a/-0", 5) + "/", r.IntN(2) == 0})
			nets = append(nets, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(r.IntN(4)), 0, byte(r.IntN(4))}),
				r.IntN(33)).Masked())
		}
		plain, folded := NewSet(members, false), NewSet(members, true)
		below, networks := NewSubtrees(slices.Clone(trees)), NewNetworks(slices.Clone(nets))
		for range 10 {
			w, path := word("aAb", 4), "/"+word("a/-0", 7)
			ip := netip.AddrFrom4([4]byte{10, byte(r.IntN(4)), 0, byte(r.IntN(4))})
			results := map[string][2]bool{
				"set": {plain.Contains([]byte(w)), slices.Contains(members, w)},
				"folded": {folded.Contains([]byte(w)), slices.ContainsFunc(members,
					func(m string) bool { return strings.EqualFold(m, w) })},
				"below": {below.Contains([]byte(path)), slices.ContainsFunc(trees, func(x Subtree) bool {
					return strings.HasPrefix(path, x.Below) || x.Self && path+"/" == x.Below
				})},
				"networks": {networks.Contains(ip), slices.ContainsFunc(nets,
					func(n netip.Prefix) bool { return n.Contains(ip) })},
			}
			for name, x := range results {
				require.Equal(t, x[1], x[0], "%s: %v for %q, %q, %v in %q, %v, %v", name, x[0], w, path, ip, members,
					trees, nets)
				if x[0] {
					hits[name]++
				}
			}
		}
	}
	for _, name := range []string{"set", "folded", "below", "networks"} {
		assert.True(t, hits[name] >= 1000, "%s: only %d hits", name, hits[name])
	}
}

func TestPointers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "[]", "/": `[""]`, "/a/b": `["a" "b"]`, "/~1~0/x~01": `["/~" "x~1"]`,
		"//": `["" ""]`} {
		got, ok := SplitPointer(text)
		assert.True(t, ok && fmt.Sprintf("%q", got) == want && JoinPointer(got) == text, "%q gave %q", text, got)
	}
	for _, text := range []string{"a", "/~", "/~2", "/a~", "#/a"} {
		_, ok := SplitPointer(text)
		assert.False(t, ok, "%q is a pointer", text)
	}
	for seg, want := range map[string]int{"0": 0, "10": 10, "01": -1, "": -1, "-1": -1, "1a": -1, "1000000000": -1} {
		assert.Equal(t, want, index(seg), "index(%q) =", seg)
	}
}

func TestDurationsAndSizes(t *testing.T) {
	t.Parallel()
	for text, seconds := range map[string]int{"5s": 5, "10m": 600, "24h": 86400, "7d": 604800,
		"36525d": 36525 * 86400} {
		d, ok := ReadDuration(text)
		assert.True(t, ok && int(d.Seconds()) == seconds, "%s is %v", text, d)
	}
	for _, text := range []string{"", "s", "5", "05s", "-5s", "+5s", "1.5s", "5 s", "5S", "5ms", "36526d",
		"9999999999999d", "0s", "1h30m"} {
		d, ok := ReadDuration(text)
		assert.False(t, ok, "%q is %v", text, d)
	}
	for text, n := range map[string]int{"1KiB": 1 << 10, "64KiB": 1 << 16, "16MiB": 16 << 20} {
		got, ok := ReadSize(text)
		assert.True(t, ok && got == n, "%s is %d", text, got)
	}
	for _, text := range []string{"", "KiB", "1", "1kib", "1 KiB", "0KiB", "01KiB", "1GiB", "1.5MiB", "999999999999MiB",
		"2048MiB"} {
		got, ok := ReadSize(text)
		assert.False(t, ok, "%q is %d", text, got)
	}
}

// Windows are half-open, in UTC, and days may go over the end of a week.
func TestWeek(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		window, from, to string // the first instant in, the first out
	}{
		{"Mon-Fri 08:00-18:00", "2026-07-13T08:00:00.000Z", "2026-07-13T18:00:00.000Z"},
		{"Fri 23:59-24:00", "2026-07-17T23:59:00.000Z", "2026-07-18T00:00:00.000Z"},
		{"Sat-Mon 00:00-24:00", "2026-07-18T00:00:00.000Z", "2026-07-21T00:00:00.000Z"},
		{"Thu 00:00-00:01", "1970-01-01T00:00:00.000Z", "1970-01-01T00:01:00.000Z"},
	} {
		var w Week
		require.True(t, w.Add(c.window), "%v", c.window)
		from, err := contracts.ParseTime(c.from)
		require.NoError(t, err)
		to, err := contracts.ParseTime(c.to)
		require.NoError(t, err)
		for at, in := range map[contracts.Time]bool{from - 1: false, from: true, to - 1: true, to: false} {
			assert.True(t, at < 0 || w.Contains(at) == in, "%s: %v is in: %v", c.window, at, !in)
		}
	}
}
