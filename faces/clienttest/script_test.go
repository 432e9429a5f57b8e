package clienttest

import (
	"fmt"
	"strings"
)

// A step is what the model says in one turn.
type step struct {
	text  string
	calls []call
}

// A call is a call of a tool, with its arguments in canonical form.
type call struct{ tool, args string }

func (c call) String() string { return c.tool + " " + c.args }

func look(at int) call { return call{"look", fmt.Sprintf(`{"at":%d}`, at)} }

func mail(to string) call { return call{"mail", fmt.Sprintf(`{"to":%q}`, to)} }

// touch is a command of codex.
func touch(file string) call { return call{"exec_command", fmt.Sprintf(`{"cmd":"touch %s"}`, file)} }

// bash is the same for pi.
func bash(file string) call { return call{"bash", fmt.Sprintf(`{"command":"touch %s"}`, file)} }

var pay = call{"pay", `{"sum":9}`}

// long is a text of many fragments, with characters of one to four bytes.
var long = strings.Repeat("The log holds what was judged: é, ✓ and 🗝. ", 2_000)

// scripts are what the model says, by the name of the model: a step a turn, and "done." then. The
// model "broken" answers with an error.
var scripts = map[string][]step{
	"mixed":    {{"I look first.", []call{look(1), mail("all"), look(2)}}},
	"denied":   {{"I write.", []call{mail("all"), mail("all of them")}}},
	"approval": {{"", []call{pay}}},
	"long":     {{long, []call{look(1)}}, {long, nil}},
	"turns": {{"One.", []call{look(1)}}, {"", []call{look(2), look(3)}}, {"Three.", []call{look(4)}},
		{"", []call{look(5)}}, {"Five.", []call{look(6)}}},
	"day": {{"One.", []call{look(1)}}, {"", []call{look(2), look(3)}}, {"Three.", []call{look(4), mail("all")}},
		{"", []call{look(5)}}, {"Five.", nil}},
	"pi":    {{"I touch two files.", []call{bash("allowed"), bash("denied")}}, {"And one more.", []call{bash("last")}}},
	"codex": {{"I touch two files.", []call{touch("allowed"), touch("denied")}}},
}

// at returns the step of a turn.
func at(model string, turn int) step {
	if s := scripts[model]; turn < len(s) {
		return s[turn]
	}
	return step{text: "done."}
}

// fragments cuts a text between characters, into pieces of about n bytes.
func fragments(s string, n int) (list []string) {
	for s != "" {
		end := min(n, len(s))
		for end < len(s) && s[end]&0xc0 == 0x80 {
			end++
		}
		list = append(list, s[:end])
		s = s[end:]
	}
	return list
}
