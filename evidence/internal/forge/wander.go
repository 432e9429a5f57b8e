package forge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/receipts"
)

// The policies of random logs ask for all that a session knows: calls, receipts, messages and
// facts, taint and labels, balances.
const (
	YearsFloor = `{"helm":"policy/v1","layer":"P0","name":"years","version":1,
"budgets":[{"cost":1,"id":"reads","limit":1000,"per":"caller","tools":["list","look"],"window":"day"}],
"condense":{"after":"24h","kept":"high"},"labels":["bank","web"],
"rules":[{"id":"no-leak","deny":"note","when":{"session":"labels","has":"web"}},
 {"id":"not-by-strangers","deny":"act","when":{"session":"tainted","eq":true}}]}`
	YearsBundle = `{"helm":"policy/v1","layer":"P1","bundle":{"name":"desk","version":1},
"budgets":[{"cost":1,"id":"task","limit":40,"per":"session","refund":"error","tools":["act","look","web"],
 "window":"session"}],
"requires":[{"id":"looked","tools":["act"],"any":[{"receipt":"list"},{"receipt":"look","same":["/path"]}]},
 {"id":"rich","tools":["pay"],"all":[{"receipt":"list","that":{"fact":"n","ge":1}}]}],
"rules":[{"id":"often","deny":"look","when":{"session":"calls","of":"look","gt":4}},
 {"id":"stranger","deny":"note","unless":{"arg":"/to","from":["user","list#payee"]}},
 {"id":"all","allow":["act","list","look","note","pay","web"]}],
"tools":{
 "act":{"effect":"write","input":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"},
  "trusted":true},
 "list":{"effect":"read","input":{"type":"object"},"labels":["bank"],"trusted":true,
  "facts":{"n":{"count":""},"payee":"/*/to"},
  "output":{"type":"array","items":{"type":"object","required":["to"],"properties":{"to":{"type":"string"}}}}},
 "look":{"effect":"read","input":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"},
  "trusted":true},
 "note":{"effect":"write","input":{"properties":{"to":{"type":"string"}},"required":["to"],"type":"object"},
  "trusted":true},
 "pay":{"effect":"write","risk":"high","input":{"type":"object"},"trusted":true},
 "web":{"effect":"read","input":{"type":"object"},"labels":["web"]}}}`
)

// A wanderer makes a log at random, with condense entries in it.
type wanderer struct {
	*Maker
	*rand.Rand
	sessions []string
	began    int
	open     map[string][]*Called
	known    []contracts.Digest // that may be named
	ranges   int
}

// RandomLog makes a log of about n entries under YearsFloor and YearsBundle, with calls that
// overlap and calls that name others, in sessions that end and others that do not, and with
// condense entries whose ranges may overlap.
func RandomLog(t testing.TB, seed uint64, n int) *Maker {
	w := &wanderer{Maker: NewMaker(t), Rand: rand.New(rand.NewPCG(seed, 9)), open: map[string][]*Called{}}
	w.Use(YearsFloor, YearsBundle)
	for range 3 {
		w.begin()
	}
	for range n {
		w.step()
	}
	for w.ranges == 0 || w.IntN(2) == 0 {
		w.step()
		w.condense(2)
	}
	for range 8 {
		w.step()
	}
	w.Checkpoint()
	return w.Maker
}

func (w *wanderer) begin() {
	w.began++
	w.sessions = append(w.sessions, fmt.Sprint("chat-", w.began))
}

func (w *wanderer) step() {
	w.Now += contracts.Time(w.Int64N(int64(day) / 8))
	session := "main"
	if w.IntN(6) > 0 {
		session = w.sessions[w.IntN(len(w.sessions))]
	}
	if open := w.open[session]; len(open) > 0 && w.IntN(4) > 0 {
		i := w.IntN(len(open))
		w.open[session] = slices.Delete(slices.Clone(open), i, i+1)
		w.end(open[i])
		return
	}
	switch w.IntN(24) {
	case 0, 1:
		w.known = append(w.known, w.Say(session, fmt.Sprintf("pay DE%d, please", w.IntN(4))))
	case 2, 3, 4:
		i := w.IntN(len(w.sessions))
		if s := w.sessions[i]; len(w.open[s]) == 0 {
			w.Close(s)
			w.sessions = slices.Delete(w.sessions, i, i+1)
			w.begin()
		}
	case 5:
		w.condense(1)
	default:
		w.call(session)
	}
}

func (w *wanderer) call(session string) {
	tool := []string{"act", "act", "list", "list", "look", "look", "look", "note", "note", "pay", "web"}[w.IntN(11)]
	path := fmt.Sprintf(`{"path":"/%d"}`, w.IntN(3))
	args := map[string]string{"act": path, "look": path, "note": fmt.Sprintf(`{"to":"DE%d"}`, w.IntN(4))}[tool]
	if args == "" {
		args = `{}`
	}
	a := Ask{Session: session, Tool: tool, Args: args, Who: contracts.Caller{ID: []string{"ada", "bob"}[w.IntN(2)]},
		Drop: w.IntN(12) == 0}
	if session != "main" && w.IntN(8) == 0 {
		a.key = fmt.Sprint("key-", w.IntN(1<<40))
	}
	for range w.IntN(3) {
		if n := len(w.known); n > 0 {
			h := w.known[n-1-w.IntN(min(n, 12))]
			if !slices.Contains(a.Parents, h) && h != w.Proofs.Chain(session).Last() {
				a.Parents = append(a.Parents, h)
			}
		}
	}
	c := w.Call(a)
	w.known = append(w.known, c.Entry)
	if c.decision.Verdict == contracts.Allow {
		w.open[session] = append(w.open[session], c)
	}
}

func (w *wanderer) end(c *Called) {
	var h contracts.Digest
	switch w.IntN(10) {
	case 0:
		h = c.Failed(contracts.ReasonToolError)
	case 1:
		h = c.Failed(contracts.ReasonToolTimeout)
	default:
		output := `1`
		if c.decision.Tool == "list" {
			output = []string{`[]`, `[{"to":"DE1"}]`, `[{"to":"DE2"},{"to":"DE3"}]`}[w.IntN(3)]
		}
		h = c.End(receipts.Result{Reason: contracts.ReasonAllow, Output: []byte(output), Form: "jcs"}, w.IntN(3) > 0)
	}
	w.known = append(w.known, h)
}

// condense writes an entry over a random range, after some days.
func (w *wanderer) condense(days int64) {
	w.Now += contracts.Time(days) * day
	n := len(w.Model().Nodes)
	from := w.IntN(n)
	to := from + 1 + w.IntN(n-from)
	if w.IntN(2) == 0 {
		from, to = 0, n
	}
	set := w.Condense(from, to, to+w.IntN(n-to+1), w.Now-contracts.Time(w.Int64N(int64(day))))
	if set != nil {
		w.ranges++
	}
	w.known = slices.DeleteFunc(w.known, func(h crypto.Digest) bool { return slices.Contains(set, h) })
}
