package policy

import (
	"cmp"
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/table"
)

//go:embed testdata/layers_floor.yaml
var floorText string

//go:embed testdata/layers_task.yaml
var taskText string

func layersOf(floor, task string) (*guardian.Policy, error) {
	var docs []contracts.Document
	for _, f := range [][2]string{{"task.yaml", task}, {"floor.yaml", floor}, {"files.yaml", files}} {
		doc, err := Parse(f[0], []byte(f[1]))
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	return guardian.Compile(docs...)
}

func TestLoadLayers(t *testing.T) {
	t.Parallel()
	one, two, three := write(t, "task.yaml", taskText), write(t, "floor.yaml", floorText), write(t, "files.yaml", files)
	p, err := Load(one, two, three)
	require.NoError(t, err)
	if again, err := Load(three, one, two); err != nil || again.Hash() != p.Hash() {
		t.Errorf("the order of files changes the policy: %v", err)
	}
	if limits, _ := p.Limits("fs.read"); limits.Timeout != 5*time.Second || limits.Args != 64<<10 {
		t.Errorf("limits %+v", limits)
	}
	for _, c := range []struct {
		path, session string
		at            contracts.Time
		reason        contracts.ReasonCode
		rule          string
	}{
		{"/home/ann/a", "chat-1", workday, contracts.ReasonAllow, "P1:files:home"},
		{"/home/bob/a", "chat-2", workday, contracts.ReasonAllow, "P1:files:home"},
		{"/home/bob/a", "chat-1", workday, contracts.ReasonPolicyViolation, "P2:task:mine"},
		{"/home/ann/.ssh/id", "chat-1", workday, contracts.ReasonPolicyViolation, "P2:task:keys"},
		{"/etc/passwd", "chat-1", workday, contracts.ReasonNoPolicyDefined, ""},
		{"/home/ann/a", "chat-1", workday.Add(10 * time.Hour), contracts.ReasonCeilingViolation, "P0:floor:nights"},
	} {
		r := judged(t, p, "fs.read", `{"path":"`+c.path+`"}`,
			func(in *contracts.Inputs) { in.Session, in.Time = c.session, c.at })
		if r.Reason != c.reason || r.Rule != c.rule {
			t.Errorf("%s in %s: %v by %q", c.path, c.session, r.Reason, r.Rule)
		}
	}
}

// workday is a Wednesday at noon.
var workday = contracts.TimeOf(time.Date(2026, 7, 15, 12, 0, 0, 0, time.UTC))

func judged(t *testing.T, p *guardian.Policy, tool, args string,
	change func(*contracts.Inputs)) contracts.DecisionRecord {
	t.Helper()
	return judgedAfter(t, p, had{}, tool, args, change)
}

func judgedAfter(t *testing.T, p *guardian.Policy, log past.Past, tool, args string,
	change func(*contracts.Inputs)) contracts.DecisionRecord {
	t.Helper()
	var tree crypto.Tree
	canonical, err := tree.ParseArgs(nil, []byte(args))
	require.NoError(t, err)
	in := contracts.Inputs{Args: tree.Root(), ArgsHash: crypto.Sum(canonical),
		Caller: contracts.Caller{ID: "ann", Roles: []string{"clerk"}}, Drivers: 1, Session: "main", Time: workday,
		Tool: tool}
	if change != nil {
		change(&in)
	}
	r, _, _ := p.Decide(&in, nil, log)
	return r
}

// A fault in a floor or a task is reported with file, line, column and remedy.
func TestLayerPlaces(t *testing.T) {
	t.Parallel()
	if _, err := layersOf(floorText, taskText); err != nil {
		t.Fatal(err) // or the refusals below would prove nothing
	}
	for _, c := range table.Read[struct{ Right, Wrong, Want string }](t, "layer_places", 30) {
		require.Equal(t, 1, strings.Count(floorText, c.Right)+strings.Count(taskText, c.Right),
			"%q is not once in the documents", c.Right)
		p, err := layersOf(strings.Replace(floorText, c.Right, c.Wrong, 1),
			strings.Replace(taskText, c.Right, c.Wrong, 1))
		if p != nil || err == nil || err.Error() != c.Want {
			t.Errorf("%v\n\twant %s", err, c.Want)
		}
	}
}

// The example documents of the language are a stack, and judge.
func TestSpecificationStack(t *testing.T) {
	t.Parallel()
	var docs []contracts.Document
	for _, name := range specification {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		docs = append(docs, mustParse(t, name, string(text)))
	}
	p, err := guardian.Compile(docs...)
	require.NoError(t, err)
	in := func(session string) func(*contracts.Inputs) {
		return func(in *contracts.Inputs) { in.Session, in.Caller.Tenant = session, "acme" }
	}
	looked := had{"list_payments": workday.Add(-30 * time.Minute)}
	for _, c := range table.Read[struct{ Args, Session, Said, Rule string }](t, "specification_stack", 12) {
		past := said{looked, map[string]string{}, nil}
		for _, word := range strings.Fields(c.Said) {
			if source, value, isValue := strings.Cut(word, "="); isValue {
				past.values[source] = value
			} else if word != "-" {
				past.labels = append(past.labels, word)
			}
		}
		r := judgedAfter(t, p, past, "send_money", c.Args, in(c.Session))
		assert.Equal(t, c.Rule, r.Rule, "%s in %s: %v by", c.Args, c.Session, r.Reason)
	}
	paid := `{"amount":49.5,"to":"GB29NWBK60161331926819"}`
	for name, past := range map[string]had{"never": nil,
		"long ago": {"list_payments": workday.Add(-30*time.Minute - time.Millisecond)},
		"another":  {"send_money": workday}} {
		r := judgedAfter(t, p, said{past, nil, nil}, "send_money", paid, in("chat-4711"))
		if r.Reason != contracts.ReasonMissingRequirement || r.Rule != "P1:bank:looked-first" {
			t.Errorf("looked %s: %v by %q", name, r.Reason, r.Rule)
		}
	}
}

// said is a past with labels, in which each source said one value.
type said struct {
	had
	values map[string]string
	labels []string
}

func (s said) Marks() (bool, []string, error) { return len(s.labels) > 0, s.labels, nil }

func (s said) Source(x past.Source) (past.Supply, error) {
	return past.Supply{Values: one(s.values[cmp.Or(x.Tool, "user")])}, nil
}

type one string

func (v one) Has(x crypto.Value) bool { return x.Text() == string(v) }

// had is a past in which each of some tools was executed once, and nothing was spent.
type had map[string]contracts.Time

func (had) Spent(contracts.Charge) uint64 { return 0 }

func (h had) Calls(tool string) uint64 { return uint64(len(h)) }

func (h had) Receipt(tool string, _ crypto.Value) (contracts.PriorReceipt, error) {
	at, ok := h[tool]
	if !ok {
		return contracts.PriorReceipt{}, nil
	}
	return contracts.PriorReceipt{Entry: &contracts.Digest{1}, Time: at}, nil
}

var errUntold = errors.New("not kept")

func (had) Facts(*contracts.PriorReceipt) (crypto.Value, error) { return crypto.Value{}, errUntold }

func (had) Source(past.Source) (past.Supply, error) { return past.Supply{}, errUntold }

func (had) Marks() (bool, []string, error) { return false, nil, errUntold }

func (had) Used(contracts.Digest, *contracts.ApprovalRequest) bool { return false }
