//go:build unix

package mcp

import (
	"os/exec"
	"syscall"
)

// group has a command lead a group of processes, so that what it starts ends with it, and a signal
// of the terminal does not reach it.
func group(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(leader int) { _ = syscall.Kill(-leader, syscall.SIGKILL) }
