package proofgraph

import (
	"context"
	"fmt"
	"iter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/stub"
)

// Condense forgets blobs, whose bytes it overwrites, and puts stubs in the place of entries. It
// copies what stays out of the memory that it is in together with what goes, which the garbage
// collector can then free: the other entries of up to 512 neighbours, and all small blobs if one
// blob is forgotten.
func (m *Memory) Condense(
	ctx context.Context, stubs iter.Seq2[uint64, []byte], blobs iter.Seq[contracts.Digest],
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.condensing.Lock()
	defer m.condensing.Unlock()
	note := func(named map[contracts.Digest]bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.named = named
	}
	note(map[contracts.Digest]bool{})
	defer note(nil)
	if err := m.forget(ctx, blobs); err != nil {
		return err
	}
	return m.putStubs(ctx, stubs)
}

// putStubs puts stubs in the place of entries, page by page.
func (m *Memory) putStubs(ctx context.Context, stubs iter.Seq2[uint64, []byte]) error {
	var (
		reader  contracts.Reader
		entries = m.snapshot()
		lines   = make([]contracts.Entry, page) // of the present page; nil: the entry stays
		found   = false                         // there is a line
		next    = uint64(0)                     // the least index that may come
	)
	for index, line := range stubs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if index < next || index >= uint64(entries.n) {
			return fmt.Errorf("proofgraph: memory store: condense: entry %d, after entry %d of %d", index,
				int64(next)-1, entries.n)
		}
		if found && index/page != (next-1)/page {
			m.replace(int(next-1)/page, lines)
			clear(lines)
			found = false
		}
		next = index + 1
		replaces, err := stub.Replaces(&reader, *entries.at(int(index)), line)
		if err != nil {
			return fmt.Errorf("proofgraph: memory store: condense: entry %d: %w", index, err)
		}
		if replaces {
			lines[index%page] = append(contracts.Entry{}, line...)
			found = true
		}
	}
	if found {
		m.replace(int(next-1)/page, lines)
	}
	return nil
}

// snapshot returns the entries as they are now.
func (m *Memory) snapshot() pages[contracts.Entry] {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.entries
}

// replace puts lines in the place of entries of a page, and copies the others, so that nothing is
// left of the page in the memory that it was in.
func (m *Memory) replace(number int, lines []contracts.Entry) {
	entries := m.snapshot()
	first := number * page
	lines = lines[:min(page, entries.n-first)]
	size := 0
	for i := range lines {
		if lines[i] == nil {
			lines[i] = *entries.at(first + i)
		}
		size += len(lines[i])
	}
	all := make([]byte, 0, size)
	for i, e := range lines {
		start := len(all)
		all = append(all, e...)
		lines[i] = all[start:len(all):len(all)]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries.replace(number, lines)
}

// forget forgets blobs that were not appended meanwhile.
func (m *Memory) forget(ctx context.Context, blobs iter.Seq[contracts.Digest]) error {
	forgot := false
	for d := range blobs {
		if err := ctx.Err(); err != nil {
			return err
		}
		m.mu.Lock()
		if !m.named[d] && m.erase(d) {
			forgot = true
		}
		m.mu.Unlock()
	}
	if forgot {
		m.moveBlobs()
	}
	return nil
}

// moveBlobs copies all small blobs into other memory.
func (m *Memory) moveBlobs() {
	for i := range m.blobs {
		m.mu.Lock()
		if i == 0 {
			m.bytes = nil
		}
		moved := make(map[contracts.Digest][]byte, len(m.blobs[i])) // a map keeps the memory of what is deleted
		for d, b := range m.blobs[i] {
			if moved[d] = b; !alone(len(b)) {
				moved[d] = m.bytes.keep(b)
				clear(b) // it may be erased later
			}
		}
		m.blobs[i] = moved
		m.mu.Unlock()
	}
}
