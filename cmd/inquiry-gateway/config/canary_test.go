package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCanaryKeysAreFiles(t *testing.T) {
	text := "canary:\n  buyer_keys: [token, pepper]\n  seller_keys: [tls.key, legacy.ca]\n  every: 10s\n" + example(t)
	loaded, problems := loadText(t, text)
	if problems != nil {
		t.Fatal(problems)
	}
	c := loaded.Config.Canary
	if len(c.BuyerKeys) != 2 || len(c.SellerKeys) != 2 || c.Every != 10*time.Second {
		t.Fatalf("got %+v", c)
	}
	for _, file := range slices.Concat(c.BuyerKeys, c.SellerKeys) {
		if !filepath.IsAbs(file.Path()) || !slices.Contains(loaded.Config.Files(), file.Path()) || !strings.HasPrefix(file.Text(), "content-of-") {
			t.Errorf("%s is not absolute, not watched or not read: %q", file, loaded.Config.Files())
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
