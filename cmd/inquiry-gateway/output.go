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
)

// jsonFlag is for every command that prints a result.
func jsonFlag() *cli.BoolFlag { return &cli.BoolFlag{Name: "json", Usage: "answer in JSON"} }

// show prints a command's result: value with --json, else what text writes. text writes to a buffer; show returns
// write errors.
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

// writeTable prints rows in columns; the first row is the heading. out is a buffer.
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

// table is a table that is printed some rows at a time, because there may be a million.
type table struct {
	out  io.Writer
	head []string // nil: printed
}

// page prints rows, after the heading the first time.
func (t *table) page(rows [][]string) error {
	if t.head != nil {
		rows, t.head = append([][]string{t.head}, rows...), nil
	}
	var shown bytes.Buffer
	writeTable(&shown, rows)
	_, err := shown.WriteTo(t.out)
	return err
}

// end prints the heading of a table without rows. err is that of the list.
func (t *table) end(err error) error {
	if isComplete(err) && t.head != nil {
		err = errors.Join(err, t.page(nil))
	}
	return err
}

// jsonList is a list in JSON that is written some items at a time.
type jsonList[T any] struct {
	out  io.Writer
	open string // what is before the next item
}

func (l *jsonList[T]) page(items []T) error {
	var b bytes.Buffer
	for _, item := range items {
		text, err := json.Marshal(item)
		if err != nil {
			return err
		}
		b.WriteString(l.open)
		b.Write(text)
		l.open = ","
	}
	_, err := b.WriteTo(l.out)
	return err
}

// writeFields prints the fields of a value by their JSON names; those of a nested object are indented.
func writeFields(out io.Writer, value any) {
	text, _ := json.Marshal(value) // a struct of this program, so it cannot fail
	for from := jsontext.NewDecoder(bytes.NewReader(text)); ; {
		name, err := from.ReadToken()
		if err != nil {
			return // the end
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

// printable escapes characters that are not visible: control characters could control the terminal, and
// direction marks could reorder the text.
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
