package compile

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/grammar"
)

const (
	maxGuest   = 16 // arguments of a profile, and its paths
	maxModules = 64
	page       = 64 << 10 // in which memory is granted
)

// profiles are those that a document can demand.
type profiles struct {
	*reader
	document string                     // layer:name
	known    map[string]*program.Demand // by name; one that was refused, too: who demands it is not to blame
	unread   bool                       // sandboxes was refused, so any name may be that of one
}

// readProfiles reads the profiles that a document declares.
func readProfiles(r *reader, document string, p docValue, misspelt bool) *profiles {
	x := &profiles{r, document, map[string]*program.Demand{}, misspelt || p.exists() && !p.isObject()}
	x.add(contracts.ProfilePure).Grants = contracts.Sandbox{}.Filled()
	x.add(contracts.ProfileReported)
	if p.exists() {
		x.members(p, x.declare)
	}
	return x
}

func (x *profiles) add(name string) *program.Demand {
	d := &program.Demand{Document: x.document, Name: name}
	x.known[name] = d
	return d
}

func (x *profiles) declare(name string, p docValue) {
	const remedy = "give the profile another name"
	switch name {
	case contracts.ProfilePure:
		x.refuse(p.at, name+" is built in, and grants nothing but the defaults", remedy)
		return
	case contracts.ProfileReported:
		x.refuse(p.at, name+" is reserved for drivers that report what ran elsewhere", remedy)
		return
	}
	if !contracts.IsID(name) {
		x.refuse(p.at, quote(name)+" is no name of a profile", "use "+formID)
	}
	x.read(p, x.add(name))
}

// demanded reads the name of a profile that a document demands. It returns nil if there is none.
func (x *profiles) demanded(p docValue) *program.Demand {
	name, ok := x.text(p)
	if !ok {
		return nil
	}
	d := x.known[name]
	if d == nil && !x.unread {
		remedy := "declare it under sandboxes, or write " + contracts.ProfilePure + " or " + contracts.ProfileReported
		var close []string
		for known := range x.known {
			if near(name, known) {
				close = append(close, known)
			}
		}
		if close != nil {
			remedy = "did you mean " + slices.Min(close) + "?"
		}
		x.refuse(p.at, "no profile "+quote(name)+" in this document", remedy)
	}
	return d
}

// read reads a profile. What a value may be is said by the check of grants, one value at a
// time, so that a document can say nothing that a driver cannot be granted.
func (x *profiles) read(p docValue, d *program.Demand) {
	before := x.refused
	if !x.object(p, grammar.Sandbox) {
		return
	}
	grants := contracts.Sandbox{
		Args: x.guestArgs(p.get("args")), Clock: x.wordOf(p.get("clock"), grammar.Clocks),
		Env: x.guestEnv(p.get("env")), Files: x.guestFiles(p.get("files")), Gas: x.gas(p.get("gas")),
		Memory: x.guestMemory(p.get("memory")), Output: x.guestOutput(p.get("output")),
		Random: x.wordOf(p.get("random"), grammar.Randoms),
	}
	d.Modules = x.modules(p.get("modules"))
	if x.refused == before && grants.Check() != nil {
		x.refuse(p.at, "more than 8 KiB in canonical form", "name fewer variables and paths, or shorter ones")
	}
	d.Grants, d.Args = grants.Filled(), p.has("args")
}

// wordOf reads one of the words, or "" if it is left out.
func (x *profiles) wordOf(p docValue, words []string) string {
	if !p.exists() {
		return ""
	}
	word, _ := x.oneOf(p, words...)
	return word
}

func (x *profiles) guestArgs(p docValue) (args []string) {
	if !p.exists() {
		return nil
	}
	list, _ := x.list(p, 0, maxGuest)
	for _, e := range list {
		fits := func(s string) bool { return contracts.Sandbox{Args: []string{s}}.Check() == nil }
		s, _ := x.word(e, fits, "1 to 256 bytes without control characters")
		args = append(args, s)
	}
	return args
}

func (x *profiles) guestEnv(p docValue) (names []string) {
	if !p.exists() {
		return nil
	}
	for _, e := range x.distinct(p, 0) {
		fits := func(s string) bool { return contracts.Sandbox{Env: []string{s}}.Check() == nil }
		name, _ := x.word(e, fits, "a name of a variable: 1 to 128 of A-Z a-z 0-9 _, and no digit first")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (x *profiles) guestFiles(p docValue) map[string]string {
	if !p.exists() {
		return nil
	}
	if p.isObject() && p.v.Len() > maxGuest {
		x.refuse(p.at, "more than 16 paths", "grant directories that contain them")
		return nil
	}
	files := map[string]string{}
	x.members(p, func(path string, p docValue) {
		grants := func(access string) bool {
			return contracts.Sandbox{Files: map[string]string{path: access}}.Check() == nil
		}
		if !grants("read") {
			x.refuse(p.at, quote(path)+" is no path of a guest", "write an absolute, clean path of at most 128 bytes")
			return
		}
		for other := range files {
			if isBelow(path, other) || isBelow(other, path) {
				x.refuse(p.at, quote(path)+" and "+quote(other)+": one is below the other", "grant one of them")
			}
		}
		files[path], _ = x.word(p, grants, "one of read, write, sha256: and the digest of a tree")
	})
	return files
}

// isBelow reports whether a path is below another.
func isBelow(path, other string) bool { return strings.HasPrefix(path, value.PathTree(other).Below) }

func (x *profiles) gas(p docValue) uint64 {
	if !p.exists() {
		return 0
	}
	n, ok := p.v.Uint()
	if !ok || n == 0 || (contracts.Sandbox{Gas: n}).Check() != nil {
		x.refuse(p.at, "no amount of gas", "write an integer from 1 to 1e12")
	}
	return n
}

func (x *profiles) guestMemory(p docValue) uint64 {
	if !p.exists() {
		return 0
	}
	n, ok := value.ReadSize(p.v.Text())
	if !ok || n%page != 0 || (contracts.Sandbox{Memory: uint64(n / page)}).Check() != nil {
		x.refuse(p.at, quoted(p)+" is not whole pages of 64KiB, at most 1024MiB", "write it like 64KiB or 64MiB")
	}
	return uint64(n / page)
}

func (x *profiles) guestOutput(p docValue) uint64 {
	if !p.exists() {
		return 0
	}
	n, ok := value.ReadSize(p.v.Text())
	if !ok || (contracts.Sandbox{Output: uint64(n)}).Check() != nil {
		x.refuse(p.at, quoted(p)+" is not a size of at most 16MiB", "write it like 64KiB or 1MiB")
	}
	return uint64(n)
}

// modules reads the digests of the modules that a profile permits.
func (x *profiles) modules(p docValue) (modules []contracts.Digest) {
	if !p.exists() {
		return nil
	}
	if _, ok := x.list(p, 1, maxModules); !ok {
		return nil
	}
	for _, e := range x.distinct(p, 1) {
		digest, err := crypto.ParseDigest(e.v.Text())
		if err != nil || digest == (contracts.Digest{}) {
			x.refuse(e.at, quoted(e)+" is no digest of a module", "write its SHA-256, 64 lower-case hex digits")
		}
		modules = append(modules, digest)
	}
	return modules
}
