package state

import (
	"errors"
	"fmt"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// A Fault is something that is wrong with a configuration or a state directory.
type Fault struct {
	Where  string `json:"where"`            // the file, with line and column if it has lines
	What   string `json:"what"`             // is wrong
	Remedy string `json:"remedy,omitempty"` // what to do; empty if What says it

	cause error
}

func (f *Fault) Error() string {
	s := f.Where + ": " + f.What
	if f.Remedy != "" {
		s += "; " + f.Remedy
	}
	return s
}

// Unwrap returns the cause, or nil.
func (f *Fault) Unwrap() error { return f.cause }

// said returns what is wrong with a file that was read, without the names of packages.
func said(err error) string {
	var syntax *crypto.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Sprintf("not strict JSON: %s at byte %d", syntax.What, syntax.Offset)
	}
	text := err.Error()
	for _, of := range []string{"registry: ", "trust state: ", "crypto: ", "key file: "} {
		text = strings.TrimPrefix(text, of)
	}
	return text
}

func faulty(where, what, remedy string, cause error) error {
	return &Fault{where, what, remedy, cause}
}
