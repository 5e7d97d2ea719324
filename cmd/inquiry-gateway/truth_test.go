package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// smallLegacy is a legacy system that serves both lists by one function. Its
// configuration is in the file that is returned; buyer is the buyer's part that a
// test changes.
func smallLegacy(t *testing.T, buyer string, serve http.HandlerFunc) (file string) {
	t.Helper()
	system := httptest.NewServer(serve)
	t.Cleanup(system.Close)
	file = filepath.Join(t.TempDir(), "gateway.yaml")
	const fields = "fields: {title: subject, status: {path: state, values: {N: pending, A: answered}}, created_at: at, inquiry_type: {path: category, default: %s}, "
	text := "upstream:\n  base_url: " + system.URL + "\n" +
		"  buyer:\n    path: /buyer/{account}\n    filtering: gateway\n    items: data\n" + buyer +
		"    " + fmt.Sprintf(fields, "null") + "content: text, responses: {items: replies, fields: {content: text, responder_type: {path: by, default: null}, created_at: at}}}\n" +
		"  seller:\n    path: /seller/{account}\n    filtering: gateway\n    items: data\n    paging: {ignore_marks: [Link, next, total, X-Total-Count, has_more]}\n" +
		"    " + fmt.Sprintf(fields, "general") + "company_name: company}\n"
	writeFile(t, file, text)
	writeFile(t, filepath.Join(filepath.Dir(file), "keys.yaml"), "accounts: []\nkeys: []\n")
	return file
}

// tickets are n records as both lists have them.
func tickets(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"id":"T-%05d","subject":"no. %d","text":"Where is it?","state":"N","category":"c","at":"2026-01-01T00:00:00Z","company":"Acme","replies":[{"id":"R-%05d","text":"Soon.","by":"staff","at":"2026-01-02T00:00:00Z"}]}`, i, i, i)
	}
	return strings.Join(list, ",")
}

// ofTickets serves a reply in which $ stands for the records.
func ofTickets(n int, reply string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		_, _ = w.Write([]byte(strings.Replace(reply, "$", "["+tickets(n)+"]", 1)))
	}
}

// probeBuyer and checkLists are the two commands that look at a legacy system.
func probeBuyer(file string, more ...string) []string {
	return append([]string{"probe", "-c", file, "--kind", "buyer", "--account", "acme"}, more...)
}

func checkLists(file string, more ...string) []string {
	return append([]string{"check", "-c", file, "--live", "--buyer", "acme", "--seller", "acme"}, more...)
}

// A first page is never shown as the whole list: neither command says good.
func TestAForgottenPagingIsFound(t *testing.T) {
	for says, serve := range map[string]http.HandlerFunc{
		"total is 165, but 60 records came":   ofTickets(60, `{"total":165,"data":$}`),
		"next names a next page":              ofTickets(60, `{"next":"/buyer/acme?page=2","data":$}`),
		"the header Link names a next page":   ofTickets(60, `{"data":$}`, "Link", `</buyer/acme?page=2>; rel="next"`),
		"has_more is true":                    ofTickets(60, `{"data":$,"has_more":true}`),
		"X-Total-Count is 165, but 60 record": ofTickets(60, `{"data":$}`, "X-Total-Count", "165"),
	} {
		file := smallLegacy(t, "", serve)
		for _, args := range [][]string{probeBuyer(file), checkLists(file)} {
			out, errOut, code := command(t, args...)
			if code != 1 || !strings.Contains(errOut, says) || !strings.Contains(errOut, "ignore_marks") || strings.Contains(out, "good: the gateway") {
				t.Errorf("%s: exit code %d, want %q: %.2000s%s", args[0], code, says, out, errOut)
			}
		}
	}
	file := smallLegacy(t, "    paging: {ignore_marks: [total]}\n", ofTickets(60, `{"total":165,"data":$}`))
	if out, errOut, code := command(t, checkLists(file)...); code != 0 || strings.Count(out, ": good, 60 records") != 2 {
		t.Errorf("ignored: exit code %d: %s%s", code, out, errOut)
	}
}

// Nor are the first responses of a record shown as all of them.
func TestTheFirstResponsesAreNotAll(t *testing.T) {
	first := func(w http.ResponseWriter, r *http.Request) {
		wrapped := strings.NewReplacer(`"replies":[`, `"replies":{"total":12,"list":[`, `]}`, `]}}`).Replace(tickets(3))
		ofTickets(0, strings.Replace(`{"data":$}`, "$", "["+wrapped+"]", 1))(w, r)
	}
	for paging, want := range map[string]int{"": 1, "    paging: {ignore_marks: [replies.total]}\n": 0} {
		file := smallLegacy(t, paging, first)
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, []byte(strings.Replace(string(text), "items: replies,", "items: replies.list,", 1)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{probeBuyer(file), checkLists(file)} {
			out, errOut, code := command(t, args...)
			if code != want || strings.Contains(out+errOut, "these are not all: replies.total is 12, but 1 responses came") != (want == 1) {
				t.Errorf("%s: exit code %d: %.2000s%s", args[0], code, out, errOut)
			}
		}
	}
}

// A path that hides its mistake is found: probe and check --all read the whole list
// and count.
func TestPathsThatMatchNothing(t *testing.T) {
	pages := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/seller/") {
			ofTickets(2, `{"data":$}`)(w, r)
			return
		}
		next := map[string]string{"": `"?c=1"`, "1": `"?c=2"`, "2": "null"}[r.URL.Query().Get("c")]
		ofTickets(20, `{"next":`+next+`,"data":$}`)(w, r)
	}
	const paging = "    paging: {style: next_url, next: next}\n"
	good := smallLegacy(t, paging+"    internal_ids: [id, \"replies.#.id\"]\n", pages)
	out, errOut, code := command(t, checkLists(good, "--all")...)
	if code != 0 || !strings.Contains(out, "buyer acme: good, 60 records in") || !strings.Contains(out, ", on 3 pages") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
	if out, _, code = command(t, checkLists(good)...); code != 0 || !strings.Contains(out, "buyer acme: good, 20 records in") || !strings.Contains(out, "first page only") {
		t.Errorf("without --all: exit code %d: %s", code, out)
	}
	for buyer, says := range map[string]string{
		"    internal_ids: [uuid]\n":            "internal_ids[0]: uuid found in 0 of 60 records: internal ids would not be removed",
		"    internal_ids: [\"replies.#.x\"]\n": "internal_ids[0]: replies.#.x found in 0 of 60 records",
		"category":                              "fields.inquiry_type: catgory found in 0 of 60 records: every record has null",
		"items: replies":                        "fields.responses.items: replys found in 0 of 60 records: every inquiry would look unanswered",
		"path: by,":                             "fields.responses.fields.responder_type: author found in 0 of 60 responses: every record has null",
	} {
		mistake := map[string]string{"category": "catgory", "items: replies": "items: replys", "path: by,": "path: author,"}[buyer]
		section := paging
		if mistake == "" {
			section += buyer
		}
		file := smallLegacy(t, section, pages)
		if mistake != "" {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, file, strings.Replace(string(text), buyer, mistake, 1))
		}
		for _, args := range [][]string{probeBuyer(file), checkLists(file, "--all")} {
			out, errOut, code := command(t, args...)
			if code != 1 || !strings.Contains(errOut, says) || !strings.Contains(out, "doubtful") {
				t.Errorf("%s: exit code %d, want %q: %s%s", args[0], code, says, out, errOut)
			}
		}
		path := strings.Fields(says)[1]
		commandSays(t, 0, "0 of 60", probeBuyer(file, "--may-miss", path)...)
	}
}

// What the legacy system says of itself is shown to the operator, printable and
// bounded.
func TestProbeShowsARefusedReply(t *testing.T) {
	for says, serve := range map[string]http.HandlerFunc{
		`answered  status 400, text/plain; charset=utf-8, in `: func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "customer must be\x1b[31m numeric"+strings.Repeat(" x", 1000), http.StatusBadRequest)
		},
		`answered  status 200, text/xml, in `: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/xml")
			_, _ = w.Write([]byte("<fault>customer must be\x1b[31m numeric</fault>"))
		},
	} {
		out, errOut, code := command(t, probeBuyer(smallLegacy(t, "", serve))...)
		if code != 1 || !strings.Contains(out, says) || !strings.Contains(out, `customer must be\x1b[31m numeric`) || len(out) > 3000 || strings.Contains(errOut, "numeric") {
			t.Errorf("exit code %d, want %q: %s%s", code, says, out, errOut)
		}
	}
}

// A 200 that tells of an error is no list. What it tells is for the operator's screen,
// not for what goes into logs.
func TestExpectedReplies(t *testing.T) {
	const expect = "    expect: [{path: error_code, equals: 0}, {path: errors, absent: true}]\n"
	for reply, says := range map[string]string{
		`{"error_code":0,"data":$}`:                    "",
		`{"error_code":"ACME-17","data":$}`:            "buyer.expect[0]: error_code must be 0; found: string",
		`{"data":$}`:                                   "buyer.expect[0]: error_code must be 0; found: missing",
		`{"error_code":0,"errors":"ACME-17","data":$}`: "buyer.expect[1]: errors must be absent; found: string",
	} {
		file := smallLegacy(t, expect, ofTickets(2, reply))
		out, errOut, code := command(t, probeBuyer(file)...)
		if says == "" {
			if code != 0 {
				t.Errorf("%s: exit code %d: %s%s", reply, code, out, errOut)
			}
			continue
		}
		if code != 1 || !strings.Contains(errOut, says) || strings.Contains(errOut, "ACME") || strings.Contains(reply, "ACME") != strings.Contains(out, `value     "ACME-17"`) {
			t.Errorf("probe, %s: exit code %d: %s%s", reply, code, out, errOut)
		}
		if out, errOut, code = command(t, checkLists(file)...); code != 1 || !strings.Contains(errOut, says) || strings.Contains(errOut, "ACME") {
			t.Errorf("check --live, %s: exit code %d: %s%s", reply, code, out, errOut)
		}
	}
	file := smallLegacy(t, "    expect: [{path: rc}]\n", ofTickets(0, `{"data":$}`))
	if out, errOut, code := command(t, "check", "-c", file); code != 1 || !strings.Contains(errOut, "gateway.yaml:7") || !strings.Contains(errOut, "upstream.buyer.expect[0]") {
		t.Errorf("check: exit code %d: %s%s", code, out, errOut)
	}
}
