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
)

// TestNumbers lists tokens and their canonical form, or "" if they are refused.
func TestNumbers(t *testing.T) {
	t.Parallel()
	zeros := func(n int) string { return strings.Repeat("0", n) }
	for _, test := range []struct{ token, want string }{
		{"0", "0"}, {"-0", "0"}, {"-0.0", "0"}, {"0e5", "0"}, {"-0E-999999999999999999999", "0"},
		{"0e999999999999999999999", "0"}, {"0.000", "0"}, {"0." + zeros(1000), "0"},
		{"1", "1"}, {"-1", "-1"}, {"10", "10"}, {"100", "100"}, {"1.0", "1"}, {"-1.50", "-1.5"}, {"10.0", "10"},
		{"100.00", "100"}, {"0.10", "0.1"}, {"1." + zeros(1000), "1"},
		{"0.1", "0.1"}, {"0.2", "0.2"}, {"0.3", "0.3"}, {"2.5", "2.5"}, {"1e2", "100"}, {"1E2", "100"}, {"1e+2", "100"},
		{"1e-2", "0.01"}, {"1e02", "100"}, {"100e-2", "1"}, {"-12.50e1", "-125"},
		{"1.5e3", "1500"}, {"6.022e23", "6.022e+23"}, {"1e20", "100000000000000000000"}, {"1e21", "1e+21"},
		{"100000000000000000000", "100000000000000000000"}, {"1000000000000000000000", "1e+21"},
		{"123456789012345", "123456789012345"}, {"999999999999999", "999999999999999"},
		{"1234567890123456", "1234567890123456"}, {"9999999999999998", "9999999999999998"}, {"9999999999999999", ""},
		{"9007199254740991", "9007199254740991"}, {"9007199254740992", "9007199254740992"}, {"9007199254740993", ""},
		{"9007199254740994", "9007199254740994"}, {"-9007199254740993", ""}, {"-9007199254740992", "-9007199254740992"},
		{"12345678901234567890", ""}, {"12345678901234567000", "12345678901234567000"},
		{"295147905179352830000", "295147905179352830000"}, {"295147905179352825856", ""}, {"18446744073709551615", ""},
		{"18446744073709552000", "18446744073709552000"},
		{"1e22", "1e+22"}, {"1e23", "1e+23"}, {"9.999999999999999e22", ""},
		{"9.999999999999997e22", "9.999999999999997e+22"}, {"99999999999999990000000", ""}, {"1.0e23", "1e+23"},
		{"0.10000000000000001", ""}, {"0.1000000000000000055511151231257827", ""},
		{"0.30000000000000004", "0.30000000000000004"}, {"0.3000000000000000444", ""},
		{"3.141592653589793", "3.141592653589793"}, {"3.14159265358979323846", ""},
		{"0.000001", "0.000001"}, {"0.0000010", "0.000001"}, {"0.0000001", "1e-7"}, {"1e-6", "0.000001"},
		{"1e-7", "1e-7"}, {"-1e-7", "-1e-7"}, {"0.00000123", "0.00000123"}, {"0.000000123", "1.23e-7"},
		{"123e-9", "1.23e-7"},
		{"0.123456789012345", "0.123456789012345"}, {"0.1234567890123456", "0.1234567890123456"},
		{"0.00000123456789012345", "0.00000123456789012345"}, {"123456789.012345678", ""},
		{"123456789.0123456", "123456789.0123456"},
		{"5e-324", "5e-324"}, {"4.9e-324", ""}, {"4.9406564584124654e-324", ""}, {"3e-324", ""}, {"2e-324", ""},
		{"1e-323", "1e-323"}, {"2.2250738585072014e-308", "2.2250738585072014e-308"},
		{"2.225073858507201e-308", "2.225073858507201e-308"},
		{"1.7976931348623157e308", "1.7976931348623157e+308"}, {"-1.7976931348623157e308", "-1.7976931348623157e+308"},
		{"1.7976931348623158e308", ""}, {"1.7976931348623159e308", ""}, {"1e308", "1e+308"}, {"1e309", ""},
		{"1e400", ""}, {"-1e400", ""},
		{"1e-400", ""}, {"1e-99999999999999999999", ""}, {"1e99999999999999999999", ""},
		{"17976931348623157" + zeros(292), "1.7976931348623157e+308"},
		// the first two are more than strconv.ParseFloat reads
		{"0." + zeros(200000) + "1e200001", "1"}, {"1" + zeros(200000) + "e-200000", "1"},
		{"0." + zeros(400) + "1", ""}, {"1" + zeros(400), ""},
		{"1" + zeros(1000) + "1", ""}, {"1." + zeros(1000) + "1", ""}, {"0." + zeros(306) + "1", "1e-307"},
		{"1.25e0", "1.25"}, {"125e-2", "1.25"}, {"0.0125e2", "1.25"}, {"0.0125E+2", "1.25"},
	} {
		if test.want != "" {
			mustBe(t, test.token, test.want, otherLimits)
			mustBe(t, "[ "+test.token+",0]", "["+test.want+",0]", otherLimits)
			mustBe(t, `{"a":`+test.token+`}`, `{"a":`+test.want+`}`, argsLimits)
			continue
		}
		var tree Tree
		var syntax *SyntaxError
		if err := tree.Parse([]byte("["+test.token+"]"), otherLimits); !errors.As(err, &syntax) || syntax.Offset != 1 ||
			!strings.Contains(syntax.What, "number") {
			t.Errorf("%.50s: %v, is %s", test.token, err, tree.Root().Append(nil))
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
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0", 0x8000000000000000: "0", 0x0000000000000001: "5e-324", 0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308", 0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992", 0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22", 0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000", 0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7", 0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332", 0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334", 0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333", 0x43143ff3c1cb0959: "1424953923781206.2",
	} {
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
