package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// typeCases are registrations, and policies about their objects and those of
// built-in kinds.
type typeCases struct {
	Types    []*apiextensionsv1.CustomResourceDefinition `json:"types"`
	Policies []struct {
		Name string                                                `json:"name"`
		Spec admissionregistrationv1.ValidatingAdmissionPolicySpec `json:"spec"`
	} `json:"policies"`
}

// recordTypes writes the warnings that the controller
// `validatingadmissionpolicy-status-controller` of kube-controller-manager has
// for each policy: its checker, with the schemas that the server publishes.
func recordTypes(folder, binary, base string, client *http.Client) error {
	text, err := os.ReadFile(filepath.Join(folder, "cases.json"))
	if err != nil {
		return err
	}
	var cases typeCases
	if err := json.Unmarshal(text, &cases); err != nil {
		return err
	}
	for _, crd := range cases.Types {
		if err := makeType(base, client, crd); err != nil {
			return err
		}
	}
	config := &rest.Config{Host: base}
	discoverer, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return err
	}
	typed, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return err
	}
	checker := &validating.TypeChecker{
		SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: discoverer},
		RestMapper:     restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer)),
	}
	made, err := headerOf(settings{binary: binary})
	if err != nil {
		return err
	}
	made["command"] = "go run . -kube-apiserver FILE -types ../expectations/types"
	type warnings struct {
		Policy   string                                      `json:"policy"`
		Warnings []admissionregistrationv1.ExpressionWarning `json:"warnings"`
	}
	expected := struct {
		Oracle map[string]string `json:"oracle"`
		Cases  string            `json:"cases"`
		Found  []warnings        `json:"found"`
	}{Oracle: made, Cases: fingerprint(text)}
	// Upstream adds nanoseconds to the kind, so that no two types have one name.
	unique := regexp.MustCompile(`\b([A-Z][A-Za-z]+)[0-9]{4,9}\b`)
	for _, of := range cases.Policies {
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: of.Name}, Spec: of.Spec}
		// With the server's defaults, and only if it takes the policy.
		stored, err := typed.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(context.Background(), policy, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		found := checker.Check(stored)
		for i := range found {
			found[i].Warning = unique.ReplaceAllString(found[i].Warning, "$1")
		}
		expected.Found = append(expected.Found, warnings{Policy: of.Name, Warnings: found})
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(expected); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "expected.json"), out.Bytes(), 0o644)
}

// makeType makes a registration and waits until the server describes its type.
func makeType(base string, client *http.Client, crd *apiextensionsv1.CustomResourceDefinition) error {
	text, err := json.Marshal(crd)
	if err != nil {
		return err
	}
	answer, err := client.Post(base+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		why, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s: %s", crd.Name, why)
	}
	for limit := time.Now().Add(startLimit); time.Now().Before(limit); time.Sleep(100 * time.Millisecond) {
		described := true
		for _, version := range crd.Spec.Versions {
			if !version.Served {
				continue
			}
			answer, err := client.Get(fmt.Sprintf("%s/openapi/v3/apis/%s/%s", base, crd.Spec.Group, version.Name))
			if err != nil {
				return err
			}
			var text bytes.Buffer
			_, err = text.ReadFrom(answer.Body)
			answer.Body.Close()
			if err != nil {
				return err
			}
			described = described && bytes.Contains(text.Bytes(), []byte(fmt.Sprintf("%q", crd.Spec.Names.Kind)))
		}
		if described {
			return nil
		}
	}
	return fmt.Errorf("%s is not described", crd.Name)
}
