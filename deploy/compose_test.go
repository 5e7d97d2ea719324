package deploy_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

const localImage = "inquiry-gateway:local"

type service struct {
	Image       string
	Build       struct{ Context, Dockerfile string }
	Command     []string
	Volumes     []string
	Healthcheck struct{ Test []string }
}

type composition struct{ Services map[string]service }

func compose(t *testing.T) composition {
	t.Helper()
	var c composition
	if err := yaml.Unmarshal([]byte(testkit.Read(t, "compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Services) != 3 {
		t.Fatalf("%d services", len(c.Services))
	}
	return c
}

func TestComposeFilesExist(t *testing.T) {
	for name, s := range compose(t).Services {
		paths := []string{}
		if s.Build.Context != "" {
			paths = append(paths, s.Build.Context, s.Build.Context+"/"+s.Build.Dockerfile)
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			paths = append(paths, from)
		}
		for _, p := range paths {
			if _, err := os.Stat(p); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// composeCommands asks the binary about every command and flag that is used.
func composeCommands(t *testing.T, binary string) {
	checked := 0
	for name, s := range compose(t).Services {
		if s.Image != localImage {
			continue
		}
		if test := s.Healthcheck.Test; test[1] != "/inquiry-gateway" {
			t.Errorf("%s: health is checked by %s, the image has no other program", name, test[1])
		}
		knows(t, binary, s.Command)
		knows(t, binary, s.Healthcheck.Test[2:])
		checked++
	}
	if checked != 2 {
		t.Errorf("%d services run the gateway's binary", checked)
	}
}

// knows fails where a command line has a command or a flag that its help does
// not name.
func knows(t *testing.T, binary string, line []string) {
	t.Helper()
	help := run(t, "", nil, binary, line[0], "--help")
	if !strings.Contains(help, "inquiry-gateway "+line[0]) {
		t.Errorf("there is no command %q", line[0])
	}
	for _, word := range line[1:] {
		if strings.HasPrefix(word, "-") && !strings.Contains(help, word) {
			t.Errorf("%s has no flag %s", line[0], word)
		}
	}
}

func TestComposeMapsTheLegacySystem(t *testing.T) {
	want := strings.Replace(string(legacy.Mapping()), legacy.MappingBaseURL, "http://legacy:9300", 1)
	if !strings.HasSuffix(testkit.Read(t, "compose/gateway.yaml"), "\n"+want) {
		t.Error("compose/gateway.yaml does not end in the legacy system's own mapping")
	}
}

// The comment in the file says how a record's key follows from its id.
func TestSampleKeysAreWhatTheirFileSays(t *testing.T) {
	var file struct {
		Accounts []struct{ ID string }
		Keys     []struct{ ID, SHA256, Kind, Account string }
	}
	if err := yaml.Unmarshal([]byte(testkit.Read(t, "compose/keys.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, a := range file.Accounts {
		known[a.ID] = true
	}
	system := legacy.New(legacy.Options{})
	used := testkit.Read(t, "compose.yaml")
	for _, k := range file.Keys {
		sum := sha256.Sum256([]byte("sample-" + k.ID))
		if k.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: the hash is not that of sample-%s", k.ID, k.ID)
		}
		if !known[k.Account] || len(system.Truth(k.Kind, k.Account, "", "")) == 0 {
			t.Errorf("%s: account %q is not in the file or has no inquiries", k.ID, k.Account)
		}
		used = strings.ReplaceAll(used, "Bearer sample-"+k.ID+"'", "")
	}
	used = strings.ReplaceAll(used, "Bearer "+strings.TrimSpace(testkit.Read(t, "compose/ops-read-token"))+"'", "")
	if strings.Contains(used, "Bearer ") {
		t.Error("compose.yaml shows a key that is no sample key")
	}
}
