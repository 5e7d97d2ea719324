package mapping

// Filter tells in advance what becomes of each value of a filter.
type Filter struct {
	Values map[string]Asked
	Other  Asked // every value that is not in Values
}

// Asked is what becomes of one value of a filter.
type Asked uint8

// What becomes of a value.
const (
	AskedFor     Asked = iota // the legacy is asked for the records that have it
	SelectedHere              // the legacy is asked without it, and the gateway selects
	NoRecord                  // no record can have it
)

// Filters tell what becomes of the values of status and inquiry_type. A list is a
// selection from that without the values that are SelectedHere. Where responses are
// fetched by further requests none is: those are made for the records that are kept.
func (p *Plan) Filters() (status, inquiryType Filter) {
	ownBase := p.Second != nil
	return p.byStatus.asked(ownBase), p.byType.asked(ownBase)
}

// asked is what ask says of all values. ownBase: none is selected.
func (f *filter) asked(ownBase bool) Filter {
	of := func(value string) Asked {
		send, impossible := f.ask(value)
		switch {
		case impossible:
			return NoRecord
		case len(send) == 0 && !ownBase:
			return SelectedHere
		}
		return AskedFor
	}
	all := Filter{Values: make(map[string]Asked), Other: of("\x00")} // which is no value of any
	for legacy, public := range f.field.values {
		all.Values[legacy], all.Values[public] = of(legacy), of(public)
	}
	for _, d := range []Default{f.field.fixed, f.field.def} {
		if d.Set {
			all.Values[d.Value] = of(d.Value)
		}
	}
	return all
}
