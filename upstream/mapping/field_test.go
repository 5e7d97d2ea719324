package mapping

import (
	"fmt"
	"strings"
	"testing"
)

// mapTitle maps one record with the given field for its title.
func mapTitle(t testing.TB, field, record string) (title string, err error) {
	t.Helper()
	section := changed(t, "title: subject\n    status", "title: "+field+"\n    status")
	r := planFrom(t, section, "seller").NewBuilder(Request{Account: "7"})
	err = whole(r, `[{"uuid":"id-0001","vendor":{"id":7},"state":"A","customer":{"name":"c"},"opened":"2026-03-01T00:00:00Z",`+record+`}]`)
	if err != nil {
		return "", err
	}
	return r.List[0].Title, nil
}

func TestFieldExtensions(t *testing.T) {
	for _, tc := range []struct{ name, field, record, want, fails string }{
		{"first path", "[a, b]", `"a":"x","b":"y"`, "x", ""},
		{"second path", "[a, b]", `"a":null,"b":"y"`, "y", ""},
		{"object or string: object", "[a.display_value, a]", `"a":{"display_value":"d","value":"v"}`, "d", ""},
		{"object or string: string", "[a.display_value, a]", `"a":"s"`, "s", ""},
		{"no path", "{path: [a, b], default: z}", `"c":1`, "z", ""},
		{"const", "{const: Inquiry}", `"a":1`, "Inquiry", ""},
		{"join", `{path: [a, b, c], join: " "}`, `"a":"x","b":null,"c":3`, "x 3", ""},
		{"join elements", `{path: a, join: ", "}`, `"a":["x","y"]`, "x, y", ""},
		{"join nothing", `{path: [a, b], join: "-", default: none}`, `"c":1`, "none", ""},
		{"join object", `{path: a, join: "-"}`, `"a":{"b":1}`, "", "an object"},
		{"html", "{path: a, trim_html: true}", `"a":"<p>Hello &amp; <b>bye</b></p><script>x()</script><br>1 &lt; 2"`, "Hello & bye\n\n1 < 2", ""},
		{"cut before html", `{path: a, cut: ['\[/?code\]'], trim_html: true}`, `"a":"[code]<p>Hello</p>[/code]"`, "Hello", ""},
		{"unknown fails", "{path: a, values: {A: b}}", `"a":"C"`, "", "no entry"},
		{"unknown kept", "{path: a, values: {A: b}, unknown_values: keep}", `"a":"C"`, "C", ""},
		{"empty kept", "a", `"a":""`, "", ""},
		{"empty missing", "{path: a, empty: missing}", `"a":""`, "", "missing"},
		{"empty, next path", "{path: [a, b], empty: missing}", `"a":"","b":"y"`, "y", ""},
		{"empty, default", "{path: a, empty: missing, default: z}", `"a":""`, "z", ""},
		{"empty in values", `{path: a, values: {"": none}}`, `"a":""`, "none", ""},
		{"html that is empty", "{path: a, trim_html: true, empty: missing}", `"a":"<p> </p>"`, "", "missing"},
		{"number in values", "{path: a, values: {0: none, 1: one}}", `"a":0`, "none", ""},
		{"custom field list", `"f.#(id==360001).value"`, `"f":[{"id":1,"value":"n"},{"id":360001,"value":"y"}]`, "y", ""},
		{"values of an object", `{path: "a|@values", join: "/"}`, `"a":{"x":"1","y":"2"}`, "1/2", ""},
		{"id in HTML entities", "{path: a, trim_html: true}", `"a":"no. id&#45;0001"`, "no. [removed]", ""},
		{"id in a kept value", "{path: a, values: {A: b}, unknown_values: keep}", `"a":"id-0001"`, "[removed]", ""},
		{"id in a constant", "{const: id-0001}", `"a":1`, "id-0001", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := mapTitle(t, tc.field, tc.record)
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("got %q %v, want an error with %q", got, err, tc.fails)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %q %v, want %q", got, err, tc.want)
			}
		})
	}
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
}

// smallRecord is a good record with a state, a category and members of its own.
func smallRecord(title, state, category, rest string) string {
	return fmt.Sprintf(`{"customer":{"id":"acme"},"subject":%q,"body":{"text":"x"},"state":%s,"category":%s,"opened":"2026-03-01 09:30:00"%s}`, title, state, category, rest)
}

func smallList(records ...string) string {
	return `{"result":{"items":[` + strings.Join(records, ",") + `]}}`
}

// An id ends where a browser shows that its element does.
func TestIDsInHTML(t *testing.T) {
	const shown = "[removed] 5"
	for markup, want := range map[string]string{
		"<table><tr><td>ID0010001</td><td>5</td></tr></table>":                    shown,
		"<tr><th>ID0010001<th>5":                                                  shown,
		"<dl><dt>ID0010001</dt><dd>5</dd></dl>":                                   "[removed]\n5",
		"<select><option>ID0010001<option>5</select>":                             "[removed]\n5",
		"<ul><li>ID0010001<li>5</ul>":                                             "[removed]\n5",
		"ID0010001<br>5":                                                          "[removed]\n5",
		"<p>ID0010001<p>5":                                                        "[removed]\n\n5",
		"<h4>ID0010001</h4>5":                                                     "[removed]\n\n5",
		"<figure>ID0010001<figcaption>5</figcaption></figure>":                    "[removed]\n5",
		"<fieldset><legend>ID0010001</legend>5</fieldset>":                        "[removed]\n5",
		"<ruby>ID0010001<rt>5</rt></ruby>":                                        shown,
		"ID0010001<img src=x>5":                                                   shown,
		"<x-badge>ID0010001</x-badge><x-badge>5</x-badge>":                        shown,
		"ID0010001<sup>5</sup>":                                                   shown,
		"<b>ID00</b><i>10001</i>":                                                 "[removed]",
		"10<sup>3</sup> and 4<sup>th</sup>":                                       "10 3 and 4th",
		"<head><meta charset=utf-8><body><p>Hello</p>":                            "Hello",
		"<html><head><title>Mail</title><p>Hello":                                 "Hello",
		"<head><style>p{}</style><title>Mail</title></head><p>Hello":              "Hello",
		"<head><title/><style type=x /></head><p>Hello":                           "Hello",
		"<p>a</p><template><p>no<template>no</template>no</p></template><p>b</p>": "a\n\nb",
		"<noframes><b>no</b></noframes>b":                                         "b",
		"a<br>\nb<br />\r\nc<br> \n\nd":                                           "a\nb\nc\n\nd",
		"<p>a</p>\n<p>b</p>\n":                                                    "a\n\nb",
		"<ul>\n<li>a</li>\n<li>b</li>\n</ul>":                                     "a\nb",
		"<div>a</div><div>b</div><div><br></div>c":                                "a\nb\n\nc",
	} {
		var r Builder
		r.ids.Add("ID0010001")
		if got, _ := r.ids.Clean(htmlText(markup)); got != want {
			t.Errorf("%s: got %q, want %q", markup, got, want)
		}
	}
}

func FuzzHTML(f *testing.F) {
	f.Add("<p>a</p><script>b")
	f.Add("&lt;<!-- <b> -->")
	f.Fuzz(func(t *testing.T, s string) {
		if got := htmlText(s); strings.ContainsAny(s, "<&") && strings.TrimSpace(got) != got {
			t.Errorf("%q", got)
		}
	})
}
