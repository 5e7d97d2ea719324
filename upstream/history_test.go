package upstream

import (
	"reflect"
	"strings"
	"testing"
)

// nextTime reads a reply with the memory, and with what was learnt, of one that
// was given back.
func nextTime(plan *endpointPlan, before []string, body string) (*reply, *Error) {
	r := newReply(plan, Request{Kind: "buyer", Account: "acme"})
	for _, text := range before {
		_ = r.read(text) // whatever comes of it
		r.reset()
		r.want, r.account = Request{Kind: "buyer", Account: "acme"}, "acme"
	}
	return r, r.read(body)
}

// sameAsNew compares a reply that is read with used memory with one that is not.
func sameAsNew(t *testing.T, plan *endpointPlan, before []string, body string) {
	t.Helper()
	got, gotErr := nextTime(plan, before, body)
	want, wantErr := nextTime(plan, nil, body)
	if !reflect.DeepEqual(gotErr, wantErr) {
		t.Fatalf("after %q, %q: %v, alone %v", before, body, gotErr, wantErr)
	}
	if !reflect.DeepEqual(got.list, want.list) || !reflect.DeepEqual(got.fetchIDs, want.fetchIDs) ||
		got.seen != want.seen || got.foreign != want.foreign || !reflect.DeepEqual(got.skipped, want.skipped) || !reflect.DeepEqual(got.removed, want.removed) {
		t.Fatalf("after %q, %q:\n%+v\nalone:\n%+v", before, body, got.list, want.list)
	}
	if got.learnt > maxLearnt {
		t.Fatalf("learnt %d", got.learnt)
	}
}

// A name that is not UTF-8 is refused each time that it comes.
func TestAlienNamesAreNotLearnt(t *testing.T) {
	plan := planFrom(t, mappingYAML, "buyer")
	alien := `{"result":{"items":[` + strings.Replace(goodTicket, `"subject"`, "\"x\xff\":1,\"subject\"", 1) + `]}}`
	good := `{"result":{"items":[` + goodTicket + `]}}`
	sameAsNew(t, plan, []string{good, alien}, alien)
	sameAsNew(t, plan, []string{alien}, alien)
	sameAsNew(t, plan, []string{alien}, good)
}

// What the replies before were like makes no difference to a reply.
func FuzzRepliesBefore(f *testing.F) {
	good := `{"result":{"items":[` + goodTicket + `]}}`
	f.Add(good, good, uint8(0))
	f.Add(good, tickets(3), uint8(1))
	f.Add(`{"result":{"items":[{"\u0075uid":1,"uuid":2}]}}`, good, uint8(0))
	f.Add(`{"result":{"items":{"a":`+goodTicket+`}}}`, `{"result":{"items":{"a":`+goodTicket+`,"\u0061":1}}}`, uint8(2))
	f.Add("{\"a\xff\":1}", "{\"a\xff\":1,\"result\":{\"items\":[]}}", uint8(0))
	plans := []*endpointPlan{
		planFrom(f, mappingYAML, "buyer"),
		planFrom(f, strings.Replace(mappingYAML, "filtering: upstream", "filtering: upstream\n  on_invalid_record: skip", 1), "buyer"),
		planFrom(f, strings.Replace(mappingYAML, "  items: result.items", "  items: result.items.@values\n  on_invalid_record: skip", 1), "buyer"),
	}
	f.Fuzz(func(t *testing.T, before, body string, which uint8) {
		sameAsNew(t, plans[int(which)%len(plans)], []string{before, before}, body)
	})
}
