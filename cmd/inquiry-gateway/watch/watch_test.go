package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func write(t *testing.T, path, content string) string {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// looks are those of a watcher, a quarter of a second apart.
type looks struct {
	*Watcher
	t  *testing.T
	at time.Time
}

func start(t *testing.T, paths ...string) *looks {
	return &looks{New(Look(paths...)), t, time.Unix(0, 0)}
}

func (l *looks) look() []string {
	l.at = l.at.Add(250 * time.Millisecond)
	changed := l.Changed(l.at)
	slices.Sort(changed)
	return changed
}

// tells expects one look to see a change and the next to tell of it, once.
func (l *looks) tells(want ...string) {
	l.t.Helper()
	if got := l.look(); got != nil {
		l.t.Errorf("told %q at once", got)
	}
	if got := l.look(); !slices.Equal(got, want) {
		l.t.Errorf("told %q, want %q", got, want)
	}
	if got := l.look(); got != nil {
		l.t.Errorf("told %q twice", got)
	}
}

func TestTellsOfAWrite(t *testing.T) {
	dir := t.TempDir()
	a, b := write(t, filepath.Join(dir, "a"), "1"), write(t, filepath.Join(dir, "b"), "1")
	l := start(t, a, b)
	write(t, filepath.Join(dir, "other"), "1")
	write(t, a, "22")
	l.tells(a)
	write(t, b, "22")
	l.tells(b)
}

func TestTellsOfARenameOver(t *testing.T) {
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a"), "1")
	l := start(t, a)
	must(t, os.Chtimes(a, time.Unix(1, 0), time.Unix(1, 0)))
	l.tells(a)
	next := write(t, filepath.Join(dir, ".a.swp"), "2")
	must(t, os.Chtimes(next, time.Unix(1, 0), time.Unix(1, 0))) // same size and time, another file
	must(t, os.Rename(next, a))
	l.tells(a)
}

func TestTellsOfAFileThatGoesAndComes(t *testing.T) {
	a := write(t, filepath.Join(t.TempDir(), "a"), "1")
	l := start(t, a)
	must(t, os.Remove(a))
	l.tells(a)
	write(t, a, "1")
	l.tells(a)
}

func TestSaysNothingOfAChangeThatIsUndone(t *testing.T) {
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a"), "1")
	l := start(t, a)
	must(t, os.Rename(a, filepath.Join(dir, "b")))
	l.look()
	must(t, os.Rename(filepath.Join(dir, "b"), a))
	for range 3 {
		if got := l.look(); got != nil {
			t.Errorf("told %q", got)
		}
	}
}

// A file that is being written is waited for, but no longer than maxWait.
func TestWaitsForAWriter(t *testing.T) {
	a := write(t, filepath.Join(t.TempDir(), "a"), "")
	l := start(t, a)
	for n, want := range []bool{false, false, true, false, false, true} {
		write(t, a, fmt.Sprintf("%0*d", n+1, 0))
		if got := l.look(); (got != nil) != want {
			t.Errorf("look %d: told %q", n, got)
		}
	}
}

func TestTellsOfASwapAsKubernetesMakesIt(t *testing.T) {
	dir := t.TempDir()
	var files []string
	put := func(version string) {
		must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "gateway.yaml"), "x")
		write(t, filepath.Join(dir, version, "keys.yaml"), "x")
		link := filepath.Join(dir, "..data_tmp")
		must(t, os.Symlink(version, link))
		must(t, os.Rename(link, filepath.Join(dir, "..data")))
	}
	put("..v1")
	for _, name := range []string{"gateway.yaml", "keys.yaml"} {
		files = append(files, filepath.Join(dir, name))
		must(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	l := start(t, files...)
	put("..v2")
	l.tells(files...)
	must(t, os.RemoveAll(filepath.Join(dir, "..v1")))
	put("..v3")
	l.tells(files...)
}

func TestSetFilesKeepsWhatIsKnown(t *testing.T) {
	a, b := write(t, filepath.Join(t.TempDir(), "a"), "1"), filepath.Join(t.TempDir(), "b")
	l := start(t, a)
	write(t, a, "22") // must not be forgotten by the new set
	l.SetFiles(Look(a, b))
	l.tells(a)
	write(t, b, "1")
	l.tells(b)
	l.SetFiles(Look(b))
	write(t, a, "333")
	if got := l.look(); got != nil {
		t.Errorf("told %q", got)
	}
}
