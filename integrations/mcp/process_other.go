//go:build !unix

package mcp

import "os/exec"

// Elsewhere only the process itself is ended.
func group(*exec.Cmd) {}

func killGroup(int) {}
