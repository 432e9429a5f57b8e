package state

import (
	"errors"
	"io/fs"
	"os"
)

// barred adds to an error of the system that this process may not do something what to do about
// it. It returns all other errors as they are.
func barred(err error) error {
	var own *Fault
	if err == nil || errors.As(err, &own) || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errReadOnly) {
		return err
	}
	var file *fs.PathError
	var link *os.LinkError
	where := ""
	switch {
	case errors.As(err, &file):
		where, err = file.Path, file.Err
	case errors.As(err, &link):
		where, err = link.New, link.Err
	default:
		return err
	}
	const remedy = "run helm as the user whose file it is, and let that user read and write there"
	return faulty(where, err.Error(), remedy, err)
}
