package console

import (
	"html"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"
)

// Pages are plain text with names in double braces. A package of templates would
// have the linker keep every method of every type, a third of the program, because
// a template may call any.
var (
	partName  = regexp.MustCompile(`\{\{(head|masthead|foot)\}\}`)
	assetName = regexp.MustCompile(`\{\{asset ([^}]+)\}\}`)
)

// readPages gives the pages by name, with the parts that they share and the
// addresses of assets put in. What differs between requests is left for write.
func readPages(assets map[string]string) (map[string]string, error) {
	pages := map[string]string{}
	read := func(name string) (text string, err error) {
		body, err := fs.ReadFile(files, path.Join("pages", name+".html"))
		return string(body), err
	}
	for _, name := range []string{"head", "masthead", "foot", "home", "runbook", "login"} {
		text, err := read(name)
		if err != nil {
			return nil, err
		}
		text = partName.ReplaceAllStringFunc(text, func(part string) string { return pages[strings.Trim(part, "{}")] })
		pages[name] = assetName.ReplaceAllStringFunc(text, func(name string) string { return assets[assetName.FindStringSubmatch(name)[1]] })
	}
	return pages, nil
}

// signOut is the button of somebody who has a session. It is put in before root.
const signOut = `<form method="post" action="{{root}}console/logout"><button class="quiet">Sign out</button></form>`

// wrongToken is what the form says after a token that was none.
const wrongToken = `<p class="alert" role="alert"><strong>That is not the token.</strong> It is the content of the file that <code>ops.token_file</code> names.</p>`

// write answers with a page. root is the way from it to "/", relative, so that it
// fits behind a proxy's prefix. Values are pairs of a name in the page and HTML.
func (c *Console) write(w http.ResponseWriter, status int, name, root string, values ...string) {
	home := root
	if home == "" {
		home = "./"
	}
	version, logout := "", ""
	if c.opts.Version != "" {
		version = ` <span class="version">` + html.EscapeString(c.opts.Version) + `</span>`
	}
	if c.opts.CanLogout() {
		logout = strings.ReplaceAll(signOut, "{{root}}", root)
	}
	values = append(values, "{{root}}", root, "{{home}}", home, "{{version}}", version, "{{logout}}", logout)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = strings.NewReplacer(values...).WriteString(w, c.pages[name]) // the browser left; nobody to tell
}
