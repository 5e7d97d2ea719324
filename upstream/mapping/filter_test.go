package mapping

import (
	"strings"
	"testing"

	"inquiry-gateway/internal/filters"
	"inquiry-gateway/internal/testkit"
)

func TestGatewayFilters(t *testing.T) {
	answered := strings.NewReplacer(`"state":"N"`, `"state":"A"`, `"delivery"`, `"refund"`).Replace(testkit.SampleTicket)
	body := `{"result":{"items":[` + testkit.SampleTicket + "," + answered + `]}}`
	for want, n := range map[Request]int{{}: 2, {Status: "pending"}: 1, {InquiryType: "refund"}: 1, {Status: "pending", InquiryType: "refund"}: 0} {
		r, err := mapBuyer(t, testkit.SampleYAML, body, want)
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
		want := filters.AskedFor
		if tc.impossible {
			want = filters.NoRecord
		} else if tc.send == "" {
			want = filters.SelectedHere
		}
		if asked != want && tc.want != "" {
			t.Errorf("%q: told %d in advance, want %d", tc.want, asked, want)
		}
	}
}

func TestFilters(t *testing.T) {
	joined := []string{"inquiry_type: {path: category, default: null}", `inquiry_type: {path: category, join: " ", default: null}`}
	fetched := []string{"      items: replies\n", "      items: comments\n      fetch: {path: \"/v2/{id}\", id: uuid}\n"}
	for _, tc := range []struct {
		name, section, kind        string
		status, inquiryType        string
		wantStatus, wantOfTheTypes filters.Asked
	}{
		{"both are sent", testkit.SampleYAML, "buyer", "pending", "x", filters.AskedFor, filters.AskedFor},
		{"no such status", testkit.SampleYAML, "buyer", "nosuch", "x", filters.NoRecord, filters.AskedFor},
		{"neither is sent", testkit.SampleYAML, "seller", "pending", "general", filters.SelectedHere, filters.SelectedHere},
		{"no such status of a seller", testkit.SampleYAML, "seller", "nosuch", "x", filters.NoRecord, filters.SelectedHere},
		{"one cannot be named", changed(t, joined...), "buyer", "pending", "a b", filters.AskedFor, filters.SelectedHere},
		{"responses are fetched for what is kept", changed(t, append(joined, fetched...)...), "buyer", "pending", "a b", filters.AskedFor, filters.AskedFor},
		{"responses are fetched for the whole list once where the gateway filters", changed(t, append(fetched,
			"filtering: upstream", "filtering: gateway", `, state: "{status}"`, "", `, category: "{inquiry_type}"`, "")...), "buyer", "pending", "x", filters.SelectedHere, filters.SelectedHere},
	} {
		status, inquiryType := planFrom(t, tc.section, tc.kind).Filters()
		if a, b := status.Of(tc.status), inquiryType.Of(tc.inquiryType); a != tc.wantStatus || b != tc.wantOfTheTypes {
			t.Errorf("%s: %v and %v", tc.name, a, b)
		}
	}
}
