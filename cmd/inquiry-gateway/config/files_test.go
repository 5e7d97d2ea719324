package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/internal/yamlfile"
)

// withFiles decodes a text in a folder and resolves its files.
func withFiles(t *testing.T, text string, mayMiss ...string) (sample, document, string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"key", "ca", "other"} {
		write(t, filepath.Join(dir, "secrets", name), "x")
	}
	doc := newDocument(yamlfile.Open(write(t, filepath.Join(dir, "gateway.yaml"), text), fakeEnv))
	var s sample
	doc.Decode(&s)
	doc.resolveFiles(&s, mayMiss)
	return s, doc, dir
}

func TestFilesAreFoundFromTheConfigurationsFolder(t *testing.T) {
	s, doc, dir := withFiles(t, "key_file: secrets/key\ninner: {ca_file: ./secrets/../secrets/ca}\nmany: [{}, {ca_file: secrets/ca}]\n")
	if err := doc.Err(); err != nil {
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
	if !slices.Equal(paths, []string{key, ca, "", ca}) {
		t.Errorf("files are %q", paths)
	}
	absolute, doc, _ := withFiles(t, "key_file: "+key+"\n")
	if doc.Err() != nil || absolute.KeyFile.Path() != key {
		t.Errorf("got %q and %v, want the absolute path as it was", absolute.KeyFile, doc.Err())
	}
}

func TestFilesThatMayMiss(t *testing.T) {
	s, doc, dir := withFiles(t, "key_file: new\n", "key_file")
	if doc.Err() != nil || s.KeyFile != secretfile.New(filepath.Join(dir, "new"), "") {
		t.Errorf("got %q and %v", s.KeyFile, doc.Err())
	}
	_, doc, dir = withFiles(t, "inner: {ca_file: secrets}\nkey_file: secrets/no\n", "inner.ca_file")
	want := []string{
		dir + "/gateway.yaml:1:18: inner.ca_file: " + dir + "/secrets: is a folder; name a file",
		dir + "/gateway.yaml:2:11: key_file: " + dir + "/secrets/no: no such file; check the path",
	}
	if got := lines(doc.Err()); !slices.Equal(got, want) {
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
	doc := newDocument(yamlfile.Open(write(t, filepath.Join(dir, "gateway.yaml"), "inner: {ca_file: ca}\nkey_file: key\n"), fakeEnv))
	var s sample
	doc.Decode(&s)
	doc.resolveFiles(&s, nil)
	want := dir + "/gateway.yaml:2:11: key_file: " + dir + "/key can be read by every user of this machine; chmod 640 or 600 it"
	if doc.Err() != nil || len(doc.Warnings()) != 1 || doc.Warnings()[0].Error() != want {
		t.Errorf("got error %v and warnings %v, want %q", doc.Err(), doc.Warnings(), want)
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

func TestCanaryKeysAreFiles(t *testing.T) {
	text := "canary:\n  buyer_keys: [token, pepper]\n  seller_keys: [tls.key, token]\n  every: 10s\n" + example(t)
	loaded, problems := loadText(t, text)
	if problems != nil {
		t.Fatal(problems)
	}
	c := loaded.Config.Canary
	if len(c.BuyerKeys) != 2 || len(c.SellerKeys) != 2 || c.Every != 10*time.Second {
		t.Fatalf("got %+v", c)
	}
	for _, file := range slices.Concat(c.BuyerKeys, c.SellerKeys) {
		if !filepath.IsAbs(file.Path()) || loaded.Config.Files()[file.Path()] == nil || !strings.HasPrefix(file.Text(), "content-of-") {
			t.Errorf("%s is not absolute, not watched or not read: %v", file, loaded.Config.Files())
		}
	}
	shown := loaded.Config.Redacted()
	if !strings.Contains(shown, "every: 10s") || !strings.Contains(shown, "/token\n") {
		t.Errorf("not shown in\n%s", shown)
	}
	swapped, problems := loadText(t, strings.Replace(text, "[token, pepper]", "[token, tls.pem]", 1))
	if problems != nil {
		t.Fatal(problems)
	}
	changes := Diff(shown, swapped.Config.Redacted())
	if !slices.ContainsFunc(changes, func(c Change) bool {
		return c.Key == "canary.buyer_keys[1]" && strings.HasSuffix(c.Old, "/pepper") && strings.HasSuffix(c.New, "/tls.pem")
	}) {
		t.Errorf("changes are %+v", changes)
	}
}

func TestCanaryIsOffByDefault(t *testing.T) {
	for _, text := range []string{"", "canary:\n", "canary: {}\n", "canary: {buyer_keys: [], seller_keys: }\n"} {
		loaded, problems := loadText(t, text+example(t))
		if c := loaded.Config.Canary; problems != nil || len(c.BuyerKeys)+len(c.SellerKeys) != 0 || c.Every != 30*time.Second {
			t.Errorf("%q: %+v, %v", text, c, problems)
		}
	}
}

// A key that stands where its file should is not repeated in any message.
func TestAKeyInsteadOfItsFileIsNotShown(t *testing.T) {
	const own, foreign = "iqb_7Qm2xT9cVbN4kLpR8sWfYhJ3dGzA5eU1iOoXqC", "d41d8cd98f00b204e9800998ecf8427e"
	const says = "is no file, and looks like an API key itself; put the key into a file that only the gateway can read, and name that file here"
	for text, want := range map[string]string{
		"canary: {buyer_keys: [" + own + ", token]}\n":             "gateway.yaml:1:23: canary.buyer_keys[0]: " + says,
		"canary: {seller_keys: [token, \"" + foreign + "\"]}\n":    "gateway.yaml:1:31: canary.seller_keys[1]: " + says,
		"canary: {seller_keys: [token, \"Bearer " + own + "\"]}\n": "gateway.yaml:1:31: canary.seller_keys[1]: " + says,
		"canary: {buyer_keys: " + own + "}\n":                      "gateway.yaml:1:22: canary.buyer_keys: wants a list of files such as [a, b]",
		"canary: {buyer_keys: " + foreign + "}\n":                  "gateway.yaml:1:22: canary.buyer_keys: wants a list of files such as [a, b]",
	} {
		_, got := loadText(t, text)
		if !slices.Contains(got, want) || len(got) != 2 { // and that there is no upstream section
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
		for _, line := range got {
			if strings.Contains(line, own[4:]) || strings.Contains(line, foreign) {
				t.Errorf("the key is shown: %s", line)
			}
		}
	}
}

// A file may have any name that is not taken for a key unless it is there.
func TestAFileThatIsNamedLikeAKey(t *testing.T) {
	path := folder(t, "canary: {buyer_keys: [iqb_first, iqb_second]}\n"+example(t))
	for _, name := range []string{"iqb_first", "iqb_second"} {
		write(t, filepath.Join(filepath.Dir(path), name), name)
	}
	if _, err := Load(path, Options{Env: fakeEnv}); err != nil {
		t.Error(err)
	}
}
