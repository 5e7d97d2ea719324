package app

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// watched is a watcher of files in a folder.
type watched struct {
	*Watcher
	t   *testing.T
	dir string
}

// watching watches files that hold "1".
func watching(t *testing.T, names ...string) *watched {
	w := &watched{t: t, dir: t.TempDir()}
	for i, name := range names {
		w.write(name, "1")
		names[i] = w.path(name)
	}
	w.Watcher = NewWatcher(Snapshot(names...))
	return w
}

func (w *watched) path(name string) string { return filepath.Join(w.dir, name) }

func (w *watched) write(name, text string) {
	must(w.t, os.WriteFile(w.path(name), []byte(text), 0o600))
}

// look polls the files.
func (w *watched) look() (names []string) {
	for _, path := range w.Changed() {
		names = append(names, filepath.Base(path))
	}
	slices.Sort(names)
	return names
}

// tells expects one look to see a change and the next to tell of it, once.
func (w *watched) tells(want ...string) {
	w.t.Helper()
	if got := [][]string{w.look(), w.look(), w.look()}; got[0] != nil || !slices.Equal(got[1], want) || got[2] != nil {
		w.t.Errorf("told %q, want %q by the second look", got, want)
	}
}

// Whatever becomes of a file is a change: written, touched, replaced, removed, made.
func TestChangesOfFilesAreTold(t *testing.T) {
	w := watching(t, "a", "b")
	w.write("other", "1")
	w.write("a", "22")
	w.tells("a")
	w.write("b", "22")
	w.tells("b")
	old := time.Unix(1, 0)
	must(t, os.Chtimes(w.path("a"), old, old))
	w.tells("a")
	w.write("next", "33") // the same size and time, another file
	must(t, os.Chtimes(w.path("next"), old, old))
	must(t, os.Rename(w.path("next"), w.path("a")))
	w.tells("a")
	must(t, os.Remove(w.path("a")))
	w.tells("a")
	w.write("a", "1")
	w.tells("a")
	must(t, os.Rename(w.path("b"), w.path("aside"))) // and back, before it is told
	got := w.look()
	must(t, os.Rename(w.path("aside"), w.path("b")))
	if got = append(got, append(w.look(), w.look()...)...); got != nil {
		t.Errorf("a change that is undone: told %q", got)
	}
}

// A file that is being written is waited for, however long that takes; other files are not.
func TestAWriterIsWaitedFor(t *testing.T) {
	w := watching(t, "a", "b")
	w.write("b", "22")
	for n, want := range []string{"", "b", "", "", "", "", ""} {
		w.write("a", fmt.Sprintf("%0*d", n+2, 0))
		if got := strings.Join(w.look(), " "); got != want {
			t.Errorf("look %d: told %q", n, got)
		}
	}
	if got := w.look(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("after the last write: %q", got)
	}
}

// Kubernetes swaps a symbolic link to the folder that the files' links lead through.
func TestASwapOfALinkIsTold(t *testing.T) {
	w := watching(t)
	names := []string{"gateway.yaml", "keys.yaml"}
	put := func(version string) {
		must(t, os.Mkdir(w.path(version), 0o700))
		for _, name := range names {
			w.write(filepath.Join(version, name), "x")
		}
		must(t, os.Symlink(version, w.path("..data_tmp")))
		must(t, os.Rename(w.path("..data_tmp"), w.path("..data")))
	}
	put("..v1")
	for _, name := range names {
		must(t, os.Symlink(filepath.Join("..data", name), w.path(name)))
	}
	w.SetFiles(Snapshot(w.path(names[0]), w.path(names[1])))
	put("..v2")
	w.tells(names...)
	must(t, os.RemoveAll(w.path("..v1")))
	put("..v3")
	w.tells(names...)
}

// A change that was not told yet is told after the set of files has changed.
func TestAnotherSetOfFiles(t *testing.T) {
	w := watching(t, "a")
	w.write("a", "22")
	w.SetFiles(Snapshot(w.path("a"), w.path("b")))
	w.tells("a")
	w.write("b", "1")
	w.tells("b")
	w.SetFiles(Snapshot(w.path("b")))
	w.write("a", "333")
	if got := append(w.look(), w.look()...); got != nil {
		t.Errorf("told %q", got)
	}
}
