package office

import (
	"fmt"

	"github.com/helmkernel/helm"
)

// A Call is one that the model makes.
type Call struct {
	Tool, Args string
	Before     func(*Office) error // what happens before the model makes it
}

// Refund is what a model does that is set on a refund: it looks the invoice up, tries too much,
// tries a tool that does not exist, and asks for what is owed, before and after an approver
// answered.
var Refund = []Call{
	{Tool: "invoice_find", Args: `{"number":"4711"}`},
	{Tool: "invoice_refund", Args: `{"amount":9000,"number":"4711"}`},
	{Tool: "invoice_delete", Args: `{"number":"4711"}`},
	{Tool: "invoice_refund", Args: `{"amount":80,"number":"4711"}`},
	{Tool: "invoice_refund", Args: `{"amount":80,"number":"4711"}`, Before: (*Office).Answer},
}

// Bob returns the caller that the agents work for. A program has them from the login, and
// never from a model.
func Bob() helm.Caller { return helm.Caller{ID: "bob", Roles: []string{"clerk"}} }

// A Script is the model: it plays calls, and keeps what it was told of each.
type Script struct {
	Calls []Call
	Told  []string

	office *Office
	next   int
}

// Next takes what the model was told of its last call, and returns its next one. ok is false after
// the last.
func (s *Script) Next(told string) (c Call, ok bool, err error) {
	if s.next > 0 {
		s.Told = append(s.Told, told)
		fmt.Fprintf(s.office.out, "model  is told %s\n", told)
	}
	if s.next == len(s.Calls) {
		return Call{}, false, nil
	}
	c = s.Calls[s.next]
	s.next++
	if c.Before != nil {
		if err := c.Before(s.office); err != nil {
			return Call{}, false, err
		}
	}
	fmt.Fprintf(s.office.out, "model  calls %s %s\n", c.Tool, c.Args)
	return c, true, nil
}
