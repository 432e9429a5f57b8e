package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/state"
)

// isNonce reports whether an argument names a request that waits.
func isNonce(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}

// openApprovals opens the requests of the state directory of a configuration.
func openApprovals(ctx context.Context, config string) (*state.Approvals, error) {
	conf, err := state.ReadConfig(config)
	if err != nil {
		return nil, err
	}
	return state.OpenApprovals(ctx, conf.Dir)
}

// A waitingCall is what is listed of a request. Its arguments are shown when it is answered.
type waitingCall struct {
	Nonce   string         `json:"nonce"`
	Tool    string         `json:"tool"`
	Caller  string         `json:"caller"`
	Tenant  string         `json:"tenant,omitempty"`
	Session string         `json:"session"`
	Expires contracts.Time `json:"expires"`
	Quorum  uint64         `json:"quorum"`
	Roles   []string       `json:"roles"`
	Answers []string       `json:"answers"` // the names of those who answered
}

// allPending returns the requests that wait, of a state directory or of a kernel elsewhere.
func allPending(ctx context.Context, config string, there *elsewhere) (all []state.Pending, err error) {
	if there != nil {
		return there.pending(ctx)
	}
	kept, err := openApprovals(ctx, config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	return kept.Pending(ctx)
}

// waiting lists the requests that wait.
func waiting(ctx context.Context, a *app, config string, there *elsewhere) error {
	all, err := allPending(ctx, config, there)
	if err != nil {
		return err
	}
	list := make([]waitingCall, len(all))
	var b strings.Builder
	for i, p := range all {
		r := &p.Request
		list[i] = waitingCall{r.Nonce, r.Tool, r.Caller.ID, r.Caller.Tenant, r.Session, r.Expires, r.Quorum, r.Roles,
			[]string{}}
		for _, x := range p.Answers {
			list[i].Answers = append(list[i].Answers, x.Name)
		}
		fmt.Fprintf(&b, "%s  %s  caller %q session %s, %d of %d of %s answered, until %s\n",
			r.Nonce, ascii(r.Tool), ascii(r.Caller.ID), ascii(r.Session),
			len(p.Answers), r.Quorum, ascii(strings.Join(r.Roles, ", ")), r.Expires)
	}
	return a.print(b.String(), list)
}
