package threat

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

// compare fails if Scan and slow do not agree about a text, or if Scan changes it.
func compare(t testing.TB, text []byte) {
	t.Helper()
	kept := bytes.Clone(text)
	got, want := slices.Collect(Scan(text).IDs()), slow(text)
	require.True(t, slices.Equal(got, want), "%q\nhas  %q\nwant %q", text, got, want)
	require.True(t, bytes.Equal(text, kept), "the text was changed")
}

// FuzzScan compares Scan with slow over any bytes, and over the mix of fragments that they say.
func FuzzScan(f *testing.F) {
	race.Alone(f)
	for _, c := range readCases(f) {
		f.Add([]byte(c.has))
		f.Add([]byte(c.not))
	}
	r := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		f.Add(recipe(r))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		compare(t, data)
		compare(t, mix(data))
	})
}

// TestScanMixes compares over random mixes, the same ones each time.
func TestScanMixes(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	n := 15_000
	if testing.Short() {
		n = 2_000
	}
	r := rand.New(rand.NewPCG(1, 2))
	seen := make(map[string]int)
	for range n {
		text := mix(recipe(r))
		compare(t, text)
		for id := range Scan(text).IDs() {
			seen[id]++
		}
	}
	for _, s := range signals {
		require.True(t, seen[s.id] > n/1000, "%s: in %d mixes of %d", s.id, seen[s.id], n)
	}
}

func recipe(r *rand.Rand) []byte {
	data := make([]byte, 1+r.IntN(14))
	theme := r.IntN(len(fragments)) // fragments of a signal are neighbors
	for i := range data {
		switch r.IntN(5) {
		case 0:
			data[i] = byte(r.Uint32())
		case 1:
			data[i] = byte(len(fragments) + r.IntN(256-len(fragments)))
		default:
			data[i] = byte(max(0, min(255, theme+r.IntN(17)-8)))
		}
	}
	return data
}

// mix makes a text of fragments: each byte is the number of one. A number after the last is a run
// of different letters and digits, of a length that is near a bound of the table.
func mix(data []byte) []byte {
	var text []byte
	for i, b := range data {
		if int(b) < len(fragments) {
			text = append(text, fragments[b]...)
			continue
		}
		n := int(b) - len(fragments)
		length := lengths[n%len(lengths)]
		alphabet := alphabets[n/len(lengths)%len(alphabets)]
		for k := range length {
			text = append(text, alphabet[(k+i)%len(alphabet)])
		}
	}
	return text
}

var lengths = []int{16, 15, 17, 20, 22, 24, 32, 31, 34, 35, 36, 43, 48, 47, 58, 59, 64, 80, 100, 255, 2048}

var alphabets = []string{
	"aB3dE5gH7jK9mN", "QZ7KWM3XJ5TDB2LN", "0123456789abcdef", "qwertyuiopasdfgh",
}

// fragments are pieces of what the table names, and of what is near it.
var fragments = []string{
	// secret
	"AKIA", "ASIA", "EXAMPLE", "ghp_", "ghx_", "github_pat_", "_", "-", "glpat-", "xoxb-", "xoxz-", "12345678",
	"12345678901234", "sk_live_", "rk_live_", "AIza", "sk-ant-", "api03-", "sk-", "proj-", "T3BlbkFJ", "npm_",
	"pypi-AgEIcHlwaS5vcmc", "SG.", ".", "hf_", "dop_v1_", "AGE-SECRET-KEY-1", "-----BEGIN ", "RSA ", "PRIVATE ",
	"PRIVATE KEY-----", "PRIVATE KEY BLOCK-----", "-----", "\\n", "\n", "\\r", "Proc-Type: 4,ENCRYPTED\n", "A:", ": ",
	// instruction
	"ignore", "Disregard ", "forget", " previous", "SYSTEM ", "instructions", " rules", "prompt", " ", " a b ", " c",
	"ｉｇｎｏｒｅ", "<|im_start|>", "<|", "im_end|>", "<<sys>>", "[inst]", "[/INST]", "［", "＜", "<", "|", "sys>>", "[", "]",
	// hidden-*, bidi-*
	"\u200b", "\u200d", "\u034f", "\ufe0f", "\U000e0100", "\ufeff", "a", "b1", "c\u200bd\ufeffe", "f\u2060g", "\u3164", "\u2063", "\u202e", "\u2067", "\u180f",
	"\U0001f3f4", "\U000e0067\U000e0062\U000e0073", "\U000e0063", "\U000e0074", "\U000e007f",
	"\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", "\U000e0001", "\U0001f468", "\ufffb",
	// nul, control, terminal-escape
	"\x00", "\x1b", "\x1b]", "\u009b", "\u0085", "\x7f", "\x01", "\xc2", "\x9b", "\xf0\x9f", "\xe2\x80", "\xff",
	// hosts
	"://", "@", "http://", "x", ":", "/", "?", "#", "\\", "\"", "'", "(", ")", ",", ";", "а", "о", "Ω", "ⲁ", "ꭰ", "аа.bb",
	"169.254.169.254", "metadata.Google.internal", "metadata.goog", "[FD00:ec2::254]", "2852039166", "0xa9fea9fe",
	"0251.0376.0251.0376", ":80", "user:pass@", "https://", "://u@",
	// script-url, data-document
	"javascript:", "JaVa\tscript:", "vb\n", "script:", "](", "href=", "src=", "ACTION=", "=", "alert(1)", "data:",
	"text/html,", "data:image/svg+xml;", "\t", "\r",
	// remote-image
	"![", "![a](", "<img ", "<IMG", ">", "src=\"", "src='", "![](http://h/", "?0123456789abcde", "f", "/", "+=%", "é",
	// shell-code
	"; ", "&&", "|| ", "/bin/", "/usr/sbin/", "curl", "rm ", "python3", "base64", "sh", "$(", "id", "/dev/tcp/", "&",
}
