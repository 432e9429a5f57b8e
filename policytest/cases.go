package policytest

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/grammar"
	"github.com/helmkernel/helm/internal/keyed"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/trust/registry"

	"io/fs"
)

func (l *loader) readCases(p keyed.Node) {
	l.names = map[string]bool{}
	for i, e := range l.List(p) {
		replayed := e.Get("transcript").Exists()
		keys := grammar.Case
		if replayed {
			keys = grammar.CaseTranscript
		}
		if !l.Object(e, keys...) {
			continue
		}
		name := l.Text(e.Get("name"))
		if name == "" {
			name = "case " + strconv.Itoa(i+1)
		}
		if l.names[name] {
			l.Refuse(e.Get("name").At, strconv.Quote(keyed.Shortened(name))+" twice",
				"give each case a name of its own")
		}
		l.names[name] = true
		if replayed {
			l.s.cases = append(l.s.cases, l.transcript(e, name))
			continue
		}
		rows := e.Get("each")
		if !rows.Exists() {
			l.s.cases = append(l.s.cases, l.scenario(e, keyed.Node{}, name))
			continue
		}
		for k, row := range l.List(rows) {
			if l.Object(row, grammar.Case...) {
				if x := row.Get("each"); x.Exists() {
					l.Refuse(x.At, "each in a row of each", "write the rows in one list")
				}
				l.s.cases = append(l.s.cases, l.scenario(e, row, name+"/"+strconv.Itoa(k+1)+rowName(row)))
			}
		}
	}
}

// rowName is what is added to the number of a row. Its arguments are not: they are values of a
// call.
func rowName(row keyed.Node) string {
	if name := row.Get("name").V.Text(); name != "" {
		return " " + name
	}
	return ""
}

// merged is a case, or a row over it: what the row has comes first.
type merged struct{ row, of keyed.Node }

func (m merged) get(key string) keyed.Node {
	if m.row.Exists() {
		if x := m.row.Get(key); x.Exists() {
			return x
		}
	}
	return m.of.Get(key)
}

// at is where the case stands.
func (m merged) at() string {
	if m.row.Exists() {
		return m.row.At
	}
	return m.of.At
}

// begin reads what comes before the call of a case, or before a transcript.
func (l *loader) begin(m merged, name string) (s *scenario, base step, names map[string]bool) {
	s = &scenario{name: name, at: m.at(), skip: l.Text(m.get("skip"))}
	session := l.Text(m.get("session"))
	if session == "" {
		session = "case"
	}
	base = step{at: s.at, caller: l.caller(m.get("caller")), session: session}
	names = map[string]bool{}
	for _, e := range l.List(m.get("before")) {
		x := l.before(e, base, names)
		s.steps = append(s.steps, x)
		if x.name != "" {
			names[x.name] = true
		}
	}
	return s, base, names
}

func (l *loader) scenario(of, row keyed.Node, name string) *scenario {
	m := merged{row, of}
	s, base, names := l.begin(m, name)
	last := l.call(m, base, names)
	last.freeze, last.close = l.Flag(m.get("freeze")), l.Flag(m.get("close"))
	if last.freeze {
		l.freezer(m.get("freeze").At)
	}
	if !m.get("want").Exists() {
		l.Refuse(m.at(), "no want", "write want: ALLOW or want: DENY")
	}
	s.steps = append(s.steps, last)
	l.drivers(s)
	return s
}

// transcript reads a case that is the calls of a recorded conversation.
func (l *loader) transcript(e keyed.Node, name string) *scenario {
	m := merged{of: e}
	s, x, _ := l.begin(m, name)
	x.does, x.replay = "transcript", &replay{wants: map[int]want{}}
	x.overlays, x.sandbox = l.overlays(e.Get("overlay")), l.sandbox(e.Get("sandbox"))
	if p := e.Get("words"); p.Exists() {
		if x.replay.words = slices.Contains(grammar.Words, l.Text(p)); !x.replay.words {
			l.Refuse(p.At, "not user", "write words: user, or remove it: then no text is the user's")
		}
	}
	calls := 0
	at := e.Get("transcript")
	if file, ok := l.path(at, l.Text(at)); ok {
		b, err := fs.ReadFile(l.fsys, file)
		if err == nil {
			x.replay.turns, err = Transcript(bytes.NewReader(b))
		}
		for _, t := range x.replay.turns {
			if t.Call != nil {
				calls++
			}
		}
		switch {
		case err != nil:
			l.Refuse(at.At, strings.TrimPrefix(err.Error(), "policytest: "), "correct the transcript")
		case calls == 0:
			l.Refuse(at.At, "a transcript without calls", "name one that has some")
		}
	}
	numbers, wants := l.Members(e.Get("calls"))
	for i, number := range numbers {
		n, err := strconv.Atoi(number)
		if calls > 0 && (err != nil || n < 1 || n > calls || strconv.Itoa(n) != number) {
			l.Refuse(wants[i].At, "no call "+strconv.Quote(keyed.Shortened(number))+" in the transcript",
				"write a number from 1 to "+strconv.Itoa(calls))
		}
		if l.Object(wants[i], grammar.CaseWant...) {
			x.replay.wants[n] = l.want(merged{of: wants[i]})
		}
	}
	s.steps = append(s.steps, x)
	return s
}

// drivers refuses a tool that is called with two drivers, and elsewhere in the case with none.
func (l *loader) drivers(s *scenario) {
	said := map[string]string{}
	for _, x := range s.steps {
		if before, ok := said[x.tool]; ok && before != x.driver && x.driver != "" && before != "" {
			what := "the tool has drivers " + before + " and " + x.driver + " in one case"
			l.Refuse(x.at, what, "make two cases of it")
		}
		if x.driver != "" {
			said[x.tool] = x.driver
		}
	}
}

// freezer refuses a freeze that nobody could sign.
func (l *loader) freezer(at string) {
	for _, k := range l.s.keys {
		if k.Role == registry.Root || k.Role == registry.Freezer {
			return
		}
	}
	l.Refuse(at, "nobody can freeze", "add a key of role freezer or root")
}

// before reads a step that comes before the call of a case.
func (l *loader) before(e keyed.Node, base step, names map[string]bool) step {
	x := base
	x.at = e.At
	if !l.Is(e, crypto.Object) {
		return x
	}
	var does []string
	for _, a := range grammar.CaseSteps {
		if e.V.Get(a).Exists() {
			does = append(does, a)
		}
	}
	if len(does) != 1 {
		l.Refuse(e.At, "neither or several of "+strings.Join(grammar.CaseSteps, ", "), "write one of them in a step")
		return x
	}
	keys := []string{does[0], "session"}
	if does[0] == "call" {
		keys = grammar.CaseCall
	}
	if !l.Object(e, keys...) {
		return x
	}
	if s := l.Text(e.Get("session")); s != "" {
		x.session = s
	}
	x.does = does[0]
	switch p := e.Get(x.does); x.does {
	case "user":
		x.words = l.Text(p)
	case "after":
		x.after = l.Duration(p)
	case "freeze":
		l.Flag(p)
		l.freezer(p.At)
	case "close":
		l.Flag(p)
	default:
		if c := e.Get("caller"); c.Exists() {
			x.caller = l.caller(c)
		}
		x = l.call(merged{of: e}, x, names)
	}
	return x
}

// call reads a step that calls a tool. Steps that say nothing of it are by the caller of the base,
// in its session, and must be allowed.
func (l *loader) call(m merged, x step, names map[string]bool) step {
	x.at, x.does, x.name = m.at(), "call", l.Text(m.get("name"))
	tool := m.get("call")
	if !tool.Exists() {
		l.Refuse(x.at, "no call", "write call: TOOL")
	}
	x.tool = l.Text(tool)
	x.want = l.want(m)
	if x.want.reason != contracts.ReasonToolNotFound {
		l.tool(tool.At, x.tool)
	}
	args, raw := m.get("args"), m.get("raw")
	switch {
	case m.row.Exists() && m.row.Get("args").Exists():
		raw = keyed.Node{}
	case m.row.Exists() && m.row.Get("raw").Exists():
		args = keyed.Node{}
	}
	switch {
	case args.Exists() && raw.Exists():
		l.Refuse(raw.At, "args and raw", "write one of them")
	case raw.Exists():
		if l.Is(raw, crypto.String) {
			x.args = []byte(raw.V.Text())
		}
	case args.Exists():
		x.args = args.V.Append(nil)
	default:
		x.args = []byte("{}")
	}
	for _, e := range l.List(m.get("after_refs")) {
		name := l.Text(e)
		if name != "" && !names[name] {
			l.Refuse(e.At, "no earlier step "+strconv.Quote(keyed.Shortened(name)), "give the step that name")
		}
		x.afterRefs = append(x.afterRefs, name)
	}
	x.overlays = l.overlays(m.get("overlay"))
	x.approve = l.signers(m.get("approve"), registry.Approver)
	x.refuse = l.signers(m.get("refuse"), registry.Approver)
	for _, name := range x.refuse {
		if slices.Contains(x.approve, name) {
			l.Refuse(m.get("refuse").At, name+" approves and refuses", "write one of them")
		}
	}
	x.attest = l.attestations(m.get("attest"))
	x.delegation = l.grants(m.get("delegation"))
	x.idempotency = l.Text(m.get("idempotency"))
	if p := m.get("driver"); p.Exists() {
		x.driver = l.Text(p)
		if !slices.Contains(grammar.Drivers, x.driver) {
			l.Refuse(p.At, "neither none nor two", "write one of them; without it there is one")
		}
	}
	if p := m.get("definition"); p.Exists() {
		d, err := crypto.ParseDigest(l.Text(p))
		if err != nil {
			l.Refuse(p.At, "no digest", "write 64 lower-case hex digits")
		}
		x.definition = &d
	}
	x.sandbox = l.sandbox(m.get("sandbox"))
	for _, p := range []keyed.Node{m.of, m.row} {
		if p.Exists() {
			if s := l.stub(p); s != nil {
				x.stub = s
			}
		}
	}
	return x
}

// sandbox reads the profile that the driver of a step declares.
func (l *loader) sandbox(p keyed.Node) *contracts.SandboxInfo {
	name := l.Text(p)
	if name == "" || l.s.policy == nil {
		return nil
	}
	var found []string
	for _, full := range keysOf(l.profiles) {
		if full == name || strings.HasSuffix(full, ":"+name) {
			found = append(found, full)
		}
	}
	if len(found) != 1 {
		what, of := "no tool of the stack demands the sandbox ", keysOf(l.profiles)
		if found != nil {
			what, of = "two documents have the sandbox ", found
		}
		l.Refuse(p.At, what+strconv.Quote(keyed.Shortened(name)), "write one of "+strings.Join(of, ", "))
		return nil
	}
	info := l.profiles[found[0]]
	return &info
}

func (l *loader) overlays(p keyed.Node) (names []string) {
	list := []keyed.Node{p}
	if p.V.Kind() != crypto.String {
		list = l.List(p)
	}
	for _, e := range list {
		name := l.Text(e)
		file, ok := l.path(e, name)
		if !ok {
			continue
		}
		names = append(names, file)
		if _, known := l.s.overlays[file]; known {
			continue
		}
		b, err := fs.ReadFile(l.fsys, file)
		if err == nil {
			var doc contracts.Document
			doc, err = policy.Parse(file, b)
			l.s.overlays[file] = doc
			if err == nil && l.s.policy != nil {
				_, err = l.s.policy.Narrow(doc)
			}
			l.rules = append(l.rules, rulesOf([]contracts.Document{doc})...)
		}
		if err != nil {
			l.Refuse(e.At, "the overlay does not load: "+err.Error(), "correct the overlay")
		}
	}
	return names
}

func (l *loader) attestations(p keyed.Node) (list []attestation) {
	for _, e := range l.List(p) {
		if !l.Object(e, grammar.CaseAttest...) {
			continue
		}
		x := attestation{claims: e.Get("claims").V}
		if by, ok := l.Need(e, "by", "name a key of role attestor"); ok {
			x.by = l.signer(by, registry.Attestor)
		}
		if kind, ok := l.Need(e, "type", "write the type that the policy asks for"); ok {
			x.kind = l.Text(kind)
		}
		if c := e.Get("claims"); c.Exists() {
			l.Is(c, crypto.Object)
		}
		list = append(list, x)
	}
	return list
}

func (l *loader) grants(p keyed.Node) (list []grant) {
	for _, e := range l.List(p) {
		if !l.Object(e, grammar.CaseGrant...) {
			continue
		}
		x := grant{when: e.Get("when").V, depth: 8}
		if by, ok := l.Need(e, "by", "name a key of role delegator, or who was granted it"); ok {
			x.by = l.Text(by)
			if _, known := l.s.keys[x.by]; x.by != "" && !known {
				remedy := l.known(x.by, keysOf(l.s.keys), "add it to keys")
				l.Refuse(by.At, "no key "+strconv.Quote(keyed.Shortened(x.by)), remedy)
			}
		}
		if to, ok := l.Need(e, "to", "name a caller"); ok {
			x.to = l.caller(to).ID
		}
		if only, ok := l.Need(e, "only", "name the tools"); ok {
			for _, t := range l.List(only) {
				l.tool(t.At, l.Text(t))
				x.only = append(x.only, t.V.Text())
			}
			slices.Sort(x.only)
		}
		if d := e.Get("depth"); d.Exists() {
			x.depth = l.Count(d, 64)
		}
		list = append(list, x)
	}
	return list
}

// want reads how a step must come out. A step before the call is allowed if it does not say.
func (l *loader) want(m merged) (w want) {
	w.verdict = contracts.Allow
	if m.get("overlay").Exists() {
		l.overlays(m.get("overlay")) // rules and budgets may be of it
	}
	if p := m.get("want"); p.Exists() {
		switch l.Text(p) {
		case "ALLOW":
		case "DENY":
			w.verdict = contracts.Deny
		default:
			l.Refuse(p.At, "neither ALLOW nor DENY", "write one of them")
		}
	}
	if p := m.get("reason"); p.Exists() {
		w.reason, w.stated = contracts.ReasonCode(l.Text(p)), true
		if w.reason != "" && !w.reason.Known() {
			var all []string
			for r := range contracts.Reasons() {
				all = append(all, string(r))
			}
			remedy := l.known(string(w.reason), all, "see docs/reasons.md")
			l.Refuse(p.At, "no reason "+strconv.Quote(keyed.Shortened(string(w.reason))), remedy)
		}
	}
	w.why = l.Text(m.get("why"))
	if p := m.get("condition"); p.Exists() {
		n := int(l.Count(p, 8))
		w.condition = &n
	}
	if p := m.get("ran"); p.Exists() {
		n := int(l.Count(p, 1))
		w.ran = &n
	}
	if p := m.get("pending"); p.Exists() && l.Object(p, grammar.CaseAsked...) {
		w.pending = &pending{roles: l.Words(p.Get("roles"))}
		slices.Sort(w.pending.roles)
		if q := p.Get("quorum"); q.Exists() {
			w.pending.quorum = l.Count(q, contracts.MaxListed)
		}
	}
	if p := m.get("charges"); p.Exists() {
		w.charges = map[string]uint64{}
		names, values := l.Members(p)
		for i, name := range names {
			l.rule(values[i].At, name)
			w.charges[name] = l.Count(values[i], 1<<53-1)
		}
	}
	if p := m.get("rule"); p.Exists() {
		w.rule, w.stated = l.Text(p), true
		l.rule(p.At, w.rule)
	}
	return w
}

// rule refuses a name that no rule of the stack has.
func (l *loader) rule(at, name string) {
	if name != "" && l.s.policy != nil && !slices.Contains(l.rules, name) {
		l.Refuse(at, "no rule "+strconv.Quote(keyed.Shortened(name))+" in the stack",
			l.known(name, l.rules, "write layer:document:id, like P1:bank:pay"))
	}
}
