package filestore

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"

	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

const (
	stateName    = "state"
	stateMagic   = "helm log's state"
	stateVersion = 1
	stateHead    = len(stateMagic) + 3*4
	maxState     = 1 << 30
	statePiece   = 128 << 10 // bytes of one write, after which SaveState can be ended
)

// A saving is one SaveState.
type saving struct {
	*Store
	ctx context.Context
}

// run writes the file, and puts it in its place.
func (s saving) run(state []byte) error {
	if err := s.more(); err != nil {
		return err
	}
	if len(state) > maxState {
		return fmt.Errorf("%d bytes, want at most %d", len(state), maxState)
	}
	path := filepath.Join(s.dir, stateName)
	err := s.write(path+newKind, state)
	if err == nil {
		err = s.disk.Rename(path+newKind, path)
	}
	if err != nil {
		_ = s.disk.Remove(path + newKind) // else the next Open does
		return err
	}
	return s.disk.SyncDir(s.dir)
}

// more returns the error why no state can be written, or no more of it, or nil.
func (s saving) more() error {
	if s.closing.Load() { // Close waits for this
		return errClosed
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.writable(s.ctx); err != nil {
		return err
	}
	return checkName(s.end.File, s.end.path) // the directory may be another log's by now
}

// write writes the file, and makes its bytes durable.
func (s saving) write(path string, state []byte) error {
	f, err := s.disk.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := le.AppendUint32([]byte(stateMagic), stateVersion)
	head = le.AppendUint32(head, uint32(len(state)))
	if _, err := f.WriteAt(le.AppendUint32(head, stateSum(head, state)), 0); err != nil {
		return err
	}
	for at := 0; at < len(state); {
		if err := s.more(); err != nil {
			return err
		}
		n := min(len(state)-at, statePiece)
		if _, err := f.WriteAt(state[at:at+n], int64(stateHead+at)); err != nil {
			return err
		}
		at += n
	}
	return f.Sync()
}

func stateSum(head, state []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, table), table, state)
}

var errState = errors.New("not a state that was saved: the log opens without this file")

func readState(f disk.File) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size < int64(stateHead) || size > int64(stateHead+maxState) {
		return nil, errState
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, errors.Join(errState, err)
	}
	head, state := b[:stateHead], b[stateHead:]
	fields := head[len(stateMagic):]
	if string(head[:len(stateMagic)]) != stateMagic || le.Uint32(fields) != stateVersion ||
		int(le.Uint32(fields[4:])) != len(state) || le.Uint32(fields[8:]) != stateSum(head[:stateHead-4], state) {
		return nil, errState
	}
	if len(state) == 0 {
		return nil, nil
	}
	return state, nil
}
