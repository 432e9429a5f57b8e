package postgres

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/crypto"
)

// A tile is a row of hashes: hashes n*256 to n*256+255 of the subtrees of 256^level entries.
type tile struct {
	level int
	n     int64
}

const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
	maxTiles   = 256 // that are kept in memory, of 8 KB each
	fillTime   = 10 * time.Second
)

type tileHashes *[tileWidth]tlog.Hash

// root returns the hash of a complete subtree of which these are the hashes at one level.
func root(hashes []tlog.Hash) tlog.Hash {
	if len(hashes) == 1 {
		return hashes[0]
	}
	half := len(hashes) / 2
	return tlog.NodeHash(root(hashes[:half]), root(hashes[half:]))
}

// ReadHashes returns hashes of the log's RFC 6962 tree by their indexes in the order of package
// tlog ([tlog.StoredHashIndex]). Rows of them are stored when a checkpoint is, and it computes the
// others from the entries.
func (s *Store) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	ctx, cancel := context.WithTimeout(s.until, answerTime)
	defer cancel()
	size, err := s.Size(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		if x < 0 || x >= tlog.StoredHashCount(int64(size)) {
			return nil, fmt.Errorf("postgres: hash %d of a log of %d entries", x, size)
		}
		level, n := tlog.SplitStoredHashIndex(x)
		if list[i], err = s.hash(ctx, level, n); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// hash returns the hash of the subtree of 2^level entries from entry n*2^level on, which are there.
func (s *Store) hash(ctx context.Context, level int, n int64) (tlog.Hash, error) {
	rest := level % tileHeight
	hashes, err := s.row(ctx, level/tileHeight, n<<rest, (n+1)<<rest)
	if err != nil {
		return tlog.Hash{}, err
	}
	return root(hashes), nil
}

// row returns hashes from ≤ i < to of a level of tiles. They are of one tile.
func (s *Store) row(ctx context.Context, level int, from, to int64) ([]tlog.Hash, error) {
	at := tile{level, from / tileWidth}
	found, err := s.tile(ctx, at)
	switch {
	case err != nil:
		return nil, err
	case found != nil:
		return found[from-at.n*tileWidth : to-at.n*tileWidth], nil
	}
	return s.compute(ctx, level, from, to)
}

// compute is row of hashes that are not stored.
func (s *Store) compute(ctx context.Context, level int, from, to int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, 0, to-from)
	if level == 0 {
		entries, err := s.entries(ctx, uint64(from), uint64(to))
		for _, e := range entries {
			hashes = append(hashes, tlog.Hash(crypto.LeafHash(e.Entry)))
		}
		return hashes, err
	}
	for i := from; i < to; i++ {
		below, err := s.row(ctx, level-1, i*tileWidth, (i+1)*tileWidth)
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, root(below))
	}
	return hashes, nil
}

// tile returns a row that is stored, or nil.
func (s *Store) tile(ctx context.Context, at tile) (tileHashes, error) {
	s.mu.Lock()
	kept := s.hashes[at]
	s.mu.Unlock()
	if kept != nil {
		return kept, nil
	}
	var b []byte
	err := s.read(ctx, "hashes", func(ctx context.Context, log int32) error {
		return none(s.pool.QueryRow(ctx, "SELECT hashes FROM hashes WHERE log = $1 AND level = $2 AND n = $3",
			log, at.level, at.n).Scan(&b))
	})
	if err != nil || b == nil {
		return nil, err
	}
	if len(b) != tileWidth*len(tlog.Hash{}) {
		return nil, fmt.Errorf("postgres: hashes: row %d of level %d has %d bytes", at.n, at.level, len(b))
	}
	hashes := new([tileWidth]tlog.Hash)
	for i := range hashes {
		copy(hashes[i][:], b[i*len(hashes[i]):])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.hashes) >= maxTiles {
		clear(s.hashes)
	}
	s.hashes[at] = hashes
	return hashes, nil
}

// fillHashes stores the rows that are complete and not there, while other things go on. What it
// does not do, because it fails or takes too long, the next call does.
func (s *Store) fillHashes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.filling || s.closed.Load() {
		return
	}
	s.filling = true
	s.fillers.Add(1)
	go func() {
		defer s.fillers.Done()
		ctx, cancel := context.WithTimeout(s.until, fillTime)
		defer cancel()
		s.fill(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.filling = false
	}()
}

// fill stores the rows that are complete and not there.
func (s *Store) fill(ctx context.Context) error {
	size, err := s.Size(ctx)
	for level := 0; err == nil && size >= tileWidth; level++ {
		size /= tileWidth
		err = s.fillLevel(ctx, level, int64(size))
	}
	return err
}

// fillLevel stores the rows before row end of a level.
func (s *Store) fillLevel(ctx context.Context, level int, end int64) error {
	var n int64
	err := s.read(ctx, "hashes", func(ctx context.Context, log int32) error {
		return s.pool.QueryRow(ctx, "SELECT coalesce(max(n), -1) + 1 FROM hashes WHERE log = $1 AND level = $2",
			log, level).Scan(&n)
	})
	for ; err == nil && n < end; n++ {
		var hashes []tlog.Hash
		if hashes, err = s.compute(ctx, level, n*tileWidth, (n+1)*tileWidth); err != nil {
			break
		}
		b := make([]byte, 0, tileWidth*len(tlog.Hash{}))
		for _, h := range hashes {
			b = append(b, h[:]...)
		}
		err = s.read(ctx, "hashes", func(ctx context.Context, log int32) error {
			_, err := s.pool.Exec(ctx, `INSERT INTO hashes (log, level, n, hashes) VALUES ($1, $2, $3, $4)
				ON CONFLICT DO NOTHING`, log, level, n, b)
			return err
		})
	}
	return err
}
