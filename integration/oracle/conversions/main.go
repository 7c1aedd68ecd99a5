// Records what the conversions of Cluster API, Kueue and Dapr make of random
// objects: ../../expectations/conversions/README.md.
package main

import (
	"flag"
	"log"

	daprv1 "github.com/dapr/dapr/pkg/apis/subscriptions/v1alpha1"
	daprv2 "github.com/dapr/dapr/pkg/apis/subscriptions/v2alpha1"
	addonsv1beta1 "sigs.k8s.io/cluster-api/api/addons/v1beta1"
	addonsv1beta2 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1beta2 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1beta1 "sigs.k8s.io/cluster-api/api/ipam/v1beta1"
	ipamv1beta2 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	kueuev1beta1 "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	kueuev1beta2 "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"kindom.dev/oracle/conversions/record"
)

const (
	clusterAPI = "sigs.k8s.io/cluster-api/api v1.14.2, "
	kueue      = "sigs.k8s.io/kueue v0.17.0, "
	dapr       = "github.com/dapr/dapr v1.14.0, "
)

// version makes a Version of a type.
func version[T any](name string) record.Version {
	return record.Version{Name: name, New: func() any { return new(T) }}
}

func main() {
	out := flag.String("out", "../../expectations/conversions", "the folder to write to")
	flag.Parse()
	seconds := map[string]any{"minimum": 0, "maximum": 2147483647}
	for _, pair := range []record.Pair{
		{
			Source: clusterAPI + "core/v1beta1/conversion.go",
			Group:  "cluster.x-k8s.io", Kind: "MachineHealthCheck", Plural: "machinehealthchecks",
			Other: version[clusterv1beta1.MachineHealthCheck]("v1beta1"),
			Hub:   version[clusterv1beta2.MachineHealthCheck]("v1beta2"),
			ToHub: func(from, to any) error {
				return clusterv1beta1.Convert_v1beta1_MachineHealthCheck_To_v1beta2_MachineHealthCheck(
					from.(*clusterv1beta1.MachineHealthCheck), to.(*clusterv1beta2.MachineHealthCheck), nil)
			},
			ToOther: func(from, to any) error {
				return clusterv1beta1.Convert_v1beta2_MachineHealthCheck_To_v1beta1_MachineHealthCheck(
					from.(*clusterv1beta2.MachineHealthCheck), to.(*clusterv1beta1.MachineHealthCheck), nil)
			},
			Bounds: map[string]map[string]any{
				"spec.checks.nodeStartupTimeoutSeconds":                 seconds,
				"spec.checks.unhealthyNodeConditions.timeoutSeconds":    seconds,
				"spec.checks.unhealthyMachineConditions.timeoutSeconds": seconds,
			},
			Required: []string{
				"spec.checks.unhealthyNodeConditions.timeoutSeconds",
				"spec.checks.unhealthyMachineConditions.timeoutSeconds",
			},
		},
		{
			Source: clusterAPI + "addons/v1beta1/conversion.go",
			Group:  "addons.cluster.x-k8s.io", Kind: "ClusterResourceSet", Plural: "clusterresourcesets",
			Other: version[addonsv1beta1.ClusterResourceSet]("v1beta1"),
			Hub:   version[addonsv1beta2.ClusterResourceSet]("v1beta2"),
			ToHub: func(from, to any) error {
				return addonsv1beta1.Convert_v1beta1_ClusterResourceSet_To_v1beta2_ClusterResourceSet(
					from.(*addonsv1beta1.ClusterResourceSet), to.(*addonsv1beta2.ClusterResourceSet), nil)
			},
			ToOther: func(from, to any) error {
				return addonsv1beta1.Convert_v1beta2_ClusterResourceSet_To_v1beta1_ClusterResourceSet(
					from.(*addonsv1beta2.ClusterResourceSet), to.(*addonsv1beta1.ClusterResourceSet), nil)
			},
		},
		{
			Source: clusterAPI + "ipam/v1beta1/conversion.go",
			Group:  "ipam.cluster.x-k8s.io", Kind: "IPAddressClaim", Plural: "ipaddressclaims",
			Other: version[ipamv1beta1.IPAddressClaim]("v1beta1"),
			Hub:   version[ipamv1beta2.IPAddressClaim]("v1beta2"),
			ToHub: func(from, to any) error {
				return ipamv1beta1.Convert_v1beta1_IPAddressClaim_To_v1beta2_IPAddressClaim(
					from.(*ipamv1beta1.IPAddressClaim), to.(*ipamv1beta2.IPAddressClaim), nil)
			},
			ToOther: func(from, to any) error {
				return ipamv1beta1.Convert_v1beta2_IPAddressClaim_To_v1beta1_IPAddressClaim(
					from.(*ipamv1beta2.IPAddressClaim), to.(*ipamv1beta1.IPAddressClaim), nil)
			},
		},
		{
			Source: kueue + "apis/kueue/v1beta1/localqueue_conversion.go",
			Group:  "kueue.x-k8s.io", Kind: "LocalQueue", Plural: "localqueues",
			Other: version[kueuev1beta1.LocalQueue]("v1beta1"),
			Hub:   version[kueuev1beta2.LocalQueue]("v1beta2"),
			ToHub: func(from, to any) error {
				return from.(*kueuev1beta1.LocalQueue).ConvertTo(to.(*kueuev1beta2.LocalQueue))
			},
			ToOther: func(from, to any) error {
				return to.(*kueuev1beta1.LocalQueue).ConvertFrom(from.(*kueuev1beta2.LocalQueue))
			},
		},
		{
			Source: kueue + "apis/kueue/v1beta1/multikueue_conversion.go",
			Group:  "kueue.x-k8s.io", Kind: "MultiKueueCluster", Plural: "multikueueclusters",
			Other: version[kueuev1beta1.MultiKueueCluster]("v1beta1"),
			Hub:   version[kueuev1beta2.MultiKueueCluster]("v1beta2"),
			ToHub: func(from, to any) error {
				return from.(*kueuev1beta1.MultiKueueCluster).ConvertTo(to.(*kueuev1beta2.MultiKueueCluster))
			},
			ToOther: func(from, to any) error {
				return to.(*kueuev1beta1.MultiKueueCluster).ConvertFrom(from.(*kueuev1beta2.MultiKueueCluster))
			},
			Required: []string{"spec.kubeConfig.location", "spec.clusterSource.kubeConfig.location"},
		},
		{
			Source: dapr + "pkg/apis/subscriptions/v2alpha1/conversion.go",
			Group:  "dapr.io", Kind: "Subscription", Plural: "subscriptions",
			Other: version[daprv2.Subscription]("v2alpha1"),
			Hub:   version[daprv1.Subscription]("v1alpha1"),
			ToHub: func(from, to any) error {
				return from.(*daprv2.Subscription).ConvertTo(to.(*daprv1.Subscription))
			},
			ToOther: func(from, to any) error {
				return to.(*daprv2.Subscription).ConvertFrom(from.(*daprv1.Subscription))
			},
		},
	} {
		if err := record.Write(*out, pair); err != nil {
			log.Fatal(err)
		}
	}
}
