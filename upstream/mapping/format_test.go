package mapping

import "testing"

func TestReplyMistakes(t *testing.T) {
	for reply, key := range map[string]string{
		"{format: csv}":                  "buyer.reply.format",
		"{charset: klingon}":             "buyer.reply.charset",
		"{media_types: [html]}":          "buyer.reply.media_types[0]",
		"{media_types: ['text/*']}":      "buyer.reply.media_types[0]",
		"{empty_statuses: [404, 500]}":   "buyer.reply.empty_statuses[1]",
		"{empty_statuses: [200]}":        "buyer.reply.empty_statuses[0]",
		"{format: xml, charset: euc-kr}": "",
	} {
		_, wrong := compileSection(t, changed(t, "items: result.items", "items: result.items\n  reply: "+reply))
		if wrong[key] == "" && key != "" || len(wrong) != min(len(key), 1) {
			t.Errorf("%s: %v", reply, wrong)
		}
	}
	if _, wrong := compileSection(t, changed(t, "items: result.items", `items: "@this"`+"\n  reply: {format: xml}")); wrong["buyer.items"] == "" {
		t.Errorf("an element taken for a list: %v", wrong)
	}
}

// Paths are walked as far as they name elements, and each part that takes one as
// a list marks it.
func TestListsInXML(t *testing.T) {
	for path, body := range map[string]string{
		"a.#.b":                `{"r":{"a":[{"b":"1"}]}}`,
		"a.0.b":                `{"r":{"a":[{"b":"1"}]}}`,
		"a|#.b":                `{"r":{"a":[{"b":"1"}]}}`,
		`a.#(b=="1").b`:        `{"r":{"a":[{"b":"1"}]}}`,
		`a.#(b=="x.y|z")#.c.#`: `{"r":{"a":[{"b":"1"}]}}`,
		"a.b.#":                `{"r":{"a":{"b":["1"]}}}`,
		"a.@values.#":          `{"r":{"a":{"b":"1"}}}`,
		"a.b":                  `{"r":{"a":{"b":"1"}}}`,
	} {
		f := Format{}
		f.XML = true
		at := f.place()
		at.names = []string{"r"}
		at.note(path)
		if got, err := f.Decode("<r><a><b>1</b></a></r>", "", 1000); got != body || err != nil {
			t.Errorf("%s: %s %v, want %s", path, got, err, body)
		}
	}
}
