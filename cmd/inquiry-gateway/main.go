// Command inquiry-gateway is a read-only gateway in front of an existing
// inquiry system: it lists to buyers and sellers their own inquiries.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // a legacy system's zone must be known in an image without zone files

	"github.com/urfave/cli/v3"

	"inquiry-gateway/cmd/inquiry-gateway/app"
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
	app.SilenceRedis()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes one command line and gives its exit code: 0 good, 1 failed,
// 2 wrong use. Each line of an error begins with the program's name, as logs of several
// programs are read together. Tests call it as main does.
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
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(errOut, "inquiry-gateway: %s\n", line)
	}
	if errors.As(err, new(usageError)) {
		return exitWrongUse
	}
	return exitFailed
}

// usageError is a command line that cannot be what was meant: run answers it with
// exitWrongUse, whatever it is wrapped in.
type usageError struct{ error }

// usagef makes a usageError.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// newCommand is the command line, made anew for each run: the library keeps in a command
// what was read into its flags. Errors go back to run, which knows the exit codes;
// the library would end the process by itself.
func newCommand() *cli.Command {
	root := &cli.Command{
		Name:    "inquiry-gateway",
		Usage:   "a read-only gateway in front of an existing inquiry system",
		Version: version + " (" + revision + ")",
		Commands: []*cli.Command{
			serveCommand(), demoCommand(), draftCommand(), checkCommand(), probeCommand(),
			keysCommand(), purgeCommand(), explainCommand(), ttlCommand(), healthCommand(),
		},
		EnableShellCompletion:           true,
		ConfigureShellCompletionCommand: func(c *cli.Command) { c.Hidden = false; strict(c) },
		ExitErrHandler:                  func(context.Context, *cli.Command, error) {},
	}
	strict(root)
	return root
}

// show writes what a command found: with --json for a program, else as text has it
// for a person. text writes into memory, so that it meets no error; what is wrong
// with standard output is the error of show.
func show(c *cli.Command, value any, text func(out io.Writer)) error {
	if c.Bool("json") {
		return json.NewEncoder(c.Root().Writer).Encode(value)
	}
	return showText(c.Root().Writer, text)
}

// showText writes a text at once; its error is that of out.
func showText(out io.Writer, text func(out io.Writer)) error {
	var shown bytes.Buffer
	text(&shown)
	_, err := shown.WriteTo(out)
	return err
}
