package sandbox

import (
	"encoding/binary"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/meter"
	"github.com/helmkernel/helm/sandbox/internal/files"
)

// A script is a guest that calls one WASI function after the other, and prints what they return and
// what they wrote.
type script struct {
	*room
	names []string
	index map[string]uint32
	code  []byte
	data  []byte // from address 16 on
	calls int
}

// Memory of a script: the errnos at errnos, and what functions write at scratch, 1 KiB.
const (
	errnos  = 0x8000
	scratch = 0xf000
)

// An at is an address in scratch; a fdAt is the number that was written there.
type (
	at   int64
	fdAt int64
)

func (r *room) script() *script {
	return &script{room: r, index: map[string]uint32{}, names: []string{"fd_write"}}
}

// call adds a call. A string is a pointer and a length.
func (s *script) call(name string, args ...any) *script {
	s.Helper()
	index, known := s.index[name]
	if !known {
		index = uint32(len(s.names))
		s.index[name] = index
		s.names = append(s.names, name)
	}
	var params []byte
	for _, f := range meter.Functions() {
		if f.Name == name {
			params = f.Params
		}
	}
	s.code = append(s.code, i32(int64(errnos+4*s.calls))...)
	n := 0
	for _, arg := range args {
		require.Less(s, n, len(params), "%s has too many arguments", name)
		switch v := arg.(type) {
		case string:
			s.code = append(s.code, ops(i32(int64(16+len(s.data))), i32(int64(len(v))))...)
			s.data = append(s.data, v...)
			n++
		case at:
			s.code = append(s.code, i32(int64(scratch+v))...)
		case fdAt:
			s.code = append(s.code, ops(i32(int64(scratch+v)), i32load)...)
		case int:
			if params[n] == valueTypes['I'] {
				s.code = append(s.code, i64(int64(v))...)
			} else {
				s.code = append(s.code, i32(int64(v))...)
			}
		}
		n++
	}
	require.Equal(s, len(params), n, "arguments of %s", name)
	s.code = append(s.code, ops(call(index), i32store)...)
	s.calls++
	return s
}

// open opens a path below a descriptor, and has the number written to scratch.
func (s *script) open(dir any, path string, oflags, rights int, to at) *script {
	return s.call("path_open", dir, 1, path, oflags, rights, 0, 0, to)
}

// read reads 16 bytes of what was opened to scratch + 512.
func (s *script) read(fd any) *script {
	s.code = append(s.code, ops(i32(scratch+480), i32(scratch+512), i32store, i32(scratch+484), i32(16), i32store)...)
	return s.call("fd_read", fd, at(480), 1, at(496))
}

// write writes "pwned".
func (s *script) write(fd any) *script {
	p := int64(16 + len(s.data))
	s.data = append(s.data, "pwned"...)
	s.code = append(s.code, ops(i32(scratch+480), i32(p), i32store, i32(scratch+484), i32(5), i32store)...)
	return s.call("fd_write", fd, at(480), 1, at(496))
}

func (s *script) wasm() []byte {
	print := func(from, size int64) []byte {
		return ops(i32(0), i32(from), i32store, i32(4), i32(size), i32store, callWith(0, 1, 0, 1, 8))
	}
	b := build{memory: 1, imports: s.names, data: string(s.data), dataAt: 16, funcs: []fn{{
		code: ops(s.code, print(errnos, int64(4*s.calls)), print(scratch, 1024)),
	}}}
	return b.bytes()
}

// run has a kernel run a script under grants, and returns the errnos and what is in scratch.
func (s *script) run(grants contracts.Sandbox, h Host) ([]files.Errno, string) {
	s.Helper()
	receipt := s.room.call(s.load(s.wasm(), grants, h))
	output := receipt.Output
	require.True(s, receipt.Record.Outcome == contracts.Executed && receipt.Record.OutputForm == "raw", "%+v",
		receipt.Record)
	require.Len(s, output, 4*s.calls+1024)
	var all []files.Errno
	for i := range s.calls {
		all = append(all, files.Errno(binary.LittleEndian.Uint32(output[4*i:])))
	}
	return all, string(output[4*s.calls:])
}
