package mapping

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/yamlfile"
)

// compileSection compiles both endpoints of a section, and gives the mistakes by
// their keys.
func compileSection(t testing.TB, text string) (plans map[string]*Plan, wrong map[string]string) {
	t.Helper()
	var section struct {
		BaseURL string         `yaml:"base_url"`
		Buyer   EndpointConfig `yaml:"buyer"`
		Seller  EndpointConfig `yaml:"seller"`
	}
	wrong = map[string]string{}
	if found, ok := errors.AsType[yamlfile.Problems](yamlfile.Decode(text, &section)); ok {
		for _, p := range found {
			wrong[p.Key] = p.Message
		}
	}
	var problems invalid.Problems
	plans = map[string]*Plan{
		"buyer":  Compile("buyer", section.Buyer, section.BaseURL, 10_000, &problems),
		"seller": Compile("seller", section.Seller, section.BaseURL, 10_000, &problems),
	}
	read := maps.Clone(wrong)
	for _, err := range problems {
		var one *invalid.Error
		if !errors.As(err, &one) || strings.Contains(err.Error(), one.Field()+":") {
			t.Fatalf("no key, or a text that repeats it: %v", err)
		}
		if read[one.Field()] == "" {
			wrong[one.Field()] = err.Error()
		}
	}
	return plans, wrong
}

func planFrom(t testing.TB, section, kind string) *Plan {
	t.Helper()
	plans, wrong := compileSection(t, section)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	return plans[kind]
}

// changed is the sample section with old texts replaced by new ones, in pairs,
// each once.
func changed(t testing.TB, oldnew ...string) string {
	t.Helper()
	section := testkit.SampleYAML
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(section, oldnew[i]) {
			t.Fatalf("the section has no %q", oldnew[i])
		}
		section = strings.Replace(section, oldnew[i], oldnew[i+1], 1)
	}
	return section
}

// mapBuyer maps a reply of the account acme.
func mapBuyer(t testing.TB, section, body string, want Request) (*Builder, error) {
	t.Helper()
	want.Kind, want.Account = "buyer", "acme"
	r := planFrom(t, section, "buyer").NewBuilder(want)
	return r, whole(r, body)
}

// whole maps a list that is one reply.
func whole(r *Builder, body string) error {
	if _, err := r.Take(body); err != nil {
		return err
	}
	r.RemoveIDs()
	return nil
}

// reasonOf is the reason of an error, empty for none.
func reasonOf(t testing.TB, err error) string {
	t.Helper()
	var refused *Error
	if err != nil && !errors.As(err, &refused) {
		t.Fatalf("%T: %v", err, err)
	}
	if refused == nil {
		return ""
	}
	return refused.Reason
}
