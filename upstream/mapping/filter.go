package mapping

import (
	"maps"
	"slices"
	"strings"

	"inquiry-gateway/upstream/address"
)

// Ask gives the requests for a list. impossible: no record can have the wanted values,
// so there is nothing to ask for. What is asked for may be more than what is wanted:
// [Builder.Take] keeps the wanted records only.
func (p *Plan) Ask(want Request) (ask Asking, impossible bool) {
	status, noStatus := p.byStatus.ask(want.Status)
	inquiryType, noType := p.byType.ask(want.InquiryType)
	values := address.Values{address.Account: {want.Account}, address.Status: status, address.Type: inquiryType}
	return Asking{plan: &p.request, values: values}, noStatus || noType
}

// Asking makes the requests for the pages of one list. It is safe for concurrent use.
type Asking struct {
	plan   *address.Plan
	values address.Values
	second bool // for the responses to one record or more
}

// Page gives the request for a page, which has these values besides those of the
// list. Without an error of its own kind the account cannot be sent; an [*Error] is
// for the id of a record.
func (a Asking) Page(page address.Values) (address.Request, error) {
	values := a.values
	if len(page) > 0 {
		values = maps.Clone(values)
		maps.Copy(values, page)
	}
	r, err := a.plan.Request(values)
	if err != nil && a.second {
		err = refusal("record", "the id of a record cannot be sent: %w", err)
	}
	return r, err
}

// TakesJSON tells whether the cursor may be any value of JSON.
func (a Asking) TakesJSON() bool { return a.plan.TakesJSON() }

// filter turns the public value of a query parameter into what the legacy is
// asked for. Whatever it is asked for, the gateway keeps only the records whose
// public value is the wanted one: a legacy that ignores a parameter must not
// make a wrong list.
type filter struct {
	field  *field
	sent   bool                // the request holds the placeholder
	join   string              // of several legacy values
	legacy map[string][]string // by public value; nil when the field has no values
}

// filters compiles both filters, and refuses a configuration in which one
// would silently not be applied.
func (c *compiler) filters(cfg EndpointConfig) {
	hasStatus, hasType := c.plan.request.Has(address.Status), c.plan.request.Has(address.Type)
	sent := cfg.Filtering == "" || cfg.Filtering == FilterUpstream
	at := c.prefix + ".filtering"
	c.AddIf(sent && !hasStatus, at,
		"the legacy is to filter but neither query nor body holds {status}; add it, or set filtering: gateway")
	c.AddIf(cfg.Filtering == FilterGateway && (hasStatus || hasType), at,
		"the gateway is to filter but query or body holds {status} or {inquiry_type}; remove them, or set filtering: upstream")
	c.plan.selects = !sent
	for name, f := range map[string]*field{address.Status: c.plan.status, address.Type: c.plan.inquiryType} {
		if f.values != nil {
			c.plan.request.Trust(name)
		}
	}
	c.plan.byStatus = newFilter(c.plan.status, c.valuesJoin(address.Status, cfg.Fields.Status), sent && hasStatus)
	c.plan.byType = newFilter(c.plan.inquiryType, c.valuesJoin(address.Type, cfg.Fields.InquiryType), sent && hasType)
}

// valuesJoin is how several values of the placeholder's field are sent. It checks
// that a parameter that is to be repeated is nothing but the value.
func (c *compiler) valuesJoin(placeholder string, f Field) string {
	if f.ValuesJoin == repeatValues {
		for _, place := range c.plan.request.OneValue(placeholder) {
			c.Add(c.prefix+".fields."+placeholder+".values_join", cannotRepeat, place, placeholder)
		}
	}
	if f.ValuesJoin == "" && c.plan.request.InLists(placeholder) {
		return repeatValues
	}
	return f.ValuesJoin
}

const cannotRepeat = "%s cannot be repeated for each value: it is more than {%s}, or in a body and no element of a list; " +
	"give a separator, or make the placeholder a parameter or list element of its own"

// newFilter sorts a field's values by what is public. sent: the request has a place for
// the filter. The values of each are in order, so that equal filters make equal
// requests.
func newFilter(field *field, join string, sent bool) filter {
	f := filter{field: field, join: join, sent: sent}
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

// ask gives the values to send, none for no filter. impossible: no record can have the
// wanted value. Where the legacy cannot be told exactly, it is asked without the filter
// and the gateway selects: more than needed is slow, less would be wrong.
func (f *filter) ask(want string) (send []string, impossible bool) {
	switch {
	case want == "":
		return nil, false
	case f.field.fixed.Set:
		return nil, f.field.fixed.Value != want
	case f.field.def.Set && f.field.def.Value == want:
		// Records that get the value by default have something else, or nothing,
		// in the legacy: no filter of the legacy finds them.
		return nil, false
	}
	list := f.legacyOf(want)
	switch {
	case len(list) == 0:
		return nil, true
	case !f.sent || f.field.join.Set || f.field.cut != nil || f.field.html || f.field.looked:
		return nil, false // what the legacy has is not what the public value is made of
	case len(list) == 1 || f.join == repeatValues:
		return list, false
	case f.join != "":
		return []string{strings.Join(list, f.join)}, false
	}
	return nil, false // several values, and no way to name them: the gateway filters
}

// legacyOf gives the legacy values that a public value stands for; none: no record can
// have it.
func (f *filter) legacyOf(public string) []string {
	if f.legacy == nil {
		return []string{public}
	}
	list := f.legacy[public]
	if !f.field.keep {
		return list
	}
	// A value without an entry is kept, so it can be asked for by its own name,
	// unless that name has an entry and never shows.
	if _, translated := f.field.values[public]; !translated {
		list = append(slices.Clip(list), public)
	}
	return list
}

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
	ownBase := p.Second != nil && !p.selects
	return p.byStatus.asked(ownBase), p.byType.asked(ownBase)
}

// asked is what ask says of all values that a configuration names. ownBase: none is
// selected by the gateway from a whole list.
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
