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
	return &cli.Command{
		Name:  "draft",
		Usage: "propose a mapping from saved replies, with every doubt as a comment",
		Description: "Reads replies to one request for a list, in JSON or XML, and prints an upstream section: where the records\n" +
			"are, whose they are, ids, times, codes, answers and pages. It goes by what the values are. What they leave open has a comment DOUBT, what they do not hold has a\n" +
			"comment TODO. Nothing is sent.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "sample", Usage: "read a saved reply from `FILE` (- for standard input); may be repeated", Required: true},
			&cli.StringFlag{Name: "kind", Usage: "buyer or seller", Required: true},
			&cli.StringFlag{Name: "account", Usage: "the `ID` whose list the samples are", Required: true},
		},
		Action: runDraft,
	}
}

// runDraft prints a proposal even where much of it is in doubt.
func runDraft(_ context.Context, c *cli.Command) error {
	o := draft.Options{Kind: c.String("kind"), Account: c.String("account")}
	if o.Kind != "buyer" && o.Kind != "seller" || o.Account == "" {
		return usagef("--kind wants buyer or seller, --account an id")
	}
	var samples [][]byte
	for _, file := range c.StringSlice("sample") {
		sample, err := readInput("--sample", file, maxSampleBytes)
		if err != nil {
			return err
		}
		samples = append(samples, sample)
	}
	proposal, err := draft.Propose(samples, o)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(c.Root().Writer, proposal.YAML())
	return err
}
