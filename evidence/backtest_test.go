package evidence

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/race"
)

// edited is a document with other texts in the place of those that it holds once.
func edited(t testing.TB, doc string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if n := strings.Count(doc, pairs[i]); n != 1 {
			t.Fatalf("%q is there %d times", pairs[i], n)
		}
		doc = strings.Replace(doc, pairs[i], pairs[i+1], 1)
	}
	return doc
}

// brief is a change in a line: what sort it is, the entry, and what is said now.
func brief(c Change) string {
	sort := "~"
	switch {
	case c.Anew:
		sort = "?"
	case c.Now.Verdict != c.Then.Verdict && c.Now.Verdict == contracts.Deny:
		sort = "-"
	case c.Now.Verdict != c.Then.Verdict:
		sort = "+"
	}
	return strings.TrimSpace(fmt.Sprintf("%s%d %s %s", sort, c.Index, c.Now.Reason, c.Now.Rule))
}

const testFloor = `{"helm":"policy/v1","layer":"P0","name":"acme","version":1,%s}`

// TestBackTestTable has candidates of many kinds, and all that each changes. In the base log entry
// 27 is a write that was approved.
func TestBackTestTable(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	base, budget, fixture := forge.BaseLog(t), forge.BudgetLog(t), forge.FixtureLog(t).Maker
	files := forge.BasePolicy(5)
	rule := func(doc, text string) string { return edited(t, doc, `"rules":[`, `"rules":[`+text+`,`) }
	need := func(doc, text string) string { return edited(t, doc, `"requires":[`, `"requires":[`+text+`,`) }
	const anew = "?27 APPROVAL_INVALID P1:files:written"
	const paid = "?24 APPROVAL_INVALID P1:desk:told; ?33 APPROVAL_INVALID P1:desk:asked; ?36 APPROVAL_INVALID " +
		"P1:desk:told"
	for _, x := range []struct {
		name string
		log  *forge.Maker
		docs []string
		want string
	}{
		{"nothing but a version", base, []string{files, forge.MailPolicy}, "{anew}"},
		{"a bundle less", base, []string{files}, "{anew}"},
		{"a rule that denies", base,
			[]string{rule(files, `{"deny":"fs.list","id":"deep","when":{"arg":"/depth","ge":2,"absent":false}}`),
				forge.MailPolicy},
			"-17 POLICY_VIOLATION P1:files:deep; {anew}; -34 POLICY_VIOLATION P1:files:deep"},
		{"a rule less", base,
			[]string{edited(t, files,
				`{"deny":"fs.list","id":"no-strangers","unless":{"caller":"roles","has":"reader"}},`, ``),
				forge.MailPolicy},
			"~9 NO_POLICY_DEFINED; {anew}"},
		{"two rules for one", base, []string{edited(t, files, `"allow":["fs.list","fs.read","fs.stat"],"id":"readers"`,
			`"allow":"fs.list","id":"lists","when":{"caller":"roles","has":"reader"}},{"allow":["fs.read",`+
				`"fs.stat"],"id":"readers"`), forge.MailPolicy},
			"~16 ALLOW P1:files:lists; ~17 ALLOW P1:files:lists; {anew}; ~34 ALLOW P1:files:lists; ~42 ALLOW " +
				"P1:files:lists"},
		{"a tool less", base, []string{edited(t, files, `"fs.list","fs.read","fs.stat"]`, `"fs.list","fs.read"]`,
			`"fs.stat":{"effect":"read","input":{"type":"object"},"risk":"low"},`, ``), forge.MailPolicy},
			"{anew}; -32 DENY_TOOL_NOT_FOUND"},
		{"a tool more", base,
			[]string{edited(t, files, `"tools":{`,
				`"tools":{"fs.format":{"effect":"destructive","input":{"type":"object"}},`,
				`"allow":"fs.write"`, `"allow":["fs.format","fs.write"]`), forge.MailPolicy},
			"~23 NO_POLICY_DEFINED; {anew}"},
		{"a narrower schema", base,
			[]string{edited(t, files, `"depth":{"type":"integer"}`, `"depth":{"type":"integer","maximum":2}`),
				forge.MailPolicy},
			"{anew}; -34 SCHEMA_VIOLATION"},
		{"a narrower scope", base, []string{edited(t, files, `"within":["/srv"]}]`, `"within":["/srv/a","/srv/b"]}]`),
			forge.MailPolicy},
			"-12 DESTINATION_NOT_ALLOWED P1:files:scope; -14 DESTINATION_NOT_ALLOWED P1:files:scope; {anew}"},
		{"a wider scope", base, []string{edited(t, files, `"within":["/srv"]}]`, `"within":["/srv","/etc"]}]`),
			forge.MailPolicy},
			"+22 ALLOW P1:files:readers; {anew}"},
		{"a default", base,
			[]string{rule(edited(t, files, `"depth":{"type":"integer"}`, `"depth":{"type":"integer","default":9}`),
				`{"deny":"fs.list","id":"deep","when":{"arg":"/depth","eq":9}}`), forge.MailPolicy},
			"~9 POLICY_VIOLATION P1:files:deep; -16 POLICY_VIOLATION P1:files:deep; {anew}; -42 POLICY_VIOLATION " +
				"P1:files:deep"},
		{"a sandbox", base,
			[]string{edited(t, files, `"fs.stat":{"effect":"read",`, `"fs.stat":{"sandbox":"pure","effect":"read",`),
				forge.MailPolicy},
			"{anew}; -32 SANDBOX_VIOLATION"},
		{"no requirement", base, []string{forge.FilesPolicy(5), forge.MailPolicy},
			"+26 ALLOW P1:files:writers; +29 ALLOW P1:files:writers"},
		{"people for another tool", base,
			[]string{need(files, `{"id":"seen","tools":["fs.stat"],"all":[{"approval":{"roles":["lead"]}}]}`),
				forge.MailPolicy},
			"{anew}; -32 APPROVAL_REQUIRED P1:files:seen"},
		{"an attestation", base,
			[]string{need(files,
				`{"id":"vouched","tools":["fs.stat","fs.write"],"all":[{"attestation":{"type":"dual-control",`+
					`"max_age":"10m"}}]}`), forge.MailPolicy},
			"~4 MISSING_REQUIREMENT P1:files:vouched; ~26 MISSING_REQUIREMENT P1:files:vouched; {anew}; -32 " +
				"MISSING_REQUIREMENT P1:files:vouched"},
		{"what cannot be told", base,
			[]string{need(files, `{"id":"listed","tools":["fs.read"],"all":[{"receipt":"fs.list"}]}`), forge.MailPolicy},
			"-2 FAIL_CLOSED_ERROR; -5 MISSING_REQUIREMENT P1:files:listed; -6 FAIL_CLOSED_ERROR; -12 " +
				"FAIL_CLOSED_ERROR; -14 FAIL_CLOSED_ERROR; {anew}"},
		{"a floor of rules", base,
			[]string{fmt.Sprintf(testFloor,
				`"rules":[{"id":"outside","deny":{"egress":true}},{"id":"old","deny":"fs.stat"}]`), files,
				forge.MailPolicy},
			"~26 CEILING_VIOLATION P0:acme:outside; -27 CEILING_VIOLATION P0:acme:outside; " +
				"~29 CEILING_VIOLATION P0:acme:outside; -32 CEILING_VIOLATION P0:acme:old"},
		{"a floor of effects", base, []string{fmt.Sprintf(testFloor, `"profile":{"effects":["read"]}`), files,
			forge.MailPolicy},
			"~4 SIDE_EFFECT_NOT_PERMITTED; ~26 SIDE_EFFECT_NOT_PERMITTED; -27 SIDE_EFFECT_NOT_PERMITTED; ~29 " +
				"SIDE_EFFECT_NOT_PERMITTED"},
		{"a floor of risk", base, []string{fmt.Sprintf(testFloor, `"ceilings":{"risk":"medium"}`), files,
			forge.MailPolicy},
			"~26 CEILING_VIOLATION P0:acme:ceilings; -27 CEILING_VIOLATION P0:acme:ceilings; ~29 CEILING_VIOLATION " +
				"P0:acme:ceilings"},
		{"an overlay", base, []string{files, forge.MailPolicy,
			`{"helm":"policy/v1","layer":"P2","name":"task","for":{"session":"s2"},"only":["fs.list"]}`},
			"-5 POLICY_VIOLATION P2:task:only; {anew}"},
		{"an overlay for somebody", base, []string{files, forge.MailPolicy,
			`{"helm":"policy/v1","layer":"P2","name":"task","for":{"caller":"ada"},` +
				`"rules":[{"id":"one","deny":"fs.read","unless":{"arg":"/path","eq":"/srv/a"}}]}`},
			"-5 POLICY_VIOLATION P2:task:one; -6 POLICY_VIOLATION P2:task:one; -12 POLICY_VIOLATION P2:task:one; -14 " +
				"POLICY_VIOLATION P2:task:one; {anew}"},
		{"a receipt", fixture,
			[]string{need(forge.FixturePolicy, `{"id":"first","tools":["look"],"all":[{"receipt":"open"}]}`)},
			"-3 MISSING_REQUIREMENT P1:desk:first; -5 MISSING_REQUIREMENT P1:desk:first; {paid}"},
		{"a receipt with values", fixture,
			[]string{rule(forge.FixturePolicy, `{"deny":"look","id":"twice","when":{"receipt":"look","same":["/path"]}}`)},
			"-18 POLICY_VIOLATION P1:desk:twice; {paid}"},
		{"any receipt", fixture,
			[]string{edited(t, forge.FixturePolicy, `"same":["/path"],"max_age":"30m"`, `"max_age":"30m"`)},
			"+9 ALLOW P1:desk:all; {paid}"},
		{"fewer calls", fixture, []string{edited(t, forge.FixturePolicy, `"of":"look","gt":8`, `"of":"look","gt":1`)},
			"-7 POLICY_VIOLATION P1:desk:often; -20 POLICY_VIOLATION P1:desk:often; {paid}"},
		{"no attestation", fixture,
			[]string{edited(t, forge.FixturePolicy,
				`{"attestation":{"type":"dual-control","bind":{"amount":"/amount"},"max_age":"10m"}},`, ``)},
			"?24 APPROVAL_INVALID P1:desk:told; ?33 APPROVAL_INVALID P1:desk:asked; ~35 APPROVAL_REQUIRED " +
				"P1:desk:asked; ?36 APPROVAL_INVALID P1:desk:asked"},
		{"a lower limit", budget,
			[]string{edited(t, forge.BudgetPolicy, `"id":"reads","limit":3`, `"id":"reads","limit":2`)},
			"-5 BUDGET_EXCEEDED P1:files:reads; ~14 BUDGET_EXCEEDED P1:files:reads; " +
				"-15 BUDGET_EXCEEDED P1:files:reads"},
		{"a higher limit", budget,
			[]string{edited(t, forge.BudgetPolicy, `"id":"reads","limit":3`, `"id":"reads","limit":4`)},
			"+8 ALLOW P1:files:readers"},
		{"a budget more", budget,
			[]string{edited(t, forge.BudgetPolicy, `"budgets":[`,
				`"budgets":[{"cost":1,"id":"all","limit":2,"per":"all","tools":["fs.read"],"window":"total"},`)},
			"-5 BUDGET_EXCEEDED P1:files:all; ~8 BUDGET_EXCEEDED P1:files:all; -10 BUDGET_EXCEEDED P1:files:all; " +
				"-12 BUDGET_EXCEEDED P1:files:all; ~14 BUDGET_EXCEEDED P1:files:all; -15 BUDGET_EXCEEDED P1:files:all"},
		{"no budget", budget, []string{forge.FilesPolicy(9)},
			"-4 SCHEMA_VIOLATION; +8 ALLOW P1:files:readers; ~9 SCHEMA_VIOLATION"},
		{"another scale", budget, []string{edited(t, forge.BudgetPolicy, `"scale":1`, `"scale":2`)},
			"-4 BUDGET_EXCEEDED P1:files:lines; -5 BUDGET_EXCEEDED P1:files:lines; ~8 BUDGET_EXCEEDED " +
				"P1:files:lines; ~9 BUDGET_EXCEEDED P1:files:lines; " +
				"-10 BUDGET_EXCEEDED P1:files:lines; -12 BUDGET_EXCEEDED P1:files:lines; ~14 BUDGET_EXCEEDED " +
				"P1:files:lines; -15 BUDGET_EXCEEDED P1:files:lines"},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.log.Checkpoint()
			_, changes := backTested(t, x.log.Pack(Write), Options{Trust: x.log.Trust, Origin: forge.Origin},
				forge.Compiled(t, x.docs...))
			var lines []string
			for _, c := range changes {
				lines = append(lines, brief(c))
			}
			if got, want := strings.Join(lines, "; "), strings.NewReplacer("{anew}", anew, "{paid}",
				paid).Replace(x.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func untoldTo(t testing.TB) func(Change) error {
	return func(c Change) error {
		t.Errorf("told %s", c)
		return nil
	}
}

// backTested returns what a candidate would change. It compares the old verdicts with the log, and
// the numbers to each other.
func backTested(t testing.TB, pack []byte, o Options, candidate *guardian.Policy) (Differences, []Change) {
	t.Helper()
	var changes []Change
	d, err := BackTest(t.Context(), bytes.NewReader(pack), int64(len(pack)), o, candidate, func(c Change) error {
		changes = append(changes, c)
		return nil
	})
	require.NoError(t, err)
	r := d.Report
	require.True(t, r.Level == Logged && d.Judged+uint64(len(d.Unjudged))+r.Replay.KernelsOwn == r.Allows+r.Denials &&
		d.Judged == d.Same+d.Denied+d.Allowed+d.Anew+d.Otherwise, "%+v", d)
	log := forge.DecisionsIn(t, pack)
	var told Differences
	last := int64(-1)
	for _, c := range changes {
		x, ok := log[c.Index]
		require.True(t, ok && int64(c.Index) > last && c.ID == x.ID && c.Tool == x.Tool && c.Then == (Judged{x.Verdict,
			x.Reason, x.Condition, x.Rule}) && c.Now != c.Then, "%+v, of %+v, behind %d", c, x, last)
		last = int64(c.Index)
		switch {
		case c.Anew && c.Then.Verdict == contracts.Allow && c.Now.Verdict == contracts.Deny:
			told.Anew++
		case c.Then.Verdict == c.Now.Verdict:
			told.Otherwise++
		case c.Now.Verdict == contracts.Deny:
			told.Denied++
		default:
			told.Allowed++
		}
	}
	require.True(t, told.Denied == d.Denied && told.Allowed == d.Allowed && told.Anew == d.Anew &&
		told.Otherwise == d.Otherwise, "%+v are counted, %+v told", d, told)
	return d, changes
}
