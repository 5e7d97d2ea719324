package jsonwalk

import "slices"

// nameSet finds duplicate names in one object. The names of all open objects
// share one stack; this one's start at base.
type nameSet struct {
	base  int
	large map[string]struct{} // once there are many
}

// manyNames is where comparing with each name costs more than a map.
const manyNames = 32

// add puts a name on the stack unless the object has it already.
func (n *nameSet) add(stack *[]string, key string) bool {
	if n.large == nil {
		names := (*stack)[n.base:]
		if slices.Contains(names, key) {
			return false
		}
		*stack = append(*stack, key)
		if len(names) < manyNames {
			return true
		}
		n.large = make(map[string]struct{}, 2*manyNames)
		for _, name := range names {
			n.large[name] = struct{}{}
		}
	}
	_, twice := n.large[key]
	n.large[key] = struct{}{}
	return !twice
}
