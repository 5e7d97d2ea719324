package mapping

import (
	"strings"
	"testing"

	"inquiry-gateway/upstream/internal/sample"
)

func TestGatewayFilters(t *testing.T) {
	answered := strings.NewReplacer(`"state":"N"`, `"state":"A"`, `"delivery"`, `"refund"`).Replace(sample.Ticket)
	body := `{"result":{"items":[` + sample.Ticket + "," + answered + `]}}`
	for want, n := range map[Request]int{{}: 2, {Status: "pending"}: 1, {InquiryType: "refund"}: 1, {Status: "pending", InquiryType: "refund"}: 0} {
		r, err := mapBuyer(t, sample.YAML, body, want)
		if err != nil || len(r.List) != n || r.Seen != 2 {
			t.Errorf("%+v: %d records, %v", want, len(r.List), err)
		}
	}
}

func TestFilterAsk(t *testing.T) {
	values := map[string]string{"N": "pending", "A": "answered", "C": "closed", "X": "closed"}
	status := &field{values: values}
	byDefault := &field{values: map[string]string{"1": "refund"}, def: Default{Set: true, Value: "general"}}
	free := &field{}
	keep := &field{values: values, keep: true}
	fixed := &field{fixed: Default{Set: true, Value: "open"}}
	joined := &field{join: Default{Set: true}}
	for _, tc := range []struct {
		field      *field
		join       string
		sent       bool
		want, send string
		impossible bool
	}{
		{status, "", true, "", "", false}, {status, "", true, "pending", "N", false}, {status, "", false, "pending", "", false},
		{status, "", true, "N", "", true}, {status, "", false, "nosuch", "", true}, {status, "", true, "closed", "", false},
		{status, ",", true, "closed", "C,X", false}, {status, "repeat", true, "closed", "C X", false}, {status, "repeat", false, "closed", "", false},
		{byDefault, "", true, "general", "", false}, {byDefault, "", true, "refund", "1", false}, {byDefault, "", true, "x", "", true},
		{free, "", true, "anything", "anything", false}, {free, "", false, "anything", "", false},
		{keep, "", true, "other", "other", false}, {keep, "", true, "N", "", true}, {keep, ",", true, "closed", "C,X,closed", false},
		{fixed, "", true, "open", "", false}, {fixed, "", true, "closed", "", true}, {joined, "", true, "a b", "", false},
	} {
		f := newFilter(tc.field, tc.join, tc.sent)
		if send, impossible := f.ask(tc.want); strings.Join(send, " ") != tc.send || impossible != tc.impossible {
			t.Errorf("%q: got %q %v, want %q", tc.want, send, impossible, tc.send)
		}
		all := f.asked(true)
		asked, ok := all.Values[tc.want]
		if !ok {
			asked = all.Other
		}
		want := AskedFor
		if tc.impossible {
			want = NoRecord
		} else if tc.send == "" {
			want = SelectedHere
		}
		if asked != want && tc.want != "" {
			t.Errorf("%q: told %d in advance, want %d", tc.want, asked, want)
		}
	}
}

// askedOf is what becomes of a value.
func askedOf(f Filter, value string) Asked {
	if a, ok := f.Values[value]; ok {
		return a
	}
	return f.Other
}

func TestFilters(t *testing.T) {
	joined := []string{"inquiry_type: {path: category, default: null}", `inquiry_type: {path: category, join: " ", default: null}`}
	fetched := []string{"      items: replies\n", "      items: comments\n      fetch: {path: \"/v2/{id}\", id: uuid}\n"}
	for _, tc := range []struct {
		name, section, kind        string
		status, inquiryType        string
		wantStatus, wantOfTheTypes Asked
	}{
		{"both are sent", sample.YAML, "buyer", "pending", "x", AskedFor, AskedFor},
		{"no such status", sample.YAML, "buyer", "nosuch", "x", NoRecord, AskedFor},
		{"neither is sent", sample.YAML, "seller", "pending", "general", SelectedHere, SelectedHere},
		{"no such status of a seller", sample.YAML, "seller", "nosuch", "x", NoRecord, SelectedHere},
		{"one cannot be named", changed(t, joined...), "buyer", "pending", "a b", AskedFor, SelectedHere},
		{"responses are fetched for what is kept", changed(t, append(joined, fetched...)...), "buyer", "pending", "a b", AskedFor, AskedFor},
		{"responses are fetched for the whole list once where the gateway filters", changed(t, append(fetched,
			"filtering: upstream", "filtering: gateway", `, state: "{status}"`, "", `, category: "{inquiry_type}"`, "")...), "buyer", "pending", "x", SelectedHere, SelectedHere},
	} {
		status, inquiryType := planFrom(t, tc.section, tc.kind).Filters()
		if a, b := askedOf(status, tc.status), askedOf(inquiryType, tc.inquiryType); a != tc.wantStatus || b != tc.wantOfTheTypes {
			t.Errorf("%s: %v and %v", tc.name, a, b)
		}
	}
}
