package config

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Canary is the synthetic callers: keys of accounts of the operator's own, used
// through the public listener to see that nobody gets another's list.
type Canary struct {
	BuyerKeys  []File        `yaml:"buyer_keys"`  // one API key in each file; none: no buyers
	SellerKeys []File        `yaml:"seller_keys"` // the same for sellers
	Every      time.Duration `yaml:"every"`       // mean time between two rounds
}

// File is the path of a file where the key in the configuration does not say so
// by ending in _file: in a list, for instance.
type File string

// Bounds of canary.every. Above the greater one the alerts, which look back half
// an hour, would see too few rounds.
const (
	minCanaryEvery = time.Second
	maxCanaryEvery = 5 * time.Minute
)

// canaryKeys is one of the two lists with the key it stands at.
type canaryKeys struct {
	key   string
	files []File
}

func (c Canary) lists() []canaryKeys {
	return []canaryKeys{{"canary.buyer_keys", c.BuyerKeys}, {"canary.seller_keys", c.SellerKeys}}
}

// refuseKeys reports entries that are an API key instead of the file of one. It
// runs before anything that would name the file, and so show the key.
func (doc *document) refuseKeys(c Canary) {
	for _, list := range c.lists() {
		for i, file := range list.files {
			if key := item(list.key, i); doc.isKey(string(file)) {
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

func (doc *document) checkCanary(c Canary) {
	for _, list := range c.lists() {
		if len(list.files) == 1 {
			doc.wrong(list.key, "wants at least two keys, of two accounts: a list is compared with another's")
		}
		seen := map[File]int{}
		for i, file := range list.files {
			if first, twice := seen[file]; twice && file != "" {
				doc.wrong(item(list.key, i), "is the file of %s too; name a key of another account", item(list.key, first))
				continue
			}
			seen[file] = i
			if file == "" {
				doc.wrong(item(list.key, i), "is empty; name the file of a key")
			}
		}
	}
	if c.Every < minCanaryEvery || c.Every > maxCanaryEvery {
		doc.wrong("canary.every", "wants %s to %s, got %s", formatDuration(minCanaryEvery), formatDuration(maxCanaryEvery), formatDuration(c.Every))
	}
}
