package jsonwalk

import (
	"strings"

	"github.com/tidwall/gjson"
)

// Bounds on what is looked at of a record's shape.
const (
	shapeDepth = 8
	shapeName  = 64
)

// WalkShape calls visit with the path and kind of every value in a record that
// is no object or array, or an empty one. Elements of arrays share one path with
// a # in it. path is valid during the call only.
func WalkShape(record string, visit func(path []byte, k Kind)) {
	walkValue(make([]byte, 0, 128), FromGJSON(gjson.Parse(record)), 0, visit)
}

// walkValue appends to path in place; siblings overwrite each other's part of it. What
// is deeper than shapeDepth counts as one value.
func walkValue(path []byte, v Value, depth int, visit func([]byte, Kind)) {
	if v.Kind != Object && v.Kind != Array || depth == shapeDepth {
		visit(path, v.Kind)
		return
	}
	empty := true
	gjson.Parse(v.Raw).ForEach(func(key, item gjson.Result) bool {
		empty = false
		next := path
		if len(next) > 0 {
			next = append(next, '.')
		}
		if v.Kind == Array {
			next = append(next, Each...)
		} else {
			next = append(next, shapeKey(key.Str)...)
		}
		walkValue(next, FromGJSON(item), depth+1, visit)
		return true
	})
	if empty && len(path) > 0 {
		visit(path, v.Kind)
	}
}

// shapeKey gives the name of a key. One that is itself data, such as an id in an
// object that is keyed by ids, is not named: it would make a path of its own for
// every record, and must not get into logs.
func shapeKey(key string) string {
	digits, words := 0, 0
	for i := range len(key) {
		switch c := key[i]; {
		case isDigit(c):
			digits++
		case isHex(c) || c == '-':
		default:
			words++
		}
	}
	if len(key) > shapeName || digits > 0 && (words == 0 || digits > 5) || strings.ContainsAny(key, "\r\n") {
		return "*"
	}
	return key
}
