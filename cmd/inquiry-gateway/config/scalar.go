package config

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

func (d *decoder) decodeScalar(n *node, into reflect.Value, path string) {
	if n.kind != scalar {
		d.wants(n, path, wanted(into))
		return
	}
	ok := false
	switch into.Kind() {
	case reflect.String:
		into.SetString(n.text)
		ok = true
	case reflect.Bool:
		ok = setBool(n, into)
	case reflect.Int64:
		d.decodeBytes(n, into, path)
		ok = true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32:
		ok = setInt(n, into)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		ok = setUint(n, into)
	case reflect.Float64, reflect.Float32:
		ok = setFloat(n, into)
	}
	if !ok {
		d.wants(n, path, wanted(into))
	}
}

// wanted names the form of a value in the words of the file's writer.
func wanted(into reflect.Value) string {
	switch into.Kind() {
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

func setBool(n *node, into reflect.Value) bool {
	if n.quoted || (n.text != "true" && n.text != "false") {
		return false
	}
	into.SetBool(n.text == "true")
	return true
}

func setInt(n *node, into reflect.Value) bool {
	v, err := strconv.ParseInt(n.text, 10, into.Type().Bits())
	if n.quoted || err != nil {
		return false
	}
	into.SetInt(v)
	return true
}

func setUint(n *node, into reflect.Value) bool {
	v, err := strconv.ParseUint(n.text, 10, into.Type().Bits())
	if n.quoted || err != nil {
		return false
	}
	into.SetUint(v)
	return true
}

func setFloat(n *node, into reflect.Value) bool {
	v, err := strconv.ParseFloat(n.text, into.Type().Bits())
	if n.quoted || err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return false
	}
	into.SetFloat(v)
	return true
}

func (d *decoder) decodeDuration(n *node, into reflect.Value, path string) {
	if n.kind != scalar {
		d.wants(n, path, "a duration such as 30s")
		return
	}
	v, err := time.ParseDuration(n.text)
	switch {
	case err != nil && n.number():
		d.add(n.at, path, "wants a duration such as 30s, got %s; add a unit (ms, s, m, h)", n.describe())
	case err != nil:
		d.add(n.at, path, "wants a duration such as 30s or 1h30m (units ms, s, m, h), got %s", n.describe())
	case v < 0:
		d.add(n.at, path, "wants a duration of 0s or more, got %s", n.describe())
	default:
		into.SetInt(int64(v))
	}
}

func (d *decoder) decodeBytes(n *node, into reflect.Value, path string) {
	v, err := parseBytes(n.text)
	if err != nil {
		d.add(n.at, path, "%v, got %s", err, n.describe())
		return
	}
	into.SetInt(v)
}

// plain gives the value as untyped Go data, with the types the YAML library
// uses: uint64 for whole numbers of zero or more, int64 below.
func (n *node) plain() any {
	switch n.kind {
	case list:
		out := make([]any, len(n.items))
		for i, item := range n.items {
			out[i] = item.plain()
		}
		return out
	case mapping:
		out := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			out[e.key] = e.value.plain()
		}
		return out
	case scalar:
		return n.plainScalar()
	}
	return nil
}

func (n *node) plainScalar() any {
	if n.quoted {
		return n.text
	}
	switch strings.ToLower(n.text) {
	case "true":
		return true
	case "false":
		return false
	}
	if v, err := strconv.ParseUint(n.text, 10, 64); err == nil {
		return v
	}
	if v, err := strconv.ParseInt(n.text, 10, 64); err == nil {
		return v
	}
	if v, err := strconv.ParseFloat(n.text, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		return v
	}
	return n.text
}
