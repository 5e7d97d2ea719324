package live_test

import (
	"slices"
	"testing"

	"inquiry-gateway/deploy/live"
)

const page = `# HELP a_seconds How long, "by" {kind}.
# TYPE a_seconds histogram
a_seconds_bucket{kind="x",le="0.1"} 1
a_seconds_bucket{kind="x",le="+Inf"} 2
a_seconds_sum{kind="x"} 0.3
a_seconds_count{kind="x"} 2
# HELP b_count Not of a histogram.
# TYPE b_count gauge
b_count 7
# HELP c_total Counted.
# TYPE c_total counter
c_total{path="/a\"b",code="200"} 1
`

func TestFamilies(t *testing.T) {
	all := live.Families([]byte(page), []byte("# HELP c_total Counted.\n# TYPE c_total counter\nc_total{other=\"1\"} 1\n"))
	want := []live.Family{
		{Name: "a_seconds", Type: "histogram", Help: `How long, "by" {kind}.`, Labels: []string{"kind"}},
		{Name: "b_count", Type: "gauge", Help: "Not of a histogram."},
		{Name: "c_total", Type: "counter", Help: "Counted.", Labels: []string{"code", "other", "path"}},
	}
	if len(all) != len(want) {
		t.Errorf("%d families: %v", len(all), all)
	}
	for _, w := range want {
		got := all[w.Name]
		if got.Name != w.Name || got.Type != w.Type || got.Help != w.Help || !slices.Equal(got.Labels, w.Labels) {
			t.Errorf("got %+v, want %+v", got, w)
		}
	}
	for series, family := range map[string]string{"a_seconds_bucket": "a_seconds", "a_seconds_count": "a_seconds", "b_count": "b_count", "c_total": "c_total"} {
		if got := live.FamilyOf(all, series); got != family {
			t.Errorf("%s is of %s, want %s", series, got, family)
		}
	}
}

func TestSelectors(t *testing.T) {
	got := live.Selectors(`sum by (up_to) (rate(inquiry_gateway_x_total{code=~"5..", job="$job"}[5m])) / go_goroutines + up{job="a"}
		or job_kind:inquiry_gateway_hit:ratio_rate5m > 0 and startup`)
	want := []live.Selector{
		{Name: "inquiry_gateway_x_total", Matchers: `{code=~"5..", job="$job"}`},
		{Name: "go_goroutines"},
		{Name: "up", Matchers: `{job="a"}`},
		{Name: "job_kind:inquiry_gateway_hit:ratio_rate5m"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
