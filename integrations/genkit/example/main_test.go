package main

import (
	"go/scanner"
	"go/token"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The program runs, and one refund is all that the model gets.
func TestProgram(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = w
	defer func() { os.Stdout = stdout }()
	main()
	require.NoError(t, w.Close())
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, 3)
	assert.Equal(t, "refunded 80", lines[0])
	assert.Contains(t, lines[1], "refund was denied: NO_POLICY_DEFINED. ")
	assert.Contains(t, lines[2], "shell was denied: DENY_TOOL_NOT_FOUND. ")
}

// The program has at most 30 lines of code, without imports.
func TestLines(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("main.go")
	require.NoError(t, err)
	_, code, found := strings.Cut(string(text), "\n)\n")
	require.True(t, found)
	file := token.NewFileSet().AddFile("main.go", -1, len(code))
	var s scanner.Scanner
	s.Init(file, []byte(code), nil, 0)
	lines := map[int]bool{}
	for pos, tok, lit := s.Scan(); tok != token.EOF; pos, tok, lit = s.Scan() {
		if tok != token.SEMICOLON || lit != "\n" {
			lines[file.Line(pos)] = true
		}
	}
	assert.Less(t, len(lines), 31)
}
