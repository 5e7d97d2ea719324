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
	"inquiry-gateway/gateway/ops/console"
	"inquiry-gateway/internal/telemetry"
)

const (
	// pollFiles is how often files are polled: a change takes effect within a second,
	// two polls and the reading included.
	pollFiles = 250 * time.Millisecond
	// retryPolls is the number of polls after which a failed reload is retried although nothing has changed: 10 s.
	retryPolls = 40
)

// reloader polls the files and reloads those that change. The configuration is reloaded as a whole or not at all: config reads
// it, build makes a generation, apply swaps it in. The keys file is reloaded separately: a mistake elsewhere must not keep a
// revoked key valid.
type reloader struct {
	total          *prometheus.CounterVec // result
	lastSuccessful prometheus.Gauge

	every   time.Duration
	watcher *Watcher
	hangup  <-chan os.Signal

	keysErr   error          // why the keys file was not reloaded
	configErr error          // why the configuration was not reloaded
	retryAt   time.Time      // if one of the two failed
	closing   sync.WaitGroup // of replaced generations

	mu         sync.Mutex
	lastError  console.Failure
	notInForce []string // files whose change was refused
}

// newReloader returns a reloader that compares the files with how they were just before cfg was read.
func newReloader(cfg config.Config, o Options, reg prometheus.Registerer) *reloader {
	all := telemetry.Series(reg, "config")
	r := &reloader{
		total: all.Counters("reloads_total",
			"Reloads of the configuration.", "result"),
		lastSuccessful: all.Gauge("last_reload_successful",
			"1 while everything that runs is what the files say, keys included."),
		every: cmp.Or(o.PollFiles, pollFiles), watcher: NewWatcher(cfg.Files()), hangup: o.Hangup,
	}
	r.total.WithLabelValues("ok")
	r.total.WithLabelValues("failed")
	r.lastSuccessful.Set(1)
	return r
}

// watch reloads files that change, until ctx ends. When it returns, no reload is in progress, and only the current generation
// is left to close.
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
				isKeys := name == a.current().cfg.Auth.KeysFile.Path()
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

// reload reloads the keys file, the configuration or both, and whatever failed before.
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
	r.mu.Lock()
	if r.notInForce = notInForce; len(notInForce) > 0 {
		r.lastError = console.Failure{Text: errors.Join(r.configErr, r.keysErr).Error(), At: time.Now()}
	}
	r.mu.Unlock()
	r.lastSuccessful.Set(0)
	if len(notInForce) == 0 {
		r.lastSuccessful.Set(1)
	}
	r.retryAt = time.Now().Add(retryPolls * r.every)
}

// facts returns what the console shows about reloads. The caller may change it.
func (r *reloader) facts() console.Facts {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := console.Facts{NotInForce: r.notInForce, Last: map[string]console.Failure{}}
	if r.lastError.Text != "" {
		f.Last["reload"] = r.lastError
	}
	return f
}

// reloadConfig puts the configuration file in force, or changes nothing. A retry with the same error is neither logged nor
// counted.
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

// Warn logs the warnings about a configuration.
func Warn(logger *slog.Logger, cfg config.Config) {
	for _, warning := range cfg.Warnings() {
		logger.Warn("configuration", "warning", warning.Error())
	}
}

// replace builds the generation of the configuration file and replaces old by it. After an error or a panic nothing has changed.
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

// closeLater closes the parts of old that next does not share, when the last request of old must have ended or ctx ends.
func (r *reloader) closeLater(ctx context.Context, old, next *generation) {
	r.closing.Go(func() {
		select {
		case <-ctx.Done():
		case <-time.After(old.cfg.RequestTimeout + writeSlack):
		}
		old.close(next)
	})
}
