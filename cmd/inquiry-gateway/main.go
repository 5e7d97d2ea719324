// Command inquiry-gateway is a read-only gateway in front of an existing
// inquiry system: it lists to buyers and sellers their own inquiries.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // a legacy system's zone must be known in an image without zone files

	"github.com/urfave/cli/v3"
)

// Exit codes.
const (
	exitFailed   = 1
	exitWrongUse = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args)
	stop()
	os.Exit(code)
}

// run executes one command line and gives its exit code: 0 good, 1 failed,
// 2 wrong use.
func run(ctx context.Context, args []string) int {
	err := newCommand().Run(ctx, args)
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(usageError)):
		fmt.Fprintf(os.Stderr, "inquiry-gateway: %v\n", err)
		return exitWrongUse
	}
	fmt.Fprintf(os.Stderr, "inquiry-gateway: %v\n", err)
	return exitFailed
}

// usageError is a command line that cannot be what was meant.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func newCommand() *cli.Command {
	return &cli.Command{
		Name:                      "inquiry-gateway",
		Usage:                     "a read-only gateway in front of an existing inquiry system",
		Commands:                  []*cli.Command{serveCommand(), demoCommand(), legacyCommand(), checkCommand(), keysCommand(), healthCommand(), versionCommand()},
		DisableSliceFlagSeparator: true,
		OnUsageError: func(_ context.Context, _ *cli.Command, err error, _ bool) error {
			return usageError{err}
		},
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return usagef("unknown command %q; see inquiry-gateway --help", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
	}
}
