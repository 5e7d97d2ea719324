package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"unicode/utf8"
)

// maxFileBytes bounds the configuration file. A large one with two mapped
// endpoints has about 10 KiB.
const maxFileBytes = 256 << 10

// readSource reads the configuration file, bounded, without a byte order mark.
func readSource(path string) ([]byte, error) {
	// Stat before open: opening a named pipe would wait for its writer.
	info, err := os.Stat(path)
	if err != nil {
		return nil, fileError(err)
	}
	if err := regular(info); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fileError(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fileError(err)
	}
	return cleanSource(data)
}

func cleanSource(data []byte) ([]byte, error) {
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("is larger than %d KiB; a configuration is a few KiB, is this the right file?", maxFileBytes>>10)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(data) {
		return nil, errors.New("is not UTF-8 text; save it as UTF-8")
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, errors.New("holds a NUL byte; is this the right file?")
	}
	return data, nil
}

// regular refuses what cannot be read again at a reload.
func regular(info fs.FileInfo) error {
	if info.IsDir() {
		return errors.New("is a folder; name a file")
	}
	if !info.Mode().IsRegular() {
		return errors.New("is not a regular file; it must be one, because it is read again at a reload")
	}
	return nil
}

// fileError says what went wrong without repeating the path.
func fileError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("no such file; check the path")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("may not be read by this user; check its mode and owner")
	}
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("cannot be read: %w", pathErr.Err)
	}
	return fmt.Errorf("cannot be read: %w", err)
}
