package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/auth/keysredis"
	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/probe"
)

// sections is for commands that use some sections of the configuration: mistakes elsewhere in it do
// not keep them from working. The first is the one that the command is about.
func sections(names ...string) config.Options { return config.Options{Sections: names} }

// probeCommand is for whoever writes a mapping. It shows contents, which no log of
// the gateway does.
func probeCommand() *cli.Command {
	return &cli.Command{
		Name:  "probe",
		Usage: "show what a list of the legacy system looks like through the mapping",
		Description: "Reads a whole list, all pages and responses, or one saved reply, and shows for the first\n" +
			"records each field's path, raw and mapped value, how often each configured path was found,\n" +
			"and every reason why the gateway would refuse the list. The output holds contents and internal\n" +
			"ids: it is for your screen, not for a log. Fails (exit code 1) if the gateway would answer\n" +
			"with an error, and if a path that hides its mistake matched nothing (--may-miss).",
		Flags: []cli.Flag{
			configFlag(),
			&cli.StringFlag{Name: "buyer", Usage: "ask for the list of the buyer with this account `ID`"},
			&cli.StringFlag{Name: "seller", Usage: "ask for the list of the seller with this account `ID`"},
			&cli.StringFlag{Name: "status", Usage: "send this filter"},
			&cli.StringFlag{Name: "inquiry-type", Usage: "send this filter"},
			&cli.BoolFlag{Name: "filters", Usage: "also ask for the list of each word of both filters"},
			&cli.StringFlag{Name: "sample", Usage: "read the saved reply in `FILE` (- for standard input) instead"},
			&cli.IntFlag{Name: "records", Usage: "show so many records field by field", Value: 3},
			&cli.StringSliceFlag{Name: "may-miss", Usage: "a `PATH` of the mapping that may match nothing in this list"},
			jsonFlag(),
			&cli.BoolFlag{Name: "watch", Usage: "repeat it when the configuration or the saved reply changes"},
		},
		Action: runProbe,
	}
}

// kinds are those of lists and of keys, and the flags that take an account.
var kinds = []string{"buyer", "seller"}

// checkKind refuses what is no kind of lists.
func checkKind(kind string) error {
	if !slices.Contains(kinds, kind) {
		return usagef("--kind is %q; give buyer or seller", kind)
	}
	return nil
}

// runProbe refuses what cannot be meant, and probes once or again and again. Standard
// input can be read once only.
func runProbe(ctx context.Context, c *cli.Command) error {
	lists, sample := 0, c.String("sample")
	for _, kind := range kinds {
		if c.String(kind) != "" {
			lists++
		}
	}
	filtered := c.String("status") != "" || c.String("inquiry-type") != ""
	switch {
	case lists == 0:
		return usagef("whose list? give --buyer ID, --seller ID, or both")
	case c.Int("records") < 0:
		return usagef("--records wants 0 or more")
	case sample != "" && lists > 1:
		return usagef("--sample is a reply for one list; give --buyer ID or --seller ID")
	case c.Bool("filters") && (filtered || sample != ""):
		return usagef("--filters asks for the lists of all words; leave out --status, --inquiry-type and --sample")
	case c.Bool("watch") && sample == "-":
		return usagef("--watch reads the reply again and again; give it as a file")
	case c.Bool("watch"):
		return watchProbe(ctx, c)
	}
	return probeOnce(ctx, c)
}

// watchEvery is how often the files are polled.
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

// probeOnce shows all that was found before it fails: the reason is in it. It goes on after a list that
// would be refused.
func probeOnce(ctx context.Context, c *cli.Command) error {
	cfg, err := config.Load(c.String("config"), sections("upstream"))
	if err != nil {
		return err
	}
	o := probe.Options{Records: c.Int("records"), Words: c.Bool("filters"), MayMiss: c.StringSlice("may-miss"), UserAgent: "inquiry-gateway/" + version}
	if file := c.String("sample"); file != "" {
		if o.Sample, err = readSample(ctx, file, cfg.Upstream.MaxResponseBytes); err != nil {
			return err
		}
	} else {
		writeWarnings(c.Root().ErrWriter, keyStoreWarnings(ctx, cfg.Upstream, c.String("config")))
	}
	var errs []error
	for _, kind := range kinds {
		account := c.String(kind)
		if account == "" {
			continue
		}
		if !slices.Contains(cfg.Upstream.Kinds(), kind) {
			return usagef("the configuration has no upstream.%s; leave out --%s", kind, kind)
		}
		seen, err := probe.Run(ctx, cfg.Upstream, upstream.Request{Kind: kind, Account: account, Status: c.String("status"), InquiryType: c.String("inquiry-type")}, o)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		errs = append(errs, show(c, seen, func(out io.Writer) { writeProbe(out, seen) }), verdictError(seen))
	}
	return errors.Join(errs...)
}

// keyStoreWarnings looks at the keys in Redis, if the rest of the file says that there are any: whether
// Redis would evict them, and whose account the legacy system cannot be asked for.
func keyStoreWarnings(ctx context.Context, system upstream.Config, file string) (warnings config.Problems) {
	cfg, err := config.Load(file, sections("auth", "redis"))
	if err != nil || cfg.Auth.Redis == nil {
		return nil
	}
	cfg.Upstream = system
	warning := func(text string) {
		warnings = append(warnings, config.Problem{File: file, Key: "auth.redis", Message: text})
	}
	client, err := redisclient.Open(cfg.Redis, redisclient.Options{})
	if err != nil {
		warning(err.Error())
		return warnings
	}
	defer func() { _ = client.Close() }()
	bounded, cancel := client.Bounded(ctx)
	defer cancel()
	if text := keysredis.EvictionWarning(bounded, client); text != "" {
		warning(text)
	}
	return append(warnings, unsupportedKeys(ctx, cfg, file)...)
}

// verdictError is the error of a probe of a list that would be refused, or may not be what it
// seems.
func verdictError(p *probe.Probe) error {
	switch p.Verdict {
	case probe.Good:
		return nil
	case probe.Doubtful:
		return fmt.Errorf("%s %s: the gateway would serve this list, but is it what it seems? %s (correct it, try an account that has it, or give --may-miss with the path)",
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

// recordSummary says how many records there are, and how many of them a caller would see.
func recordSummary(p *probe.Probe) string {
	if p.Problem != "" || len(p.Served) == p.Items {
		return plural(p.Items, "record")
	}
	return fmt.Sprintf("%s, %d shown", plural(p.Items, "record"), len(p.Served))
}

// pageSummary says on how many pages a list came, where there were several.
func pageSummary(p *probe.Probe) string {
	if p.Replies < 2 {
		return ""
	}
	return ", on " + plural(p.Replies, "page")
}
