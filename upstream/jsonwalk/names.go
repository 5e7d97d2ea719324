package jsonwalk

// nameSet finds duplicate names in one object. The names of all open objects
// share one stack; this one's start at base.
type nameSet struct {
	base  int
	bloom uint64
	large map[string]struct{} // once there are many
}

// manyNames is where comparing with each name costs more than a map.
const manyNames = 32

// add puts a name on the stack unless the object has it already.
func (n *nameSet) add(stack *[]string, key string) bool {
	if n.large != nil {
		if _, ok := n.large[key]; ok {
			return false
		}
		n.large[key] = struct{}{}
		return true
	}
	bit := nameBit(key)
	names := (*stack)[n.base:]
	if n.bloom&bit != 0 {
		for i := range names {
			if names[i] == key {
				return false
			}
		}
	}
	n.bloom |= bit
	*stack = append(*stack, key)
	if len(names) >= manyNames {
		n.large = make(map[string]struct{}, 2*manyNames)
		for _, name := range (*stack)[n.base:] {
			n.large[name] = struct{}{}
		}
	}
	return true
}

// nameBit spreads names over 64 bits, so that most objects need no comparison.
func nameBit(key string) uint64 {
	if key == "" {
		return 1
	}
	h := uint(len(key))*7 + uint(key[0])*31 + uint(key[len(key)-1])*17 + uint(key[len(key)/2])*13
	return 1 << (h & 63)
}
