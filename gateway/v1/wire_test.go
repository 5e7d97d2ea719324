package v1

import (
	"bytes"
	"encoding/json"
	"time"

	"inquiry-gateway/upstream"
)

// The documented wire format as encoding/json sees it. Tests and benchmarks
// hold the hand-written rendering against it.
type wireList[R any] struct {
	Data   []R         `json:"data"`
	Meta   struct{}    `json:"meta"`
	Errors []wireError `json:"errors"`
}

type wireBuyer struct {
	Title       string         `json:"title"`
	Content     string         `json:"content"`
	Status      string         `json:"status"`
	InquiryType *string        `json:"inquiry_type"`
	CreatedAt   string         `json:"created_at"`
	Responses   []wireResponse `json:"responses"`
}

type wireResponse struct {
	Content       string  `json:"content"`
	ResponderType *string `json:"responder_type"`
	CreatedAt     string  `json:"created_at"`
}

type wireSeller struct {
	Title       string  `json:"title"`
	Status      string  `json:"status"`
	InquiryType *string `json:"inquiry_type"`
	CompanyName string  `json:"company_name"`
	CreatedAt   string  `json:"created_at"`
}

type wireError struct {
	ID     string      `json:"id"`
	Status string      `json:"status"`
	Code   string      `json:"code"`
	Title  string      `json:"title"`
	Detail string      `json:"detail"`
	Source *wireSource `json:"source,omitempty"`
}

type wireSource struct {
	Parameter string `json:"parameter,omitempty"`
	Header    string `json:"header,omitempty"`
}

func wireTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func wireNull(s upstream.NullString) *string {
	if !s.Valid {
		return nil
	}
	return &s.String
}

func buyersToWire(list []upstream.Inquiry) wireList[wireBuyer] {
	w := wireList[wireBuyer]{Data: []wireBuyer{}, Errors: []wireError{}}
	for _, q := range list {
		b := wireBuyer{q.Title, q.Content, q.Status, wireNull(q.InquiryType), wireTime(q.CreatedAt), []wireResponse{}}
		for _, r := range q.Responses {
			b.Responses = append(b.Responses, wireResponse{r.Content, wireNull(r.ResponderType), wireTime(r.CreatedAt)})
		}
		w.Data = append(w.Data, b)
	}
	return w
}

func sellersToWire(list []upstream.Inquiry) wireList[wireSeller] {
	w := wireList[wireSeller]{Data: []wireSeller{}, Errors: []wireError{}}
	for _, q := range list {
		w.Data = append(w.Data, wireSeller{q.Title, q.Status, wireNull(q.InquiryType), q.CompanyName, wireTime(q.CreatedAt)})
	}
	return w
}

func errorToWire(e Error) wireList[wireError] {
	o := wireError{ID: e.ID, Status: e.Status, Code: e.Code, Title: e.Title, Detail: e.Detail}
	if e.Source != nil {
		o.Source = &wireSource{Parameter: e.Source.Parameter, Header: e.Source.Header}
	}
	return wireList[wireError]{Data: []wireError{}, Errors: []wireError{o}}
}

// marshal is encoding/json without HTML escaping and without the newline at
// the end.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// sample makes n inquiries of everyday size with two responses each.
func sample(n int) []upstream.Inquiry {
	at := time.Date(2026, 3, 14, 1, 59, 26, 535_897_932, time.UTC)
	list := make([]upstream.Inquiry, n)
	for i := range list {
		list[i] = upstream.Inquiry{
			Title:       "Delivery date of order 20931 – please confirm",
			Content:     "Hello,\nwe ordered \"M8 x 40\" bolts on Monday. Could you tell us when they leave your warehouse, and whether a part delivery is possible?\nThank you, 김민준",
			Status:      "answered",
			InquiryType: upstream.NullString{String: "delivery", Valid: i%5 != 0},
			CompanyName: "Hansung Precision Co., Ltd.",
			CreatedAt:   at.Add(time.Duration(i) * time.Minute),
			Responses: []upstream.Response{
				{Content: "They leave on Thursday; a part delivery is possible from 200 pieces.", ResponderType: upstream.NullString{String: "staff", Valid: true}, CreatedAt: at.Add(time.Hour)},
				{Content: "안녕하세요. 목요일에 출고될 예정입니다. 감사합니다.", CreatedAt: at.Add(2 * time.Hour)},
			},
		}
	}
	return list
}
