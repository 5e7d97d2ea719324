package legacy_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"inquiry-gateway/upstream/legacy"
)

func TestFirstListsHaveTheLengthAndTheBuyerAskedFor(t *testing.T) {
	s, web := start(t, legacy.Options{Seed: 1, Buyers: 4, Inquiries: 1000})
	const buyer = `a "buyer"`
	requests := 0
	for _, state := range []string{"", "N", "A", "C"} {
		for path, want := range map[string]int{"0": 0, "20": 20, "200": 200, "x": 0, "-1": 0} {
			requests++
			a := get(t, web, "/first/"+path+"/v2/tickets?"+url.Values{"customer": {buyer}, "state": {state}}.Encode())
			var reply struct {
				Result struct {
					Total int
					Items []struct {
						Customer struct{ ID string }
						State    string
					}
				}
			}
			if err := json.Unmarshal(a.body, &reply); err != nil {
				t.Fatal(err)
			}
			if len(reply.Result.Items) != want || reply.Result.Total != want {
				t.Errorf("%s: %d records instead of %d", path, len(reply.Result.Items), want)
			}
			for _, item := range reply.Result.Items {
				if item.Customer.ID != buyer || state != "" && item.State != state {
					t.Fatalf("a record of %q in state %q", item.Customer.ID, item.State)
				}
			}
		}
	}
	if n := s.Requests().Buyer; n != requests {
		t.Errorf("%d of %d requests were counted", n, requests)
	}
}

func TestFirstListsFollowChangesAndFaults(t *testing.T) {
	s, web := start(t, legacy.Options{Seed: 1, Inquiries: 1000})
	const path = "/first/5/v2/tickets?customer=anyone"
	before := get(t, web, path)
	s.Ask(legacy.BuyerBusy)
	if string(get(t, web, path).body) == string(before.body) {
		t.Error("a new inquiry is not in the list")
	}
	if err := s.SetFault(legacy.Fault{Name: legacy.FaultStatus, Account: "anyone"}); err != nil {
		t.Fatal(err)
	}
	if a := get(t, web, path); a.status != 500 {
		t.Errorf("with a fault of this account the status is %d", a.status)
	}
}
