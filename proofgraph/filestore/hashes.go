package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/hashes"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// The file hashes has the RFC 6962 hashes of the log as tiles, without a header: of 16 leaves each,
// of 16 nodes that complete tiles have as their roots, and so on up. A tile is written when it is
// complete, so the tiles are in the order in which the log completes them, and a log of n entries
// has n/16 + n/256 + … of them, 34.2 bytes an entry. No other hashes need be stored: tlog computes
// those between from a tile.
//
// Nothing in the file says that it is right. The root that it leads to is compared with the log's
// checkpoint before it is used, and tiles after those of the checkpoint are not used at all: the
// entries there are hashed again. From then on the root of the log is known, and package tlog
// checks each tile that is read against it.
const (
	hashesName = "hashes"
	tileHeight = 4
	tileWidth  = 1 << tileHeight
	tileBytes  = tileWidth * tlog.HashSize
	maxLag     = 4096     // entries that one Append or Open hashes besides its own
	maxUnkept  = 32 << 20 // bytes of tiles that stay in memory because they cannot be written
)

// A tree is the hashes of the log, as far as they are known.
type tree struct {
	of    *Store
	mu    sync.Mutex // held while hashes are made or read
	known bool       // the fields below are those of the first size entries
	size  uint64
	edge  [64 / tileHeight][]byte // by level, the tile that is not complete
	kept  uint64                  // tiles in the file
	tail  []byte                  // complete tiles that are not in the file
	file  disk.File               // nil: none
}

// tilesOf returns the number of tiles of a log that has so many complete tiles of leaves.
func tilesOf(leafTiles uint64) (n uint64) {
	for ; leafTiles > 0; leafTiles >>= tileHeight {
		n += leafTiles
	}
	return n
}

// leafTilesOf is the inverse of tilesOf: of so many tiles how many are of leaves, at most.
func leafTilesOf(tiles uint64) uint64 {
	n := tiles - tiles/tileWidth + uint64(len(tree{}.edge)) // 15/16 of them, and not more than one a level
	for n > 0 && tilesOf(n) > tiles {
		n--
	}
	return n
}

// rootOf returns the root of a complete tile.
func rootOf(tile []byte) contracts.Digest {
	var t proofgraph.Tree
	for ; len(tile) > 0; tile = tile[tlog.HashSize:] {
		t.Append(contracts.Digest(tile))
	}
	return t.Root()
}

func (t *tree) path() string { return filepath.Join(t.of.dir, hashesName) }

// begun brings the hashes of a log that was opened to its end, if not many are missing.
func (t *tree) begun() {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.reach(t.of.entries, maxLag) // else when they are asked for
}

// reset makes the tree that of an empty log.
func (t *tree) reset() {
	t.known, t.size, t.kept, t.tail = false, 0, 0, nil
	clear(t.edge[:])
}

// add adds the hash of an entry.
func (t *tree) add(hash contracts.Digest) {
	t.size++
	for level := range t.edge {
		tile := append(t.edge[level], hash[:]...)
		if len(tile) < tileBytes {
			t.edge[level] = tile
			return
		}
		t.edge[level] = tile[:0]
		t.tail = append(t.tail, tile...)
		hash = rootOf(tile)
	}
}

func (t *tree) addEntry(e contracts.Entry) error {
	leaf, err := hashes.Leaf(e)
	if err != nil {
		return fmt.Errorf("entry %d: %w", t.size, err)
	}
	t.add(leaf)
	return nil
}

// begin makes the tree that of the first leafTiles tiles of the file.
func (t *tree) begin(leafTiles uint64) error {
	t.reset()
	t.size, t.kept = leafTiles*tileWidth, tilesOf(leafTiles)
	for level := 1; t.size>>(tileHeight*level) > 0; level++ {
		n := int64(t.size >> (tileHeight * level))
		for i := n &^ (tileWidth - 1); i < n; i++ {
			tile, err := t.tile(tlog.Tile{H: tileHeight, L: level - 1, N: i, W: tileWidth})
			if err != nil {
				return err
			}
			root := rootOf(tile)
			t.edge[level] = append(t.edge[level], root[:]...)
		}
	}
	return nil
}

// tile returns the bytes of a tile, and checks nothing.
func (t *tree) tile(x tlog.Tile) ([]byte, error) {
	size := x.W * tlog.HashSize
	if uint64(x.N) == t.size>>(tileHeight*(x.L+1)) {
		return t.edge[x.L][:size], nil
	}
	last := uint64(x.N+1)<<(tileHeight*x.L) - 1 // the last tile of leaves under it, after which its ancestors come
	n := tilesOf(last) + uint64(x.L)
	if n >= t.kept {
		return t.tail[(n-t.kept)*tileBytes:][:size], nil
	}
	if t.file == nil {
		return nil, fs.ErrNotExist
	}
	b := make([]byte, size)
	if got, err := t.file.ReadAt(b, int64(n*tileBytes)); got < size {
		return nil, err
	}
	return b, nil
}

// root returns the root of the tree, which has at least one leaf.
func (t *tree) root() (tlog.Hash, error) {
	return tlog.TreeHash(int64(t.size), tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		list := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			x := tlog.TileForIndex(tileHeight, index)
			b, err := t.tile(x) // of the edge
			if err == nil {
				list[i], err = tlog.HashFromTile(x, b, index)
			}
			if err != nil {
				return nil, err
			}
		}
		return list, nil
	}))
}

// Height, ReadTiles and SaveTiles make it a [tlog.TileReader].
func (t *tree) Height() int { return tileHeight }

func (t *tree) ReadTiles(list []tlog.Tile) ([][]byte, error) {
	tiles := make([][]byte, len(list))
	for i, x := range list {
		var err error
		if tiles[i], err = t.tile(x); err != nil {
			return nil, err
		}
	}
	return tiles, nil
}

func (t *tree) SaveTiles([]tlog.Tile, [][]byte) {}

// readKnown returns hashes that are in the tree.
func (t *tree) readKnown(indexes []int64) ([]tlog.Hash, error) {
	root, err := t.root()
	if err != nil {
		return nil, err
	}
	return tlog.TileHashReader(tlog.Tree{N: int64(t.size), Hash: root}, t).ReadHashes(indexes)
}

// read returns hashes of a log of size entries, at least one. Those that are missing are made
// first, from the entries, as are all if any that are read are wrong.
func (t *tree) read(indexes []int64, size uint64) ([]tlog.Hash, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	limit := size
	if t.of.readOnly {
		limit = maxUnkept / (tileBytes / tileWidth) / 2
	}
	if err := t.reach(size, limit); err != nil {
		return nil, err
	}
	if list, err := t.readKnown(indexes); err == nil {
		return list, nil
	}
	t.reset()
	if err := t.extend(size); err != nil {
		return nil, err
	}
	t.known = true
	return t.readKnown(indexes)
}

var (
	errLag    = errors.New("too many entries were not hashed yet")
	errUnkept = errors.New("too many hashes, and they cannot be written")
)

// reach makes the tree that of the first size entries. If more than limit of them would have to be
// hashed, it returns errLag. The caller holds mu.
func (t *tree) reach(size, limit uint64) error {
	if !t.known {
		if err := t.load(size, limit); err != nil {
			return err
		}
	}
	if t.size+limit < size {
		return errLag
	}
	return t.extend(size)
}

// load makes the tree that of the log's checkpoint, by the tiles in the file if they are its.
// Else it is that of no entries.
func (t *tree) load(size, limit uint64) error {
	t.of.mu.RLock()
	mark, _, err := proofgraph.ParseCheckpoint(t.of.note)
	t.of.mu.RUnlock()
	if err == nil && mark.Size > 0 && mark.Size <= size {
		tiles := min(leafTilesOf(t.inFile()), mark.Size/tileWidth)
		if tiles*tileWidth+limit < size {
			return errLag
		}
		if t.begin(tiles) == nil {
			if err := t.extend(mark.Size); err != nil {
				return err
			}
			root, err := t.root()
			t.known = err == nil && root == tlog.Hash(mark.Root)
		}
	}
	if !t.known {
		t.reset()
		t.known = size <= limit
	}
	if !t.known {
		return errLag
	}
	return nil
}

// inFile returns the number of tiles in the file, which it opens.
func (t *tree) inFile() uint64 {
	get := t.of.disk.Open
	if t.of.readOnly {
		get = t.of.disk.View
	}
	if t.file == nil {
		if f, err := get(t.path()); err == nil {
			t.file = f
		}
	}
	if t.file == nil {
		return 0
	}
	size, err := t.file.Size()
	if err != nil {
		return 0
	}
	return uint64(size) / tileBytes
}

// extend adds the entries up to size to the tree.
func (t *tree) extend(size uint64) error {
	for t.size < size {
		for e, err := range t.of.Entries(context.Background(), t.size, min(size, t.size+maxLag)) {
			if err != nil {
				return err
			}
			if err := t.addEntry(e); err != nil {
				return err
			}
		}
		if err := t.keep(); err != nil {
			return err
		}
	}
	return nil
}

// keep writes tiles that were completed. They stay in memory if that fails, so that a disk
// that is full is no reason to have no hashes.
func (t *tree) keep() error {
	if len(t.tail) == 0 {
		return nil
	}
	if !t.of.readOnly && t.file == nil {
		if f, err := t.of.disk.Create(t.path()); err == nil {
			t.file = f
		}
	}
	if !t.of.readOnly && t.file != nil {
		if _, err := t.file.WriteAt(t.tail, int64(t.kept*tileBytes)); err == nil {
			t.kept, t.tail = t.kept+uint64(len(t.tail)/tileBytes), t.tail[:0]
		}
	}
	if len(t.tail) > maxUnkept {
		t.reset()
		return errUnkept
	}
	return nil
}

// batch adds the entries of a batch that is durable, if the tree is known and nobody uses it. A
// tree that is not far from the end of the log is brought there.
func (t *tree) batch(b *proofgraph.Batch) {
	if !t.mu.TryLock() { // the next to read goes on from here
		return
	}
	defer t.mu.Unlock()
	var err error
	switch {
	case t.known && t.size == b.At:
		for _, e := range b.Entries {
			if err = t.addEntry(e); err != nil {
				break
			}
		}
		if err == nil {
			err = t.keep()
		}
	case t.known || b.Checkpoint != nil:
		err = t.reach(b.At+uint64(len(b.Entries)), maxLag)
	}
	if err != nil && err != errLag {
		t.reset() // until the next checkpoint, or the next ReadHashes
	}
}

// close closes the file. It is synced, because hashes that a crash of the system took away would
// have to be made again.
func (t *tree) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reset()
	if t.file == nil {
		return nil
	}
	_ = t.file.Sync()
	err := t.file.Close()
	t.file = nil
	return err
}
