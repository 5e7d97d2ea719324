package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/telemetry"
)

const (
	// pollFiles is how often files are polled: a change takes effect within a second,
	// two polls and the reading included.
	pollFiles = 250 * time.Millisecond
	// retryPolls is after how many polls a failed reload is tried again without a change: 10 s.
	retryPolls = 40
)

// reloader polls the files and takes over what changes. The configuration is taken over whole or not at
// all: config reads all of it, build makes a generation, apply swaps it in. The keys file is
// reloaded on its own: a mistake elsewhere must not keep a revoked key valid, and a new key is no
// reason to replace anything else.
type reloader struct {
	total *prometheus.CounterVec // result
	last  prometheus.Gauge

	every   time.Duration
	watcher *Watcher
	hangup  <-chan os.Signal

	keysErr   error          // why the keys file was not reloaded
	configErr error          // why the configuration was not reloaded
	retryAt   time.Time      // if one of the two failed
	closing   sync.WaitGroup // of replaced generations
}

// newReloader compares the files with how they were just before cfg was read, so that a change since
// then is noticed.
func newReloader(cfg config.Config, o Options, reg prometheus.Registerer) *reloader {
	all := telemetry.Series(reg, "config")
	r := &reloader{
		total: all.Counters("reloads_total",
			"Reloads of the configuration.", "result"),
		last: all.Gauge("last_reload_successful",
			"1 while everything that runs is what the files say, keys included."),
		every: cmp.Or(o.PollFiles, pollFiles), watcher: NewWatcher(cfg.Files()), hangup: o.Hangup,
	}
	r.total.WithLabelValues("ok")
	r.total.WithLabelValues("failed")
	r.last.Set(1)
	return r
}

// watch takes over what changes until ctx ends. When it returns no reload is in progress, and only the
// current generation is left to close.
func (a *App) watch(ctx context.Context) error {
	r := a.reloads
	defer r.closing.Wait()
	poll := time.NewTicker(r.every)
	defer poll.Stop()
	for {
		var keys, rest bool
		select {
		case <-ctx.Done():
		case <-poll.C:
			for _, name := range r.watcher.Changed() {
				isKeys := name == a.current().cfg.Auth.KeysFile
				keys, rest = keys || isKeys, rest || !isKeys
			}
		case <-r.hangup:
			keys, rest = true, true
		}
		if ctx.Err() != nil {
			return nil
		}
		failed := r.keysErr != nil || r.configErr != nil
		if keys || rest || failed && time.Now().After(r.retryAt) {
			a.reload(ctx, keys, rest)
		}
	}
}

// reload reads the keys file, the configuration, or both, and what failed before.
func (a *App) reload(ctx context.Context, keysChanged, configChanged bool) {
	r := a.reloads
	if store := a.current().keyring.file; store != nil && (keysChanged || r.keysErr != nil) {
		r.keysErr = store.Reload(!keysChanged) // it logs and counts
	}
	if configChanged || r.configErr != nil {
		a.reloadConfig(ctx, !configChanged)
	}
	var notInForce []string
	if r.configErr != nil {
		notInForce = append(notInForce, "configuration")
	}
	if r.keysErr != nil {
		notInForce = append(notInForce, "keys file")
	}
	a.lastErrors.reloaded(notInForce, errors.Join(r.configErr, r.keysErr))
	r.last.Set(0)
	if len(notInForce) == 0 {
		r.last.Set(1)
	}
	r.retryAt = time.Now().Add(retryPolls * r.every)
}

// reloadConfig brings the file into force, or leaves everything as it is. A retry that fails as before
// is neither logged nor counted.
func (a *App) reloadConfig(ctx context.Context, retry bool) {
	r, old := a.reloads, a.current()
	if old.cfg.Path() == "" {
		return
	}
	err := a.replace(ctx, old)
	repeated := retry && err != nil && r.configErr != nil && err.Error() == r.configErr.Error()
	if r.configErr = err; repeated {
		return
	}
	if err != nil {
		r.total.WithLabelValues("failed").Inc()
		a.opts.Logger.Error("configuration not reloaded; the old one stays in force", "error", err)
		return
	}
	r.total.WithLabelValues("ok").Inc()
	Warn(a.opts.Logger, a.current().cfg)
	changes, err := config.Diff(old.cfg.Redacted(), a.current().cfg.Redacted())
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

// replace builds the generation of the file and puts it in old's place, which is closed later. After an error or a panic nothing has changed.
func (a *App) replace(ctx context.Context, old *generation) (err error) {
	defer a.catcher("reload").Catch(func(p any) { err = fmt.Errorf("panic: %v", p) })
	cfg, err := old.cfg.Reload()
	if err != nil {
		return err
	}
	next, err := a.build(cfg)
	if err != nil {
		return err
	}
	a.apply(next)
	r := a.reloads
	r.watcher.SetFiles(cfg.Files())
	if next.keyring.file != old.keyring.file {
		r.keysErr = nil
	}
	r.closeLater(ctx, old, next)
	return nil
}

// closeLater closes what next does not share with old once old's last request must have ended, or when
// ctx ends.
func (r *reloader) closeLater(ctx context.Context, old, next *generation) {
	r.closing.Go(func() {
		select {
		case <-ctx.Done():
		case <-time.After(old.cfg.RequestTimeout + writeSlack):
		}
		old.close(next)
	})
}
