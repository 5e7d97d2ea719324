package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
)

var errNoRecord = errors.New("not a record")

// textLog writes records of JSON as text: time, level and message first, then
// key=value in the order of the record. Only one goroutine may write to it.
type textLog struct{ out io.Writer }

// TextLog gives a writer that turns lines of JSON, as the program logs them, into
// lines of text. What is no record goes through as it is.
func TextLog(out io.Writer) io.Writer { return textLog{out} }

// Write takes whole lines.
func (l textLog) Write(lines []byte) (int, error) {
	var text bytes.Buffer
	for line := range bytes.Lines(lines) {
		if !appendText(&text, line) {
			text.Write(line)
		}
	}
	if _, err := l.out.Write(text.Bytes()); err != nil {
		return 0, err
	}
	return len(lines), nil
}

// appendText writes one record. false: it is none, and nothing was written.
func appendText(text *bytes.Buffer, line []byte) bool {
	begin, d := text.Len(), json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := appendObject(text, d, ""); err != nil {
		text.Truncate(begin)
		return false
	}
	text.WriteByte('\n')
	return true
}

// appendObject writes the keys of the object that comes next; those of objects
// within are joined by dots.
func appendObject(text *bytes.Buffer, d *json.Decoder, prefix string) error {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errNoRecord
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		name := prefix + key.(string) // of an object's keys there are no others
		if value[0] == '{' {
			if err := appendObject(text, json.NewDecoder(bytes.NewReader(value)), name+"."); err != nil {
				return err
			}
			continue
		}
		if text.Len() > 0 && text.Bytes()[text.Len()-1] != '\n' {
			text.WriteByte(' ')
		}
		if name != "time" && name != "level" && name != "msg" {
			text.WriteString(name + "=")
		}
		text.WriteString(plain(value, name == "msg"))
	}
	return nil
}

// plain is a value without quotes where nothing can be mistaken. A message may
// have blanks.
func plain(value json.RawMessage, blanks bool) string {
	var s string
	if value[0] != '"' || json.Unmarshal(value, &s) != nil {
		return string(value)
	}
	unsafe := func(r rune) bool {
		return r < ' ' || r == '"' || r == '=' || r == 0x7f || r == ' ' && !blanks || !strconv.IsPrint(r)
	}
	if s == "" || strings.ContainsFunc(s, unsafe) {
		return strconv.Quote(s)
	}
	return s
}
