package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/cmd/inquiry-gateway/config"
)

// strict has a command and all below it answer wrong use with a usageError, an
// argument that it does not take included, and a group that is called without one
// of its commands with its help. A command takes arguments where it has an ArgsUsage;
// the library by itself would pass over all others in silence.
func strict(c *cli.Command) {
	c.OnUsageError = func(_ context.Context, c *cli.Command, err error, _ bool) error {
		return usageError{fmt.Errorf("%w%s", err, nearestFlag(c, err))}
	}
	if len(c.Commands) > 0 {
		c.Action = func(_ context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return unknownCommand(c, c.Args().First())
			}
			return cli.ShowSubcommandHelp(c)
		}
	}
	if act := c.Action; len(c.Commands) == 0 && c.ArgsUsage == "" {
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

// knownCommand refuses the name of a command that there is not, with the one that was
// probably meant. The library would complain of the first flag behind it instead.
func knownCommand(root *cli.Command, args []string) error {
	if len(args) < 2 || strings.HasPrefix(args[1], "-") || slices.Contains([]string{"help", "h", "completion"}, args[1]) || root.Command(args[1]) != nil {
		return nil
	}
	return unknownCommand(root, args[1])
}

// unknownCommand names the command of the group c that was probably meant. Hidden
// commands are not proposed.
func unknownCommand(c *cli.Command, name string) error {
	var known []string
	for _, sub := range c.VisibleCommands() {
		known = append(known, sub.Names()...)
	}
	if near := config.Nearest(name, known); near != "" {
		return usagef("unknown command %q; did you mean %s %s?", name, c.FullName(), near)
	}
	return usagef("unknown command %q; see %s --help", name, c.FullName())
}

// nearestFlag says which flag was probably meant where err is about one that c
// does not have; else nothing. The library tells it in words only.
func nearestFlag(c *cli.Command, err error) string {
	_, name, found := strings.Cut(err.Error(), "flag provided but not defined: ")
	if !found {
		return ""
	}
	var known []string
	for _, at := range c.Lineage() { // the groups that it is in have flags, too
		for _, flag := range at.Flags {
			known = append(known, flag.Names()...)
		}
	}
	if near := config.Nearest(strings.TrimLeft(name, "-"), known); near != "" {
		return fmt.Sprintf("; did you mean --%s?", near)
	}
	return fmt.Sprintf("; see %s --help", c.FullName())
}
