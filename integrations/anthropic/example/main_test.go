package main

import (
	"bytes"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProgram runs the program, and compares what the model is told.
func TestProgram(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = w
	main()
	os.Stdout = stdout
	require.NoError(t, w.Close())
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	require.Len(t, lines, 3)
	assert.Equal(t, `refunded {"amount":80,"order":"4711"}`, lines[0])
	assert.True(t, strings.HasPrefix(lines[1], "Error: refund was denied: POLICY_VIOLATION. "), lines[1])
	assert.True(t, strings.HasPrefix(lines[2], "Error: wipe was denied: DENY_TOOL_NOT_FOUND. "), lines[2])
}

// TestShort: the program has at most 30 lines of code, without package clause, imports and
// comments.
func TestShort(t *testing.T) {
	text, err := os.ReadFile("main.go")
	require.NoError(t, err)
	at := bytes.Index(text, []byte("\n)\n")) + 3 // the end of the imports
	require.Greater(t, at, 3)
	var s scanner.Scanner
	file := token.NewFileSet()
	s.Init(file.AddFile("main.go", -1, len(text)-at), text[at:], nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, _ := s.Scan()
		if tok == token.EOF {
			break
		}
		lines[file.Position(pos).Line] = true
	}
	assert.LessOrEqual(t, len(lines), 30)
	assert.Greater(t, len(lines), 10)
}
