package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A text that quotes an id of a record outside the reply is cleaned by a pattern, the
// probe shows it, and it tells what looks like an id and stays.
func TestProbeSaysWhatIsRemoved(t *testing.T) {
	serve := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"data":[{"id":"T-00001","assignee_id":"usr_81723","subject":"see T-00001 and T-00099, 57,000 won",`+
			`"text":"6f1c2a34-1111-4222-8333-9444555666aa by usr_81723","state":"N","category":"c","at":"2026-01-01T00:00:00Z","replies":[]}]}`)
	}
	for section, want := range map[string][]string{
		"    internal_ids: [id]\n": {
			"removed in 1 text: by id 1, by pattern 0, UUID 0", "see [removed] and T-00099, 57,000 won",
			"T-00099", "written as the internal ids are", "internal_id_patterns", "a UUID", "the value of assignee_id, which is not mapped", "! not removed",
		},
		"    internal_ids: [id, assignee_id]\n    internal_id_patterns: ['T-\\d{5}', '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}']\n": {
			"removed in 2 texts: by id 2, by pattern 2, UUID 0", "see [removed] and [removed], 57,000 won", "[removed] by [removed]",
		},
	} {
		out, errOut, code := command(t, probeBuyer(smallLegacy(t, section, serve))...)
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("no %q", w)
			}
		}
		if code != 0 || strings.Contains(out, "! not removed") != strings.Contains(strings.Join(want, ""), "! not removed") {
			t.Errorf("exit code %d: %s%s", code, out, errOut)
		}
	}
	_, errOut, code := command(t, checkLists(smallLegacy(t, "    internal_id_patterns: ['T*']\n", serve))...)
	if code == 0 || !strings.Contains(errOut, "gateway.yaml:7:") || !strings.Contains(errOut, "upstream.buyer.internal_id_patterns[0]") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}
