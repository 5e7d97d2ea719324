package mapping

import (
	"strings"
	"testing"

	"inquiry-gateway/upstream/internal/sample"
)

// Records that are the members of an object are explained as those of an array are.
func TestExplainRecordsOfAnObject(t *testing.T) {
	x := planFrom(t, changed(t, "items: result.items", "items: result.items.@values"), "buyer").Explainer(Request{Account: "acme"}, 1)
	n, err := x.Take(`{"result":{"items":{"k-1":` + sample.Ticket + `}}}`)
	x.Finish()
	if err != nil || n != 1 || len(x.Violations) != 0 || len(x.Served()) != 1 || len(x.Served()[0].Responses) != 1 {
		t.Fatalf("%d %v %+v %+v", n, err, x.Served(), x.Violations)
	}
	if f := x.Records[0].Fields[5]; !strings.HasPrefix(f.Mapped, "1 responses, the last: On its way") {
		t.Errorf("%+v", f)
	}
}

// Of a page that is no list nothing is explained, whatever stands before the mistake.
func TestExplainABrokenPage(t *testing.T) {
	x := planFrom(t, sample.YAML, "buyer").Explainer(Request{Account: "acme"}, 9)
	quotes := strings.Replace(sample.Ticket, "Where is it?", "as 6f1c2a34-1111-4222-8333-944455566677", 1)
	if _, err := x.Take(sample.List(sample.Ticket)); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Take(strings.TrimSuffix(sample.List(quotes, "7"), "}")); err == nil {
		t.Fatal("half a reply was accepted")
	}
	x.Finish()
	if x.Items != 1 || x.Replies != 1 || len(x.Records) != 1 || len(x.Violations) != 0 || x.Removed.Texts != 0 || len(x.Served()) != 1 {
		t.Errorf("%+v", x.Explanation)
	}
}
