package invalid

import (
	"fmt"
	"slices"
	"testing"
)

func TestEnums(t *testing.T) {
	type inner struct {
		Mode string `yaml:"mode" enum:",auto,manual"`
		Free string `yaml:"free"`
	}
	type section struct {
		Inline inner             `yaml:",inline"`
		One    *inner            `yaml:"one"`
		None   *inner            `yaml:"none"`
		List   []inner           `yaml:"list"`
		Map    map[string]inner  `yaml:"map"`
		Only   string            `yaml:"only" enum:"a"`
		Texts  map[string]string `yaml:"texts"`
	}
	bad := inner{Mode: "x", Free: "x"}
	var p Problems
	p.Enums("at", section{Inline: bad, One: &bad, List: []inner{{Mode: "auto"}, bad}, Map: map[string]inner{"k": bad, "good": {}}, Texts: map[string]string{"a": "b"}})
	var got []string
	for _, err := range p {
		got = append(got, fmt.Sprintf("%s: %v", err.(*Error).Field(), err))
	}
	const wants = `: wants auto or manual, got "x"`
	if want := []string{"at.mode" + wants, "at.one.mode" + wants, "at.list[1].mode" + wants, "at.map.k.mode" + wants, `at.only: wants a, got ""`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestKeys(t *testing.T) {
	section := struct {
		Sort  string   `yaml:"sort"`
		Path  string   `yaml:"path"`
		List  []string `yaml:"list"`
		Inner struct {
			Sizes map[string]int `yaml:"sizes"`
		} `yaml:"inner"`
	}{Sort: "a", Path: "x", List: []string{}}
	section.Inner.Sizes = map[string]int{}
	var p Problems
	p.Keys("at", section, "sort a", "sort", "list!", "inner")
	var got []string
	for _, err := range p {
		got = append(got, err.(*Error).Field()+": "+err.Error())
	}
	if want := []string{"at.path: has no meaning with sort a; remove it", "at.list: missing: sort a needs it"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
