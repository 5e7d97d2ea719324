// Package draft writes the skeleton of a mapping from saved replies. It proposes what the values tell:
//
//  1. The largest list of objects has the records.
//  2. The column that is equal to the account is the owner.
//  3. The column with the earliest times is created_at.
//  4. UUIDs, and what is named as ids are, are internal ids.
//  5. A list of objects within the records that has a text and a time has the responses.
//  6. Truth values and words that look private are conditions.
//  7. A link, a cursor, a total or a truth value in headers or beside the list tells of pages.
//
// What is not certain has a comment DOUBT. Titles, texts, states and names of firms are for a person to
// choose: each has a comment TODO with the fields that it may be, and samples of their values.
package draft

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
)

// ToComplete stands where only a person knows what belongs there. A configuration that has it is refused.
const ToComplete = "COMPLETE_ME"

// fewRecords are too few to tell what repeats.
const fewRecords = 5

// File returns the upstream section of a configuration with sections that [List] wrote.
func File(lists ...string) string {
	return `upstream:
  # TODO: the address of the legacy system
  base_url: https://` + ToComplete + `
  # TODO: how the gateway signs in: header, basic, bearer, session, oauth2_client_credentials or none
  auth: {type: header, name: X-Api-Key, token_file: ` + ToComplete + "}\n" + strings.Join(lists, "")
}

// List returns the section of a kind, buyer or seller, as YAML. A line "# DOUBT:" stands above what may be wrong, "# TODO:"
// above what has to be completed. The samples are replies to the same request for the list of an account, in JSON or
// XML. The error says which of them cannot be used, from 1.
func List(kind, account string, samples [][]byte) (string, error) {
	if account == "" || kind != "buyer" && kind != "seller" {
		return "", errors.New("the kind, buyer or seller, and the account are needed")
	}
	read, err := parse(samples)
	if err != nil {
		return "", err
	}
	list, other := read.findList(account)
	if list == nil {
		return "", errors.New("no sample has a list of objects; save a reply with some inquiries in it")
	}
	t, w := list.table, &writer{indent: "  ", account: account}
	w.line("# Drafted from %d records of the %s %s. Look at each DOUBT, complete each TODO, then try it:", t.rows, kind, oneLine(account))
	w.line("#   inquiry-gateway probe -c FILE --%s ID --sample REPLY", kind)
	w.line("%s:", kind)
	w.indent += "  "
	w.request(read.xml, list.path)
	if other != nil {
		w.doubt("or is it %s?", other.path)
	}
	if t.rows < fewRecords {
		w.doubt("only %d records: what repeats can hardly be seen; more samples make a better draft", t.rows)
	}
	w.line("items: %s", quote(list.path))
	w.owner(t)
	numbered := w.paging(read, list)
	w.identity(t, numbered)
	var responses []string
	if kind == "buyer" {
		responses = t.responses()
	}
	var inLists []string
	if list.keyed {
		inLists = append(inLists, "@key")
	}
	for _, path := range slices.Sorted(maps.Keys(t.lists)) {
		if len(responses) == 0 || path != responses[0] {
			inner, _, _ := t.lists[path].ids(account)
			for _, id := range inner {
				inLists = append(inLists, path+jsonEach+id)
			}
		}
	}
	w.private(t, inLists...)
	w.line("fields:")
	w.indent += "  "
	w.choose(t, "title", "")
	if kind == "buyer" {
		w.choose(t, "content", "")
	}
	w.choose(t, "status", ", values: {"+ToComplete+": "+ToComplete+"}")
	w.choose(t, "inquiry_type", "")
	if kind == "seller" {
		w.choose(t, "company_name", "")
	}
	w.created(t)
	if kind == "buyer" {
		w.responses(t, responses)
	}
	return w.String(), nil
}

// request writes the request for a list: no reply tells its path and its parameters.
func (w *writer) request(xml bool, items string) {
	w.line("# TODO: the path of the list, and how the request says whose list it is")
	w.line("path: /%s", ToComplete)
	switch {
	case xml && strings.HasPrefix(items, "Envelope.Body."):
		w.doubt("the reply is of SOAP, which is asked by POST; some systems want a header SOAPAction besides")
		w.line("method: POST")
		w.line("body_type: xml")
		w.line("# TODO: the envelope, with the account in it")
		w.line(`body: "<%s>{account}</%[1]s>"`, ToComplete)
	case !xml && strings.HasPrefix(items, "data."):
		w.doubt("the reply looks like one of GraphQL")
		w.line("method: POST")
		w.line("# TODO: the query, with the account as a variable")
		w.line(`body: {query: %s, variables: {account: "{account}"}}`, ToComplete)
		w.line("expect: [{path: errors, is: null}]")
	default:
		w.line(`query: {%s: "{account}"}`, ToComplete)
		w.doubt("if the legacy system can filter, send it {status} and {inquiry_type} in query, and remove this line")
	}
	if xml {
		w.line("reply: {format: xml}")
	}
}

// jsonEach stands between the path of a list and one in its elements.
const jsonEach = ".#."

// owner writes the column that is equal to the account in the most records, the one nearest to the record;
// else one in a list.
func (w *writer) owner(t *table) {
	type place struct {
		path         string
		equal, other int
	}
	var all []place
	try := func(path string, c *column) {
		one := place{path: path}
		for _, s := range c.texts {
			if s == w.account {
				one.equal++
			}
		}
		if one.other = len(c.texts) - one.equal; 2*one.equal >= t.rows {
			all = append(all, one)
		}
	}
	for _, c := range t.columns {
		try(c.path, c)
	}
	for _, path := range slices.Sorted(maps.Keys(t.lists)) {
		for _, c := range t.lists[path].columns {
			try(path+jsonEach+c.path, c)
		}
	}
	if len(all) == 0 {
		w.doubt("no value of the records is the account: the request alone binds the list to it")
		return
	}
	slices.SortStableFunc(all, func(a, b place) int {
		return cmp.Or(b.equal-a.equal, strings.Count(a.path, ".")-strings.Count(b.path, "."))
	})
	switch best := all[0]; {
	case best.other > 0 && !strings.Contains(best.path, jsonEach):
		w.doubt("%d records have another value there", best.other)
	case best.equal < t.rows:
		w.doubt("%d of %d records have none", t.rows-best.equal, t.rows)
	case strings.Contains(best.path, ".0."):
		w.doubt("it is the first of a list")
	}
	for _, other := range all[1:] {
		w.doubt("or %s, which is the account, too?", other.path)
	}
	w.line("owner: %s", quote(all[0].path))
}

// identity writes the path of what no two records share.
func (w *writer) identity(t *table, needed bool) {
	ids, _, _ := t.ids(w.account)
	for _, c := range t.columns {
		if slices.Contains(ids, c.path) && len(c.texts) == t.rows && len(c.distinct()) == t.rows {
			w.line("id: %s", quote(c.path))
			return
		}
	}
	if needed {
		w.line("# TODO: the path of what no two records share")
		w.line("id: %s", ToComplete)
	}
}

// private writes what must not leave: internal ids, of lists in the records, too, and records that callers must not see.
func (w *writer) private(t *table, inLists ...string) {
	ids, words, left := t.ids(w.account)
	var flags []string
	for _, c := range t.columns {
		if c.bools && c.shown() == nil {
			flags = append(flags, c.path)
		}
	}
	if ids = append(ids, inLists...); len(ids) == 0 && t.rows > 0 {
		w.doubt("no id was found that must not leave")
	}
	for _, about := range []struct {
		says  string
		paths []string
	}{
		{"not all values have a digit, so that they may be words that texts have, too", words},
		{"left out of internal_ids as too short, as the account's own, or as an address; add what texts must not quote", left},
		{"true or false in the records, and read by no field; if one marks what callers must not see, name it in where", flags},
	} {
		if len(about.paths) > 0 {
			w.doubt("%s: %s", about.says, strings.Join(about.paths, ", "))
		}
	}
	w.line("internal_ids: %s", quoteList(ids))
	first := true
	for _, c := range t.columns {
		if shown := c.shown(); shown != nil {
			if first {
				w.doubt("these look as if they say what callers must not see")
				w.line("where:")
			}
			first = false
			w.line("  - {path: %s, is: %s}", quote(c.path), quoteList(shown))
		}
	}
}

// choose writes a field that a person has to choose, with the columns that it may be.
func (w *writer) choose(t *table, field, more string) {
	w.line("# TODO: one of these, or a default alone:")
	for _, c := range t.candidates(field) {
		w.line("#   %s", oneLine(c.path+": "+c.samples(t.rows, isCodeField(field))))
	}
	w.line("%s: {path: %s%s}", field, ToComplete, more)
}

// responses returns the paths of the lists that may be answers: with a text and a time in each element.
func (t *table) responses() (paths []string) {
	for _, path := range slices.Sorted(maps.Keys(t.lists)) {
		inner := t.lists[path]
		text := slices.ContainsFunc(inner.columns, func(c *column) bool { return c.isProse() && c.times() == nil })
		if text && len(inner.timed()) > 0 {
			paths = append(paths, path)
		}
	}
	return paths
}

// responses writes the section of that name for the first of the lists that may be answers. Without one it has paths to complete: a
// buyer's records need the section.
func (w *writer) responses(t *table, paths []string) {
	w.line("responses:")
	w.indent += "  "
	items, inner := ToComplete, &table{}
	switch {
	case len(paths) == 0:
		w.line("# TODO: no list of answers is in the records; if another request gives them, add fetch: {path: ..., id: ...}")
	default:
		items, inner = paths[0], t.lists[paths[0]]
		if inner.rows == t.rows {
			w.doubt("there are as many as records: is the first the question itself?")
		}
		for _, other := range paths[1:] {
			w.doubt("or %s?", other)
		}
	}
	w.line("items: %s", quote(items))
	w.private(inner)
	w.line("fields:")
	w.indent += "  "
	w.choose(inner, "content", "")
	w.choose(inner, "responder_type", "")
	w.created(inner)
}
