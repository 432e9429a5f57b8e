package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/kept"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

func (a *app) log() *cobra.Command {
	c := group("log", "verify logs in files, and read them")
	c.AddCommand(a.verifyLog(), a.showLog(), graphLog(a), a.export(), checkpoint(a), erase(a))
	return c
}

func (a *app) verifyLog() *cobra.Command {
	c := &cobra.Command{
		Use: "verify DIR", Short: "verify a log in place, up to its checkpoint", Args: arguments(cobra.ExactArgs(1)),
		Long: "Verify a log in place, up to its latest checkpoint. DIR is its directory, or the state directory\n" +
			"that it is in. A kernel may be writing to it. The answer is yes only if --trust or --kernel says who\n" +
			"may have made it, and with --witness only if --quorum of these have cosigned its checkpoint.",
	}
	var from root
	from.flags(c)
	c.Flags().StringVar(&from.last, "last", "", "`FILE` with the last checkpoint")
	var by witnesses
	by.flags(c)
	var has holdings
	has.flags(c)
	file := c.Flags().String("kept", "", "`FILE` that keeps the last checkpoint, as pack audit has it")
	c.RunE = func(c *cobra.Command, args []string) error {
		if from.last != "" && *file != "" {
			return usageError{errors.New("--last or --kept, not both")}
		}
		o, err := a.options(&from)
		if err == nil {
			err = by.options(a, &o)
		}
		if err == nil {
			err = has.options(a, &o)
		}
		if err != nil {
			return err
		}
		store, err := openLog(args[0])
		if err != nil {
			return err
		}
		defer store.Close()
		defer a.working("verifying " + args[0])()
		if *file != "" {
			return a.report(kept.VerifyStore(c.Context(), *file, store, o))
		}
		return a.report(evidence.VerifyStore(c.Context(), store, o))
	}
	return c
}

func (a *app) showLog() *cobra.Command {
	c := &cobra.Command{
		Use: "show DIR", Short: "list the entries of a log", Args: arguments(cobra.ExactArgs(1)),
		Long: "List the entries of a log. Nothing is verified: see log verify. A kernel may be writing to it; with\n" +
			"--follow what it writes is listed too, until the command is interrupted. An entry that the log let go\n" +
			"of is listed as a stub, with what is left of it. With --why say of one entry how it was decided, and\n" +
			"what led to it. With --html write the page on which people read the log, as pack view does: whole or\n" +
			"not at all, and no file is replaced.",
		Example: "helm log show state/log --verdict DENY\nhelm log show state/log --why chat-1/4",
	}
	var which filter
	which.flags(c)
	follow := c.Flags().Bool("follow", false, "go on with what is written to the log")
	page := c.Flags().String("html", "", "write a page for a browser to this `FILE`")
	var part section
	part.flags(c, "with --html: ")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case *page == "" && part != section{}:
			return wrongly(c, errors.New("--from, --to and --inputs are of --html"))
		case *page != "" && (*follow || which.why+which.tool+which.verdict != ""):
			return wrongly(c, errors.New("--html goes with --session, --from, --to and --inputs alone"))
		}
		if *follow && which.why != "" {
			return wrongly(c, errors.New("--follow or --why, not both"))
		}
		if *follow {
			return a.follow(c, args[0], &which)
		}
		store, err := openLog(args[0])
		if err != nil {
			return err
		}
		defer store.Close()
		if *page != "" {
			defer a.working("writing " + *page)()
			return logPage(c.Context(), a, store, *page, part.options(which.session))
		}
		return a.show(c, store, &which)
	}
	return c
}

// openLog opens the log in a directory for reading: the directory of the log, or one in which it is
// called log, as state directories have it.
func openLog(dir string) (*filestore.Store, error) {
	if err := isLog(dir); err != nil {
		return nil, err
	}
	return filestore.OpenReadOnly(logDir(dir))
}

func logDir(dir string) string {
	if inside := filepath.Join(dir, "log"); isDir(inside) {
		return inside
	}
	return dir
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// isLog returns an error that says what to name instead of what is plainly no log.
func isLog(dir string) error {
	inside := filepath.Join(dir, "state")
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: there is no such directory: name the state directory, or the log in it", dir)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s: a file: name the directory of the log; what is in a pack says helm pack show", dir)
	case isDir(logDir(inside)) && exists(filepath.Join(dir, "helm.yaml")) && !isDir(filepath.Join(dir, "log")):
		return fmt.Errorf("%s: not the log itself: that is in %s", dir, inside)
	case exists(filepath.Join(dir, "trust.json")) && exists(filepath.Join(dir, "key.pem")) && logDir(dir) == dir:
		return fmt.Errorf("%s: a state directory without a log: nothing has run with it yet", dir)
	}
	return nil
}

// follow lists entries, and then those that come, until the command is interrupted.
func (a *app) follow(c *cobra.Command, dir string, which *filter) error {
	for next := uint64(0); ; {
		store, err := openLog(dir) // a store shows the log as it was when it was opened
		if err != nil {
			return err
		}
		next, err = a.list(c, store, which, next)
		store.Close()
		if err == nil {
			err = a.stream.Flush()
		}
		if err != nil {
			return err
		}
		select {
		case <-c.Context().Done():
			return c.Context().Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (a *app) export() *cobra.Command {
	c := &cobra.Command{
		Use: "export DIR PACK --key FILE", Short: "write the pack of a log, up to its checkpoint",
		Args: arguments(cobra.ExactArgs(2)),
		Long: "Write the pack of a log, up to its latest checkpoint. It is written whole or not at all, and no file\n" +
			"is replaced.",
	}
	name := c.Flags().String("key", "", "`FILE` with a kernel key of the log, - is stdin")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *name == "" {
			return usageError{fmt.Errorf("%s needs --key", c.CommandPath())}
		}
		key, err := a.key(*name)
		if err != nil {
			return err
		}
		store, err := openLog(args[0])
		if err != nil {
			return err
		}
		defer store.Close()
		defer a.working("writing " + args[1])()
		err = create(args[1], 0o600, func(w io.Writer) error { return evidence.Write(c.Context(), w, store, key) })
		if err != nil {
			return err
		}
		return a.print(args[1]+"\n", map[string]string{"pack": args[1]})
	}
	return c
}

// A source of entries, and of the blobs that they name.
type source interface {
	Size(ctx context.Context) (uint64, error)
	Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error]
	Blob(ctx context.Context, d contracts.Digest) ([]byte, error)
}

// A filter says which entries are listed.
type filter struct{ session, tool, verdict, why string }

func (f *filter) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.session, "session", "", "only of this `SESSION`")
	c.Flags().StringVar(&f.tool, "tool", "", "only calls of this `TOOL`")
	c.Flags().StringVar(&f.verdict, "verdict", "", "only judgements with this `VERDICT`, ALLOW or DENY")
	c.Flags().StringVar(&f.why, "why", "", "say of this `ENTRY` how it was decided: index, hash or session/seq")
}

// check reports a filter that nothing could pass.
func (f *filter) check(c *cobra.Command) error {
	switch {
	case f.verdict != "" && f.verdict != "ALLOW" && f.verdict != "DENY":
		return wrongly(c, fmt.Errorf("--verdict: %q is neither ALLOW nor DENY", f.verdict))
	case f.why != "" && f.session+f.tool+f.verdict != "":
		return wrongly(c, errors.New("--why is of one entry: leave --session, --tool and --verdict out"))
	}
	return nil
}

func (f *filter) passes(x *line) bool {
	return (f.session == "" || f.session == x.session) && (f.tool == "" || f.tool == x.Tool) &&
		(f.verdict == "" || f.verdict == x.Verdict)
}

// A line is an entry as it is listed. Nothing of arguments or outputs is in it.
type line struct {
	Index   uint64               `json:"index"`
	Hash    crypto.Digest        `json:"hash"`
	Time    contracts.Time       `json:"time"`
	ID      string               `json:"id"` // session/seq
	Kind    string               `json:"kind"`
	Stub    bool                 `json:"stub,omitempty"` // only its stub is left
	Tool    string               `json:"tool,omitempty"`
	Verdict string               `json:"verdict,omitempty"`
	Outcome contracts.Outcome    `json:"outcome,omitempty"`
	Reason  contracts.ReasonCode `json:"reason,omitempty"`
	Rule    string               `json:"rule,omitempty"`

	session  string
	decision crypto.Digest // of a receipt whose decision is another entry
}

// text returns the line for people.
func (a *app) text(x *line) string {
	kind := x.Kind
	if x.Stub {
		kind += ", a stub"
	}
	words := []string{strconv.FormatUint(x.Index, 10), x.Time.String(), ascii(x.ID), kind}
	verdict := a.coloured(x.Verdict)
	for _, w := range []string{ascii(x.Tool), verdict, string(x.Outcome), string(x.Reason), ascii(x.Rule)} {
		if w != "" {
			words = append(words, w)
		}
	}
	return strings.Join(words, "  ")
}

// show lists entries, or says why one is as it is.
func (a *app) show(c *cobra.Command, log source, which *filter) error {
	if err := which.check(c); err != nil {
		return err
	}
	if which.why != "" {
		return why(a, c, log, which.why)
	}
	_, err := a.list(c, log, which, 0)
	return err
}

// list lists entries from an index on: a line each, or with --json an object each. It returns the
// index of the next.
func (a *app) list(c *cobra.Command, log source, which *filter, index uint64) (uint64, error) {
	if err := which.check(c); err != nil {
		return index, err
	}
	size, err := log.Size(c.Context())
	if err != nil {
		return index, err
	}
	var r contracts.Reader
	for e, err := range log.Entries(c.Context(), index, size) {
		if err != nil {
			return index, err
		}
		x, _, err := read(&r, e)
		if err != nil {
			return index, fmt.Errorf("entry %d: %w", index, err)
		}
		x.Index = index
		index++
		if !which.passes(x) {
			continue
		}
		if err := a.item(a.text(x), x); err != nil {
			return index, err
		}
	}
	return index, nil
}

// read returns the line of an entry, and what the entry says: nil if only its stub is left.
func read(r *contracts.Reader, e contracts.Entry) (*line, *contracts.Statement, error) {
	l, err := entry.Read(r, e)
	if err != nil {
		return nil, nil, err
	}
	session, _, at := l.Place()
	x := &line{Hash: l.Hash, Time: at, ID: l.Name(), Kind: string(l.Kind()), session: session}
	if l.Stub != nil {
		x.left(l.Stub)
	} else {
		x.said(l.Entry)
	}
	return x, l.Entry, nil
}

// left adds what a stub has. Only what was allowed can have one.
func (x *line) left(s *contracts.Stub) {
	x.Stub, x.Verdict = true, contracts.Allow.String()
	if s.Decision != nil {
		x.Tool = s.Decision.Tool
	} else {
		x.Outcome = s.Receipt.Outcome
	}
}

func (x *line) said(st *contracts.Statement) {
	if r := st.Receipt; r != nil {
		x.Tool, x.Outcome, x.Reason, x.Verdict = r.Tool, r.Outcome, r.Reason, r.Verdict.String()
		x.decision = r.DecisionHash
	}
	if d := st.Judgement(); d != nil {
		x.Tool, x.Reason, x.Rule, x.Verdict = d.Tool, d.Reason, d.Rule, d.Verdict.String()
	}
}
