package evidence

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/entry"
	"github.com/helmkernel/helm/evidence/internal/ustar"
)

// read goes over the entries, and gives where the log stands and the blobs that it names.
func (p *packer) read(ctx context.Context) (*log, map[contracts.Digest]entry.Role, error) {
	l, named := new(log), map[contracts.Digest]entry.Role{}
	var x waves
	defer x.end()
	sum := crypto.NewSum()
	some := &stretch{}
	for e, err := range p.store.Entries(ctx, 0, p.size) {
		some.entries, some.err = append(some.entries, e), err
		if err != nil {
			break
		}
		sum.Write(e)
		sum.Write(lineEnd)
		p.entries.Bytes += uint64(len(e)) + 1
		if some.bytes += len(e); some.bytes < waveBytes && len(some.entries) < waveItems {
			continue
		}
		if err := x.give(p.reading(some, l, named)); err != nil {
			return nil, nil, err
		}
		some = &stretch{first: some.first + uint64(len(some.entries))}
	}
	if err := x.give(p.reading(some, l, named)); err != nil {
		return nil, nil, err
	}
	if err := x.give(nil); err != nil {
		return nil, nil, err
	}
	if l.size() != p.size {
		return nil, nil, fmt.Errorf("the store has %d entries, its checkpoint is of %d", l.size(), p.size)
	}
	if p.entries.Bytes > ustar.MaxMember {
		return nil, nil, errors.New("the entries are more than 8 GiB - 1: condense the log first")
	}
	sum.Sum(p.entries.SHA256[:0])
	return l, named, nil
}

// A stretch is some entries of a store, that follow one another.
type stretch struct {
	first   uint64
	entries []contracts.Entry
	bytes   int
	err     error // in place of the last
}

// reading is the work on some entries: they are parsed, and in their turn folded.
func (p *packer) reading(u *stretch, l *log, named map[contracts.Digest]entry.Role) *wave {
	type parsed struct {
		statement *contracts.Statement
		hash      contracts.Digest
	}
	all := make([]parsed, len(u.entries))
	parse := func(i int) error {
		if i == len(u.entries)-1 && u.err != nil {
			return u.err
		}
		r := readers.Get().(*contracts.Reader)
		defer readers.Put(r)
		st, err := entry.Open(r, u.entries[i])
		if err != nil {
			return err
		}
		all[i] = parsed{st, u.entries[i].Hash()}
		return nil
	}
	at := func(i int, err error) error {
		if err != nil {
			return fmt.Errorf("entry %d: %w", u.first+uint64(i), err)
		}
		return nil
	}
	return &wave{n: len(all), do: func(i int) error { return at(i, parse(i)) }, turn: func(i int) error {
		st := all[i].statement
		entry.Blobs(st, func(d contracts.Digest, as entry.Role) { named[d] |= as })
		err := p.governed(st, l)
		if err == nil {
			err = l.add(all[i].hash, st, l.chain(st.Session))
		}
		return at(i, err)
	}}
}

var readers = sync.Pool{New: func() any { return new(contracts.Reader) }}
