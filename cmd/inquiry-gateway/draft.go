package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/upstream/draft"
)

// maxSampleBytes bounds what draft reads of one file.
const maxSampleBytes = 16 << 20

// draftCommand writes a first mapping of a legacy system.
func draftCommand() *cli.Command {
	flags := []cli.Flag{}
	for _, kind := range kinds {
		flags = append(flags,
			&cli.StringSliceFlag{Name: kind, Usage: "a `FILE` with a saved list of a " + kind + " (- for standard input)"},
			&cli.StringFlag{Name: kind + "-account", Usage: "the `ID` of that account"})
	}
	return &cli.Command{
		Name:  "draft",
		Usage: "write the skeleton of a mapping from saved replies",
		Description: "Reads replies to one request for a list of each kind, in JSON or XML, and prints an upstream\n" +
			"section with the records, their owner, ids, times, responses and pages, inferred from the\n" +
			"values. A comment DOUBT marks what they leave open; a comment TODO marks what you have to\n" +
			"choose, with candidates and sample values. Sends no request.",
		Flags:  flags,
		Action: runDraft,
	}
}

// runDraft prints a skeleton even if much of it is in doubt.
func runDraft(ctx context.Context, c *cli.Command) error {
	var lists []string
	for _, kind := range kinds {
		files, account := c.StringSlice(kind), c.String(kind+"-account")
		if (len(files) == 0) != (account == "") {
			return usagef("--%s and --%[1]s-account go together: a file with a saved reply, and the id of the account whose list it is", kind)
		}
		var samples [][]byte
		for _, file := range files {
			sample, err := readInput(ctx, "--"+kind, file, maxSampleBytes)
			if err != nil {
				return err
			}
			samples = append(samples, sample)
		}
		if len(samples) == 0 {
			continue
		}
		list, err := draft.List(kind, account, samples)
		if err != nil {
			return fmt.Errorf("--%s: %w", kind, err)
		}
		lists = append(lists, list)
	}
	if len(lists) == 0 {
		return usagef("which reply? give --buyer FILE --buyer-account ID, --seller FILE --seller-account ID, or both")
	}
	_, err := fmt.Fprint(c.Root().Writer, draft.File(lists...))
	return err
}
