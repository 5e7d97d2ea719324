// Command inquiry-gateway is a read-only gateway in front of an existing
// inquiry system: it lists to buyers and sellers their own inquiries.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	_ "time/tzdata" // a legacy system's zone must be known in an image without zone files

	"github.com/urfave/cli/v3"

	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/setting"
)

// Set by the linker: -ldflags "-X main.version=... -X main.revision=...".
var (
	version  = "dev"
	revision = "unknown"
)

// Exit codes.
const (
	exitFailed   = 1
	exitWrongUse = 2
)

// main turns Ctrl-C and SIGTERM into the end of the command's context.
func main() {
	redisclient.Silence()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes one command line and returns its exit code: 0 for success, 1 for failure, 2 for wrong use. Errors of serve are
// records of its log.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	command := newCommand()
	command.Writer, command.ErrWriter = out, errOut
	err := knownCommand(command, args)
	if err == nil {
		err = command.Run(ctx, args)
	}
	if err == nil {
		return 0
	}
	if len(args) > 1 && args[1] == "serve" {
		logger := app.NewLogger(errOut)
		for line := range strings.SplitSeq(err.Error(), "\n") {
			logger.Error("serve ended with an error", "error", line)
		}
	} else {
		writeError(errOut, err)
	}
	if errors.As(err, new(usageError)) {
		return exitWrongUse
	}
	return exitFailed
}

// writeError prints an error. Each line begins with the program's name, because logs of several programs may be read together.
func writeError(out io.Writer, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(out, "inquiry-gateway: %s\n", line)
	}
}

// usageError is an invalid command line: the exit code is exitWrongUse, also if the error is wrapped.
type usageError struct{ error }

// usagef makes a usageError.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// newCommand returns the command line. Each run needs its own, because the library keeps the values of flags in it. Errors go
// back to run, which knows the exit codes; the library would end the process.
func newCommand() *cli.Command {
	root := &cli.Command{
		Name:    "inquiry-gateway",
		Usage:   "a read-only gateway in front of an existing inquiry system",
		Version: version + " (" + revision + ")",
		Commands: []*cli.Command{
			serveCommand(), demoCommand(), draftCommand(), checkCommand(), probeCommand(),
			keysCommand(), purgeCommand(), explainCommand(), ttlCommand(), canaryCommand(), healthCommand(),
		},
		EnableShellCompletion:           true,
		ConfigureShellCompletionCommand: func(c *cli.Command) { c.Hidden = false; strict(c) },
		ExitErrHandler:                  func(context.Context, *cli.Command, error) {},
	}
	strict(root)
	return root
}

// strict makes wrong use of a command, and of all below it, a usageError. That includes an argument
// of a command without ArgsUsage, which the library would ignore. A group that is called
// without one of its commands shows its help. A comma does not separate values, because paths may have one.
func strict(c *cli.Command) {
	c.DisableSliceFlagSeparator = true
	c.OnUsageError = func(_ context.Context, c *cli.Command, err error, _ bool) error {
		return usageError{fmt.Errorf("%w%s", err, nearestFlag(c, err))}
	}
	act := c.Action
	switch {
	case len(c.Commands) > 0:
		c.Action = func(_ context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return unknownCommand(c, c.Args().First())
			}
			return cli.ShowSubcommandHelp(c)
		}
	case c.ArgsUsage == "":
		c.Action = func(ctx context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return usagef("%s takes no argument %q; see %s --help", c.FullName(), c.Args().First(), c.FullName())
			}
			return act(ctx, c)
		}
	}
	for _, sub := range c.Commands {
		strict(sub)
	}
}

// knownCommand returns an error for an unknown command. The library would complain about the flag after it instead.
func knownCommand(root *cli.Command, args []string) error {
	if len(args) < 2 || strings.HasPrefix(args[1], "-") || slices.Contains([]string{"help", "h", "completion"}, args[1]) || root.Command(args[1]) != nil {
		return nil
	}
	return unknownCommand(root, args[1])
}

// unknownCommand suggests the most similar visible command of the group c.
func unknownCommand(c *cli.Command, name string) error {
	var known []string
	for _, sub := range c.VisibleCommands() {
		known = append(known, sub.Names()...)
	}
	if near := setting.Nearest(name, known); near != "" {
		return usagef("unknown command %q; did you mean %s %s?", name, c.FullName(), near)
	}
	return usagef("unknown command %q; see %s --help", name, c.FullName())
}

// nearestFlag suggests the most similar flag if err is about an unknown one, else it returns "". The library has no type for
// that error.
func nearestFlag(c *cli.Command, err error) string {
	_, name, found := strings.Cut(err.Error(), "flag provided but not defined: ")
	if !found {
		return ""
	}
	var known []string
	for _, at := range c.Lineage() { // groups have flags, too
		for _, flag := range at.Flags {
			known = append(known, flag.Names()...)
		}
	}
	if near := setting.Nearest(strings.TrimLeft(name, "-"), known); near != "" {
		return fmt.Sprintf("; did you mean --%s?", near)
	}
	return fmt.Sprintf("; see %s --help", c.FullName())
}
