package ttllab

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

func TestEveryProblemOfTheConfigurationIsNamed(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
		want []string
	}{
		{"default", Config{Recheck: RecheckConfig{BudgetPerSecond: 1}}, nil},
		{"zero", Config{}, nil},
		{"goals", Config{Goals: GoalsConfig{MaxUpstreamPerSecond: 50, MaxOutdated: 0.01}}, nil},
		{"all wrong", Config{RecheckConfig{-1}, GoalsConfig{MaxUpstreamPerSecond: math.NaN(), MaxOutdated: 1.5, Mode: "force", MinTTL: time.Hour, MaxTTL: time.Minute}},
			[]string{"recheck.budget_per_second", "goals.max_upstream_per_second", "goals.max_outdated", "goals.mode", "goals.min_ttl"}},
		{"keep without a goal", Config{Goals: GoalsConfig{Mode: ModeKeep, MinTTL: time.Second, MaxTTL: time.Minute}}, []string{"goals.mode"}},
		{"a promise", Config{RecheckConfig{1}, GoalsConfig{LateAfter: time.Minute, MaxLatePerMillion: 10}}, nil},
		{"a promise that is not measured", Config{Goals: GoalsConfig{LateAfter: time.Minute, MaxLatePerMillion: 10}}, []string{"goals.late_after"}},
		{"half a promise", Config{RecheckConfig{1}, GoalsConfig{LateAfter: time.Minute}}, []string{"goals.late_after"}},
		{"no promise", Config{RecheckConfig{1}, GoalsConfig{LateAfter: time.Minute, MaxLatePerMillion: 200_000}}, []string{"goals.max_late_per_million"}},
		{"a late promise", Config{RecheckConfig{1}, GoalsConfig{LateAfter: 25 * time.Hour, MaxLatePerMillion: 10}}, []string{"goals.late_after"}},
		{"too much", Config{RecheckConfig{1001}, GoalsConfig{MaxUpstreamPerSecond: math.Inf(1), Mode: ModeAdvise, MaxTTL: 25 * time.Hour}},
			[]string{"recheck.budget_per_second", "goals.max_upstream_per_second", "goals.max_ttl"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			if err := tt.cfg.Validate(); err != nil {
				for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
					var f interface{ Field() string }
					if !errors.As(e, &f) || strings.Contains(e.Error(), f.Field()) {
						t.Fatalf("%v names no key, or in its text", e)
					}
					got = append(got, f.Field())
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestTheConfigurationIsReadFromYAML(t *testing.T) {
	c := Config{Recheck: RecheckConfig{BudgetPerSecond: 1}}
	text := "recheck: {budget_per_second: 0.5}\ngoals: {max_upstream_per_second: 20, max_outdated: 0.02, mode: keep, min_ttl: 2s, max_ttl: 5m}\n"
	if err := yaml.UnmarshalWithOptions([]byte(text), &c, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if want := (Config{RecheckConfig{0.5}, GoalsConfig{MaxUpstreamPerSecond: 20, MaxOutdated: 0.02, Mode: ModeKeep, MinTTL: 2 * time.Second, MaxTTL: 5 * time.Minute}}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
}
