package address

import "testing"

// A secret is hidden however it is escaped.
func TestHider(t *testing.T) {
	for secret, texts := range map[string]map[string]string{
		`p"w d`: {`p"w d`: Hidden, "a=p%22w+d&b": "a=(hidden)&b", "/p%22w%20d/x": "/(hidden)/x", `{"a":"p\"w d"}`: `{"a":"(hidden)"}`, "": ""},
		"&w d":  {"a=%26w%20d&b": "a=(hidden)&b", "<a>&amp;w d</a>": "<a>(hidden)</a>"},
		"ab":    {"ab": "ab"},
	} {
		for text, want := range texts {
			if got := Hider(secret)(text); got != want {
				t.Errorf("%s: %s, want %s", text, got, want)
			}
		}
	}
}
