package ttllab

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

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
		{"all wrong", Config{RecheckConfig{-1}, GoalsConfig{MaxUpstreamPerSecond: math.NaN(), MaxOutdated: 1.5}},
			[]string{"recheck.budget_per_second", "goals.max_upstream_per_second", "goals.max_outdated"}},
		{"too much", Config{RecheckConfig{1001}, GoalsConfig{MaxUpstreamPerSecond: math.Inf(1)}},
			[]string{"recheck.budget_per_second", "goals.max_upstream_per_second"}},
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
	text := "recheck: {budget_per_second: 0.5}\ngoals: {max_upstream_per_second: 20, max_outdated: 0.02}\n"
	if err := yaml.UnmarshalWithOptions([]byte(text), &c, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if want := (Config{RecheckConfig{0.5}, GoalsConfig{MaxUpstreamPerSecond: 20, MaxOutdated: 0.02}}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
}
