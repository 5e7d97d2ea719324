package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/cache"
	"inquiry-gateway/cache/ttllab"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/cmd/inquiry-gateway/watch"
	"inquiry-gateway/gateway"
	"inquiry-gateway/internal/series"
)

const (
	// pollFiles is how often files are polled: a revocation holds within a second,
	// two polls and the reading included.
	pollFiles = 250 * time.Millisecond
	// retryPolls is after how many polls what failed is tried again without any
	// change: 10 s.
	retryPolls = 40
)

// reloader takes over what the files say. Only watch and what it calls use it.
type reloader struct {
	total   *prometheus.CounterVec // result
	last    prometheus.Gauge
	watcher *watch.Watcher
	hangup  chan os.Signal
	retired sync.WaitGroup // parts that are closed later

	pollEvery time.Duration

	keys       error     // why the keys file was not read
	config     error     // why the configuration was not taken over
	waiting    []string  // keys of the configuration that need a restart
	retryAt    time.Time // where one of the two failed
	stopCanary func()
}

// newReloader notes what the files are now, before the parts read them, so that
// no change falls between.
func newReloader(cfg config.Config, o Options, reg prometheus.Registerer) *reloader {
	all := series.In(reg, "config")
	r := &reloader{
		total: all.Counters("reloads_total",
			"Reloads of the configuration by result; after a failed one the old configuration stays in force.", "result"),
		last: all.Gauge("last_reload_successful",
			"1 while all that runs is what the files say, keys included; 0 after a mistake, and while a key waits for a restart."),
		watcher: watch.New(cfg.Files()),
		hangup:  make(chan os.Signal, 1),

		pollEvery: cmp.Or(o.PollFiles, pollFiles),
	}
	r.total.WithLabelValues("ok")
	r.total.WithLabelValues("failed")
	r.last.Set(1)
	if o.Hangup {
		signal.Notify(r.hangup, syscall.SIGHUP)
	}
	return r
}

// Reload has everything read again soon, as SIGHUP does.
func (a *App) Reload() {
	select {
	case a.reloads.hangup <- syscall.SIGHUP:
	default: // one is asked for already
	}
}

// noteResult says whether all that runs is what the files say, and when to try
// again what is not.
func (r *reloader) noteResult() {
	r.last.Set(0)
	if r.keys == nil && r.config == nil && len(r.waiting) == 0 {
		r.last.Set(1)
	}
	r.retryAt = time.Now().Add(retryPolls * r.pollEvery)
}

// failed says whether something is to be tried again without a change of a file.
func (r *reloader) failed() bool { return r.keys != nil || r.config != nil }

// watch reloads what changed when a file of the configuration does, everything
// on SIGHUP, and from time to time what failed, until ctx ends.
func (a *App) watch(ctx context.Context) error {
	r := a.reloads
	defer r.retired.Wait()
	defer signal.Stop(r.hangup)
	r.stopCanary = a.startCanary(ctx)
	defer func() { r.stopCanary() }()
	poll := time.NewTicker(r.pollEvery)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-poll.C:
			if changed := r.watcher.Changed(now); len(changed) > 0 || r.failed() && now.After(r.retryAt) {
				a.reloadChanged(ctx, changed)
			}
		case <-r.hangup:
			a.reloadChanged(ctx, a.running().cfg.Files())
		}
	}
}

// reloadChanged reads again what has changed, and what failed before. The keys file is
// read on its own: a mistake elsewhere must not keep a revoked key good, and a
// key is no reason to replace anything else.
func (a *App) reloadChanged(ctx context.Context, changed []string) {
	r, gen := a.reloads, a.running()
	file := gen.cfg.Auth.KeysFile
	if reload := gen.keys.reload; reload != nil && (r.keys != nil || slices.Contains(changed, file)) {
		r.keys = reload() // the store says why, and counts it
	}
	if r.config != nil || slices.ContainsFunc(changed, func(name string) bool { return name != file }) {
		a.reloadConfig(ctx, len(changed) == 0)
	}
	r.noteResult()
}

// reloadConfig makes what the file says now run; where that has a mistake, all stays
// as it is. One that is tried again for the same mistake says nothing.
func (a *App) reloadConfig(ctx context.Context, again bool) {
	r, old := a.reloads, a.running()
	if old.cfg.Path() == "" {
		return
	}
	waiting, err := a.replace(ctx, old)
	repeated := again && err != nil && r.config != nil && err.Error() == r.config.Error()
	if r.config = err; repeated {
		return
	}
	if err != nil {
		r.total.WithLabelValues("failed").Inc()
		a.failures.note("reload", "", time.Time{}, err)
		a.opts.Logger.Error("configuration not reloaded; the old one stays in force", "error", err)
		return
	}
	r.total.WithLabelValues("ok").Inc()
	if r.waiting = waiting; len(waiting) > 0 {
		a.opts.Logger.Warn("these keys take effect at the next start only", "keys", waiting)
	}
	a.opts.Logger.Info("configuration reloaded", "changes", config.Diff(old.cfg.Redacted(), a.running().cfg.Redacted()))
}

// replace puts a generation of what the file says in old's place; waiting are
// the keys that need a restart. On an error, a panic included, old stays.
func (a *App) replace(ctx context.Context, old *generation) (waiting []string, err error) {
	defer a.catcher("reload").Catch(func(p any) { err = fmt.Errorf("panic: %v", p) })
	cfg, waiting, err := old.cfg.Reload(config.Options{})
	if err != nil {
		return waiting, err
	}
	// All files are read once more after the watcher has noted what they are: a file that a
	// new configuration names may have changed since it was read for the first time.
	a.reloads.watcher.SetFiles(append(old.cfg.Files(), cfg.Files()...))
	if cfg, waiting, err = old.cfg.Reload(config.Options{}); err != nil {
		return waiting, err
	}
	next, err := a.newGeneration(cfg)
	if err != nil {
		return waiting, err
	}
	if next.canary != old.canary {
		a.reloads.stopCanary()
		defer func() { a.reloads.stopCanary = a.startCanary(ctx) }()
	}
	if err := a.putInForce(next); err != nil {
		next.close(old)
		return waiting, err
	}
	a.reloads.watcher.SetFiles(cfg.Files())
	if next.keys != old.keys {
		a.reloads.keys = nil
	}
	a.retire(ctx, old, next)
	return waiting, nil
}

// putInForce makes gen run. Cache, limiter and lab keep what they know and change
// their policies, all together once nothing can fail any more.
func (a *App) putInForce(gen *generation) error {
	apply, err := a.lists.Prepare(a.memory.fit(gen.cfg.Cache), cache.Fills{Timeout: gen.cfg.RequestTimeout, Mappings: gateway.Mappings(gen.client)})
	if err = errors.Join(err, gen.cfg.RateLimit.Validate()); err != nil {
		return err
	}
	a.lab.SetConfig(labKinds(gen.cfg), ttllab.ConfigOf(gen.cfg.Cache))
	a.rate.SetConfig(gen.cfg.RateLimit)
	apply()
	a.ceiling.Set(gen.cfg.Upstream.MaxRequestsPerSecond, gen.cfg.Upstream.MaxNodes)
	a.tokens.Set(gen.cfg.Ops.Tokens())
	if a.public != nil { // not at the start
		a.public.listener.SetMax(fitConnections(gen.cfg.MaxConnections, openFiles(), a.opts.Logger))
	}
	write := gen.cfg.RequestTimeout + writeSlack
	a.gateway.Set(gen.public, write, a.public == nil || a.public.http.WriteTimeout == write)
	a.current.Store(gen)
	return nil
}

// retire closes what next does not go on with when the last request of old must
// be over. Mostly there is nothing, and old is free at once.
func (a *App) retire(ctx context.Context, old, next *generation) {
	ends, last := old.ends(next), old.cfg.RequestTimeout+writeSlack
	if len(ends) == 0 {
		return
	}
	a.reloads.retired.Go(func() {
		select {
		case <-ctx.Done():
		case <-time.After(last):
		}
		for _, end := range ends {
			end()
		}
	})
}
