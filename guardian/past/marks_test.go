package past

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

// shown is what a mark means.
func shown(m *Marks, x Mark) string {
	tainted, labels := m.Read(x)
	if tainted {
		return "tainted " + strings.Join(labels, " ")
	}
	return strings.Join(labels, " ")
}

// Equal sets have one number, whatever they were made of, and nothing is ever lost of one.
func TestMarks(t *testing.T) {
	t.Parallel()
	var m Marks
	assert.True(t, m.of(0) == 0 && m.of(1<<40) == 0 && shown(&m, 0) == "", "of nothing")
	assert.True(t, m.with(0, false, nil) == 0 && m.union(0, 0) == 0, "nothing is brought")
	web := m.with(0, false, []string{"web"})
	tainted := m.with(0, true, nil)
	assert.True(t, web != 0 && tainted != 0 && web != tainted)
	both := m.union(web, tainted)
	assert.Equal(t, "tainted web", shown(&m, both))
	for _, same := range []Mark{m.union(tainted, web), m.with(web, true, nil), m.with(0, true, []string{"web", "web"}),
		m.union(both, web), m.union(0, both), m.union(both, 0), m.with(both, false, nil),
		m.with(both, true, []string{"web"})} {
		assert.Equal(t, both, same)
	}
	more := m.with(both, false, []string{"web", "pii", "a.b"})
	assert.Equal(t, "tainted a.b pii web", shown(&m, more))
	assert.True(t, shown(&m, both) == "tainted web" && shown(&m, web) == "web", "a mark never changes")
	assert.NotEqual(t, m.with(0, false, []string{"ab", "c"}), m.with(0, false, []string{"a", "bc"}))
	labels := []string{"z", "a"}
	m.with(0, false, labels)
	assert.Equal(t, []string{"z", "a"}, labels, "the caller's are changed")
}

// The table of the entries that bring marks, along three sessions, one of which ends: what each
// entry's session had just after it, and by what a call is judged.
func TestSessionMark(t *testing.T) {
	t.Parallel()
	var m Marks
	var a, b, c Session
	steps := []struct {
		s       *Session
		parents []uint64
		judged  string // by what a call with these parents is judged
		tainted bool
		labels  []string
		want    string // what the session has after the entry
	}{
		0:  {&a, nil, "", false, nil, ""},                // a message
		1:  {&a, []uint64{0}, "", true, nil, "tainted "}, // a receipt of an untrusted tool
		2:  {&a, []uint64{0, 1}, "tainted ", false, []string{"web"}, "tainted web"},
		3:  {&a, nil, "tainted web", false, nil, "tainted web"},   // a denial
		4:  {&b, []uint64{0}, "", false, nil, ""},                 // after what was before the taint
		5:  {&b, []uint64{1}, "tainted ", false, nil, "tainted "}, // after the taint, and before the label
		6:  {&b, nil, "tainted ", false, []string{"b"}, "tainted b"},
		7:  {&a, nil, "tainted web", false, nil, "tainted web"},                            // a ends
		8:  {&c, []uint64{6}, "tainted b", false, nil, "tainted b"},                        // of a by b alone
		9:  {&c, []uint64{7, 4}, "tainted b web", false, []string{"c"}, "tainted b c web"}, // of a, which ended
		10: {&b, []uint64{0}, "tainted b", false, nil, "tainted b"},                        // a parent takes nothing away
		11: {new(Session), []uint64{1 << 30}, "", false, nil, ""},                          // of the kernel's own
		12: {&c, []uint64{}, "tainted b c web", true, []string{"b", "c", "web"}, "tainted b c web"},
	}
	for i, x := range steps {
		before := x.s.mark
		assert.Equal(t, x.judged, shown(&m, x.s.Marks(&m, x.parents)), "entry %d is judged by its parents too", i)
		assert.Equal(t, before, x.s.mark, "to ask changes nothing")
		x.s.Mark(&m, uint64(i), x.parents, x.tainted, x.labels)
		assert.Equal(t, x.want, shown(&m, m.of(uint64(i))), "entry %d", i)
	}
	for i, x := range steps {
		assert.Equal(t, x.want, shown(&m, m.of(uint64(i))), "entry %d, in the end", i)
	}
	assert.Equal(t, "tainted b", shown(&m, b.Marks(&m, nil)), "that c went on after b brings nothing to b")
}

// Marks of a log, folded in its order, are those of sets of words.
func TestMarksModel(t *testing.T) {
	t.Parallel()
	var m Marks
	r := rand.New(rand.NewPCG(12, 7))
	sessions := make([]Session, 9)
	now := make([]map[string]bool, len(sessions))
	var after []map[string]bool
	for index := range 30_000 {
		i := r.IntN(len(sessions))
		if r.IntN(500) == 0 {
			sessions[i], now[i] = Session{}, nil // another one, of another name
		}
		has := maps.Clone(now[i])
		if has == nil {
			has = map[string]bool{}
		}
		var parents []uint64
		for range r.IntN(3) {
			if index > 0 && r.IntN(20) == 0 {
				p := r.IntN(index)
				parents = append(parents, uint64(p))
				maps.Copy(has, after[p])
			}
		}
		tainted := r.IntN(100) == 0
		if tainted {
			has["tainted"] = true
		}
		var labels []string
		for range r.IntN(40) / 38 {
			labels = append(labels, fmt.Sprintf("%c", 'a'+r.IntN(12)))
			has[labels[0]] = true
		}
		sessions[i].Mark(&m, uint64(index), parents, tainted, labels)
		now[i], after = has, append(after, has)
	}
	distinct := map[string]bool{}
	for index, has := range after {
		tainted, labels := m.Read(m.of(uint64(index)))
		want := slices.Sorted(maps.Keys(has))
		distinct[strings.Join(want, " ")] = true
		want = slices.DeleteFunc(want, func(w string) bool { return w == "tainted" })
		require.True(t, tainted == has["tainted"] && slices.Equal(labels, want), "entry %d: %v %v; want %v", index,
			tainted, labels, has)
	}
	assert.True(t, len(distinct) > 50 && len(m.sets) >= len(distinct)-1, "%d distinct", len(distinct))
}

// 16 sessions set and read marks at once, of entries far apart and of one another.
func TestMarksRace(t *testing.T) {
	t.Parallel()
	var m Marks
	var wg sync.WaitGroup
	const sessions, each = 16, 300
	for i := range sessions {
		wg.Go(func() {
			var s Session
			for n := range each {
				index := uint64(n*7919*sessions + i)
				label := fmt.Sprintf("l%d", (i+n)%20)
				other := uint64(n / 2 * 7919 * sessions) // of the first
				s.Mark(&m, index, []uint64{other}, n%50 == 0, []string{label})
				tainted, labels := m.Read(m.of(index))
				if _, ok := slices.BinarySearch(labels, label); !ok || !tainted {
					t.Errorf("%v: %v of %v", label, tainted, labels)
				}
			}
		})
	}
	wg.Wait()
	for i := range sessions {
		_, labels := m.Read(m.of(uint64((each-1)*7919*sessions + i)))
		assert.Len(t, labels, 20)
	}
}

// A log without marks takes nothing, and one that has them from the middle on 4 bytes an entry.
func TestMarksMemory(t *testing.T) {
	const size = 1 << 20
	var m Marks
	var s Session
	for i := range uint64(size / 2) {
		s.Mark(&m, i, []uint64{i / 2}, false, nil)
	}
	assert.Nil(t, m.pages.Load(), "of entries without marks")
	for i := uint64(size / 2); i < size; i++ {
		s.Mark(&m, i, []uint64{i / 2}, true, nil)
	}
	pages := 0
	for i := range *m.pages.Load() {
		if (*m.pages.Load())[i].Load() != nil {
			pages++
		}
	}
	assert.Equal(t, size/2/pageSize, pages)
	assert.LessOrEqual(t, 8*len(*m.pages.Load())+16<<10*pages, 4*size/2+4096)
	label := []string{"web"}
	assert.Zero(t, testing.AllocsPerRun(100, func() { s.Mark(&m, size-1, []uint64{1, size - 2}, true, label) }))
}

// A log whose every entry brings another label does not hold all labels of all entries: a hostile
// pack could make a verifier hold their square.
func TestMarksOfManyLabels(t *testing.T) {
	race.Alone(t)
	const many = 6000
	var list []string
	for i := range many {
		list = append(list, fmt.Sprintf("label %d", i))
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m := new(Marks)
	var s, u Session
	for i, label := range list {
		s.Mark(m, uint64(2*i), nil, i == 7, []string{label})
		u.Mark(m, uint64(2*i+1), []uint64{uint64(i)}, false, []string{list[many-1-i]})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := int(after.HeapAlloc) - int(before.HeapAlloc)
	assert.Less(t, held, 2*many*(many/8+512), "%d bytes of %d entries", held, 2*many)
	for _, i := range []int{0, 6, 7, 15, 16, 99, many - 1} {
		tainted, labels := m.Read(m.of(uint64(2 * i)))
		want := slices.Clone(list[:i+1])
		slices.SortFunc(want, byForm)
		require.Equal(t, want, labels, "entry %d", i)
		assert.Equal(t, i >= 7, tainted, "entry %d", i)
	}
	tainted, labels := m.Read(u.Marks(m, []uint64{2*many - 2}))
	assert.True(t, tainted && len(labels) == many)
	assert.Equal(t, s.mark, m.union(s.mark, m.of(0)), "what one of two has is no new mark")
	assert.Equal(t, s.mark, m.union(m.of(0), s.mark), "what one of two has is no new mark")
}

func BenchmarkSessionMark(b *testing.B) {
	var m Marks
	var s Session
	labels := []string{"pii", "web"}
	index := uint64(0)
	for b.Loop() {
		s.Mark(&m, index, []uint64{index / 2}, true, labels)
		if m.of(index) == 0 {
			b.Fatal("not set")
		}
		index++
	}
}
