package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/gateway/ops"
)

// checkAnswers has the running gateway try the mappings of the file on the replies that
// it keeps, which stay there.
func checkAnswers(ctx context.Context, cfg config.Config, url, tokenFile string, out io.Writer) error {
	gateway, err := openOps(url, tokenFile)
	if err != nil {
		return err
	}
	want, err := json.Marshal(ops.AnswersRequest{Buyer: cfg.EndpointText("buyer"), Seller: cfg.EndpointText("seller")})
	if err != nil {
		return err
	}
	reply, err := gateway.do(ctx, http.MethodPost, "/ops/answers", want)
	if err != nil {
		return err
	}
	var d ops.AnswersDiff
	if err := json.Unmarshal(reply, &d); err != nil {
		return fmt.Errorf("the answer is not that of an ops listener: %w", err)
	}
	if d.Answers == 0 {
		return fmt.Errorf("%s keeps no list's replies yet; they come with fetches", url)
	}
	if err := writeAnswers(out, d); err != nil {
		return err
	}
	if d.Differs() {
		return fmt.Errorf("%d of %d answers would differ, or be asked for differently", d.Changed, d.Answers)
	}
	return nil
}

func writeAnswers(out io.Writer, d ops.AnswersDiff) error {
	if d.Empty > 0 {
		fmt.Fprintf(out, "answers: %d of %d tried are empty lists, which say nothing of the fields\n", d.Empty, d.Answers)
	}
	if len(d.Fields) == 0 {
		fmt.Fprintf(out, "answers: all %d tried would be the same\n", d.Answers)
	} else {
		rows := [][]string{{"KIND", "FIELD", "ANSWERS OF " + strconv.Itoa(d.Answers), "VALUES", "RUNNING", "FILE"}}
		for _, f := range d.Fields {
			for i, e := range f.Examples {
				row := []string{f.Kind, f.Field, strconv.Itoa(f.Answers), strconv.Itoa(f.Values), e.Before, e.After}
				if i > 0 {
					row = []string{"", "", "", "", e.Before, e.After}
				}
				rows = append(rows, row)
			}
		}
		if err := writeTable(out, rows); err != nil {
			return err
		}
	}
	rows := [][]string{{"KIND", "LISTS", "REQUESTS PER LIST", "ASKED FOR DIFFERENTLY", "STATUS SENT", "INQUIRY_TYPE SENT"}}
	for _, l := range d.Load {
		f := l.Filters
		rows = append(rows, []string{
			l.Kind, strconv.Itoa(l.Lists), fromTo(fmt.Sprintf("%.3g", l.Before), fmt.Sprintf("%.3g", l.After)), strconv.Itoa(l.Differ),
			fromTo(strconv.FormatBool(f.StatusBefore), strconv.FormatBool(f.StatusAfter)), fromTo(strconv.FormatBool(f.InquiryTypeBefore), strconv.FormatBool(f.InquiryTypeAfter)),
		})
	}
	return writeTable(out, rows)
}

func fromTo(before, after string) string {
	if before == after {
		return before
	}
	return before + " -> " + after
}
