// Command roles prints the roles and bindings that upstream's server makes when it starts, as JSON. From the folder above:
//
//	go run ./roles >../../finalizer-actor/src/roles/defaults.json
//
// Feature gates are at their defaults.
package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"kindom.dev/integration/kube-apiserver/print"
)

const source = "pkg/registry/rbac/rest/storage_rbac.go and plugin/pkg/auth/authorizer/rbac/bootstrappolicy of Kubernetes 1.37"
const command = "go run ./roles >../../finalizer-actor/src/roles/defaults.json, in integration/kube-apiserver"

// object is a role or a binding without the fields that a server sets.
type object struct {
	APIVersion      string                  `json:"apiVersion"`
	Kind            string                  `json:"kind"`
	Metadata        metadata                `json:"metadata"`
	AggregationRule *rbacv1.AggregationRule `json:"aggregationRule,omitempty"`
	Rules           []rbacv1.PolicyRule     `json:"rules,omitempty"`
	RoleRef         *rbacv1.RoleRef         `json:"roleRef,omitempty"`
	Subjects        []rbacv1.Subject        `json:"subjects,omitempty"`
}

type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func bare(kind string, meta metav1.ObjectMeta) object {
	kept := metadata{meta.Name, meta.Namespace, meta.Labels, meta.Annotations}
	return object{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind, Metadata: kept}
}

func main() {
	var clusterRoles, clusterRoleBindings, roles, roleBindings []object
	for _, full := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		role := bare("ClusterRole", full.ObjectMeta)
		role.AggregationRule, role.Rules = full.AggregationRule, full.Rules
		clusterRoles = append(clusterRoles, role)
	}
	for _, full := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		binding := bare("ClusterRoleBinding", full.ObjectMeta)
		binding.RoleRef, binding.Subjects = &full.RoleRef, full.Subjects
		clusterRoleBindings = append(clusterRoleBindings, binding)
	}
	namespaced := bootstrappolicy.NamespaceRoles()
	for _, namespace := range slices.Sorted(maps.Keys(namespaced)) {
		for _, full := range namespaced[namespace] {
			role := bare("Role", full.ObjectMeta)
			role.Rules = full.Rules
			roles = append(roles, role)
		}
	}
	bound := bootstrappolicy.NamespaceRoleBindings()
	for _, namespace := range slices.Sorted(maps.Keys(bound)) {
		for _, full := range bound[namespace] {
			binding := bare("RoleBinding", full.ObjectMeta)
			binding.RoleRef, binding.Subjects = &full.RoleRef, full.Subjects
			roleBindings = append(roleBindings, binding)
		}
	}

	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintf(out, "{\n\"source\":%s,\n\"command\":%s,\n", print.Line(source), print.Line(command))
	print.List(out, "clusterRoles", clusterRoles)
	out.WriteString(",\n")
	print.List(out, "clusterRoleBindings", clusterRoleBindings)
	out.WriteString(",\n")
	print.List(out, "roles", roles)
	out.WriteString(",\n")
	print.List(out, "roleBindings", roleBindings)
	out.WriteString(",\n")
	// The bindings to copy subjects to are among the bindings above.
	split := map[string]string{}
	for from, to := range bootstrappolicy.ClusterRoleBindingsToSplit() {
		split[from] = to.Name
	}
	fmt.Fprintf(out, "\"clusterRolesToAggregate\":%s,\n", print.Line(bootstrappolicy.ClusterRolesToAggregate()))
	fmt.Fprintf(out, "\"clusterRoleBindingsToSplit\":%s\n}\n", print.Line(split))
	if err := out.Flush(); err != nil {
		panic(err)
	}
}
