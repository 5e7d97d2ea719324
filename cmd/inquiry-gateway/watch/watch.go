// Package watch tells when the content of files has changed.
package watch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Options of a Watcher; the zero value is usable.
type Options struct {
	// Debounce is how long the files must be quiet before they are looked at,
	// so that an editor's several writes are one change. Zero: 200 ms.
	Debounce time.Duration
	// Poll is how often the files are looked at without any event, for file
	// systems that send none (NFS, some container mounts). Zero: 30 s.
	Poll time.Duration
	// Logger hears of events that could not be had; nil: nobody does.
	Logger *slog.Logger
}

// Watcher watches a set of files. What counts is their content: a file that is
// only touched, or replaced by an equal one, has not changed. A file that
// disappears has, and so has one that comes into being.
type Watcher struct {
	options  Options
	onChange func(changed []string)
	files    map[string]state // as last told
	next     chan []string    // a new set of files, for Run
	events   *fsnotify.Watcher
	folders  []string // that events come from
}

// New looks at the files once; whatever changes from now on is told by Run.
// Changes are told through onChange with the paths as they were given, sorted.
// onChange runs on Run's goroutine: while it runs, changes are gathered.
func New(paths []string, onChange func(changed []string), o Options) (*Watcher, error) {
	if onChange == nil {
		return nil, errors.New("watch: onChange is nil")
	}
	if o.Debounce <= 0 {
		o.Debounce = 200 * time.Millisecond
	}
	if o.Poll <= 0 {
		o.Poll = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{options: o, onChange: onChange, next: make(chan []string, 1)}
	events, err := fsnotify.NewWatcher()
	if err != nil {
		// Out of inotify instances, for instance: slower, but it still works.
		o.Logger.Warn("no file events, files are polled", "every", o.Poll, "error", err)
	} else {
		w.events = events
	}
	w.files = look(paths)
	w.follow()
	return w, nil
}

// SetFiles replaces the set of files, for instance after a configuration that
// names others was taken. Files that were watched before keep what is known of
// them; new ones are taken as they are at that moment. It may be called from
// onChange and from any goroutine; the last call counts.
func (w *Watcher) SetFiles(paths []string) {
	paths = slices.Clone(paths)
	for {
		select {
		case w.next <- paths:
			return
		default:
		}
		select {
		case <-w.next: // not taken yet, and out of date now
		default:
		}
	}
}

// Run watches until ctx is done, then gives up the operating system's watches
// and returns. It must be called once, and onChange is not called after it.
func (w *Watcher) Run(ctx context.Context) {
	if w.events != nil {
		defer w.events.Close()
	}
	poll := time.NewTicker(w.options.Poll)
	defer poll.Stop()
	quiet := time.NewTimer(w.options.Debounce)
	quiet.Stop()
	defer quiet.Stop()
	events, errs := w.channels()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-events:
			quiet.Reset(w.options.Debounce)
		case err := <-errs:
			w.options.Logger.Warn("file events may be lost, looking at all files", "error", err)
			quiet.Reset(w.options.Debounce)
		case paths := <-w.next:
			w.replace(paths)
		case <-quiet.C:
			w.compare()
		case <-poll.C:
			w.compare()
		}
	}
}

// channels gives the sources of events; without them nil channels, which are
// silent for ever.
func (w *Watcher) channels() (<-chan fsnotify.Event, <-chan error) {
	if w.events == nil {
		return nil, nil
	}
	return w.events.Events, w.events.Errors
}

func (w *Watcher) replace(paths []string) {
	now := look(paths)
	for path := range now {
		if before, known := w.files[path]; known {
			now[path] = before
		}
	}
	w.files = now
	w.follow()
	// A known file may have changed just before.
	w.compare()
}

// compare looks at all files and tells what changed.
func (w *Watcher) compare() {
	var changed []string
	for path, before := range w.files {
		if now := stateOf(path); now != before {
			w.files[path] = now
			changed = append(changed, path)
		}
	}
	// Symbolic links may lead elsewhere now, and folders may be new.
	w.follow()
	if len(changed) > 0 {
		slices.Sort(changed)
		w.onChange(changed)
	}
}

// follow has events sent for the folders of the files. A folder is watched
// rather than the file, because editors and Kubernetes put another file or
// link in its place.
func (w *Watcher) follow() {
	if w.events == nil {
		return
	}
	wanted := foldersOf(w.files)
	for _, old := range w.folders {
		if !slices.Contains(wanted, old) {
			// Gone with its folder already, most likely.
			_ = w.events.Remove(old)
		}
	}
	for _, folder := range wanted {
		// Added again each time: a folder that was removed and made anew has
		// lost its watch, and for any other this does nothing.
		if err := w.events.Add(folder); err != nil && !slices.Contains(w.folders, folder) {
			w.options.Logger.Warn("no file events for a folder, its files are polled",
				"folder", folder, "every", w.options.Poll, "error", err)
		}
	}
	w.folders = wanted
}
