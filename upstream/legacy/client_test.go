package legacy_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/legacy"
)

// TestClientReadsTheTruth fetches every list of every account under every kind
// of filter through the real client and the embedded mapping.
func TestClientReadsTheTruth(t *testing.T) {
	s, web := start(t, legacy.Options{})
	section := strings.Replace(string(legacy.Mapping()), legacy.MappingBaseURL, web.URL, 1)
	file := struct {
		Upstream upstream.Config `yaml:"upstream"`
	}{upstream.DefaultConfig()}
	if err := yaml.UnmarshalWithOptions([]byte(section), &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	client, err := upstream.New(file.Upstream, upstream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, kind := range []string{legacy.KindBuyer, legacy.KindSeller} {
		for _, account := range append(s.Accounts(kind), "nobody") {
			for _, status := range []string{"", "pending", "closed", "unheard-of"} {
				for _, inquiryType := range []string{"", "product", "other"} {
					r := upstream.Request{Kind: kind, Account: account, Status: status, InquiryType: inquiryType}
					agree(t, client, s, r)
				}
			}
		}
	}
}

func agree(t *testing.T, c *upstream.Client, s *legacy.Server, r upstream.Request) {
	t.Helper()
	got, err := c.Fetch(t.Context(), r)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	want := s.Truth(r.Kind, r.Account, r.Status, r.InquiryType)
	if len(got.Inquiries) != len(want) {
		t.Fatalf("%+v: %d records, want %d", r, len(got.Inquiries), len(want))
	}
	for i, q := range got.Inquiries {
		if len(q.Responses) == 0 && len(want[i].Responses) == 0 {
			q.Responses = want[i].Responses // nil and empty are one
		}
		if !reflect.DeepEqual(q, want[i]) {
			t.Fatalf("%+v, record %d:\n got %+v\nwant %+v", r, i, q, want[i])
		}
	}
}
