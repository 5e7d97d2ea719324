package jsonwalk

import (
	"testing"

	"pgregory.net/rapid"
)

// No text changes when others are made, whatever their sizes are.
func TestTextsStayAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var texts Texts
		want := rapid.SliceOf(rapid.StringN(0, 3000, -1)).Draw(t, "texts")
		got := make([]string, len(want))
		for i, s := range want {
			spare := rapid.IntRange(0, 100).Draw(t, "spare")
			got[i] = texts.Keep(append(texts.Room(len(s)+spare), s...))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("text %d is %q, want %q", i, got[i], want[i])
			}
		}
	})
}
