package decode

import (
	"strings"
	"testing"
)

// BenchmarkXML is what 1,000 records of 500 bytes in XML cost before they are
// mapped. It supports the decision to make JSON of them first: nearly all of the
// time is encoding/xml's own.
func BenchmarkXML(b *testing.B) {
	const record = `<ticket id="7"><uuid>6f1c2a34-1111-4222-8333-944455566677</uuid><customer><id>acme</id><name>Acme Trading Co.</name></customer>` +
		`<subject>Delivery of order 7 is late</subject><state>N</state><category>delivery</category><opened>2026-01-07 10:20:30</opened>` +
		`<body><format>plain</format><text>We ordered on Monday, 물건이 아직 도착하지 않았습니다. please look into it</text></body>` +
		`<replies><reply><text>Thank you, we are looking into it.</text><at>2026-01-28T11:00:00Z</at></reply></replies></ticket>`
	body := "<tickets>" + strings.Repeat(record, 1000) + "</tickets>"
	f := tickets()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Decode(body, "", 16<<20); err != nil {
			b.Fatal(err)
		}
	}
}
