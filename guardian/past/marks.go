package past

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A Mark says whether a session is tainted, and its labels. It has its meaning from the [Marks]
// that returned it, whose equal marks have one number. The zero Mark is that of a session that is
// not tainted and has no labels.
type Mark uint32

// Marks holds the mark that the session of each entry of a log had just after the entry, of closed
// sessions too. [Session.Mark] adds to it, and [Session.Marks] reads it for the parents of a call,
// without the lock of their sessions. It takes 4 bytes an entry, from the first that has a mark,
// and next to nothing for one that was forgotten ([Marks.Forget]).
//
// Nothing is in the zero Marks. It is safe for concurrent use by multiple goroutines, and must not
// be copied.
type Marks struct {
	pages atomic.Pointer[[]atomic.Pointer[page]]

	mu      sync.RWMutex // held for a few comparisons; protects the fields below, and changes of pages
	sets    []set        // by mark, less one
	ids     map[string]Mark
	labels  []string // in the order in which they came
	numbers map[string]int
}

// A page has the marks of entries whose indexes follow one another: all of them, or those alone
// that were not forgotten.
type page struct {
	all  *[pageSize]atomic.Uint32
	left *remnant // if all is nil
}

const pageSize = 4096

// A set is the meaning of a mark. A log may have as many sets as entries, and a session many
// labels, so a label takes a bit, and few labels are also kept as they are read.
type set struct {
	bits   string   // that of taint, then one for each label by its number, from 1 on
	labels []string // sorted by canonical form; nil if there are more than fewLabels
}

const fewLabels = 16

// of returns the mark of the entry at an index, the zero Mark if none was set.
func (m *Marks) of(index uint64) Mark {
	p := m.page(index)
	switch {
	case p == nil:
		return 0
	case p.all != nil:
		return Mark(p.all[index%pageSize].Load())
	}
	return p.left.of(index % pageSize)
}

// page returns the page of an index, or nil if no entry of it has a mark.
func (m *Marks) page(index uint64) *page {
	pages := m.pages.Load()
	if n := index / pageSize; pages != nil && n < uint64(len(*pages)) {
		return (*pages)[n].Load()
	}
	return nil
}

// put sets the mark of the entry at an index. The indexes may come in any order.
func (m *Marks) put(index uint64, x Mark) {
	if x == 0 {
		return
	}
	p := m.page(index)
	if p == nil {
		p = m.add(index)
	}
	p.all[index%pageSize].Store(uint32(x))
}

// add returns the page of an index, and makes it if there is none.
func (m *Marks) add(index uint64) *page {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.grow(index)
}

// grow is add for holders of mu.
func (m *Marks) grow(index uint64) *page {
	n := index / pageSize
	pages := m.pages.Load()
	if pages == nil || n >= uint64(len(*pages)) {
		more := make([]atomic.Pointer[page], n+n/4+1)
		if pages != nil {
			for i := range *pages {
				more[i].Store((*pages)[i].Load())
			}
		}
		pages = &more
		m.pages.Store(pages)
	}
	p := (*pages)[n].Load()
	if p == nil {
		p = &page{all: new([pageSize]atomic.Uint32)}
		(*pages)[n].Store(p)
	}
	return p
}

// Read returns whether a session with that mark is tainted, and its labels, sorted by canonical
// form as in inputs. They must not be modified.
func (m *Marks) Read(x Mark) (tainted bool, labels []string) {
	if x == 0 {
		return false, nil
	}
	m.mu.RLock()
	s, all := m.sets[x-1], m.labels
	m.mu.RUnlock()
	if labels = s.labels; labels == nil {
		labels = labelsOf(s.bits, all, len(all))
	}
	return isOn(s.bits, 0), labels
}

// labelsOf returns those of all labels that are in a set, sorted by canonical form, and nil if
// there are more than most.
func labelsOf(bits string, all []string, most int) []string {
	var list []string
	for n := 1; n < 8*len(bits); n++ {
		if !isOn(bits, n) {
			continue
		}
		if len(list) == most {
			return nil
		}
		list = append(list, all[n-1])
	}
	slices.SortFunc(list, byForm)
	return slices.Clip(list)
}

// bitsOf returns the bits of a mark.
func (m *Marks) bitsOf(x Mark) string {
	if x == 0 {
		return ""
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.sets[x-1].bits
}

func isOn(bits string, n int) bool { return n/8 < len(bits) && bits[n/8]&(1<<(n%8)) != 0 }

func turnOn(bits []byte, n int) []byte {
	for len(bits) <= n/8 {
		bits = append(bits, 0)
	}
	bits[n/8] |= 1 << (n % 8)
	return bits
}

// union returns the mark of a session that has both marks.
func (m *Marks) union(x, y Mark) Mark {
	if x == y || y == 0 {
		return x
	}
	if x == 0 {
		return y
	}
	a, b := m.bitsOf(x), m.bitsOf(y)
	if len(a) < len(b) {
		a, b, x, y = b, a, y, x
	}
	more, less := false, len(a) > len(b) // whether b has what a lacks, and the reverse
	for i := range len(b) {
		more, less = more || b[i]&^a[i] != 0, less || a[i]&^b[i] != 0
	}
	switch {
	case !more:
		return x
	case !less:
		return y
	}
	all := []byte(a)
	for i := range len(b) {
		all[i] |= b[i]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.markOf(all)
}

// with returns the mark of a session that has that mark, and to which something brings taint or
// labels.
func (m *Marks) with(x Mark, tainted bool, labels []string) Mark {
	if !tainted && len(labels) == 0 {
		return x
	}
	bits := m.bitsOf(x)
	if (!tainted || isOn(bits, 0)) && m.hasAll(bits, labels) {
		return x
	}
	all := []byte(bits)
	if tainted {
		all = turnOn(all, 0)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, label := range labels {
		n, ok := m.numbers[label]
		if !ok {
			if m.numbers == nil {
				m.numbers = map[string]int{}
			}
			label = strings.Clone(label) // so that nothing else of a document is held
			m.labels = append(m.labels, label)
			n = len(m.labels)
			m.numbers[label] = n
		}
		all = turnOn(all, n)
	}
	return m.markOf(all)
}

// hasAll reports whether a set has all these labels.
func (m *Marks) hasAll(bits string, labels []string) bool {
	if len(labels) == 0 {
		return true
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return !slices.ContainsFunc(labels, func(label string) bool {
		n, ok := m.numbers[label]
		return !ok || !isOn(bits, n)
	})
}

// byForm compares two labels by their canonical form, which ends with a quote: so "a!" is before
// "a".
func byForm(a, b string) int {
	var x, y [2*contracts.MaxWords + 2]byte
	return bytes.Compare(crypto.AppendString(x[:0], a), crypto.AppendString(y[:0], b))
}

// markOf returns the mark of a set, and makes it if there is none. It requires mu.
func (m *Marks) markOf(all []byte) Mark {
	if x, ok := m.ids[string(all)]; ok {
		return x
	}
	if m.ids == nil {
		m.ids = map[string]Mark{}
	}
	s := set{bits: string(all)}
	s.labels = labelsOf(s.bits, m.labels, fewLabels)
	m.sets = append(m.sets, s)
	x := Mark(len(m.sets))
	m.ids[s.bits] = x
	return x
}

// Mark folds an entry of the session, at that index, with parents at those indexes, and with what
// the entry brings itself. It must be called before anyone can know the hash of the entry, and name
// it as a parent. Entries of the sessions "" and @refused are not folded, and so bring nothing to
// those that have them as parents.
func (s *Session) Mark(m *Marks, index uint64, parents []uint64, tainted bool, labels []string) {
	s.mark = m.with(s.Marks(m, parents), tainted, labels)
	m.put(index, s.mark)
}

// Marks returns the mark by which a call in the session is judged: that of the entries so far, and
// of the sessions of the parents of its own, just after those.
func (s *Session) Marks(m *Marks, parents []uint64) Mark {
	x := s.mark
	for _, index := range parents {
		x = m.union(x, m.of(index))
	}
	return x
}
