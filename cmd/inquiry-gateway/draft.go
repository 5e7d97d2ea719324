package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/upstream/draft"
)

// maxSampleBytes bounds what draft reads of one file.
const maxSampleBytes = 16 << 20

// draftCommand is for the first hour with a legacy system.
func draftCommand() *cli.Command {
	flags := []cli.Flag{}
	for _, kind := range []string{"buyer", "seller"} {
		flags = append(flags,
			&cli.StringSliceFlag{Name: kind, Usage: "read a saved reply for a " + kind + " from `FILE` (- for standard input)"},
			&cli.StringFlag{Name: kind + "-account", Usage: "the `ID` whose list these are"})
	}
	return &cli.Command{
		Name:  "draft",
		Usage: "write the skeleton of a mapping from saved replies",
		Description: "Reads replies to one request for a list of each kind, in JSON or XML, and prints an upstream\n" +
			"section: where the records are, whose they are, ids, times, responses and pages. Fields are\n" +
			"inferred from values. What these leave open has a comment DOUBT; what a person has to choose\n" +
			"has a comment TODO, with candidates and samples of their values. Nothing is sent.",
		Flags:  flags,
		Action: runDraft,
	}
}

// runDraft prints a skeleton even where much of it is in doubt.
func runDraft(ctx context.Context, c *cli.Command) error {
	var lists []string
	for _, kind := range []string{"buyer", "seller"} {
		files, account := c.StringSlice(kind), c.String(kind+"-account")
		if (len(files) == 0) != (account == "") {
			return usagef("--%s wants a file with a saved reply, and --%[1]s-account the id whose list it is", kind)
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
		return usagef("give a saved reply: --buyer FILE --buyer-account ID, --seller FILE --seller-account ID, or both")
	}
	_, err := fmt.Fprint(c.Root().Writer, draft.File(lists...))
	return err
}
