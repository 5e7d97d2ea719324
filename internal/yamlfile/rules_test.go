package yamlfile

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// door is a section with each rule.
type door struct {
	Type  string         `yaml:"type" enum:",none,key,code"`
	File  string         `yaml:"file" with:"type=key!"`
	Digit []int          `yaml:"digit" min:"0" max:"9" with:"type=key,code!"`
	Wait  *time.Duration `yaml:"wait" above:"0s" max:"1m"`
	Rate  float64        `yaml:"rate" min:"0.5" max:"2" zero:"no limit"`
	Zone  string         `yaml:"zone" form:"zone"`
	Name  []string       `yaml:"name" short:"list" required:"what the door is called"`
}

func TestRules(t *testing.T) {
	for text, want := range map[string][]string{
		"{}":                                   nil,
		"{name: a}":                            nil,
		"{name: [a, b], type: none, file: ''}": nil,
		"{name: a, type: key, file: f, digit: []}": nil,
		"{name: a, rate: 0, wait: 1m, zone: UTC}":  nil,
		"{type: key, file: f}":                     {"1:1: name: missing: what the door is called"},
		"{name: a, file: f}":                       {"1:17: file: has no meaning with type none; remove it"},
		"{name: a, type: key}":                     {"1:1: file: missing: type key needs it"},
		"{name: a, type: lock, file: f}":           {`1:17: type: wants none, key or code, got the text "lock"`},
		"{name: a, type: code, digit: [1, 10]}":    {"1:34: digit[1]: wants 0 to 9, got the number 10"},
		"{name: a, rate: 0.1}":                     {"1:17: rate: wants 0 (no limit) or 0.5 to 2, got the number 0.1"},
		"{name: a, wait: 0s}":                      {`1:17: wait: wants more than 0s and at most 1m, got the text "0s"`},
		"{name: a, zone: Mars/Base}":               {`1:17: zone: wants a time zone such as Asia/Seoul or UTC, got the text "Mars/Base"`},
		"{name: {a: b}}":                           {"1:8: name: wants a list such as [a, b], got a mapping"},
		"{name: [a, [b]]}":                         {"1:12: name[1]: wants a text, got a list"},
	} {
		var d door
		doc := documentOf(text)
		doc.Decode(&d)
		got := lines(doc.Err())
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], "gateway.yaml:")
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
