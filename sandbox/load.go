package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/cell"
	"github.com/helmkernel/helm/internal/meter"
	"github.com/helmkernel/helm/sandbox/internal/files"
	"github.com/helmkernel/helm/sandbox/internal/wasi"
)

// A Host is what the host supplies of what grants name: neither less nor more.
type Host struct {
	Dirs  map[string]*os.Root // by guest path, for each that is granted as "read" or "write"
	Trees map[string]fs.FS    // by guest path, for each that is granted by its digest; read by Load
	Env   map[string]string   // by name

	// Definition is the digest of the tool's definition, which a policy may pin; see
	// executor.Defined. A wrapper could not add it, because the kernel takes none for a sandbox.
	Definition contracts.Digest
}

// A Module is a tool in a sandbox. It is a driver, safe for concurrent use.
type Module struct {
	runtime    *Runtime
	code       *code
	grants     contracts.Sandbox // filled in
	env        []string
	mounts     []wasi.Mount
	definition contracts.Digest
	cell       *cell.Cell
}

var (
	_ executor.Sandboxed = (*Module)(nil)
	_ executor.Defined   = (*Module)(nil)
)

// Load compiles a module, and binds it to its grants. Name is the profile's, for records: any id
// but contracts.ProfileReported. Load keeps copies of all that it is given. It validates the
// module, and refuses it if it is invalid or outside of the limits of docs/SANDBOX.md, or if h is
// not what the grants name.
func (r *Runtime) Load(
	ctx context.Context, wasm []byte, name string, grants contracts.Sandbox, h Host,
) (*Module, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	wasm = bytes.Clone(wasm)
	grants = grants.Clone()
	info := contracts.SandboxInfo{Profile: name, Module: crypto.Sum(wasm), Meter: meter.Version, Grants: &grants}
	if name == contracts.ProfileReported {
		return nil, errors.New("sandbox: the profile " + name + " is of tools that run elsewhere")
	}
	if err := info.Check(); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	m := &Module{runtime: r, grants: grants.Filled(), definition: h.Definition}
	if err := m.bind(h); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var err error
	if m.code, err = r.codes.get(info.Module, wasm, m.grants.Memory, true); err != nil {
		return nil, err
	}
	m.cell = cell.New(m, info, wasm, m.run)
	return m, nil
}

// bind makes the environment and the directories of m's guests from what the host supplies.
func (m *Module) bind(h Host) error {
	for _, name := range m.grants.Env {
		value, ok := h.Env[name]
		if !ok {
			return fmt.Errorf("env %s: granted, and not in Host.Env", name)
		}
		if strings.IndexByte(value, 0) >= 0 {
			return fmt.Errorf("env %s: its value has a NUL", name)
		}
		m.env = append(m.env, name+"="+value)
	}
	for _, name := range slices.Sorted(maps.Keys(h.Env)) {
		if !slices.Contains(m.grants.Env, name) {
			return fmt.Errorf("env %s: in Host.Env, and not granted", name)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(m.grants.Files)) {
		made, err := m.mount(m.grants.Files[at], h.Dirs[at], h.Trees[at])
		if err != nil {
			return fmt.Errorf("files %s: %w", at, err)
		}
		m.mounts = append(m.mounts, wasi.Mount{Path: at, FS: made})
	}
	for _, at := range slices.Sorted(maps.Keys(h.Dirs)) {
		if access := m.grants.Files[at]; access != accessRead && access != accessWrite {
			return fmt.Errorf("files %s: in Host.Dirs, and not granted as read or write", at)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(h.Trees)) {
		if access := m.grants.Files[at]; access == "" || access == accessRead || access == accessWrite {
			return fmt.Errorf("files %s: in Host.Trees, and not granted as a tree", at)
		}
	}
	return nil
}

const (
	accessRead  = "read"
	accessWrite = "write"
	accessTree  = "sha256:" // and a digest
)

func (m *Module) mount(access string, dir *os.Root, tree fs.FS) (files.FS, error) {
	if access == accessRead || access == accessWrite {
		if dir == nil {
			return nil, errors.New("granted as " + access + ", and not in Host.Dirs")
		}
		own, err := dir.OpenRoot(".") // the host may close its own
		if err != nil {
			return nil, err
		}
		made, err := files.NewDir(own, access == accessWrite)
		if err != nil {
			own.Close()
			return nil, err
		}
		m.runtime.keep(own)
		return made, nil
	}
	if tree == nil {
		return nil, errors.New("granted as a tree, and not in Host.Trees")
	}
	made, err := files.NewTree(tree)
	if err != nil {
		return nil, err
	}
	if digest := accessTree + made.Digest().String(); digest != access {
		return nil, fmt.Errorf("the tree is %s, and %s is granted", digest, access)
	}
	return made, nil
}

// keep keeps a root open until Close.
func (r *Runtime) keep(root *os.Root) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.roots = append(r.roots, root)
}

// TreeDigest returns the digest of the regular files of fsys, as grants name a tree: "sha256:" and
// hex. It refuses what Load refuses.
func TreeDigest(fsys fs.FS) (string, error) {
	tree, err := files.NewTree(fsys)
	if err != nil {
		return "", fmt.Errorf("sandbox: tree: %w", err)
	}
	return accessTree + tree.Digest().String(), nil
}

// Cell is for the kernel.
func (m *Module) Cell() *cell.Cell { return m.cell }

// Definition returns what the Host said.
func (m *Module) Definition() contracts.Digest { return m.definition }

// Run runs the module. The kernel runs it by its Cell.
func (m *Module) Run(ctx context.Context, call contracts.Call) (executor.Result, error) {
	return m.run(ctx, call)
}

func (m *Module) run(ctx context.Context, call contracts.Call) (cell.Result, error) {
	end := m.runtime.run(ctx, &job{
		code: m.code, grants: &m.grants, decided: call.Permit.Decided,
		setup: setupOf(&m.grants, call.Tool, call.Args, m.env, m.mounts),
	})
	result := cell.Result{Gas: end.gas}
	switch end.reason {
	case contracts.ReasonAllow:
		result.Output = end.output
		return result, nil
	case contracts.ReasonToolError, "":
		return result, end.err
	}
	return result, executor.LimitError{Reason: end.reason}
}

func setupOf(g *contracts.Sandbox, tool string, args []byte, env []string, mounts []wasi.Mount) wasi.Setup {
	return wasi.Setup{
		Args: append([]string{tool}, g.Args...), Env: env, Stdin: args, Output: g.Output, Mounts: mounts,
	}
}
