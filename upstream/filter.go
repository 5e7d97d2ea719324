package upstream

import "slices"

// Values of filtering.
const (
	filterUpstream = "upstream"
	filterGateway  = "gateway"
)

// filter turns the public value of a query parameter into what the legacy is
// asked for. Whatever it is asked for, the gateway keeps only the records whose
// public value is the wanted one: a legacy that ignores a parameter must not
// make a wrong list.
type filter struct {
	field  *textPlan
	sent   bool                // the request holds the placeholder
	legacy map[string][]string // by public value; nil when the field has no values
}

func newFilter(field *textPlan, sent bool) filter {
	f := filter{field: field, sent: sent}
	if field.values != nil {
		f.legacy = make(map[string][]string, len(field.values))
		for legacy, public := range field.values {
			f.legacy[public] = append(f.legacy[public], legacy)
		}
		for _, list := range f.legacy {
			slices.Sort(list)
		}
	}
	return f
}

// ask gives the value to send, empty for none. impossible: no record can have
// the wanted value, so there is nothing to ask for.
func (f *filter) ask(want string) (send string, impossible bool) {
	if want == "" {
		return "", false
	}
	// Records that get the value by default have something else, or nothing,
	// in the legacy: no filter of the legacy finds them.
	if f.field.def.Set && f.field.def.Value == want {
		return "", false
	}
	if f.legacy == nil {
		if f.sent {
			send = want
		}
		return send, false
	}
	list := f.legacy[want]
	if len(list) == 0 {
		return "", true
	}
	// Several legacy values do not fit into one parameter: the gateway filters.
	if f.sent && len(list) == 1 {
		send = list[0]
	}
	return send, false
}
