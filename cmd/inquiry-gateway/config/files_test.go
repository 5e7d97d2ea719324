package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"inquiry-gateway/internal/secretfile"
)

// withFiles decodes a text in a folder and resolves its files.
func withFiles(t *testing.T, text string, mayMiss ...string) (section, *document, string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"key", "ca", "other"} {
		write(t, filepath.Join(dir, "secrets", name), "x")
	}
	doc := readDocument(write(t, filepath.Join(dir, "gateway.yaml"), text), fakeEnv)
	var s section
	doc.decode(&s)
	doc.resolveFiles(&s, mayMiss)
	return s, doc, dir
}

func TestFilesAreFoundFromTheConfigurationsFolder(t *testing.T) {
	s, doc, dir := withFiles(t, "key_file: secrets/key\ninner: {ca_file: ./secrets/../secrets/ca}\nmany: [{}, {ca_file: secrets/ca}]\n")
	if err := doc.err(); err != nil {
		t.Fatal(err)
	}
	key, ca := filepath.Join(dir, "secrets/key"), filepath.Join(dir, "secrets/ca")
	if s.KeyFile != secretfile.New(key, "x") || s.Inner.CAFile != secretfile.New(ca, "x") || s.Many[1].CAFile.Path() != ca {
		t.Errorf("got %q, %q, %q", s.KeyFile, s.Inner.CAFile, s.Many[1].CAFile)
	}
	var paths []string
	for _, ref := range fileRefs(reflect.ValueOf(&s).Elem(), "") {
		paths = append(paths, ref.path())
	}
	if !slices.Equal(paths, []string{ca, key, "", ca}) {
		t.Errorf("files are %q", paths)
	}
	absolute, doc, _ := withFiles(t, "key_file: "+key+"\n")
	if doc.err() != nil || absolute.KeyFile.Path() != key {
		t.Errorf("got %q and %v, want the absolute path as it was", absolute.KeyFile, doc.err())
	}
}

func TestFilesThatMayMiss(t *testing.T) {
	s, doc, dir := withFiles(t, "key_file: new\n", "key_file")
	if doc.err() != nil || s.KeyFile != secretfile.New(filepath.Join(dir, "new"), "") {
		t.Errorf("got %q and %v", s.KeyFile, doc.err())
	}
	_, doc, dir = withFiles(t, "inner: {ca_file: secrets}\nkey_file: secrets/no\n", "inner.ca_file")
	want := []string{
		dir + "/gateway.yaml:1:18: inner.ca_file: " + dir + "/secrets: is a folder; name a file",
		dir + "/gateway.yaml:2:11: key_file: " + dir + "/secrets/no: no such file; check the path",
	}
	if got := lines(doc.err()); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSecretsOpenToEverybodyAreAWarning(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"key", "ca"} {
		if err := os.Chmod(write(t, filepath.Join(dir, name), "x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	doc := readDocument(write(t, filepath.Join(dir, "gateway.yaml"), "inner: {ca_file: ca}\nkey_file: key\n"), fakeEnv)
	var s section
	doc.decode(&s)
	doc.resolveFiles(&s, nil)
	want := dir + "/gateway.yaml:2:11: key_file: " + dir + "/key can be read by every user of this machine; chmod 640 or 600 it"
	if doc.err() != nil || len(doc.warnings) != 1 || doc.warnings[0].Error() != want {
		t.Errorf("got error %v and warnings %v, want %q", doc.err(), doc.warnings, want)
	}
}

func TestSecretIsAllThatIsNotPublic(t *testing.T) {
	got := map[string]bool{}
	for _, key := range []string{"tls.cert_file", "tls.key_file", "auth.keys_file", "cache.sealing_keys_file", "upstream.tls.ca_file", "redis.password_file"} {
		got[key] = secret(key)
	}
	want := map[string]bool{"tls.cert_file": false, "tls.key_file": true, "auth.keys_file": false,
		"cache.sealing_keys_file": true, "upstream.tls.ca_file": false, "redis.password_file": true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
