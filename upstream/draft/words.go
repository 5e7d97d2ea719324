package draft

import (
	"slices"
	"strings"
	"unicode"
)

// words are parts of names that speak for a field or against it, from -1 to 1. They
// are weak evidence: what the values are counts for more.
type words map[string]float64

// wordsOf gives each word of the one list 1, and of the other -1.
func wordsOf(list, against string) words {
	w := words{}
	for _, word := range strings.Fields(list) {
		w[word] = 1
	}
	for _, word := range strings.Fields(against) {
		w[word] = -1
	}
	return w
}

// vocabulary holds the words of each field: English, and the abbreviations that are
// usual in Korean tables.
type vocabulary struct {
	title, content, status, category, created, company, buyer, seller, role, responses, id words
}

// newVocabulary lists the words. It is a function because no variable of a package is
// to change.
func newVocabulary() vocabulary {
	return vocabulary{
		title:     wordsOf("title subject ttl summary headline sj sbjt subj caption heading topic 제목 short", "name email url author customer user company product agent category type status tag channel id"),
		content:   wordsOf("content contents body text description desc message msg details question cn cntn cont cntnt memo note comment plain 내용 본문 텍스트", "title subject ttl email url name answer ans answ reply response resolution html"),
		status:    wordsOf("status state stat st sts stts stt phase stage progress open opened closed answered prcs prgrs resolved solved 상태 처리", "count cnt num qty total hit hits views category type priority channel type source country lang language"),
		category:  wordsOf("category categories ctgr ctgry cat ctg kind type class topic reason tp typ tpcd se gubun gb gbn dvsn div clsf group 유형 구분 분류 issue area", "status state priority prio channel content media mime role owner user record resource lang language locale"),
		created:   wordsOf("created create creation opened open reg rgst regist registered submitted submit posted inserted insert ins frst date asked received rcpt wrt write written dt ts 등록 등록일 등록일시 작성일 접수", "updated update modified mod upd updt chg changed closed close solved resolved due last answered ans answ expire expires deleted activity end finish sla cmpl"),
		company:   wordsOf("company companies corp corporation firm organization organisation org business cmpny cmpy entrps bzn enterprise employer 업체 업체명 회사 상호", "id no code cd email phone address"),
		buyer:     wordsOf("customer cust cstmr account acct accnt buyer client user usr member mbr mb requester reporter contact owner org organization organisation company cust_id party consumer 고객 회원", "vendor seller supplier merchant agent assignee"),
		seller:    wordsOf("vendor vndr seller slr sllr merchant mrch shop store partner ptnr supplier spl company brand brnd owner account acct organization 판매자 업체 입점", "customer buyer agent assignee"),
		role:      wordsOf("role author by from side type sender responder writer kind staff agent admin actor direction wrtr answerer who se tp internal 작성자 구분 source incoming", "content text id format mime status name nm display email"),
		responses: wordsOf("replies reply responses response answers answer ans answ comments comment messages message thread threads notes conversation conversations history posts journal entries 답변 댓글", "attachment attachments files file tags links watchers products items"),
		id:        wordsOf("id ids uuid guid no num nr number seq key ref sn sno sid oid idx pk code cd", ""),
	}
}

// hollow are last parts of names that say nothing; the part before says it.
func hollow(word string) bool {
	return slices.Contains(strings.Fields("value cd code text name nm id key label display raw data attributes fields node source properties t v val rendered "+
		"displayvalue desc is c en local"), word)
}

// score says how much a column's name speaks for the field, from -1 to 1. The last
// key counts most.
func (w words) score(keys []string) float64 {
	weight, best, worst := 1.0, 0.0, 0.0
	for i := len(keys) - 1; i >= 0 && weight > 0.2; i-- {
		parts, empty := split(keys[i]), true
		for _, part := range parts {
			s := w.of(part) * weight
			best, worst = max(best, s), min(worst, s)
			empty = empty && hollow(part)
		}
		if empty {
			weight *= 0.9
		} else {
			weight *= 0.5
		}
	}
	return best + worst*0.7
}

// of is the score of one part of a name: that of the word itself, or less for one that
// it begins or ends with. Short words must be the whole part, or they would be found
// anywhere.
func (w words) of(part string) float64 {
	if s, ok := w[part]; ok {
		return s
	}
	best, worst := 0.0, 0.0
	for word, s := range w {
		switch {
		case len(word) >= 6 && strings.ContainsFunc(word, isHangul) && strings.Contains(part, word):
		case len(word) >= 4 && strings.HasPrefix(part, word):
			s *= 0.8
		case len(word) >= 4 && strings.HasSuffix(part, word):
			s *= 0.7
		default:
			continue
		}
		best, worst = max(best, s), min(worst, s)
	}
	if best > 0 {
		return best
	}
	return worst
}

// isHangul is true for letters of Korean.
func isHangul(r rune) bool { return unicode.Is(unicode.Hangul, r) }

// split takes a key such as regDt, INQ_TTL or customer-name apart, in small letters.
func split(key string) (parts []string) {
	var b strings.Builder
	end := func() {
		if b.Len() > 0 {
			parts = append(parts, strings.ToLower(b.String()))
			b.Reset()
		}
	}
	runes := []rune(key)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			end()
			continue
		case unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || unicode.IsUpper(runes[i-1]) && i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			end()
		}
		b.WriteRune(r)
	}
	end()
	return parts
}
