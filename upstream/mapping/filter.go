package mapping

import (
	"errors"
	"maps"
	"slices"

	"inquiry-gateway/internal/filters"
	"inquiry-gateway/upstream/address"
)

// Request gives the request for a list. impossible: no record can have the wanted values, so there
// is nothing to ask for. The reply may have more records than the wanted ones: [Builder.Take]
// leaves the others out.
func (p *Plan) Request(want Query) (ask PagedRequest, impossible bool) {
	status, noStatus := p.byStatus.values(want.Status)
	inquiryType, noType := p.byType.values(want.InquiryType)
	values := address.Values{address.Account: {want.Account}, address.Secret: {want.Secret}, address.Status: status, address.Type: inquiryType}
	return PagedRequest{request: &p.request, values: values}, noStatus || noType
}

// PagedRequest is one request, for each of its pages. It is safe for concurrent use.
type PagedRequest struct {
	request *address.Template
	values  address.Values
	second  bool // for the responses or the details of records
}

// Page gives the request for a page, which has these values besides those of the
// list. An [*Error] is for the id of a record, which the legacy has given; every other
// error is an [*address.Unsendable].
func (a PagedRequest) Page(page address.Values) (address.Request, error) {
	values := a.values
	if len(page) > 0 {
		values = maps.Clone(values)
		maps.Copy(values, page)
	}
	r, err := a.request.Request(values)
	if bad, ok := errors.AsType[*address.Unsendable](err); ok && a.second && bad.Placeholder != address.Account && bad.Placeholder != address.Cursor {
		err = newError("record", "the id of a record cannot be sent: %w", err)
	}
	return r, err
}

// TakesJSON tells whether the cursor may be any value of JSON.
func (a PagedRequest) TakesJSON() bool { return a.request.TakesJSON() }

// filter turns the public value of a query parameter into what the legacy is
// asked for. Whatever it is asked for, the gateway keeps only the records whose
// public value is the wanted one: a legacy that ignores a parameter must not
// make a wrong list.
type filter struct {
	field        *textField
	inRequest    bool // the request holds the placeholder, for what the legacy has
	takesSeveral bool // it can name several legacy values
}

// filters compiles both filters. What the request holds no placeholder for is filtered by the
// gateway.
func (c *compiler) filters(cfg FieldsConfig) {
	p := c.plan
	p.filtersHere = !p.request.Has(address.Status) && !p.request.Has(address.Type)
	p.byStatus = c.filter(address.Status, p.status, cfg.Status.ValuesJoin)
	p.byType = c.filter(address.Type, p.inquiryType, cfg.InquiryType.ValuesJoin)
}

// filter compiles the filter of a placeholder's field. A parameter that is to be repeated
// must be nothing but the value.
func (c *compiler) filter(placeholder string, t *textField, join string) filter {
	request := &c.plan.request
	if t.values != nil {
		request.Trust(placeholder)
	}
	several, err := request.Join(placeholder, join, "")
	c.AddIf(err != nil, c.plan.Kind+".fields."+placeholder+".values_join", "%v", err)
	// A text that is made of several, or of a part, is not what the legacy has.
	sent := request.Has(placeholder) && !t.join.Set && !t.html && !t.viaLookup
	return filter{field: t, inRequest: sent, takesSeveral: several}
}

// untranslatable are public values of records that have something else, or nothing, in the legacy: by
// default, as all others do, or by a reference. No filter of the legacy finds these records.
func (t *textField) untranslatable() []OptionalString {
	all := []OptionalString{t.def, t.others}
	for _, one := range t.references {
		all = append(all, one.public)
	}
	return all
}

// values gives the legacy's values for a public one, none for no filter. impossible: no record can
// have the wanted value. Where the request cannot say exactly what is wanted, the filter is left
// out and the gateway selects: more than needed is slow, less would be wrong.
func (f *filter) values(want string) (send []string, impossible bool) {
	t := f.field
	switch {
	case want == "":
		return nil, false
	case t.constant.Set:
		return nil, t.constant.Value != want
	case slices.ContainsFunc(t.untranslatable(), func(d OptionalString) bool { return d.Value == want }):
		return nil, false
	}
	var list []string
	for legacy, public := range t.values {
		if public == want {
			list = append(list, legacy)
		}
	}
	slices.Sort(list) // equal filters make equal requests
	if _, translated := t.values[want]; t.values == nil || t.keepUnknown && !translated {
		// Without an entry a value is kept, so it can be asked for by its own name,
		// unless that name has an entry and never shows.
		list = append(list, want)
	}
	switch {
	case len(list) == 0:
		return nil, true
	case !f.inRequest || slices.Contains(list, "") || len(list) > 1 && !f.takesSeveral:
		return nil, false // an empty value would be left out, and its records with it
	}
	return list, false
}

// Filters tell, for each value of status and inquiry_type, how its list is made. Local: of
// the list without the filter, from which its records can be selected. Where responses come by
// second requests that list would cost one for each of its records: such a value is Upstream then,
// and only its own records' responses are. Where no filter is ever sent, the whole list is read anyway.
func (p *Plan) Filters() (status, inquiryType filters.Filter) {
	selectable := p.Responses == nil || p.filtersHere
	return p.byStatus.describe(selectable), p.byType.describe(selectable)
}

// FilterValues are the public values, by the name of their filter, of which the legacy is sent one of its own.
func (p *Plan) FilterValues() map[string][]string {
	all := map[string][]string{}
	for name, f := range map[string]*filter{"status": &p.byStatus, "inquiry_type": &p.byType} {
		for value, asked := range f.describe(true).Values {
			if asked == filters.Upstream {
				all[name] = append(all[name], value)
			}
		}
		slices.Sort(all[name])
	}
	return all
}

// describe is what becomes of all values that a configuration names. selectable: the gateway may
// select from the list without the filter.
func (f *filter) describe(selectable bool) filters.Filter {
	of := func(value string) filters.Source {
		send, impossible := f.values(value)
		switch {
		case impossible:
			return filters.Empty
		case len(send) == 0 && selectable:
			return filters.Local
		}
		return filters.Upstream
	}
	all := filters.Filter{Values: make(map[string]filters.Source), Other: of("\x00")} // which is no value of any
	for legacy, public := range f.field.values {
		all.Values[legacy], all.Values[public] = of(legacy), of(public)
	}
	for _, d := range append(f.field.untranslatable(), f.field.constant) {
		if d.Value != "" {
			all.Values[d.Value] = of(d.Value)
		}
	}
	return all
}
