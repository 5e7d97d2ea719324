package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/urfave/cli/v3"
)

// versionCommand says which build this is, for a report of a mistake.
func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print version, revision and Go version",
		Action: func(_ context.Context, c *cli.Command) error {
			_, err := fmt.Fprintf(c.Root().Writer, "inquiry-gateway %s (%s, %s)\n", version, revision, runtime.Version())
			return err
		},
	}
}
