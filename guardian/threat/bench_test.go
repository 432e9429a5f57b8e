package threat

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

// prose is what most strings are like: nothing of the table, and some of what it begins with.
const prose = "It was agreed on Tuesday that the harbour office (room 12) sends the figures for March by mail; " +
	"see https://example.org/reports/2024-03?page=2 or ask Ann <ann@example.org>. The third column, \"net\", is " +
	"in EUR & includes VAT. - Ships under 300 t pay 45 a day, others 60: that is 1/3 more than before! " +
	"Please do not forget the previous table [2] when you compare both years, and keep the old file.\n"

// worst has for each signal texts that never have it, though nearly everywhere one may begin: what
// keeps the scanner busiest, and would take it square time if it went back.
var worst = map[string][]string{
	"bidi-embedding": {"\u206a", "\u2065"},
	"bidi-override":  {"\u202f"},
	"control":        {"\u00a0", "\xc2"},
	"data-document":  {" ", "data:text/htm"},
	"hidden-letter":  {"a\u200b\u200b", "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e007f", "1\u200ba"},
	"hidden-run":     {"\u200b\u200b\u200b ", "\ufe0f\u200d "},
	"hidden-tag":     {"\U0001f3f4", "\U0001f3f4\U0001f3f4\U000e1067", "\U000e0080\U000e0080 "},
	"instruction": {
		"ignore ",
		"ignore previous a b c d e ",
		"<",
		"<|",
		"<<|im_start|",
		"<\u200b\u200b\u200b<",
		"[/inst",
		"＜",
		"[i\u200b\u200b\u200b",
		"ｉｇｎｏｒｅ ",
		"prior ",
		"rules,",
	},
	"metadata-host": {
		"x://",
		"x://@",
		"x://metadata.goo",
		"x://169.254.169.254@",
		"x+",
		"x://a@",
		"://169.254.169.254",
	},
	"mixed-script-host": {"://", "@", "@.", "://а", "@а", "@a", "://@"},
	"nul":               {"\\x00"},
	"remote-image": {
		"![",
		"![](",
		"![](http://",
		"<img ",
		"<img src=",
		"<img src=http://",
		"<img src=\"http://'",
		"![](http://![](http://<",
		"<img src='http://x/?src=\"http://?\" src=http://? ",
		"![](   ",
	},
	"script-url": {"href=", "](", "](j\t\n", "src='javascript\t", "javascript", "vbscript: ", "href=\"java\r"},
	"secret": {
		"-----BEGIN ",
		"-----BEGIN PRIVATE KEY-----",
		"-----BEGIN PRIVATE KEY-----\nA:",
		"-----BEGIN PRIVATE KEY-----\\n",
		"-",
		"sk-",
		" sk-",
		"SG.",
		"sk-T3BlbkFJ",
		" pypi-AgEIcHlwaS5vcmc",
		"AKIA",
		" AKIA",
		"-----BEGIN PRIVATE KEY-----aaaaaaa",
		"xoxb-123456-",
		" sk-ant-api03-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	},
	"shell-code":      {";", "; ", "&", "|", ";/usr/sbin/", ";n", "$(", "$(base64_", "/dev/tc/", ";\t\n \t\n", "/"},
	"terminal-escape": {"\x1b", "\u009c", "\x1b\x1b"},
}

// fill returns a text of n bytes, of whole pieces and of those bytes of the last that fit.
func fill(piece string, n int) []byte { return []byte(strings.Repeat(piece, n/len(piece)+1)[:n]) }

// No time is asserted: a scan that goes back over texts like these would take square time, and
// would not end within the ten minutes of go test.
func TestWorst(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	n := 4 << 20
	if testing.Short() {
		n = 1 << 18
	}
	for _, s := range signals {
		require.NotEmpty(t, worst[s.id], "%s", s.id)
		signal, _ := Lookup(s.id)
		for _, piece := range worst[s.id] {
			for _, start := range []string{"", "![", "<img src=http://", "ignore ", "-----BEGIN PRIVATE KEY-----\n", "x://"} {
				compare(t, append([]byte(start), fill(piece, 300)...))
			}
			text := fill(piece, n)
			assert.Zero(t, Scan(text)&signal, "%q", piece)
		}
	}
}

func TestAllocs(t *testing.T) {
	race.Alone(t)
	texts := [][]byte{[]byte(prose)}
	for _, c := range readCases(t) {
		texts = append(texts, []byte(c.has), []byte(c.not))
	}
	for _, text := range texts {
		s := string(text)
		var sets [2]Set
		allocs := testing.AllocsPerRun(10, func() { sets = [2]Set{Scan(text), Scan([]byte(s))} })
		require.True(t, allocs == 0 && sets[0] == sets[1], "%q: %v allocations", text, allocs)
	}
}

// others is 30 % of Cyrillic, Chinese, Japanese, Arabic and Hindi, by bytes, in English.
func others() string {
	foreign := strings.Fields("Порт закрыт до утра 港口明天早上开放 船は午後に着きます المرفأ مفتوح حتى المساء बंदरगाह शाम तक खुला है")
	words := strings.Fields(prose)
	var b strings.Builder
	for far := 0; b.Len() < 64<<10; {
		for i, w := range words {
			if far*10 < b.Len()*3 {
				f := foreign[i%len(foreign)]
				far += len(f)
				b.WriteString(f + " ")
			}
			b.WriteString(w + " ")
		}
	}
	return b.String()
}

func benchmark(b *testing.B, text []byte, want Set) {
	b.ReportAllocs()
	for b.Loop() {
		if got := Scan(text); got != want {
			b.Fatalf("%b, want %b", got, want)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(text)), "ns/byte")
}

func BenchmarkScan(b *testing.B) {
	b.Run("prose", func(b *testing.B) { benchmark(b, fill(prose, 64<<10), 0) })
	b.Run("prose of 900 bytes", func(b *testing.B) { benchmark(b, fill(prose, 900), 0) })
	b.Run("others", func(b *testing.B) { benchmark(b, []byte(others()), 0) })
}

// BenchmarkWorst measures each of the texts in worst.
func BenchmarkWorst(b *testing.B) {
	for _, s := range signals {
		for _, piece := range worst[s.id] {
			text := fill(piece, 64<<10)
			b.Run(s.id+"/"+strings.ReplaceAll(piece, "/", "%"), func(b *testing.B) { benchmark(b, text, Scan(text)) })
		}
	}
}
