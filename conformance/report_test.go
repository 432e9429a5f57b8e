package conformance

import (
	"bytes"
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A signed report is read as it was signed, without what went wrong.
func TestOpen(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(gates []Gate){
		"all passed": nil,
		"one failed": func(gates []Gate) {
			gates[4] = newGate(gateNames[4], []string{"a", "b", "c"}, []Failure{{"a", ""}, {"c", ""}})
		},
		"one not run": func(gates []Gate) { gates[2] = notRun(gateNames[2], `no "sandbox"`) },
		"none ran":    func(gates []Gate) { gates[0] = newGate(gateNames[0], nil, nil) },
	} {
		signed, err := passing(change).Sign(keyOf("signer"))
		require.NoError(t, err, name)
		opened, err := Open(signed.Envelope, publicOf("another"), publicOf("signer"))
		require.NoError(t, err, name)
		assert.Equal(t, signed, opened, name)
		again, err := opened.Sign(keyOf("signer"))
		require.NoError(t, err, name)
		assert.Equal(t, string(signed.Envelope), string(again.Envelope), name)
	}
}

// What went wrong is not in the signed form: it may have a value in it.
func TestOpenSaysNames(t *testing.T) {
	t.Parallel()
	r := passing(func(gates []Gate) {
		gates[4] = newGate(gateNames[4], []string{"a"}, []Failure{{"a", "a secret"}})
	})
	assert.Contains(t, r.String(), "gate 5: a: a secret")
	signed, err := r.Sign(keyOf("signer"))
	require.NoError(t, err)
	opened, err := Open(signed.Envelope, publicOf("signer"))
	require.NoError(t, err)
	assert.Equal(t, []Failure{{Case: "a"}}, opened.Gates[4].Failed)
}

// A report whose bytes were changed anywhere, or that another key signed, is refused.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	signed, err := passing(nil).Sign(keyOf("signer"))
	require.NoError(t, err)
	_, err = Open(signed.Envelope)
	require.ErrorContains(t, err, "no key was given")
	_, err = Open(signed.Envelope, publicOf("another"))
	require.ErrorContains(t, err, "none of those that were given")
	_, err = Open(signed.Envelope, nil)
	require.Error(t, err)
	for i := range signed.Envelope {
		bad := bytes.Clone(signed.Envelope)
		bad[i] ^= 1
		_, err = Open(bad, publicOf("signer"))
		require.Error(t, err, "byte %d", i)
		_, err = Open(signed.Envelope[:i], publicOf("signer"))
		require.Error(t, err, "cut at byte %d", i)
	}
}

// resign signs a statement that was edited. The edit is of the text, so that a writer who follows
// no rule is tried.
func resign(t *testing.T, from, to string) contracts.Envelope {
	t.Helper()
	r := passing(nil)
	key := crypto.KeyID(publicOf("signer"))
	text := string(r.statement(key))
	require.Contains(t, text, from)
	text = strings.Replace(text, from, to, 1)
	predicate := text[strings.Index(text, `"predicate":`)+len(`"predicate":`) : strings.Index(text, `,"predicateType"`)]
	bare := strings.Replace(predicate, `"key":"`+key.String()+`",`, "", 1)
	was := crypto.Sum(r.append(nil, nil)).String()
	text = strings.Replace(text, was, crypto.Sum([]byte(bare)).String(), 1)
	sig, err := crypto.Sign(keyOf("signer"), crypto.AppendPAE(nil, contracts.PayloadType, []byte(text)))
	require.NoError(t, err)
	return crypto.AppendEnvelope(nil, contracts.PayloadType, []byte(text), key, sig)
}

// A report that contradicts itself is refused, though its signature is good.
func TestOpenHoldsToGates(t *testing.T) {
	t.Parallel()
	_, err := Open(resign(t, `"result":"PASSED"`, `"result":"PASSED"`), publicOf("signer"))
	require.NoError(t, err, "or the refusals below would prove nothing")
	for name, x := range map[string]struct{ from, to, says string }{
		"a higher level":     {`"result":"PASSED"`, `"result":"NOT RUN","why":"a"`, "cases"},
		"a level of none":    {`"level":"FULL"`, `"level":"ALL"`, "level"},
		"a lower level":      {`"level":"FULL"`, `"level":"KERNEL"`, "level"},
		"no level":           {`"level":"FULL",`, ``, "level"},
		"no vectors":         {`"vectors":"01`, `"vectors":"00`, "level"},
		"a failed case":      {`"failed":[]`, `"failed":["case 0"]`, "result"},
		"an unknown case":    {`"failed":[]`, `"failed":["case"]`, "did not run"},
		"no case":            {`"cases":["case 0","another"]`, `"cases":[]`, "result"},
		"a case twice":       {`"case 0","another"`, `"another","another"`, "twice"},
		"a case of no name":  {`"case 0","another"`, `"","another"`, "empty"},
		"another result":     {`"PASSED"`, `"passed"`, "result"},
		"another gate":       {`"gate":"JCS`, `"gate":"jcs`, "gate"},
		"no name":            {`"name":"a kernel"`, `"name":""`, "implementation.name"},
		"an unknown field":   {`"time":`, `"tim":1,"time":`, "canonical"},
		"white space":        {`"time":`, `"time": `, "canonical"},
		"another time":       {`.000Z"`, `Z"`, "time"},
		"another type":       {`conformance/v1`, `conformance/v2`, "canonical"},
		"another subject":    {`"name":"conformance"`, `"name":"manifest"`, "canonical"},
		"another key inside": {`"key":"`, `"key":"0`, "canonical"},
	} {
		_, err = Open(resign(t, x.from, x.to), publicOf("signer"))
		require.ErrorContains(t, err, x.says, name)
	}
}

// What could not be opened is not signed.
func TestSignRefuses(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		change func(r *Report)
		says   string
	}{
		"another level": {func(r *Report) { r.Level = Format }, "level"},
		"no gates":      {func(r *Report) { r.Gates = nil }, "gates"},
		"no version":    {func(r *Report) { r.Implementation.Version = "" }, "implementation.version"},
		"no reason":     {func(r *Report) { r.Gates[2] = notRun(gateNames[2], ""); r.setLevel() }, "without a reason"},
		"failed, not in order": {func(r *Report) {
			r.Gates[2] = newGate(gateNames[2], []string{"a", "b"}, []Failure{{"b", ""}, {"a", ""}})
			r.setLevel()
		}, "order"},
	} {
		r := passing(nil)
		x.change(&r)
		_, err := r.Sign(keyOf("signer"))
		require.ErrorContains(t, err, x.says, name)
	}
	_, err := passing(nil).Sign(nil)
	require.Error(t, err)
}

// The table names every gate, and the level.
func TestReportString(t *testing.T) {
	t.Parallel()
	s := passing(func(gates []Gate) { gates[10] = notRun(gateNames[10], "no namespaces") }).String()
	for _, name := range gateNames {
		assert.Contains(t, s, name)
	}
	assert.Contains(t, s, "NOT RUN  0  no namespaces")
	assert.Contains(t, s, "level: KERNEL")
}
