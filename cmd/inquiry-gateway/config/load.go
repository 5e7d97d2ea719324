package config

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"unicode/utf8"
)

// Schema is config.schema.json: the JSON Schema (2020-12) of the configuration file, made
// from the structs that the file is read into.
//
//go:embed config.schema.json
var Schema []byte

// Options of Load; the zero value is what serve uses.
type Options struct {
	// Env looks up the variables of ${NAME}; nil is os.LookupEnv.
	Env func(name string) (value string, set bool)
	// MayMiss lists keys, such as auth.keys_file, and sections, such as canary,
	// whose files need not exist yet, for the commands that make them.
	MayMiss []string
}

// Loaded is a valid configuration with what was doubtful on the way.
type Loaded struct {
	Config   Config
	Warnings Problems // may be empty; nothing here keeps the gateway from working
}

// Load reads and checks the file at path. Variables are put in, paths made
// absolute from the file's folder, and the files they name looked at. The
// error is a Problems with everything found; the Loaded is then of no use.
func Load(path string, o Options) (Loaded, error) {
	return load(readDocument(path, o.env()), o)
}

// env is Env or its default.
func (o Options) env() func(string) (string, bool) {
	if o.Env == nil {
		return os.LookupEnv
	}
	return o.Env
}

// load goes on after each problem, so that one run shows all. Its order matters: keys
// that stand in the place of files are refused before an error could name the file.
func load(doc *document, o Options) (Loaded, error) {
	c := Default()
	c.path, c.file, c.files = doc.path, doc.root, doc.files
	if doc.root != nil {
		if !doc.has("auth.keys_file") && (doc.has("auth.redis") || doc.has("auth.introspection")) {
			c.Auth.KeysFile = "" // the default gives way to the source that was chosen
		}
		doc.into(&c)
		doc.refuseKeys(c.Canary)
		doc.resolveFiles(&c, o.MayMiss)
		doc.check(c)
	}
	if err := doc.err(); err != nil {
		return Loaded{Warnings: doc.warnings}, err
	}
	return Loaded{Config: c, Warnings: doc.warnings}, nil
}

// maxFileBytes bounds the configuration file. A large one with two mapped
// endpoints has about 10 KiB.
const maxFileBytes = 256 << 10

// readRegular reads a file of at most that many bytes, and no other than a regular
// one: a reload reads it again.
func readRegular(path string, most int64) ([]byte, fs.FileInfo, error) {
	// Stat before open: opening a named pipe would wait for its writer.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, nil, fileError{err}
	case info.IsDir():
		return nil, nil, errors.New("is a folder; name a file")
	case !info.Mode().IsRegular():
		return nil, nil, errors.New("is not a regular file; it must be one, because it is read again at a reload")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fileError{err}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, nil, fileError{err}
	}
	if int64(len(data)) > most {
		return nil, nil, fmt.Errorf("is larger than %d KiB; is this the right file?", most>>10)
	}
	return data, info, nil
}

// cleanSource takes off a byte order mark and refuses what is no text.
func cleanSource(data []byte) ([]byte, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(data) {
		return nil, errors.New("is not UTF-8 text; save it as UTF-8")
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, errors.New("holds a NUL byte; is this the right file?")
	}
	return data, nil
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
