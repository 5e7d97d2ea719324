package upstream

import (
	"fmt"
	"strings"
	"testing"
)

// What is stored is bounded, together with what tells it apart, and what is used stays.
func TestStoredRepliesAreBounded(t *testing.T) {
	c, body := newReplyStore(), strings.Repeat("x", 1<<20)
	for n := range 40 {
		c.Set(fmt.Sprint(n), &storedReplies{bodies: []string{body}})
		c.CleanUp()
		if _, ok := c.GetIfPresent("0"); !ok {
			t.Fatalf("of %d the one that is always used is gone", n)
		}
	}
	if n := c.EstimatedSize(); n < 10 || n > 15 {
		t.Errorf("%d are kept", n)
	}
	for n := range 200_000 { // without a body each
		c.Set(fmt.Sprint(n), &storedReplies{})
	}
	c.CleanUp()
	if n := c.EstimatedSize(); n > maxStoredBytes/200 || n < 50_000 {
		t.Errorf("%d are kept without a body", n)
	}
	c.Set("large", &storedReplies{bodies: []string{strings.Repeat("x", maxStoredBytes)}})
	c.CleanUp()
	if _, ok := c.GetIfPresent("large"); ok {
		t.Error("what is larger than all that is kept")
	}
}
