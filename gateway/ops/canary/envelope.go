package canary

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// form is what the value of a key has to be.
type form int

const (
	text form = iota
	textOrNull
	moment  // RFC 3339 in UTC with Z and milliseconds
	replies // a list of responses
	source  // of an error: the part of the request that it is about
)

// field is one key of an object. An object has exactly its fields, in their
// order; optional ones stand last.
type field struct {
	name     string
	form     form
	optional bool
}

// fieldsOf lists the keys of a kind's records; nil: there is no such kind.
func fieldsOf(kind string) []field {
	return map[string][]field{
		"buyer": {{"title", text, false}, {"content", text, false}, {"status", text, false}, {"inquiry_type", textOrNull, false},
			{"created_at", moment, false}, {"responses", replies, false}},
		"seller": {{"title", text, false}, {"status", text, false}, {"inquiry_type", text, false}, {"company_name", text, false},
			{"created_at", moment, false}},
	}[kind]
}

func responseFields() []field {
	return []field{{"content", text, false}, {"responder_type", textOrNull, false}, {"created_at", moment, false}}
}

func errorFields() []field {
	return []field{{"id", text, false}, {"status", text, false}, {"code", text, false}, {"title", text, false}, {"detail", text, false}, {"source", source, true}}
}

// hash stands for a whole record.
type hash [sha256.Size]byte

// inspector reads bodies and notes what is not as documented. Its words hold
// nothing of what it reads.
type inspector struct {
	noUUIDs  bool
	filter   string // the status that every record must have; empty: any
	problems []string
	failure  map[string]string // texts of the error last read
	created  string            // created_at of the record last read; empty: not in the documented form
}

// say notes a problem, up to maxReasons of them.
func (in *inspector) say(format string, args ...any) {
	if len(in.problems) < maxReasons {
		in.problems = append(in.problems, fmt.Sprintf(format, args...))
	}
}

// list reads the envelope of a list and gives the place of each of its records by
// its hash, as far as it is one.
func (in *inspector) list(body []byte, kind string) (records map[hash]place, well bool) {
	data, errors, well := in.envelope(body)
	if len(errors) > 0 {
		in.say("a list that was answered has errors")
	}
	fields := fieldsOf(kind)
	records = map[hash]place{}
	for i, raw := range data {
		in.created = ""
		in.object(raw, fields, "record "+strconv.Itoa(i+1))
		if raw.Kind() == '{' {
			records[sha256.Sum256(raw)] = place{record: i + 1, createdAt: in.created}
		}
	}
	return records, well
}

// refusal reads the envelope of an error and gives its code; empty where it
// cannot be told.
func (in *inspector) refusal(body []byte) (code string) {
	data, errors, well := in.envelope(body)
	if !well {
		return ""
	}
	if len(data) > 0 || len(errors) != 1 {
		in.say("an error has %d records and %d errors", len(data), len(errors))
	}
	if len(errors) == 0 {
		return ""
	}
	in.failure = map[string]string{}
	in.object(errors[0], errorFields(), "the error")
	return in.failure["code"]
}

// envelope takes {"data":[...],"meta":{},"errors":[...]} apart: exactly these
// keys, in this order, and nothing after it.
func (in *inspector) envelope(body []byte) (data, errors []jsontext.Value, well bool) {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	nothing := func() bool { v, err := d.ReadValue(); return err == nil && string(v) == "{}" }
	end := func() bool { _, err := d.ReadToken(); return err == io.EOF }
	well = next(d, "{") && next(d, "data") && elements(d, body, &data) && next(d, "meta") && nothing() &&
		next(d, "errors") && elements(d, body, &errors) && next(d, "}") && end()
	if !well {
		in.say("the body is not the envelope of data, meta and errors, in JSON and UTF-8, with no key twice")
	}
	return data, errors, well
}

// next reads the token, or the key, that must come next.
func next(d *jsontext.Decoder, want string) bool {
	t, err := d.ReadToken()
	return err == nil && t.String() == want
}

// elements sets all to those of the array that comes next, if all of it is there. They
// are parts of body.
func elements(d *jsontext.Decoder, body []byte, all *[]jsontext.Value) bool {
	if d.PeekKind() != '[' || !next(d, "[") {
		return false
	}
	var found []jsontext.Value
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			return false
		}
		end := d.InputOffset()
		found = append(found, body[end-int64(len(value)):end])
	}
	if !next(d, "]") {
		return false
	}
	*all = found
	return true
}

// object checks that one object, which is valid JSON, has exactly its fields.
func (in *inspector) object(raw jsontext.Value, fields []field, what string) {
	if raw.Kind() != '{' {
		in.say("%s is no object", what)
		return
	}
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	next(d, "{")
	for _, f := range fields {
		if f.optional && d.PeekKind() == '}' {
			break
		}
		if d.PeekKind() == '}' || !next(d, f.name) {
			in.say("%s: the key %s is missing, or not in its place", what, f.name)
			return
		}
		value, err := d.ReadValue()
		if err != nil {
			in.say("%s: %s cannot be read", what, f.name)
			return
		}
		in.value(value, f, what+": "+f.name)
	}
	if d.PeekKind() != '}' {
		in.say("%s has a key that is not documented", what)
	}
}

// value checks the form of one value. what names it, as in "record 3: title".
func (in *inspector) value(raw jsontext.Value, f field, what string) {
	switch f.form {
	case text, textOrNull:
		if raw.Kind() == '"' {
			in.text(raw, f, what)
		} else if f.form == text || raw.Kind() != 'n' {
			in.say("%s is no text", what)
		}
	case moment:
		in.moment(raw, what)
	case replies:
		if raw.Kind() != '[' {
			in.say("%s is no list", what)
			return
		}
		var list []jsontext.Value
		elements(jsontext.NewDecoder(bytes.NewReader(raw)), raw, &list)
		for i, one := range list {
			in.object(one, responseFields(), what+" "+strconv.Itoa(i+1))
		}
	case source:
		if raw.Kind() != '{' {
			in.say("%s is no object", what)
		}
	}
}

// text looks into a text: for an error it keeps it, for a record it looks for what
// must not be there.
func (in *inspector) text(raw jsontext.Value, f field, what string) {
	unquoted, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		in.say("%s is no text", what)
		return
	}
	s := string(unquoted)
	switch {
	case in.failure != nil: // the id of an error is one of the gateway's own
		in.failure[f.name] = s
	case in.noUUIDs && holdsUUID(s):
		in.say("%s holds a UUID, which may be an internal id", what)
	case in.filter != "" && f.name == "status" && s != in.filter:
		in.say("%s is not the one that was asked for", what)
	}
}

var momentForm = regexp.MustCompile(`^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"$`)

// moment checks the form first, and then that the calendar has such a day.
func (in *inspector) moment(raw jsontext.Value, what string) {
	if !momentForm.Match(raw) {
		in.say("%s is no time in UTC with Z and milliseconds", what)
		return
	}
	if _, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(raw)); err != nil {
		in.say("%s is no time that there is", what)
		return
	}
	if in.created == "" { // responses come later, and have times, too
		in.created = strings.Trim(string(raw), `"`)
	}
}

// holdsUUID tells whether a text holds 32 hexadecimal digits with nothing but
// dashes between them: a UUID in any notation, which is what the gateway takes
// out of texts where the legacy system's ids are UUIDs.
func holdsUUID(text string) bool {
	digits := 0
	for i := range len(text) {
		switch c := text[i]; {
		case '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F':
			if digits++; digits == 32 {
				return true
			}
		case c != '-':
			digits = 0
		}
	}
	return false
}
