package config

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// decodeScalar takes any scalar for a text, as it is written. An int64 is a size in
// bytes. A number or bool in quotes is refused: it was meant as a text.
func (d *decoder) decodeScalar(n ast.Node, into reflect.Value, path string) {
	text, ok := textOf(n)
	switch kind := into.Kind(); {
	case kind == reflect.String && ok:
		into.SetString(text)
	case kind == reflect.Int64 && ok:
		size, err := parseBytes(text)
		if err != nil {
			d.add(place(n), path, "%v, got %s", err, describe(n))
			return
		}
		into.SetInt(size)
	case !ok || quoted(n) || !setPlain(text, into):
		d.wants(n, path, wanted(kind))
	}
}

// setPlain takes a text for what a number or bool wants, and tells whether it can.
func setPlain(text string, into reflect.Value) bool {
	switch {
	case into.Kind() == reflect.Bool:
		into.SetBool(text == "true")
		return text == "true" || text == "false"
	case into.CanInt():
		v, err := strconv.ParseInt(text, 10, into.Type().Bits())
		into.SetInt(v)
		return err == nil
	case into.CanUint():
		v, err := strconv.ParseUint(text, 10, into.Type().Bits())
		into.SetUint(v)
		return err == nil
	case into.CanFloat():
		v, err := strconv.ParseFloat(text, into.Type().Bits())
		into.SetFloat(v)
		return err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	return false
}

// wanted names the form of a value in the words of the file's writer.
func wanted(kind reflect.Kind) string {
	switch kind {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false (without quotes)"
	case reflect.Int64:
		return "a size such as 16MiB or a number of bytes"
	case reflect.Float64, reflect.Float32:
		return "a number such as 0.5"
	}
	return "a whole number that is not too large"
}

// decodeDuration wants a unit: 30 alone could be seconds or milliseconds.
func (d *decoder) decodeDuration(n ast.Node, into reflect.Value, path string) {
	text, ok := textOf(n)
	v, err := time.ParseDuration(text)
	switch {
	case !ok:
		d.wants(n, path, "a duration such as 30s")
	case err != nil && number(n):
		d.add(place(n), path, "wants a duration such as 30s, got %s; add a unit (ms, s, m, h)", describe(n))
	case err != nil:
		d.wants(n, path, "a duration such as 30s or 1h30m (units ms, s, m, h)")
	case v < 0:
		d.wants(n, path, "a duration of 0s or more")
	default:
		into.SetInt(int64(v))
	}
}

// textOf gives a scalar's text, variables put in; ok is false for other nodes.
func textOf(n ast.Node) (text string, ok bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case ast.ScalarNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// quoted tells whether a scalar is a text for certain, never a number or true.
func quoted(n ast.Node) bool {
	switch n.GetToken().Type {
	case token.SingleQuoteType, token.DoubleQuoteType, token.LiteralType, token.FoldedType:
		return true
	}
	return false
}

// number tells whether a scalar is a number as it is written.
func number(n ast.Node) bool {
	text, _ := textOf(n)
	_, err := strconv.ParseFloat(text, 64)
	return err == nil && !quoted(n)
}

// describe names a value in an error: what it is, shortened, and never the
// content of a variable, which may be a secret.
func describe(n ast.Node) string {
	text, ok := textOf(n)
	switch {
	case n.Type() == ast.SequenceType:
		return "a list"
	case n.Type() == ast.MappingType:
		return "a mapping"
	case !ok || n.Type() == ast.NullType:
		return "nothing"
	case n.GetToken().Value != text:
		return "the value of " + shorten(n.GetToken().Value)
	case quoted(n):
		return fmt.Sprintf("the quoted text %q", shorten(text))
	case number(n):
		return "the number " + shorten(text)
	case text == "true" || text == "false":
		return text
	}
	return fmt.Sprintf("the text %q", shorten(text))
}

// shorten bounds what an error quotes of the file, in characters.
func shorten(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}

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

var (
	errNoSize    = errors.New("wants a size such as 16MiB, 4KiB or a number of bytes (units B, KiB, MiB, GiB, kB, MB, GB)")
	errNegative  = errors.New("wants a size of 0 or more")
	errSizeRange = errors.New("wants a size below 8 EiB")
)

// units from the largest; each name is taken as written, for b is a bit and
// m a thousandth.
var units = []struct {
	name string
	size uint64
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// parseBytes reads a size: a whole number, then optionally a unit.
func parseBytes(text string) (int64, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "-") {
		return 0, errNegative
	}
	number, unit := text, uint64(1)
	for _, u := range units {
		if n, ok := strings.CutSuffix(text, u.name); ok {
			number, unit = strings.TrimRight(n, " "), u.size
			break
		}
	}
	count, err := strconv.ParseUint(number, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, errSizeRange
	}
	if err != nil {
		return 0, errNoSize
	}
	high, size := bits.Mul64(count, unit)
	if high > 0 || size > math.MaxInt64 {
		return 0, errSizeRange
	}
	return int64(size), nil
}

// formatBytes writes a size with the largest binary unit that leaves no rest.
func formatBytes(size int64) string {
	for _, u := range units[:3] {
		if rest := uint64(size) % u.size; size > 0 && rest == 0 {
			return strconv.FormatUint(uint64(size)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(size, 10)
}
