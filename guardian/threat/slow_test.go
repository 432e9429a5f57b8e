package threat

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// slow is the table again, as it is written and without any care for speed: regular expressions,
// and loops for what they cannot say. It shares nothing with Scan. It returns the ids that are
// present, in order.
func slow(text []byte) []string {
	s := string([]rune(string(text))) // each byte that is not UTF-8 is U+FFFD
	flagless := slowFlag.ReplaceAllString(s, "")
	signals := map[string]bool{
		"nul":               strings.ContainsRune(s, 0),
		"terminal-escape":   slowEscape.MatchString(s),
		"control":           slowControl.MatchString(s),
		"hidden-tag":        slowTag.MatchString(flagless),
		"hidden-run":        slowRun.MatchString(flagless),
		"hidden-letter":     slowLetters(flagless) >= 3,
		"bidi-override":     strings.ContainsAny(s, "\u202d\u202e"),
		"bidi-embedding":    strings.ContainsAny(s, "\u202a\u202b\u202c\u2066\u2067\u2068\u2069"),
		"mixed-script-host": slowMixed(s),
		"metadata-host":     slowMetadata(s),
		"script-url":        slowScript.MatchString(s),
		"data-document":     slowDocument.MatchString(s),
		"remote-image":      slowImage(s),
		"shell-code":        slowShell.MatchString(s),
		"secret":            slowKey(s) || slowPrivate(s),
		"instruction":       slowInstruction(s),
	}
	var ids []string
	for id, present := range signals {
		if present {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

const (
	slowBlank = `[\t\n\f\r ]`
	slowI     = `\x{34f}\x{61c}\x{115f}\x{1160}\x{17b4}\x{17b5}\x{180b}-\x{180f}\x{200b}-\x{200f}\x{202a}-\x{202e}` +
		`\x{2060}-\x{206f}\x{3164}\x{fe00}-\x{fe0f}\x{feff}\x{ffa0}\x{fff0}-\x{fffb}\x{1d173}-\x{1d17a}\x{e0000}-\x{e0fff}`
	slowV     = `\x{fe00}-\x{fe0f}\x{e0100}-\x{e01ef}`
	slowEnds  = "/?#\\\"'<>(){}[],;\t\n\f\r "
	slowOther = `\x{370}-\x{58f}\x{10a0}-\x{10ff}\x{13a0}-\x{13ff}\x{1c80}-\x{1cbf}\x{1f00}-\x{1fff}\x{2c00}-\x{2c5f}` +
		`\x{2c80}-\x{2d2f}\x{2de0}-\x{2dff}\x{a640}-\x{a69f}\x{ab70}-\x{abbf}`
)

var (
	slowFlag      = regexp.MustCompile(`\x{1f3f4}[\x{e0030}-\x{e0039}\x{e0061}-\x{e007a}]{3,6}\x{e007f}`)
	slowEscape    = regexp.MustCompile(`\x1b[\[\]()PX^_#%]|[\x{90}\x{9b}\x{9d}]`)
	slowControl   = regexp.MustCompile(`[\x01-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x{9f}]`)
	slowInvisible = regexp.MustCompile(`[` + slowI + `]`)
	slowTag       = regexp.MustCompile(`[\x{e0000}-\x{e007f}]`)
	slowRun       = regexp.MustCompile(`[` + slowI + `]{4}|[` + slowV + `]{2}`)
	slowSplit     = regexp.MustCompile(
		`^[a-zA-Z][\x{34f}\x{200b}-\x{200d}\x{2060}-\x{2064}\x{feff}` + slowV + `][a-zA-Z0-9]`,
	)

	slowLook   = regexp.MustCompile(`[` + slowOther + `]`)
	slowScheme = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*$`)
	slowName   = regexp.MustCompile(`^(?:` + anyCase(`169.254.169.254|169.254.170.2|100.100.100.200|`+
		`metadata.google.internal|metadata.goog|[fd00:ec2::254]|2852039166|0xa9fea9fe|0xa9.0xfe.0xa9.0xfe|`+
		`0251.0376.0251.0376`) + `)\.?`)

	slowURL    = `(?:` + lettersApart("javascript") + `|` + lettersApart("vbscript") + `):[^\x00-\x20]`
	slowScript = regexp.MustCompile(`^[\x00-\x20]*` + slowURL +
		`|(?:\]\(|(?:` + anyCase(`href|src|action`) + `)=["']?)` + slowURL)
	slowDocument = regexp.MustCompile(`^[\x00-\x20]*` + anyCase(`data:`) + `(?:` + anyCase(
		`text/html|application/xhtml+xml|image/svg+xml|text/javascript|application/javascript`) + `)[;,]`)

	slowShell = regexp.MustCompile(
		`[;&|]` + slowBlank + `*(?:/bin/|/sbin/|/usr/bin/|/usr/sbin/)?(?:curl|wget|nc|ncat|` +
			`bash|sh|zsh|python|python3|perl|ruby|php|powershell|pwsh|rm|chmod|mkfifo|base64|sudo|whoami|uname|nslookup)` +
			`(?:` + slowBlank + `|$)|\$\((?:curl|wget|nc|bash|sh|cat|id|whoami|uname|base64|rm)(?:[^A-Za-z0-9_]|$)|/dev/tcp/`,
	)

	slowMarkdown = regexp.MustCompile(`^!\[[^\]]*\]\(` + slowBlank + `*<?`)
	slowSource   = regexp.MustCompile(`^` + anyCase(`src=`) + slowBlank + `*["']?`)
	slowInImg    = regexp.MustCompile(anyCase(`<img`) + `[^>]*$`)
	slowHTTP     = regexp.MustCompile(`^(?:` + anyCase(`http|https`) + `)://[^/?#]*`)
	slowSegment  = regexp.MustCompile(`/[A-Za-z0-9_+=%-]{48,}(?:$|[/#])`)

	slowKeys = regexp.MustCompile(`^((?:AKIA|ASIA)[A-Z2-7]{16}|gh[pousr]_[A-Za-z0-9]{36}|` +
		`github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}|glpat-[A-Za-z0-9_-]{20}|` +
		`xox[abeoprs]-[0-9]{8,14}-[A-Za-z0-9-]{16,}|[sr]k_live_[A-Za-z0-9]{24,247}|AIza[A-Za-z0-9_-]{35}|` +
		`sk-ant-[a-z]{3,5}[0-9]{2}-[A-Za-z0-9_-]{80,120}|` +
		`sk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,100}T3BlbkFJ[A-Za-z0-9_-]{20,100}|npm_[A-Za-z0-9]{36}|` +
		`pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,}|SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}|hf_[A-Za-z]{34}|` +
		`dop_v1_[0-9a-f]{64}|AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58})(?:[^A-Za-z0-9_-]|$)`)
	slowArmor   = regexp.MustCompile(`^-----BEGIN (?:[A-Za-z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----`)
	slowGap     = regexp.MustCompile(`^(?:` + slowBlank + `|\\n|\\r)+`)
	slowBody    = regexp.MustCompile(`^[A-Za-z0-9+/]{32}`)
	slowLine    = regexp.MustCompile(`^(?s:[A-Za-z][A-Za-z0-9-]*:.*?)(?:\n|\r|\\n|\\r)`)
	slowWords   = regexp.MustCompile(`[a-z]+`)
	slowSpecial = []string{
		"<|im_start|>", "<|im_end|>", "<|system|>", "<|endoftext|>", "<<sys>>", "[inst]", "[/inst]",
	}
	slowVerbs      = strings.Fields("ignore disregard forget override bypass")
	slowAdjectives = strings.Fields("previous prior above earlier preceding foregoing initial original system")
	slowObjects    = strings.Fields("instruction instructions direction directions prompt prompts command commands " +
		"rules guideline guidelines")
)

// anyCase returns an expression for texts apart by |, of ASCII letters in any case. The flag i
// would fold U+017F and U+212A too.
func anyCase(texts string) string {
	var b strings.Builder
	for _, c := range texts {
		switch {
		case 'a' <= c && c <= 'z':
			fmt.Fprintf(&b, "[%c%c]", c, c-'a'+'A')
		case c == '|':
			b.WriteRune(c)
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return b.String()
}

func lettersApart(word string) string {
	var letters []string
	for _, c := range word {
		letters = append(letters, anyCase(string(c)))
	}
	return strings.Join(letters, `[\t\n\r]*`)
}

func slowLetters(s string) (n int) {
	for i := range s {
		if slowSplit.MatchString(s[i:min(len(s), i+6)]) {
			n++
		}
	}
	return n
}

// slowHost returns the text before the end of a host or an @, and what ends it, "" at the end of s.
func slowHost(s string) (host, end string) {
	if i := strings.IndexAny(s, slowEnds+"@"); i >= 0 {
		return s[:i], s[i : i+1]
	}
	return s, ""
}

func slowMixed(s string) bool {
	for i := range s {
		host, end := "", ""
		switch {
		case strings.HasPrefix(s[i:], "://"):
			if host, end = slowHost(s[i+3:]); end == "@" {
				continue
			}
		case s[i] == '@':
			host, _ = slowHost(s[i+1:])
		}
		points := []rune(host)
		for label := range strings.SplitSeq(string(points[:min(len(points), 255)]), ".") {
			if slowLook.MatchString(label) && strings.ContainsAny(label, asciiLetters) {
				return true
			}
		}
	}
	return false
}

const asciiLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

func slowMetadata(s string) bool {
	if slowName.FindString(s) == s && s != "" {
		return true
	}
	for i := range s {
		if !strings.HasPrefix(s[i:], "://") || !slowScheme.MatchString(s[:i]) {
			continue
		}
		authority := s[i+3:]
		if end := strings.IndexAny(authority, "/?#\\\"<>\t\n\f\r "); end >= 0 {
			authority = authority[:end]
		}
		for at := range authority + "." {
			if at > 0 && authority[at-1] != '@' {
				continue
			}
			name := slowName.FindString(authority[at:])
			if name == "" {
				continue
			}
			rest, end := slowHost(authority[at+len(name):])
			if end != "@" && (rest == "" || rest[0] == ':') {
				return true
			}
		}
	}
	return false
}

// slowImage reads URLs in their order. One that begins in another that the same byte ends is a part
// of it.
func slowImage(s string) bool {
	read := make(map[byte]int)
	for i := range s {
		open, closer := "", byte(')')
		if open = slowMarkdown.FindString(s[i:]); open == "" {
			if open = slowSource.FindString(s[i:]); open == "" || !slowInImg.MatchString(s[:i]) {
				continue
			}
			if closer = open[len(open)-1]; closer != '"' && closer != '\'' {
				closer = '>'
			}
		}
		at := i + len(open)
		url := s[at:]
		if end := strings.IndexAny(url, "\t\n\f\r <>"+string(closer)); end >= 0 {
			url = url[:end]
		}
		url = url[:min(len(url), 2048)]
		host := slowHTTP.FindString(url)
		if host == "" || at < read[closer] {
			continue
		}
		read[closer] = at + len(url)
		path, query, _ := strings.Cut(url[len(host):], "?")
		if len(query) >= 16 || slowSegment.MatchString(path) {
			return true
		}
	}
	return false
}

func slowKey(s string) bool {
	for i := range s {
		if i > 0 && strings.ContainsAny(s[i-1:i], asciiLetters+"0123456789_-") {
			continue
		}
		if m := slowKeys.FindStringSubmatch(s[i:]); m != nil {
			distinct := make(map[rune]bool)
			for _, c := range m[1] {
				distinct[c] = true
			}
			if len(distinct) >= 12 && !strings.Contains(m[1], "EXAMPLE") {
				return true
			}
		}
	}
	return false
}

func slowPrivate(s string) bool {
	for i := range s {
		rest := s[i:]
		begin := slowArmor.FindString(rest)
		for line := begin; line != ""; line = slowLine.FindString(rest) {
			if line != begin && strings.Contains(line, "-----") {
				break
			}
			rest = rest[len(line):]
			rest = rest[len(slowGap.FindString(rest)):]
			if slowBody.MatchString(rest) {
				return true
			}
		}
	}
	return false
}

func slowInstruction(s string) bool {
	s = strings.Map(func(r rune) rune {
		switch {
		case slowInvisible.MatchString(string(r)):
			return -1
		case 0xff01 <= r && r <= 0xff5e:
			r += '!' - 0xff01
		}
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
	for _, special := range slowSpecial {
		if strings.Contains(s, special) {
			return true
		}
	}
	words := slowWords.FindAllString(s, -1)
	for i, w := range words {
		if !slices.Contains(slowVerbs, w) {
			continue
		}
		for j := i + 1; j <= i+5 && j < len(words); j++ {
			if !slices.Contains(slowAdjectives, words[j]) {
				continue
			}
			for k := j + 1; k <= j+5 && k < len(words); k++ {
				if slices.Contains(slowObjects, words[k]) {
					return true
				}
			}
		}
	}
	return false
}
