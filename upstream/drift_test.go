package upstream

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func newDrift(log *strings.Builder) *drift {
	reg := prometheus.NewRegistry()
	s, err := newSeries(reg)
	if err != nil {
		panic(err)
	}
	return &drift{kind: "buyer", counters: s.of("buyer", nil).drift, log: slog.New(slog.NewTextHandler(log, nil)), now: time.Now, paths: map[string]*shape{}}
}

func changes(d *drift) string {
	var list []string
	for _, e := range d.events {
		list = append(list, e.Change+" "+e.Path+" "+e.Type)
	}
	return strings.Join(list, ", ")
}

func TestDrift(t *testing.T) {
	const usual = `{"a":1,"b":{"c":"x"},"l":[{"k":1}],"o":null}`
	for _, tc := range []struct {
		name  string
		later []string
		want  string
	}{
		{"the same", []string{usual, usual}, ""},
		{"null is no type", []string{`{"a":null,"b":{"c":"x"},"l":[{"k":1}],"o":5}`}, ""},
		{"appears once", []string{strings.Replace(usual, `"a":1`, `"a":1,"n":"x"`, 1), strings.Replace(usual, `"a":1`, `"a":1,"n":"x"`, 1)}, "appeared n string"},
		{"changes once", []string{strings.Replace(usual, `"k":1`, `"k":"1"`, 1), strings.Replace(usual, `"k":1`, `"k":"1"`, 1)}, "type l.#.k string"},
		{"disappears once", []string{strings.Replace(usual, `"a":1,`, ``, 1), strings.Replace(usual, `"a":1,`, ``, 1)}, "disappeared a missing"},
		{"comes back", []string{strings.Replace(usual, `"a":1,`, ``, 1), usual}, "disappeared a missing, appeared a number"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log strings.Builder
			d := newDrift(&log)
			d.look([]string{usual, usual})
			if log.Len() > 0 {
				t.Errorf("the first reply is news: %s", log.String())
			}
			for _, record := range tc.later {
				d.look([]string{record})
			}
			if got := changes(d); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if lines := strings.Count(log.String(), "\n"); (tc.want == "") != (lines == 0) || lines > 2 {
				t.Errorf("logged %s", log.String())
			}
		})
	}
}

func TestDriftOptionalFields(t *testing.T) {
	var log strings.Builder
	d := newDrift(&log)
	d.look([]string{`{"a":1,"b":1}`, `{"a":1}`})
	d.look([]string{`{"a":1}`})
	d.look(nil)
	if got := changes(d); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestDriftIsBounded(t *testing.T) {
	var log strings.Builder
	d := newDrift(&log)
	d.look([]string{`{"a":1}`})
	for i := range 2000 {
		d.look([]string{fmt.Sprintf(`{"a":1,"key%c%c%c":{"6f1c2a34-1111-4222-8333-944455566677":1,"%d":2}}`, 'a'+i%26, 'a'+i/26%26, 'a'+i/676, i)})
	}
	if len(d.paths) > driftPaths || len(d.events) > driftEvents {
		t.Errorf("%d paths, %d events", len(d.paths), len(d.events))
	}
	if strings.Contains(log.String(), "6f1c") {
		t.Error("a key that is data is in the log")
	}
}

func TestDriftOfAFetch(t *testing.T) {
	record := goodTicket
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		serveJSON(`{"result":{"items":[`+record+`]}}`)(w, r)
	}, nil)
	clock := newClock()
	f.endpoints["buyer"].drift.now = clock.now
	if _, err := f.Fetch(t.Context(), acme); err != nil {
		t.Fatal(err)
	}
	clock.forward(time.Minute)
	record = strings.Replace(goodTicket, `"subject":"Late"`, `"subject":{"en":"Late"}`, 1)
	failed(t, f, t.Context(), FailureInvalid, "record") // and drift says why
	if got := fmt.Sprint(f.Drift("buyer")); !strings.Contains(got, "subject.en appeared") || !strings.Contains(got, "subject disappeared") {
		t.Errorf("got %s", got)
	}
	if f.metric(t, "drift_total", "appeared") != 1 || f.Drift("nosuch") != nil || len(f.Drift("seller")) != 0 {
		t.Error("not counted")
	}
}

func TestDropForeign(t *testing.T) {
	section := strings.Replace(mappingYAML, "filtering: upstream", "filtering: upstream\n  on_foreign_record: drop", 1)
	stranger := strings.NewReplacer(`"id":"acme"`, `"id":"zorg"`, "Late", "Secret of zorg").Replace(goodTicket)
	r, err := mapBuyer(t, section, `{"result":{"items":[`+stranger+","+goodTicket+","+stranger+`]}}`, Request{})
	if err != nil || len(r.list) != 1 || r.list[0].Title != "Late" || len(r.list[0].Responses) != 1 || r.foreign != 2 {
		t.Errorf("%+v %v, %d foreign", r.list, err, r.foreign)
	}
	section = strings.Replace(section, "  owner: customer.id\n", "", 1)
	if found := fieldsOf(t, configFrom(t, section).Validate()); found["buyer.on_foreign_record"] == "" {
		t.Errorf("got %v", found)
	}
}

// However many replies come at once, one of them is looked at.
func TestDriftLooksAtOneReplyAtATime(t *testing.T) {
	var log strings.Builder
	d := newDrift(&log)
	clock := newClock()
	d.now = clock.now
	if !d.wants() || d.wants() {
		t.Fatal("not one caller, but none or two")
	}
	d.look(nil) // it had no records
	if !d.wants() {
		t.Error("nobody has its turn after a reply without records")
	}
	clock.forward(driftTurn)
	if !d.wants() {
		t.Error("a reply that never came keeps all others from being looked at")
	}
	d.look([]string{`{"a":1}`})
	clock.forward(time.Minute)
	if !d.wants() {
		t.Error("nobody has its turn after a reply that was looked at")
	}
}
