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

// resolveFiles makes the paths absolute, from the configuration file's folder,
// reads the files, and reports those that cannot be used. Files in mayMiss need
// not exist yet.
func (doc document) resolveFiles(into any, mayMiss []string) {
	for _, ref := range fileRefs(reflect.ValueOf(into).Elem(), "") {
		written := ref.path()
		if written == "" || doc.Follows(ref.key) {
			continue
		}
		path := written
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(doc.Path), path)
		}
		ref.set(path, doc.readFile(ref.key, written, path, slices.Contains(mayMiss, ref.key)))
	}
}

// keysFile is the key of the one file that is not read here but by its own package, which has its
// own bound for it and reads it on its own at a reload.
const keysFile = "auth.keys_file"

// readFile gives a file's content, or reports why it cannot be used.
func (doc document) readFile(key, written, path string, mayMiss bool) string {
	text, info, err := "", fs.FileInfo(nil), error(nil)
	if key == keysFile {
		info, err = yamlfile.StatRegular(path)
	} else {
		text, info, err = readText(path)
	}
	doc.files[path] = info
	if mayMiss && errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil && info == nil && key != keysFile && !isName(written, path) {
		err = errNoFile
		if !filepath.IsAbs(written) {
			err = fmt.Errorf("%w in %s", errNoFile, filepath.Dir(doc.Path))
		}
		doc.Wrong(key, "%v; %s", err, notItself)
		doc.Touch(key)
		return ""
	}
	if err != nil {
		if !doc.Has(key) {
			path += " (the default)"
		}
		if key == keysFile && errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; a first key makes the file: keys new -c FILE --kind buyer --account ID --api-access paid", err)
		}
		doc.Wrong(key, "%s: %v", path, err)
		doc.Touch(key) // what follows from it is not told
		return ""
	}
	if secret(key) && info.Mode().Perm()&0o004 != 0 {
		doc.Warn(key, "%s can be read by every user of this machine; chmod 640 or 600 it", path)
	}
	return text
}

// readText refuses an empty file: a secret that was not written yet would be no secret.
func readText(path string) (string, fs.FileInfo, error) {
	data, info, err := yamlfile.ReadRegular(path, setting.MaxBytes)
	if err == nil && len(bytes.TrimSpace(data)) == 0 {
		err = errors.New("is empty")
	}
	return string(data), info, err
}

// notItself is for a secret that may stand where the name of its file belongs: it is not shown.
const notItself = "write the name of a file here, never its content"

var errNoFile = errors.New("there is no such file")

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
	text, info, err := readText(path)
	switch {
	case err != nil && info == nil && !isName(path, path):
		return setting.File{}, fmt.Errorf("--%s: %w; %s", flag, errNoFile, notItself)
	case err != nil:
		return setting.File{}, fmt.Errorf("--%s: %s: %w", flag, path, err)
	}
	return setting.NewFile(path, text), nil
}

// secret tells whether a file's content must be kept from others. Certificates
// are public, and the keys file holds hashes only.
func secret(key string) bool {
	public := []string{"ca_file", "cert_file", "keys_file"}
	return !slices.Contains(public, key[strings.LastIndex(key, ".")+1:])
}
