package draft

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	uuidForm  = regexp.MustCompile(`(?i)^\{?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\}?$`)
	hexForm   = regexp.MustCompile(`(?i)^[0-9a-f]{16,64}$`)
	emailForm = regexp.MustCompile(`^[^@\s]+@[^@\s]+\.[^@\s]+$`)
	urlForm   = regexp.MustCompile(`^(https?:)?//\S+$|^/\S*/\S*$`)
	tagForm   = regexp.MustCompile(`(?i)</?(p|br|div|span|b|i|a|ul|ol|li|strong|em|h[1-6]|table|td|tr|body|html)\b[^>]*>`)
	wordForm  = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
	digitForm = regexp.MustCompile(`^[0-9]+$`)
)

// isProse tells whether a value may be words of a person: letters and a blank, or
// letters of a script whose words stand together.
func isProse(c cell) bool {
	if c.kind != text || isAddress(c) {
		return false
	}
	letters, wide, blank := 0, 0, strings.ContainsAny(strings.TrimSpace(c.text), " \n")
	for _, r := range c.text {
		if unicode.IsLetter(r) {
			letters++
		}
		if r >= 0x1100 {
			wide++
		}
	}
	return letters >= 3 && (blank || wide >= 4)
}

// isAddress tells whether a value is a mail address, a URL or a path.
func isAddress(c cell) bool { return emailForm.MatchString(c.text) || urlForm.MatchString(c.text) }

// isHTML tells whether a text has a tag of HTML in it.
func isHTML(c cell) bool { return c.kind == text && tagForm.MatchString(c.text) }

// isCode tells whether a value looks made by a machine: it has the form of an id, or
// mixes letters and digits in one long word.
func isCode(c cell) bool {
	s := c.text
	if uuidForm.MatchString(s) || hexForm.MatchString(s) {
		return true
	}
	return len(s) >= 6 && !strings.ContainsAny(s, " \n") && strings.ContainsFunc(s, unicode.IsDigit) && !emailForm.MatchString(s)
}

// lexicon says what words of a status mean to the public, by their small letters.
// It is a proposal that is always marked.
func lexicon(word string) string {
	return sortOf(strings.ToLower(strings.Join(strings.FieldsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) }), "")), map[string]string{
		"pending":  "new open opened pending waiting wait received receive registered requested submitted unanswered inprogress progress processing process active todo assigned escalated hold onhold awaiting waitingforsupport waitingforagent ready reopened accepted acknowledged unresolved draft queued triage rcpt recv 접수 접수완료 대기 답변대기 처리중 진행중 미답변 확인중 검토중",
		"answered": "answered replied responded answer reply response done complete completed answercomplete waitingforcustomer pendingcustomer awaitingcustomer awaitingreply waitingoncustomer awaitinguserinfo resolved solved fixed resolve processed 답변 답변완료 처리완료 완료 해결",
		"closed":   "closed close cancelled canceled cancel rejected archived withdrawn expired deleted declined terminated finished spam ended 종료 종결 취소 철회 반려 마감",
	})
}

// sortOf finds the sort whose list has a word; empty: none has.
func sortOf(word string, sorts map[string]string) string {
	for sort, list := range sorts {
		if slices.Contains(strings.Fields(list), word) {
			return sort
		}
	}
	return ""
}

// speaksOfType tells whether a word is usual for a sort of inquiry.
func speaksOfType(word string) bool {
	parts := split(word)
	for _, known := range strings.Fields("delivery shipping shipment refund return returns exchange product products payment billing invoice order orders account other others etc general question problem incident task bug complaint technical quality stock price coupon cancel service support warranty sales feature request inquiry 배송 환불 반품 교환 상품 결제 주문 기타 회원 문의 취소") {
		for _, part := range parts {
			if part == known || isHangul([]rune(known)[0]) && strings.Contains(part, known) {
				return true
			}
		}
	}
	return false
}

// slug writes a word as a public value: small letters and digits, joined by "_". It is
// empty if a word has none.
func slug(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(words, "_")
}
