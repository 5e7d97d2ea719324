package mapping

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"inquiry-gateway/internal/filters"
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
// list. An [*Error] is for the id of a record, which the legacy has given; every other
// error is an [*address.Unsendable].
func (a Asking) Page(page address.Values) (address.Request, error) {
	values := a.values
	if len(page) > 0 {
		values = maps.Clone(values)
		maps.Copy(values, page)
	}
	r, err := a.plan.Request(values)
	if bad, ok := errors.AsType[*address.Unsendable](err); ok && a.second && bad.Placeholder != address.Account && bad.Placeholder != address.Cursor {
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
	*field
	sent   bool                // the request holds the placeholder, for what the legacy has
	join   string              // of several legacy values
	legacy map[string][]string // by public value, in order: equal filters make equal requests
}

// repeatValues is the join of several values that repeats the parameter.
const repeatValues = "repeat"

const cannotRepeat = "%s cannot be repeated for each value: it is more than {%s}, or in a body and no element of a list; " +
	"give a separator, or make the placeholder a parameter or list element of its own"

// filters compiles both filters, and refuses a configuration in which one
// would silently not be applied.
func (c *compiler) filters(cfg EndpointConfig) {
	p, at := c.plan, c.prefix+".filtering"
	hasStatus, hasType := p.request.Has(address.Status), p.request.Has(address.Type)
	p.selects = cfg.Filtering == FilterGateway
	c.AddIf(!p.selects && !hasStatus && !hasType, at,
		"the legacy is to filter but neither query nor body holds {status} or {inquiry_type}; add those that it knows, or set filtering: gateway")
	c.AddIf(p.selects && (hasStatus || hasType), at,
		"the gateway is to filter but query or body holds {status} or {inquiry_type}; remove them, or remove filtering: what the query cannot ask for is selected here")
	p.byStatus = c.filter(address.Status, p.status, cfg.Fields.Status.ValuesJoin)
	p.byType = c.filter(address.Type, p.inquiryType, cfg.Fields.InquiryType.ValuesJoin)
}

// filter compiles the filter of a placeholder's field. A parameter that is to be repeated
// must be nothing but the value.
func (c *compiler) filter(placeholder string, d *field, join string) filter {
	request := &c.plan.request
	if d.values != nil {
		request.Trust(placeholder)
	}
	if join == repeatValues {
		for _, place := range request.OneValue(placeholder) {
			c.Add(c.prefix+".fields."+placeholder+".values_join", cannotRepeat, place, placeholder)
		}
	}
	if join == "" && request.InLists(placeholder) {
		join = repeatValues
	}
	// A text that is made of several, or of a part, is not what the legacy has.
	sent := !c.plan.selects && request.Has(placeholder) && !d.join.Set && d.cut == nil && !d.html && !d.looked
	f := filter{field: d, join: join, sent: sent, legacy: map[string][]string{}}
	for legacy, public := range d.values {
		f.legacy[public] = append(f.legacy[public], legacy)
	}
	for _, list := range f.legacy {
		slices.Sort(list)
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
	case f.fixed.Set:
		return nil, f.fixed.Value != want
	case f.def.Set && f.def.Value == want:
		// Records that get the value by default have something else, or nothing,
		// in the legacy: no filter of the legacy finds them.
		return nil, false
	}
	list := f.legacy[want]
	if _, translated := f.values[want]; f.values == nil || f.keep && !translated {
		// Without an entry a value is kept, so it can be asked for by its own name,
		// unless that name has an entry and never shows.
		list = append(slices.Clip(list), want)
	}
	switch {
	case len(list) == 0:
		return nil, true
	case !f.sent || slices.Contains(list, ""):
		return nil, false // an empty value would be left out, and its records with it
	case len(list) == 1 || f.join == repeatValues:
		return list, false
	case f.join != "":
		return []string{strings.Join(list, f.join)}, false
	}
	return nil, false // several values, and no way to name them: the gateway filters
}

// Filters tell what becomes of the values of status and inquiry_type. A list is a
// selection from that without the values that are SelectedHere. Where responses are
// fetched by further requests none is: those are made for the records that are kept.
func (p *Plan) Filters() (status, inquiryType filters.Filter) {
	selectable := p.Second == nil || p.selects
	return p.byStatus.asked(selectable), p.byType.asked(selectable)
}

// asked is what ask says of all values that a configuration names. selectable: the gateway
// may select from a whole list.
func (f *filter) asked(selectable bool) filters.Filter {
	of := func(value string) filters.Asked {
		send, impossible := f.ask(value)
		switch {
		case impossible:
			return filters.NoRecord
		case len(send) == 0 && selectable:
			return filters.SelectedHere
		}
		return filters.AskedFor
	}
	all := filters.Filter{Values: make(map[string]filters.Asked), Other: of("\x00")} // which is no value of any
	for legacy, public := range f.values {
		all.Values[legacy], all.Values[public] = of(legacy), of(public)
	}
	for _, d := range []Default{f.fixed, f.def} {
		if d.Set {
			all.Values[d.Value] = of(d.Value)
		}
	}
	return all
}
