package mapping

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"inquiry-gateway/upstream/internal/sample"
)

const oneReply = `{"uuid":"90000000-0000-4000-8000-000000000001","text":"t","by":{"role":"S"},"at":"2026-01-02T03:04:05Z"}`

// withReplies is the sample of a ticket with something else as its replies.
func withReplies(t testing.TB, replies string) string {
	t.Helper()
	before, after, ok := strings.Cut(sample.Ticket, `"replies":[`)
	_, after, closed := strings.Cut(after, "]")
	if !ok || !closed {
		t.Fatal("the sample has no replies")
	}
	return before + `"replies":` + replies + after
}

// A record may hold the first of its responses only. What stands beside their array
// tells it, as what stands beside a list does.
func TestMarksOfMoreResponses(t *testing.T) {
	for _, tt := range []struct{ items, replies, mark string }{
		{"replies.items", `{"total":12,"items":[$]}`, "replies.total is 12, but 1 responses came"},
		{"replies.nodes", `{"nodes":[$],"pageInfo":{"hasNextPage":true,"endCursor":"x"}}`, "replies.pageInfo.hasNextPage is true"},
		{"replies.items", `{"items":[$],"next":"https://l.test/t/1/replies?page=2"}`, "replies.next names a next page"},
		{"replies.data", `{"links":{"next":{"href":"/r?2"}},"data":[$]}`, "replies.links.next names a next page"},
		{"replies.edges.#.node", `{"edges":[{"node":$}],"totalCount":2}`, "replies.totalCount is 2, but 1 responses came"},
		{"replies.items", `{"total":1,"items":[]}`, "replies.total is 1, but 0 responses came"},
		{"replies.items", `{"total":12}`, "replies.total is 12, but 0 responses came"},
		{"replies.items", `{"total":1,"count":1,"items":[$],"next":null,"hasMore":false}`, ""},
		{"replies.items", `{"items":[$]}`, ""},
		{"replies.items", `null`, ""},
		{"replies", `[$]`, ""},
	} {
		for _, ignored := range []bool{false, true} {
			path, _, _ := strings.Cut(tt.mark, " ")
			section := changed(t, "items: replies\n", "items: \""+tt.items+"\"\n")
			section = strings.Replace(section, "replies.#.uuid", tt.items+".#.uuid", 1)
			if ignored {
				section = strings.Replace(section, "  items: result.items\n", "  items: result.items\n  paging: {ignore_marks: [\""+path+"\"]}\n", 1)
			}
			if ignored && tt.mark == "" {
				continue
			}
			plan := planFrom(t, section, "buyer")
			r := plan.NewBuilder(Request{Kind: "buyer", Account: "acme"})
			reply := `{"result":{"items":[` + withReplies(t, strings.Replace(tt.replies, "$", oneReply, 1)) + `]}}`
			_, err := r.Take(reply)
			if tt.mark == "" || ignored {
				if err != nil || len(r.List) != 1 {
					t.Errorf("%s %s: %v", tt.items, tt.replies, err)
				}
				continue
			}
			if reasonOf(t, err) != "record" || !strings.Contains(err.Error(), "responses: these are not all: "+tt.mark+";") {
				t.Errorf("%s %s: %v", tt.items, tt.replies, err)
			}
			x := plan.Explainer(Request{Kind: "buyer", Account: "acme"}, 1)
			if _, err := x.Take(reply); err != nil || len(x.Violations) != 1 || !strings.Contains(x.Violations[0].Problem, tt.mark) {
				t.Errorf("the probe tells %+v, %v", x.Violations, err)
			}
		}
	}
}

// An object with other fields of the record in it holds more than responses: its
// total may be the price.
func TestNoMarksAmongOtherFields(t *testing.T) {
	section := changed(t, "items: replies\n", "items: body.replies\n")
	r := planFrom(t, section, "buyer").NewBuilder(Request{Kind: "buyer", Account: "acme"})
	ticket := strings.Replace(sample.Ticket, `"body":{`, `"body":{"total":99,"done":false,"replies":[],`, 1)
	if ticket == sample.Ticket {
		t.Fatal("the sample has no body")
	}
	if _, err := r.Take(`{"result":{"items":[` + ticket + `]}}`); err != nil {
		t.Error(err)
	}
}

// BenchmarkHolder supports the decision to look beside responses at each record: what
// it adds where an object holds them, to the mapping of 1,000 records. Where none does
// nothing is looked at.
func BenchmarkHolder(b *testing.B) {
	body := regexp.MustCompile(`"replies":(\[[^\]]*\])`).ReplaceAllString(sample.Tickets(1000), `"replies":{"total":1,"items":$1}`)
	section := strings.Replace(changed(b, "items: replies\n", "items: replies.items\n"), "replies.#", "replies.items.#", 1)
	for _, looks := range []bool{false, true} {
		plan := planFrom(b, section, "buyer")
		if !looks {
			plan.responses.holder = nil
		}
		b.Run(fmt.Sprintf("looks=%v", looks), func(b *testing.B) {
			b.ReportAllocs()
			report := cpu(b)
			for b.Loop() {
				r := plan.NewBuilder(Request{Kind: "buyer", Account: "acme"})
				if err := whole(r, body); err != nil || len(r.List) != 1000 {
					b.Fatal(len(r.List), err)
				}
			}
			report()
		})
	}
}

// A list whose path goes through an array has its marks beside that array.
func TestMarksBesideEdges(t *testing.T) {
	const path = "data.tickets.edges.#.node"
	section := changed(t, "items: result.items\n", "items: "+path+"\n")
	plan := planFrom(t, section, "buyer")
	r := plan.NewBuilder(Request{Kind: "buyer", Account: "acme"})
	n, err := r.Take(`{"data":{"tickets":{"edges":[{"node":` + sample.Ticket + `}],"pageInfo":{"hasNextPage":true}}}}`)
	if err == nil {
		err = r.CheckEnd(plan.Paging, End{Records: n, Pages: 1})
	}
	if n != 1 || err == nil || !strings.Contains(err.Error(), "data.tickets.pageInfo.hasNextPage is true") {
		t.Errorf("%d records, %v", n, err)
	}
}
