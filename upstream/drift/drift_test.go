package drift

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/internal/testkit"
)

// watcher makes a watcher that writes to log.
func watcher(log *strings.Builder, now func() time.Time) *Watcher {
	counters := map[string]prometheus.Counter{}
	for _, change := range []string{Appeared, Disappeared, Type} {
		counters[change] = prometheus.NewCounter(prometheus.CounterOpts{Name: change})
	}
	return New("buyer", counters, slog.New(slog.NewTextHandler(log, nil)), now)
}

func changes(d *Watcher) string {
	var list []string
	for _, e := range d.changes {
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
		{"an array without elements", []string{strings.Replace(usual, `{"k":1}`, ``, 1)}, ""},
		{"null for an array", []string{strings.Replace(usual, `[{"k":1}]`, `null`, 1), usual}, ""},
		{"text for an array", []string{strings.Replace(usual, `[{"k":1}]`, `"x"`, 1)}, "appeared l string"},
		{"comes back", []string{strings.Replace(usual, `"a":1,`, ``, 1), usual}, "disappeared a missing, appeared a number"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log strings.Builder
			d := watcher(&log, time.Now)
			d.Compare([]string{usual, usual})
			if log.Len() > 0 {
				t.Errorf("the first reply is news: %s", log.String())
			}
			for _, record := range tc.later {
				d.Compare([]string{record})
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
	d := watcher(&log, time.Now)
	d.Compare([]string{`{"a":1,"b":1}`, `{"a":1}`})
	d.Compare([]string{`{"a":1}`})
	d.Compare(nil)
	if got := changes(d); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestDriftIsBounded(t *testing.T) {
	var log strings.Builder
	d := watcher(&log, time.Now)
	d.Compare([]string{`{"a":1}`})
	for i := range 2000 {
		d.Compare([]string{fmt.Sprintf(`{"a":1,"key%c%c%c":{"6f1c2a34-1111-4222-8333-944455566677":1,"%d":2}}`, 'a'+i%26, 'a'+i/26%26, 'a'+i/676, i)})
	}
	if len(d.paths) > maxPaths || len(d.changes) > maxChanges {
		t.Errorf("%d paths, %d events", len(d.paths), len(d.changes))
	}
	if strings.Contains(log.String(), "6f1c") {
		t.Error("a key that is data is in the log")
	}
}

// However many replies come at once, one of them is looked at.
func TestDriftLooksAtOneReplyAtATime(t *testing.T) {
	var log strings.Builder
	clock := testkit.NewClock(time.Now())
	d := watcher(&log, clock.Now)
	if !d.Due() || d.Due() {
		t.Fatal("not one caller, but none or two")
	}
	d.Compare(nil) // it had no records
	if !d.Due() {
		t.Error("nobody has its turn after a reply without records")
	}
	clock.Add(compareAfter)
	if !d.Due() {
		t.Error("a reply that never came keeps all others from being looked at")
	}
	d.Compare([]string{`{"a":1}`})
	clock.Add(time.Minute)
	if !d.Due() {
		t.Error("nobody has its turn after a reply that was looked at")
	}
}
