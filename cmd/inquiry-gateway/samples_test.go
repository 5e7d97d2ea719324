package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The programs that the documentation shows print the lists, and say what is
// wrong with a key.
func TestDocumentedPrograms(t *testing.T) {
	p := start(t, setup{})
	var document struct {
		Paths map[string]struct {
			Get struct {
				Samples []struct{ Lang, Source string } `json:"x-codeSamples"`
			}
		}
	}
	if err := json.Unmarshal(p.get("/openapi.json", "").body, &document); err != nil {
		t.Fatal(err)
	}
	runners := map[string]struct {
		file string
		run  []string
	}{
		"Shell": {"list.sh", []string{"sh"}}, "Go": {"list.go", []string{"go", "run"}},
		"Python": {"list.py", []string{"python3"}}, "JavaScript": {"list.mjs", []string{"node"}},
	}
	for list, path := range document.Paths {
		if len(path.Get.Samples) != len(runners) {
			t.Errorf("%s has %d programs, want %d", list, len(path.Get.Samples), len(runners))
		}
	}
	for _, sample := range document.Paths[buyerList].Get.Samples {
		t.Run(sample.Lang, func(t *testing.T) {
			t.Parallel()
			with, known := runners[sample.Lang]
			if !known {
				t.Fatal("the test does not know how to run it")
			}
			tool := with.run[0]
			if tool == "sh" {
				tool = "curl"
			}
			if _, err := exec.LookPath(tool); err != nil {
				t.Fatalf("this test needs %s: run .ci/packages (%v)", tool, err)
			}
			file := filepath.Join(t.TempDir(), with.file)
			if err := os.WriteFile(file, []byte(sample.Source), 0o600); err != nil {
				t.Fatal(err)
			}
			for kind, list := range map[string]string{"buyer": buyerList, "seller": sellerList, "expired": buyerList} {
				cmd := exec.CommandContext(t.Context(), with.run[0], append(with.run[1:], file)...)
				cmd.Env = append(os.Environ(), "INQUIRIES_URL="+p.app.URL()+list, "API_KEY="+p.keys[kind])
				out, err := cmd.CombinedOutput()
				want := "invalid_api_key"
				if kind != "expired" {
					want = firstPending(t, p, list, kind)
				}
				if (err != nil) != (kind == "expired") || !strings.Contains(string(out), want) {
					t.Errorf("%s: %v, want %q in\n%s", kind, err, want, out)
				}
			}
		})
	}
}

// firstPending is the title of the first pending inquiry of a list.
func firstPending(t *testing.T, p *program, list, key string) string {
	t.Helper()
	var reply struct{ Data []struct{ Title string } }
	if err := json.Unmarshal(p.get(list+"?status=pending", key).body, &reply); err != nil || len(reply.Data) == 0 {
		t.Fatalf("%v, %d records", err, len(reply.Data))
	}
	return reply.Data[0].Title
}
