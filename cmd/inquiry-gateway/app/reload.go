package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/telemetry"
)

const (
	// pollFiles is how often files are polled: a revocation holds within a second,
	// two polls and the reading included.
	pollFiles = 250 * time.Millisecond
	// retryPolls is after how many polls what failed is tried again without any
	// change: 10 s.
	retryPolls = 40
)

// reloader polls the files and takes over what changes. A file counts as changed once two polls
// see the same size, time and inode; what failed is tried again from time to time. config reads
// the whole file or says all that is wrong with it, build makes the parts, apply swaps them, and
// the old ones are closed when their last request must be over. The keys file is read on its own:
// a mistake elsewhere must not keep a revoked key good, and a key is no reason to replace
// anything else.
type reloader struct {
	total *prometheus.CounterVec // result
	last  prometheus.Gauge

	every   time.Duration
	watcher *Watcher
	hangup  <-chan os.Signal

	keysErr   error     // why the keys file was not read
	configErr error     // why the configuration was not taken over
	waiting   []string  // keys of the configuration that need a restart
	retryAt   time.Time // where one of the two failed
	retired   []retired // in their order
}

// retired is a setup that was replaced, and when its last request must be over.
type retired struct {
	old, next *setup
	over      time.Time
}

// newReloader compares the files with how they were just before cfg was read: a change since
// then is noticed.
func newReloader(cfg config.Config, o Options, reg prometheus.Registerer) *reloader {
	all := telemetry.Series(reg, "config")
	r := &reloader{
		total: all.Counters("reloads_total",
			"Reloads of the configuration by result; after a failed one the old configuration stays in force.", "result"),
		last: all.Gauge("last_reload_successful",
			"1 while all that runs is what the files say, keys included; 0 after a mistake, and while a key waits for a restart."),
		every: cmp.Or(o.PollFiles, pollFiles), watcher: NewWatcher(cfg.Files()), hangup: o.Hangup,
	}
	r.total.WithLabelValues("ok")
	r.total.WithLabelValues("failed")
	r.last.Set(1)
	return r
}

// watch takes over what changes until ctx ends. When it
// returns no reload is under way, and only the running setup is left to close.
func (a *App) watch(ctx context.Context) error {
	r := a.reloads
	defer r.closeRetired(time.Time{})
	poll := time.NewTicker(r.every)
	defer poll.Stop()
	for {
		var now time.Time
		select {
		case <-ctx.Done():
		case now = <-poll.C:
		case <-r.hangup:
		}
		switch {
		case ctx.Err() != nil: // also where there is something to read, too: select takes any
			return nil
		case now.IsZero():
			a.reload(ctx, nil, true)
		default:
			r.closeRetired(now)
			changed, failed := r.watcher.Changed(now), r.keysErr != nil || r.configErr != nil
			if len(changed) > 0 || failed && now.After(r.retryAt) {
				a.reload(ctx, changed, false)
			}
		}
	}
}

// reload reads what has changed and what failed before, or all files.
func (a *App) reload(ctx context.Context, changed []string, all bool) {
	r, running := a.reloads, a.running()
	file := running.cfg.Auth.KeysFile
	keysChanged := all || slices.Contains(changed, file)
	restChanged := all || slices.ContainsFunc(changed, func(name string) bool { return name != file })
	if keys := running.keyring.file; keys != nil && (keysChanged || r.keysErr != nil) {
		r.keysErr = keys.Reload(!keysChanged) // it says why, and counts it
	}
	if restChanged || r.configErr != nil {
		a.reloadConfig(ctx, !restChanged)
	}
	var notInForce []string
	waiting := r.waiting
	if r.configErr != nil {
		notInForce, waiting = append(notInForce, "configuration"), nil // the mistake comes first
	}
	if r.keysErr != nil {
		notInForce = append(notInForce, "keys file")
	}
	a.lastErrors.reloaded(notInForce, waiting, errors.Join(r.configErr, r.keysErr))
	r.last.Set(0)
	if len(notInForce)+len(r.waiting) == 0 {
		r.last.Set(1)
	}
	r.retryAt = time.Now().Add(retryPolls * r.every)
}

// reloadConfig brings the file into force; after a mistake all stays as it is. Another try that
// finds the same mistake says nothing.
func (a *App) reloadConfig(ctx context.Context, again bool) {
	r, old := a.reloads, a.running()
	if old.cfg.Path() == "" {
		return
	}
	waiting, err := a.replace(ctx, old)
	repeated := again && err != nil && r.configErr != nil && err.Error() == r.configErr.Error()
	if r.configErr = err; repeated {
		return
	}
	if err != nil {
		r.total.WithLabelValues("failed").Inc()
		a.opts.Logger.Error("configuration not reloaded; the old one stays in force", "error", err)
		return
	}
	r.total.WithLabelValues("ok").Inc()
	Warn(a.opts.Logger, a.running().cfg)
	if r.waiting = waiting; len(waiting) > 0 {
		a.opts.Logger.Warn("these keys take effect at the next start only", "keys", waiting)
	}
	changes, err := config.Diff(old.cfg.Redacted(), a.running().cfg.Redacted())
	if err != nil {
		a.opts.Logger.Error("the changes of this reload cannot be listed", "error", err)
	}
	a.opts.Logger.Info("configuration reloaded", "changes", changes)
}

// Warn logs what is doubtful in a configuration.
func Warn(logger *slog.Logger, cfg config.Config) {
	for _, warning := range cfg.Warnings() {
		logger.Warn("configuration", "warning", warning.Error())
	}
}

// replace builds the setup of the file and puts it in old's place. waiting are the keys of the file
// that need a restart. Where build fails or panics, nothing has changed.
func (a *App) replace(ctx context.Context, old *setup) (waiting []string, err error) {
	defer a.catcher("reload").Catch(func(p any) { err = fmt.Errorf("panic: %v", p) })
	cfg, waiting, err := old.cfg.Reload(config.Options{})
	if err != nil {
		return waiting, err
	}
	next, err := a.build(cfg)
	if err != nil {
		return waiting, err
	}
	a.apply(next)
	r := a.reloads
	r.watcher.SetFiles(cfg.Files())
	if next.keyring.file != old.keyring.file {
		r.keysErr = nil
	}
	r.retired = append(r.retired, retired{old, next, time.Now().Add(old.cfg.RequestTimeout + writeSlack)})
	return waiting, nil
}

// closeRetired closes what is over at a moment; the zero time is the end of all.
func (r *reloader) closeRetired(now time.Time) {
	for len(r.retired) > 0 && (now.IsZero() || now.After(r.retired[0].over)) {
		r.retired[0].old.close(r.retired[0].next)
		r.retired = slices.Delete(r.retired, 0, 1)
	}
}
