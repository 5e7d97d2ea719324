package mapping

import (
	"slices"
	"strings"

	"inquiry-gateway/upstream/jsonwalk"
)

// mostAlways bounds the paths of always_present.
const mostAlways = 100

// always compiles the paths that every record has.
func (c *compiler) always(field string, paths []string) {
	c.AddIf(len(paths) > mostAlways, field, "%d paths; at most %d can be watched", len(paths), mostAlways)
	several := func(part string) bool { return strings.HasPrefix(part, jsonwalk.Each) }
	for i, path := range paths {
		at := index(field, i)
		if slices.ContainsFunc(segments(path), several) {
			c.Add(at, "# stands for several values, of which some may be missing; name one value of a record")
		} else if c.path(at, path) {
			c.plan.Always, c.plan.always = append(c.plan.Always, path), append(c.plan.always, c.source(path))
			c.alsoUsed(Paths{path})
		}
	}
}

// lacks counts the paths that a record should have, and has not.
func (r *Reply) lacks(f *jsonwalk.Frame) {
	if r.Lacking == nil {
		r.Lacking = make([]int, len(r.plan.always))
	}
	r.Watched++
	for i, s := range r.plan.always {
		if !s.find(f).Present() {
			r.Lacking[i]++
		}
	}
}
