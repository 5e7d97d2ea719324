package ops

// AnswersRequest is the body of POST /ops/answers: mappings that do not run, to be tried
// on the replies that the running gateway keeps.
type AnswersRequest struct {
	Buyer  string `json:"buyer"` // what stands below upstream.buyer, as YAML
	Seller string `json:"seller"`
}

// AnswersDiff says what would become of the answers. It has no text of any record.
type AnswersDiff struct {
	Answers int           `json:"answers"` // lists whose replies are kept and were tried
	Empty   int           `json:"empty"`   // of these: lists without a record, which say nothing of the fields
	Changed int           `json:"changed"` // of these: with another answer
	Fields  []FieldChange `json:"fields"`  // by kind and field
	Load    []LoadChange  `json:"load"`    // by kind
}

// FieldChange is a public field that would differ. Field "records" is their number,
// "error" a list where there was none or the other way round.
type FieldChange struct {
	Kind     string          `json:"kind"`
	Field    string          `json:"field"`
	Answers  int             `json:"answers"`
	Values   int             `json:"values"`
	Examples []ExampleChange `json:"examples"` // different ones, the first three
}

// ExampleChange has words and times as they are, and of texts the length only.
type ExampleChange struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

// LoadChange is the load on the legacy system by a kind.
type LoadChange struct {
	Kind    string  `json:"kind"`
	Lists   int     `json:"lists"`
	Before  float64 `json:"requests_per_list_before"` // pages and further requests, in the mean
	After   float64 `json:"requests_per_list_after"`
	Differ  int     `json:"lists_asked_for_differently"` // with another address, query or body
	Filters Filters `json:"filters_sent"`
}

// Filters says whether the legacy system is sent the two filters.
type Filters struct {
	StatusBefore      bool `json:"status_before"`
	StatusAfter       bool `json:"status_after"`
	InquiryTypeBefore bool `json:"inquiry_type_before"`
	InquiryTypeAfter  bool `json:"inquiry_type_after"`
}

// Differs tells whether anything would be other than it is.
func (d *AnswersDiff) Differs() bool {
	for _, l := range d.Load {
		if l.Differ > 0 || l.Before != l.After || l.Filters.StatusBefore != l.Filters.StatusAfter || l.Filters.InquiryTypeBefore != l.Filters.InquiryTypeAfter {
			return true
		}
	}
	return d.Changed > 0
}
