package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/helmkernel/helm/trust/registry"
)

// A doctor collects faults.
type doctor struct {
	ctx    context.Context
	c      *Config
	faults []Fault
	seen   map[string]bool
}

// Examine returns what is wrong with a configuration, and with all that it names. It changes
// nothing, and a process may hold the directory meanwhile. No fault holds a secret.
func Examine(ctx context.Context, file string) []Fault {
	d := &doctor{ctx: ctx, seen: map[string]bool{}}
	c, err := ReadConfig(file)
	if err != nil {
		d.add(file, err)
		return d.faults
	}
	d.c = c
	d.config()
	p := d.policy()
	if l := c.Listen; (l.Proxy != "" || l.API != "") && !c.SessionRequired && AsksForSession(p) {
		d.found(c.File, "the policy asks what a session had, and a request that names none begins another",
			"write session_required: true")
	}
	if err := checkDir(c.Dir); err != nil {
		d.add(c.Dir, err)
		if !errors.Is(err, errLoose) {
			return d.faults
		}
	}
	d.directory(p)
	return d.faults
}

// add adds each of the faults that were joined to an error.
func (d *doctor) add(where string, err error) {
	if err == nil {
		return
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		if list := all.Unwrap(); strings.Contains(err.Error(), "\n") && len(list) > 0 {
			for _, e := range list {
				d.add(where, e)
			}
			return
		}
	}
	err = barred(err)
	f := Fault{Where: where, What: err.Error()}
	var own *Fault
	var at *guardian.LoadError
	var file *fs.PathError
	if errors.As(err, &own) {
		f = *own
	} else if errors.As(err, &at) {
		f = Fault{Where: at.Document, What: strings.TrimPrefix(at.Pointer+": "+at.What, ": "), Remedy: at.Remedy}
		if at.Pos.Line > 0 {
			f.Where = fmt.Sprintf("%s:%d:%d", at.Document, at.Pos.Line, at.Pos.Column)
		}
	} else if errors.As(err, &file) && err.Error() == file.Error() {
		f = Fault{Where: file.Path, What: file.Err.Error(), Remedy: "put the file there, or name another in helm.yaml"}
	} else {
		f.What = strings.TrimPrefix(f.What, where+": ")
	}
	d.found(f.Where, f.What, f.Remedy)
}

// found adds a fault, once.
func (d *doctor) found(where, what, remedy string) {
	f := Fault{Where: where, What: what, Remedy: remedy}
	if !d.seen[f.Error()] {
		d.seen[f.Error()] = true
		d.faults = append(d.faults, f)
	}
}

// config looks at what the configuration names.
func (d *doctor) config() {
	for _, u := range d.c.Proxy.Upstreams {
		_, err := u.Key.Read()
		d.add(d.c.File, err)
	}
	for _, s := range d.c.Servers {
		_, err := s.Key.Read()
		d.add(d.c.File, err)
	}
	if d.c.Cert != "" {
		_, err := readWhole(d.c.Cert, regular, maxConfig)
		d.add(d.c.Cert, err)
		_, err = readWhole(d.c.Key, private, maxConfig)
		d.add(d.c.Key, err)
	}
}

func (d *doctor) policy() *guardian.Policy {
	missing := false
	for _, name := range d.c.Policy {
		_, err := os.Stat(name)
		d.add(name, err)
		missing = missing || err != nil
	}
	if missing {
		return nil
	}
	p, err := loadPolicy(d.c.Policy)
	d.add(d.c.File, err)
	return p
}

// directory looks at what is in the state directory.
func (d *doctor) directory(p *guardian.Policy) {
	in := func(name string) string { return filepath.Join(d.c.Dir, name) }
	for _, name := range []string{d.c.Dir, in("log"), in("approvals")} {
		if err := mayWrite(name); !errors.Is(err, fs.ErrNotExist) {
			d.add(name, err)
		}
	}
	key, keyErr := readKey(d.c.Dir)
	d.add(in("key.pem"), keyErr)
	if _, err := readTokens(in("tokens.json")); err != nil {
		d.add(in("tokens.json"), err)
	} else if tokens, err := auth.OpenTokens(in("tokens.json")); err != nil {
		d.add(in("tokens.json"), err)
	} else if d.beyond() && !tokens.Any() {
		d.found(d.c.File, "it listens beyond this machine, and there are no tokens",
			"make one by helm token new, or listen on 127.0.0.1")
	}
	err := checkDir(in("approvals"))
	if !errors.Is(err, fs.ErrNotExist) {
		d.add(in("approvals"), err)
	}
	if err == nil || errors.Is(err, errLoose) {
		d.approvals(in("approvals"))
	}
	trust, err := initialTrust(d.c.Dir)
	d.add(in("trust.json"), err)
	info, err := os.Lstat(in("log"))
	switch {
	case errors.Is(err, fs.ErrNotExist): // no kernel ever ran over it
		if trust != nil && keyErr == nil {
			if r, err := registryOf(trust); err != nil {
				d.add(in("trust.json"), err)
			} else {
				d.add(in("trust.json"), beginsWith(d.c.Dir, r, key, trust))
			}
		}
	case err != nil:
		d.add(in("log"), err)
	case !info.IsDir():
		d.found(in("log"), "no directory", "put the log itself there")
	default:
		d.log(in("log"), trust, key, keyErr == nil, p)
	}
}

// beyond reports whether a face listens beyond this machine.
func (d *doctor) beyond() bool {
	for _, address := range []string{d.c.Listen.Proxy, d.c.Listen.API, d.c.Listen.MCP} {
		if host, _, ok := strings.Cut(strings.TrimPrefix(address, "["), "]"); ok && !loopback(host) {
			return true
		} else if i := strings.LastIndexByte(address, ':'); !ok && i > 0 && !loopback(address[:i]) {
			return true
		}
	}
	return false
}

// log looks whether the log is whole, and whether it fits trust state, key and policy.
func (d *doctor) log(name string, trust *registry.State, key crypto.PrivateKey, hasKey bool, p *guardian.Policy) {
	store, err := filestore.OpenReadOnly(name)
	if err == nil {
		defer store.Close()
		err = store.Check(d.ctx)
	}
	if err != nil {
		d.found(name, err.Error(), "put the log back from a backup: see Store.Copy")
		return
	}
	if trust == nil {
		return
	}
	r, err := begin(d.ctx, d.c.Dir, store, trust)
	if err != nil {
		d.add(filepath.Join(d.c.Dir, "trust.json"), err)
		return
	}
	newest := map[string]uint64{}
	r.policy = func(layer, name string, version uint64) {
		newest[layer+":"+name] = max(newest[layer+":"+name], version)
	}
	if err := r.read(d.ctx, store); err != nil {
		d.found(name, err.Error(), "put the log back from a backup")
		return
	}
	if public, err := crypto.PublicOf(key); hasKey && err == nil && r.next > 0 {
		if _, ok := r.Trust.Key(crypto.KeyID(public), registry.Kernel, r.next); !ok {
			d.found(filepath.Join(d.c.Dir, "key.pem"),
				"no key of a kernel in the log's trust state",
				"put back the key of this log, or add this one by a trust event")
		}
	}
	if r.Trust.Frozen() {
		const what = "the system is frozen: every call is denied"
		d.found(name, what, "enter an unfreeze event, by helm trust")
	}
	d.versions(p, newest)
}

// versions looks whether a document of the policy is older than what the log has had.
func (d *doctor) versions(p *guardian.Policy, newest map[string]uint64) {
	if p == nil {
		return
	}
	for _, doc := range p.Record().Documents {
		if was := newest[doc.Layer+":"+doc.Name]; doc.Version < was {
			what := fmt.Sprintf("the policy %s is of version %d, and %d was in force", doc.Name, doc.Version, was)
			d.found(d.c.File, what, "put back the newer one, or give it a higher version")
		}
	}
}

// AsksForSession reports whether a rule or a requirement of a policy asks for approvals, earlier
// receipts, who supplied a value, or the session itself: what a call in another session does not
// have. With such a policy each request over HTTP must name its session.
func AsksForSession(p *guardian.Policy) bool {
	if p == nil {
		return false
	}
	for _, doc := range p.Documents() {
		var tree crypto.Tree
		if tree.Parse(doc.Canonical, crypto.Limits{Bytes: len(doc.Canonical), Depth: crypto.MaxDepth}) != nil {
			return true
		}
		if names(tree.Root().Get("rules")) || names(tree.Root().Get("requires")) {
			return true
		}
	}
	return false
}

// names reports whether a member at any depth is named so that it asks for a session.
func names(v crypto.Value) bool {
	switch v.Kind() {
	case crypto.Object:
		for it := v.Iter(); it.Next(); {
			switch string(it.Key()) {
			case "approval", "from", "receipt", "session":
				return true
			}
			if names(it.Value()) {
				return true
			}
		}
	case crypto.Array:
		for e := range v.Elements() {
			if names(e) {
				return true
			}
		}
	}
	return false
}

// approvals looks for what is no request and no answer to one.
func (d *doctor) approvals(dir string) {
	a := &Approvals{dir: dir}
	entries, err := os.ReadDir(dir)
	d.add(dir, err)
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		nonce, rest, _ := strings.Cut(e.Name(), ".")
		switch {
		case isNonce(nonce) && rest == "json":
			_, err := a.readPending(nonce)
			d.add(name, err)
		case isNonce(nonce) && strings.HasSuffix(rest, ".json"), strings.HasPrefix(e.Name(), unfinished):
		default:
			const what = "no request and no answer: it does not belong there"
			d.found(strings.ToValidUTF8(name, "?"), what, "remove it")
		}
	}
}
