package legacy_test

import (
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/legacy"
)

// newClient is the gateway's client with the embedded mapping. It shares no code
// with Truth or the rendering, so that they can only agree where all are right.
func newClient(t *testing.T, web *httptest.Server) *upstream.Client {
	t.Helper()
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
	t.Cleanup(client.Close)
	return client
}

// TestClientReadsTheTruth fetches every list of every account under every kind
// of filter.
func TestClientReadsTheTruth(t *testing.T) {
	s, web := start(t, legacy.Options{Seed: 7})
	client := newClient(t, web)
	for _, kind := range []string{legacy.KindBuyer, legacy.KindSeller} {
		for _, account := range append(s.Accounts(kind), "nobody") {
			for _, status := range []string{"", "pending", "closed", "unheard-of"} {
				for _, inquiryType := range []string{"", "product", "other"} {
					agree(t, client, s, upstream.Request{Kind: kind, Account: account, Status: status, InquiryType: inquiryType})
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

func TestNobodyUnknownHasInquiries(t *testing.T) {
	s, _ := start(t, legacy.Options{})
	for _, account := range []string{"nobody", legacy.BuyerEmpty, legacy.SellerEmpty} {
		for _, kind := range []string{legacy.KindBuyer, legacy.KindSeller, "neither"} {
			if got := s.Truth(kind, account, "", ""); got == nil || len(got) != 0 {
				t.Errorf("Truth(%s, %s) = %v, want an empty list", kind, account, got)
			}
		}
	}
}

func TestMappingIsStrictYAML(t *testing.T) {
	var doc struct {
		Upstream map[string]any `yaml:"upstream"`
	}
	if err := yaml.UnmarshalWithOptions(legacy.Mapping(), &doc, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if doc.Upstream["base_url"] != legacy.MappingBaseURL || strings.Count(string(legacy.Mapping()), legacy.MappingBaseURL) != 1 {
		t.Error("base_url is not the placeholder")
	}
}

// Every path that the mapping names leads somewhere in a real reply.
func TestMappingPathsExist(t *testing.T) {
	_, web := start(t, legacy.Options{})
	client := newClient(t, web)
	for kind, account := range map[string]string{legacy.KindBuyer: legacy.BuyerBusy, legacy.KindSeller: legacy.SellerTypical} {
		p, err := client.Probe(t.Context(), upstream.Request{Kind: kind, Account: account}, upstream.ProbeOptions{})
		if err != nil || p.Items < 100 || len(p.Paths) < 8 {
			t.Fatalf("%s: %d records, %d paths, %v", kind, p.Items, len(p.Paths), err)
		}
		for _, path := range p.Paths {
			if path.Found == path.Null {
				t.Errorf("%s: %s", kind, path)
			}
		}
	}
}
