package probe

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"inquiry-gateway/upstream"
)

// What the gateway refuses, the probe of a whole list refuses with the same words, and what it
// serves is what the probe says that it would: whatever is wrong with a record, wherever its
// responses come from, and whether such records are left out.
func TestTheVerdictIsTheGateways(t *testing.T) {
	record := func(members string) string {
		return `{"subject":"s","body":{"text":"t"},"state":"N","opened":"2026-03-01 09:30:00",` + members + `}`
	}
	const mine = `"customer":{"id":"acme"},`
	records := map[string]string{
		"good":            record(mine + `"id":"1","replies":[{"text":"r","by":{},"at":"2026-03-02T01:02:03Z"}]`),
		"no object":       "5",
		"bad status":      strings.Replace(record(mine+`"id":"2"`), `"N"`, `"Z"`, 1),
		"foreign":         record(`"customer":{"id":"zorg"},"id":"3"`),
		"foreign and bad": strings.Replace(record(`"customer":{"id":"zorg"},"id":"3"`), `"N"`, `"Z"`, 1),
		"nobody's":        record(`"customer":{},"id":"4"`),
		"no id":           record(mine + `"id":null`),
		"bad response":    record(mine + `"id":"bad","replies":[{"text":null}]`),
		"bad responses":   record(mine + `"id":"broken","replies":7`),
		"gone":            record(mine + `"id":"gone","replies":null`),
		"forbidden":       record(mine + `"id":"forbidden","replies":null`),
		"hidden":          record(mine + `"draft":true`),
	}
	const fetched = `buyer: {fields: {responses: {items: replies, fetch: {path: %s, id: id%s, paging: {style: none}}}}}`
	ways := map[string]string{
		"within the record":  ``,
		"one by one":         fmt.Sprintf(fetched, `"/r/{id}"`, ""),
		"in batches":         fmt.Sprintf(fetched, `/r, query: {of: "{ids}"}`, ", batch: 2, key: of"),
		"details":            `buyer: {details: {fetch: {path: "/d/{id}", id: id, reply: {empty_statuses: [404]}, paging: {style: none}}}, fields: {content: details.text}}`,
		"details in batches": `buyer: {details: {items: rows, fetch: {path: /d, query: {of: "{ids}"}, id: id, batch: 2, key: of, paging: {style: none}}}, fields: {content: details.text}}`,
	}
	// The list has two good records around the one.
	serve := func(odd string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			of, batch := r.URL.Query().Get("of"), r.URL.Query().Has("of")
			if !batch {
				of = r.URL.Path[len("/r/"):]
			}
			switch of {
			case "gone":
				w.WriteHeader(http.StatusNotFound)
				return
			case "forbidden":
				w.WriteHeader(http.StatusForbidden)
				return
			}
			var all []string
			for id := range strings.SplitSeq(of, ",") {
				text := map[string]string{"bad": "null", "gone": ""}[id]
				if text == "" {
					text = `"x"`
				}
				switch id {
				case "broken":
					all = append(all, "7")
				case "gone", "forbidden":
				default:
					all = append(all, fmt.Sprintf(`{"of":%q,"text":%s,"by":{},"at":"2026-03-02T01:02:03Z"}`, id, text))
				}
			}
			body := strings.Join(all, ",")
			switch {
			case strings.HasPrefix(r.URL.Path, "/r"):
				body = `{"replies":[` + body + `]}`
			case strings.HasPrefix(r.URL.Path, "/d") && batch:
				body = `{"rows":[` + body + `]}`
			case !strings.HasPrefix(r.URL.Path, "/d"):
				body = `{"result":{"items":[` + records["good"] + "," + odd + "," + strings.ReplaceAll(records["good"], `"1"`, `"9"`) + `]}}`
			}
			_, _ = fmt.Fprint(w, body)
		}
	}
	verdicts := map[string]int{}
	for what, odd := range records {
		for way, section := range ways {
			for _, lenient := range []string{"", "buyer: {on_invalid_record: skip}", "buyer: {on_owner_mismatch: drop}", "buyer: {on_invalid_record: skip, on_owner_mismatch: drop}"} {
				at := fmt.Sprintf("%s, %s, %s", what, way, lenient)
				cfg := configOf(t, "buyer: {where: [{path: draft, is: null}]}", serve(odd), section, lenient)
				client, err := upstream.New(cfg, upstream.Options{})
				if err != nil {
					t.Fatal(at, err)
				}
				list, refused := client.Fetch(t.Context(), acme)
				client.Close()
				p := run(t, cfg, Options{})
				verdicts[p.Verdict]++
				named := append(slices.Clone(p.Owner.Foreign), p.Owner.Missing...)
				for _, v := range p.Violations {
					named = append(named, v.Record)
				}
				if p.Problem == "" && (refused != nil || p.LeftOut > 0) && (len(named) == 0 || slices.Min(named) != 2 || slices.Max(named) != 2) {
					t.Errorf("%s: it is record 2, and named are %v", at, named)
				}
				switch {
				case refused != nil && (p.Verdict != Refused || !strings.HasPrefix(p.Reason, refused.Error())):
					t.Errorf("%s: serve refuses it: %v\nprobe: %s %s", at, refused, p.Verdict, p.Reason)
				case refused == nil && (p.Verdict == Refused || fmt.Sprint(p.Served) != fmt.Sprint(list.Inquiries)):
					t.Errorf("%s: serve gives %v\nprobe: %s %s %v", at, list.Inquiries, p.Verdict, p.Reason, p.Served)
				case refused == nil && p.LeftOut != p.Items-p.Excluded-len(list.Inquiries):
					t.Errorf("%s: %d of %d served, left out %d", at, len(list.Inquiries), p.Items, p.LeftOut)
				}
			}
		}
	}
	if verdicts[Refused] == 0 || verdicts[Good]+verdicts[Doubtful] == 0 {
		t.Error(verdicts)
	}
}
