package mapping

import (
	"slices"

	"inquiry-gateway/upstream/jsonwalk"
)

// Condition compares what is at a path. One of equals, not_equals, in and absent is
// set. Numbers, truth values and texts are equal if they are written the same.
type Condition struct {
	Path      string   `yaml:"path"`       // GJSON path, within the element that the condition is about
	Equals    Default  `yaml:"equals"`     // holds for this value
	NotEquals Default  `yaml:"not_equals"` // holds for every other single value
	In        []string `yaml:"in"`         // holds for each of these values
	Absent    bool     `yaml:"absent"`     // holds where nothing or null is at the path
	// Missing says what comes of an element that has nothing, or null, at the path:
	// exclude (default) or include.
	Missing string `yaml:"missing" enum:",exclude,include"`
}

// condition is a compiled one.
type condition struct {
	at      source
	values  []string
	negated bool // holds for all others
	absent  bool // holds where nothing is
}

// holds tells whether an element has all that the conditions want.
func holds(all []condition, f *jsonwalk.Frame) bool {
	for i := range all {
		if !all[i].holds(f) {
			return false
		}
	}
	return true
}

func (c *condition) holds(f *jsonwalk.Frame) bool {
	switch v := c.at.find(f); {
	case !v.Present():
		return c.absent
	case !v.Scalar() || c.values == nil:
		return false
	default:
		return slices.Contains(c.values, v.String()) != c.negated
	}
}

// conditions compiles what an element of the frame must have.
func (c *compiler) conditions(field string, list []Condition) (all []condition) {
	for i, cfg := range list {
		at, kinds := index(field, i), 0
		for _, set := range []bool{cfg.Equals.Set, cfg.NotEquals.Set, len(cfg.In) > 0, cfg.Absent} {
			if set {
				kinds++
			}
		}
		c.AddIf(kinds != 1, at, "set one of equals, not_equals, in and absent")
		c.AddIf(cfg.Equals.Null || cfg.NotEquals.Null, at, "null is no value to compare with; write absent: true, or missing: include")
		c.AddIf(cfg.Absent && cfg.Missing != "", at+".missing", "absent says it already; remove the key")
		one := condition{values: cfg.In, negated: cfg.NotEquals.Set, absent: cfg.Absent || cfg.Missing == "include"}
		switch {
		case cfg.Equals.Set:
			one.values = []string{cfg.Equals.Value}
		case cfg.NotEquals.Set:
			one.values = []string{cfg.NotEquals.Value}
		}
		if c.path(at+".path", cfg.Path) {
			one.at = c.source(cfg.Path)
			c.alsoUsed(Paths{cfg.Path})
			all = append(all, one)
		}
	}
	return all
}
