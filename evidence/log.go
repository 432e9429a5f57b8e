package evidence

import (
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/proofgraph"
)

// A log is the fold of the entries that writer and verifier both make: the end of each session,
// which entries are named, and the tree.
type log struct {
	index  proofgraph.Index
	tree   proofgraph.Tree
	chains map[string]*chain
	named  bits // entries that another one names
	origin string
	first  contracts.Digest // hash of genesis
	stubs  []stubbed        // by index
	gone   bits             // entries of the sets of condense entries
	times  latest
	nodes  [][]tlog.Hash // of the tree: see node
}

// A chain is one session.
type chain struct {
	name    string
	count   uint64 // of its entries
	index   uint64 // of the last one
	lamport uint64 // of the last one
	time    contracts.Time
	held    *session // for questions about its past; nil: it is not held
	open    uint32   // ALLOWs without a receipt
	closed  bool
}

// size returns how many entries the log has, and so the index of the next one.
func (l *log) size() uint64 { return l.tree.Size() }

// chain returns a session; one that has no entry yet starts at genesis.
func (l *log) chain(session string) *chain {
	c := l.chains[session]
	if c == nil {
		c = &chain{name: session}
	}
	return c
}

// latest returns the hash of a session's last entry, or of genesis if it has none. It reads the
// index, since there may be as many sessions as entries.
func (l *log) latest(c *chain) contracts.Digest {
	if c.count == 0 {
		return l.first
	}
	return l.index.Hash(c.index)
}

// add appends an entry to its chain. A verifier has looked up the entries that it names; a writer
// passes over those that it does not find.
func (l *log) add(hash contracts.Digest, st *contracts.Statement, c *chain) error {
	if st.Genesis != nil {
		l.origin, l.first = st.Genesis.Origin, hash
	}
	c.closed = c.closed || st.Close != nil
	return l.append(hash, &st.Header, c)
}

func (l *log) append(hash contracts.Digest, h *contracts.Header, c *chain) error {
	at := l.size()
	if l.chains == nil {
		l.chains = map[string]*chain{}
	}
	switch {
	case at == 0:
	case c.count > 0:
		l.named.set(c.index)
	default:
		l.named.set(0)
	}
	for _, p := range h.Parents {
		if i, _, ok := l.index.Lookup(p); ok {
			l.named.set(i)
		}
	}
	l.chains[c.name] = c
	c.count, c.index, c.lamport, c.time = c.count+1, at, h.Lamport, h.Time
	l.times.add(at, h.Time)
	l.tree.Append(hash)
	return l.index.Add(hash, h.Lamport)
}

// bits are a set of entries.
type bits []uint64

func (b *bits) set(index uint64) {
	for uint64(len(*b)) <= index>>6 {
		*b = append(*b, 0)
	}
	(*b)[index>>6] |= 1 << (index & 63)
}

func (b bits) has(index uint64) bool {
	return index>>6 < uint64(len(b)) && b[index>>6]&(1<<(index&63)) != 0
}

// graphHash returns the SHA-256 of the canonical array of all heads, sorted: entries that no other
// one names. An entry is named by the next one of its session, so only the last ones are heads.
func (l *log) graphHash() contracts.Digest {
	var heads []contracts.Digest
	for _, c := range l.chains {
		if !l.named.has(c.index) {
			heads = append(heads, l.latest(c))
		}
	}
	slices.SortFunc(heads, entry.Compare)
	b := []byte{'['}
	for i, h := range heads {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b, _ = h.AppendText(b)
		b = append(b, '"')
	}
	return crypto.Sum(append(b, ']'))
}

// sessions counts all sessions, the kernel's included, and puts their ends under one root.
func (l *log) sessions() contracts.Sessions {
	names := make([]string, 0, len(l.chains))
	for name := range l.chains {
		names = append(names, name)
	}
	slices.Sort(names)
	var t proofgraph.Tree
	var b []byte
	for _, name := range names {
		c := l.chains[name]
		end := contracts.SessionEnd{Count: c.count, Last: l.latest(c), Session: name}
		b = end.Append(b[:0])
		t.Append(crypto.LeafHash(b))
	}
	return contracts.Sessions{Count: uint64(len(names)), Root: t.Root()}
}
