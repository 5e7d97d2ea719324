package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/cmd/inquiry-gateway/watch"
)

// reloadable is something read from files that can be read again while serving.
type reloadable struct {
	what   string
	files  []string
	reload func() error
}

func (a *app) reloadables() []reloadable {
	all := []reloadable{{"keys", []string{a.cfg.Auth.KeysFile}, a.keys.Reload}}
	if a.cert != nil {
		all = append(all, reloadable{"certificate", []string{a.cert.certFile, a.cert.keyFile}, a.cert.reload})
	}
	return all
}

// watch reloads what changed when its files do, and everything on SIGHUP, until
// ctx ends.
func (a *app) watch(ctx context.Context) error {
	var files []string
	for _, r := range a.reloadables() {
		files = append(files, r.files...)
	}
	watcher, err := watch.New(files, func(changed []string) {
		a.reload("file change", func(r reloadable) bool {
			return slices.ContainsFunc(r.files, func(f string) bool { return slices.Contains(changed, f) })
		})
	}, watch.Options{Logger: a.logger})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { watcher.Run(ctx); return nil })
	group.Go(func() error { a.onHangup(ctx); return nil })
	return group.Wait()
}

func (a *app) onHangup(ctx context.Context) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			a.reload("SIGHUP", func(reloadable) bool { return true })
		}
	}
}

// reload reads again what is chosen. What cannot be read is logged and the old
// stays in force: a half-written file must not lock anybody out.
func (a *app) reload(why string, chosen func(reloadable) bool) {
	for _, r := range a.reloadables() {
		if !chosen(r) {
			continue
		}
		if err := r.reload(); err != nil {
			a.logger.Error("reload failed; what was loaded before stays in force", "what", r.what, "why", why, "error", err)
			continue
		}
		a.logger.Info("reloaded", "what", r.what, "why", why)
	}
}
