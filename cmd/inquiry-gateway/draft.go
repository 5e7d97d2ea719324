package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

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
			"are, whose they are, ids, times, codes, answers and pages. It goes by what the values are. What they leave\n" +
			"open has a comment DOUBT, what they do not hold has a comment TODO. Nothing is sent.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "sample", Usage: "read a saved reply from `FILE` (- for standard input); may be repeated", Required: true},
			&cli.StringFlag{Name: "kind", Usage: "buyer or seller", Required: true},
			&cli.StringFlag{Name: "account", Usage: "the `ID` whose list the samples are", Required: true},
			&cli.StringFlag{Name: "into", Usage: "add the kind to the configuration in `FILE`, whose other lines stay as they are, instead of printing it"},
		},
		Action: runDraft,
	}
}

// runDraft prints a proposal even where much of it is in doubt.
func runDraft(ctx context.Context, c *cli.Command) error {
	o := draft.Options{Kind: c.String("kind"), Account: c.String("account")}
	if o.Kind != "buyer" && o.Kind != "seller" || o.Account == "" {
		return usagef("--kind wants buyer or seller, --account an id")
	}
	var samples [][]byte
	for _, file := range c.StringSlice("sample") {
		sample, err := readInput(ctx, "--sample", file, maxSampleBytes)
		if err != nil {
			return err
		}
		samples = append(samples, sample)
	}
	proposal, err := draft.Propose(samples, o)
	if err != nil {
		return err
	}
	file := c.String("into")
	if file == "" {
		_, err = fmt.Fprint(c.Root().Writer, proposal.YAML())
		return err
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--into %s: there is no such file; for a first kind leave --into out and write what is printed to it", file)
	}
	if err != nil {
		return err
	}
	edited, err := proposal.Into(string(text))
	if err != nil {
		return fmt.Errorf("--into %s: %w", file, err)
	}
	if err := os.WriteFile(file, []byte(edited), 0o600); err != nil { // the mode of a file that is there stays
		return err
	}
	_, err = fmt.Fprintf(c.Root().Writer, "%s has upstream.%s now: look at each DOUBT in it, and complete each TODO\n", file, o.Kind)
	return err
}
