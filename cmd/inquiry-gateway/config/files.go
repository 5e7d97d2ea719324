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

// fileRef is one file in the configuration: a setting.File, or a text whose key
// ends in _file, which another package reads.
type fileRef struct {
	key   string
	value reflect.Value
}

// path is as the file says it, or absolute after set.
func (r fileRef) path() string {
	if f, ok := r.value.Interface().(setting.File); ok {
		return f.Path()
	}
	return r.value.String()
}

// set keeps the text only where the value is a setting.File.
func (r fileRef) set(path, text string) {
	if r.value.Kind() == reflect.String {
		r.value.SetString(path)
		return
	}
	r.value.Set(reflect.ValueOf(setting.NewFile(path, text)))
}

// fileRefs finds the paths in a value, in the order of its fields. Maps are not
// looked into: their keys are the writer's own and say nothing of the value.
func fileRefs(v reflect.Value, key string) []fileRef {
	var refs []fileRef
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			refs = fileRefs(v.Elem(), key)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[setting.File]() {
			return []fileRef{{key, v}}
		}
		for _, f := range yamlfile.FieldsOf(v.Type()) {
			refs = append(refs, fileRefs(v.FieldByIndex(f.Index), yamlfile.Join(key, f.Key))...)
		}
	case reflect.Slice:
		for i := range v.Len() {
			refs = append(refs, fileRefs(v.Index(i), yamlfile.Item(key, i))...)
		}
	case reflect.String:
		if strings.HasSuffix(key, "_file") && v.CanSet() {
			refs = append(refs, fileRef{key, v})
		}
	}
	return refs
}

// keysFile is the key of the one file that is not read here but by its own package, which has its
// own bound for it and reads it on its own at a reload.
const keysFile = "auth.keys_file"

// maxNamedFile bounds the content of each other one.
const maxNamedFile = 1 << 20

// readFiles makes the paths absolute, from the configuration file's folder,
// reads the files, and reports those that cannot be used.
func (doc document) readFiles(into any, keysMayMiss bool) {
	folder := filepath.Dir(doc.Path)
	for _, ref := range fileRefs(reflect.ValueOf(into).Elem(), "") {
		written := ref.path()
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
			doc.Suppress(ref.key) // what follows from it is not told
		} else if secret(ref.key) && info.Mode().Perm()&0o004 != 0 {
			doc.Warn(ref.key, "%s can be read by every user of this machine; chmod 640 or 600 it", path)
		}
		doc.files[path] = info
		ref.set(path, text)
	}
}

// statKeys tells whether the keys file is there.
func (doc document) statKeys(path string, mayMiss bool) (fs.FileInfo, error) {
	info, err := setting.StatRegular(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err == nil || missing && mayMiss {
		return info, nil
	}
	if missing {
		err = fmt.Errorf("%w; a first key makes the file: keys new -c FILE --kind buyer --account ID --api-access paid", err)
	}
	if doc.At(keysFile) == nil {
		path += " (the default)"
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}

// readNamed reads a file that is written with that name, which is the given path. It refuses an empty one:
// a secret that was not written yet would be no secret. An error does not show what may be the
// secret itself, written in the place of the name of its file.
func readNamed(written, path, folder string) (string, fs.FileInfo, error) {
	data, info, err := setting.ReadRegular(path, maxNamedFile)
	switch {
	case err != nil && !isName(written, path):
		place := ""
		if folder != "" && !filepath.IsAbs(written) {
			place = " in " + folder
		}
		err = fmt.Errorf("there is no such file%s; write the name of a file here, never its content", place)
	case err != nil:
		err = fmt.Errorf("%s: %w", path, err)
	case len(bytes.TrimSpace(data)) == 0:
		err = fmt.Errorf("%s: is empty", path)
	}
	return string(data), info, err
}

// isName tells the name of a file that is missing from a secret that was pasted in its place: by
// a file of that name that cannot be read, or by the folder in it.
func isName(written, path string) bool {
	if _, err := os.Lstat(path); err == nil {
		return true
	}
	folder := filepath.Dir(path)
	_, err := os.Stat(folder)
	return err == nil && written != filepath.Base(written) && folder != "/"
}

// ReadFile reads the file of a secret that a flag of a command names instead of the configuration;
// no name is no file.
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

// secret tells whether a file's content must be kept from others. Certificates
// are for everybody, and the keys file holds hashes only.
func secret(key string) bool {
	notSecret := []string{"ca_file", "cert_file", "keys_file"}
	return !slices.Contains(notSecret, key[strings.LastIndex(key, ".")+1:])
}
