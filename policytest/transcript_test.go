package policytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// line returns what each turn says, in words that the forms have in common. The files in
// testdata/transcripts tell one story, each in its form: a text of the system, one of the user with
// an image, two calls at once whose results come in the other order, an empty call that fails, one
// without a result, and a refusal.
func line(turns []Turn) (list []string) {
	for _, t := range turns {
		switch c := t.Call; {
		case c == nil:
			list = append(list, t.Role+": "+strings.Join(t.Texts, " / "))
		case !c.Recorded:
			list = append(list, c.Tool+" "+c.Args+" -")
		default:
			list = append(list, c.Tool+" "+c.Args+" = "+c.Result+map[bool]string{true: " (failed)"}[c.Failed])
		}
	}
	return list
}

func read(t *testing.T, name string) []Turn {
	t.Helper()
	f, err := os.Open("testdata/transcripts/" + name + ".json")
	require.NoError(t, err)
	defer f.Close()
	turns, err := Transcript(f)
	require.NoError(t, err, name)
	return turns
}

func TestTranscript(t *testing.T) {
	t.Parallel()
	const system, user, bye = "system: You pay bills.", "user: Pay both. / By tonight.", "assistant: I cannot help with that."
	assert.Equal(t, []string{
		system, user, "assistant: Paying.",
		`pay {"to": "a", "sum":1} = {"paid":true}`, `pay {"to":"b","sum":2,"sum":3} = paid`,
		`list  = down`, `pay {"to": -`, bye, `old {} = done`,
	}, line(read(t, "chat")))
	assert.Equal(t, []string{
		system, user, "assistant: Paying.",
		`pay {"to": "a", "sum":1} = {"paid":true}`, `pay {"to":"b","sum":2,"sum":3} = paid`,
		`list  = down`, `pay {"to": -`, bye, `shell rm -rf / -`,
	}, line(read(t, "responses")))
	assert.Equal(t, []string{
		user, "assistant: Paying.",
		`pay {"sum":1,"to":"a"} = {"paid":true}`, `pay {"sum":2,"to":"b"} = paid`,
		"user: And the list.", `list {} = down (failed)`, `pay {} -`, bye,
	}, line(read(t, "anthropic")))
	turns := read(t, "chat")
	assert.Equal(t, []int{0, 1, 2, 2, 2, 5, 7, 8, 9}, indexes(turns))
	assert.Equal(t, "call_1", turns[3].Call.ID)
}

func indexes(turns []Turn) (list []int) {
	for _, t := range turns {
		list = append(list, t.Index)
	}
	return list
}

// TestTranscriptMixed: a message of another form, put anywhere into a transcript, is refused with
// its index, or with that of the first that does not fit it.
func TestTranscriptMixed(t *testing.T) {
	t.Parallel()
	lists := map[string][]json.RawMessage{}
	for _, name := range []string{"chat", "responses", "anthropic"} {
		text, err := os.ReadFile("testdata/transcripts/" + name + ".json")
		require.NoError(t, err)
		var of struct{ Messages, Input []json.RawMessage }
		require.NoError(t, json.Unmarshal(text, &of))
		lists[name] = append(of.Messages, of.Input...)
		require.NotEmpty(t, lists[name])
	}
	marks := map[string]string{ // a message that no other form has
		"chat":      `{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"t","arguments":"{}"}}]}`,
		"responses": `{"type":"function_call","call_id":"x","name":"t","arguments":"{}"}`,
		"anthropic": `{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"t","input":{}}]}`,
	}
	refused := 0
	for name, list := range lists {
		for other, mark := range marks {
			for at := range len(list) + 1 {
				mixed := append(append(append([]json.RawMessage{}, list[:at]...), json.RawMessage(mark)), list[at:]...)
				text, err := json.Marshal(mixed)
				require.NoError(t, err)
				turns, err := Transcript(strings.NewReader(string(text)))
				if other == name {
					assert.NoError(t, err, "%s at %d", name, at)
					continue
				}
				refused++
				require.Error(t, err, "%s in %s at %d", other, name, at)
				assert.Nil(t, turns)
				assert.Regexp(t, `^policytest: message \d+: .* is of .*, and the messages before it are of `, err.Error())
				var index int
				_, err = fmt.Sscanf(err.Error(), "policytest: message %d:", &index)
				require.NoError(t, err)
				assert.GreaterOrEqual(t, index, at)
			}
		}
	}
	assert.Greater(t, refused, 40)
}

func TestTranscriptRefused(t *testing.T) {
	t.Parallel()
	const call = `{"role":"assistant","tool_calls":[{"id":"x","function":{"name":"t","arguments":"{}"}}]}`
	const result = `{"role":"tool","tool_call_id":"x","content":"r"}`
	for text, want := range map[string]string{
		``:                                "not strict JSON",
		`[{"role":"user","role":"user"}]`: "not strict JSON",
		`{}`:                              "no transcript",
		`[]`:                              "no transcript",
		`{"messages":[]}`:                 "no transcript",
		`[1]`:                             "message 0: a message is an object",
		`[{"role":"robot"}]`:              `message 0: no role "robot"`,
		`[{"content":"a"}]`:               `message 0: no role ""`,
		`[{"role":"user","content":1}]`:   "message 0: content is a text, or a list of parts",
		`[{"role":"user","content":[{"type":"smell"}]}]`:   `message 0: content of type "smell", which is not known`,
		`[{"role":"user","content":"a"},{"type":"smell"}]`: `message 1: an item of type "smell", which is not known`,
		`[` + result + `]`: "message 0: a result of no call before it",
		`[` + call + `,` + result + `,` + result + `]`:                                            "message 2: a result of no call before it, or a second one",
		`[` + call + `,` + call + `]`:                                                             `message 1: a second call "x" before the result of the first`,
		`[` + call + `,{"role":"tool","content":"r"}]`:                                            "message 1: a result without the id of its call",
		`[{"role":"assistant","tool_calls":[{"id":"","function":{"name":"t","arguments":""}}]}]`:  "message 0: a call with an empty id",
		`[{"type":"function_call","call_id":"x","name":"","arguments":""}]`:                       "message 0: a call without the name",
		`[{"type":"function_call","call_id":"x","name":"t","arguments":{}}]`:                      "message 0: the arguments of a call are a string",
		`[{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"t","input":"{}"}]}]`: "message 0: the input of a tool_use is an object",
		`[{"role":"assistant","tool_calls":[{"id":"x","type":"smell"}]}]`:                         `message 0: a call of type "smell"`,
		`[` + call + `,{"role":"tool","tool_call_id":"x","content":{}}]`:                          "message 1: a result is a text, or a list",
	} {
		turns, err := Transcript(strings.NewReader(text))
		assert.ErrorContains(t, err, "policytest: ", text)
		assert.ErrorContains(t, err, want, text)
		assert.Nil(t, turns)
	}
	broken := errors.New("broken")
	_, err := Transcript(iotest.ErrReader(broken))
	assert.ErrorIs(t, err, broken)
	turns, err := Transcript(strings.NewReader(`[` + call + `,` + result + `,` + call + `,` + result + `]`))
	require.NoError(t, err, "an id that is used again after its result")
	assert.Len(t, turns, 2)
}

// TestTranscriptText: a transcript of texts alone is one in each form, and the input of a request
// may be a text.
func TestTranscriptText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`: "[user: a assistant: b]",
		`{"model":"m","input":"a"}`: "[user: a]",
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`: "[user: a]",
		`[{"role":"user","content":null}]`:                                      "[]",
	} {
		turns, err := Transcript(strings.NewReader(text))
		require.NoError(t, err, text)
		assert.Equal(t, want, fmt.Sprint(line(turns)))
	}
}

// FuzzTranscript: whatever the text, each call has a tool, and the turns are in the order of the
// messages.
func FuzzTranscript(f *testing.F) {
	for _, name := range []string{"chat", "responses", "anthropic"} {
		text, err := os.ReadFile("testdata/transcripts/" + name + ".json")
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		turns, err := Transcript(strings.NewReader(text))
		if err != nil {
			require.Nil(t, turns)
			return
		}
		last := 0
		for _, x := range turns {
			require.GreaterOrEqual(t, x.Index, last)
			last = x.Index
			require.True(t, x.Call == nil || x.Call.Tool != "" && len(x.Texts) == 0)
			require.True(t, x.Call == nil || x.Call.Recorded || x.Call.Result == "" && !x.Call.Failed)
		}
	})
}

func BenchmarkTranscript(b *testing.B) {
	var text strings.Builder
	text.WriteString(`[{"role":"user","content":"go"}`)
	for i := range 500 {
		fmt.Fprintf(&text, `,{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function","function":`+
			`{"name":"t","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c%d","content":"done"}`, i, i)
	}
	text.WriteString(`]`)
	for b.Loop() {
		if turns, err := Transcript(strings.NewReader(text.String())); err != nil || len(turns) != 501 {
			b.Fatal(err)
		}
	}
}
