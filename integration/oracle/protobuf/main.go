// Command protobuf writes down how upstream's Go types look as protobuf: the table that codec/src/protobuf converts by, and
// samples, each as JSON and as the bytes that the types' own encoder makes of it. From integration/oracle: go run ./protobuf
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"sort"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// What is served, and what clients send beside: an apiVersion, a kind, its Go type. The table leaves out what kindom declares
// itself (objects/src/kinds); its samples hold the declarations.
var kinds = []struct {
	apiVersion, kind string
	of               any
	declared         bool
}{
	// `/api` says none.
	{"", "APIVersions", metav1.APIVersions{}, false},
	{"apiextensions.k8s.io/v1", "CustomResourceDefinition", apiextensionsv1.CustomResourceDefinition{}, false},
	{"apiextensions.k8s.io/v1", "CustomResourceDefinitionList", apiextensionsv1.CustomResourceDefinitionList{}, false},
	{"apiextensions.k8s.io/v1beta1", "CustomResourceDefinition", apiextensionsv1beta1.CustomResourceDefinition{}, false},
	{"apiextensions.k8s.io/v1beta1", "CustomResourceDefinitionList", apiextensionsv1beta1.CustomResourceDefinitionList{}, false},
	{"autoscaling/v1", "Scale", autoscalingv1.Scale{}, false},
	{"coordination.k8s.io/v1", "Lease", coordinationv1.Lease{}, true},
	{"meta.k8s.io/v1", "DeleteOptions", metav1.DeleteOptions{}, false},
	{"meta.k8s.io/v1", "PartialObjectMetadata", metav1.PartialObjectMetadata{}, false},
	{"meta.k8s.io/v1", "PartialObjectMetadataList", metav1.PartialObjectMetadataList{}, false},
	{"meta.k8s.io/v1beta1", "PartialObjectMetadata", metav1.PartialObjectMetadata{}, false},
	{"meta.k8s.io/v1beta1", "PartialObjectMetadataList", metav1beta1.PartialObjectMetadataList{}, false},
	{"v1", "APIGroup", metav1.APIGroup{}, false},
	{"v1", "APIGroupList", metav1.APIGroupList{}, false},
	{"v1", "APIResourceList", metav1.APIResourceList{}, false},
	{"discovery.k8s.io/v1", "EndpointSlice", discoveryv1.EndpointSlice{}, true},
	{"discovery.k8s.io/v1", "EndpointSliceList", discoveryv1.EndpointSliceList{}, true},
	{"events.k8s.io/v1", "Event", eventsv1.Event{}, true},
	{"events.k8s.io/v1", "EventList", eventsv1.EventList{}, true},
	{"v1", "Endpoints", corev1.Endpoints{}, true},
	{"v1", "EndpointsList", corev1.EndpointsList{}, true},
	{"v1", "Service", corev1.Service{}, true},
	{"v1", "ServiceList", corev1.ServiceList{}, true},
	{"flowcontrol.apiserver.k8s.io/v1", "FlowSchema", flowcontrolv1.FlowSchema{}, true},
	{"flowcontrol.apiserver.k8s.io/v1", "FlowSchemaList", flowcontrolv1.FlowSchemaList{}, true},
	{"flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration", flowcontrolv1.PriorityLevelConfiguration{}, true},
	{"flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfigurationList", flowcontrolv1.PriorityLevelConfigurationList{}, true},
	{"networking.k8s.io/v1", "IPAddress", networkingv1.IPAddress{}, true},
	{"networking.k8s.io/v1", "IPAddressList", networkingv1.IPAddressList{}, true},
	{"v1", "Event", corev1.Event{}, true},
	{"v1", "EventList", corev1.EventList{}, true},
	{"v1", "LimitRange", corev1.LimitRange{}, true},
	{"v1", "LimitRangeList", corev1.LimitRangeList{}, true},
	{"v1", "Namespace", corev1.Namespace{}, true},
	{"v1", "NamespaceList", corev1.NamespaceList{}, true},
	{"v1", "Binding", corev1.Binding{}, true},
	{"v1", "Pod", corev1.Pod{}, true},
	{"v1", "PodList", corev1.PodList{}, true},
	{"v1", "Node", corev1.Node{}, true},
	{"v1", "NodeList", corev1.NodeList{}, true},
	{"v1", "PodTemplate", corev1.PodTemplate{}, true},
	{"v1", "PodTemplateList", corev1.PodTemplateList{}, true},
	{"v1", "ReplicationController", corev1.ReplicationController{}, true},
	{"v1", "ReplicationControllerList", corev1.ReplicationControllerList{}, true},
	{"v1", "PersistentVolume", corev1.PersistentVolume{}, true},
	{"v1", "PersistentVolumeList", corev1.PersistentVolumeList{}, true},
	{"v1", "PersistentVolumeClaim", corev1.PersistentVolumeClaim{}, true},
	{"v1", "PersistentVolumeClaimList", corev1.PersistentVolumeClaimList{}, true},
	{"v1", "ResourceQuota", corev1.ResourceQuota{}, true},
	{"v1", "ResourceQuotaList", corev1.ResourceQuotaList{}, true},
	{"v1", "Secret", corev1.Secret{}, true},
	{"v1", "SecretList", corev1.SecretList{}, true},
	{"v1", "ServiceAccount", corev1.ServiceAccount{}, true},
	{"v1", "ServiceAccountList", corev1.ServiceAccountList{}, true},
	{"v1", "Service", corev1.Service{}, false},
	{"v1", "Status", metav1.Status{}, false},
	{"coordination.k8s.io/v1", "LeaseList", coordinationv1.LeaseList{}, true},
	{"authentication.k8s.io/v1", "SelfSubjectReview", authenticationv1.SelfSubjectReview{}, true},
	{"apps/v1", "DaemonSet", appsv1.DaemonSet{}, true},
	{"apps/v1", "DaemonSetList", appsv1.DaemonSetList{}, true},
	{"apps/v1", "Deployment", appsv1.Deployment{}, true},
	{"apps/v1", "DeploymentList", appsv1.DeploymentList{}, true},
	{"apps/v1", "ReplicaSet", appsv1.ReplicaSet{}, true},
	{"apps/v1", "ReplicaSetList", appsv1.ReplicaSetList{}, true},
	{"apps/v1", "StatefulSet", appsv1.StatefulSet{}, true},
	{"apps/v1", "StatefulSetList", appsv1.StatefulSetList{}, true},
	{"batch/v1", "CronJob", batchv1.CronJob{}, true},
	{"batch/v1", "CronJobList", batchv1.CronJobList{}, true},
	{"batch/v1", "Job", batchv1.Job{}, true},
	{"batch/v1", "JobList", batchv1.JobList{}, true},
	{"networking.k8s.io/v1", "Ingress", networkingv1.Ingress{}, true},
	{"networking.k8s.io/v1", "IngressList", networkingv1.IngressList{}, true},
	{"networking.k8s.io/v1", "IngressClass", networkingv1.IngressClass{}, true},
	{"networking.k8s.io/v1", "IngressClassList", networkingv1.IngressClassList{}, true},
	{"networking.k8s.io/v1", "NetworkPolicy", networkingv1.NetworkPolicy{}, true},
	{"networking.k8s.io/v1", "NetworkPolicyList", networkingv1.NetworkPolicyList{}, true},
	{"policy/v1", "PodDisruptionBudget", policyv1.PodDisruptionBudget{}, true},
	{"policy/v1", "PodDisruptionBudgetList", policyv1.PodDisruptionBudgetList{}, true},
	{"autoscaling/v2", "HorizontalPodAutoscaler", autoscalingv2.HorizontalPodAutoscaler{}, true},
	{"autoscaling/v2", "HorizontalPodAutoscalerList", autoscalingv2.HorizontalPodAutoscalerList{}, true},
	{"node.k8s.io/v1", "RuntimeClass", nodev1.RuntimeClass{}, true},
	{"node.k8s.io/v1", "RuntimeClassList", nodev1.RuntimeClassList{}, true},
	{"storage.k8s.io/v1", "CSIDriver", storagev1.CSIDriver{}, true},
	{"storage.k8s.io/v1", "CSIDriverList", storagev1.CSIDriverList{}, true},
	{"storage.k8s.io/v1", "CSIStorageCapacity", storagev1.CSIStorageCapacity{}, true},
	{"storage.k8s.io/v1", "CSIStorageCapacityList", storagev1.CSIStorageCapacityList{}, true},
	{"storage.k8s.io/v1", "StorageClass", storagev1.StorageClass{}, true},
	{"storage.k8s.io/v1", "StorageClassList", storagev1.StorageClassList{}, true},
	{"storage.k8s.io/v1", "VolumeAttributesClass", storagev1.VolumeAttributesClass{}, true},
	{"storage.k8s.io/v1", "VolumeAttributesClassList", storagev1.VolumeAttributesClassList{}, true},
	{"authentication.k8s.io/v1", "TokenRequest", authenticationv1.TokenRequest{}, true},
	{"authentication.k8s.io/v1", "TokenReview", authenticationv1.TokenReview{}, true},
	{"authorization.k8s.io/v1", "LocalSubjectAccessReview", authorizationv1.LocalSubjectAccessReview{}, true},
	{"authorization.k8s.io/v1", "SelfSubjectAccessReview", authorizationv1.SelfSubjectAccessReview{}, true},
	{"authorization.k8s.io/v1", "SelfSubjectRulesReview", authorizationv1.SelfSubjectRulesReview{}, true},
	{"authorization.k8s.io/v1", "SubjectAccessReview", authorizationv1.SubjectAccessReview{}, true},
	{"admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", admissionregistrationv1.MutatingWebhookConfiguration{}, true},
	{"admissionregistration.k8s.io/v1", "MutatingWebhookConfigurationList", admissionregistrationv1.MutatingWebhookConfigurationList{}, true},
	{"admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", admissionregistrationv1.MutatingAdmissionPolicy{}, true},
	{"admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyList", admissionregistrationv1.MutatingAdmissionPolicyList{}, true},
	{"admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding", admissionregistrationv1.MutatingAdmissionPolicyBinding{}, true},
	{"admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBindingList", admissionregistrationv1.MutatingAdmissionPolicyBindingList{}, true},
	{"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", admissionregistrationv1.ValidatingAdmissionPolicy{}, true},
	{"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyList", admissionregistrationv1.ValidatingAdmissionPolicyList{}, true},
	{"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, true},
	{"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBindingList", admissionregistrationv1.ValidatingAdmissionPolicyBindingList{}, true},
	{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", admissionregistrationv1.ValidatingWebhookConfiguration{}, true},
	{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfigurationList", admissionregistrationv1.ValidatingWebhookConfigurationList{}, true},
	{"certificates.k8s.io/v1", "CertificateSigningRequest", certificatesv1.CertificateSigningRequest{}, true},
	{"certificates.k8s.io/v1", "CertificateSigningRequestList", certificatesv1.CertificateSigningRequestList{}, true},
	{"v1", "ConfigMap", corev1.ConfigMap{}, true},
	{"v1", "ConfigMapList", corev1.ConfigMapList{}, true},
	{"rbac.authorization.k8s.io/v1", "ClusterRole", rbacv1.ClusterRole{}, true},
	{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", rbacv1.ClusterRoleBinding{}, true},
	{"rbac.authorization.k8s.io/v1", "ClusterRoleBindingList", rbacv1.ClusterRoleBindingList{}, true},
	{"rbac.authorization.k8s.io/v1", "ClusterRoleList", rbacv1.ClusterRoleList{}, true},
	{"rbac.authorization.k8s.io/v1", "Role", rbacv1.Role{}, true},
	{"rbac.authorization.k8s.io/v1", "RoleBinding", rbacv1.RoleBinding{}, true},
	{"rbac.authorization.k8s.io/v1", "RoleBindingList", rbacv1.RoleBindingList{}, true},
	{"rbac.authorization.k8s.io/v1", "RoleList", rbacv1.RoleList{}, true},
	{"scheduling.k8s.io/v1", "PriorityClass", schedulingv1.PriorityClass{}, true},
	{"scheduling.k8s.io/v1", "PriorityClassList", schedulingv1.PriorityClassList{}, true},
	{"apiregistration.k8s.io/v1", "APIService", apiregistrationv1.APIService{}, true},
	{"apiregistration.k8s.io/v1", "APIServiceList", apiregistrationv1.APIServiceList{}, true},
	{"autoscaling/v1", "HorizontalPodAutoscaler", autoscalingv1.HorizontalPodAutoscaler{}, true},
	{"autoscaling/v1", "HorizontalPodAutoscalerList", autoscalingv1.HorizontalPodAutoscalerList{}, true},
	{"apps/v1", "ControllerRevision", appsv1.ControllerRevision{}, true},
	{"apps/v1", "ControllerRevisionList", appsv1.ControllerRevisionList{}, true},
	{"storage.k8s.io/v1", "CSINode", storagev1.CSINode{}, true},
	{"storage.k8s.io/v1", "CSINodeList", storagev1.CSINodeList{}, true},
	{"storage.k8s.io/v1", "VolumeAttachment", storagev1.VolumeAttachment{}, true},
	{"storage.k8s.io/v1", "VolumeAttachmentList", storagev1.VolumeAttachmentList{}, true},
	{"networking.k8s.io/v1", "ServiceCIDR", networkingv1.ServiceCIDR{}, true},
	{"networking.k8s.io/v1", "ServiceCIDRList", networkingv1.ServiceCIDRList{}, true},
	{"resource.k8s.io/v1", "DeviceClass", resourcev1.DeviceClass{}, true},
	{"resource.k8s.io/v1", "DeviceClassList", resourcev1.DeviceClassList{}, true},
	{"resource.k8s.io/v1", "ResourceClaim", resourcev1.ResourceClaim{}, true},
	{"resource.k8s.io/v1", "ResourceClaimList", resourcev1.ResourceClaimList{}, true},
	{"resource.k8s.io/v1", "ResourceClaimTemplate", resourcev1.ResourceClaimTemplate{}, true},
	{"resource.k8s.io/v1", "ResourceClaimTemplateList", resourcev1.ResourceClaimTemplateList{}, true},
	{"resource.k8s.io/v1", "ResourceSlice", resourcev1.ResourceSlice{}, true},
	{"resource.k8s.io/v1", "ResourceSliceList", resourcev1.ResourceSliceList{}, true},
}

// Types that convert themselves, by what the table calls them.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():          "Time",
	reflect.TypeFor[metav1.MicroTime]():     "MicroTime",
	reflect.TypeFor[resource.Quantity]():    "Quantity",
	reflect.TypeFor[intstr.IntOrString]():   "IntOrString",
	reflect.TypeFor[metav1.FieldsV1]():      "Json",
	reflect.TypeFor[runtime.RawExtension](): "Json",

	reflect.TypeFor[apiextensionsv1.JSON]():                              "Json",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():            "SchemaOrArray",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():             "SchemaOrBool",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray]():      "SchemaOrTexts",
	reflect.TypeFor[apiextensionsv1beta1.JSON]():                         "Json",
	reflect.TypeFor[apiextensionsv1beta1.JSONSchemaPropsOrArray]():       "SchemaOrArray",
	reflect.TypeFor[apiextensionsv1beta1.JSONSchemaPropsOrBool]():        "SchemaOrBool",
	reflect.TypeFor[apiextensionsv1beta1.JSONSchemaPropsOrStringArray](): "SchemaOrTexts",
}

// Fields that no version has any more, which servers of before wrote empty: message, number, name.
var gone = map[reflect.Type]field{
	reflect.TypeFor[metav1.ObjectMeta](): {15, "ClusterName", "clusterName", "Gone", "One", false},
}

type field struct {
	number           int
	goName, jsonName string
	kind             string
	many             string
	always           bool
}

type table struct {
	names map[reflect.Type]string
	text  map[string]string
}

// static gives the name of a message's static, which it writes first if it is new.
func (t *table) static(of reflect.Type) string {
	if name, known := t.names[of]; known {
		return name
	}
	parts := strings.Split(of.PkgPath(), "/")
	group, version := parts[len(parts)-2], parts[len(parts)-1]
	var name strings.Builder
	fmt.Fprintf(&name, "%s_%s_", strings.ToUpper(group), strings.ToUpper(version))
	for i, r := range of.Name() {
		if i > 0 && r >= 'A' && r <= 'Z' {
			before, after := of.Name()[i-1], byte('A')
			if i+1 < len(of.Name()) {
				after = of.Name()[i+1]
			}
			if before >= 'a' && before <= 'z' || after >= 'a' && after <= 'z' {
				name.WriteByte('_')
			}
		}
		name.WriteString(strings.ToUpper(string(r)))
	}
	t.names[of] = name.String()
	fields := []field{}
	for i := range of.NumField() {
		if field, is := t.field(of.Field(i)); is {
			fields = append(fields, field)
		}
	}
	if field, has := gone[of]; has {
		fields = append(fields, field)
	}
	sort.Slice(fields, func(i, j int) bool { return fields[i].number < fields[j].number })
	var out strings.Builder
	fmt.Fprintf(&out, "pub(super) static %s: Message = Message(%q, &[\n", name.String(), of.Name())
	for _, f := range fields {
		presence := "Omit"
		if f.always {
			presence = "Keep"
		}
		fmt.Fprintf(&out, "    Field(%d, %q, %q, %s, %s, %s),\n", f.number, f.goName, f.jsonName, f.kind, f.many, presence)
	}
	out.WriteString("]);\n")
	t.text[name.String()] = out.String()
	return name.String()
}

func (t *table) field(of reflect.StructField) (field, bool) {
	tag, has := of.Tag.Lookup("protobuf")
	if !has || tag == "-" {
		return field{}, false
	}
	number, err := strconv.Atoi(strings.Split(tag, ",")[1])
	if err != nil {
		panic(fmt.Sprintf("%s: %q", of.Name, tag))
	}
	options := strings.Split(of.Tag.Get("json"), ",")
	name, options := options[0], options[1:]
	if name == "" {
		panic(of.Name + " is inlined in JSON and a message of its own in protobuf: the table has no such field yet")
	}
	is := func(option string) bool {
		for _, o := range options {
			if o == option {
				return true
			}
		}
		return false
	}
	out := field{number: number, goName: of.Name, jsonName: name, many: "One"}
	kind := of.Type
	nullable := false
	switch {
	case kind.Kind() == reflect.Slice && reflect.PointerTo(kind).Implements(reflect.TypeFor[interface{ Marshal() ([]byte, error) }]()):
		// A list that is nullable is a message of its own: `Verbs`.
		out.kind, out.many, out.always = "Texts", "One", !is("omitempty")
		return out, true
	case kind.Kind() == reflect.Pointer:
		kind, out.many, nullable = kind.Elem(), "Pointer", true
	case kind.Kind() == reflect.Slice && kind.Elem().Kind() != reflect.Uint8:
		kind, out.many, nullable = kind.Elem(), "Several", true
	case kind.Kind() == reflect.Map:
		kind, out.many, nullable = kind.Elem(), "Map", true
	}
	out.kind = t.kind(kind)
	isStruct := !nullable && kind.Kind() == reflect.Struct
	out.always = isStruct && !is("omitzero") || !isStruct && !is("omitempty")
	return out, true
}

func (t *table) kind(of reflect.Type) string {
	if name, is := special[of]; is {
		if strings.HasPrefix(name, "Schema") {
			// Its schema is the message that it belongs to.
			schema, _ := of.FieldByName("Schema")
			return fmt.Sprintf("%s(&%s)", name, t.static(schema.Type.Elem()))
		}
		return name
	}
	switch of.Kind() {
	case reflect.String:
		return "Text"
	case reflect.Bool:
		return "Bool"
	case reflect.Int32:
		return "Int32"
	case reflect.Int64:
		return "Int64"
	case reflect.Float64:
		return "Double"
	case reflect.Slice:
		return "Bytes"
	case reflect.Struct:
		return fmt.Sprintf("Of(&%s)", t.static(of))
	}
	panic("no such kind in the table: " + of.String())
}

// kinds lists the kinds of values that the table names, sorted.
func (t *table) kinds() []string {
	found := map[string]bool{}
	for _, text := range t.text {
		for _, match := range fieldKind.FindAllStringSubmatch(text, -1) {
			found[match[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// fieldKind finds the kind in a line of the table.
var fieldKind = regexp.MustCompile(`Field\(\d+, "\w+", "[^"]+", (\w+)`)

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return module + " " + dependency.Version
		}
	}
	panic(module)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	tablePath := flag.String("table", "../../codec/src/protobuf/catalogue.rs", "where the table goes")
	samplesPath := flag.String("samples", "../expectations/protobuf/samples.json", "where the samples go")
	flag.Parse()
	t := table{map[reflect.Type]string{}, map[string]string{}}
	var index strings.Builder
	for _, kind := range kinds {
		if kind.declared {
			continue
		}
		fmt.Fprintf(&index, "    (%q, %q, &%s),\n", kind.apiVersion, kind.kind, t.static(reflect.TypeOf(kind.of)))
	}
	var out strings.Builder
	fmt.Fprintf(&out, `// Written by "go run ./protobuf" in integration/oracle, by reflection over the Go types of
// %s, %s,
// %s. Do not edit.

use super::Kind::{%s};
use super::Many::{Map, One, Pointer, Several};
use super::Presence::{Keep, Omit};
use super::{Field, Message};

/// The messages of kinds, sorted by apiVersion and kind.
pub(super) static KINDS: &[(&str, &str, &Message)] = &[
%s];

`, version("k8s.io/apiextensions-apiserver"), version("k8s.io/apimachinery"), version("k8s.io/api"), strings.Join(t.kinds(), ", "), index.String())
	names := []string{}
	for name := range t.text {
		names = append(names, name)
	}
	sort.Strings(names)
	for i, name := range names {
		if i > 0 {
			out.WriteString("\n")
		}
		out.WriteString(t.text[name])
	}
	if err := os.WriteFile(*tablePath, []byte(out.String()), 0o644); err != nil {
		panic(err)
	}

	samples := []map[string]any{}
	for i, kind := range kinds {
		for seed := range 16 {
			fill := filler{random: newRandom(int64(1000*i + seed))}
			object := reflect.New(reflect.TypeOf(kind.of))
			// The first is empty.
			if seed > 0 {
				fill.value(object.Elem(), 0)
			}
			if meta := object.Elem().FieldByName("TypeMeta"); meta.IsValid() {
				meta.Set(reflect.ValueOf(metav1.TypeMeta{APIVersion: kind.apiVersion, Kind: kind.kind}))
			}
			// Read back until nothing changes, as what a server writes is what it read: a zero time becomes none.
			text, read := must(json.Marshal(object.Interface())), reflect.Value{}
			for previous := []byte(nil); !bytes.Equal(text, previous); {
				previous, read = text, reflect.New(reflect.TypeOf(kind.of))
				if err := json.Unmarshal(text, read.Interface()); err != nil {
					panic(err)
				}
				text = must(json.Marshal(read.Interface()))
			}
			raw := must(read.Interface().(interface{ Marshal() ([]byte, error) }).Marshal())
			unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: kind.apiVersion, Kind: kind.kind}, Raw: raw}
			samples = append(samples, map[string]any{
				"apiVersion": kind.apiVersion,
				"kind":       kind.kind,
				"json":       json.RawMessage(text),
				"protobuf":   base64.StdEncoding.EncodeToString(append([]byte("k8s\x00"), must(unknown.Marshal())...)),
			})
		}
	}
	watch := metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: []byte("k8s\x00raw")}}
	var document bytes.Buffer
	fmt.Fprintf(&document, "{\n \"about\": %q,\n \"watch\": %q,\n \"samples\": [\n",
		"What the encoders of upstream's Go types make of random objects. Written by: go run ./protobuf",
		base64.StdEncoding.EncodeToString(must(watch.Marshal())))
	for i, sample := range samples {
		if i > 0 {
			document.WriteString(",\n")
		}
		document.Write(must(json.Marshal(sample)))
	}
	document.WriteString("\n ]\n}\n")
	if err := os.WriteFile(*samplesPath, document.Bytes(), 0o644); err != nil {
		panic(err)
	}
}
