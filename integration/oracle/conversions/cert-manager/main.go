// Records what cert-manager's conversions make of random objects. It is a module
// of its own because its dependencies are of 2021.
package main

import (
	"flag"
	"log"

	v1 "github.com/jetstack/cert-manager/pkg/apis/certmanager/v1"
	"github.com/jetstack/cert-manager/pkg/apis/certmanager/v1alpha2"
	"github.com/jetstack/cert-manager/pkg/webhook"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kindom.dev/oracle/conversions/record"
)

// convert goes through the version in memory, as the webhook does.
func convert(from, to any) error {
	memory := schema.GroupVersion{Group: "cert-manager.io", Version: runtime.APIVersionInternal}
	hub, err := webhook.Scheme.ConvertToVersion(from.(runtime.Object), memory)
	if err != nil {
		return err
	}
	return webhook.Scheme.Convert(hub, to, nil)
}

func main() {
	out := flag.String("out", "../../../expectations/conversions", "the folder to write to")
	flag.Parse()
	err := record.Write(*out, record.Pair{
		Source: "github.com/jetstack/cert-manager v1.5.5, pkg/internal/apis/certmanager/v1alpha2/conversion.go",
		Group:  "cert-manager.io", Kind: "Certificate", Plural: "certificates",
		Other:   record.Version{Name: "v1alpha2", New: func() any { return new(v1alpha2.Certificate) }},
		Hub:     record.Version{Name: "v1", New: func() any { return new(v1.Certificate) }},
		ToHub:   convert,
		ToOther: convert,
		Texts: map[string][]string{
			"spec.keyAlgorithm":         {"rsa", "ecdsa"},
			"spec.keyEncoding":          {"pkcs1", "pkcs8"},
			"spec.privateKey.algorithm": {"RSA", "ECDSA"},
			"spec.privateKey.encoding":  {"PKCS1", "PKCS8"},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
}
