package gateway

import (
	"context"
	"fmt"

	v1 "inquiry-gateway/gateway/v1"

	"inquiry-gateway/cache"
	"inquiry-gateway/upstream"
)

// Kinds of callers, and so of lists.
const (
	kindBuyer  = "buyer"
	kindSeller = "seller"
)

// Fetcher asks the legacy system for one account's list. It imposes its own
// limits besides ctx; its errors are *upstream.Error.
type Fetcher interface {
	Fetch(ctx context.Context, r upstream.Request) (upstream.List, error)
}

// NewFill joins the legacy system and the v1 projection into what the cache
// calls on a miss: the finished bytes of one list. Only bytes that a caller
// may see get past it, so nothing internal is ever cached.
func NewFill(f Fetcher) cache.Fill {
	return func(ctx context.Context, k cache.Key) (cache.Content, error) {
		list, err := f.Fetch(ctx, upstream.Request{
			Kind: k.Kind, Account: k.Account, Status: k.Status, InquiryType: k.InquiryType,
			RequestID: requestIDOf(ctx),
		})
		if err != nil {
			noteFailure(ctx, err)
			return cache.Content{}, err
		}
		body, err := tracedRender(ctx, k.Kind, list.Inquiries)
		return cache.Content{Body: body, AnsweredAt: list.AnsweredAt, NoStore: list.Unasked, Fingerprint: list.Fingerprint}, err
	}
}

// Derivation makes filtered lists out of finished ones. plan tells what the
// legacy is asked for a list; it must be quick.
func Derivation(plan func(upstream.Request) (base upstream.Request, impossible bool)) cache.Derivation {
	return cache.Derivation{
		Base: func(k cache.Key) (cache.Key, bool) {
			base, impossible := plan(upstream.Request{Kind: k.Kind, Account: k.Account, Status: k.Status, InquiryType: k.InquiryType})
			return cache.Key{Kind: base.Kind, Account: base.Account, Status: base.Status, InquiryType: base.InquiryType}, impossible
		},
		Select: func(k cache.Key, body []byte) ([]byte, error) {
			f := v1.Filter{Status: k.Status, InquiryType: k.InquiryType}
			if k.Kind == kindSeller {
				return v1.SelectSeller(body, f)
			}
			return v1.SelectBuyer(body, f)
		},
		Empty: v1.AppendBuyer(nil, nil), // as of both kinds
	}
}

func render(kind string, list []upstream.Inquiry) ([]byte, error) {
	switch kind {
	case kindBuyer:
		return v1.AppendBuyer(make([]byte, 0, v1.BuyerSize(list)), list), nil
	case kindSeller:
		return v1.AppendSeller(make([]byte, 0, v1.SellerSize(list)), list), nil
	}
	return nil, fmt.Errorf("no projection for kind %q", kind)
}
