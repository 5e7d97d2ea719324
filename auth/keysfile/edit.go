package keysfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"go.yaml.in/yaml/v4"

	"inquiry-gateway/auth"
)

// editor changes a keys file. Every change keeps all other lines as they are, is decoded
// again and compared with what was meant before it replaces the file in one step, and excludes
// other writers meanwhile.
type editor struct {
	path   string
	hasher auth.Hasher
}

// NewEditor names the file to edit; it is not touched before it is needed. A symbolic link is
// followed: the file it points to is replaced. A file that is not there is made, for its owner
// only.
func NewEditor(path string, h auth.Hasher) *auth.Editor {
	return auth.NewEditor(&editor{path, h})
}

// ErrLayout means that what is to be changed does not stand in a line of its own. The file has
// not been touched.
var ErrLayout = errors.New("the program edits only records that stand in one line, as in `  - {id: k1, ...}`: please edit the file by hand")

// Keys implements auth.KeyAdmin: one page, in the file's order.
func (e *editor) Keys(_ context.Context, page func(auth.KeySet) error) error {
	l, err := read(e.path, e.hasher)
	if err != nil {
		return err
	}
	return page(l)
}

// Accounts implements auth.KeyAdmin: one page, in the file's order.
func (e *editor) Accounts(ctx context.Context, page func([]auth.Account) error) error {
	return e.Keys(ctx, func(l auth.KeySet) error { return page(l.Accounts) })
}

// newFile is what the first key is added to.
const newFile = `# API keys of the inquiry gateway: digests only, a key itself is shown once when it is made.
accounts: []
keys: []
`

// lockRetry is how often a lock that somebody holds is tried again.
const lockRetry = 20 * time.Millisecond

// Change implements auth.KeyAdmin. The folder is locked because the file itself is replaced, and
// because no lock file is left behind this way.
func (e *editor) Change(ctx context.Context, _ auth.Selector, change func(*auth.KeySet) error) error {
	path, err := resolve(e.path)
	if err != nil {
		return err
	}
	lock := flock.New(filepath.Dir(path), flock.SetFlag(os.O_RDONLY))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return fmt.Errorf("lock the folder of %s, which another program may be changing: %w", e.path, err)
	}
	defer lock.Close()
	before, err := readBounded(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing {
		before, err = []byte(newFile), nil
	}
	if err != nil {
		return err
	}
	after, err := e.apply(before, change)
	switch {
	case err != nil && missing:
		return fmt.Errorf("%w: the keys file %s does not exist", err, e.path)
	case err != nil:
		return err
	case len(after) > MaxSize:
		return fmt.Errorf("%s would be larger than %d bytes: keep this many keys in Redis", e.path, MaxSize)
	case bytes.Equal(before, after):
		return nil
	}
	return replaceFile(path, after)
}

// apply makes a change in the text and proves that the text then says what was meant and
// nothing else.
func (e *editor) apply(data []byte, change func(*auth.KeySet) error) ([]byte, error) {
	doc, err := decode(e.path, data, e.hasher)
	if err != nil {
		return nil, err
	}
	want := auth.KeySet{Accounts: slices.Clone(doc.Accounts), Keys: slices.Clone(doc.Keys)}
	if err := change(&want); err != nil || want.Equal(doc.KeySet) {
		return data, err
	}
	lines := bytes.SplitAfter(data, []byte("\n")) // those of decode, but for a byte order mark
	ok := edit(lines, section{fieldAccounts, doc.At(fieldAccounts)}, doc.Accounts, want.Accounts, accountRecord) &&
		edit(lines, section{fieldKeys, doc.At(fieldKeys)}, doc.Keys, want.Keys, func(k auth.KeyRecord) string { return keyRecord(k, e.hasher) })
	after := bytes.Join(lines, nil)
	if ok {
		doc.File = nil // its tree is as large as that of the new text
		var got document
		got, err = decode(e.path, after, e.hasher)
		ok = err == nil && got.Equal(want)
	}
	if !ok {
		return nil, fmt.Errorf("%s: %w", e.path, ErrLayout)
	}
	return after, nil
}

// section is a list of records in the file. list is nil if the file does not have it.
type section struct {
	name string
	list *yaml.Node
}

// edit writes the records of a section that have changed, and those that are new behind the
// last one. A line that has grown may then hold several. False: there is no line for it.
func edit[R any](lines [][]byte, s section, old, now []R, write func(R) string) bool {
	eol := "\n"
	if bytes.HasSuffix(lines[0], []byte("\r\n")) {
		eol = "\r\n"
	}
	for i := range old {
		text := write(now[i])
		if text == write(old[i]) {
			continue
		}
		at := s.list.Content[i].Line - 1
		if at >= len(lines) { // the parser counts other line ends, too
			return false
		}
		parts := inLine.FindSubmatch(lines[at])
		if parts == nil {
			return false
		}
		lines[at] = slices.Concat(parts[1], []byte(text), parts[2])
	}
	if len(now) == len(old) {
		return true
	}
	at, indent := s.end(lines, eol)
	if at < 0 {
		return false
	}
	line := string(lines[at])
	if !strings.HasSuffix(line, "\n") {
		line += eol
	}
	for _, r := range now[len(old):] {
		line += strings.Repeat(" ", indent) + "- " + write(r) + eol
	}
	lines[at] = []byte(line)
	return true
}

// end finds the line that new records follow, and how far they are indented. It opens an empty
// list and adds a section that is not there. at is -1 if there is no such line.
func (s section) end(lines [][]byte, eol string) (at, indent int) {
	switch {
	case s.list == nil:
		at = len(lines) - 1
		if last := lines[at]; len(last) > 0 {
			lines[at] = append(slices.Clip(last), eol...)
		}
		lines[at] = append(slices.Clip(lines[at]), s.name+":"+eol...)
	case s.list.Kind == yaml.SequenceNode && len(s.list.Content) > 0:
		if s.list.Style&yaml.FlowStyle != 0 {
			return -1, 0
		}
		return lastLine(lines, s.list), s.list.Column - 1
	default:
		header := regexp.MustCompile(`^(\x{feff}?` + s.name + `:) *(\[ *\])?( *(#.*)?\r?\n?)$`)
		if at = slices.IndexFunc(lines, header.Match); at >= 0 {
			lines[at] = header.ReplaceAll(lines[at], []byte("$1$3"))
		}
	}
	return at, 2
}

// lastLine is the last line of a list, without blank lines and comments behind it. What belongs to
// a record is indented more than its dash.
func lastLine(lines [][]byte, list *yaml.Node) int {
	last := list.Content[len(list.Content)-1].Line - 1
	for i := last + 1; i < len(lines); i++ {
		text := bytes.TrimSpace(lines[i])
		if indent := len(lines[i]) - len(bytes.TrimLeft(lines[i], " ")); len(text) == 0 || text[0] == '#' {
			continue
		} else if indent < list.Column {
			break
		}
		last = i
	}
	if last >= len(lines) {
		return -1
	}
	return last
}

// inLine is a record in a line of its own, and what follows it. The first closing brace that only blanks or a comment
// follow is taken for its end. In an account id with ` #` behind a brace that is too early: the rest of the old record
// then stays as a comment.
var inLine = regexp.MustCompile(`^( *- +)\{.*?\}((?: +#.*| *)\r?\n?)$`)

// keyRecord writes a key in one line, so that a file can be read as a table.
func keyRecord(k auth.KeyRecord, h auth.Hasher) string {
	scopes := make([]string, len(k.Scopes))
	for i, scope := range k.Scopes {
		scopes[i] = fmt.Sprintf("%q", scope)
	}
	more := ""
	if !k.ExpiresAt.IsZero() {
		more += ", expires_at: " + k.ExpiresAt.Format(time.RFC3339Nano)
	}
	if k.Revoked {
		more += ", revoked: true"
	}
	return fmt.Sprintf(`{id: %s, kind: %s, account: %s, scopes: [%s]%s, %s: "%s"}`,
		quote(k.ID), k.Kind, quote(k.Account), strings.Join(scopes, ", "), more, h.Field(), k.Digest.Hex())
}

// accountRecord is keyRecord for accounts.
func accountRecord(a auth.Account) string {
	plan := ""
	if a.Plan != "" {
		plan = ", plan: " + quote(a.Plan)
	}
	return fmt.Sprintf("{id: %s, api_access: %s%s}", quote(a.ID), a.APIAccess, plan)
}

var plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

// quote writes an id as a YAML scalar that every reader takes for a string, also one that knows the yes and no of
// YAML 1.1.
func quote(s string) string {
	if plain.MatchString(s) && !slices.Contains([]string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}, strings.ToLower(s)) {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// resolve follows symbolic links, so that the file is replaced and not the link. What is no link
// may not be there yet; a link to nowhere is an error.
func resolve(path string) (string, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return path, nil
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("keys file: %w", err)
	}
	return real, nil
}

// replaceFile puts a new content in the place of a file in one step: a reader or a crash sees
// the old content or the new one, whole. Mode and owner are kept before anything is written: at
// no moment may others read it who could not read the old one. A new file is for its owner only.
func replaceFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+"*")
	if err != nil {
		return err
	}
	defer func() { _, _ = tmp.Close(), os.Remove(tmp.Name()) }() // nothing is left to do once it has its place
	if err := keepOwnerAndMode(tmp, path); err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	folder, err := os.Open(dir) // for the new name to last through a power cut
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// keepOwnerAndMode gives a file owner and mode of another one. Failing is better than leaving
// the gateway with a file that it may not read.
func keepOwnerAndMode(f *os.File, like string) error {
	old, err := os.Stat(like)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	made, ferr := f.Stat()
	if err := errors.Join(err, ferr); err != nil {
		return err
	}
	want, ok := old.Sys().(*syscall.Stat_t)
	have, same := made.Sys().(*syscall.Stat_t)
	if ok && !(same && have.Uid == want.Uid && have.Gid == want.Gid) {
		if err := f.Chown(int(want.Uid), int(want.Gid)); err != nil {
			return fmt.Errorf("cannot keep the owner of the keys file, run this as its owner: %w", err)
		}
	}
	return f.Chmod(old.Mode().Perm()) // after the owner, as its group may be one that reads
}
