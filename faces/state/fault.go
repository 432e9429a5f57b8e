package state

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

func faulty(where, what, remedy string, cause error) error {
	return &Fault{where, what, remedy, cause}
}
