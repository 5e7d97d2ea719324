package auth

import (
	"errors"
	"path/filepath"
	"testing"
	"time"
)

// ByID and Authenticate say the same of a key; a store without ids says so.
func TestByID(t *testing.T) {
	everyStore(t, func(t *testing.T, s *testStore) {
		a, err := NewAuthenticator(s.Store, Hasher{}, Options{Now: s.clock.now})
		if err != nil {
			t.Fatal(err)
		}
		expired := testRecord("old")
		expired.ExpiresAt = testNow.Add(-time.Hour)
		for _, k := range []KeyRecord{testRecord("good"), testRecord("gone"), expired} {
			s.put(k.ID, k, paying)
		}
		s.revoke("gone")
		s.forget()
		if _, ok := s.Store.(byID); !ok {
			if _, err := a.ByID(t.Context(), "good"); !errors.Is(err, ErrNoKeyIDs) {
				t.Errorf("without ids: %v", err)
			}
			return
		}
		for id, reason := range map[string]string{"good": "", "gone": ReasonRevoked, "old": ReasonExpired} {
			p, err := a.ByID(t.Context(), id)
			_, want := a.Authenticate(t.Context(), []string{"Bearer " + id})
			if p.KeyID != id || p.Account != paying.ID || (err == nil) != (reason == "") || (want == nil) != (err == nil) {
				t.Errorf("%s: %+v, %v; Authenticate says %v", id, p, err, want)
			}
			if denial, ok := errors.AsType[*Denial](err); reason != "" && (!ok || denial.Reason != reason) {
				t.Errorf("%s: %v, want %s", id, err, reason)
			}
		}
		if _, err := a.ByID(t.Context(), "nobody"); !errors.Is(err, ErrNoSuchKey) {
			t.Errorf("unknown: %v", err)
		}
		if s.state == nil {
			return
		}
		s.forget()
		s.state(storeDown)
		if _, err := a.ByID(t.Context(), "good"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("with the store down: %v", err)
		}
	})
}

func TestGetOneKey(t *testing.T) {
	file := NewKeysFile(filepath.Join(t.TempDir(), "keys.yaml"), Hasher{})
	if err := file.Add(t.Context(), testRecord("k1"), &paying); err != nil {
		t.Fatal(err)
	}
	if k, err := file.Get(t.Context(), "k1"); err != nil || k.Digest != testRecord("k1").Digest {
		t.Errorf("%+v, %v", k, err)
	}
	if _, err := file.Get(t.Context(), "k2"); !errors.Is(err, ErrNoSuchKey) {
		t.Errorf("unknown: %v", err)
	}
}
