package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

var update = flag.Bool("update", false, "rewrite docs/cli.md")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"helm": main, "helmfull": fullMain, "makelog": makeLog, "makerequest": makeRequest,
		"notes": notesServer, "makewaiting": makeWaiting, "talk": talk, "ask": ask})
}

// TestScripts runs each script of testdata in a directory of its own: what each command answers to
// what is right, refused and wrong.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "full": full, "ascii": isASCII,
			"await": awaitFile, "nonce": setNonce},
		Condition: func(name string) (bool, error) {
			if name != "race" {
				return false, fmt.Errorf("no condition %s", name)
			}
			return race.Enabled, nil
		},
	})
}

// exits CODE ARGS... runs helm, which must exit with that code. stdout and stderr are those of the
// command then.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE ARGS...")
	}
	err := ts.Exec("helm", args[1:]...)
	code := "0"
	if err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("exit %s, want %s", code, args[0])
	}
}

// fullMain is main with a stdout that takes nothing.
func fullMain() {
	var err error
	os.Stdout, err = os.OpenFile("/dev/full", os.O_WRONLY, 0)
	check(err)
	main()
}

// full ARGS... runs helm with a stdout that takes nothing, which is no answer. It is skipped on
// systems without /dev/full.
func full(ts *testscript.TestScript, neg bool, args []string) {
	if _, err := os.Stat("/dev/full"); err != nil {
		ts.Logf("skipped: no /dev/full on this system")
		return
	}
	err := ts.Exec("helmfull", args...)
	if neg || err == nil || err.Error() != "exit status 3" {
		ts.Fatalf("%v, want exit status 3", err)
	}
	if errs := ts.ReadFile("stderr"); !strings.Contains(errs, "no space left") {
		ts.Fatalf("it does not say why")
	}
}

// isASCII fails if a file has a byte that no terminal should be told.
func isASCII(ts *testscript.TestScript, neg bool, args []string) {
	for _, c := range []byte(ts.ReadFile(args[0])) {
		if c >= 0x7f || c < ' ' && c != '\n' {
			ts.Fatalf("byte %#x", c)
		}
	}
}

// TestEveryCommandHasAScript: no command is forgotten.
func TestEveryCommandHasAScript(t *testing.T) {
	t.Parallel()
	var scripts strings.Builder
	files, err := os.ReadDir("testdata/script")
	require.NoError(t, err)
	for _, f := range files {
		b, err := os.ReadFile("testdata/script/" + f.Name())
		require.NoError(t, err)
		scripts.Write(b)
	}
	n := 0
	for _, c := range leaves((&app{}).root()) {
		n++
		for _, code := range []string{"0", "2"} {
			assert.Contains(t, scripts.String(), "exits "+code+" "+c, "no script in which it answers so")
		}
		assert.Regexp(t, `exits \d `+c+` .*--json`, scripts.String())
		if c != "trust enter" && c != "token revoke" && c != "log erase" { // what they do cannot be done again
			assert.Regexp(t, `(?m)^full `+c+`( |$)`, scripts.String(), "no script in which stdout takes nothing")
		}
	}
	assert.GreaterOrEqual(t, n, 14)
}

// leaves returns the paths of the commands that do something, without the first word.
func leaves(c *cobra.Command) (list []string) {
	for _, sub := range c.Commands() {
		if len(sub.Commands()) > 0 {
			list = append(list, leaves(sub)...)
		} else if sub.Name() != "help" {
			_, path, _ := strings.Cut(sub.CommandPath(), " ")
			list = append(list, path)
		}
	}
	return list
}

// A closed pipe is no answer, and not half of one that looks whole.
func TestClosedOutput(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"policy", "schema"}} {
		var errs strings.Builder
		assert.Equal(t, noAnswer, run(context.Background(), args, strings.NewReader(""), closed{}, &errs))
		assert.Contains(t, errs.String(), "closed pipe")
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// An interrupt is no answer either.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, stop := signal.NotifyContext(context.Background())
	stop()
	var out, errs strings.Builder
	args := []string{"policy", "test", "../../policytest/testdata/bank_cases.yaml"}
	code := run(ctx, args, strings.NewReader(""), &out, &errs)
	assert.Equal(t, noAnswer, code)
	assert.Empty(t, out.String())
	assert.Contains(t, errs.String(), "interrupted")
	assert.False(t, errors.Is(ctx.Err(), nil))
}

// TestPage: docs/cli.md is what the commands say of themselves.
func TestPage(t *testing.T) {
	t.Parallel()
	const name = "../../docs/cli.md"
	got := page((&app{}).root())
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "go test . -run TestPage -update, in cmd/helm")
}

// pageTop has ~ for `.
const pageTop = `# The command

Build it in a clone, by ~go build -o helm ./cmd/helm~. It makes and tests policies, stands before
tools, and proves by logs and packs what it decided. [mcp.md](mcp.md) is five minutes with it, [run.md](run.md) runs it as a service.

Results are on stdout, all else is on stderr. A result is written whole or not at all, but for lists of
entries, which are written as they are read.

| exit | |
|---|---|
| 0 | the answer is yes |
| 1 | the answer is no: a policy that does not load, a denied call, a failed case, a pack that is no success |
| 2 | the command was called wrongly |
| 3 | there is no answer: a file cannot be read, stdout is closed, an interrupt |

Every command has these flags:

~~~
%s~~~

With ~--json~ a result is one JSON document in ASCII, or a line for each of a list of entries, and an error is
~{"error": {"message": …}}~ on stderr, where ~{"note": {"message": …}}~ says what is neither. Without it names that come from a
log are ASCII too, and nothing that is printed moves a cursor or turns text round. ~policy new~, ~policy schema~, ~log graph~ and ~completion~ print documents.

A flag that is not given is taken from the environment, by its name: ~HELM_TRUST=trust.json~ is
~--trust trust.json~, and ~HELM_RERUN_GAS=1000~ is ~--rerun-gas 1000~. ~--yes~ is not, since it is meant for one call.
~NO_COLOR~ and ~TERM=dumb~ are obeyed. No flag takes a secret: keys are in files, and ~-~ is stdin. Where a person is
asked and there is no terminal, the command does nothing without ~--yes~.
`

func page(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, strings.ReplaceAll(pageTop, "~", "`"), root.PersistentFlags().FlagUsages())
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			switch {
			case sub.Name() == "help":
			case len(sub.Commands()) > 0:
				add(sub)
			default:
				b.WriteString("\n## " + sub.CommandPath() + "\n\n")
				text := sub.Long
				if text == "" {
					text = sentence(sub.Short)
				}
				b.WriteString(text + "\n\n```\n" + called(sub) + "\n")
				if flags := sub.LocalNonPersistentFlags().FlagUsages(); flags != "" {
					b.WriteString("\n" + flags)
				}
				if sub.Example != "" {
					b.WriteString("\n" + sub.Example + "\n")
				}
				b.WriteString("```\n")
			}
		}
	}
	add(root)
	return b.String()
}

// What a request has of a model is shown in ASCII: nothing in it moves the cursor, or turns text
// round.
func TestShownInASCII(t *testing.T) {
	t.Parallel()
	p := pending{Args: []byte("{\"to\":\"\u202eann\U0001f600\"}")}
	p.Request.Tool, p.Request.Session = "pay\x1b[2J", "s\nx"
	text := p.describe()
	for _, c := range []byte(text) {
		assert.True(t, c >= ' ' && c < 0x7f || c == '\n', "%#x", c)
	}
	assert.Contains(t, text, `{"to":"\u202eann\ud83d\ude00"}`)
	assert.Contains(t, text, `pay\x1b[2J`)
	assert.Equal(t, 12, strings.Count(text, "\n"))
}
