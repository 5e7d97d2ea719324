package config

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/secretfile"
)

// Canary is the synthetic callers: keys of accounts of the operator's own, used
// through the public listener to see that nobody gets another's list.
type Canary struct {
	BuyerKeys  []secretfile.File `yaml:"buyer_keys"`  // one API key in each file; none: no buyers
	SellerKeys []secretfile.File `yaml:"seller_keys"` // the same for sellers
	Every      time.Duration     `yaml:"every"`       // mean time between two rounds
}

// Bounds of canary.every. Above the greater one the alerts, which look back half
// an hour, would see too few rounds.
const (
	minCanaryEvery = time.Second
	maxCanaryEvery = 5 * time.Minute
)

// canaryKeys is one of the two lists with the key it stands at.
type canaryKeys struct {
	key   string
	files []secretfile.File
}

func (c Canary) lists() []canaryKeys {
	return []canaryKeys{{"canary.buyer_keys", c.BuyerKeys}, {"canary.seller_keys", c.SellerKeys}}
}

// refuseKeys reports entries that are an API key instead of the file of one. It
// runs before anything that would name the file, and so show the key.
func (doc *document) refuseKeys(c Canary) {
	for _, list := range c.lists() {
		for i, file := range list.files {
			if key := item(list.key, i); doc.isKey(file.Path()) {
				at, _ := locate(doc.root, key)
				doc.add(at, key, "is no file, and looks like an API key itself; put the key into a file that only the gateway can read, and name that file here")
			}
		}
	}
}

// isKey tells an API key from the name of a file: by the prefix of the gateway's
// own keys, or as one long word; unless there is such a file.
func (doc *document) isKey(text string) bool {
	if !looksLikeKey(text) {
		return false
	}
	_, err := os.Lstat(filepath.Join(filepath.Dir(doc.path), text))
	return err != nil
}

func looksLikeKey(text string) bool {
	const long = 24
	text = strings.TrimPrefix(strings.TrimSpace(text), "Bearer ")
	return !strings.ContainsAny(text, "/. ") &&
		(strings.HasPrefix(text, "iqb_") || strings.HasPrefix(text, "iqs_") || len(text) >= long)
}

// checkCanaryKey looks at one file and those before it.
func (doc *document) checkCanaryKey(list canaryKeys, i int, text string) {
	file, key := list.files[i], item(list.key, i)
	if !file.Set() {
		doc.wrong(key, "is empty; name the file of a key")
		return
	}
	for j, other := range list.files[:i] {
		switch {
		case other.Path() == file.Path():
			doc.wrong(key, "is the file of %s too; name a key of another account", item(list.key, j))
			return
		case text != "" && strings.TrimSpace(other.Text()) == text:
			doc.wrong(key, "%s holds the same key as %s; use a key of another account", file, item(list.key, j))
			return
		}
	}
	if len(text) > auth.MaxKeyLength || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		doc.wrong(key, "%s: wants one API key and nothing else", file)
	}
}

func (doc *document) checkCanary(c Canary) {
	for _, list := range c.lists() {
		if len(list.files) == 1 {
			doc.wrong(list.key, "wants at least two keys, of two accounts: a list is compared with another's")
		}
		for i, file := range list.files {
			doc.checkCanaryKey(list, i, strings.TrimSpace(file.Text()))
		}
	}
	if c.Every < minCanaryEvery || c.Every > maxCanaryEvery {
		doc.wrong("canary.every", "wants %s to %s, got %s", formatDuration(minCanaryEvery), formatDuration(maxCanaryEvery), formatDuration(c.Every))
	}
}
