package mapping

import (
	"fmt"
	"strings"
	"testing"

	"inquiry-gateway/upstream/internal/sample"
)

func TestAlwaysPresent(t *testing.T) {
	section := changed(t, "items: result.items", "always_present: [customer.id, category, \"customer|@this\"]\n  where: [{path: draft, absent: true}]\n  items: result.items")
	without := strings.Replace(sample.Ticket, `"category"`, `"kategory"`, 1)
	r, err := mapBuyer(t, section, sample.List(sample.Ticket, without, strings.Replace(without, "{", `{"draft":true,`, 1)), Request{})
	if err != nil || len(r.List) != 2 || r.Watched != 2 || fmt.Sprint(r.Lacking) != "[0 1 0]" {
		t.Errorf("%+v %v", r, err)
	}
	if plan := planFrom(t, sample.YAML, "buyer"); plan.always != nil {
		t.Error("lists without such paths pay for them")
	}
}

func TestAlwaysPresentMistakes(t *testing.T) {
	for paths, key := range map[string]string{
		`["a.b", "a..b"]`: "[1]", `[""]`: "[0]", `["replies.#.id"]`: "[0]", `["replies.#(a==1).id"]`: "[0]",
		"[" + strings.Repeat("a, ", mostAlways) + "a]": "",
	} {
		_, wrong := compileSection(t, changed(t, "items: result.items", "always_present: "+paths+"\n  items: result.items"))
		if len(wrong) != 1 || wrong["buyer.always_present"+key] == "" {
			t.Errorf("%s: %v", paths, wrong)
		}
	}
}
