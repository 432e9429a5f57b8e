package guardian

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
)

// A shapeGenerator makes stacks of tools that are alike, and of such as are nearly so.
type shapeGenerator struct{ generator }

func (g shapeGenerator) absent() string {
	return pick(g.generator, `,"absent":true}`, `,"absent":false}`)
}

func (g shapeGenerator) test(depth int) string {
	if depth < 2 && g.r.IntN(5) == 0 {
		a, b := g.test(depth+1), g.test(depth+1)
		return pick(g.generator, `{"not":`+a+`}`, `{"any":[`+a+`,`+b+`]}`, `{"all":[`+a+`,`+b+`]}`)
	}
	return pick(g.generator, `{"caller":"roles","has":"clerk"}`, `{"session":"calls","lt":5}`,
		`{"time":"utc","in":["Wed 11:00-13:00"]}`, `{"receipt":"t0"}`, `{"caller":"id","eq":"ann"`+g.absent(),
		`{"arg":"/p","eq":"/s/d/x"`+g.absent(), `{"arg":"/q","ge":3`+g.absent(),
		`{"some":"/z","that":{"eq":"x"}`+g.absent(), `{"count":"/z","gt":1`+g.absent(),
		`{"arg":"/p","eq":{"caller":"id"}`+g.absent())
}

func (g shapeGenerator) when() string {
	return `"` + pick(g.generator, "when", "unless") + `":` + g.test(0)
}

// clauses is one of everything that a document says of tools.
func (g shapeGenerator) clauses(tools string) string {
	attestation := `{"attestation":{"type":"seen","max_age":"1h"}}`
	return fmt.Sprintf(`"requires":[{"id":"q","tools":%s,%s,"%s":[{"approval":{"roles":["owner"]}},%s]}],"budgets":[{"id":"b","tools":%s,"limit":%d,"per":"tool","window":"day","cost":1,%s}],
		"rules":[{"id":"r","deny":%s,%s},{"id":"s","deny":%s,%s}`, tools, g.when(), pick(g.generator, "any", "all"), attestation, tools, g.r.IntN(2), g.when(), tools, g.when(), tools, g.when())
}

// A kind is one of a few inputs, and of a few scopes.
type kind struct{ input, scope string }

func (g shapeGenerator) kind() kind {
	const q, z = `"q":{"type":"integer"}`, `"z":{"type":"array","items":{"type":"string"}`
	return kind{pick(g.generator, `"p":{"type":"string"},`+q+`,`+z+`}`,
		`"a":{"type":"string"},"p":{"type":"string"},`+q+`,`+z+`}`,
		`"p":{"type":"string","default":"/s/d"},`+q+`,`+z+`,"default":["x"]}`),
		pick(g.generator, ``, `,"scope":[{"arg":"/p","within":["/s"],"absent":true}]`,
			`,"scope":[{"arg":"/p","within":["/s/d"],"absent":true},{"arg":"/z/*","in":["x","y"],"absent":true}]`)}
}

// bundleOf is a bundle of tools of these kinds, none of which, if they are told apart, is as
// another.
func bundleOf(kinds []kind, apart bool, clauses string) string {
	var tools, names []string
	for i, k := range kinds {
		title := ""
		if names = append(names, fmt.Sprintf(`"t%d"`, i)); apart {
			title = fmt.Sprintf(`"title":"%d",`, i)
		}
		tools = append(tools, fmt.Sprintf(`"t%d":{"effect":%q,"input":{%s"type":"object","properties":{%s}}%s}`, i,
			[]string{"read", "write"}[i%2], title, k.input, k.scope))
	}
	return `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},"tools":{` + strings.Join(tools,
		",") + `},` + clauses + `,{"id":"all","allow":[` + strings.Join(names, ",") + `]}]}`
}

// What tools of one shape have together is right for each: a stack whose tools share what they can
// judges as one in which none is as another.
func TestShapesShared(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	g, trust := shapeGenerator{generator{rand.New(rand.NewPCG(81, 82))}}, people(t)
	seen := map[contracts.ReasonCode]int{}
	for range 150 {
		var kinds []kind
		for range 6 {
			kinds = append(kinds, g.kind())
		}
		tools := func() string {
			return pick(g.generator, `"*"`, `["t0","t1","t4"]`, `{"effects":["read"]}`, `["t2","t3"]`)
		}
		own, upper := g.clauses(pick(g.generator, `"*"`, `["t1","t2","t3"]`)),
			[]string{floor("f", `,`+g.clauses(tools())+`]`),
				overlay("o", `,`+g.clauses(tools())+`],"only":["t0","t1","t2","t3","t4"]`)}
		one, other := compiled(t, append(upper, bundleOf(kinds, false, own))),
			compiled(t, append(upper, bundleOf(kinds, true, own)))
		require.Equal(t, other == nil, one == nil, "only one of them loads")
		for range 20 {
			if one == nil {
				break
			}
			tool := fmt.Sprint("t", g.r.IntN(6))
			in := inChat(t, tool, pick(g.generator, `{}`, `{"p":"/s/d/x","q":2,"z":["x"]}`, `{"p":"ann","q":5}`,
				`{"p":"/s/y","z":["x","y"]}`, `{"q":3,"z":[]}`))
			if b, ok := one.AppendDefaults(nil, tool, in.Args); ok {
				in = inChat(t, tool, string(b))
			}
			in.Caller.ID, in.Caller.Roles = pick(g.generator, "ann", ""), []string{pick(g.generator, "clerk", "guest")}
			if g.r.IntN(2) == 0 {
				in.Envelopes.Attestations = []contracts.Envelope{attested(t, "notary",
					contracts.Attestation{Time: noon, Type: "seen"})}
			}
			again := in
			a, why := judgeBy(one, &in, trust, newTold())
			b, whyAgain := judgeBy(other, &again, trust, newTold())
			seen[a.Reason]++
			// the requests are of the declarations, too
			a.PolicyHash, a.Pending, why.Pending, b.Pending, whyAgain.Pending = b.PolicyHash, nil, nil, nil, nil
			require.True(t, string(a.Append(nil)) == string(b.Append(nil)) && why == whyAgain &&
				string(in.Append(nil)) == string(again.Append(nil)), "%s: %s (%s)\nand apart %s (%s)",
				in.Args.Append(nil), a.Append(nil), why, b.Append(nil), whyAgain)
		}
	}
	atLeast(t, seen, 5, []contracts.ReasonCode{contracts.ReasonAllow, contracts.ReasonApprovalRequired,
		contracts.ReasonBudgetExceeded, contracts.ReasonCeilingViolation, contracts.ReasonDestinationNotAllowed,
		contracts.ReasonMissingRequirement, contracts.ReasonPolicyViolation})
}
