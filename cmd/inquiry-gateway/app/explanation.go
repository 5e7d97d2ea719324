package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"inquiry-gateway/auth"
	"inquiry-gateway/cache"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/gateway"
	"inquiry-gateway/gateway/ops"
	"inquiry-gateway/upstream"
)

// explain returns what a request would get now. It fetches no list, spends no rate and counts no request. A key's id is looked up
// in the key store.
func (a *App) explain(ctx context.Context, want ops.ExplainRequest) (ops.Explanation, error) {
	l := a.current()
	var x ops.Explanation
	key := cache.Key{Kind: want.Kind, Account: want.Account, Status: want.Status, InquiryType: want.InquiryType}
	if want.KeyID != "" {
		who, denied := l.keyring.CheckByID(ctx, want.KeyID)
		if err := explainError(denied); err != nil {
			return x, err
		}
		if key.Account = who.Account; key.Kind == "" {
			key.Kind = who.Kind
		}
		if denied == nil {
			denied = who.Authorize(key.Kind)
		}
		x.Access = accessOf(want.KeyID, who, denied)
		x.RateLimit = rateLimitOf(l.cfg, who.Plan)
	}
	err := a.checkKind(key.Kind)
	if err != nil {
		return x, err
	}
	if x.Cache, err = a.lists.Explain(ctx, key); err != nil {
		return x, err
	}
	x.Upstream = ops.UpstreamState{Breaker: l.client.BreakerState(key.Kind, key.Account), Ceiling: ops.Ceiling(a.ceiling.State()), Incidents: l.client.Incidents(key.Kind)}
	failed := cmp.Or(l.client.Askable(key.Kind, key.Account), l.client.LastFailure(key.Kind, key.Account))
	if x.Prediction = predict(x.Cache, x.Upstream.Breaker, failed); x.Access != nil && x.Access.Code != "" {
		x.Prediction = ops.Prediction{Outcome: "refused", HTTPStatus: x.Access.HTTPStatus, Code: x.Access.Code, Text: "authorization refuses the key before any look-up: " + x.Access.Reason}
	}
	return x, nil
}

// explainError returns the error of a key look-up after which there is nothing to explain. A denial is an explanation.
func explainError(err error) error {
	switch {
	case err == nil || errors.Is(err, auth.ErrInvalidKey):
		return nil
	case errors.Is(err, auth.ErrNoSuchKey):
		return fmt.Errorf("%w: %w", ops.ErrNothingToExplain, err)
	case errors.Is(err, auth.ErrNoKeyIDs):
		return fmt.Errorf("%w: %w; give account and kind instead of a key's id", ops.ErrCannotExplain, err)
	}
	return err
}

// accessOf returns the result of authorization as the caller would see it, with the reason, which the caller does not see.
func accessOf(keyID string, who auth.Principal, denied error) *ops.Access {
	access := &ops.Access{
		KeyID: keyID, Verdict: "allowed", HTTPStatus: http.StatusOK,
		KeyKind: who.Kind, Scopes: append([]string{}, who.Scopes.List()...), PaidAccess: who.PaidAccess, Plan: who.Plan,
	}
	if denied != nil {
		problem := gateway.ProblemOf(denied)
		access.Verdict, access.Reason, access.HTTPStatus, access.Code = "refused", denied.Error(), problem.Status, problem.Code
	}
	return access
}

// rateLimitOf returns the limit of a plan, with the key of the configuration that sets it.
func rateLimitOf(cfg config.Config, plan string) *ops.RateLimitState {
	if p, ok := cfg.RateLimit.Plans[plan]; ok {
		return &ops.RateLimitState{From: "rate_limit.plans." + plan, PerSecond: p.PerSecond, Burst: p.EffectiveBurst()}
	}
	return &ops.RateLimitState{From: "rate_limit", PerSecond: cfg.RateLimit.PerSecond, Burst: cfg.RateLimit.EffectiveBurst()}
}

// predictions are what is said of the outcomes of a look-up that has a list.
var predictions = map[cache.Outcome]string{
	cache.Impossible:      "an empty list, without asking: no record can have these filter values",
	cache.Hit:             "served from the cache: the list is fresh",
	cache.StaleRevalidate: "served stale, and refreshed in the background",
	cache.StaleError:      "served stale, because the last fetch failed",
	cache.Collapsed:       "waits for the fetch in progress",
	cache.Miss:            "asks the legacy system",
}

// predict says what an authorized request gets, as the cache has judged. failed is why there can
// be no list of the account, or why there was none when it was last asked for; nil: there was.
// The rate does not come into it: looking at it would spend it.
func predict(x cache.Explanation, breaker string, failed *upstream.Error) ops.Prediction {
	not := func(outcome string, err error, text string) ops.Prediction {
		p := gateway.ProblemOf(err)
		return ops.Prediction{Outcome: outcome, HTTPStatus: p.Status, Code: p.Code, Text: text}
	}
	asks := x.IfItFails != ""
	switch {
	case x.Err != nil:
		return not("failing", x.Err, "the error of the last fetch, until the back-off ends: "+x.Err.Error())
	case asks && failed != nil && failed.Failure() == upstream.FailureAccount:
		return not("unsupported", failed, failed.Error())
	case asks && breaker == "open":
		return not("unavailable", &upstream.Error{Reason: "breaker_open"}, "the breaker is open, and the cache has no list that may be served")
	case x.Outcome == cache.Miss && x.IfItFails != cache.StaleError && failed != nil:
		return not("failing", failed, "asks the legacy system; unless it works again, the caller gets the error of the last time: "+failed.Error())
	}
	text := predictions[x.Outcome]
	if x.Outcome == cache.StaleError && failed != nil {
		text += ": " + failed.Error()
	}
	switch {
	case asks && x.IfItFails == cache.StaleError:
		text += "; if that fails, the stale list is served"
	case asks:
		text += "; if that fails, the caller gets its error"
	}
	return ops.Prediction{Outcome: string(x.Outcome), HTTPStatus: http.StatusOK, Text: text}
}
