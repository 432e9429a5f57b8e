package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// notesServer is a small MCP server: notes in a file. Its first argument is what it says of a tool;
// with a second it has a tool that takes its time.
func notesServer() {
	about := "Add a line to the notes"
	if len(os.Args) > 1 {
		about = os.Args[1]
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "notes", Version: "1"}, nil)
	type line struct {
		Text string `json:"text"`
	}
	answer := func(text string, err error) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, err
	}
	sdk.AddTool(s, &sdk.Tool{Name: "add_note", Description: about},
		func(_ context.Context, _ *sdk.CallToolRequest, l line) (*sdk.CallToolResult, any, error) {
			f, err := os.OpenFile("notes.txt", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return nil, nil, err
			}
			defer f.Close()
			_, err = f.WriteString(l.Text + "\n")
			return answer("added", err)
		})
	simple := func(name, about string, run func() (string, error)) {
		sdk.AddTool(s, &sdk.Tool{Name: name, Description: about},
			func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
				return answer(run())
			})
	}
	simple("delete_notes", "Delete all notes", func() (string, error) { return "deleted", os.Remove("notes.txt") })
	simple("read_notes", "Read all notes", func() (string, error) {
		b, err := os.ReadFile("notes.txt")
		return strings.TrimSpace(string(b)), err
	})
	if len(os.Args) > 2 {
		simple("environment", "Read the environment", func() (string, error) {
			return strings.Join(os.Environ(), " "), nil
		})
		simple("slow", "Wait for the file go", func() (string, error) {
			check(os.WriteFile("waits", nil, 0o600))
			return "done", until(func() bool { _, err := os.Stat("go"); return err == nil })
		})
	}
	if err := s.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		os.Exit(1)
	}
}

var errLate = errors.New("it did not come to be")

// until returns nil when a condition holds.
func until(holds func() bool) error {
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return errLate
		}
	}
	return nil
}

// said is what a process said on stderr, which goes on to ours.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(b)
	return os.Stderr.Write(b)
}

func (s *said) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), text)
}

// url returns the address that the process said.
func (s *said) url() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, rest, ok := strings.Cut(s.text.String(), "url=")
	url, _, whole := strings.Cut(rest, " ")
	if !ok || !whole {
		return ""
	}
	return url
}

// A bearer sends a token with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// talk SCRIPT COMMAND ARGS... is a client of MCP. Each line of the script is
//
//	list                  print the names of the tools
//	call TOOL ARGUMENTS   call a tool, and print what it says
//	start TOOL ARGUMENTS  call it meanwhile
//	file NAME             wait until the file is there
//	put FROM TO           copy a file
//	signal NAME           send a signal to the server
//	said TEXT             wait until the server has said the text on stderr
//	wait                  wait until the calls that were started have ended
//	run - COMMAND...      run a command, and print how it exits
//
// It prints what it is told, and exits as the server does. A command that says its url on stderr is
// asked there, with the token in the file token if there is one, and is ended by SIGTERM.
func talk() {
	script, err := os.ReadFile(os.Args[1])
	check(err)
	var errs said
	command := exec.Command(os.Args[2], os.Args[3:]...)
	command.Stderr = &errs
	ctx := context.Background()
	client := sdk.NewClient(&sdk.Implementation{Name: "talk", Version: "1"}, nil)
	overHTTP := slices.Contains(os.Args, "serve") && !slices.Contains(os.Args, "--stdio")
	var transport sdk.Transport = &sdk.CommandTransport{Command: command, TerminateDuration: time.Minute}
	if overHTTP {
		check(command.Start())
		check(until(func() bool { return errs.url() != "" }))
		token, _ := os.ReadFile("token")
		bearer := &http.Client{Transport: bearer(strings.TrimSpace(string(token)))}
		transport = &sdk.StreamableClientTransport{Endpoint: errs.url(), HTTPClient: bearer, MaxRetries: -1}
	}
	session, err := client.Connect(ctx, transport, nil)
	if err != nil && overHTTP {
		_ = command.Process.Kill()
	}
	check(err)
	var started sync.WaitGroup
	call := func(tool, args string) {
		r, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
		if err != nil {
			fmt.Println(tool + ": no answer")
			fmt.Fprintln(os.Stderr, err)
			return
		}
		fmt.Printf("%s: %s\n", tool, r.Content[0].(*sdk.TextContent).Text)
	}
	signals := map[string]os.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "KILL": os.Kill}
	for line := range strings.Lines(string(script)) {
		line = strings.TrimSpace(line)
		words := strings.SplitN(line+"  ", " ", 3)
		words[2] = strings.TrimSpace(words[2])
		switch words[0] {
		case "list":
			list, err := session.ListTools(ctx, nil)
			check(err)
			fmt.Print("the tools are")
			for _, t := range list.Tools {
				fmt.Print(" " + t.Name)
			}
			fmt.Println()
		case "call":
			call(words[1], words[2])
		case "start":
			started.Go(func() { call(words[1], words[2]) })
		case "file":
			check(until(func() bool { _, err := os.Stat(words[1]); return err == nil }))
		case "put":
			b, err := os.ReadFile(words[1])
			check(err)
			check(os.WriteFile(words[2], b, 0o600))
		case "signal":
			check(command.Process.Signal(signals[words[1]]))
			overHTTP = overHTTP && words[1] == "HUP" // else it ends
		case "said":
			check(until(func() bool { return errs.has(strings.TrimPrefix(line, "said ")) }))
		case "wait":
			started.Wait()
		case "run":
			args := strings.Fields(words[2])
			c := exec.Command(args[0], args[1:]...)
			c.Stderr = os.Stderr
			_ = c.Run()
			fmt.Printf("exit %d\n", c.ProcessState.ExitCode())
		default:
			check(errors.New(line))
		}
	}
	started.Wait()
	_ = session.Close()
	if overHTTP {
		_ = command.Process.Signal(syscall.SIGTERM)
	}
	if command.ProcessState == nil {
		_ = command.Wait()
	}
	os.Exit(command.ProcessState.ExitCode())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
