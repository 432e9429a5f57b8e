package forge

import (
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Sets of condense entries as the forger knows them: by the rules of docs/FORMATS.md section 7,
// over the JSON of entries and of policy documents.

// condense makes the fields of a condense entry that follow from its range. Those of the entries
// below it are made.
func (m *Model) condense(c *Node, at int) {
	m.Helper()
	p := c.P()
	c.members = m.setOf(c, at)
	if c.chosen != nil {
		c.members = c.chosen(c.members)
	}
	var stubs [][]byte
	for _, n := range c.members {
		line := n.stub
		if !n.gone {
			line = m.stubOf(n)
		}
		stubs = append(stubs, append([]byte{0}, line...))
	}
	p["dropped"], p["stubs"] = len(stubs), hexRoot(stubs)
	root := rootOf(m, min(intOf(p["to"]), at))
	p["root"] = hex.EncodeToString(root[:])
}

// setOf returns the set of a condense entry, in order.
func (m *Model) setOf(c *Node, at int) (set []*Node) {
	m.Helper()
	p := c.P()
	from, to, size := intOf(p["from"]), min(intOf(p["to"]), at), intOf(p["size"])
	until := clock(m, p["until"])
	taken := map[*Node]bool{} // by an earlier one
	closed, last := map[string]bool{}, (*Node)(nil)
	receipts := map[*Node]*Node{}
	for i, n := range m.Nodes[:at] {
		for _, x := range n.members {
			taken[x] = true
		}
		if n.Kind() == "session" && i < size {
			closed[n.Text("session")] = true
		}
		if i < to && n.Text("session") == "main" {
			last = n
		}
		if n.Kind() == "receipt" && n.decision != nil && i < to && receipts[n.decision] == nil {
			receipts[n.decision] = n
		}
	}
	var latest time.Time
	for i, n := range m.Nodes[:to] {
		if now := clock(m, n.P()["time"]); now.After(latest) {
			latest = now
		}
		r, d := receipts[n], n.D()
		if i < from || n.Kind() != "decision" || r == nil || taken[n] || taken[r] || !goesBy(r) {
			continue
		}
		if s := n.Text("session"); !closed[s] && (s != "main" || d["idempotency"] != nil || n == last || r == last) {
			continue
		}
		if d["approvals"] != nil || d["signals"] != nil || r.P()["signals"] != nil {
			continue
		}
		after, ok := m.termsOf(m.policyOf(n), d["tool"].(string))
		if ok && !latest.Add(after).After(until) {
			set = append(set, n, r)
		}
	}
	slices.SortFunc(set, func(a, b *Node) int { return m.index(a) - m.index(b) })
	return set
}

// goesBy reports whether a call may go as far as its receipt says.
func goesBy(r *Node) bool {
	p := r.P()
	return p["outcome"] == "EXECUTED" || p["outcome"] == "FAILED" && p["reason"] == "TOOL_ERROR"
}

// termsOf returns after how long a call of a tool may go that was judged by a policy. It reports
// false if none may.
func (m *Model) termsOf(policy *Node, tool string) (after time.Duration, ok bool) {
	m.Helper()
	least, risk, floors := 3, -1, 0
	rank := map[any]int{"low": 0, "medium": 1, "high": 2}
	byEffect := map[any]any{"read": "low", "write": "medium", "destructive": "high"}
	for _, x := range listOf(policy.P(), "documents") {
		text := m.Blobs[x["digest"].(string)]
		if text == nil {
			text = m.docs[x["digest"].(string)] // a row took it out
		}
		document := parseObject(m, text)
		switch x["layer"] {
		case "P0":
			floors++
			terms, _ := document["condense"].(Object)
			kept, known := rank[terms["kept"]]
			wait, known2 := durationOf(terms["after"])
			if !known || !known2 || kept == 0 || wait < 24*time.Hour || len(terms) != 2 {
				return 0, false
			}
			least, after = min(least, kept), max(after, wait)
		case "P1":
			tools, known := document["tools"].(Object)
			if !known {
				return 0, false
			}
			declared, is := tools[tool].(Object)
			if !is {
				continue
			}
			word := declared["risk"]
			if word == nil {
				word = byEffect[declared["effect"]]
			}
			of, known := rank[word]
			if !known {
				return 0, false
			}
			risk = max(risk, of)
		}
	}
	return after, floors > 0 && risk >= 0 && risk < least
}

var duration = regexp.MustCompile(`^([1-9][0-9]{0,8})([smhd])$`)

// durationOf reads a duration of a policy.
func durationOf(x any) (time.Duration, bool) {
	s, _ := x.(string)
	f := duration.FindStringSubmatch(s)
	if f == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(f[1], 10, 64)
	unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[f[2]]
	return time.Duration(n) * unit, err == nil
}

func clock(m *Model, x any) time.Time {
	m.Helper()
	at, err := time.Parse("2006-01-02T15:04:05.000Z", x.(string))
	require.NoError(m, err)
	return at
}

// intOf is a number of a record, whether it was read or made.
func intOf(x any) int {
	switch x := x.(type) {
	case json.Number:
		n, err := x.Int64()
		if err == nil {
			return int(n)
		}
	case int:
		return x
	}
	return -1
}

// Model is the log as it is, in pieces, under the checkpoint that the store has.
func (m *Maker) Model() *Model {
	m.Helper()
	size, err := m.Store.Size(m.Context())
	require.NoError(m, err)
	note, err := m.Store.Checkpoint(m.Context())
	require.NoError(m, err)
	members := []Member{{Name: "checkpoint", Body: note}, {Name: "entries.jsonl"}}
	for e, err := range m.Store.Entries(m.Context(), 0, size) {
		require.NoError(m, err)
		members[1].Body = append(append(members[1].Body, e...), '\n')
	}
	named := map[string]bool{}
	for _, n := range takeApart(m, members).Nodes {
		for _, name := range n.blobs() {
			d, err := crypto.ParseDigest(name)
			if err != nil || named[name] {
				continue
			}
			named[name] = true
			if b, err := m.Store.Blob(m.Context(), d); err == nil {
				members = append(members, Member{Name: "blobs/" + name, Body: b})
			}
		}
	}
	k := takeApart(m, members)
	k.by, k.logBy = m.By, m.logBy
	return k
}

// Condense enters a condense entry over a range of the log as it is, and returns the hashes of its
// set. It enters none, and returns none, if the set is empty or too small for the range.
func (m *Maker) Condense(from, to, size int, until contracts.Time) (set []contracts.Digest) {
	m.Helper()
	k := m.Model()
	c := &Node{by: m.By, st: Object{"predicateType": "https://github.com/helmkernel/helm/condense/v1",
		"predicate": Object{"from": from, "to": to, "size": size, "until": until.String(), "session": "",
			"parents": []any{}}}}
	for _, n := range k.Nodes {
		if n.Kind() == "condense" {
			n.members = k.setOf(n, k.index(n))
		}
	}
	k.condense(c, len(k.Nodes))
	if len(c.members) == 0 || to-from > 64*len(c.members) {
		return nil
	}
	p := c.P()
	m.put(contracts.SessionKernel, nil, &contracts.Statement{Condense: &contracts.Condense{
		Dropped: uint64(p["dropped"].(int)), From: uint64(from), To: uint64(to), Size: uint64(size),
		Root: bytesOf(p["root"].(string)), Stubs: bytesOf(p["stubs"].(string)), Until: until}})
	for _, n := range c.members {
		set = append(set, bytesOf(n.hash))
	}
	return set
}
