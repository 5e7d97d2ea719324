package config

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// fileRef is one path in the configuration: a text whose key ends in _file, or a
// File.
type fileRef struct {
	key   string
	value reflect.Value
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
		for _, f := range fieldsOf(v.Type()) {
			refs = append(refs, fileRefs(v.FieldByIndex(f.index), join(key, f.key))...)
		}
	case reflect.Slice:
		for i := range v.Len() {
			refs = append(refs, fileRefs(v.Index(i), item(key, i))...)
		}
	case reflect.String:
		if (strings.HasSuffix(key, "_file") || v.Type() == reflect.TypeFor[File]()) && v.CanSet() {
			refs = append(refs, fileRef{key, v})
		}
	}
	return refs
}

// resolveFiles makes the paths absolute, from the configuration file's folder,
// and reports those that cannot be used. Files in mayMiss need not exist yet.
func (doc *document) resolveFiles(into any, mayMiss []string) {
	for _, ref := range fileRefs(reflect.ValueOf(into).Elem(), "") {
		path := ref.value.String()
		if path == "" || doc.follows(ref.key) {
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(doc.path), path)
		}
		ref.value.SetString(path)
		doc.checkFile(ref.key, path, slices.Contains(mayMiss, ref.key))
	}
}

func (doc *document) checkFile(key, path string, mayMiss bool) {
	info, err := os.Stat(path)
	if mayMiss && os.IsNotExist(err) {
		return
	}
	if err == nil {
		err = regular(info)
	} else {
		err = fileError(err)
	}
	if err == nil {
		err = readable(path)
	}
	if err != nil {
		if !doc.has(key) {
			path += " (the default)"
		}
		doc.wrong(key, "%s: %v", path, err)
		return
	}
	if secret(key) && info.Mode().Perm()&0o004 != 0 {
		at, _ := locate(doc.root, key)
		doc.warn(at, key, "%s can be read by every user of this machine; chmod 640 or 600 it", path)
	}
}

// readable tells why a file cannot be read or holds nothing but white space.
func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fileError(err)
	}
	defer f.Close()
	start, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return fileError(err)
	}
	if len(bytes.TrimSpace(start)) == 0 {
		return errors.New("is empty")
	}
	return nil
}

// secret tells whether a file's content must be kept from others. Certificates
// are public, and the keys file holds hashes only.
func secret(key string) bool {
	public := []string{"ca_file", "cert_file", "keys_file"}
	return !slices.Contains(public, key[strings.LastIndex(key, ".")+1:])
}

// filePaths lists the files named in a value, sorted, each once.
func filePaths(v any) []string {
	var paths []string
	for _, ref := range fileRefs(reflect.ValueOf(v).Elem(), "") {
		if path := ref.value.String(); path != "" {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
