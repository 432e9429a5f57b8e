package policytest

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/grammar"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/trust/registry"

	"io/fs"
)

func (l *loader) readCases(p node) {
	l.names = map[string]bool{}
	for i, e := range l.list(p) {
		replayed := e.get("transcript").exists()
		keys := grammar.Case
		if replayed {
			keys = grammar.CaseTranscript
		}
		if !l.object(e, keys...) {
			continue
		}
		name := l.text(e.get("name"))
		if name == "" {
			name = "case " + strconv.Itoa(i+1)
		}
		if l.names[name] {
			l.refuse(e.get("name").at, strconv.Quote(shortened(name))+" twice",
				"give each case a name of its own")
		}
		l.names[name] = true
		if replayed {
			l.s.cases = append(l.s.cases, l.transcript(e, name))
			continue
		}
		rows := e.get("each")
		if !rows.exists() {
			l.s.cases = append(l.s.cases, l.scenario(e, node{}, name))
			continue
		}
		for k, row := range l.list(rows) {
			if l.object(row, grammar.Case...) {
				if x := row.get("each"); x.exists() {
					l.refuse(x.at, "each in a row of each", "write the rows in one list")
				}
				l.s.cases = append(l.s.cases, l.scenario(e, row, name+"/"+strconv.Itoa(k+1)+rowName(row)))
			}
		}
	}
}

// rowName is what is added to the number of a row. Its arguments are not: they are values of a
// call.
func rowName(row node) string {
	if name := row.get("name").v.Text(); name != "" {
		return " " + name
	}
	return ""
}

// merged is a case, or a row over it: what the row has comes first.
type merged struct{ row, of node }

func (m merged) get(key string) node {
	if m.row.exists() {
		if x := m.row.get(key); x.exists() {
			return x
		}
	}
	return m.of.get(key)
}

// at is where the case stands.
func (m merged) at() string {
	if m.row.exists() {
		return m.row.at
	}
	return m.of.at
}

// begin reads what comes before the call of a case, or before a transcript.
func (l *loader) begin(m merged, name string) (s *scenario, base step, names map[string]bool) {
	s = &scenario{name: name, at: m.at(), skip: l.text(m.get("skip"))}
	session := l.text(m.get("session"))
	if session == "" {
		session = "case"
	}
	base = step{at: s.at, caller: l.caller(m.get("caller")), session: session}
	names = map[string]bool{}
	for _, e := range l.list(m.get("before")) {
		x := l.before(e, base, names)
		s.steps = append(s.steps, x)
		if x.name != "" {
			names[x.name] = true
		}
	}
	return s, base, names
}

func (l *loader) scenario(of, row node, name string) *scenario {
	m := merged{row, of}
	s, base, names := l.begin(m, name)
	last := l.call(m, base, names)
	last.freeze, last.close = l.flag(m.get("freeze")), l.flag(m.get("close"))
	if last.freeze {
		l.freezer(m.get("freeze").at)
	}
	if !m.get("want").exists() {
		l.refuse(m.at(), "no want", "write want: ALLOW or want: DENY")
	}
	s.steps = append(s.steps, last)
	l.drivers(s)
	return s
}

// transcript reads a case that is the calls of a recorded conversation.
func (l *loader) transcript(e node, name string) *scenario {
	m := merged{of: e}
	s, x, _ := l.begin(m, name)
	x.does, x.replay = "transcript", &replay{wants: map[int]want{}}
	x.overlays, x.sandbox = l.overlays(e.get("overlay")), l.sandbox(e.get("sandbox"))
	if p := e.get("words"); p.exists() {
		if x.replay.words = slices.Contains(grammar.Words, l.text(p)); !x.replay.words {
			l.refuse(p.at, "not user", "write words: user, or remove it: then no text is the user's")
		}
	}
	calls := 0
	at := e.get("transcript")
	if file, ok := l.path(at, l.text(at)); ok {
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
			l.refuse(at.at, strings.TrimPrefix(err.Error(), "policytest: "), "correct the transcript")
		case calls == 0:
			l.refuse(at.at, "a transcript without calls", "name one that has some")
		}
	}
	numbers, wants := l.members(e.get("calls"))
	for i, number := range numbers {
		n, err := strconv.Atoi(number)
		if calls > 0 && (err != nil || n < 1 || n > calls || strconv.Itoa(n) != number) {
			l.refuse(wants[i].at, "no call "+strconv.Quote(shortened(number))+" in the transcript",
				"write a number from 1 to "+strconv.Itoa(calls))
		}
		if l.object(wants[i], grammar.CaseWant...) {
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
			l.refuse(x.at, what, "make two cases of it")
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
	l.refuse(at, "nobody can freeze", "add a key of role freezer or root")
}

// before reads a step that comes before the call of a case.
func (l *loader) before(e node, base step, names map[string]bool) step {
	x := base
	x.at = e.at
	if !l.is(e, crypto.Object) {
		return x
	}
	var does []string
	for _, a := range grammar.CaseSteps {
		if e.v.Get(a).Exists() {
			does = append(does, a)
		}
	}
	if len(does) != 1 {
		l.refuse(e.at, "neither or several of "+strings.Join(grammar.CaseSteps, ", "), "write one of them in a step")
		return x
	}
	keys := []string{does[0], "session"}
	if does[0] == "call" {
		keys = grammar.CaseCall
	}
	if !l.object(e, keys...) {
		return x
	}
	if s := l.text(e.get("session")); s != "" {
		x.session = s
	}
	x.does = does[0]
	switch p := e.get(x.does); x.does {
	case "user":
		x.words = l.text(p)
	case "after":
		x.after = l.duration(p)
	case "freeze":
		l.flag(p)
		l.freezer(p.at)
	case "close":
		l.flag(p)
	default:
		if c := e.get("caller"); c.exists() {
			x.caller = l.caller(c)
		}
		x = l.call(merged{of: e}, x, names)
	}
	return x
}

// call reads a step that calls a tool. Steps that say nothing of it are by the caller of the base,
// in its session, and must be allowed.
func (l *loader) call(m merged, x step, names map[string]bool) step {
	x.at, x.does, x.name = m.at(), "call", l.text(m.get("name"))
	tool := m.get("call")
	if !tool.exists() {
		l.refuse(x.at, "no call", "write call: TOOL")
	}
	x.tool = l.text(tool)
	x.want = l.want(m)
	if x.want.reason != contracts.ReasonToolNotFound {
		l.tool(tool.at, x.tool)
	}
	args, raw := m.get("args"), m.get("raw")
	switch {
	case m.row.exists() && m.row.get("args").exists():
		raw = node{}
	case m.row.exists() && m.row.get("raw").exists():
		args = node{}
	}
	switch {
	case args.exists() && raw.exists():
		l.refuse(raw.at, "args and raw", "write one of them")
	case raw.exists():
		if l.is(raw, crypto.String) {
			x.args = []byte(raw.v.Text())
		}
	case args.exists():
		x.args = args.v.Append(nil)
	default:
		x.args = []byte("{}")
	}
	for _, e := range l.list(m.get("after_refs")) {
		name := l.text(e)
		if name != "" && !names[name] {
			l.refuse(e.at, "no earlier step "+strconv.Quote(shortened(name)), "give the step that name")
		}
		x.afterRefs = append(x.afterRefs, name)
	}
	x.overlays = l.overlays(m.get("overlay"))
	x.approve = l.signers(m.get("approve"), registry.Approver)
	x.refuse = l.signers(m.get("refuse"), registry.Approver)
	for _, name := range x.refuse {
		if slices.Contains(x.approve, name) {
			l.refuse(m.get("refuse").at, name+" approves and refuses", "write one of them")
		}
	}
	x.attest = l.attestations(m.get("attest"))
	x.delegation = l.grants(m.get("delegation"))
	x.idempotency = l.text(m.get("idempotency"))
	if p := m.get("driver"); p.exists() {
		x.driver = l.text(p)
		if !slices.Contains(grammar.Drivers, x.driver) {
			l.refuse(p.at, "neither none nor two", "write one of them; without it there is one")
		}
	}
	if p := m.get("definition"); p.exists() {
		d, err := crypto.ParseDigest(l.text(p))
		if err != nil {
			l.refuse(p.at, "no digest", "write 64 lower-case hex digits")
		}
		x.definition = &d
	}
	x.sandbox = l.sandbox(m.get("sandbox"))
	for _, p := range []node{m.of, m.row} {
		if p.exists() {
			if s := l.stub(p); s != nil {
				x.stub = s
			}
		}
	}
	return x
}

// sandbox reads the profile that the driver of a step declares.
func (l *loader) sandbox(p node) *contracts.SandboxInfo {
	name := l.text(p)
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
		l.refuse(p.at, what+strconv.Quote(shortened(name)), "write one of "+strings.Join(of, ", "))
		return nil
	}
	info := l.profiles[found[0]]
	return &info
}

func (l *loader) overlays(p node) (names []string) {
	list := []node{p}
	if p.v.Kind() != crypto.String {
		list = l.list(p)
	}
	for _, e := range list {
		name := l.text(e)
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
			l.refuse(e.at, "the overlay does not load: "+err.Error(), "correct the overlay")
		}
	}
	return names
}

func (l *loader) attestations(p node) (list []attestation) {
	for _, e := range l.list(p) {
		if !l.object(e, grammar.CaseAttest...) {
			continue
		}
		x := attestation{claims: e.get("claims").v}
		if by, ok := l.need(e, "by", "name a key of role attestor"); ok {
			x.by = l.signer(by, registry.Attestor)
		}
		if kind, ok := l.need(e, "type", "write the type that the policy asks for"); ok {
			x.kind = l.text(kind)
		}
		if c := e.get("claims"); c.exists() {
			l.is(c, crypto.Object)
		}
		list = append(list, x)
	}
	return list
}

func (l *loader) grants(p node) (list []grant) {
	for _, e := range l.list(p) {
		if !l.object(e, grammar.CaseGrant...) {
			continue
		}
		x := grant{when: e.get("when").v, depth: 8}
		if by, ok := l.need(e, "by", "name a key of role delegator, or who was granted it"); ok {
			x.by = l.text(by)
			if _, known := l.s.keys[x.by]; x.by != "" && !known {
				remedy := l.known(x.by, keysOf(l.s.keys), "add it to keys")
				l.refuse(by.at, "no key "+strconv.Quote(shortened(x.by)), remedy)
			}
		}
		if to, ok := l.need(e, "to", "name a caller"); ok {
			x.to = l.caller(to).ID
		}
		if only, ok := l.need(e, "only", "name the tools"); ok {
			for _, t := range l.list(only) {
				l.tool(t.at, l.text(t))
				x.only = append(x.only, t.v.Text())
			}
			slices.Sort(x.only)
		}
		if d := e.get("depth"); d.exists() {
			x.depth = l.count(d, 64)
		}
		list = append(list, x)
	}
	return list
}

// want reads how a step must come out. A step before the call is allowed if it does not say.
func (l *loader) want(m merged) (w want) {
	w.verdict = contracts.Allow
	if m.get("overlay").exists() {
		l.overlays(m.get("overlay")) // rules and budgets may be of it
	}
	if p := m.get("want"); p.exists() {
		switch l.text(p) {
		case "ALLOW":
		case "DENY":
			w.verdict = contracts.Deny
		default:
			l.refuse(p.at, "neither ALLOW nor DENY", "write one of them")
		}
	}
	if p := m.get("reason"); p.exists() {
		w.reason, w.stated = contracts.ReasonCode(l.text(p)), true
		if w.reason != "" && !w.reason.Known() {
			var all []string
			for r := range contracts.Reasons() {
				all = append(all, string(r))
			}
			remedy := l.known(string(w.reason), all, "see docs/reasons.md")
			l.refuse(p.at, "no reason "+strconv.Quote(shortened(string(w.reason))), remedy)
		}
	}
	w.why = l.text(m.get("why"))
	if p := m.get("condition"); p.exists() {
		n := int(l.count(p, 8))
		w.condition = &n
	}
	if p := m.get("ran"); p.exists() {
		n := int(l.count(p, 1))
		w.ran = &n
	}
	if p := m.get("pending"); p.exists() && l.object(p, grammar.CaseAsked...) {
		w.pending = &pending{roles: l.words(p.get("roles"))}
		slices.Sort(w.pending.roles)
		if q := p.get("quorum"); q.exists() {
			w.pending.quorum = l.count(q, contracts.MaxListed)
		}
	}
	if p := m.get("charges"); p.exists() {
		w.charges = map[string]uint64{}
		names, values := l.members(p)
		for i, name := range names {
			l.rule(values[i].at, name)
			w.charges[name] = l.count(values[i], 1<<53-1)
		}
	}
	if p := m.get("rule"); p.exists() {
		w.rule, w.stated = l.text(p), true
		l.rule(p.at, w.rule)
	}
	return w
}

// rule refuses a name that no rule of the stack has.
func (l *loader) rule(at, name string) {
	if name != "" && l.s.policy != nil && !slices.Contains(l.rules, name) {
		l.refuse(at, "no rule "+strconv.Quote(shortened(name))+" in the stack",
			l.known(name, l.rules, "write layer:document:id, like P1:bank:pay"))
	}
}
