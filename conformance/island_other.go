//go:build !linux

package conformance

import "os/exec"

const isolates = false

// isolate does nothing: no command is run on an island here.
func isolate(*exec.Cmd) {}
