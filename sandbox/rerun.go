package sandbox

import (
	"context"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/meter"
	"github.com/helmkernel/helm/sandbox/internal/files"
	"github.com/helmkernel/helm/sandbox/internal/wasi"
)

// Rerun returns what an auditor passes to package evidence, so that it runs closed calls of a pack
// again. Modules are those that the pack may lack; trees are those that grants name by digest.
// Rerun reads the trees at once; one that Load would refuse counts as none. What it returns is safe
// for concurrent use, and runs code of the pack, within the limits of its grants.
func (r *Runtime) Rerun(modules [][]byte, trees ...fs.FS) contracts.Rerun {
	a := auditor{r, map[contracts.Digest][]byte{}, map[string]*files.Tree{}}
	for _, module := range modules {
		a.modules[crypto.Sum(module)] = slices.Clone(module)
	}
	for _, fsys := range trees {
		if tree, err := files.NewTree(fsys); err == nil {
			a.trees[accessTree+tree.Digest().String()] = tree
		}
	}
	return a.rerun
}

// An auditor has what a pack may lack.
type auditor struct {
	runtime *Runtime
	modules map[contracts.Digest][]byte
	trees   map[string]*files.Tree // by access
}

func (a *auditor) rerun(ctx context.Context, call contracts.Rerunnable) (contracts.RerunResult, error) {
	grants := call.Grants.Filled()
	mounts, held := a.mounts(&grants)
	module := call.Bytes
	if module == nil {
		module = a.modules[call.Module]
	}
	result := contracts.RerunResult{Held: held && module != nil, Metered: call.Meter == meter.Version}
	if !result.Held || !result.Metered {
		return result, nil
	}
	if err := a.runtime.enter(); err != nil {
		return contracts.RerunResult{}, err
	}
	defer a.runtime.leave()
	code, err := a.runtime.codes.get(call.Module, module, grants.Memory, false)
	if err == errOther {
		result.Held = false
		return result, nil
	}
	if err != nil { // no sandbox ran it
		result.Reason = contracts.ReasonFailClosedError
		return result, nil
	}
	defer a.runtime.codes.put(code)
	end := a.runtime.run(ctx, &job{
		code: code, grants: &grants, setup: setupOf(&grants, call.Tool, call.Args, nil, mounts),
		decided: func() (contracts.Digest, contracts.Time, error) { return call.Decision, call.Time, nil },
	})
	switch end.reason {
	case "":
		return contracts.RerunResult{}, end.err
	case contracts.ReasonTimeExhausted: // the auditor's, not the tool's
		return contracts.RerunResult{}, context.DeadlineExceeded
	}
	result.Output, result.Gas, result.Reason = end.output, end.gas, end.reason
	return result, nil
}

// mounts returns the directories of a guest, if all of them are trees that are at hand.
func (a *auditor) mounts(grants *contracts.Sandbox) ([]wasi.Mount, bool) {
	var mounts []wasi.Mount
	for _, at := range slices.Sorted(maps.Keys(grants.Files)) {
		access := grants.Files[at]
		tree := a.trees[access]
		if tree == nil || !strings.HasPrefix(access, accessTree) {
			return nil, false
		}
		mounts = append(mounts, wasi.Mount{Path: at, FS: tree})
	}
	return mounts, grants.Closed()
}
