package evidence

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/internal/race"
)

// TestBackTestPast: the past is that of the log, whatever the candidate would have let happen; what
// hangs on erased inputs is not judged.
func TestBackTestPast(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	seen := `"requires":[{"id":"seen","tools":["buy"],"all":[{"receipt":"look","same":{"/of":"/of"}}]}],`
	buy := strings.Replace(fixturePolicy(2, seen, ""), `"required":["n"]`, `"required":["n","of"]`, 1)
	s := newFixture(t, fixturePolicy(1, "", ""))
	of := func(tool, of string) *forge.Called {
		args := fmt.Sprintf(`{"of":%q}`, of)
		if tool == "buy" {
			args = fmt.Sprintf(`{"n":1,"of":%q}`, of)
		}
		return s.Allowed(forge.Ask{Session: "s1", Tool: tool, Args: args, Who: forge.Reader})
	}
	of("look", "a").Ran(`1`)                          // 2, 3
	of("look", "b").Failed(contracts.ReasonToolError) // 4, 5
	of("buy", "a").Ran(`1`)                           // 6, 7
	of("buy", "b").Ran(`1`)                           // 8, 9
	of("look", "c").Ran(`1`)                          // 10, 11
	of("buy", "c").Ran(`1`)                           // 12, 13
	of("buy", "a").Ran(`1`)                           // 14, 15
	of("buy", "z").Ran(`1`)                           // 16, 17
	s.tells("-8 MISSING_REQUIREMENT P1:shop:seen; -16 MISSING_REQUIREMENT P1:shop:seen", buy)
	s.tells("-2 POLICY_VIOLATION P1:shop:no; -4 POLICY_VIOLATION P1:shop:no; -8 MISSING_REQUIREMENT P1:shop:seen; "+
		"-10 POLICY_VIOLATION P1:shop:no; -16 MISSING_REQUIREMENT P1:shop:seen",
		strings.Replace(buy, `"rules":[`,
			`"rules":[{"deny":"look","id":"no","unless":{"caller":"roles","has":"owner"}},`, 1))
	s.tells("-12 POLICY_VIOLATION P1:shop:five; -14 POLICY_VIOLATION P1:shop:five; -16 POLICY_VIOLATION P1:shop:five",
		fixturePolicy(2, "", `{"deny":"buy","id":"five","when":{"session":"calls","ge":5}},`))
	s.tells("-14 POLICY_VIOLATION P1:shop:three; -16 POLICY_VIOLATION P1:shop:three",
		fixturePolicy(2, "", `{"deny":"buy","id":"three","when":{"session":"calls","of":"buy","ge":3}},`))

	own := strings.Replace(buy, `"rules":[`,
		`"rules":[{"deny":"buy","id":"twice","when":{"receipt":"buy","same":["/of"]}},`, 1)
	for _, x := range []struct {
		erased   int // what it was about may have been anything
		docs     string
		changed  string
		unjudged []uint64
	}{
		{10, buy, "8", []uint64{10, 12, 14, 16}},
		{10, strings.Replace(buy, `,"same":{"/of":"/of"}`, ``, 1), "", []uint64{10}}, // any receipt will do
		// but what was bought at 12 was looked at later
		{2, buy, "", []uint64{2, 6, 8, 14, 16}},
		{12, own, "816", []uint64{12, 14}}, // and what was looked at is known
	} {
		m := forge.TakeApart(t, s.Pack(Write))
		delete(m.Blobs, m.Nodes[x.erased].D()["inputsHash"].(string))
		d, changes := backTested(t, m.Build(), Options{Trust: s.Trust}, forge.Compiled(t, x.docs))
		got := ""
		for _, c := range changes {
			got += fmt.Sprint(c.Index)
		}
		assert.True(t, got == x.changed && slices.Equal(d.Unjudged, x.unjudged) && slices.Equal(d.Report.Replay.Entries,
			[]uint64{uint64(x.erased)}), "%d is gone: %+v, %v", x.erased, d, changes)
	}
}

// TestBackTestTrust: envelopes are judged by the trust state of the time, and those of an approval
// by the policy that it names.
func TestBackTestTrust(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	vouched := `"requires":[{"id":"vouched","tools":["buy"],"all":[{"attestation":{"type":"dual-control",` +
		`"bind":{"amount":"/n"},"max_age":"10m"}}]}],`
	s := newFixture(t, fixturePolicy(1, "", ""))
	with := func() contracts.Envelopes {
		return contracts.Envelopes{Attestations: []contracts.Envelope{s.Attest(`{"amount":1}`)}}
	}
	s.Allowed(forge.Ask{Session: "s1", Tool: "buy", Args: `{"n":1}`, Who: forge.Reader, With: with()}).Ran(`1`) // 2
	s.Allowed(forge.Ask{Session: "s1", Tool: "buy", Args: `{"n":2}`, Who: forge.Reader, With: with()}).Ran(`1`) // 4
	s.Revoke(forge.SeedB)
	s.Allowed(forge.Ask{Session: "s1", Tool: "buy", Args: `{"n":1}`, Who: forge.Reader, With: with()}).Ran(`1`) // 7
	s.tells("-4 MISSING_REQUIREMENT P1:shop:vouched; -7 MISSING_REQUIREMENT P1:shop:vouched", fixturePolicy(2, vouched, ""))

	bound := strings.Replace(vouched, `"bind":{"amount":"/n"},`, ``, 1)
	s = newFixture(t, fixturePolicy(1, "", ""))
	for _, args := range []string{`{"n":1}`, `{"n":1,"of":"x"}`} {
		hash := crypto.Sum([]byte(args))
		e, err := contracts.Attestation{Args: &hash, Time: s.Now, Type: "dual-control",
			Claims: forge.ValuesOf(t, `{}`)}.Sign(forge.Key(t, forge.SeedB))
		require.NoError(s, err)
		s.Allowed(forge.Ask{Session: "s1", Tool: "buy", Args: `{"n":1}`, Who: forge.Reader,
			With:    contracts.Envelopes{Attestations: []contracts.Envelope{e}}}).
			Ran(`1`) // 2, 4
	}
	s.tells("-4 MISSING_REQUIREMENT P1:shop:vouched", fixturePolicy(2, bound, ""))
	s.tells("-2 MISSING_REQUIREMENT P1:shop:vouched", // the arguments are others now
		strings.Replace(fixturePolicy(2, bound, ""), `"of":{"type":"string"}`, `"of":{"type":"string","default":"x"}`,
			1))

	m := forge.NewMaker(t)
	forge.Grants(m)
	m.Checkpoint()
	wide := edited(t, forge.FilesPolicy(2),
		`{"deny":"fs.list","id":"no-strangers","unless":{"caller":"roles","has":"reader"}},`, ``,
		`,"when":{"caller":"roles","has":"reader"}}`, `}`)
	_, changes := backTested(t, m.Pack(Write), Options{Trust: m.Trust}, forge.Compiled(t, wide))
	if len(changes) != 0 { // whatever the roles are, a grant that is not valid grants nothing
		t.Errorf("%v", changes)
	}
	_, changes = backTested(t, m.Pack(Write), Options{Trust: m.Trust}, forge.Compiled(t, edited(t, forge.FilesPolicy(2),
		`"unless":{"caller":"roles","has":"reader"}`, `"unless":{"caller":"roles","has":"owner"}`)))
	assert.True(t, len(changes) != 0 && changes[0].Now.Rule == "P1:files:no-strangers", "%v", changes)
}

// TestBackTestUsed: an approval may be for the candidate, and have been shown to another stack. It
// counts, unless it was used.
func TestBackTestUsed(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	asks := `"requires":[{"id":"asked","tools":["buy"],"all":[{"approval":{"roles":["lead"]}}]}],`
	first, second := fixturePolicy(1, asks, ""), fixturePolicy(2, asks, "")
	s := newFixture(t, first)
	d := &forge.Fixture{Maker: s.Maker, Session: "s1", Who: forge.Reader}
	pending := func() contracts.ApprovalRequest {
		return *d.Denied(contracts.ReasonApprovalRequired, d.Ask("buy", `{"n":9}`)).Why.Pending
	}
	free, used := pending(), pending() // 2, 3
	elsewhere := used
	// one nonce for two
	elsewhere.Session = "s2"
	d.Allowed(d.Ask("buy", `{"n":9}`, d.Approve(forge.SeedA, used))) // 4
	s.Use(second)                                                    // 5
	// 6, is for the first
	d.Denied(contracts.ReasonApprovalInvalid, d.Ask("buy", `{"n":9}`, d.Approve(forge.SeedA, free)))
	d.Denied(contracts.ReasonApprovalInvalid, d.Ask("buy", `{"n":9}`, d.Approve(forge.SeedA, used))) // 7
	d.Session = "s2"
	d.Denied(contracts.ReasonApprovalInvalid, d.Ask("buy", `{"n":9}`, d.Approve(forge.SeedA, elsewhere))) // 8
	s.tells("+6 ALLOW", first)
	s.tells("?4 APPROVAL_INVALID P1:shop:asked", second)
	s.tells("?4 APPROVAL_INVALID P1:shop:asked", fixturePolicy(3, asks, ""))

	m := forge.TakeApart(t, s.Pack(Write))
	// its decision says which approvals counted, and nobody which requests they answered
	delete(m.Blobs, m.Nodes[4].D()["inputsHash"].(string))
	x, changes := backTested(t, m.Build(), Options{Trust: s.Trust}, forge.Compiled(t, first))
	assert.True(t, len(changes) == 0 && slices.Equal(x.Unjudged, []uint64{4, 6, 8}), "%+v, %v", x, changes)
}

// TestBackTestDefaults: arguments are those that were kept, with the candidate's defaults. What is
// too long with them is no arguments.
func TestBackTestDefaults(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	s := newFixture(t, fixturePolicy(1, "", ""))
	s.buy(1).Ran(`1`) // 2
	s.Allowed(forge.Ask{Session: "s1", Tool: "buy", Args: `{"n":1,"of":"b"}`, Who: forge.Reader}).Ran(`1`)
	// 6
	s.Allowed(forge.Ask{Session: "s1", Tool: "buy", Args: `{"n":1,"of":"` + strings.Repeat("b", 1<<20-25) + `"}`,
		Who: forge.Reader}).Ran(`1`)
	s.Denied(contracts.ReasonArgsCanonicalization, forge.Ask{Session: "s1", Tool: "buy", Args: `{"n":`,
		Who: forge.Reader, Raw: true})
	with := func(length int, rules string) string {
		return strings.Replace(fixturePolicy(2, "", rules), `"n":{`,
			fmt.Sprintf(`"how":{"type":"string","default":%q},"n":{`, strings.Repeat("x", length)), 1)
	}
	s.tells("", with(1, ""))
	s.tells("-6 ERR_TOOL_ARGS_CANONICALIZATION_FAILED", with(2, ""))
	s.tells("-2 POLICY_VIOLATION P1:shop:how; -4 POLICY_VIOLATION P1:shop:how; -6 POLICY_VIOLATION P1:shop:how",
		with(1, `{"deny":"buy","id":"how","when":{"arg":"/how","eq":"x"}},`))

	s = newFixture(t, with(1, ""))
	s.buy(1)                                                 // 2
	s.tells("", with(20, ""))                                // what was filled in then stays
	s.tells("-2 SCHEMA_VIOLATION", fixturePolicy(3, "", "")) // also if it is too much
}

// A hiccup is a reader that fails once, at the read of that number.
type hiccup struct {
	io.ReaderAt
	reads, at atomic.Int64
}

func (f *hiccup) ReadAt(b []byte, at int64) (int, error) {
	if f.reads.Add(1) == f.at.Load() {
		return 0, errDisk
	}
	return f.ReaderAt.ReadAt(b, at)
}

// TestBackTestReads: if the past that a candidate asks for cannot be read, that is an error, and
// no other past.
func TestBackTestReads(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	s := newFixture(t, fixturePolicy(1, "", ""))
	s.Allowed(forge.Ask{Session: "s1", Tool: "look", Args: `{"of":"a"}`, Who: forge.Reader}).Ran(`1`)
	s.Allowed(forge.Ask{Session: "s1", Tool: "buy", Args: `{"n":1,"of":"a"}`, Who: forge.Reader}).Ran(`1`)
	s.Checkpoint()
	pack := s.Pack(Write)
	candidate := forge.Compiled(t, strings.Replace(
		fixturePolicy(2, `"requires":[{"id":"seen","tools":["buy"],"all":[{"receipt":"look","same":{"/of":"/of"}}]}],`, ""),
		`"required":["n"]`, `"required":["n","of"]`, 1))
	failed := 0
	for n := int64(1); ; n++ {
		r := &hiccup{ReaderAt: bytes.NewReader(pack)}
		r.at.Store(n)
		d, err := BackTest(t.Context(), r, int64(len(pack)), Options{Trust: s.Trust}, candidate, untoldTo(t))
		assert.False(t, err == nil && d.Same != 2, "read %d fails: %+v", n, d)
		if err != nil {
			failed++
		}
		if r.reads.Load() < n {
			break
		}
	}
	assert.True(t, failed >= 5, "%d reads failed", failed)
}
