package contracts

import (
	"cmp"
	"context"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/helmkernel/helm/crypto"
)

// Defaults and limits of a sandbox. docs/FORMATS.md section 3.
const (
	fixedClock   = "fixed"
	seededRandom = "seeded"
	accessRead   = "read"
	accessWrite  = "write"
	realSource   = "real"

	defaultGas    = 1e9
	defaultMemory = 1024
	defaultOutput = 1 << 20

	maxGas     = 1e12
	maxMemory  = 16384
	maxOutput  = 16 << 20
	maxGrants  = 8 << 10 // length of the canonical form
	maxArgs    = 16
	maxFiles   = 16
	maxEnvName = 128
)

// SandboxInfo is the sandbox that a driver declares to run its tool in. Grants is nil with the
// profile [ProfileReported], and only with it.
type SandboxInfo struct {
	Profile string
	Module  Digest // digest of the code that runs in the sandbox
	Meter   int    // version of the metering; 0 without Grants
	Grants  *Sandbox

	frozen *frozen
}

// frozen is the canonical form of grants that do not change any more.
type frozen struct {
	form   []byte
	digest Digest
}

// Sandbox is what a guest may have. The zero Sandbox is the profile [ProfilePure].
type Sandbox struct {
	Args   []string          // after argv[0], which is the tool's name
	Clock  string            // "fixed" (zero) or "real"
	Env    []string          // names, sorted and unique; values are the host's
	Files  map[string]string // guest path to "sha256:" and the digest of a tree, "read", or "write"
	Gas    uint64            // zero: 1e9; at most 1e12
	Memory uint64            // pages of 64 KiB; zero: 1024; at most 16384
	Output uint64            // bytes; zero: 1 MiB; at most 16 MiB
	Random string            // "seeded" (zero) or "real"
}

// Filled returns a with defaults in place of zero values.
func (a Sandbox) Filled() Sandbox {
	a.Clock, a.Random = cmp.Or(a.Clock, fixedClock), cmp.Or(a.Random, seededRandom)
	a.Gas, a.Memory = cmp.Or(a.Gas, defaultGas), cmp.Or(a.Memory, defaultMemory)
	a.Output = cmp.Or(a.Output, defaultOutput)
	return a
}

// Clone returns a deep copy of a.
func (a Sandbox) Clone() Sandbox {
	a.Args, a.Env, a.Files = slices.Clone(a.Args), slices.Clone(a.Env), maps.Clone(a.Files)
	return a
}

// Within reports whether a grants nothing that b does not. It is a partial order of what is
// granted, in which Args do not count.
func (a Sandbox) Within(b Sandbox) bool { return a.Beyond(b) == "" }

// Beyond returns the name of the first field, in the order of Sandbox, in which a grants what b
// does not, or "".
func (a Sandbox) Beyond(b Sandbox) string {
	a, b = a.Filled(), b.Filled()
	switch {
	case a.Clock != b.Clock && a.Clock != fixedClock:
		return "clock"
	case slices.ContainsFunc(a.Env, func(name string) bool { return !slices.Contains(b.Env, name) }):
		return "env"
	case !filesWithin(a.Files, b.Files):
		return "files"
	case a.Gas > b.Gas:
		return "gas"
	case a.Memory > b.Memory:
		return "memory"
	case a.Output > b.Output:
		return "output"
	case a.Random != b.Random && a.Random != seededRandom:
		return "random"
	}
	return ""
}

func filesWithin(a, b map[string]string) bool {
	for at, access := range a {
		switch granted, ok := b[at]; {
		case ok && access == granted:
		case granted == accessWrite && access == accessRead:
		case (granted == accessWrite || granted == accessRead) && IsHashed(access):
		default:
			return false
		}
	}
	return true
}

// Closed reports whether a run is a function of module, arguments and decision alone: the clock is
// fixed, random is seeded, and neither the environment nor a directory of the host is granted.
func (a Sandbox) Closed() bool {
	a = a.Filled()
	for _, access := range a.Files {
		if access == accessRead || access == accessWrite {
			return false
		}
	}
	return a.Clock == fixedClock && a.Random == seededRandom && len(a.Env) == 0
}

// Check returns a [FormatError] that names the first field of a outside its limits.
func (a Sandbox) Check() error {
	meter := uint64(1)
	a = a.Filled()
	b, err := compose(func(f *form) { a.visit(f, &meter) })
	if err != nil {
		return err
	}
	if len(b) > maxGrants {
		return &FormatError{Record, "", overGrants}
	}
	var tree crypto.Tree
	if err := tree.Parse(b, crypto.Limits{Bytes: maxGrants, Depth: MaxRecordDepth, Object: true}); err != nil {
		return &FormatError{Record, "", err.Error()}
	}
	var again Sandbox
	return read(tree.Root(), Record, "", func(f *form) { again.visit(f, &meter) })
}

// visit visits the members of grants, of which none is left out. The meter is a member too: what a
// run costs is a grant only together with it.
func (a *Sandbox) visit(f *form, meter *uint64) {
	f.strings("args", maxArgs, &a.Args, words256)
	f.text("clock", required, &a.Clock, clockWord)
	f.texts("env", required, 0, maxGrants, &a.Env, envName)
	f.object("files", true, func(f *form) { f.files(&a.Files) })
	f.uint("gas", required, &a.Gas, 1, maxGas)
	f.uint("memory", required, &a.Memory, 1, maxMemory)
	f.uint("meter", required, meter, 1, crypto.MaxInt)
	f.uint("output", required, &a.Output, 1, maxOutput)
	f.text("random", required, &a.Random, randomWord)
}

var (
	clockWord  = oneOf(fixedClock, realSource)
	randomWord = oneOf(seededRandom, realSource)
	accessWord = word{"a tree, read or write", func(s string) bool {
		return s == accessRead || s == accessWrite || IsHashed(s)
	}}
	envName = word{"a name of the environment", func(s string) bool {
		return len(s) <= maxEnvName && consistsOf(s, "_") && (s[0] < '0' || s[0] > '9')
	}}
	guestPath = word{"an absolute, clean path", func(s string) bool {
		return words128.ok(s) && path.IsAbs(s) && path.Clean(s) == s
	}}
)

// strings visits a list of strings in an order of its own.
func (f *form) strings(name string, high int, list *[]string, w word) {
	if !f.reading {
		f.array(name, required, len(*list), func(i int) { f.written(name, (*list)[i]) })
		return
	}
	f.elements(name, required, 0, high, func(_ int, v crypto.Value) {
		var s string
		f.textOf("", v, &s, w)
		*list = append(*list, s)
	})
}

// files visits the members of an object whose names are guest paths.
func (f *form) files(files *map[string]string) {
	if !f.reading {
		for _, at := range slices.SortedFunc(maps.Keys(*files), compareUnits) {
			if f.b[len(f.b)-1] != '{' {
				f.b = append(f.b, ',')
			}
			f.written("", at)
			f.b = append(f.b, ':')
			f.written("", (*files)[at])
		}
		return
	}
	for ; f.more && f.err == nil; f.more = f.it.Next() {
		at, access := string(f.it.Key()), ""
		f.textOf("", f.it.Value(), &access, accessWord)
		switch {
		case !guestPath.ok(at):
			f.fail("", "not "+guestPath.what)
		case len(*files) == maxFiles:
			f.fail("", "more than 16 paths")
		}
		for other := range *files {
			if below(at, other) || below(other, at) {
				f.fail("", "a path below another")
			}
		}
		if *files == nil {
			*files = map[string]string{}
		}
		(*files)[at] = access
	}
}

// below reports whether one guest path is below another.
func below(at, other string) bool {
	return strings.HasPrefix(at, strings.TrimSuffix(other, "/")+"/")
}

// compareUnits compares the names of members as RFC 8785 orders them.
func compareUnits(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

// Check returns a [FormatError] that names the first field outside its limits.
func (i *SandboxInfo) Check() error {
	if !words128.ok(i.Profile) {
		return &FormatError{Record, "profile", "not " + words128.what}
	}
	if (i.Grants == nil) != (i.Profile == ProfileReported) {
		return &FormatError{Record, "grants", missingGrants}
	}
	if i.Grants == nil {
		return nil
	}
	if i.Meter < 1 {
		return &FormatError{Record, "grants.meter", "not a version"}
	}
	return i.Grants.Check()
}

const overGrants = "over 8 KiB"

// Clone returns a deep copy of i.
func (i SandboxInfo) Clone() SandboxInfo {
	i.frozen = nil
	if i.Grants != nil {
		grants := i.Grants.Clone()
		i.Grants = &grants
	}
	return i
}

// Frozen returns a deep copy of i whose grants must not change any more: their canonical form is
// made once, not with each record.
func (i SandboxInfo) Frozen() SandboxInfo {
	if i = i.Clone(); i.Grants != nil {
		form := i.appendGrants(nil)
		i.frozen = &frozen{form, crypto.Sum(form)}
	}
	return i
}

// GrantsHash returns the digest by which receipts name the grants, or nil if there are none.
func (i *SandboxInfo) GrantsHash() *Digest {
	if i.Grants == nil {
		return nil
	}
	if i.frozen != nil {
		return &i.frozen.digest
	}
	digest := crypto.Sum(i.appendGrants(nil))
	return &digest
}

// appendGrants appends the canonical form of the grants, defaults filled in.
func (i *SandboxInfo) appendGrants(dst []byte) []byte {
	if i.frozen != nil {
		return append(dst, i.frozen.form...)
	}
	grants, meter := i.Grants.Filled(), uint64(i.Meter)
	return write(dst, func(f *form) { grants.visit(f, &meter) })
}

func (i *SandboxInfo) visit(f *form) {
	if f.has("grants", i.Grants != nil) {
		if f.reading {
			i.readGrants(f)
		} else {
			f.name("grants")
			f.b = i.appendGrants(f.b)
		}
	}
	f.digest("module", &i.Module)
	f.text("profile", required, &i.Profile, words128)
	if f.reading && (i.Grants == nil) != (i.Profile == ProfileReported) {
		f.fail("grants", missingGrants)
	}
}

func (i *SandboxInfo) readGrants(f *form) {
	var meter uint64
	i.Grants = new(Sandbox)
	if len(f.it.Value().Append(nil)) > maxGrants {
		f.fail("grants", overGrants)
	}
	f.object("grants", true, func(f *form) { i.Grants.visit(f, &meter) })
	i.Meter = int(min(meter, math.MaxInt))
}

// A Rerun runs a call of a sandboxed tool again, for an auditor.
type Rerun func(ctx context.Context, r Rerunnable) (RerunResult, error)

// A Rerunnable is a call of a sandboxed tool: all that its output, gas and reason follow from, if
// the grants are Closed.
type Rerunnable struct {
	Module   Digest
	Bytes    []byte // of the module; nil: not in the pack
	Meter    int
	Grants   Sandbox
	Tool     string
	Args     []byte // canonical
	Decision Digest // leaf hash of the decision's entry
	Time     Time   // of the decision
}

// A RerunResult is how a run again ended.
type RerunResult struct {
	Output  []byte
	Gas     uint64
	Reason  ReasonCode
	Held    bool // module and trees are at hand; else nothing was run
	Metered bool // the meter is one that the Rerun has; else nothing was run
}
