#!/usr/bin/env python3
"""Writes how Kubernetes publishes the kinds that kindom declares (objects/src/kinds), without descriptions.

The schemas are those of api/openapi-spec/v3 in the module k8s.io/kubernetes, of the version that integration/kube-apiserver names.

    python3 integration/oracle/schemas.py > integration/expectations/built-in/openapi.json
"""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = {
    "api__v1": ["Namespace", "NamespaceList", "NamespaceSpec", "NamespaceStatus", "NamespaceCondition", "ConfigMap", "ConfigMapList",
        "Secret", "SecretList", "ServiceAccount", "ServiceAccountList", "ObjectReference", "LocalObjectReference", "Event", "EventList",
        "EventSeries", "EventSource", "LimitRange", "LimitRangeItem", "LimitRangeList", "LimitRangeSpec",
        "BoundObjectReference", "TokenRequest", "TokenRequestSpec", "TokenRequestStatus",
        "Endpoints", "EndpointsList", "EndpointAddress", "EndpointPort", "EndpointSubset",
        "ClientIPConfig", "LoadBalancerIngress", "LoadBalancerStatus", "PortStatus", "Service", "ServiceList", "ServicePort",
        "ServiceSpec", "ServiceStatus", "SessionAffinityConfig",
        "ResourceQuota", "ResourceQuotaList", "ResourceQuotaSpec", "ResourceQuotaStatus", "ScopeSelector", "ScopedResourceSelectorRequirement",
        "Binding", "Pod", "PodList", "PodStatus", "PodCondition", "PodIP", "HostIP", "PodResourceClaimStatus",
        "PodExtendedResourceClaimStatus", "PodVolumeHealth", "ContainerExtendedResourceRequest", "ContainerState",
        "ContainerStateRunning", "ContainerStateTerminated", "ContainerStateWaiting", "ContainerStatus", "ContainerUser",
        "LinuxContainerUser", "ImageVolumeStatus", "NodeAllocatableMappedResources", "NodeAllocatableOverheadResources",
        "NodeAllocatableResourceClaimStatus", "ResourceHealth", "ResourceStatus", "VolumeMountStatus", "VolumeStatus",
        "Node", "NodeList", "NodeSpec", "NodeStatus", "AttachedVolume", "ConfigMapNodeConfigSource", "ContainerImage",
        "DaemonEndpoint", "NodeAddress", "NodeCondition", "NodeConfigSource", "NodeConfigStatus", "NodeDaemonEndpoints",
        "NodeFeatures", "NodePodPreemptionPolicy", "NodeRuntimeHandler", "NodeRuntimeHandlerFeatures", "NodeSwapStatus",
        "NodeSystemInfo", "Taint", "PodTemplate", "PodTemplateList", "ReplicationController", "ReplicationControllerList",
        "ReplicationControllerSpec", "ReplicationControllerStatus", "ReplicationControllerCondition",
        "PersistentVolume", "PersistentVolumeList", "PersistentVolumeSpec", "PersistentVolumeStatus", "PersistentVolumeClaimList",
        "AzureFilePersistentVolumeSource", "CSIPersistentVolumeSource", "CephFSPersistentVolumeSource",
        "CinderPersistentVolumeSource", "FlexPersistentVolumeSource", "GlusterfsPersistentVolumeSource",
        "ISCSIPersistentVolumeSource", "LocalVolumeSource", "RBDPersistentVolumeSource", "ScaleIOPersistentVolumeSource",
        "SecretReference", "StorageOSPersistentVolumeSource", "VolumeNodeAffinity"],
    "apis__apiregistration.k8s.io__v1": ["APIService", "APIServiceList", "APIServiceSpec", "APIServiceStatus", "APIServiceCondition", "ServiceReference"],
    "apis__apps__v1": [
        "ControllerRevision", "ControllerRevisionList",
        "AWSElasticBlockStoreVolumeSource", "Affinity", "AppArmorProfile", "AzureDiskVolumeSource", "AzureFileVolumeSource",
        "CSIVolumeSource", "Capabilities", "CephFSVolumeSource", "CinderVolumeSource", "ClusterTrustBundleProjection",
        "ConfigMapEnvSource", "ConfigMapKeySelector", "ConfigMapProjection", "ConfigMapVolumeSource", "Container",
        "ContainerPort", "ContainerResizePolicy", "ContainerRestartRule", "ContainerRestartRuleOnExitCodes", "DaemonSet",
        "DaemonSetCondition", "DaemonSetList", "DaemonSetSpec", "DaemonSetStatus", "DaemonSetUpdateStrategy", "Deployment",
        "DeploymentCondition", "DeploymentList", "DeploymentSpec", "DeploymentStatus", "DeploymentStrategy",
        "DownwardAPIProjection", "DownwardAPIVolumeFile", "DownwardAPIVolumeSource", "EmptyDirVolumeSource", "EnvFromSource",
        "EnvVar", "EnvVarSource", "EphemeralContainer", "EphemeralVolumeSource", "EvictionResponder", "ExecAction",
        "FCVolumeSource", "FileKeySelector", "FlexVolumeSource", "FlockerVolumeSource", "GCEPersistentDiskVolumeSource",
        "GRPCAction", "GitRepoVolumeSource", "GlusterfsVolumeSource", "HTTPGetAction", "HTTPHeader", "HostAlias",
        "HostPathVolumeSource", "ISCSIVolumeSource", "ImageVolumeSource", "KeyToPath", "Lifecycle", "LifecycleHandler",
        "LocalObjectReference", "ModifyVolumeStatus", "NFSVolumeSource", "NodeAffinity", "NodeSelector",
        "NodeSelectorRequirement", "NodeSelectorTerm", "ObjectFieldSelector", "PersistentVolumeClaim",
        "PersistentVolumeClaimCondition", "PersistentVolumeClaimSpec", "PersistentVolumeClaimStatus",
        "PersistentVolumeClaimTemplate", "PersistentVolumeClaimVolumeSource", "PhotonPersistentDiskVolumeSource", "PodAffinity",
        "PodAffinityTerm", "PodAntiAffinity", "PodCertificateProjection", "PodDNSConfig", "PodDNSConfigOption", "PodOS",
        "PodReadinessGate", "PodResourceClaim", "PodSchedulingGate", "PodSchedulingGroup", "PodSecurityContext", "PodSpec",
        "PodTemplateSpec", "PortworxVolumeSource", "PreferredSchedulingTerm", "Probe", "ProjectedVolumeSource",
        "QuobyteVolumeSource", "RBDVolumeSource", "ReplicaSet", "ReplicaSetCondition", "ReplicaSetList", "ReplicaSetSpec",
        "ReplicaSetStatus", "ResourceClaim", "ResourceFieldSelector", "ResourceRequirements", "RollingUpdateDaemonSet",
        "RollingUpdateDeployment", "RollingUpdateStatefulSetStrategy", "SELinuxOptions", "ScaleIOVolumeSource",
        "SeccompProfile", "SecretEnvSource", "SecretKeySelector", "SecretProjection", "SecretVolumeSource", "SecurityContext",
        "ServiceAccountTokenProjection", "SleepAction", "StatefulSet", "StatefulSetCondition", "StatefulSetList",
        "StatefulSetOrdinals", "StatefulSetPersistentVolumeClaimRetentionPolicy", "StatefulSetSpec", "StatefulSetStatus",
        "StatefulSetUpdateStrategy", "StorageOSVolumeSource", "Sysctl", "TCPSocketAction", "Toleration",
        "TopologySpreadConstraint", "TypedLocalObjectReference", "TypedObjectReference", "Volume", "VolumeDevice",
        "VolumeHealthCondition", "VolumeHealthStatus", "VolumeMount", "VolumeProjection", "VolumeResourceRequirements",
        "VsphereVirtualDiskVolumeSource", "WeightedPodAffinityTerm", "WindowsSecurityContextOptions"
    ],
    "apis__batch__v1": [
        "CronJob", "CronJobList", "CronJobSpec", "CronJobStatus", "Job", "JobCondition", "JobList", "JobSchedulingConfiguration",
        "JobSpec", "JobStatus", "JobTemplateSpec", "PodFailurePolicy", "PodFailurePolicyOnExitCodesRequirement",
        "PodFailurePolicyOnPodConditionsPattern", "PodFailurePolicyRule", "SuccessPolicy", "SuccessPolicyRule",
        "TopologyConstraint", "UncountedTerminatedPods", "WorkloadPodGroupAllDisruptionMode",
        "WorkloadPodGroupBasicSchedulingPolicy", "WorkloadPodGroupDisruptionMode", "WorkloadPodGroupGangSchedulingPolicy",
        "WorkloadPodGroupResourceClaim", "WorkloadPodGroupSchedulingConstraints", "WorkloadPodGroupSchedulingPolicy",
        "WorkloadPodGroupSingleDisruptionMode",
    ],
    "apis__networking.k8s.io__v1": [
        "HTTPIngressPath", "HTTPIngressRuleValue", "IPBlock", "Ingress", "IngressBackend", "IngressClass",
        "IngressClassList", "IngressClassParametersReference", "IngressClassSpec", "IngressList",
        "IngressLoadBalancerIngress", "IngressLoadBalancerStatus", "IngressPortStatus", "IngressRule",
        "IngressServiceBackend", "IngressSpec", "IngressStatus", "IngressTLS", "NetworkPolicy", "NetworkPolicyEgressRule",
        "NetworkPolicyIngressRule", "NetworkPolicyList", "NetworkPolicyPeer", "NetworkPolicyPort", "NetworkPolicySpec",
        "ServiceBackendPort", "TypedLocalObjectReference", "IPAddress", "IPAddressList", "IPAddressSpec", "ParentReference", "ServiceCIDR",
        "ServiceCIDRList", "ServiceCIDRSpec", "ServiceCIDRStatus",
    ],
    "apis__policy__v1": [
        "PodDisruptionBudget", "PodDisruptionBudgetList", "PodDisruptionBudgetSpec", "PodDisruptionBudgetStatus",
    ],
    "apis__autoscaling__v1": [
        "CrossVersionObjectReference", "HorizontalPodAutoscaler", "HorizontalPodAutoscalerList", "HorizontalPodAutoscalerSpec",
        "HorizontalPodAutoscalerStatus",
    ],
    "apis__autoscaling__v2": [
        "ContainerResourceMetricSource", "ContainerResourceMetricStatus", "CrossVersionObjectReference",
        "ExternalMetricSource", "ExternalMetricStatus", "HPAScalingPolicy", "HPAScalingRules", "HorizontalPodAutoscaler",
        "HorizontalPodAutoscalerBehavior", "HorizontalPodAutoscalerCondition", "HorizontalPodAutoscalerList",
        "HorizontalPodAutoscalerSpec", "HorizontalPodAutoscalerStatus", "MetricIdentifier", "MetricSpec", "MetricStatus",
        "MetricTarget", "MetricValueStatus", "ObjectMetricSource", "ObjectMetricStatus", "PodsMetricSource",
        "PodsMetricStatus", "ResourceMetricSource", "ResourceMetricStatus",
    ],
    "apis__node.k8s.io__v1": ["Overhead", "RuntimeClass", "RuntimeClassList", "Scheduling", "Toleration"],
    "apis__storage.k8s.io__v1": [
        "CSIDriver", "CSIDriverList", "CSIDriverSpec", "CSINode", "CSINodeDriver", "CSINodeList", "CSINodeSpec", "CSINodeStatus",
        "CSIStorageCapacity", "CSIStorageCapacityList", "StorageClass", "StorageClassList", "StorageHealth",
        "StorageHealthCondition", "TokenRequest", "TopologySelectorLabelRequirement", "TopologySelectorTerm", "VolumeAttachment",
        "VolumeAttachmentList", "VolumeAttachmentSource", "VolumeAttachmentSpec", "VolumeAttachmentStatus",
        "VolumeAttributesClass", "VolumeAttributesClassList", "VolumeError", "VolumeNodeResources",
    ],
    "apis__authentication.k8s.io__v1": ["SelfSubjectReview", "SelfSubjectReviewStatus", "TokenReview", "TokenReviewSpec", "TokenReviewStatus", "UserInfo"],
    "apis__authorization.k8s.io__v1": [
        "FieldSelectorAttributes", "LabelSelectorAttributes", "LocalSubjectAccessReview", "NonResourceAttributes", "ResourceAttributes",
        "NonResourceRule", "ResourceRule", "SelfSubjectRulesReview", "SelfSubjectRulesReviewSpec", "SubjectRulesReviewStatus",
        "SelfSubjectAccessReview", "SelfSubjectAccessReviewSpec", "SubjectAccessReview", "SubjectAccessReviewSpec",
        "SubjectAccessReviewStatus",
    ],
    "apis__admissionregistration.k8s.io__v1": [
        "ApplyConfiguration", "AuditAnnotation", "ExpressionWarning", "JSONPatch", "MatchCondition", "MatchResources", "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBindingList", "MutatingAdmissionPolicyBindingSpec",
        "MutatingAdmissionPolicyList", "MutatingAdmissionPolicySpec", "Mutation", "MutatingWebhook", "MutatingWebhookConfiguration", "MutatingWebhookConfigurationList", "NamedRuleWithOperations", "ParamKind",
        "ParamRef", "RuleWithOperations", "ServiceReference", "TypeChecking", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicyBindingList", "ValidatingAdmissionPolicyBindingSpec", "ValidatingAdmissionPolicyList",
        "ValidatingAdmissionPolicySpec", "ValidatingAdmissionPolicyStatus", "Validation", "ValidatingWebhook", "ValidatingWebhookConfiguration", "ValidatingWebhookConfigurationList",
        "Variable", "WebhookClientConfig",
    ],
    "apis__certificates.k8s.io__v1": [
        "CertificateSigningRequest", "CertificateSigningRequestList", "CertificateSigningRequestSpec", "CertificateSigningRequestStatus",
        "CertificateSigningRequestCondition",
    ],
    "apis__flowcontrol.apiserver.k8s.io__v1": [
        "ExemptPriorityLevelConfiguration", "FlowDistinguisherMethod", "FlowSchema", "FlowSchemaCondition", "FlowSchemaList",
        "FlowSchemaSpec", "FlowSchemaStatus", "GroupSubject", "LimitResponse", "LimitedPriorityLevelConfiguration",
        "NonResourcePolicyRule", "PolicyRulesWithSubjects", "PriorityLevelConfiguration", "PriorityLevelConfigurationCondition",
        "PriorityLevelConfigurationList", "PriorityLevelConfigurationReference", "PriorityLevelConfigurationSpec",
        "PriorityLevelConfigurationStatus", "QueuingConfiguration", "ResourcePolicyRule", "ServiceAccountSubject", "Subject",
        "UserSubject",
    ],
    "apis__rbac.authorization.k8s.io__v1": [
        "AggregationRule", "ClusterRole", "ClusterRoleBinding", "ClusterRoleBindingList", "ClusterRoleList", "PolicyRule", "Role",
        "RoleBinding", "RoleBindingList", "RoleList", "RoleRef", "Subject",
    ],
    "apis__resource.k8s.io__v1": [
        "AllocatedDeviceStatus", "AllocationResult", "CELDeviceSelector", "CapacityRequestPolicy", "CapacityRequestPolicyRange",
        "CapacityRequirements", "Counter", "CounterSet", "Device", "DeviceAllocationConfiguration", "DeviceAllocationResult",
        "DeviceAttribute", "DeviceCapacity", "DeviceClaim", "DeviceClaimConfiguration", "DeviceClass",
        "DeviceClassConfiguration", "DeviceClassList", "DeviceClassSpec", "DeviceConstraint", "DeviceCounterConsumption",
        "DeviceDerivedAttribute", "DeviceRequest", "DeviceRequestAllocationResult", "DeviceSelector", "DeviceSubRequest",
        "DeviceTaint", "DeviceToleration", "ExactDeviceRequest", "NetworkDeviceData", "NodeAllocatableMapping",
        "NodeAllocatableOverhead", "NodeAllocatableResource", "NodeSelector", "NodeSelectorRequirement", "NodeSelectorTerm",
        "OpaqueDeviceConfiguration", "ResourceClaim", "ResourceClaimConsumerReference", "ResourceClaimList",
        "ResourceClaimSpec", "ResourceClaimStatus", "ResourceClaimTemplate", "ResourceClaimTemplateList",
        "ResourceClaimTemplateSpec", "ResourcePool", "ResourceSlice", "ResourceSliceList", "ResourceSliceSpec",
    ],
    "apis__scheduling.k8s.io__v1": ["PriorityClass", "PriorityClassList"],
    "apis__discovery.k8s.io__v1": [
        "Endpoint", "EndpointConditions", "EndpointHints", "EndpointPort", "EndpointSlice", "EndpointSliceList", "ForNode", "ForZone",
        "ObjectReference",
    ],
    "apis__events.k8s.io__v1": ["Event", "EventList", "EventSeries", "EventSource", "ObjectReference"],
    "apis__coordination.k8s.io__v1": ["Lease", "LeaseList", "LeaseSpec", "MicroTime"],
}


def undescribed(value):
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k != "description" or not isinstance(v, str)}
        return {k: undescribed(v) for k, v in kept.items()}
    return [undescribed(item) for item in value] if isinstance(value, list) else value


def main():
    command = ["go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", "k8s.io/kubernetes"]
    listed = subprocess.run(command, cwd=ROOT / "integration/kube-apiserver", check=True, capture_output=True, text=True)
    folder, version = listed.stdout.split()
    schemas = {}
    for name, kinds in DOCUMENTS.items():
        file = pathlib.Path(folder, "api/openapi-spec/v3", f"{name}_openapi.json")
        for schema, described in json.loads(file.read_text())["components"]["schemas"].items():
            if schema.rpartition(".")[2] in kinds:
                schemas[schema] = undescribed(described)
    about = f"The schemas of declared kinds as Kubernetes {version} publishes them, without descriptions."
    print(json.dumps({"about": f"{about} Written by integration/oracle/schemas.py.", "schemas": schemas}, indent=1, sort_keys=True))


main()
