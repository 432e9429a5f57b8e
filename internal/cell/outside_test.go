package cell_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Code of another module, each a program of its own, and what the compiler says of it; "" is
// nothing.
var outside = map[string]struct{ code, says string }{
	"names the type": {`
import "github.com/helmkernel/helm/internal/cell"

var _ *cell.Cell
`, "use of internal package github.com/helmkernel/helm/internal/cell not allowed"},
	"names the function that makes cells": {`
import "github.com/helmkernel/helm/internal/cell"

var _ = cell.New
`, "use of internal package github.com/helmkernel/helm/internal/cell not allowed"},
	"has a type of the same form": {`
import (
	"context"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
)

type Cell struct{ claim any }

func (c *Cell) Info() contracts.SandboxInfo { return contracts.SandboxInfo{Profile: "pure"} }

type driver struct{}

func (driver) Cell() *Cell { return new(Cell) }
func (driver) Run(context.Context, contracts.Call) (executor.Result, error) { return executor.Result{}, nil }

var _ executor.Sandboxed = driver{}
`, "does not implement executor.Sandboxed (wrong type for method Cell)"},
	"sets what a cell holds": {`
import "github.com/helmkernel/helm/executor"

func f(d executor.Sandboxed) { d.Cell().claim = nil }
`, "d.Cell().claim undefined"},
	// What compiles makes no cell that runs other code: the tests of the kernel try it.
	"holds and copies a cell": {`
import (
	"context"
	"reflect"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
)

type holder[C any] struct{ cell C }

func (h *holder[C]) Cell() C { return h.cell }
func (h *holder[C]) Run(context.Context, contracts.Call) (executor.Result, error) { return executor.Result{}, nil }

func hold[C any](c C) *holder[C] { return &holder[C]{c} }

func f(d executor.Sandboxed) []executor.Sandboxed {
	copied := *d.Cell()
	zero := reflect.New(reflect.TypeOf(d.Cell()).Elem())
	*d.Cell() = *hold(d.Cell()).Cell()
	other := hold(d.Cell())
	reflect.ValueOf(&other.cell)
	return []executor.Sandboxed{hold(d.Cell()), hold(&copied), struct{ executor.Sandboxed }{d}, other, zeroed(other, zero)}
}

func zeroed[C any](h *holder[C], zero reflect.Value) *holder[C] { return &holder[C]{zero.Interface().(C)} }
`, ""},
}

// No other module can name the type of a cell, nor the function that makes one.
func TestNoOtherModuleNamesCells(t *testing.T) {
	t.Parallel()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go tool: what another module cannot name was not compiled")
	}
	library, err := filepath.Abs("../..")
	require.NoError(t, err)
	sums, err := os.ReadFile(filepath.Join(library, "go.sum"))
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, text string) {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	write("go.mod", "module example.test/other\n\ngo 1.25.0\n\nrequire github.com/helmkernel/helm v0.0.0\n\n"+
		"replace github.com/helmkernel/helm => "+library+"\n")
	write("go.sum", string(sums))
	build := func(list []string) string {
		cmd := exec.CommandContext(t.Context(), goTool, append([]string{"build"}, list...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
		said, err := cmd.CombinedOutput()
		require.Error(t, err, "%v: %s", list, said)
		return string(said)
	}
	lists := map[bool][]string{} // by whether the package is not even loaded
	for name, x := range outside {
		pkg := "./" + strings.ReplaceAll(name, " ", "_")
		write(pkg+"/a.go", "package p\n"+x.code)
		internal := strings.HasPrefix(x.says, "use of internal package")
		lists[internal] = append(lists[internal], pkg)
	}
	said := build(lists[true]) + build(lists[false])
	for name, x := range outside {
		pkg := strings.ReplaceAll(name, " ", "_")
		assert.Equal(t, x.says != "", strings.Contains(said, pkg), "%s: %s", name, said)
		assert.Contains(t, said, x.says, name)
	}
}
