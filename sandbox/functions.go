package sandbox

import (
	"context"

	"github.com/tetratelabs/wazero/api"

	"github.com/helmkernel/helm/internal/meter"
	"github.com/helmkernel/helm/sandbox/internal/wasi"
)

// A function is one that guests import.
type function struct {
	name            string
	params, results []api.ValueType
	call            api.GoModuleFunc
}

// functions returns WASI's, of the types that the meter knows. A guest can import no others.
func functions() []function {
	own := wasi.Functions()
	all := make([]function, 0, len(own))
	for i, f := range meter.Functions() {
		all = append(all, function{f.Name, f.Params, f.Results, adapt(&own[i], len(f.Params))})
	}
	return all
}

func adapt(f *wasi.Function, params int) api.GoModuleFunc {
	return func(ctx context.Context, m api.Module, stack []uint64) {
		var memory []byte
		if all := m.Memory(); all != nil {
			memory, _ = all.Read(0, all.Size())
		}
		errno := f.Call(guestOf(ctx).world, memory, stack[:params])
		if len(stack) > 0 {
			stack[0] = uint64(errno)
		}
	}
}
