// Command compare runs the gateways of two trees with their own examples over the same replies of legacy systems, and
// prints where they differ: in answers, in requests to the legacy system, in the log and in metrics.
//
//	compare [-run regexp] OLD NEW
//
// A tree is a folder or a revision of git. The exit code is 0 when both behave alike, 1 when they differ, and 2 when that
// could not be found out.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// tree is a checkout with its gateway.
type tree struct{ dir, binary string }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	only := flag.String("run", "", "compare only runs whose names match a regular expression, such as redmine")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: compare [-run regexp] OLD NEW")
		flag.PrintDefaults()
	}
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil || flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	differ, err := compareTrees(ctx, flag.Arg(0), flag.Arg(1), pattern)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(2)
	case differ:
		os.Exit(1)
	}
}

// compareTrees builds both trees, compares them, and prints the differences.
func compareTrees(ctx context.Context, oldName, newName string, only *regexp.Regexp) (differ bool, err error) {
	scratch, err := os.MkdirTemp("", "compare")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(scratch)
	var trees [2]tree
	for i, name := range []string{oldName, newName} {
		if trees[i], err = build(ctx, name, filepath.Join(scratch, fmt.Sprint(i))); err != nil {
			return false, fmt.Errorf("%s: %w", name, err)
		}
	}
	return report(ctx, os.Stdout, trees, scratch, only)
}

// repeats is how often a run that differs is made again.
const repeats = 2

// report makes the runs of both trees and prints the differences.
func report(ctx context.Context, w io.Writer, trees [2]tree, scratch string, only *regexp.Regexp) (differ bool, err error) {
	runs, err := runsOf(trees[0].dir)
	if err != nil {
		return false, err
	}
	all, made := &differences{}, 0
	for _, r := range runs {
		if !only.MatchString(r.name) {
			continue
		}
		found, err := compareRun(ctx, trees, r, scratch)
		for range repeats { // timing decides nothing: what differs must do so each time
			if err != nil || len(found) == 0 {
				break
			}
			var again []difference
			again, err = compareRun(ctx, trees, r, scratch)
			found = inBoth(found, again)
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", r.name, err)
		}
		all.add(found)
		made++
	}
	if made == 0 {
		return false, fmt.Errorf("no run is called %s", only)
	}
	all.print(w)
	return len(all.found) > 0, nil
}

// compareRun makes one run with both trees at the same time.
func compareRun(ctx context.Context, trees [2]tree, r run, scratch string) ([]difference, error) {
	var seen [2]observation
	g, ctx := errgroup.WithContext(ctx)
	for i, t := range trees {
		g.Go(func() error {
			dir, err := os.MkdirTemp(scratch, "run")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			seen[i], err = r.observe(ctx, t, dir)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return diff(r.name, seen[0], seen[1]), nil
}

// build makes the gateway of a folder, or of a revision, which is unpacked first.
func build(ctx context.Context, name, folder string) (tree, error) {
	t := tree{dir: name, binary: filepath.Join(folder, "inquiry-gateway")}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return t, err
	}
	if info, err := os.Stat(name); err != nil || !info.IsDir() {
		t.dir = filepath.Join(folder, "tree")
		if err := command(ctx, ".", "mkdir "+t.dir+` && git archive --format=tar "$0" -o `+t.dir+`.tar && tar -xf `+t.dir+".tar -C "+t.dir, name); err != nil {
			return t, errors.Join(errors.New("neither a folder nor a revision"), err)
		}
	}
	return t, command(ctx, t.dir, `GOFLAGS="-trimpath -tags=$(make -s tags)" CGO_ENABLED=0 go build -buildvcs=false -o "$0" ./cmd/inquiry-gateway`, t.binary)
}

// command runs a script of the shell, with a parameter, in a folder.
func command(ctx context.Context, dir, script, parameter string) error {
	cmd := exec.CommandContext(ctx, "sh", "-ec", script, parameter)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(bytes.ToValidUTF8(out, nil))))
	}
	return nil
}
