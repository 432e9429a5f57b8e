package condense_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/condense"
)

func terms(documents ...string) *condense.Terms {
	var list []condense.Document
	for _, d := range documents {
		list = append(list, condense.Document{Layer: d[:2], Canonical: []byte(d[3:])})
	}
	return condense.ReadTerms(list)
}

const (
	bundle = `P1 {"tools":{"read":{"effect":"read"},"write":{"effect":"write"},"wipe":{"effect":"destructive"}}}`
	dayOld = `P0 {"condense":{"after":"24h","kept":"high"}}`
)

// TestTermsRisk: what is of the least risk that is kept, or above it, may not go.
func TestTermsRisk(t *testing.T) {
	t.Parallel()
	medium := `P0 {"condense":{"after":"24h","kept":"medium"}}`
	for name, test := range map[string]struct {
		documents []string
		goes      []string // of read, write, wipe, odd
	}{
		"high is kept":           {[]string{dayOld, bundle}, []string{"read", "write"}},
		"medium is kept":         {[]string{medium, bundle}, []string{"read"}},
		"the least of two":       {[]string{medium, dayOld, bundle}, []string{"read"}},
		"the other order":        {[]string{dayOld, medium, bundle}, []string{"read"}},
		"no floor":               {[]string{bundle}, nil},
		"a floor without":        {[]string{dayOld, `P0 {}`, bundle}, nil},
		"an overlay is no floor": {[]string{`P2 {"condense":{"after":"24h","kept":"high"}}`, bundle}, nil},
		"an overlay adds none":   {[]string{dayOld, bundle, `P2 {"condense":{"after":"99d","kept":"medium"}}`}, []string{"read", "write"}},
		"no bundle":              {[]string{dayOld}, nil},
		"a risk that is said": {[]string{dayOld, `P1 {"tools":{"wipe":{"effect":"destructive","risk":"low"},` +
			`"read":{"effect":"read","risk":"high"}}}`}, []string{"wipe"}},
		"declared twice":         {[]string{dayOld, bundle, `P1 {"tools":{"read":{"risk":"high"},"odd":{"risk":"low"}}}`}, []string{"write", "odd"}},
		"and the other way":      {[]string{dayOld, `P1 {"tools":{"read":{"risk":"high"},"odd":{"risk":"low"}}}`, bundle}, []string{"write", "odd"}},
		"twice, one malformed":   {[]string{dayOld, bundle, `P1 {"tools":{"read":{"risk":"none"}}}`}, []string{"write"}},
		"a risk without effect":  {[]string{dayOld, `P1 {"tools":{"odd":{"risk":"low"}}}`}, []string{"odd"}},
		"a malformed risk":       {[]string{dayOld, `P1 {"tools":{"odd":{"effect":"read","risk":1},"read":{"effect":"read"}}}`}, []string{"read"}},
		"a risk of null":         {[]string{dayOld, `P1 {"tools":{"odd":{"effect":"read","risk":null}}}`}, nil},
		"an empty risk":          {[]string{dayOld, `P1 {"tools":{"odd":{"effect":"read","risk":""}}}`}, nil},
		"another effect":         {[]string{dayOld, `P1 {"tools":{"odd":{"effect":"Read"}}}`}, nil},
		"no effect":              {[]string{dayOld, `P1 {"tools":{"odd":{}}}`}, nil},
		"a tool that is no tool": {[]string{dayOld, `P1 {"tools":{"odd":["read"],"read":{"effect":"read"}}}`}, []string{"read"}},
		"an engine of its own":   {[]string{`P0 {"condense":{"after":"24h","kept":"high"},"helm":"policy/v9"}`, bundle}, []string{"read", "write"}},
		"tools that are none":    {[]string{dayOld, bundle, `P1 {"tools":[{}]}`}, nil},
		"no tools":               {[]string{dayOld, bundle, `P1 {}`}, nil},
		"no JSON":                {[]string{dayOld, bundle, `P1 {`}, nil},
		"no object":              {[]string{dayOld, bundle, `P2 []`}, nil},
		"a floor that is none":   {[]string{dayOld, bundle, `P0 null`}, nil},
		"one key twice":          {[]string{dayOld, bundle, `P2 {"a":1,"a":2}`}, nil},
	} {
		x := terms(test.documents...)
		for _, tool := range []string{"read", "write", "wipe", "odd", "none"} {
			assert.Equal(t, slices.Contains(test.goes, tool), x.Goes(tool, start, start+day), "%s: %s", name, tool)
		}
	}
	var none *condense.Terms
	assert.False(t, none.Goes("read", 0, start), "nil")
	assert.False(t, none.Declares("read"), "nil")
	assert.False(t, terms().Goes("read", 0, start), "no documents")
}

func TestTermsDeclares(t *testing.T) {
	t.Parallel()
	for _, x := range []*condense.Terms{terms(dayOld, bundle), terms(bundle), terms(`P0 {}`, bundle, `P1 {"tools":{"odd":1}}`)} {
		assert.True(t, x.Declares("wipe"), "high risk")
		assert.False(t, x.Declares("none"))
		assert.False(t, x.Declares(""))
	}
	assert.False(t, terms(`P0 {"tools":{"read":{}}}`, `P2 {"tools":{"read":{}}}`).Declares("read"), "not by a bundle")
	assert.True(t, terms(`P1 {"tools":{"odd":1}}`).Declares("odd"), "malformed")
}

// TestTermsAge: what is as old as the longest after goes, and nothing younger does.
func TestTermsAge(t *testing.T) {
	t.Parallel()
	for after, want := range map[string]contracts.Time{
		"24h": day, "1d": day, "1440m": day, "86400s": day, "86401s": day + 1000, "1441m": day + 60e3, "25h": day + hour,
		"30d": 30 * day, "2922000d": 2922000 * day,
	} {
		x := terms(`P0 {"condense":{"after":"`+after+`","kept":"high"}}`, dayOld, bundle)
		assert.True(t, x.Goes("read", start, start+want), after)
		assert.True(t, x.Goes("read", start, start+want+1), after)
		assert.False(t, x.Goes("read", start, start+want-1), after)
		assert.False(t, x.Goes("read", start+1, start+want), after)
		assert.False(t, x.Goes("none", start, start+want), after)
	}
	last := contracts.Time(253402300799999)
	for _, after := range []string{
		"23h", "1439m", "86399s", "1s", "0d", "00d", "01d", "", "d", "1", "24", "24H", "1w", "1d ", " 1d", "+1d", "-1d", "1.5d",
		"1e3d", "1_0d", "1dd", "1d1d", "٢d", "3257812d", "9223372036854775807d", "18446744073709551616d", "99999999999999999999999999s",
	} {
		x := terms(fmt.Sprintf(`P0 {"condense":{"after":%q,"kept":"high"}}`, after), bundle)
		assert.False(t, x.Goes("read", 0, last), after)
	}
	for _, malformed := range []string{
		`null`, `{}`, `[]`, `true`, `"24h"`, `{"after":"24h"}`, `{"kept":"high"}`, `{"after":"24h","kept":"low"}`,
		`{"after":"24h","kept":"High"}`, `{"after":"24h","kept":""}`, `{"after":"24h","kept":null}`, `{"after":24,"kept":"high"}`,
		`{"after":"24h","kept":["high"]}`, `{"after":"24h","kept":"high","x":1}`, `{"After":"24h","kept":"high"}`,
	} {
		x := terms(`P0 {"condense":`+malformed+`}`, dayOld, bundle)
		assert.False(t, x.Goes("read", 0, last), malformed)
	}
}
