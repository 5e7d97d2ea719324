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
	"inquiry-gateway/cache"
	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/probe"
)

// onlySections is for commands that use some sections of the configuration, and ignore mistakes elsewhere. The first section is
// the one that the command is about.
func onlySections(names ...string) config.Options { return config.Options{Sections: names} }

// probeCommand is for people who write a mapping. Unlike logs, it shows contents.
func probeCommand() *cli.Command {
	return &cli.Command{
		Name:  "probe",
		Usage: "show how the mapping reads a list of the legacy system",
		Description: "Reads a whole list with all pages and responses, or one saved reply. Shows each field's path,\n" +
			"raw and mapped value for the first records, how often each configured path was found, and every\n" +
			"reason why the gateway would refuse the list. The output holds contents and internal ids, so do\n" +
			"not log it. Fails (exit code 1) if the gateway would respond with an error, or if an optional\n" +
			"path matched nothing (see --may-miss).",
		Flags: []cli.Flag{
			configFlag(),
			&cli.StringFlag{Name: "buyer", Usage: "request the list of the buyer with this account `ID`"},
			&cli.StringFlag{Name: "seller", Usage: "request the list of the seller with this account `ID`"},
			&cli.StringFlag{Name: "status", Usage: "filter by this value"},
			&cli.StringFlag{Name: "inquiry-type", Usage: "filter by this value"},
			&cli.BoolFlag{Name: "filters", Usage: "also request the list of each value of both filters"},
			&cli.StringFlag{Name: "sample", Usage: "read a saved reply from `FILE` (- for standard input) instead"},
			&cli.IntFlag{Name: "records", Usage: "number of records to show field by field", Value: 3},
			&cli.StringSliceFlag{Name: "may-miss", Usage: "accept that this `PATH` of the mapping matches nothing"},
			jsonFlag(),
			&cli.BoolFlag{Name: "watch", Usage: "repeat when the configuration or the saved reply changes"},
		},
		Action: runProbe,
	}
}

// kinds of lists and keys, and the names of flags that take an account.
var kinds = []string{cache.KindBuyer, cache.KindSeller}

// checkKind returns an error if kind is not a kind of lists.
func checkKind(kind string) error {
	if !slices.Contains(kinds, kind) {
		return usagef("--kind is %q; give buyer or seller", kind)
	}
	return nil
}

// runProbe checks the flags, and probes once or repeatedly.
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
		return usagef("--records is %d; give 0 or more", c.Int("records"))
	case sample != "" && lists > 1:
		return usagef("--sample is a reply for one list; give --buyer ID or --seller ID")
	case c.Bool("filters") && (filtered || sample != ""):
		return usagef("--filters requests the lists of all filter values; leave out --status, --inquiry-type and --sample")
	case c.Bool("watch") && sample == "-":
		return usagef("--watch reads the reply repeatedly; give it as a file")
	case c.Bool("watch"):
		return watchProbe(ctx, c)
	}
	return probeOnce(ctx, c)
}

// watchEvery is how often the files are polled.
const watchEvery = 200 * time.Millisecond

// watchProbe probes whenever a file has changed, until ctx ends. It prints errors and waits for the next change.
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
			writeError(c.Root().ErrWriter, err)
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

// probeOnce prints everything it finds before it fails, and continues after a list that would be refused.
func probeOnce(ctx context.Context, c *cli.Command) error {
	cfg, err := config.Load(c.String("config"), onlySections("upstream"))
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

// keyStoreWarnings returns warnings about keys in Redis, if the configuration has its keys there: that Redis may evict them,
// and accounts that the legacy system cannot be asked for.
func keyStoreWarnings(ctx context.Context, system upstream.Config, file string) (warnings config.Problems) {
	cfg, err := config.Load(file, onlySections("auth", "redis"))
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

// verdictError returns an error if the gateway would refuse the list, or if the mapping may be wrong.
func verdictError(p *probe.Probe) error {
	switch p.Verdict {
	case probe.Good:
		return nil
	case probe.Doubtful:
		return fmt.Errorf("%s %s: the gateway would serve this list, but the mapping may be wrong: %s (correct the path, try an account whose list has it, or accept it with --may-miss PATH)",
			p.Kind, printable(p.Account), printable(p.Reason))
	}
	return fmt.Errorf("%s %s: the gateway would refuse this list: %s", p.Kind, printable(p.Account), printable(p.Reason))
}

// readSample reads a saved reply of at most limit bytes. Without an error the result is not nil.
func readSample(ctx context.Context, file string, limit int64) ([]byte, error) {
	data, err := readInput(ctx, "--sample", file, limit+1)
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("--sample %s is larger than upstream.max_response_bytes (%d): the gateway would refuse it", file, limit)
	}
	if data == nil {
		data = []byte{} // nil stands for a request
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

// stdin returns standard input until ctx ends, so that Ctrl-C ends a command that waits for input. The goroutine that reads
// ends with the next input after the result is closed.
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

// recordSummary returns how many records there are, and how many of them a caller would see.
func recordSummary(p *probe.Probe) string {
	if p.Problem != "" || len(p.Served) == p.Items {
		return plural(p.Items, "record")
	}
	return fmt.Sprintf("%s, %d shown", plural(p.Items, "record"), len(p.Served))
}

// pageSummary returns the number of pages if there were several.
func pageSummary(p *probe.Probe) string {
	if p.Replies < 2 {
		return ""
	}
	return ", on " + plural(p.Replies, "page")
}
