package main

import (
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func Example() {
	main()
	// Output:
	// 40 paid back for 4711
	// refund was denied: POLICY_VIOLATION. A rule forbids this call. Do not try to get round it; find another way or report this. (P1:shop:large: the rule denies the call)
	// drop_all was denied: DENY_TOOL_NOT_FOUND. There is no such tool. Use one of the tools you were given. (no bundle declares the tool)
	// That is all.
}

// TestShort counts the lines after the imports that have code: docs/adapters.md promises at most
// 30.
func TestShort(t *testing.T) {
	text, err := os.ReadFile("main.go")
	require.NoError(t, err)
	files := token.NewFileSet()
	head, err := parser.ParseFile(files, "main.go", text, parser.ImportsOnly)
	require.NoError(t, err)
	after := files.Position(head.Imports[len(head.Imports)-1].End()).Line + 1
	var s scanner.Scanner
	f := files.AddFile("main.go", -1, len(text))
	s.Init(f, text, nil, 0)
	code := map[int]bool{}
	for {
		at, kind, literal := s.Scan()
		if kind == token.EOF {
			break
		}
		if line := f.Line(at); line > after && !(kind == token.SEMICOLON && literal == "\n") {
			code[line] = true
		}
	}
	assert.LessOrEqual(t, len(code), 30)
	assert.Greater(t, len(code), 20, "or the count has missed the program")
}
