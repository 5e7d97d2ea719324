package console

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever comes in whatever order: no more counters than asked for, nothing
// counted too low, the excess known, and every account above its share found.
func TestTopAccountsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 8).Draw(t, "size")
		top, truth, all := NewTopAccounts(size), map[string]float64{}, 0.0
		at := time.Unix(0, 0)
		top.fade(at)
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			if rapid.IntRange(0, 9).Draw(t, "pause") == 0 {
				pause := time.Duration(rapid.IntRange(1, 600).Draw(t, "seconds")) * time.Second
				at = at.Add(pause)
				top.fade(at)
				factor := math.Exp2(-pause.Seconds() / halfLife.Seconds())
				all *= factor
				for name := range truth {
					truth[name] *= factor
				}
			}
			name := fmt.Sprint(rapid.IntRange(0, 20).Draw(t, "account"))
			top.Filled(name)
			truth[name]++
			all++
		}
		checkTop(t, top, truth, all)
	})
}

func checkTop(t *rapid.T, top *TopAccounts, truth map[string]float64, all float64) {
	const slack = 1e-9
	perSecond := math.Ln2 / halfLife.Seconds()
	list := top.top(len(truth) + 1)
	if len(list) > top.size || len(top.heavy) > top.size {
		t.Fatalf("%d of %d counters", len(list), top.size)
	}
	found := map[string]bool{}
	for i, a := range list {
		found[a.Name] = true
		real := truth[a.Name] * perSecond
		if a.PerSecond < real-slack || a.AtLeast > real+slack || math.Abs(a.Share-a.PerSecond/perSecond/all) > slack {
			t.Fatalf("%+v, really %v per second", a, real)
		}
		if i > 0 && a.PerSecond > list[i-1].PerSecond {
			t.Fatal("not in order")
		}
	}
	for name, n := range truth {
		if n > all/float64(top.size)+slack && !found[name] {
			t.Fatalf("%s has %v of %v and is missing", name, n, all)
		}
	}
}

// A steady load is shown as what it is.
func TestTopAccountsRate(t *testing.T) {
	top, at := NewTopAccounts(4), time.Unix(0, 0)
	for range 3600 {
		top.fade(at)
		at = at.Add(time.Second)
		for range 7 {
			top.Filled("busy")
		}
		top.Filled("calm")
	}
	list := top.top(1)
	if len(list) != 1 || list[0].Name != "busy" || math.Abs(list[0].PerSecond-7) > .1 || list[0].AtLeast != list[0].PerSecond || math.Abs(list[0].Share-.875) > 1e-6 {
		t.Errorf("%+v", list)
	}
}
