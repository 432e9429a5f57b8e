package conformance

import (
	"context"
	"errors"
	"io/fs"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A meterCall is the file call.json of a case of meter: the grants are written out, with nothing
// that the host would add.
type meterCall struct {
	Decision contracts.Digest `json:"decision"`
	Grants   struct {
		Args   []string          `json:"args"`
		Clock  string            `json:"clock"`
		Env    []string          `json:"env"`
		Files  map[string]string `json:"files"`
		Gas    uint64            `json:"gas"`
		Memory uint64            `json:"memory"`
		Output uint64            `json:"output"`
		Random string            `json:"random"`
	} `json:"grants"`
	Meter int    `json:"meter"`
	Time  string `json:"time"`
	Tool  string `json:"tool"`
}

type meterAnswer struct {
	Gas    uint64               `json:"gas"`
	Output []byte               `json:"output"`
	Reason contracts.ReasonCode `json:"reason"`
}

// answerMeter returns the answer to a case of meter, whose module it hands to run.
func answerMeter(ctx context.Context, v fs.FS, name string, run contracts.Rerun) ([]byte, error) {
	sub, err := fs.Sub(v, name)
	if err != nil {
		return nil, vectorsError(err)
	}
	var call meterCall
	if err := readJSON(sub, "call.json", &call); err != nil {
		return nil, vectorsError(err)
	}
	at, err := contracts.ParseTime(call.Time)
	if err != nil {
		return nil, vectorsError(err)
	}
	module, err := fs.ReadFile(sub, "module.wasm")
	if err != nil {
		return nil, vectorsError(err)
	}
	args, err := fs.ReadFile(sub, "args")
	if err != nil {
		return nil, vectorsError(err)
	}
	got, err := run(ctx, contracts.Rerunnable{
		Module: crypto.Sum(module), Bytes: module, Meter: call.Meter, Grants: contracts.Sandbox(call.Grants),
		Tool: call.Tool, Args: args, Decision: call.Decision, Time: at,
	})
	if err == nil && !(got.Held && got.Metered) {
		err = errors.New(name + ": not run")
	}
	if err != nil {
		return nil, vectorsError(err)
	}
	return canonicalJSON(meterAnswer{got.Gas, append([]byte{}, got.Output...), got.Reason})
}
