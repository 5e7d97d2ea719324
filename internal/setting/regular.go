package setting

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// StatRegular refuses anything but a regular file: a reload reads it again.
func StatRegular(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fileError{err}
	case info.IsDir():
		return nil, errors.New("is a folder; name a file")
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file; it must be one, because it is read again at a reload")
	}
	return info, nil
}

// ReadRegular reads a regular file of at most that many bytes.
func ReadRegular(path string, most int64) ([]byte, fs.FileInfo, error) {
	// Stat before open: opening a named pipe would wait for its writer.
	info, err := StatRegular(path)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fileError{err}
	}
	defer f.Close()
	var data bytes.Buffer
	data.Grow(int(min(info.Size(), most)) + bytes.MinRead)
	if _, err := data.ReadFrom(io.LimitReader(f, most+1)); err != nil {
		return nil, nil, fileError{err}
	}
	if int64(data.Len()) > most {
		return nil, nil, fmt.Errorf("is larger than %d KiB; is this the right file?", most>>10)
	}
	return data.Bytes(), info, nil
}

// fileError is an error of the file system in plain words, without the path.
type fileError struct{ error }

// Unwrap gives the error itself, with the path.
func (e fileError) Unwrap() error { return e.error }

// Error says what to do.
func (e fileError) Error() string {
	switch {
	case errors.Is(e.error, fs.ErrNotExist):
		return "no such file; check the path"
	case errors.Is(e.error, fs.ErrPermission):
		return "may not be read by this user; check its mode and owner"
	}
	if pathErr, ok := errors.AsType[*fs.PathError](e.error); ok {
		return "cannot be read: " + pathErr.Err.Error()
	}
	return "cannot be read: " + e.error.Error()
}
