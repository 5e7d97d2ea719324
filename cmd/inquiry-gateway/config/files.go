package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/yamlfile"
)

// fileRef is a file that the configuration names, and its key.
type fileRef struct {
	key  string
	file *setting.File
}

// fileRefs returns the files that a section names, in the order of its fields, but for maps.
func fileRefs(v reflect.Value, key string) []fileRef {
	if file, ok := v.Addr().Interface().(*setting.File); ok {
		return []fileRef{{key, file}}
	}
	var refs []fileRef
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			refs = fileRefs(v.Elem(), key)
		}
	case reflect.Struct:
		for _, f := range yamlfile.FieldsOf(v.Type()) {
			refs = append(refs, fileRefs(v.FieldByIndex(f.Index), yamlfile.Join(key, f.Key))...)
		}
	case reflect.Slice:
		for i := range v.Len() {
			refs = append(refs, fileRefs(v.Index(i), yamlfile.Item(key, i))...)
		}
	}
	return refs
}

// keysFile is the key of the file that is read by its own package, which has its own size limit and reloads it.
const keysFile = "auth.keys_file"

// maxNamedFile is the size limit of each other file.
const maxNamedFile = 1 << 20

// readFiles makes the paths absolute, relative to the configuration file's folder, reads the files, and reports those that cannot
// be used.
func (doc document) readFiles(into any, keysMayMiss bool) {
	folder := filepath.Dir(doc.Path)
	for _, ref := range fileRefs(reflect.ValueOf(into).Elem(), "") {
		written := ref.file.Path()
		if written == "" || doc.Suppressed(ref.key) {
			continue
		}
		path := written
		if !filepath.IsAbs(path) {
			path = filepath.Join(folder, path)
		}
		var text string
		var info fs.FileInfo
		var err error
		if ref.key == keysFile {
			info, err = doc.statKeys(path, keysMayMiss)
		} else {
			text, info, err = readNamed(written, path, folder)
		}
		if err != nil {
			doc.Errorf(ref.key, "%v", err)
			doc.Suppress(ref.key)
		} else if secret(ref.key) && info.Mode().Perm()&0o004 != 0 {
			doc.Warn(ref.key, "every user of this machine can read %s; set its mode to 640 or 600", path)
		}
		doc.files[path] = info
		*ref.file = setting.NewFile(path, text)
	}
}

// statKeys returns an error if there is no keys file.
func (doc document) statKeys(path string, mayMiss bool) (fs.FileInfo, error) {
	info, err := setting.StatRegular(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err == nil || missing && mayMiss {
		return info, nil
	}
	if missing {
		err = fmt.Errorf("%w; the first key creates it: keys new -c FILE --kind buyer --account ID --api-access paid", err)
	}
	if doc.At(keysFile) == nil {
		path += " (the default)"
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}

// readNamed reads the file at path, which the configuration calls written. It refuses an empty file, because a secret may not
// have been written yet. An error does not show a secret that was written in place of the name of its file.
func readNamed(written, path, folder string) (string, fs.FileInfo, error) {
	data, info, err := setting.ReadRegular(path, maxNamedFile)
	switch {
	case err != nil && !isName(written, path):
		place := ""
		if folder != "" && !filepath.IsAbs(written) {
			place = " in " + folder
		}
		err = fmt.Errorf("no such file%s; write the name of a file, never its content", place)
	case err != nil:
		err = fmt.Errorf("%s: %w", path, err)
	case len(bytes.TrimSpace(data)) == 0:
		err = fmt.Errorf("%s: is empty", path)
	}
	return string(data), info, err
}

// isName reports whether written is the name of a file and not a pasted secret: it exists but cannot be read, or its folder
// exists.
func isName(written, path string) bool {
	if _, err := os.Lstat(path); err == nil {
		return true
	}
	folder := filepath.Dir(path)
	_, err := os.Stat(folder)
	return err == nil && written != filepath.Base(written) && folder != "/"
}

// ReadFile reads the file of a secret that a command's flag names. Without a name the result is the zero value.
func ReadFile(flag, path string) (setting.File, error) {
	if path == "" {
		return setting.File{}, nil
	}
	text, _, err := readNamed(path, path, "")
	if err != nil {
		return setting.File{}, fmt.Errorf("--%s: %w", flag, err)
	}
	return setting.NewFile(path, text), nil
}

// secret reports whether a file must not be readable for others. Certificates are public, and the keys file holds hashes only.
func secret(key string) bool {
	notSecret := []string{"ca_file", "cert_file", "keys_file"}
	return !slices.Contains(notSecret, key[strings.LastIndex(key, ".")+1:])
}
