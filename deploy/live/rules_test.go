package live_test

import (
	"slices"
	"testing"

	"inquiry-gateway/deploy/live"
)

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
