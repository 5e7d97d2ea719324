package upstream

import (
	"slices"
	"strings"
)

// Values of filtering.
const (
	filterUpstream = "upstream"
	filterGateway  = "gateway"
)

// repeatValues is the values_join that repeats the parameter.
const repeatValues = "repeat"

// filter turns the public value of a query parameter into what the legacy is
// asked for. Whatever it is asked for, the gateway keeps only the records whose
// public value is the wanted one: a legacy that ignores a parameter must not
// make a wrong list.
type filter struct {
	field  *textPlan
	sent   bool                // the request holds the placeholder
	join   string              // of several legacy values
	legacy map[string][]string // by public value; nil when the field has no values
}

// newFilter turns a field's values round. sent: the request has a place for
// it.
func newFilter(field *textPlan, join string, sent bool) filter {
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

// ask gives the values to send, none for no filter. impossible: no record can
// have the wanted value, so there is nothing to ask for.
func (f *filter) ask(want string) (send []string, impossible bool) {
	if want == "" {
		return nil, false
	}
	if f.field.fixed.Set {
		return nil, f.field.fixed.Value != want
	}
	// Records that get the value by default have something else, or nothing,
	// in the legacy: no filter of the legacy finds them.
	if f.field.def.Set && f.field.def.Value == want {
		return nil, false
	}
	list := []string{want}
	if f.legacy != nil {
		list = f.legacyOf(want)
	}
	switch {
	case len(list) == 0:
		return nil, true
	case !f.sent || f.field.join.Set || f.field.html:
		return nil, false // what the legacy has is not what the public value is made of
	case len(list) == 1 || f.join == repeatValues:
		return list, false
	case f.join != "":
		return []string{strings.Join(list, f.join)}, false
	}
	return nil, false // several values, and no way to name them: the gateway filters
}

// Plan tells what the legacy is asked for a list. The base is want without the
// filters that it is not sent, since the gateway applies them: two requests with
// the same base ask it the same thing, and a list is a selection from that of its
// base. impossible: no record can have the wanted values, so it is not asked at
// all. A list whose responses are fetched by further requests is its own base:
// they are made for the records that are kept. So is one of an unknown kind.
func (c *Client) Plan(want Request) (base Request, impossible bool) {
	e, ok := c.endpoints[want.Kind]
	if !ok {
		return want, false
	}
	status, noStatus := e.plan.byStatus.ask(want.Status)
	inquiryType, noType := e.plan.byType.ask(want.InquiryType)
	if noStatus || noType {
		return want, true
	}
	if r := e.plan.responses; r != nil && r.fetch != nil {
		return want, false
	}
	if base = want; len(status) == 0 {
		base.Status = ""
	}
	if len(inquiryType) == 0 {
		base.InquiryType = ""
	}
	return base, false
}

// legacyOf gives the legacy values that a public value stands for.
func (f *filter) legacyOf(public string) []string {
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
