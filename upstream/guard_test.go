package upstream

import (
	"regexp"
	"strings"
	"testing"
)

func TestSweepOverTheWholeReply(t *testing.T) {
	other := strings.NewReplacer("6f1c2a34", "7f1c2a34", "aaaaaaaa", "bbbbbbbb", "Where is it?", "as in 6F1C2A34-1111-4222-8333-944455566677 and aaaaaaaa111142228333944455566677",
		"On its way", "see bbbbbbbb-1111-4222-8333-944455566677", `"Late"`, `"7f1c2a34-1111-4222-8333-944455566677"`).Replace(goodTicket)
	r, err := mapBuyer(t, mappingYAML, `{"result":{"items":[`+other+","+goodTicket+`]}}`, Request{})
	if err != nil {
		t.Fatal(err)
	}
	got := r.list[0]
	if got.Title != "[removed]" || got.Content != "as in [removed] and [removed]" || got.Responses[0].Content != "see [removed]" {
		t.Errorf("got %+v", got)
	}
	if r.removed["title"] != 1 || r.removed["content"] != 2 || r.removed["responses.content"] != 1 {
		t.Errorf("counted %v", r.removed)
	}
}

// Only lists whose own ids are UUIDs promise texts without any.
func TestRemovesUUIDs(t *testing.T) {
	numbered := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`).ReplaceAllString(goodTicket, "4711")
	for ticket, want := range map[string]bool{goodTicket: true, numbered: false} {
		f := newFixture(t, serveJSON(`{"result":{"items":[`+ticket+`]}}`), nil)
		if f.RemovesUUIDs("buyer") {
			t.Error("known before any list was")
		}
		if _, err := f.Fetch(t.Context(), acme); err != nil {
			t.Fatal(err)
		}
		if f.RemovesUUIDs("buyer") != want || f.RemovesUUIDs("seller") || f.RemovesUUIDs("nobody") {
			t.Errorf("buyer %t, want %t; others %t, %t", f.RemovesUUIDs("buyer"), want, f.RemovesUUIDs("seller"), f.RemovesUUIDs("nobody"))
		}
	}
}
