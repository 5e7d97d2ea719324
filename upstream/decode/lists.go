package decode

// Lists is a tree of the names of elements, from the root on, that marks the
// elements that are lists. Its zero value marks none.
type Lists struct {
	under map[string]*Lists
	list  bool
}

// Add marks the element with these names on the way to it.
func (l *Lists) Add(names []string) {
	for _, name := range names {
		if l.under == nil {
			l.under = map[string]*Lists{}
		}
		if l.under[name] == nil {
			l.under[name] = &Lists{}
		}
		l = l.under[name]
	}
	l.list = true
}

// at is the part of the tree below a name. It works on nil.
func (l *Lists) at(name string) *Lists {
	if l == nil {
		return nil
	}
	return l.under[name]
}
