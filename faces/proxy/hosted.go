package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"
	"strings"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/handoff"
)

// A shelf is the catalog of a request: what its caller may call, and the permissions for what the
// provider runs.
type shelf struct {
	tools map[string]guardian.Tool
	judge func(tool string, entry []byte) bool // nil: what is callable is permitted
	asked bool                                 // something hosted was
}

func newShelf(p *guardian.Policy, c helm.Caller) *shelf {
	s := &shelf{tools: map[string]guardian.Tool{}}
	if p == nil {
		return s
	}
	for _, t := range p.Callable(c) {
		s.tools[t.Name] = t
	}
	return s
}

func (s *shelf) callable(tool string) (pinned contracts.Digest, ok bool) {
	t, ok := s.tools[tool]
	return t.Definition, ok
}

func (s *shelf) permit(tool string, entry []byte) bool {
	if _, ok := s.tools[tool]; !ok {
		return false
	}
	s.asked = true
	return s.judge == nil || s.judge(tool, entry)
}

// none is the catalog of a request that only counts: nothing hosted is asked for.
type none struct{ *shelf }

func (none) permit(string, []byte) bool { return false }

// A hostedRun is what the provider ran of one tool in an answer.
type hostedRun struct {
	tickets []*handoff.Ticket
	items   int
	sum     hash.Hash
}

// hosting are the permissions for what the provider runs in one answer.
type hosting map[string]*hostedRun

// permit judges the use of a hosted tool in the request, and keeps its permission.
func (h hosting) permit(ctx context.Context, a *answering, tool string, entry []byte) bool {
	ticket, _, _ := a.decide(ctx, "", helm.Intent{Tool: tool, Args: entry}, contracts.Digest{}, true)
	if ticket == nil {
		return false
	}
	a.delivered() // it goes with the request, not with the answer
	kind := familyOf(strings.TrimPrefix(tool, hostedPrefix))
	if h[kind] == nil {
		h[kind] = &hostedRun{sum: sha256.New()}
	}
	h[kind].tickets = append(h[kind].tickets, ticket)
	return true
}

// ran takes a part of what came back of a hosted tool.
func (h hosting) ran(kind string, raw []byte) {
	if r := h[kind]; r != nil {
		r.items++
		r.sum.Write(raw)
	}
}

// end settles the permissions: with the number of the parts and their digest, or, if the answer
// failed, as calls of which nobody knows what became.
func (h hosting) end(whole bool) {
	for _, r := range h {
		for _, t := range r.tickets {
			if !whole {
				t.Drop()
				continue
			}
			output := append([]byte(`{"items":`), strconv.Itoa(r.items)...)
			output = append(output, `,"sha256":"`+hex.EncodeToString(r.sum.Sum(nil))+`"}`...)
			t.Settle(handoff.Outcome{Output: output})
		}
	}
	clear(h)
}
