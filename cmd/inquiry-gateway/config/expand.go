package config

import (
	"fmt"
	"regexp"
	"strings"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand puts environment variables into one scalar: ${NAME} is the value of
// NAME, $${ a literal ${. It works on the parsed value, so that no value of a
// variable can add keys, and what it puts in is not looked at again.
func expand(text string, env func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			b.WriteString(text)
			return b.String(), nil
		}
		if literal, ok := strings.CutSuffix(before, "$"); ok {
			b.WriteString(literal + "${")
			text = rest
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || !variableName.MatchString(name) {
			return "", fmt.Errorf("%q is no variable; write ${NAME}, or $${ for a literal ${", shorten("${"+rest))
		}
		value, set := env(name)
		if !set {
			return "", fmt.Errorf("the environment variable %s is not set; set it, or write $${%s} for the literal text", name, name)
		}
		b.WriteString(before + value)
		text = after
	}
}
