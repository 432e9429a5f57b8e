// Package sandbox runs tools that are WebAssembly modules: deny by default, metered, and so that an
// auditor can run a call again.
//
//	run, err := sandbox.New(sandbox.Options{})
//	tool, err := run.Load(ctx, wasm, contracts.ProfilePure, contracts.Sandbox{}, sandbox.Host{})
//
// The tool is a driver: bind it in helm.Options.Drivers, or name it in an Intent.
//
// A module is a command of WASI preview 1: it reads the call's arguments from stdin and writes the
// tool's output to stdout. It has what its grants name, and nothing else. Each call has an instance
// of its own, of which nothing is kept. docs/SANDBOX.md is the specification of the metering and of
// the guest's world, and says how to write a module, and what is not contained.
//
// The engine is wazero's compiler, for amd64 and arm64. Its own WASI, its directory mounts, and its
// cache on disk are not used.
package sandbox
