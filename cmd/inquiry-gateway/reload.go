package main

import (
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

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/cmd/inquiry-gateway/watch"
)

// reloadMetrics tell whether what is written is what runs.
type reloadMetrics struct {
	total *prometheus.CounterVec // result
	last  prometheus.Gauge
}

func newReloadMetrics(reg prometheus.Registerer) *reloadMetrics {
	m := &reloadMetrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "inquiry_gateway_config_reloads_total",
			Help: "Reloads of the configuration by result; after a failed one the old configuration stays in force.",
		}, []string{"result"}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "inquiry_gateway_config_last_reload_successful",
			Help: "1 while what runs is what the file says, 0 after a reload that failed.",
		}),
	}
	m.total.WithLabelValues("ok")
	m.total.WithLabelValues("failed")
	m.last.Set(1)
	reg.MustRegister(m.total, m.last)
	return m
}

// newWatcher notes what the files say now, right after they were read, so that
// no change falls between, and takes SIGHUP, which would end the process
// otherwise; watch does the rest.
func (a *app) newWatcher() (err error) {
	a.hangup = make(chan os.Signal, 1)
	signal.Notify(a.hangup, syscall.SIGHUP)
	a.changes = make(chan []string, 1)
	a.watcher, err = watch.New(a.current.Load().cfg.Files(), func(changed []string) {
		select {
		case a.changes <- changed:
		default:
			// One reload is waiting already, and reads the files when it comes to it.
			// It must be a whole one, whatever it was about.
			select {
			case <-a.changes:
			default:
			}
			a.changes <- nil
		}
	}, watch.Options{Logger: a.logger})
	return err
}

// watch reloads what changed when a file of the configuration does, and
// everything on SIGHUP, until ctx ends.
func (a *app) watch(ctx context.Context) error {
	var retired sync.WaitGroup
	defer retired.Wait()
	defer signal.Stop(a.hangup)
	retired.Go(func() { a.watcher.Run(ctx) })
	stopCanary := a.startCanary(ctx)
	defer func() { stopCanary() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case changed := <-a.changes:
			if old := a.current.Load(); old.keys.reload != nil && slices.Equal(changed, []string{old.cfg.Auth.KeysFile}) {
				a.reloadKeys(old)
				continue
			}
		case <-a.hangup:
		}
		stopCanary() // which would hold lists of the new policy against the old one
		if old := a.reload(); old != nil {
			a.watcher.SetFiles(a.current.Load().cfg.Files())
			retired.Go(func() { retire(ctx, old) })
		}
		stopCanary = a.startCanary(ctx)
	}
}

// reloadKeys reads the keys file alone: a key made or revoked is no reason to
// replace the connections to the legacy system.
func (a *app) reloadKeys(gen *generation) {
	if err := gen.keys.reload(); err != nil {
		return // the store has said why, and counted it
	}
	a.logger.Info("keys reloaded")
}

// reload replaces the generation by what the file says now, and returns the old
// one; nil where the old one stays, because there is no file or because of a
// mistake: a half-written file must not lock anybody out.
func (a *app) reload() *generation {
	old := a.current.Load()
	path := old.cfg.Path()
	if path == "" {
		return nil
	}
	next, err := a.load(path)
	if err != nil {
		a.reloads.total.WithLabelValues("failed").Inc()
		a.reloads.last.Set(0)
		a.logger.Error("configuration not reloaded; the old one stays in force", "error", err)
		return nil
	}
	if next.certificate == nil {
		next.certificate = old.certificate // TLS is left at the next start only
	}
	a.current.Store(next)
	a.public.listener.SetMax(next.cfg.MaxConnections)
	a.reloads.total.WithLabelValues("ok").Inc()
	a.reloads.last.Set(1)
	if keys := config.Restart(old.cfg, next.cfg); len(keys) > 0 {
		a.logger.Warn("these keys take effect at the next start only", "keys", keys)
	}
	a.logger.Info("configuration reloaded", "changes", config.Diff(old.cfg.Redacted(), next.cfg.Redacted()))
	return old
}

// load makes a generation of the file. Cache and limiter keep what they know and
// change their policies last, when nothing can fail any more: Load has checked
// both.
func (a *app) load(path string) (next *generation, err error) {
	defer a.caught("reload", func(p any) { next, err = nil, fmt.Errorf("panic: %v", p) })
	loaded, err := config.Load(path, config.Options{})
	if err != nil {
		return nil, err
	}
	if next, err = a.newGeneration(loaded.Config); err != nil {
		return nil, err
	}
	if err := errors.Join(a.lists.SetConfig(a.memory.fit(loaded.Config.Cache)), a.lab.setConfig(loaded.Config.Cache), a.rate.SetConfig(loaded.Config.RateLimit)); err != nil {
		next.close()
		return nil, err
	}
	return next, nil
}

// retire closes a generation when its last request must be over.
func retire(ctx context.Context, gen *generation) {
	select {
	case <-ctx.Done():
	case <-time.After(gen.cfg.RequestTimeout + writeSlack):
	}
	gen.close()
}
