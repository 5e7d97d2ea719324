package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/urfave/cli/v3"

	"inquiry-gateway/auth"
)

// jsonFlag is for every command that answers something.
func jsonFlag() *cli.BoolFlag { return &cli.BoolFlag{Name: "json", Usage: "answer in JSON"} }

// show writes what a command found: with --json the value, for a program, else what text
// writes, for a person. text writes to a buffer; show returns write errors.
func show(c *cli.Command, value any, text func(out io.Writer)) error {
	out := c.Root().Writer
	if c.Bool("json") {
		return json.NewEncoder(out).Encode(value)
	}
	var shown bytes.Buffer
	text(&shown)
	_, err := shown.WriteTo(out)
	return err
}

// writeTable prints rows in columns, the first row as their heading. out is a buffer.
func writeTable(out io.Writer, rows [][]string) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		shown := make([]string, len(row))
		for i, cell := range row {
			shown[i] = printable(cell)
		}
		fmt.Fprintln(w, "  "+strings.Join(shown, "\t"))
	}
	_ = w.Flush()
}

// table is a table that is printed some rows at a time, its heading with the first of them.
type table struct {
	out  io.Writer
	head []string // nil: it has been printed
}

func (t *table) page(rows [][]string) error {
	if t.head != nil {
		rows, t.head = append([][]string{t.head}, rows...), nil
	}
	var shown bytes.Buffer
	writeTable(&shown, rows)
	_, err := shown.WriteTo(t.out)
	return err
}

// items is a list in JSON that is written some items at a time.
type items struct {
	out  io.Writer
	open string // what is before the first item; empty: it has been written
	some bool   // there is an item
}

func write[T any](to *items, some []T) error {
	b := bytes.NewBufferString(to.open)
	to.open = ""
	for _, item := range some {
		text, err := json.Marshal(item)
		if err != nil {
			return err
		}
		if to.some {
			b.WriteByte(',')
		}
		to.some = true
		b.Write(text)
	}
	_, err := b.WriteTo(to.out)
	return err
}

// end closes a list that is whole, but for what cannot be read. One that is cut off is no JSON.
func (to *items) end(bracket string, err error) error {
	if err == nil || errors.Is(err, auth.ErrMalformedResponse) {
		_, failed := fmt.Fprintln(to.out, bracket)
		err = errors.Join(err, failed)
	}
	return err
}

// writeFields prints the fields of a value by their names in JSON, those of an object within it
// two blanks further in.
func writeFields(out io.Writer, value any) {
	text, _ := json.Marshal(value) // of a struct of ours, which cannot fail
	for from := jsontext.NewDecoder(bytes.NewReader(text)); ; {
		name, err := from.ReadToken()
		if err != nil {
			return // the end: what was encoded just now is no wrong JSON
		}
		if name.Kind() != '"' {
			continue // an object begins or ends
		}
		fmt.Fprintf(out, "%*s%s", 2*from.StackDepth()-2, "", name)
		if from.PeekKind() != '{' {
			value, _ := from.ReadValue()
			fmt.Fprintf(out, ": %s", printable(strings.Trim(string(value), `"`)))
		}
		fmt.Fprintln(out)
	}
}

// printable escapes what is no visible character: control characters could steer the
// terminal, and marks of direction could show a text in another order.
func printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		escaped := strconv.QuoteRune(r)
		b.WriteString(escaped[1 : len(escaped)-1])
	}
	return b.String()
}

// truncate shortens a text to n characters.
func truncate(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "..."
		}
	}
	return s
}

// plural counts things whose name takes an s: "1 page", "3 pages".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
