package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/probe"
)

// only is for commands that use some sections of the configuration: mistakes elsewhere in it do
// not keep them from working. The first is the one that the command is about.
func only(sections ...string) config.Options { return config.Options{Sections: sections} }

// probeCommand is for whoever writes a mapping. It shows contents, which no log of
// the gateway does.
func probeCommand() *cli.Command {
	return &cli.Command{
		Name:  "probe",
		Usage: "show what one list of the legacy system looks like through the mapping",
		Description: "Reads one whole list, all pages and responses, or one saved reply, and shows for the first records\n" +
			"each field's path, raw and mapped value, how often each configured path was found, and every reason why\n" +
			"the gateway would refuse the list. What it prints holds contents and internal ids: it is for your\n" +
			"screen, not for a log. Fails (exit code 1) where the gateway would answer with an error, and where a\n" +
			"path that hides its mistake matched nothing (--may-miss).",
		Flags: []cli.Flag{
			configFlag(),
			&cli.StringFlag{Name: "kind", Usage: "buyer or seller", Required: true},
			&cli.StringFlag{Name: "account", Usage: "the `ID` whose list is asked for", Required: true},
			&cli.StringFlag{Name: "status", Usage: "send this filter"},
			&cli.StringFlag{Name: "inquiry-type", Usage: "send this filter"},
			&cli.StringFlag{Name: "sample", Usage: "read the saved reply in `FILE` (- for standard input) instead of asking"},
			&cli.IntFlag{Name: "records", Usage: "show so many records field by field", Value: 3},
			mayMissFlag(""),
			jsonFlag(),
			&cli.BoolFlag{Name: "watch", Usage: "repeat it when the configuration or the saved reply changes, until Ctrl-C"},
		},
		Action: runProbe,
	}
}

// mayMissFlag names paths that no record needs to have.
func mayMissFlag(with string) *cli.StringSliceFlag {
	return &cli.StringSliceFlag{Name: "may-miss", Usage: with + "a `PATH` of the mapping that may match nothing in this list, or have a round number of items"}
}

// checkKind refuses what is no kind of lists.
func checkKind(kind string) error {
	if kind != "buyer" && kind != "seller" {
		return usagef("--kind is %q; give buyer or seller", kind)
	}
	return nil
}

// runProbe refuses what cannot be meant, and probes once or again and again. Standard
// input can be read once only.
func runProbe(ctx context.Context, c *cli.Command) error {
	if err := checkKind(c.String("kind")); err != nil {
		return err
	}
	if c.String("account") == "" || c.Int("records") < 1 {
		return usagef("--account wants an id, --records 1 or more")
	}
	if !c.Bool("watch") {
		return probeOnce(ctx, c)
	}
	if c.String("sample") == "-" {
		return usagef("--watch reads the reply again and again; give it as a file")
	}
	return watchProbe(ctx, c)
}

// watchEvery is how often the files are looked at.
const watchEvery = 200 * time.Millisecond

// watchProbe probes whenever a file has changed, until ctx ends. A failure is shown
// as the command would show it, and the next change is waited for.
func watchProbe(ctx context.Context, c *cli.Command) error {
	files := []string{c.String("config")}
	if sample := c.String("sample"); sample != "" {
		files = append(files, sample)
	}
	watcher := app.NewWatcher(app.Snapshot(files...))
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if err := probeOnce(ctx, c); err != nil && ctx.Err() == nil {
			fmt.Fprintf(c.Root().ErrWriter, "inquiry-gateway: %v\n", err)
		}
		for changed := false; !changed; {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				changed = len(watcher.Changed()) > 0
			}
		}
		fmt.Fprintf(c.Root().Writer, "\n--- changed, %s\n\n", time.Now().Format(time.TimeOnly))
	}
}

// probeOnce shows all that was found before it fails: the reason is in it.
func probeOnce(ctx context.Context, c *cli.Command) error {
	cfg, err := config.Load(c.String("config"), only("upstream"))
	if err != nil {
		return err
	}
	o := probe.Options{Records: c.Int("records"), Beyond: c.String("status") == "" && c.String("inquiry-type") == "", MayMiss: c.StringSlice("may-miss"), UserAgent: "inquiry-gateway/" + version}
	if file := c.String("sample"); file != "" {
		if o.Sample, err = readSample(ctx, file, cfg.Upstream.MaxResponseBytes); err != nil {
			return err
		}
	}
	seen, err := probe.Run(ctx, cfg.Upstream, upstream.Request{
		Kind: c.String("kind"), Account: c.String("account"), Status: c.String("status"), InquiryType: c.String("inquiry-type"),
	}, o)
	if err != nil {
		return err
	}
	err = show(c, seen, func(out io.Writer) { writeProbe(out, seen) })
	return errors.Join(err, failureOf(seen))
}

// failureOf is the error of a probe of a list that would be refused, or may not be what it
// seems.
func failureOf(p *probe.Probe) error {
	switch p.Verdict {
	case probe.Good:
		return nil
	case probe.Doubtful:
		return fmt.Errorf("%s %s: the gateway would serve this list, but is it what it seems? %s (mend it, try an account that has it, or give --may-miss with the path or key)",
			p.Kind, printable(p.Account), printable(p.Reason))
	}
	return fmt.Errorf("%s %s: the gateway would refuse this list: %s", p.Kind, printable(p.Account), printable(p.Reason))
}

// readSample reads a saved reply of at most limit bytes; as for the gateway a larger
// one is an error. It returns no nil without an error.
func readSample(ctx context.Context, file string, limit int64) ([]byte, error) {
	data, err := readInput(ctx, "--sample", file, limit+1)
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("--sample %s is larger than upstream.max_response_bytes (%d): the gateway would refuse it", file, limit)
	}
	if data == nil {
		data = []byte{} // nil would mean: ask
	}
	return data, err
}

// readInput reads the first limit bytes of a file, or of standard input for "-". flag names it in
// errors.
func readInput(ctx context.Context, flag, file string, limit int64) ([]byte, error) {
	in, err := openInput(ctx, file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, limit))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, file, err)
	}
	return data, nil
}

// openInput opens a file, or standard input for "-".
func openInput(ctx context.Context, file string) (io.ReadCloser, error) {
	if file != "-" {
		return os.Open(file)
	}
	return stdin(ctx), nil
}

// stdin is standard input until ctx ends: nothing that waits for a person may outlive Ctrl-C.
// The goroutine that reads ends at the next input after it is closed.
func stdin(ctx context.Context) io.ReadCloser {
	from := os.Stdin
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, from)
		_ = in.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { _ = in.CloseWithError(errors.New("interrupted")) })
	return out
}

// shownOf says how many records there are, and how many of them a caller would see.
func shownOf(p *probe.Probe) string {
	if p.Problem != "" || len(p.Served) == p.Items {
		return plural(p.Items, "record")
	}
	return fmt.Sprintf("%s, %d shown", plural(p.Items, "record"), len(p.Served))
}

// onPages says on how many pages a list came, where there were several.
func onPages(p *probe.Probe) string {
	if p.Replies < 2 {
		return ""
	}
	return ", on " + plural(p.Replies, "page")
}
