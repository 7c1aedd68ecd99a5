// Command oracle answers registrations as Kubernetes does: with its decoder, its strategy and its validation.
//
// It reads cases from stdin, a JSON object a line (name, verb, new, old), and writes them with the answers, as
// recorded.jsonl holds them. It runs in any module that requires k8s.io/apiextensions-apiserver:
//
//	cd integration/oracle && go run ../../schema/src/crd/tests/oracle/main.go < cases > recorded.jsonl
//
// A v1beta1 registration is also answered as v1beta1 shows it. What held on v1beta1 alone is no longer in upstream's
// tree; lax.sh, beside this file, puts it back.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	strategy "k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type in struct {
	Name string          `json:"name"`
	Verb string          `json:"verb,omitempty"`
	New  json.RawMessage `json:"new"`
	Old  json.RawMessage `json:"old,omitempty"`
}

type out struct {
	in
	Decode   string   `json:"decode,omitempty"`
	Unknown  []string `json:"unknown,omitempty"`
	Errors   []string `json:"errors,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Stored   any      `json:"stored,omitempty"`
	Shown    any      `json:"shown,omitempty"`
}

func main() {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	decoder := codecs.UniversalDecoder(apiextensions.SchemeGroupVersion)
	encoder := codecs.LegacyCodec(v1.SchemeGroupVersion)
	older := codecs.LegacyCodec(v1beta1.SchemeGroupVersion)
	decode := func(data []byte) (*apiextensions.CustomResourceDefinition, []string, error) {
		obj, _, err := decoder.Decode(data, nil, nil)
		var unknown []string
		if strict, ok := runtime.AsStrictDecodingError(err); ok && obj != nil {
			for _, e := range strict.Errors() {
				unknown = append(unknown, e.Error())
			}
		} else if err != nil {
			return nil, nil, err
		}
		return obj.(*apiextensions.CustomResourceDefinition), unknown, nil
	}
	ctx := context.Background()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for lines.Scan() {
		var o out
		if err := json.Unmarshal(lines.Bytes(), &o.in); err != nil {
			panic(err)
		}
		func() {
			defer func() {
				if r := recover(); r != nil {
					o.Decode = fmt.Sprint("panic: ", r)
				}
			}()
			crd, unknown, err := decode(o.New)
			o.Unknown = unknown
			if err != nil {
				o.Decode = err.Error()
				return
			}
			var errs field.ErrorList
			if o.Old == nil {
				s := strategy.NewStrategy(scheme)
				s.PrepareForCreate(ctx, crd)
				errs = s.Validate(ctx, crd)
				o.Warnings = s.WarningsOnCreate(ctx, crd)
			} else {
				old, _, err := decode(o.Old)
				if err != nil {
					panic(err)
				}
				if o.Verb == "status" {
					s := strategy.NewStatusStrategy(scheme)
					s.PrepareForUpdate(ctx, crd, old)
					errs = s.ValidateUpdate(ctx, crd, old)
				} else {
					s := strategy.NewStrategy(scheme)
					s.PrepareForUpdate(ctx, crd, old)
					errs = s.ValidateUpdate(ctx, crd, old)
					o.Warnings = s.WarningsOnUpdate(ctx, crd, old)
				}
			}
			for _, e := range errs {
				o.Errors = append(o.Errors, string(e.Type)+" "+e.Error())
			}
			// What is refused is not stored.
			if len(errs) > 0 {
				return
			}
			data, err := runtime.Encode(encoder, crd)
			if err != nil {
				panic(err)
			}
			o.Stored = json.RawMessage(data)
			var kind struct {
				APIVersion string `json:"apiVersion"`
			}
			if json.Unmarshal(o.New, &kind) != nil || kind.APIVersion != v1beta1.SchemeGroupVersion.String() {
				return
			}
			// As a client gets it that reads what is stored.
			again, _, err := decode(data)
			if err != nil {
				panic(err)
			}
			if data, err = runtime.Encode(older, again); err != nil {
				panic(err)
			}
			o.Shown = json.RawMessage(data)
		}()
		if err := enc.Encode(o); err != nil {
			panic(err)
		}
	}
}
