package condense_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// This file computes sets a second time, as the rules are written: slowly, from JSON, with nothing
// of this module.

type object = map[string]any

var (
	kindOf    = regexp.MustCompile(`/helm/(\w+)/v1$`)
	durations = regexp.MustCompile(`^[1-9][0-9]*[smhd]$`)
)

// A record is a line as far as sets depend on it.
type record struct {
	line       []byte
	stub       bool
	kind       string // "decision" and "receipt" of stubs, too
	hash       string // of the entry
	session    string
	time       time.Time
	body       object // predicate or stub
	decision   object // of a decision
	policyHash string // of a policy entry
}

// A ledger is a log, read for the second time.
type ledger struct {
	records   []record
	documents map[string][]byte
	gone      []map[uint64]bool
	said      map[string]said // terms by policyHash, read once
}

func decode(t testing.TB, b []byte) object {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v object
	require.NoError(t, d.Decode(&v), "%s", b)
	return v
}

func sum(prefix byte, parts ...[]byte) string {
	h := sha256.New()
	h.Write([]byte{prefix})
	for _, p := range parts {
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// read reads a line.
func read(t testing.TB, line []byte) record {
	t.Helper()
	x := record{line: line}
	whole := decode(t, line)
	if stub, ok := whole["stub"].(object); ok {
		x.stub, x.body, x.hash, x.kind = true, stub, stub["entry"].(string), "receipt"
		if stub["tool"] != nil {
			x.kind, x.decision = "decision", stub
		}
	} else {
		var envelope struct{ Payload []byte }
		require.NoError(t, json.Unmarshal(line, &envelope))
		statement := decode(t, envelope.Payload)
		x.body, x.hash = statement["predicate"].(object), sum(0, line)
		x.kind = kindOf.FindStringSubmatch(statement["predicateType"].(string))[1]
		if x.kind == "decision" {
			x.decision = x.body["decision"].(object)
		}
		if x.kind == "policy" {
			x.policyHash = x.body["policy"].(string)
		}
	}
	x.session = x.body["session"].(string)
	var err error
	x.time, err = time.Parse("2006-01-02T15:04:05.000Z", x.body["time"].(string))
	require.NoError(t, err)
	return x
}

// number returns a field of a stub that is an index.
func number(o object, key string) int {
	n, err := strconv.Atoi(o[key].(json.Number).String())
	if err != nil {
		panic(err)
	}
	return n
}

// of reports whether a record is the receipt of an ALLOW.
func (l *ledger) of(receipt, decision int) bool {
	r, d := l.records[receipt], l.records[decision]
	switch {
	case r.kind != "receipt" || d.kind != "decision":
		return false
	case r.stub:
		return number(r.body, "decision") == decision
	}
	return r.body["decisionHash"] == d.hash
}

// pair returns a decision and its receipt, by the index of one of them.
func (l *ledger) pair(index int) (decision, receipt int, ok bool) {
	for other := range l.records {
		if l.of(other, index) {
			return index, other, true
		}
		if l.of(index, other) {
			return other, index, true
		}
	}
	return 0, 0, false
}

// keeps returns all that keeps an entry from the set of a range.
func (l *ledger) keeps(index, from, to, size int, until time.Time) (by []string) {
	keep := func(so bool, what string) {
		if so {
			by = append(by, what)
		}
	}
	for _, set := range l.gone {
		keep(set[uint64(index)], "gone before")
	}
	decision, receipt, ok := l.pair(index)
	if !ok {
		return append(by, "1: no pair")
	}
	d, r := l.records[decision], l.records[receipt]

	// 1.
	keep(decision < from, "1: decision below the range")
	keep(receipt >= to, "1: receipt above the range")
	outcome := r.body["outcome"]
	keep(outcome != "EXECUTED" && outcome != "FAILED", "1: outcome")
	keep(outcome == "FAILED" && !r.stub && r.body["reason"] != "TOOL_ERROR", "1: reason")

	// 2.
	closed := slices.ContainsFunc(l.records[:size], func(x record) bool {
		return x.kind == "session" && x.session == d.session
	})
	if d.session == "main" {
		keep(!closed && d.decision["idempotency"] != nil, "2: key of main")
		last := -1
		for i, x := range l.records[:to] {
			if x.session == "main" {
				last = i
			}
		}
		keep(!closed && (last == decision || last == receipt), "2: last of main")
	} else {
		keep(!closed, "2: open")
	}

	// 3.
	keep(!d.stub && d.decision["approvals"] != nil, "3: approvals")
	keep(!d.stub && d.decision["signals"] != nil, "3: signals")
	keep(!r.stub && r.body["signals"] != nil, "3: signals of the receipt")

	// 4.
	terms := l.terms(l.records[l.policy(d)])
	risk, declared := terms.risks[d.decision["tool"].(string)]
	keep(!declared, "4: not declared")
	keep(!terms.lets, "4: no terms")
	keep(terms.lets && declared && !slices.Contains(terms.goes, risk), "4: risk")
	latest := d.time
	for _, x := range l.records[:decision] {
		if x.time.After(latest) {
			latest = x.time
		}
	}
	keep(terms.lets && d.time.Add(terms.after).After(until), "4: age")
	keep(terms.lets && !d.time.Add(terms.after).After(until) && latest.Add(terms.after).After(until), "4: dated back")
	return by
}

// policy returns the index of the policy entry of a decision.
func (l *ledger) policy(d record) int {
	if d.stub {
		return number(d.body, "policy")
	}
	return slices.IndexFunc(l.records, func(x record) bool {
		return x.kind == "policy" && x.policyHash == d.decision["policyHash"]
	})
}

// said are the terms of a policy.
type said struct {
	lets  bool
	goes  []string // risks
	after time.Duration
	risks map[string]string
}

func (l *ledger) terms(policy record) said {
	if x, ok := l.said[policy.policyHash]; ok {
		return x
	}
	x := said{goes: []string{"low", "medium"}, risks: map[string]string{}}
	with, without := 0, 0
	for _, d := range policy.body["documents"].([]any) {
		d := d.(object)
		var text object
		if json.Unmarshal(l.documents[d["digest"].(string)], &text) != nil {
			panic("a document that is no object")
		}
		switch d["layer"] {
		case "P0":
			c, _ := text["condense"].(object)
			kept, _ := c["kept"].(string)
			after, _ := c["after"].(string)
			if len(c) != 2 || kept != "high" && kept != "medium" ||
				!durations.MatchString(after) {
				without++
				continue
			}
			n, err := strconv.Atoi(after[:len(after)-1])
			unit := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[after[len(after)-1]]
			if err != nil || n > 100_000 || time.Duration(n)*unit < 24*time.Hour { // no journal is so long
				without++
				continue
			}
			with++
			x.after = max(x.after, time.Duration(n)*unit)
			if kept == "medium" {
				x.goes = []string{"low"}
			}
		case "P1":
			for name, tool := range text["tools"].(object) {
				tool, _ := tool.(object)
				effect, _ := tool["effect"].(string)
				risk := map[string]string{"read": "low", "write": "medium", "destructive": "high"}[effect]
				if said, ok := tool["risk"]; ok {
					risk, _ = said.(string)
				}
				order := []string{"low", "medium", "high"}
				if at := slices.Index(order, risk); at < 0 {
					x.risks[name] = "malformed"
				} else if before, ok := x.risks[name]; !ok || slices.Index(order, before) < at && before != "malformed" {
					x.risks[name] = risk
				}
			}
		}
	}
	x.lets = with > 0 && without == 0
	l.said[policy.policyHash] = x
	return x
}

// stubOf returns what is left of a line.
func (l *ledger) stubOf(index int) []byte {
	x := l.records[index]
	if x.stub {
		return x.line
	}
	s := object{"entry": x.hash}
	take := func(from object, keys ...string) {
		for _, key := range keys {
			if v, ok := from[key]; ok {
				s[key] = v
			}
		}
	}
	take(x.body, "lamport", "seq", "session", "time")
	parents := x.body["parents"].([]any)
	if x.kind == "decision" {
		take(x.decision, "charges", "idempotency", "tool")
		s["policy"] = l.policy(x)
	} else {
		take(x.body, "factsHash", "outcome", "settled")
		s["decision"], _, _ = l.pair(index)
		parents = slices.DeleteFunc(slices.Clone(parents), func(p any) bool { return p == x.body["decisionHash"] })
	}
	if len(parents) > 0 {
		s["parents"] = parents
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(object{"stub": s}) != nil {
		panic("a stub that is no JSON")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// root is MTH of RFC 6962, section 2.1.
func root(lines [][]byte) string {
	switch n := len(lines); n {
	case 0:
		return hex.EncodeToString(sha256.New().Sum(nil))
	case 1:
		return sum(0, lines[0])
	default:
		k := 1
		for 2*k < n {
			k *= 2
		}
		left, _ := hex.DecodeString(root(lines[:k]))
		right, _ := hex.DecodeString(root(lines[k:]))
		return sum(1, left, right)
	}
}

// A wanted is a set.
type wanted struct {
	members []uint64
	lines   [][]byte
	stubs   string
}

// set returns the set of a range. kept counts, for each cause, the entries of calls that it alone
// kept.
func (l *ledger) set(from, to, size int, until time.Time, kept map[string]int) (w wanted) {
	for i := from; i < to; i++ {
		by := l.keeps(i, from, to, size, until)
		if len(by) == 1 {
			kept[by[0]]++
		}
		if len(by) == 0 {
			w.members = append(w.members, uint64(i))
			w.lines = append(w.lines, l.stubOf(i))
		}
	}
	w.stubs = root(w.lines)
	return w
}
