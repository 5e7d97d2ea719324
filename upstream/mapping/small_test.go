package mapping

import (
	"fmt"
	"strings"
	"testing"
)

// smallRecord is a good record with a state, a category and members of its own.
func smallRecord(title, state, category, rest string) string {
	return fmt.Sprintf(`{"customer":{"id":"acme"},"subject":%q,"body":{"text":"x"},"state":%s,"category":%s,"opened":"2026-03-01 09:30:00"%s}`, title, state, category, rest)
}

func smallList(records ...string) string {
	return `{"result":{"items":[` + strings.Join(records, ",") + `]}}`
}

func TestValuesThatMeanNull(t *testing.T) {
	for _, category := range []string{
		`inquiry_type: {path: category, values: {0: null, 1: delivery}}`,
		`inquiry_type: {path: category, values: {1: delivery}, null_values: [0]}`,
	} {
		section := changed(t, "inquiry_type: {path: category, default: null}", category, "state, values: {N: pending, A: answered}", "state, null_values: [0, none], default: new")
		body := smallList(smallRecord("a", `"none"`, "0", ""), smallRecord("b", "0", "1", ""), smallRecord("c", "1", `"0"`, ""), smallRecord("d", "1", "null", ""))
		r, err := mapBuyer(t, section, body, Request{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, inq := range r.List {
			got += inq.Status + "/" + inq.InquiryType.String + " "
		}
		if got != "new/ new/delivery 1/ 1/ " || r.List[0].InquiryType.Valid {
			t.Errorf("%s: %q", category, got)
		}
	}
	_, wrong := compileSection(t, changed(t, "title: subject", "title: {path: a, values: {1: x}, null_values: [1]}", "created_at: {path: opened,", "created_at: {path: opened, null_values: [0],"))
	if wrong["buyer.fields.title.null_values"] == "" || wrong["buyer.fields.created_at.null_values"] == "" {
		t.Error(wrong)
	}
}

func TestTimeOfTwoFields(t *testing.T) {
	section := changed(t, `{path: opened, format: "2006-01-02 15:04:05"`, `{path: [day, hour], join: " ", format: "2006-01-02 15:04:05"`)
	for rest, why := range map[string]string{
		`,"day":"2026-03-01","hour":"09:30:00"`: "",
		`,"day":"2026-03-01","hour":null`:       whyMissing,
		`,"hour":"09:30:00"`:                    whyMissing,
		`,"day":"2026-03-01","hour":[1]`:        whyShape,
		`,"day":"2026-03-01","hour":"9.30"`:     whyTime,
	} {
		r, err := mapBuyer(t, section, smallList(smallRecord("a", `"N"`, "null", rest)), Request{})
		if why == "" && (err != nil || r.List[0].CreatedAt.Hour() != 0) || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
			t.Errorf("%s: %v, want %q", rest, err, why)
		}
	}
	_, wrong := compileSection(t, changed(t, "created_at: {path: opened,", `created_at: {path: opened, join: " ",`))
	if wrong["buyer.fields.created_at.join"] == "" {
		t.Error(wrong)
	}
}
