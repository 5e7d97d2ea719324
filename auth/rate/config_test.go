package rate

import (
	"slices"
	"testing"
	"time"

	"inquiry-gateway/internal/yamlfile"
)

func TestConfigYAML(t *testing.T) {
	c := Config{}
	text := "per_second: 2.5\nplans: {basic: {per_second: 10, burst: 20}, free: {per_second: 0}}"
	if err := yamlfile.Decode(text, &c); err != nil {
		t.Fatal(err)
	}
	if c.PerSecond != 2.5 || c.Plans["basic"] != (Plan{10, 20}) || c.Plans["free"] != (Plan{}) {
		t.Errorf("decoded %+v", c)
	}
	for _, text := range []string{"per_minute: 1", "plans: {basic: {bust: 1}}", "plans: [basic]"} {
		if err := yamlfile.Decode(text, &c); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  Config
		want []string
	}{
		"off":   {Config{}, nil},
		"on":    {Config{Plan: Plan{PerSecond: 0.5}, Plans: map[string]Plan{"pro": {1000, 2000}}}, nil},
		"burst": {Config{Plan: Plan{Burst: 5}}, []string{"burst"}},
		"plans": {Config{Plans: map[string]Plan{"b": {Burst: 1}, "a": {PerSecond: 2}}}, []string{"plans.b.burst"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			if err := tt.cfg.Validate(); err != nil {
				for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
					got = append(got, e.(interface{ Field() string }).Field())
					if e.Error() == "" {
						t.Error("an error without a text")
					}
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("problems with %q, want %q", got, tt.want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	l := newLimits(Config{Plan: Plan{PerSecond: 2.5}, Plans: map[string]Plan{
		"pro": {1000, 1000}, "tight": {1000, 10}, "slow": {0.1, 5}, "free": {},
	}})
	for plan, want := range map[string]Limit{
		"":      {DefaultPolicy, 2.5, 3, 1},
		"other": {DefaultPolicy, 2.5, 3, 1},
		"pro":   {"pro", 1000, 1000, 125},
		"tight": {"tight", 1000, 10, 1},
		"slow":  {"slow", 0.1, 5, 1},
		"free":  {},
	} {
		if got := l.of(plan); got != want {
			t.Errorf("%q: %+v, want %+v", plan, got, want)
		}
	}
	if w := l.of("slow").Window(); w != 50*time.Second {
		t.Errorf("window %v", w)
	}
	if w := l.of("free").Window(); w != 0 {
		t.Errorf("window %v", w)
	}
}
