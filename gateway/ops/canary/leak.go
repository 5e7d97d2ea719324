package canary

// holdsUUID tells whether a text holds 32 hexadecimal digits with nothing but
// dashes between them: a UUID in any notation, which is what the gateway takes
// out of texts where the legacy system's ids are UUIDs.
func holdsUUID(text string) bool {
	digits := 0
	for i := range len(text) {
		switch c := text[i]; {
		case '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F':
			if digits++; digits == 32 {
				return true
			}
		case c != '-':
			digits = 0
		}
	}
	return false
}
