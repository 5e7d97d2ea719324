package decode

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/encoding/korean"
)

const limit = 1 << 20

// tickets is a format whose lists are the tickets and, in each, the replies.
func tickets() *Format {
	f := &Format{XML: true, Outline: &Outline{}}
	ticket := f.Outline.Below("tickets").Below("ticket")
	ticket.List, ticket.Below("replies").Below("reply").List = true, true
	return f
}

func TestXMLBecomesJSON(t *testing.T) {
	for name, tc := range map[string]struct{ xml, json string }{
		"text":                       {`<a>x &lt;y&gt; "é&#10;"</a>`, `{"a":"x <y> \"é\n\""}`},
		"empty":                      {`<a/>`, `{"a":""}`},
		"white space between":        {"<a>\n <b>1</b>\n <c/>\n</a>", `{"a":{"b":"1","c":""}}`},
		"attributes":                 {`<a id="7"><b lang="en">x</b><c d="e"/></a>`, `{"a":{"-id":"7","b":{"-lang":"en","$":"x"},"c":{"-d":"e","$":""}}}`},
		"text among elements":        {`<a>one <b>2</b> three</a>`, `{"a":{"b":"2","$":"one 2 three"}}`}, // all its words
		"text among more elements":   {`<a>Hello, <b>my <i>old</i></b> order</a>`, `{"a":{"b":{"i":"old","$":"my old"},"$":"Hello, my old order"}}`},
		"null by a prefix alone":     {`<a><b xsi:nil="true"/></a>`, `{"a":{"b":null}}`},
		"repeated":                   {`<a><b>1</b><c>x</c><b>2</b></a>`, `{"a":{"b":["1","2"],"c":"x"}}`},
		"list of one":                {`<tickets><ticket><id>1</id></ticket></tickets>`, `{"tickets":{"ticket":[{"id":"1"}]}}`},
		"list of none":               {"<tickets n=\"0\">\n</tickets>", `{"tickets":{"-n":"0","ticket":[]}}`},
		"no list, but something":     {`<tickets><error>no</error></tickets>`, `{"tickets":{"error":"no"}}`},
		"no list, but text":          {`<tickets>no</tickets>`, `{"tickets":"no"}`},
		"lists in a list":            {`<tickets><ticket><replies/></ticket><ticket><replies><reply>x</reply></replies></ticket></tickets>`, `{"tickets":{"ticket":[{"replies":{"reply":[]}},{"replies":{"reply":["x"]}}]}}`},
		"namespaces":                 {`<s:a xmlns:s="urn:s" xmlns="urn:d" s:id="1"><b/><s:c/></s:a>`, `{"a":{"-id":"1","b":"","c":""}}`},
		"null and types":             {`<a xmlns:i="` + instance + `"><b i:nil="true"/><c i:type="string">x</c></a>`, `{"a":{"b":null,"c":"x"}}`},
		"CDATA, comments, the rest":  {"\ufeff<?xml version=\"1.0\"?><!-- x --><a><![CDATA[<b>]]><!-- y --><?z?>&amp;</a>\n", `{"a":"<b>&"}`},
		"SOAP without a fault":       {`<s:Envelope xmlns:s="x"><s:Body><Fault2/></s:Body></s:Envelope>`, `{"Envelope":{"Body":{"Fault2":""}}}`},
		"many names, the first last": {"<a>" + strings.Repeat("<b/><c/>", 40) + "</a>", `{"a":{"b":["` + strings.Repeat(`","`, 39) + `"],"c":["` + strings.Repeat(`","`, 39) + `"]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := tickets().Decode(tc.xml, "", AtMost(limit)); got != tc.json || err != nil {
				t.Errorf("%s %v, want %s", got, err, tc.json)
			}
		})
	}
}

func TestXMLThatIsRefused(t *testing.T) {
	bomb := `<!DOCTYPE a [<!ENTITY b "` + strings.Repeat("lol", 10) + `"><!ENTITY c "&b;&b;&b;">]><a>&c;</a>`
	for name, tc := range map[string]struct{ xml, reason string }{
		"billion laughs":           {bomb, "xml"},
		"a DTD":                    {`<!DOCTYPE a SYSTEM "http://h/x.dtd"><a/>`, "xml"},
		"an entity":                {`<a>&nbsp;</a>`, "xml"},
		"an attribute twice":       {`<a b="1" b="2"/>`, "xml"},
		"a namespace twice":        {`<a xmlns:b="1" xmlns:b="2"/>`, "xml"},
		"attributes that clash":    {`<a xmlns:x="urn:x" x:b="1" b="2"/>`, "xml"},
		"elements that clash":      {`<a xmlns:x="urn:x"><x:b/><b/></a>`, "xml"},
		"not closed":               {`<a><b></b>`, "xml"},
		"closed by another":        {`<a></b>`, "xml"},
		"nothing":                  {``, "xml"},
		"white space":              {" \n", "xml"},
		"no XML":                   {`{"a":1}`, "xml"},
		"two roots":                {`<a/><b/>`, "xml"},
		"text after the root":      {`<a/>x`, "xml"},
		"too deep":                 {strings.Repeat("<a>", 200) + strings.Repeat("</a>", 200), "xml"},
		"too many attributes":      {"<a" + strings.Repeat(" b='1'", 300) + "/>", "xml"},
		"a control character":      {"<a>\x01</a>", "xml"},
		"a reference to one":       {"<a>&#1;</a>", "xml"},
		"not UTF-8":                {"<a>\xb0\xa1</a>", "charset"},
		"an unknown charset":       {`<?xml version="1.0" encoding="klingon"?><a/>`, "charset"},
		"a fault":                  {`<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Header/><s:Body><s:Fault><faultstring>x</faultstring></s:Fault></s:Body></s:Envelope>`, "fault"},
		"larger than the limit":    {"<a>" + strings.Repeat("x", limit) + "</a>", "too_large"},
		"larger than it as a tree": {"<a>" + strings.Repeat("<b/>", limit/5) + `<c/></a>`, ""},
		"quotation marks":          {"<a>" + strings.Repeat(`"`, limit-10) + "</a>", "too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tickets().Decode(tc.xml, "", AtMost(limit))
			var refused *Error
			if errors.As(err, &refused) != (tc.reason != "") || refused != nil && refused.Reason != tc.reason {
				t.Errorf("%.80s %v, want %q", got, err, tc.reason)
			}
		})
	}
}

func TestCharsets(t *testing.T) {
	euc, err := korean.EUCKR.NewEncoder().String("문의")
	if err != nil {
		t.Fatal(err)
	}
	xml := &Format{XML: true}
	for name, tc := range map[string]struct {
		format               *Format
		body, declared, want string
	}{
		"JSON, declared":               {&Format{}, `"` + euc + `"`, "EUC-KR", `"문의"`},
		"JSON, a name of Java's":       {&Format{}, `"` + euc + `"`, "MS949", `"문의"`},
		"JSON, Shift_JIS":              {&Format{}, "\"\x96\xe2\"", "Shift_JIS", `"問"`},
		"JSON, windows-1252":           {&Format{}, "\"\x80\xe9\"", "windows-1252", `"€é"`},
		"JSON, ISO-8859-1":             {&Format{}, "\"\xe9\"", "iso-8859-1", `"é"`},
		"JSON, UTF-8":                  {&Format{}, `"é"`, "utf8", `"é"`},
		"JSON, configured":             {&Format{Charset: korean.EUCKR}, `"` + euc + `"`, "utf-8", `"문의"`},
		"JSON, bytes it does not know": {&Format{}, "\"\xff\xff\"", "EUC-KR", ""},
		"JSON, an unknown name":        {&Format{}, `""`, "klingon", ""},
		"JSON, no charset of texts":    {&Format{}, `""`, "x-user-defined", ""},
		"XML, by its declaration":      {xml, `<?xml version="1.0" encoding='euc-kr'?><a>` + euc + `</a>`, "", `{"a":"문의"}`},
		"XML, the header first":        {xml, `<?xml version="1.0" encoding="utf-8"?><a>` + euc + `</a>`, "euc-kr", `{"a":"문의"}`},
		"XML, the mark before it":      {xml, "\xff\xfe<\x00a\x00>\x00\x38\xbb<\x00/\x00a\x00>\x00", "euc-kr", `{"a":"문"}`},
		"XML, bytes it does not know":  {xml, "<?xml version=\"1.0\" encoding=\"windows-1252\"?><a>\x81</a>", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.format.Decode(tc.body, tc.declared, AtMost(limit))
			if got != tc.want || (err != nil) != (tc.want == "") {
				t.Errorf("%q %v, want %q", got, err, tc.want)
			}
		})
	}
	if _, err := (&Format{}).Decode("\""+euc+"\"", "euc-kr", AtMost(7)); err == nil {
		t.Error("the limit does not count for what was decoded")
	}
}

// Whatever comes is refused, or becomes strict JSON within the limit, and the same
// one each time.
func FuzzXML(f *testing.F) {
	for _, s := range []string{
		`<tickets><ticket a="1"><replies><reply>x</reply></replies></ticket><ticket/></tickets>`, `<a xmlns:x="urn:b"><x:b/>t<b/></a>`,
		`<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>`, `<a b="1" b="2"/>`, "<a>\xff</a>", `<?xml version="1.0" encoding="euc-kr"?><a>` + "\xb9\xae" + `</a>`,
		`<E:Envelope><E:Body><E:Fault/></E:Body></E:Envelope>`, `<a><![CDATA[x]]>&#x1F600;</a>`, "\xff\xfe<\x00a\x00/\x00>\x00",
	} {
		f.Add(s, "")
		f.Add(s, "windows-1252")
	}
	f.Fuzz(func(t *testing.T, text, declared string) {
		const limit = 1 << 16
		json, err := tickets().Decode(text, declared, AtMost(limit))
		if err != nil {
			return
		}
		if len(json) > limit {
			t.Errorf("%d bytes", len(json))
		}
		if !jsontext.Value(json).IsValid() { // a name twice in an object is not, either
			t.Errorf("%q gives %q", text, json)
		}
		if again, _ := tickets().Decode(text, declared, AtMost(limit)); again != json {
			t.Errorf("%q, then %q", json, again)
		}
	})
}

// Whatever a header calls a JSON reply's charset, the reply is refused, or becomes UTF-8
// within the limit, and the same each time; ASCII stays what it is in the charsets that
// contain it.
func FuzzCharset(f *testing.F) {
	for _, s := range []string{`{"a":"x"}`, "\xb9\xae", "\xff\xfe{\x00}\x00", "\x1b$B4A\x1b(B", "\xef\xbb\xbf[]", "\x82\xa0"} {
		for _, declared := range []string{"", "utf-8", "euc-kr", "shift_jis", "iso-2022-jp", "utf-16", "gb18030", "x-user-defined", " CP949 ", "replacement"} {
			f.Add(s, declared)
		}
	}
	f.Fuzz(func(t *testing.T, text, declared string) {
		const limit = 1 << 16
		got, err := (&Format{}).Decode(text, declared, AtMost(limit))
		if err != nil {
			return
		}
		if again, _ := (&Format{}).Decode(text, declared, AtMost(limit)); again != got {
			t.Errorf("%q, then %q", got, again)
		}
		if got != text && (len(got) > limit || !utf8.ValidString(got)) {
			t.Errorf("%q of %q gives %d bytes: %.100q", text, declared, len(got), got)
		}
		if strings.HasPrefix(strings.ToLower(declared), "windows-") && strings.Trim(text, `{}[]":,abcdefxyz0123456789`) == "" && got != text {
			t.Errorf("%q in %q became %q", text, declared, got)
		}
	})
}

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
		if _, err := f.Decode(body, "", AtMost(16<<20)); err != nil {
			b.Fatal(err)
		}
	}
}
