package clienttest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/state"
)

var conversations = flag.Int("conversations", 500, "how many conversations a long day has")

// TestServe is the process of TestDay: a proxy that serves until its standard input ends.
func TestServe(t *testing.T) {
	dir := os.Getenv("HELM_DAY")
	if dir == "" {
		t.Skip("it is the process of TestDay")
	}
	conf, err := state.ReadConfig(filepath.Join(dir, "helm.yaml"))
	require.NoError(t, err)
	s, err := state.Open(context.Background(), conf, state.Options{})
	require.NoError(t, err)
	url, end := serve(t, s, conf, os.Getenv("HELM_DAY_PROVIDER"), auth.Options{Denials: 1 << 20})
	fmt.Printf("\nserves %s\n", url)
	_, err = io.Copy(io.Discard, os.Stdin)
	require.NoError(t, err)
	end()
	require.NoError(t, s.Close(context.Background()))
}

// A day is clients who ask a proxy in a process of its own, which is killed once.
type day struct {
	testing.TB
	dir      string
	provider *provider
	client   *http.Client

	mu      sync.Mutex
	process *exec.Cmd
	stdin   io.Closer
	url     string
	changed chan struct{} // closed when url is another one

	ended                               atomic.Int64 // conversations
	received, confirmed, cut, kills     atomic.Int64 // calls that apps got, results that arrived, and that nobody knows of
	denials, disconnected, disagreement atomic.Int64
}

// start starts the process.
func (d *day) start() {
	cmd := exec.Command(os.Args[0], "-test.run=^TestServe$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), "HELM_DAY="+d.dir, "HELM_DAY_PROVIDER="+d.provider.url)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(d, err)
	out, err := cmd.StdoutPipe()
	require.NoError(d, err)
	require.NoError(d, cmd.Start())
	lines, url := bufio.NewScanner(out), ""
	for url == "" {
		require.True(d, lines.Scan(), "the process serves")
		url, _ = strings.CutPrefix(lines.Text(), "serves ")
		if !strings.HasPrefix(url, "http") {
			url = ""
		}
	}
	go func() {
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "---") || strings.HasPrefix(lines.Text(), " ") {
				fmt.Fprintln(os.Stderr, lines.Text())
			}
		}
	}()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.process, d.stdin, d.url = cmd, in, url
	if d.changed != nil {
		close(d.changed)
	}
	d.changed = make(chan struct{})
}

// kill kills the process, and starts another.
func (d *day) kill() {
	require.NoError(d, d.process.Process.Kill())
	_ = d.process.Wait()
	d.kills.Add(1)
	d.start()
}

// where returns the address of the process, and what is closed when it is another.
func (d *day) where() (string, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.url, d.changed
}

var errDisconnected = errors.New("the client went away")

// post asks, and goes away after so many bytes if they are not negative. heard reports whether the
// proxy began to answer: the results of the request are recorded then.
func (d *day) post(url, session, path string, body object, after int) (answer []byte, heard bool, err error) {
	text, err := json.Marshal(body)
	require.NoError(d, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, bytes.NewReader(text))
	require.NoError(d, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Helm-Session", session)
	resp, err := d.client.Do(r)
	if err != nil {
		return nil, false, err
	}
	defer resp.Body.Close()
	if after >= 0 {
		_, err = io.CopyN(io.Discard, resp.Body, int64(after))
		cancel()
		return nil, true, errors.Join(errDisconnected, err)
	}
	answer, err = io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		d.disagreement.Add(1)
		return nil, true, fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return answer, true, err
}

// talk is a conversation: it ends when the model says that it is done.
func (d *day) talk(n int) {
	random := rand.New(rand.NewPCG(7, uint64(n)))
	speaks := []func() speaker{
		func() speaker { return &chatting{list: []any{object{"role": "user", "content": "Go on."}}} },
		func() speaker { return &responding{list: []any{object{"role": "user", "content": "Go on."}}} },
	}[n%2]()
	stream, open := n%4 < 2, 0 // open: results that the next request carries
	session := fmt.Sprintf("day-%d", n)
	for turn := 0; ; {
		if turn > 20 {
			d.Errorf("conversation %d does not end", n)
			return
		}
		url, changed := d.where()
		after := -1
		if random.IntN(20) == 0 {
			after = random.IntN(3000)
		}
		path, body := speaks.request(stream)
		answer, heard, err := d.post(url, session, path, body, after)
		if heard {
			d.confirmed.Add(int64(open))
			open = 0
		}
		if err == nil {
			calls, refusals, whole := speaks.take(answer, stream)
			d.denials.Add(int64(refusals))
			if !whole {
				err = fmt.Errorf("an answer that is not whole: %s", answer)
			} else if len(calls) == 0 {
				return
			} else {
				for _, c := range calls {
					if !strings.HasPrefix(c, `look {"at":`) {
						d.Errorf("conversation %d got the call %s", n, c)
					}
				}
				d.received.Add(int64(len(calls)))
				open = len(calls)
				turn++
				continue
			}
		}
		if errors.Is(err, errDisconnected) {
			d.disconnected.Add(1)
			continue
		}
		// The process was killed: what the request carried may be recorded or not.
		if open > 0 {
			d.cut.Add(int64(open))
			open = 0
		}
		select {
		case <-changed:
		case <-time.After(time.Minute):
			d.Errorf("conversation %d: %v", n, err)
			return
		}
	}
}

// A speaker is an app's side of a conversation.
type speaker interface {
	request(stream bool) (path string, body object)

	// take takes an answer, runs the calls in it, and returns them, the number of refusals, and
	// whether the answer was whole.
	take(answer []byte, stream bool) (calls []string, refusals int, whole bool)
}

// events returns the data of a stream.
func events(answer []byte) (list []object) {
	for line := range strings.Lines(string(answer)) {
		if data, ok := strings.CutPrefix(line, "data: {"); ok {
			var o object
			if json.Unmarshal([]byte("{"+data), &o) == nil {
				list = append(list, o)
			}
		}
	}
	return list
}

type chatting struct{ list []any }

func (c *chatting) request(stream bool) (string, object) {
	var tools []object
	for name, s := range schemas {
		tools = append(tools, object{"type": "function", "function": object{"name": name, "parameters": s}})
	}
	return "/v1/chat/completions", object{"model": "day", "stream": stream, "messages": c.list, "tools": tools}
}

func (c *chatting) take(answer []byte, stream bool) (calls []string, refusals int, whole bool) {
	said := object{"role": "assistant"}
	if stream {
		var words string
		var list []any
		for _, e := range events(answer) {
			for _, choice := range objects(e["choices"]) {
				delta, _ := choice["delta"].(object)
				words += text(delta["content"])
				for _, call := range objects(delta["tool_calls"]) { // whole ones, as HELM sends them
					delete(call, "index")
					list = append(list, call)
				}
			}
		}
		whole = bytes.HasSuffix(answer, []byte("data: [DONE]\n\n"))
		said["content"] = words
		if list != nil {
			said["tool_calls"] = list
		}
	} else {
		var o object
		if json.Unmarshal(answer, &o) == nil {
			for _, choice := range objects(o["choices"]) {
				said, whole = choice["message"].(object)
			}
		}
	}
	if !whole {
		return nil, 0, false
	}
	c.list = append(c.list, said)
	for _, call := range objects(said["tool_calls"]) {
		f, _ := call["function"].(object)
		calls = append(calls, text(f["name"])+" "+text(f["arguments"]))
		c.list = append(c.list, object{"role": "tool", "tool_call_id": call["id"], "content": "ran"})
	}
	return calls, strings.Count(text(said["content"]), "[helm] "), true
}

type responding struct{ list []any }

func (c *responding) request(stream bool) (string, object) {
	var tools []object
	for name, s := range schemas {
		tools = append(tools, object{"type": "function", "name": name, "parameters": s, "strict": true})
	}
	return "/v1/responses", object{"model": "day", "stream": stream, "input": c.list, "tools": tools, "store": false}
}

func (c *responding) take(answer []byte, stream bool) (calls []string, refusals int, whole bool) {
	var o object
	if stream {
		for _, e := range events(answer) {
			if e["type"] == "response.completed" {
				o, whole = e["response"].(object)
			}
		}
	} else {
		whole = json.Unmarshal(answer, &o) == nil
	}
	if !whole {
		return nil, 0, false
	}
	output := objects(o["output"])
	for _, item := range output {
		c.list = append(c.list, item)
		for _, part := range objects(item["content"]) {
			refusals += strings.Count(text(part["text"]), "[helm] ")
		}
	}
	for _, item := range output {
		if item["type"] == "function_call" {
			calls = append(calls, text(item["name"])+" "+text(item["arguments"]))
			c.list = append(c.list, object{"type": "function_call_output", "call_id": item["call_id"], "output": "ran"})
		}
	}
	return calls, refusals, true
}

// TestDay: many clients ask at once, some go away in the middle of an answer, and the process is
// killed once. In the end the log is whole, and has what the apps had.
func TestDay(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long")
	}
	d := &day{TB: t, dir: create(t, rules, state.CreateOptions{}), provider: newProvider(t),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	d.start()
	began := time.Now()
	next := make(chan int)
	var clients sync.WaitGroup
	for range 64 {
		clients.Go(func() {
			for n := range next {
				d.talk(n)
				d.ended.Add(1)
			}
		})
	}
	// A call whose client went away stays open for the tool's time limit of 30 s, and 1,024 may be
	// open: more of them would be refused unjudged.
	pace := time.NewTicker(15 * time.Millisecond)
	defer pace.Stop()
	for n := range *conversations {
		if n == *conversations/2 {
			d.kill()
		}
		<-pace.C
		next <- n
	}
	close(next)
	clients.Wait()
	took := time.Since(began)
	require.NoError(t, d.stdin.Close())
	require.NoError(t, d.process.Wait(), "the process ends when it was asked to")

	conf, err := state.ReadConfig(filepath.Join(d.dir, "helm.yaml"))
	require.NoError(t, err)
	s, err := state.Open(context.Background(), conf, state.Options{})
	require.NoError(t, err)
	w := &world{TB: t, State: s}
	defer s.Close(context.Background())
	_, err = s.Kernel().Checkpoint(context.Background())
	require.NoError(t, err)
	r, err := evidence.VerifyStore(context.Background(), s.Store(), evidence.Options{Trust: s.Kernel().Trust()})
	require.NoError(t, err)
	require.True(t, r.Success(evidence.Logged), "%v", r)
	assert.Empty(t, r.Open)
	got, size := w.outcomes(0)
	t.Logf("%d conversations in %v: %d entries, %v; the apps got %d calls, reported %d, and %d that the kill cut; "+
		"%d disconnects", *conversations, took.Round(time.Millisecond), size, got, d.received.Load(),
		d.confirmed.Load(), d.cut.Load(), d.disconnected.Load())
	assert.Zero(t, d.disagreement.Load(), "answers that are no answers")
	assert.Positive(t, d.disconnected.Load())
	assert.EqualValues(t, 1, d.kills.Load())
	executed := int64(got["look EXECUTED"])
	assert.GreaterOrEqual(t, executed, d.confirmed.Load(), "a result that was told is recorded")
	assert.LessOrEqual(t, executed, d.confirmed.Load()+d.cut.Load(), "nothing is recorded that nobody told")
	assert.EqualValues(t, 5**conversations, d.received.Load())
	assert.Equal(t, d.received.Load(), d.confirmed.Load()+d.cut.Load())
	assert.GreaterOrEqual(t, executed+int64(got["look INDETERMINATE"]), d.received.Load())
	assert.GreaterOrEqual(t, int64(got["mail DENIED"]), d.denials.Load())
	assert.GreaterOrEqual(t, d.denials.Load(), int64(*conversations)*9/10, "a denial a conversation, but for those cut")
	for what := range got {
		assert.Contains(t, []string{"look EXECUTED", "look INDETERMINATE", "mail DENIED",
			"look DENIED closed", "mail DENIED closed"}, what, "closed: the client went away before it was judged")
	}
}
