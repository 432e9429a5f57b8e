package crypto

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/internal/table"
)

// TestNumbers lists tokens and their canonical form, or "" if they are refused.
func TestNumbers(t *testing.T) {
	t.Parallel()
	zeros := func(n int) string { return strings.Repeat("0", n) }
	type row struct{ Token, Want string }
	for _, test := range append(table.Read[row](t, "numbers", 99), []row{
		{"0." + zeros(1000), "0"},
		{"1." + zeros(1000), "1"},
		{"17976931348623157" + zeros(292), "1.7976931348623157e+308"},
		// the next two are more than strconv.ParseFloat reads
		{"0." + zeros(200000) + "1e200001", "1"},
		{"1" + zeros(200000) + "e-200000", "1"},
		{"0." + zeros(400) + "1", ""},
		{"1" + zeros(400), ""},
		{"1" + zeros(1000) + "1", ""},
		{"1." + zeros(1000) + "1", ""},
		{"0." + zeros(306) + "1", "1e-307"},
	}...) {
		if test.Want != "" {
			mustBe(t, test.Token, test.Want, otherLimits)
			mustBe(t, "[ "+test.Token+",0]", "["+test.Want+",0]", otherLimits)
			mustBe(t, `{"a":`+test.Token+`}`, `{"a":`+test.Want+`}`, argsLimits)
			continue
		}
		var tree Tree
		var syntax *SyntaxError
		if err := tree.Parse([]byte("["+test.Token+"]"), otherLimits); !errors.As(err, &syntax) || syntax.Offset != 1 ||
			!strings.Contains(syntax.What, "number") {
			t.Errorf("%.50s: %v, is %s", test.Token, err, tree.Root().Append(nil))
		}
	}
}

// TestNumberValues reads numbers back.
func TestNumberValues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		token   string
		float   float64
		integer uint64
		ok      bool
	}{
		{"0", 0, 0, true}, {"-0", 0, 0, true}, {"1", 1, 1, true}, {"1.0", 1, 1, true}, {"1e2", 100, 100, true},
		{"-1", -1, 0, false}, {"1.5", 1.5, 0, false}, {"9007199254740991", MaxInt, MaxInt, true},
		{"9007199254740992", 1 << 53, 0, false}, {"9999999999999998", 9999999999999998, 0, false},
		{"1e21", 1e21, 0, false}, {"1e20", 1e20, 0, false}, {"5e-324", 5e-324, 0, false},
		{"-1.7976931348623157e308", -math.MaxFloat64, 0, false},
		{"1e-7", 1e-7, 0, false}, {"-9007199254740991", -MaxInt, 0, false},
	} {
		var tree Tree
		require.NoError(t, tree.Parse([]byte(test.token), otherLimits))
		n, ok := tree.Root().Uint()
		f := tree.Root().Float()
		assert.True(t, f == test.float && n == test.integer && ok == test.ok, "%s is %v and %d, %v", test.token, f, n,
			ok)
	}
}

// TestAppendFloat has the vectors of RFC 8785, appendix B.
func TestAppendFloat(t *testing.T) {
	t.Parallel()
	for digits, want := range table.Map[string, string](t, "append_float", 24) {
		bits, err := strconv.ParseUint(digits, 16, 64)
		require.NoError(t, err)

		if got := string(AppendFloat([]byte("x"), math.Float64frombits(bits))); got != "x"+want {
			t.Errorf("%016x is %s, want %s", bits, got, want)
		}
		mustBe(t, want, want, otherLimits)
	}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		var tree Tree
		assert.Error(t, tree.Parse(AppendFloat(nil, f), otherLimits), "%v became JSON", f)
	}
}

// TestRandomDoubles compares the writer with encoding/json, which has the same rule, and reads each
// double back.
func TestRandomDoubles(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	var tree Tree
	for range 50000 {
		f := math.Float64frombits(r.Uint64())
		if r.IntN(3) == 0 {
			f = float64(r.Int64N(1<<56)) * math.Pow10(r.IntN(40)-20) // near the change of notation
		}
		want, err := json.Marshal(f)
		if err != nil || f == 0 {
			continue
		}
		got := AppendFloat(nil, f)
		require.Equal(t, string(want), string(got), "%s, want %s", got, want)
		if err := tree.Parse(got, otherLimits); err != nil || tree.Root().Float() != f ||
			string(tree.Root().Raw()) != string(want) {
			t.Fatalf("%s is read as %v, %v", got, tree.Root().Float(), err)
		}
	}
}

// preserved is the rule of docs/FORMATS.md section 1 by its definition, in exact arithmetic.
func preserved(token string) bool {
	f, err := strconv.ParseFloat(token, 64)
	if err != nil {
		return false
	}
	exact, ok := new(big.Rat).SetString(token)
	again, ok2 := new(big.Rat).SetString(string(AppendFloat(nil, f)))
	return ok && ok2 && exact.Cmp(again) == 0
}

// TestNumberRule compares the reader with the definition on random tokens near the edges of the
// rule.
func TestNumberRule(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	r := rand.New(rand.NewPCG(7, 8))
	var accepted, refused int
	for range 50000 {
		digits := strconv.FormatUint(r.Uint64()|1<<63, 10)[:1+r.IntN(19)]
		token := strings.TrimLeft(digits, "0") + strings.Repeat("0", r.IntN(2)*r.IntN(8))
		if token == "" {
			token = "0"
		}
		if at := r.IntN(len(token) + 1); at > 0 && at < len(token) {
			token = token[:at] + "." + token[at:]
		} else if at == 0 {
			token = "0." + strings.Repeat("0", r.IntN(2)*r.IntN(9)) + token
		}
		if r.IntN(2) == 0 {
			token += "e" + strconv.Itoa(r.IntN(650)-330)
		}
		if r.IntN(4) == 0 {
			token = "-" + token
		}
		var tree Tree
		err := tree.Parse([]byte(token), otherLimits)
		require.Equal(t, preserved(token), err == nil, "%s: %v", token, err)
		if err == nil {
			accepted++
		} else {
			refused++
		}
	}
	assert.True(t, accepted >= 5000 && refused >= 5000, "%d accepted, %d refused", accepted, refused)
}
