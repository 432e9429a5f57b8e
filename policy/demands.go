package policy

import (
	"slices"
	"strconv"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/grammar"
)

// A demand is a sandbox that a document demands of the driver of a tool.
type demand struct {
	doc     *document
	at      string
	name    string
	profile crypto.Value // as the document declares it; Missing: it is built in
}

// sandboxes finds tools whose demanded sandboxes leave each other no room, and tools that change
// something without one.
func (l *linter) sandboxes() {
	for _, t := range l.tools {
		list := l.demands(t)
		if len(list) == 0 && t.Effect != contracts.Read && l.allowed[t] {
			l.find("sandbox-missing", t.doc, t.at, "it is "+string(t.Effect)+", and may run outside of a sandbox",
				"demand one, if what runs is not the host's own code")
		}
		for i, b := range list {
			if j := slices.IndexFunc(list[:i], func(a demand) bool { return clash(a, b) }); j >= 0 {
				a := list[j]
				l.find("sandbox-clash", b.doc, b.at, "no driver of "+t.Name+" can meet "+strconv.Quote(b.name)+" and "+
					strconv.Quote(a.name)+" of "+a.doc.layer+":"+a.doc.name, "demand what one driver can have")
				break
			}
		}
	}
}

// demands returns the sandboxes that are demanded of a tool, its own first.
func (l *linter) demands(t *declared) (list []demand) {
	add := func(d *document, at string, v crypto.Value) {
		if v.Exists() {
			list = append(list, demand{d, at, v.Text(), d.root.Get("sandboxes").Get(v.Text())})
		}
	}
	add(t.doc, t.at+"/sandbox", t.v.Get("sandbox"))
	for _, d := range l.docs {
		if d.layer == grammar.Floor {
			add(d, "/profile/sandbox/"+string(t.Effect), d.root.Get("profile").Get("sandbox").Get(string(t.Effect)))
		}
	}
	return list
}

// clash reports whether no driver can meet two demands.
func clash(a, b demand) bool {
	const reported = "reported" // it is met by its name alone
	if a.profile.Exists() != b.profile.Exists() {
		return a.name == reported || b.name == reported
	}
	if !a.profile.Exists() {
		return a.name != b.name
	}
	p, q := a.profile.Get("modules"), b.profile.Get("modules")
	apart := p.Exists() && q.Exists()
	for e := range p.Elements() {
		apart = apart && !has(q, e.Text())
	}
	p, q = a.profile.Get("args"), b.profile.Get("args")
	return apart || p.Exists() && q.Exists() && !p.Equal(q)
}
