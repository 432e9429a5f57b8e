package evidence

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
)

// TestBackTestPast: the past is that of the log, whatever the candidate would have let happen; what hangs on erased inputs is not judged.
func TestBackTestPast(t *testing.T) {
	race.Alone(t)
	seen := `"requires":[{"id":"seen","tools":["buy"],"all":[{"receipt":"look","same":{"/of":"/of"}}]}],`
	buy := strings.Replace(shopPolicy(2, seen, ""), `"required":["n"]`, `"required":["n","of"]`, 1)
	s := newShop(t, shopPolicy(1, "", ""))
	of := func(tool, of string) *called {
		args := fmt.Sprintf(`{"of":%q}`, of)
		if tool == "buy" {
			args = fmt.Sprintf(`{"n":1,"of":%q}`, of)
		}
		return s.allowed(ask{session: "s1", tool: tool, args: args, who: reader})
	}
	of("look", "a").ran(`1`)                          // 2, 3
	of("look", "b").failed(contracts.ReasonToolError) // 4, 5
	of("buy", "a").ran(`1`)                           // 6, 7
	of("buy", "b").ran(`1`)                           // 8, 9
	of("look", "c").ran(`1`)                          // 10, 11
	of("buy", "c").ran(`1`)                           // 12, 13
	of("buy", "a").ran(`1`)                           // 14, 15
	of("buy", "z").ran(`1`)                           // 16, 17
	s.tells("-8 MISSING_REQUIREMENT P1:shop:seen; -16 MISSING_REQUIREMENT P1:shop:seen", buy)
	s.tells("-2 POLICY_VIOLATION P1:shop:no; -4 POLICY_VIOLATION P1:shop:no; -8 MISSING_REQUIREMENT P1:shop:seen; "+
		"-10 POLICY_VIOLATION P1:shop:no; -16 MISSING_REQUIREMENT P1:shop:seen",
		strings.Replace(buy, `"rules":[`, `"rules":[{"deny":"look","id":"no","unless":{"caller":"roles","has":"owner"}},`, 1))
	s.tells("-12 POLICY_VIOLATION P1:shop:five; -14 POLICY_VIOLATION P1:shop:five; -16 POLICY_VIOLATION P1:shop:five",
		shopPolicy(2, "", `{"deny":"buy","id":"five","when":{"session":"calls","ge":5}},`))
	s.tells("-14 POLICY_VIOLATION P1:shop:three; -16 POLICY_VIOLATION P1:shop:three",
		shopPolicy(2, "", `{"deny":"buy","id":"three","when":{"session":"calls","of":"buy","ge":3}},`))

	own := strings.Replace(buy, `"rules":[`, `"rules":[{"deny":"buy","id":"twice","when":{"receipt":"buy","same":["/of"]}},`, 1)
	for _, x := range []struct {
		erased   int // what it was about may have been anything
		docs     string
		changed  string
		unjudged []uint64
	}{
		{10, buy, "8", []uint64{10, 12, 14, 16}},
		{10, strings.Replace(buy, `,"same":{"/of":"/of"}`, ``, 1), "", []uint64{10}}, // any receipt will do
		{2, buy, "", []uint64{2, 6, 8, 14, 16}},                                      // but what was bought at 12 was looked at later
		{12, own, "816", []uint64{12, 14}},                                           // and what was looked at is known
	} {
		m := takeApart(t, s.pack())
		delete(m.blobs, m.nodes[x.erased].d()["inputsHash"].(string))
		d, changes := backTested(t, m.build(), Options{Trust: s.trust}, compiled(t, x.docs))
		got := ""
		for _, c := range changes {
			got += fmt.Sprint(c.Index)
		}
		if got != x.changed || !slices.Equal(d.Unjudged, x.unjudged) || !slices.Equal(d.Report.Replay.Entries, []uint64{uint64(x.erased)}) {
			t.Errorf("%d is gone: %+v, %v", x.erased, d, changes)
		}
	}
}

// TestBackTestTrust: envelopes are judged by the trust state of the time, and those of an approval by the policy that it names.
func TestBackTestTrust(t *testing.T) {
	race.Alone(t)
	vouched := `"requires":[{"id":"vouched","tools":["buy"],"all":[{"attestation":{"type":"dual-control","bind":{"amount":"/n"},"max_age":"10m"}}]}],`
	s := newShop(t, shopPolicy(1, "", ""))
	with := func() contracts.Envelopes {
		return contracts.Envelopes{Attestations: []contracts.Envelope{s.attest(`{"amount":1}`)}}
	}
	s.allowed(ask{session: "s1", tool: "buy", args: `{"n":1}`, who: reader, with: with()}).ran(`1`) // 2
	s.allowed(ask{session: "s1", tool: "buy", args: `{"n":2}`, who: reader, with: with()}).ran(`1`) // 4
	s.revoke(seedB)
	s.allowed(ask{session: "s1", tool: "buy", args: `{"n":1}`, who: reader, with: with()}).ran(`1`) // 7
	s.tells("-4 MISSING_REQUIREMENT P1:shop:vouched; -7 MISSING_REQUIREMENT P1:shop:vouched", shopPolicy(2, vouched, ""))

	bound := strings.Replace(vouched, `"bind":{"amount":"/n"},`, ``, 1)
	s = newShop(t, shopPolicy(1, "", ""))
	for _, args := range []string{`{"n":1}`, `{"n":1,"of":"x"}`} {
		hash := crypto.Sum([]byte(args))
		e, err := contracts.Attestation{Args: &hash, Time: s.now, Type: "dual-control", Claims: valuesOf(t, `{}`)}.Sign(testKey(t, seedB))
		s.must(err)
		s.allowed(ask{session: "s1", tool: "buy", args: `{"n":1}`, who: reader, with: contracts.Envelopes{Attestations: []contracts.Envelope{e}}}).
			ran(`1`) // 2, 4
	}
	s.tells("-4 MISSING_REQUIREMENT P1:shop:vouched", shopPolicy(2, bound, ""))
	s.tells("-2 MISSING_REQUIREMENT P1:shop:vouched", // the arguments are others now
		strings.Replace(shopPolicy(2, bound, ""), `"of":{"type":"string"}`, `"of":{"type":"string","default":"x"}`, 1))

	m := newMaker(t)
	grants(m)
	m.checkpoint()
	wide := edited(t, testPolicy(2), `{"deny":"fs.list","id":"no-strangers","unless":{"caller":"roles","has":"reader"}},`, ``,
		`,"when":{"caller":"roles","has":"reader"}}`, `}`)
	_, changes := backTested(t, m.pack(), Options{Trust: m.trust}, compiled(t, wide))
	if len(changes) != 0 { // whoever may what, a grant that does not hold gives nothing
		t.Errorf("%v", changes)
	}
	_, changes = backTested(t, m.pack(), Options{Trust: m.trust}, compiled(t, edited(t, testPolicy(2),
		`"unless":{"caller":"roles","has":"reader"}`, `"unless":{"caller":"roles","has":"owner"}`)))
	if len(changes) == 0 || changes[0].Now.Rule != "P1:files:no-strangers" {
		t.Errorf("%v", changes)
	}
}

// TestBackTestUsed: an approval may be for the candidate, and have been shown to another stack. It counts, unless it was used.
func TestBackTestUsed(t *testing.T) {
	race.Alone(t)
	asks := `"requires":[{"id":"asked","tools":["buy"],"all":[{"approval":{"roles":["lead"]}}]}],`
	first, second := shopPolicy(1, asks, ""), shopPolicy(2, asks, "")
	s := newShop(t, first)
	d := &desk{s.maker, "s1", reader}
	pending := func() contracts.ApprovalRequest {
		return *d.denied(contracts.ReasonApprovalRequired, d.ask("buy", `{"n":9}`)).why.Pending
	}
	free, used := pending(), pending() // 2, 3
	elsewhere := used
	elsewhere.Session = "s2"                                                                   // one nonce for two
	d.allowed(d.ask("buy", `{"n":9}`, d.approve(seedA, used)))                                 // 4
	s.use(second)                                                                              // 5
	d.denied(contracts.ReasonApprovalInvalid, d.ask("buy", `{"n":9}`, d.approve(seedA, free))) // 6, is for the first
	d.denied(contracts.ReasonApprovalInvalid, d.ask("buy", `{"n":9}`, d.approve(seedA, used))) // 7
	d.session = "s2"
	d.denied(contracts.ReasonApprovalInvalid, d.ask("buy", `{"n":9}`, d.approve(seedA, elsewhere))) // 8
	s.tells("+6 ALLOW", first)
	s.tells("?4 APPROVAL_INVALID P1:shop:asked", second)
	s.tells("?4 APPROVAL_INVALID P1:shop:asked", shopPolicy(3, asks, ""))

	m := takeApart(t, s.pack())
	delete(m.blobs, m.nodes[4].d()["inputsHash"].(string)) // its decision says which approvals counted, and nobody which requests they answered
	x, changes := backTested(t, m.build(), Options{Trust: s.trust}, compiled(t, first))
	if len(changes) != 0 || !slices.Equal(x.Unjudged, []uint64{4, 6, 8}) {
		t.Errorf("%+v, %v", x, changes)
	}
}

// TestBackTestDefaults: arguments are those that were kept, with the candidate's defaults. What is too long with them is no arguments.
func TestBackTestDefaults(t *testing.T) {
	race.Alone(t)
	s := newShop(t, shopPolicy(1, "", ""))
	s.buy(1).ran(`1`) // 2
	s.allowed(ask{session: "s1", tool: "buy", args: `{"n":1,"of":"b"}`, who: reader}).ran(`1`)
	s.allowed(ask{session: "s1", tool: "buy", args: `{"n":1,"of":"` + strings.Repeat("b", 1<<20-25) + `"}`, who: reader}).ran(`1`) // 6
	s.denied(contracts.ReasonArgsCanonicalization, ask{session: "s1", tool: "buy", args: `{"n":`, who: reader, raw: true})
	with := func(length int, rules string) string {
		return strings.Replace(shopPolicy(2, "", rules), `"n":{`, fmt.Sprintf(`"how":{"type":"string","default":%q},"n":{`, strings.Repeat("x", length)), 1)
	}
	s.tells("", with(1, ""))
	s.tells("-6 ERR_TOOL_ARGS_CANONICALIZATION_FAILED", with(2, ""))
	s.tells("-2 POLICY_VIOLATION P1:shop:how; -4 POLICY_VIOLATION P1:shop:how; -6 POLICY_VIOLATION P1:shop:how",
		with(1, `{"deny":"buy","id":"how","when":{"arg":"/how","eq":"x"}},`))

	s = newShop(t, with(1, ""))
	s.buy(1)                                              // 2
	s.tells("", with(20, ""))                             // what was filled in then stays
	s.tells("-2 SCHEMA_VIOLATION", shopPolicy(3, "", "")) // also where it is too much
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

// TestBackTestReads: where the past that a candidate asks for cannot be read, that is an error, and no other past.
func TestBackTestReads(t *testing.T) {
	race.Alone(t)
	s := newShop(t, shopPolicy(1, "", ""))
	s.allowed(ask{session: "s1", tool: "look", args: `{"of":"a"}`, who: reader}).ran(`1`)
	s.allowed(ask{session: "s1", tool: "buy", args: `{"n":1,"of":"a"}`, who: reader}).ran(`1`)
	s.checkpoint()
	pack := s.pack()
	candidate := compiled(t, strings.Replace(
		shopPolicy(2, `"requires":[{"id":"seen","tools":["buy"],"all":[{"receipt":"look","same":{"/of":"/of"}}]}],`, ""),
		`"required":["n"]`, `"required":["n","of"]`, 1))
	failed := 0
	for n := int64(1); ; n++ {
		r := &hiccup{ReaderAt: bytes.NewReader(pack)}
		r.at.Store(n)
		d, err := BackTest(t.Context(), r, int64(len(pack)), Options{Trust: s.trust}, candidate, untoldTo(t))
		if err == nil && d.Same != 2 {
			t.Errorf("read %d fails: %+v", n, d)
		}
		if err != nil {
			failed++
		}
		if r.reads.Load() < n {
			break
		}
	}
	if failed < 5 {
		t.Errorf("%d reads failed", failed)
	}
}
