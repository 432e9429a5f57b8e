package compile

import (
	"maps"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/internal/several"
)

// Narrow compiles overlays over a stack and returns the stack with them at its end, in their order.
// It shares all that was there before, and holds of the overlays what they say. The error joins a
// *[LoadError] for each fault.
func (s *Stack) Narrow(overlays []contracts.Document) (*Stack, error) {
	if err := checkCount(len(s.Documents) + len(overlays)); err != nil {
		return nil, err
	}
	loaders := loadOverlays(overlays)
	seen := map[string]bool{}
	for _, d := range s.Records {
		seen[prefixOf(d.Layer, d.Name)] = true
	}
	for _, l := range loaders {
		l.catalog.labels = s.labels
		refuseSecond(l, seen)
	}
	n := *s
	n.Documents, n.Records = slices.Clip(n.Documents), slices.Clip(n.Records)
	n.Expiring, n.Asked = slices.Clip(n.Expiring), slices.Clip(n.Asked)
	n.Terms, n.Places = slices.Clip(n.Terms), slices.Clip(n.Places)
	n.own = make(map[string]*program.More, len(s.own)+2)
	maps.Copy(n.own, s.own)
	partial := slices.ContainsFunc(loaders, (*loader).hides)
	for _, l := range loaders {
		if l.whole {
			l.catalog.partial = partial
			l.catalog.drafts = newDrafts(&n.additions)
			l.readLayer(s.Tools, s.names)
			n.add(l)
			n.take(l)
		}
	}
	if err := errorsOf(loaders); err != nil {
		return nil, err
	}
	if err := several.Join(s.refused, refuseUnsatisfiable(loaders, s.first, maps.Clone(s.told))); err != nil {
		return nil, err
	}
	return &n, nil
}

// loadOverlays reads the heads of documents that are put over a stack.
func loadOverlays(docs []contracts.Document) []*loader {
	loaders := loadAll(docs)
	for _, l := range loaders {
		if l.whole && l.layer != overlayLayer {
			remedy := "write P2: nothing else can be added to a stack that is in use"
			l.refuse("/layer", "layer "+l.layer+" over a stack", remedy)
			l.whole = false
		}
	}
	return loaders
}

// take adds what an overlay says to what those before it say.
func (s *Stack) take(l *loader) {
	outside, others := l.outsiders()
	other := make(map[string]bool, len(others))
	for _, t := range others {
		other[t.Name] = true
	}
	isOutside := func(name string) bool { return outside != other[name] }
	for name, t := range l.catalog.drafts.tools {
		if isOutside(name) || l.expires > 0 {
			l.clause(t).Outside = isOutside(name)
		}
	}
	if l.closed || l.expires > 0 {
		m := mark{l.terms, l.expires > 0, map[*program.More][2]*program.More{}}
		rest := s.rest
		for name, x := range s.own {
			s.own[name] = m.on(x, isOutside(name))
		}
		for _, t := range others {
			if s.own[t.Name] == nil {
				s.own[t.Name] = m.on(&rest, !outside)
			}
		}
		s.rest = *m.on(&rest, outside)
	}
	for name, d := range l.catalog.drafts.tools {
		s.own[name] = added(d, s.Tools[name])
	}
}
