package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// The bytes of the last segment cannot show that frames at its end were lost: zeros are what
// follows the last frame. So the file end says how far the log was acknowledged.
//
//	"helm log's end 1" | segment[4] | header's checksum[4] | offset[4] | chain[4] | checksum[4]
//
// It has two such records, each in a sector of its own, and they are written by turns: a record
// that a crash tore leaves the other. The one that is further counts.
//
// It is written after the sync of a frame, and not synced by itself, so it never says more than is
// on stable storage. After a crash of the process it is exact. After a crash of the system it may
// be some seconds old.
var endMagic = []byte("helm log's end 1")

const (
	endRecord = 16 + 5*4
	endBytes  = 2 * sector // of the file
)

func (e logEnd) encode() []byte {
	b := append([]byte(nil), endMagic...)
	for _, n := range [...]uint32{e.segment, e.sum, e.offset, e.chain} {
		b = le.AppendUint32(b, n)
	}
	return le.AppendUint32(b, crc32.Checksum(b, table))
}

func (e *logEnd) decode(b []byte) bool {
	if len(b) < endRecord || !bytes.HasPrefix(b, endMagic) ||
		crc32.Checksum(b[:endRecord-4], table) != le.Uint32(b[endRecord-4:]) {
		return false
	}
	*e = logEnd{le.Uint32(b[16:]), le.Uint32(b[20:]), le.Uint32(b[24:]), le.Uint32(b[28:])}
	return true
}

// An endFile is the file end. Until it is open it only knows what the file says.
type endFile struct {
	disk.File
	path string
	last logEnd
	next int64 // the offset at which the next record is written
	none bool  // there was no such file, as in a log of an earlier version
}

// read reads the file.
func (f *endFile) read(d disk.Disk) error {
	file, err := d.View(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.none = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("filestore: %w", err)
	}
	defer file.Close()
	b := make([]byte, endBytes)
	n, err := file.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("filestore: %w", err)
	}
	found := false
	for at := 0; at < n; at += sector {
		var e logEnd
		if !e.decode(b[at:n]) {
			continue
		}
		if !found || e.segment > f.last.segment || e.segment == f.last.segment && e.offset > f.last.offset {
			f.last, f.next = e, int64(sector-at)
		}
		found = true
	}
	if !found {
		return &damage{f.path, 0,
			"not the end of a log. Without this file the log opens, and nobody knows whether its last segment is whole"}
	}
	return nil
}

// check returns an error if the segments, one of which it names, do not reach to where the log was
// acknowledged.
func (f *endFile) check(list []*foundSegment) error {
	e := f.last
	if e.segment == 0 {
		return nil
	}
	const older = "; if an older copy of the log was put back on purpose, remove the file end"
	switch g := list[e.segment-1]; {
	case g.original() != e.sum:
		return &damage{f.path, 0, "the end of another log than " + filepath.Base(g.path) + older}
	case g.hasIndex, g.times > 0: // it is full, and the next segment follows from it
		return nil
	case g.end < e.offset:
		return &damage{g.path, uint64(g.end), fmt.Sprintf("the frames end here, and the file end says that they "+
			"went on to offset %d: they were overwritten"+older, e.offset)}
	case !g.reached:
		return &damage{g.path, uint64(e.offset), "up to here other frames were acknowledged" + older}
	}
	return nil
}

// open opens the file, or makes it, and writes to it where the log ends.
func (f *endFile) open(d disk.Disk, e logEnd) (err error) {
	if !f.none {
		if f.File, err = d.Open(f.path); err != nil {
			return err
		}
		return f.write(e)
	}
	if f.File, err = createEnd(d, f.path, e); err != nil {
		return err
	}
	f.last, f.next = e, sector
	return d.SyncDir(filepath.Dir(f.path))
}

// createEnd makes the file end. Its name is durable after SyncDir.
func createEnd(d disk.Disk, path string, e logEnd) (disk.File, error) {
	f, err := d.Create(path + newKind)
	if err != nil {
		return nil, err
	}
	b := make([]byte, endBytes)
	copy(b, e.encode())
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = d.Rename(path+newKind, path)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// write writes the next record.
func (f *endFile) write(e logEnd) error {
	if e == f.last {
		return nil
	}
	if _, err := f.WriteAt(e.encode(), f.next); err != nil {
		return fmt.Errorf("%s: offset %d: %w", f.path, f.next, err)
	}
	f.last, f.next = e, sector-f.next
	return nil
}

// insideLog returns an error if dir is in the directory of a log, because it would be a file there
// that is none of the log's.
func insideLog(d disk.Disk, dir string) error {
	parent := filepath.Join(dir, "..")
	if parent == filepath.Clean(dir) {
		return nil
	}
	for name, begin := range map[string][]byte{endName: endMagic, "00000001" + logKind: magic[:]} {
		f, err := d.View(filepath.Join(parent, name))
		if err != nil {
			continue
		}
		b := make([]byte, len(begin))
		n, _ := f.ReadAt(b, 0)
		f.Close()
		if bytes.Equal(b[:n], begin) {
			return fmt.Errorf("%s: in the directory of another log, which could not be opened then: name another place",
				dir)
		}
	}
	return nil
}
