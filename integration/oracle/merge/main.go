// Merge records how structured-merge-diff's schemas are made of registrations.
//
// It reads the cases of `cases.json`, has each published and converted by the
// very code that the API server runs for apply, and writes the types that come
// out, and those of the built-in types, to `expected.json` beside it.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	extensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	generatedopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorconfigurations "k8s.io/kube-aggregator/pkg/client/applyconfiguration"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/scheme"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/schemaconv"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

func main() {
	folder := flag.String("cases", "../expectations/merge", "folder with cases.json")
	flag.Parse()
	if err := record(*folder); err != nil {
		fmt.Fprintln(os.Stderr, "merge:", err)
		os.Exit(1)
	}
}

// testCase is a version of a registration, as far as it says how objects merge.
type testCase struct {
	PreserveUnknownFields bool                             `json:"preserveUnknownFields"`
	Schema                *apiextensionsv1.JSONSchemaProps `json:"schema"`
}

type recorded struct {
	// Types are the named ones, Preserving the same for a registration that
	// keeps unknown fields everywhere.
	Types      map[string]reference `json:"types"`
	Preserving map[string]reference `json:"preserving"`
	Cases      map[string]reference `json:"cases"`
}

func record(folder string) error {
	text, err := os.ReadFile(filepath.Join(folder, "cases.json"))
	if err != nil {
		return err
	}
	cases := map[string]testCase{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&cases); err != nil {
		return err
	}
	out := recorded{Types: map[string]reference{}, Preserving: map[string]reference{}, Cases: map[string]reference{}}
	if err := builtIn(out.Types); err != nil {
		return err
	}
	for name, one := range cases {
		types := out.Types
		if one.PreserveUnknownFields {
			types = out.Preserving
		}
		shape, err := registered(one, types)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		out.Cases[name] = shape
	}
	text, err = json.MarshalIndent(out, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "expected.json"), append(text, '\n'), 0o644)
}

const root = "com.example.merge.v1.Case"

// registered is what buildOpenAPIModelsForApply and NewTypeConverter make of a
// registration; the types beside its own go to types.
func registered(one testCase, types map[string]reference) (reference, error) {
	version := apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1", Served: true, Storage: true}
	if one.Schema != nil {
		version.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: one.Schema}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group:                 "merge.example.com",
		Names:                 apiextensionsv1.CustomResourceDefinitionNames{Plural: "cases", Kind: "Case", ListKind: "CaseList"},
		Scope:                 apiextensionsv1.NamespaceScoped,
		Versions:              []apiextensionsv1.CustomResourceDefinitionVersion{version},
		PreserveUnknownFields: one.PreserveUnknownFields,
	}}
	built, err := builder.BuildOpenAPIV3(crd, "v1", builder.Options{})
	if err != nil {
		return reference{}, err
	}
	merged, err := builder.MergeSpecsV3(built)
	if err != nil {
		return reference{}, err
	}
	smd, err := schemaconv.ToSchemaFromOpenAPI(merged.Components.Schemas, one.PreserveUnknownFields)
	if err != nil {
		return reference{}, err
	}
	var own reference
	for _, def := range smd.Types {
		switch def.Name {
		case root:
			own = atom(def.Atom)
		case root + "List":
		default:
			types[def.Name] = atom(def.Atom)
		}
	}
	return own, nil
}

// builtIn adds the types that the server itself has.
func builtIn(types map[string]reference) error {
	definitions := openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(generatedopenapi.GetOpenAPIDefinitions)
	namer := openapinamer.NewDefinitionNamer(extensionsapiserver.Scheme, scheme.Scheme)
	config := genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	models := map[string]*spec.Schema{}
	for _, object := range []any{
		&apiextensionsv1.CustomResourceDefinition{}, &apiextensionsv1beta1.CustomResourceDefinition{}, &autoscalingv1.Scale{},
	} {
		built, err := builder3.BuildOpenAPIDefinitionsForResources(config, openapiutil.GetCanonicalTypeName(object))
		if err != nil {
			return err
		}
		for name, model := range built {
			models[name] = model
		}
	}
	smd, err := schemaconv.ToSchemaFromOpenAPI(models, false)
	if err != nil {
		return err
	}
	for _, def := range smd.Types {
		types[def.Name] = atom(def.Atom)
	}
	// What no API server of this module has, clients have.
	converter := applyconfigurations.NewTypeConverter(scheme.Scheme)
	for _, object := range []runtime.Object{
		&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}},
		&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}},
		&corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}},
		&flowcontrolv1.FlowSchema{TypeMeta: metav1.TypeMeta{APIVersion: "flowcontrol.apiserver.k8s.io/v1", Kind: "FlowSchema"}},
		&flowcontrolv1.PriorityLevelConfiguration{TypeMeta: metav1.TypeMeta{APIVersion: "flowcontrol.apiserver.k8s.io/v1", Kind: "PriorityLevelConfiguration"}},
		&networkingv1.IPAddress{TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "IPAddress"}},
		&corev1.Endpoints{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"}},
		&discoveryv1.EndpointSlice{TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}},
		&corev1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}},
		&eventsv1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "events.k8s.io/v1", Kind: "Event"}},
		&appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}},
		&appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}},
		&appsv1.ReplicaSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}},
		&appsv1.StatefulSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}},
		&batchv1.CronJob{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"}},
		&batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}},
		&networkingv1.Ingress{TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"}},
		&networkingv1.IngressClass{TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "IngressClass"}},
		&networkingv1.NetworkPolicy{TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}},
		&policyv1.PodDisruptionBudget{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}},
		&autoscalingv1.HorizontalPodAutoscaler{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "HorizontalPodAutoscaler"}},
		&appsv1.ControllerRevision{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"}},
		&storagev1.CSINode{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSINode"}},
		&storagev1.VolumeAttachment{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment"}},
		&resourcev1.DeviceClass{TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "DeviceClass"}},
		&resourcev1.ResourceClaim{TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"}},
		&resourcev1.ResourceClaimTemplate{TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaimTemplate"}},
		&resourcev1.ResourceSlice{TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"}},
		&networkingv1.ServiceCIDR{TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "ServiceCIDR"}},
		&autoscalingv2.HorizontalPodAutoscaler{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"}},
		&nodev1.RuntimeClass{TypeMeta: metav1.TypeMeta{APIVersion: "node.k8s.io/v1", Kind: "RuntimeClass"}},
		&storagev1.CSIDriver{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIDriver"}},
		&storagev1.CSIStorageCapacity{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIStorageCapacity"}},
		&storagev1.StorageClass{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"}},
		&storagev1.VolumeAttributesClass{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttributesClass"}},
		&corev1.LimitRange{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "LimitRange"}},
		&corev1.ResourceQuota{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}},
		&corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}},
		&corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}},
		&corev1.PodTemplate{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodTemplate"}},
		&corev1.ReplicationController{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ReplicationController"}},
		&corev1.PersistentVolume{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}},
		&corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}},
		&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}},
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}},
		&rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}},
		&rbacv1.ClusterRoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"}},
		&rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"}},
		&rbacv1.RoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"}},
		&admissionregistrationv1.MutatingWebhookConfiguration{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"}},
		&admissionregistrationv1.MutatingAdmissionPolicy{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingAdmissionPolicy"}},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingAdmissionPolicyBinding"}},
		&admissionregistrationv1.ValidatingAdmissionPolicy{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicy"}},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicyBinding"}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"}},
		&certificatesv1.CertificateSigningRequest{TypeMeta: metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}},
		&schedulingv1.PriorityClass{TypeMeta: metav1.TypeMeta{APIVersion: "scheduling.k8s.io/v1", Kind: "PriorityClass"}},
		&coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}},
	} {
		typed, err := converter.ObjectToTyped(object)
		if err != nil {
			return err
		}
		if err := closure(typed.Schema(), typed.TypeRef(), types); err != nil {
			return err
		}
	}
	// The aggregator's own types are its own module's.
	service := &apiregistrationv1.APIService{TypeMeta: metav1.TypeMeta{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService"}}
	typed, err := aggregatorconfigurations.NewTypeConverter(aggregatorscheme.Scheme).ObjectToTyped(service)
	if err != nil {
		return err
	}
	return closure(typed.Schema(), typed.TypeRef(), types)
}

// closure adds a named type and all that it refers to.
func closure(all *schema.Schema, of schema.TypeRef, types map[string]reference) error {
	if of.NamedType == nil {
		return within(all, of.Inlined, types)
	}
	if _, ok := types[*of.NamedType]; ok {
		return nil
	}
	def, ok := all.FindNamedType(*of.NamedType)
	if !ok {
		return fmt.Errorf("there is no type %s", *of.NamedType)
	}
	types[def.Name] = atom(def.Atom)
	return within(all, def.Atom, types)
}

func within(all *schema.Schema, of schema.Atom, types map[string]reference) error {
	below := []schema.TypeRef{}
	if of.List != nil {
		below = append(below, of.List.ElementType)
	}
	if of.Map != nil {
		below = append(below, of.Map.ElementType)
		for _, field := range of.Map.Fields {
			below = append(below, field.Type)
		}
	}
	for _, one := range below {
		if err := closure(all, one, types); err != nil {
			return err
		}
	}
	return nil
}
