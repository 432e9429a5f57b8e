package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// ascii returns a name of a log as a terminal may be told it.
func ascii(name string) string {
	s := strconv.QuoteToASCII(name)
	return s[1 : len(s)-1]
}

// printable returns a text in which only the ends of lines are no printable characters.
func printable(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\n' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

// asciiJSON returns the same JSON in ASCII.
func asciiJSON(text []byte) string {
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case r < ' ' && r != '\n':
			b.WriteByte(' ')
		case r < 0x7f:
			b.WriteRune(r)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	return b.String()
}

// terminal returns a stream as a file, and reports whether it may be a terminal.
func terminal(stream any) (*os.File, bool) {
	if x, ok := stream.(*stdin); ok {
		stream = x.Reader
	}
	f, ok := stream.(*os.File)
	if !ok {
		return nil, false
	}
	info, err := f.Stat()
	return f, err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Colours of what is good and bad. The words say the same.
const (
	green = "\x1b[32m"
	red   = "\x1b[31m"
	plain = "\x1b[0m"
)

// answers are the words that begin a line which is an answer, and whether it is a good one.
var answers = []struct {
	word string
	good bool
}{{"SUCCESS", true}, {"NO SUCCESS", false}, {"ALLOW", true}, {"DENY", false}}

// coloured returns a word of ours in the colour of what it says.
func (a *app) coloured(word string) string {
	dumb := os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	if a.json || a.when == "never" || a.when != "always" && (!a.tty || dumb) {
		return word
	}
	for _, x := range answers {
		if x.word == word && x.good {
			return green + word + plain
		} else if x.word == word {
			return red + word + plain
		}
	}
	return word
}

// colouredLines colours the answers that begin a line.
func (a *app) colouredLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		for _, x := range answers {
			if rest, ok := strings.CutPrefix(l, x.word); ok && (rest == "" || strings.ContainsAny(rest[:1], ": ")) {
				lines[i] = a.coloured(x.word) + rest
			}
		}
	}
	return strings.Join(lines, "\n")
}

// say says on stderr what is no result: a line, or with --json {"note":{"message":…}}.
func say(a *app, text string) {
	if a.json {
		b, _ := json.Marshal(map[string]any{"note": map[string]string{"message": text}})
		fmt.Fprintf(a.errs, "%s\n", asciiJSON(b))
		return
	}
	fmt.Fprintf(a.errs, "%s\n", printable(text))
}

// working says on a terminal what takes more than a second, until done is called.
func (a *app) working(what string) (done func()) {
	if _, ok := terminal(a.errs); !ok {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		report(a.errs, printable(what), time.Second, end)
	}()
	return func() { close(end); <-ended }
}

// report writes what is done and for how long on a line that it clears at the end; nothing if the
// end comes within a tick.
func report(w io.Writer, what string, every time.Duration, end <-chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
			fmt.Fprintf(w, "\rhelm: %s, %v", what, time.Duration(n)*every)
		case <-end:
			if n > 1 {
				fmt.Fprintf(w, "\r%s\r", strings.Repeat(" ", len(what)+20))
			}
			return
		}
	}
}

// stdin is read until the command is interrupted.
type stdin struct {
	io.Reader
	done <-chan struct{}
}

func interruptible(ctx context.Context, in io.Reader) io.Reader { return &stdin{in, ctx.Done()} }

// Read returns at the end of the context, though the system may go on to wait for bytes.
func (s *stdin) Read(b []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	mine := make([]byte, len(b))
	read := make(chan result, 1)
	go func() {
		n, err := s.Reader.Read(mine)
		read <- result{n, err}
	}()
	select {
	case r := <-read:
		return copy(b, mine[:r.n]), r.err
	case <-s.done:
		return 0, errInterrupted
	}
}
