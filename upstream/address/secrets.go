package address

import (
	"encoding/json"
	"encoding/xml"
	"net/url"
	"slices"
	"strings"
)

// Hidden stands where a secret would be shown.
const Hidden = "(hidden)"

// leastSecret is the length from which a secret is hidden: shorter ones are in every text.
const leastSecret = 3

// Hider makes the function that hides secrets in a text, however they are escaped in it.
func Hider(secrets []string) func(string) string {
	var forms []string
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) >= leastSecret {
			forms = append(forms, s, url.QueryEscape(s), escapeQuery(s), url.PathEscape(s), strings.Trim(quote(s), `"`), escapeXML(s))
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) }) // one may be a part of another
	var pairs []string
	for _, form := range slices.Compact(forms) {
		pairs = append(pairs, form, Hidden)
	}
	return strings.NewReplacer(pairs...).Replace
}

// Secrets are the texts of a request that stand under the name of a secret, such as
// password or api_key: what a configuration sends as credentials in query, headers or body.
func (s Spec) Secrets() (secrets []string) {
	under := func(name, text string) {
		if isSecret(name) {
			secrets = append(secrets, placeholders.Split(text, -1)...)
		}
	}
	for name, value := range s.Query {
		under(name, value)
	}
	for name, value := range s.Headers {
		under(name, value)
	}
	if text, ok := s.Body.(string); ok && s.BodyType == BodyXML {
		secretsInXML(text, under)
		return secrets
	}
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, inner := range v {
				if isSecret(name) {
					key = name // all that is below it
				}
				walk(key, inner)
			}
		case []any:
			for _, inner := range v {
				walk(name, inner)
			}
		case string:
			under(name, v)
		case nil, bool:
		default:
			if b, err := json.Marshal(v); err == nil {
				under(name, string(b))
			}
		}
	}
	walk("", s.Body)
	return secrets
}

// secretsInXML visits the texts and attributes of XML with their names; what is below a
// secret has its name.
func secretsInXML(text string, visit func(name, text string)) {
	d := xml.NewDecoder(strings.NewReader(text))
	names := []string{""}
	for {
		t, err := d.Token()
		if err != nil {
			return // the end, or what the compiler tells
		}
		switch t := t.(type) {
		case xml.StartElement:
			name := t.Name.Local
			if last := names[len(names)-1]; isSecret(last) {
				name = last
			}
			names = append(names, name)
			for _, a := range t.Attr {
				visit(a.Name.Local, a.Value)
			}
		case xml.EndElement:
			names = names[:len(names)-1]
		case xml.CharData:
			visit(names[len(names)-1], string(t))
		}
	}
}

// secretWords are in names of secrets, written without _ and -.
var secretWords = strings.Fields("password passwd passphrase passcode pwd secret credential token signature authoriz " +
	"apikey accesskey authkey servicekey appkey clientkey privatekey licensekey subscriptionkey " +
	"kennwort passwort geheim motdepasse contraseña contrasena senha wachtwoord 비밀번호 暗証 密码")

// isSecret tells whether the name is one of a secret. That of a cursor is none.
func isSecret(name string) bool {
	name = strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(name))
	has := func(word string) bool { return strings.Contains(name, word) }
	if slices.ContainsFunc([]string{"page", "next", "cursor", "continu", "resume"}, has) {
		return false
	}
	return slices.ContainsFunc(secretWords, has) || slices.Contains([]string{"pass", "pw", "pin", "auth", "key"}, name)
}
