package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/gateway/ops"
)

// explainCommand asks the running gateway, because only that knows what its cache
// holds. Nothing is fetched or counted by it.
func explainCommand() *cli.Command {
	return &cli.Command{
		Name:  "explain",
		Usage: "say what a request for one list would get from the running gateway now, and why",
		Flags: append(opsFlags(),
			&cli.StringFlag{Name: "key-id", Usage: "the request of the key with this `ID` (keys list shows them)"},
			&cli.StringFlag{Name: "account", Usage: "without a key: the account's `ID`"},
			&cli.StringFlag{Name: "kind", Usage: "buyer or seller; with --key-id the key's own if left out"},
			&cli.StringFlag{Name: "status", Usage: "the request's filter"},
			&cli.StringFlag{Name: "inquiry-type", Usage: "the request's filter"},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			query := url.Values{}
			for parameter, flag := range map[string]string{"key_id": "key-id", "account": "account", "kind": "kind", "status": "status", "inquiry_type": "inquiry-type"} {
				if c.IsSet(flag) {
					query.Set(parameter, c.String(flag))
				}
			}
			var x ops.Explanation
			if err := askOps(ctx, c, "/ops/explain?"+query.Encode(), nil, &x); err != nil {
				return err
			}
			return show(c, x, func(out io.Writer) { writeExplanation(out, x) })
		},
	}
}

// writeExplanation prints what a caller would get, and below that every field of the answer,
// as it is named there.
func writeExplanation(out io.Writer, x ops.Explanation) {
	code := x.Prediction.Code
	if code != "" {
		code = " " + code
	}
	fmt.Fprintf(out, "%s: %d%s\n%s\n\n", x.Prediction.Outcome, x.Prediction.HTTPStatus, code, printable(x.Prediction.Text))
	text, err := json.Marshal(x)
	if err == nil {
		err = writeTree(out, json.NewDecoder(bytes.NewReader(text)), "")
	}
	if err != nil {
		fmt.Fprintln(out, err) // of a value that is no JSON; there is none
	}
}

// writeTree prints the fields of the JSON object that comes next, in their order, an object
// within it two blanks further in.
func writeTree(out io.Writer, from *json.Decoder, indent string) error {
	if _, err := from.Token(); err != nil { // "{"
		return err
	}
	for from.More() {
		name, err := from.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := from.Decode(&value); err != nil {
			return err
		}
		if value[0] == '{' {
			fmt.Fprintf(out, "%s%s\n", indent, name)
			if err := writeTree(out, json.NewDecoder(bytes.NewReader(value)), indent+"  "); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(out, "%s%s: %s\n", indent, name, printable(strings.Trim(string(value), `"`)))
	}
	return nil
}
