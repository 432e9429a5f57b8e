package gates

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/cell"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
)

// Condition 1: the tool is of the declared surface.

// surfaceFloor demands of every field of the sandbox of tools that write.
var surfaceFloor = surfaceFloorOf("{args: [-n], env: [LANG], files: {/in: read}, gas: 1000, memory: 1MiB, modules: [" +
	crypto.Sum(kerneltest.Module).String() + "], output: 64KiB}")

// surfaceFloorOf returns a floor that demands a profile of tools that write.
func surfaceFloorOf(profile string) string {
	return `
helm: policy/v1
layer: P0
name: acme
version: 1
profile:
  effects: [read, write]
  connectors: [test]
  sandbox: {write: wasi}
sandboxes:
  wasi: ` + profile + "\n"
}

// boxedAs is a sandbox that meets the floor in every field, with a change.
func boxedAs(profile string, change func(*contracts.SandboxInfo)) contracts.SandboxInfo {
	info := kerneltest.Boxed(profile)
	info.Grants = &contracts.Sandbox{Args: []string{"-n"}, Env: []string{"LANG"},
		Files: map[string]string{"/in": "read"}, Gas: 1000, Memory: 16, Output: 64 << 10}
	change(&info)
	return info
}

// beyond are sandboxes that have one step more than the floor demands of one field.
var beyond = map[string]func(*contracts.SandboxInfo){
	"args":    func(x *contracts.SandboxInfo) { x.Grants.Args = append(x.Grants.Args, "-v") },
	"clock":   func(x *contracts.SandboxInfo) { x.Grants.Clock = "real" },
	"env":     func(x *contracts.SandboxInfo) { x.Grants.Env = []string{"HOME", "LANG"} },
	"files":   func(x *contracts.SandboxInfo) { x.Grants.Files["/in"] = "write" },
	"gas":     func(x *contracts.SandboxInfo) { x.Grants.Gas++ },
	"memory":  func(x *contracts.SandboxInfo) { x.Grants.Memory++ },
	"output":  func(x *contracts.SandboxInfo) { x.Grants.Output++ },
	"random":  func(x *contracts.SandboxInfo) { x.Grants.Random = "real" },
	"modules": func(x *contracts.SandboxInfo) { x.Module = crypto.Sum([]byte("another")) },
}

const surfaceBundle = `
helm: policy/v1
layer: P1
bundle: {name: test, version: 1}
tools:
  look: {effect: read, definition: DEFINITION, input: {type: object}}
  put:  {effect: write, input: {type: object}}
  wipe: {effect: destructive, input: {type: object}}
  mail: {effect: read, connector: other, input: {type: object}}
rules:
  - {id: all, allow: [look, put, wipe, mail]}
`

// A changing driver has another cell each time.
type changing struct {
	*kerneltest.World
	n     int
	cells [2]*cell.Cell
}

func (m *changing) Cell() *cell.Cell {
	m.n++
	return m.cells[m.n%2]
}

func change(w *kerneltest.World) *changing {
	m := &changing{World: w, n: 1}
	for i, change := range []func(*contracts.SandboxInfo){func(*contracts.SandboxInfo) {}, beyond["gas"]} {
		m.cells[i] = cell.New(m, boxedAs("wasi", change), nil, w.Run)
	}
	return m
}

func gateSurface() gate {
	bundle := strings.Replace(surfaceBundle, "DEFINITION", published.String(), 1)
	stage := func(t *testing.T) *target {
		s := newTarget(t, helm.Intent{Tool: "look", Args: []byte(`{}`), Session: "s"}, []string{surfaceFloor, bundle})
		s.good.Driver = define(s.World, constant(published))
		return s
	}
	named := func(k kind, name, tool string) attack {
		return attack{kind: k, name: name, reason: contracts.ReasonToolNotFound,
			change: altered(func(in *helm.Intent) { in.Tool = tool })}
	}
	sandbox := func(k kind, name string, f func(s *target) executor.Driver) attack {
		return attack{kind: k, name: "a sandbox: " + name, reason: contracts.ReasonSandboxViolation,
			change: driverOf("put", f)}
	}
	bound := func(k kind, name string, f func(s *target) executor.Driver) attack {
		return attack{kind: k, name: "a driver: " + name, reason: contracts.ReasonDriverNotBound, change: driver(f)}
	}
	var fields []attack
	for _, field := range slices.Sorted(maps.Keys(beyond)) {
		fields = append(fields, sandbox(plain, "one step more of "+field, func(s *target) executor.Driver {
			return s.Sandboxed(boxedAs("wasi", beyond[field]), nil)
		}))
	}
	without := strings.NewReplacer("version: 1", "version: 2", "  look: {", "  gone: {", "[look, ",
		"[gone, ").Replace(bundle)
	return gate{name: "1 the surface", stage: stage, spared: map[kind]string{
		null:      "a tool's name and a driver are no JSON",
		panicking: "a declaration that panics is FAIL_CLOSED_ERROR: see gateErrors",
	}, attacks: append(fields, []attack{
		named(plain, "a tool that nobody declares", "nobody"),
		named(retyped, "the name in other letters", "Look"),
		named(plain, "the name with more after it", "look/"),
		named(oversize, "a name as long as can be", strings.Repeat("x", 128)),
		{kind: elsewhere, name: "a tool of another kernel's bundle, which a driver is bound to here",
			reason: contracts.ReasonToolNotFound,
			change: altered(func(in *helm.Intent) { in.Tool, in.Driver = "undeclared", nil })},
		{kind: replayed, name: "a call of a tool that the next version of the bundle lacks",
			reason: contracts.ReasonToolNotFound, do: func(s *target, in helm.Intent) answer {
				s.swapTo(surfaceFloor, without)
				return s.guard(in)
			}, ends: true},
		{kind: raced, name: "a swap between reading and judgement", reason: contracts.ReasonToolNotFound,
			do: func(s *target, in helm.Intent) answer {
				return s.between(in, func() { s.swapTo(surfaceFloor, without) })
			}, ends: true},

		{name: "an effect that the floor does not permit", reason: contracts.ReasonSideEffectNotPermitted,
			change: altered(func(in *helm.Intent) { in.Tool = "wipe" })},
		{kind: elsewhere, name: "the same by a narrowed kernel", reason: contracts.ReasonSideEffectNotPermitted,
			do: func(s *target, in helm.Intent) answer {
				in.Tool = "wipe"
				return by(s.task("helm: policy/v1\nlayer: P2\nname: task\nonly: [wipe, look]\n"), in)
			}},
		{name: "a connector that the floor does not permit", reason: contracts.ReasonConnectorNotAllowed,
			change: altered(func(in *helm.Intent) { in.Tool = "mail" })},
		{kind: replayed, name: "a call of an effect that the next version of the floor does not permit",
			reason: contracts.ReasonSideEffectNotPermitted, do: func(s *target, in helm.Intent) answer {
				s.swapTo(strings.NewReplacer("version: 1", "version: 2", "[read, write]",
					"[write]").Replace(surfaceFloor), bundle)
				return s.guard(in)
			}, ends: true},

		sandbox(omitted, "none declared", func(s *target) executor.Driver { return s.World }),
		sandbox(omitted, "no driver", func(s *target) executor.Driver { return nil }),
		sandbox(plain, "one that ran elsewhere", func(s *target) executor.Driver {
			return s.Sandboxed(contracts.SandboxInfo{Profile: contracts.ProfileReported}, nil)
		}),
		sandbox(plain, "of the name that is demanded, without its grants", func(s *target) executor.Driver {
			return s.Sandboxed(kerneltest.Boxed("wasi"), nil)
		}),
		{kind: replayed, name: "a sandbox that was declared at the call before",
			reason: contracts.ReasonSandboxViolation, do: func(s *target, in helm.Intent) answer {
				in.Tool, in.Driver = "put", change(s.World)
				assert.NoError(s.T, s.guard(in).d.Err())
				assert.EqualValues(s.T, 1, s.Runs.Swap(0))
				return s.guard(in)
			}},

		bound(plain, "a sandbox without a name", func(s *target) executor.Driver {
			return s.Sandboxed(kerneltest.Boxed(""), nil)
		}),
		bound(omitted, "none", func(*target) executor.Driver { return nil }),
		bound(emptied, "a nil function", func(*target) executor.Driver { return helm.Func(nil) }),
		bound(retyped, "a function, where a definition is pinned", func(s *target) executor.Driver {
			return helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
				s.Runs.Add(1)
				return nil, nil
			})
		}),
		bound(omitted, "no definition", func(s *target) executor.Driver { return s.World }),
		bound(emptied, "a zero definition",
			func(s *target) executor.Driver { return define(s.World, constant(contracts.Digest{})) }),
		bound(plain, "another definition",
			func(s *target) executor.Driver { return define(s.World, constant(changed)) }),
		{name: "a driver: two", reason: contracts.ReasonDriverNotBound, do: func(s *target, in helm.Intent) answer {
			s.Options.Drivers["look"] = in.Driver
			s.Reopen()
			a := s.guard(in)
			delete(s.Options.Drivers, "look")
			s.Reopen()
			return a
		}},
		{kind: raced, name: "a definition that is pinned between reading and judgement",
			reason: contracts.ReasonDriverNotBound, do: func(s *target, in helm.Intent) answer {
				return s.between(in, func() {
					s.swapTo(surfaceFloor, strings.NewReplacer("version: 1", "version: 2", published.String(),
						changed.String()).Replace(bundle))
				})
			}, ends: true},
	}...)}
}
