package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
)

// build builds the guests with the go command that runs this program, or its test.
func build(ctx context.Context) (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "helm-sandbox-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	guests := map[string][]byte{}
	for _, name := range []string{"summary", "letter", "escape"} {
		file := filepath.Join(dir, name)
		command := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags=-s", "-o", file,
			path.Join("github.com/helmkernel/helm/examples/sandbox/guests", name))
		command.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
		if said, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the guest %s: %w\n%s", name, err, said)
		}
		if guests[name], err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	return guests, nil
}
