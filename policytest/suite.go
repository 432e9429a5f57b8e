package policytest

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/grammar"
	"github.com/helmkernel/helm/internal/keyed"
	"github.com/helmkernel/helm/internal/several"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/trust/registry"
)

// A Suite is a file of cases, with the stack that they are about. It never changes, and is safe for
// concurrent use by multiple goroutines.
type Suite struct {
	doc      contracts.Document
	policy   *guardian.Policy
	overlays map[string]contracts.Document // by the name in the file
	start    contracts.Time
	keys     map[string]signing
	trust    *registry.Registry
	stubs    map[string]stub
	cases    []*scenario
	ignored  []ignored
}

// A signing key of a suite.
type signing struct {
	key crypto.PrivateKey
	registry.Key
}

// A stub is what runs in place of a tool.
type stub struct {
	output []byte // nil: null
	fails  string // the tool's own error
	panics bool
	lost   bool // the context of the caller ends while it runs
}

// A scenario is one case: steps, of which the last is what it is about.
type scenario struct {
	name  string
	at    string
	skip  string
	steps []step
}

// A step is a call, or something else that happens before one.
type step struct {
	at, name string
	does     string // call, user, after, freeze, close or transcript
	after    time.Duration
	words    string // of user
	session  string

	tool      string
	args      []byte
	caller    contracts.Caller
	afterRefs []string
	overlays  []string
	signatures
	binding
	freeze bool
	close  bool
	stub   *stub
	want   want
	replay *replay // of a transcript
}

// A replay is the calls of a transcript, and how they must come out.
type replay struct {
	turns []Turn
	words bool
	wants map[int]want // by number; the others are allowed
}

// The signatures are those that a step presents, or answers with.
type signatures struct {
	approve    []string
	refuse     []string
	attest     []attestation
	delegation []grant
}

// A binding is what the host says of a call, and not the model.
type binding struct {
	idempotency string
	driver      string // none or two; "": one
	definition  *contracts.Digest
	sandbox     *contracts.SandboxInfo
}

// An attestation that a step presents.
type attestation struct {
	by, kind string
	claims   crypto.Value
}

// A grant that a step presents.
type grant struct {
	by, to string
	only   []string
	when   crypto.Value
	depth  uint64
}

// A want is how a step must come out. What is empty is not looked at.
type want struct {
	verdict   contracts.Verdict
	stated    bool // a reason or a rule
	reason    contracts.ReasonCode
	rule      string
	why       string
	condition *int
	pending   *pending
	charges   map[string]uint64 // by budget
	ran       *int
}

type pending struct {
	roles  []string
	quorum uint64
}

// An ignored unit or mutant is left out of the count.
type ignored struct {
	at, pointer, mutant, why string
}

// Load reads a file of cases, the documents of its stack and its overlays. They are in the folder
// of the file, or below it. The error joins a *[guardian.LoadError] for each fault of the file;
// those of documents are as [policy.LoadFS] returns them.
func Load(fsys fs.FS, name string) (*Suite, error) {
	if fsys == nil {
		return nil, errors.New("policytest: no file system: pass one, like os.DirFS(dir)")
	}
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	doc, err := policy.Parse(name, b)
	if err != nil {
		return nil, err
	}
	l := &loader{Reader: keyed.Reader{Doc: doc}, fsys: fsys, s: &Suite{
		doc: doc, overlays: map[string]contracts.Document{}, keys: map[string]signing{}, stubs: map[string]stub{},
	}}
	var tree crypto.Tree
	limits := crypto.Limits{Bytes: len(doc.Canonical), Depth: contracts.MaxRecordDepth}
	if err := tree.Parse(doc.Canonical, limits); err != nil {
		return nil, err
	}
	return l.suite(keyed.Node{V: tree.Root()})
}

// A loader reads one file.
type loader struct {
	keyed.Reader
	fsys    fs.FS
	s       *Suite
	callers map[string]contracts.Caller
	tools   []string
	rules   []string
	names   map[string]bool // of cases

	profiles map[string]contracts.SandboxInfo // by LAYER:DOCUMENT:NAME
}

func (l *loader) suite(root keyed.Node) (*Suite, error) {
	if !l.Object(root, grammar.Cases...) {
		return nil, l.Err()
	}
	if p, ok := l.Need(root, "helm", "write helm: "+grammar.CaseFormats[0]); ok && l.Text(p) != grammar.CaseFormats[0] {
		l.Refuse(p.At, "not "+grammar.CaseFormats[0], "write helm: "+grammar.CaseFormats[0])
	}
	compiled := l.stack(root)
	l.s.start = contracts.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if p := root.Get("time"); p.Exists() {
		l.s.start = l.Moment(p)
	}
	l.readCallers(root.Get("callers"))
	l.readKeys(root.Get("keys"))
	l.readTools(root.Get("tools"))
	if p, ok := l.Need(root, "cases", "write cases: [{call: …, want: …}]"); ok {
		l.readCases(p)
	}
	l.readIgnored(root.Get("ignore"))
	if compiled == nil && len(l.Faults) == 0 {
		return l.s, nil
	}
	return nil, several.Join(l.Err(), compiled)
}

// stack compiles the documents. What is wrong with them is the error; what is wrong with the list
// is a fault of the file.
func (l *loader) stack(root keyed.Node) error {
	p, ok := l.Need(root, "policy", "name the documents of the stack, like [bank.yaml]")
	if !ok {
		return nil
	}
	var files []string
	for i, name := range l.Words(p) {
		if file, ok := l.path(keyed.Node{V: p.V.At(i), At: p.At + "/" + strconv.Itoa(i)}, name); ok {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return nil
	}
	pol, err := policy.LoadFS(l.fsys, files...)
	if err != nil {
		return err
	}
	l.s.policy = pol
	pure := contracts.SandboxInfo{Profile: contracts.ProfilePure, Meter: 1, Grants: new(contracts.Sandbox)}
	l.profiles = map[string]contracts.SandboxInfo{
		contracts.ProfilePure: pure, contracts.ProfileReported: {Profile: contracts.ProfileReported},
	}
	for _, t := range pol.Tools() {
		l.tools = append(l.tools, t.Name)
		for _, d := range pol.Sandboxes(t.Name) {
			if d.Name == contracts.ProfilePure || d.Name == contracts.ProfileReported {
				continue
			}
			info := contracts.SandboxInfo{Profile: d.Name, Meter: 1, Grants: &d.Grants}
			if d.Modules != nil {
				info.Module = d.Modules[0]
			}
			l.profiles[d.Document+":"+d.Name] = info
		}
	}
	l.rules = rulesOf(pol.Documents())
	return nil
}

// path returns the place of a file that the cases name.
func (l *loader) path(at keyed.Node, name string) (string, bool) {
	file := path.Join(path.Dir(l.Doc.Name), name)
	if name == "" {
		return "", false
	}
	if path.IsAbs(name) || strings.Contains(name, `\`) || strings.HasPrefix(path.Clean(name), "..") {
		l.Refuse(at.At, strconv.Quote(keyed.Shortened(name))+" is outside of the file's folder",
			"name a file in the folder of the cases, or below it")
		return "", false
	}
	if _, err := fs.Stat(l.fsys, file); err != nil {
		l.Refuse(at.At, "no file "+strconv.Quote(keyed.Shortened(name))+" in the folder of the cases",
			"correct the name")
		return "", false
	}
	return file, true
}

// rulesOf returns the names that decisions by these documents can have: of rules, requirements and
// budgets, and the reserved ones.
func rulesOf(docs []contracts.Document) (names []string) {
	for _, d := range docs {
		root := parsed(d)
		prefix := prefixOf(root)
		for _, key := range []string{"rules", "requires", "budgets"} {
			for r := range root.Get(key).Elements() {
				names = append(names, prefix+r.Get("id").Text())
			}
		}
		for _, id := range []string{"only", "expires", "scope", "ceilings"} {
			names = append(names, prefix+id)
		}
	}
	return names
}

// parsed returns the root of a document that was read before.
func parsed(d contracts.Document) crypto.Value {
	tree := new(crypto.Tree)
	if tree.Parse(d.Canonical, crypto.Limits{Bytes: len(d.Canonical), Depth: contracts.MaxRecordDepth}) != nil {
		return crypto.Value{}
	}
	return tree.Root()
}

// prefixOf returns how the names of a document's rules begin.
func prefixOf(root crypto.Value) string {
	name := root.Get("name")
	if b := root.Get("bundle"); b.Exists() {
		name = b.Get("name")
	}
	return root.Get("layer").Text() + ":" + name.Text() + ":"
}

func (l *loader) readCallers(p keyed.Node) {
	l.callers = map[string]contracts.Caller{}
	names, values := l.Members(p)
	for i, name := range names {
		l.callers[name] = l.callerObject(values[i])
	}
}

func (l *loader) callerObject(p keyed.Node) (c contracts.Caller) {
	if !l.Object(p, grammar.CaseCaller...) {
		return c
	}
	c.ID, c.Tenant = l.Text(p.Get("id")), l.Text(p.Get("tenant"))
	c.Roles = l.Words(p.Get("roles"))
	slices.Sort(c.Roles)
	return c
}

// caller reads the name of a caller, or one that is written in place of a name.
func (l *loader) caller(p keyed.Node) (c contracts.Caller) {
	switch {
	case !p.Exists():
		return c
	case p.V.Kind() == crypto.Object:
		return l.callerObject(p)
	}
	name := l.Text(p)
	c, ok := l.callers[name]
	if name != "" && !ok {
		remedy := l.known(name, keysOf(l.callers), "name one of callers, or write an object")
		l.Refuse(p.At, "no caller "+strconv.Quote(keyed.Shortened(name)), remedy)
	}
	return c
}

// known is the remedy for a word that is none of a list.
func (l *loader) known(word string, list []string, remedy string) string {
	for _, x := range list {
		if keyed.Near(word, x) {
			return "did you mean " + x + "?"
		}
	}
	return remedy
}

func keysOf[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// readKeys makes the keys. They follow from their names, so nobody must ever trust one.
func (l *loader) readKeys(p keyed.Node) {
	names, values := l.Members(p)
	threshold := 0
	var list []registry.Key
	for i, name := range names {
		before := len(l.Faults)
		k := l.key(name, values[i])
		l.s.keys[name] = k // of a key that is refused nothing else is
		if len(l.Faults) > before {
			continue
		}
		if k.Role == registry.Root {
			threshold = 1
		} else if _, err := registry.New(0, k.Key); err != nil {
			l.Refuse(values[i].At, strings.TrimPrefix(err.Error(), "registry: "), "correct the key")
			continue
		}
		list = append(list, k.Key)
	}
	var err error
	if l.s.trust, err = registry.New(threshold, list...); err != nil {
		l.Refuse(p.At, strings.TrimPrefix(err.Error(), "registry: "), "correct the keys")
	}
}

func (l *loader) key(name string, x keyed.Node) (k signing) {
	k.Name = name
	if !l.Object(x, grammar.CaseKey...) {
		return k
	}
	if name == kernelKey || name == logKey {
		l.Refuse(x.At, strconv.Quote(name)+" is the name of a key of the kernel", "choose another")
	}
	oneOf := "write one of " + strings.Join(grammar.KeyRoles, ", ")
	if role, ok := l.Need(x, "role", oneOf); ok {
		k.Role = registry.Role(l.Text(role))
		if !slices.Contains(grammar.KeyRoles, string(k.Role)) {
			l.Refuse(role.At, "no role of a key", oneOf)
			k.Role = ""
		}
	}
	k.Roles = l.Words(x.Get("roles"))
	slices.Sort(k.Roles)
	var err error
	if k.key, err = keyOf(name); err == nil {
		k.Public, err = crypto.PublicOf(k.key)
	}
	if err != nil {
		l.Refuse(x.At, err.Error(), "choose another name")
	}
	return k
}

const (
	kernelKey = "kernel"
	logKey    = "log"
)

// keyOf returns the key of a name.
func keyOf(name string) (crypto.PrivateKey, error) {
	seed := crypto.Sum([]byte("helm test key v1\n" + name))
	return crypto.NewKeyFromSeed(seed[:])
}

// signer reads the name of a key of a role.
func (l *loader) signer(p keyed.Node, role registry.Role) string {
	name := l.Text(p)
	k, ok := l.s.keys[name]
	switch {
	case name == "":
	case !ok:
		l.Refuse(p.At, "no key "+strconv.Quote(keyed.Shortened(name)),
			l.known(name, keysOf(l.s.keys), "add it to keys"))
	case k.Role != role && k.Role != "":
		l.Refuse(p.At, "the key "+name+" has the role "+string(k.Role), "name one of role "+string(role))
	}
	return name
}

func (l *loader) signers(p keyed.Node, role registry.Role) (names []string) {
	for _, e := range l.List(p) {
		names = append(names, l.signer(e, role))
	}
	return names
}

func (l *loader) readTools(p keyed.Node) {
	names, values := l.Members(p)
	for i, name := range names {
		l.tool(values[i].At, name)
		before := len(l.Faults)
		if l.Object(values[i], grammar.CaseStub...) {
			if s := l.stub(values[i]); s != nil {
				l.s.stubs[name] = *s
			} else if len(l.Faults) == before {
				l.Refuse(values[i].At, "says nothing of what the tool does", "write output or error")
			}
		}
	}
}

// tool refuses one that the stack does not declare, if it is known what it declares.
func (l *loader) tool(at, name string) {
	if name != "" && l.s.policy != nil && !slices.Contains(l.tools, name) {
		l.Refuse(at, "no tool "+strconv.Quote(keyed.Shortened(name))+" in the stack",
			l.known(name, l.tools, "declare it, or write want: DENY and reason: DENY_TOOL_NOT_FOUND"))
	}
}

// stub reads what runs, or returns nil if nothing is said.
func (l *loader) stub(p keyed.Node) *stub {
	s := stub{}
	said := 0
	if x := p.Get("output"); x.Exists() {
		s.output, said = x.V.Append(nil), said+1
	}
	if x := p.Get("error"); x.Exists() {
		s.fails, said = l.Text(x), said+1
	}
	if x := p.Get("panic"); x.Exists() {
		s.panics, said = l.Flag(x), said+1
	}
	if x := p.Get("lost"); x.Exists() {
		s.lost, said = l.Flag(x), said+1
	}
	if said > 1 {
		l.Refuse(p.At, "several of output, error, panic and lost", "write one of them")
	}
	if said == 0 {
		return nil
	}
	return &s
}

func (l *loader) readIgnored(p keyed.Node) {
	for _, e := range l.List(p) {
		if !l.Object(e, grammar.CaseIgnore...) {
			continue
		}
		x := ignored{at: e.At}
		if at, ok := l.Need(e, "at", "write the pointer of the unit, with the file before it: bank.yaml#/rules/0"); ok {
			x.pointer = l.Text(at)
		}
		x.mutant = l.Text(e.Get("mutant"))
		if why, ok := l.Need(e, "why", "say why: nobody else can know"); ok {
			x.why = l.Text(why)
		}
		l.s.ignored = append(l.s.ignored, x)
	}
}
