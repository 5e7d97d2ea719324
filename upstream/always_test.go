package upstream

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/internal/sample"
)

// A path that vanishes is told once for each change; the list is served.
func TestAlwaysPresent(t *testing.T) {
	record := sample.Ticket
	clock := testkit.NewClock(time.Now())
	f := newFixtureAt(t, clock, func(w http.ResponseWriter, r *http.Request) {
		serveJSON(`{"result":{"items":[`+sample.Ticket+","+record+`]}}`)(w, r)
	}, func(c *Config) { c.Buyer.AlwaysPresent = []string{"customer.id", "category"} })
	without := strings.Replace(sample.Ticket, `"category":"`, `"kategory":"`, 1)
	null := strings.Replace(sample.Ticket, `"category":"`, `"category":null,"kategory":"`, 1)
	if without == sample.Ticket {
		t.Fatal("the sample has no category")
	}
	for i, step := range []struct {
		record              string
		after               time.Duration
		missing, said, back int // in all
	}{
		{sample.Ticket, 0, 0, 0, 0},
		{without, 0, 1, 1, 0},
		{null, 0, 2, 1, 0},
		{sample.Ticket, time.Minute, 2, 1, 0}, // another account's list may be as it was
		{without, time.Minute, 3, 1, 0},
		{sample.Ticket, 10 * time.Minute, 3, 1, 1},
		{sample.Ticket, time.Hour, 3, 1, 1},
		{without, 0, 4, 2, 1},
	} {
		record = step.record
		clock.Add(step.after)
		list, err := f.Fetch(t.Context(), acme)
		if err != nil || len(list.Inquiries) != 2 {
			t.Fatalf("step %d: %+v %v", i, list, err)
		}
		log := f.log.String()
		said, back := strings.Count(log, `should have is missing","kind":"buyer","path":"category","records":1,"of":2`), strings.Count(log, `is back","kind":"buyer","path":"category"`)
		if said != step.said || back != step.back || f.metric(t, "paths_missing_total", "buyer") != float64(step.missing) {
			t.Errorf("step %d: said %d times, back %d times, counted %v; want %+v", i, said, back, f.metric(t, "paths_missing_total", "buyer"), step)
		}
	}
}
