package app

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"inquiry-gateway/gateway/ops"
	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/legacy"
)

const triedMapping = `path: /t
query: {c: "{account}"}
filtering: gateway
items: list
owner: who
internal_ids: [id]
fields:
  title: t
  content: c
  status: {path: s, values: {N: pending}}
  inquiry_type: {path: k, default: null}
  created_at: at
  responses: {items: r, fields: {content: c, responder_type: {const: null}, created_at: at}}
`

// A mapping that is being written is tried without a secret, a network or a trace in
// what runs.
func TestTryMapping(t *testing.T) {
	file := struct{ Upstream upstream.Config }{upstream.DefaultConfig()}
	if err := yaml.Unmarshal(legacy.Mapping(), &file); err != nil {
		t.Fatal(err)
	}
	section := file.Upstream
	section.BaseURL = "https://legacy.invalid"
	section.Auth = upstream.AuthConfig{Type: "bearer", TokenFile: secretfile.New("token", "hunter2")}
	section.Headers = map[string]string{"X-Secret": "hunter2"}
	const reply = `{"list":[
	 {"id":"A-100","who":"acme","t":"see A-100","c":"c","s":"N","k":null,"at":"2026-01-02T03:04:05Z","more":1},
	 {"id":"A-101","who":"acme","t":"x","c":"c","s":"Z","at":"2026-01-02T03:04:05Z"},
	 {"id":"A-102","who":"other","t":"theirs","c":"c","s":"N","at":"2026-01-02T03:04:05Z"}]}`
	try := func(mapping, reply string) (*trial, string) {
		t.Helper()
		got, err := tryMapping(t.Context(), section, ops.TryRequest{Kind: "buyer", Account: "acme", Mapping: mapping, Reply: reply})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(got)
		if err != nil || strings.Contains(string(text), "hunter2") {
			t.Fatalf("%v: %s", err, text)
		}
		return got, string(text)
	}
	got, _ := try(triedMapping, reply)
	if got.Items != 3 || !strings.HasPrefix(string(got.List), `{"data":[{"title":"see [removed]",`) || strings.Contains(string(got.List), "theirs") || len(got.Violations) != 1 ||
		got.Refused != "1 record of another account or of none" || len(got.Unused) != 1 || got.Unused[0].Path != "more" || len(got.Removed.Cuts) != 1 || got.Removed.Cuts[0].Before != "see A-100" {
		t.Errorf("%+v\n%s", got, got.List)
	}
	if got, _ = try(triedMapping+"on_foreign_record: drop\non_invalid_record: skip\n", reply); got.Refused != "" || got.LeftOut != 2 {
		t.Errorf("%+v", got)
	}
	for mapping, want := range map[string]string{
		strings.Replace(triedMapping, "title: t\n", "titel: t\n", 1):    `{"line":8,"key":"fields.titel","message":"unknown key; did you mean \"title\"?"}`,
		strings.Replace(triedMapping, "at: at\n", "at: \"a.#(b\"\n", 1): `"line":12,"key":"fields.created_at"`,
		"filtering: both\n":           `"key":"filtering","message":"wants upstream or gateway, got \"both\""`,
		"path: [":                     `"message":"is not YAML here`,
		"":                            `"message":"is empty`,
		triedMapping + "x: ${HOME}\n": `unknown key`,
	} {
		if got, text := try(mapping, reply); len(got.Problems) == 0 || !strings.Contains(text, want) {
			t.Errorf("%s\n%s", mapping, text)
		}
	}
	for text, want := range map[string]string{"<html>": "media type", "": "JSON", `{"list":1}`: "items"} {
		if got, _ := try(triedMapping, text); got.Refused == "" {
			t.Errorf("%s: %+v, want %s", text, got, want)
		}
	}
	// Details and responses are asked for of saved replies; one that is not there is told.
	second := strings.NewReplacer("content: c\n", "content: details.c\n", "items: r,", `fetch: {path: "/t/{id}/r", id: id}, items: r,`).Replace(triedMapping) + `details: {fetch: {path: "/t/{id}", id: id}}
on_foreign_record: drop
on_invalid_record: skip
`
	const replies = `- {to: /t/A-100, body: {c: "about A-100"}}
- {to: /t/A-100/r, body: {r: [{c: first, at: "2026-01-02T03:04:05Z"}]}}
- {to: /t/A-102, body: {c: theirs}}
`
	got, err := tryMapping(t.Context(), section, ops.TryRequest{Kind: "buyer", Account: "acme", Mapping: second, Reply: reply, Replies: replies})
	if err != nil || got.Items != 2 || !strings.Contains(string(got.List), `"content":"about [removed]"`) || !strings.Contains(string(got.List), `"content":"first"`) ||
		len(got.Unsaved) != 2 || got.Unsaved[0] != "GET /t/A-101" || got.Unsaved[1] != "GET /t/A-102/r" {
		t.Errorf("%+v %v\n%s", got, err, got.List)
	}
	for text, want := range map[string]string{"- {to: x, body: 1, why: 2}": `unknown key`, "- {file: gateway.yaml}": "no file is read here", "- {body: [}": "replies:1"} {
		_, err := tryMapping(t.Context(), section, ops.TryRequest{Kind: "buyer", Account: "acme", Mapping: second, Reply: reply, Replies: text})
		if !errors.Is(err, ops.ErrTry) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if section.Auth.Type != "bearer" || section.Buyer.Path != "/v2/tickets" {
		t.Error("what runs was changed")
	}
}
