package testkit

import (
	_ "embed"
	"fmt"
	"strings"
)

// SampleYAML is an upstream section that tests start from, without a base URL that answers.
//
//go:embed sample.yaml
var SampleYAML string

// SampleTicket is one good record of the buyer acme.
const SampleTicket = `{"uuid":"6f1c2a34-1111-4222-8333-944455566677","customer":{"id":"acme"},"subject":"Late","body":{"text":"Where is it?"},
 "state":"N","category":"delivery","opened":"2026-03-01 09:30:00",
 "replies":[{"uuid":"aaaaaaaa-1111-4222-8333-944455566677","text":"On its way","by":{"role":"S"},"at":"2026-03-02T01:02:03.456+09:00"}]}`

// SampleList is a reply with the records.
func SampleList(records ...string) string {
	return `{"result":{"items":[` + strings.Join(records, ",") + `]}}`
}

// SampleTickets is a reply of n records of about 500 bytes, one in seven with an
// id quoted in its text.
func SampleTickets(n int) string {
	records := make([]string, n)
	for i := range records {
		quote := ""
		if i%7 == 0 {
			quote = " ref " + ticketID(i/2)
		}
		records[i] = fmt.Sprintf(`{"uuid":%q,"customer":{"id":"acme","name":"Acme Trading Co."},"subject":"Delivery of order %d is late","state":%q,"category":"delivery",`+
			`"opened":"2026-01-%02d 10:20:30","priority":3,"flags":["a","b"],"body":{"format":"plain","text":"We ordered on Monday, 물건이 아직 도착하지 않았습니다.\n%s please look into it%s"},`+
			`"replies":[{"uuid":%q,"text":"Thank you, we are looking into it.","by":{"role":"S","id":17},"at":"2026-01-28T11:00:00Z"}]}`,
			ticketID(i), i, string("NA"[i%2]), i%28+1, strings.Repeat("again ", i%5), quote, ticketID(i+1_000_000))
	}
	return fmt.Sprintf(`{"status":"ok","result":{"total":%d,"items":[%s]}}`, n, strings.Join(records, ","))
}

func ticketID(i int) string {
	return fmt.Sprintf("%08x-1234-4abc-8def-%012x", i*2654435761%(1<<32), i)
}
