// Written by "go run ./protobuf" in integration/oracle, by reflection over the Go types of
// k8s.io/apiextensions-apiserver v0.37.2, k8s.io/apimachinery v0.37.2,
// k8s.io/api v0.37.2. Do not edit.

use super::Kind::{Bool, Bytes, Double, Gone, Int32, Int64, IntOrString, Json, Of, SchemaOrArray, SchemaOrBool, SchemaOrTexts, Text, Texts, Time};
use super::Many::{Map, One, Pointer, Several};
use super::Presence::{Keep, Omit};
use super::{Field, Message};

/// The messages of kinds, sorted by apiVersion and kind.
pub(super) static KINDS: &[(&str, &str, &Message)] = &[
    ("", "APIVersions", &META_V1_API_VERSIONS),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", &APIEXTENSIONS_V1_CUSTOM_RESOURCE_DEFINITION),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinitionList", &APIEXTENSIONS_V1_CUSTOM_RESOURCE_DEFINITION_LIST),
    ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition", &APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_DEFINITION),
    ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinitionList", &APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_DEFINITION_LIST),
    ("autoscaling/v1", "Scale", &AUTOSCALING_V1_SCALE),
    ("meta.k8s.io/v1", "DeleteOptions", &META_V1_DELETE_OPTIONS),
    ("meta.k8s.io/v1", "PartialObjectMetadata", &META_V1_PARTIAL_OBJECT_METADATA),
    ("meta.k8s.io/v1", "PartialObjectMetadataList", &META_V1_PARTIAL_OBJECT_METADATA_LIST),
    ("meta.k8s.io/v1beta1", "PartialObjectMetadata", &META_V1_PARTIAL_OBJECT_METADATA),
    ("meta.k8s.io/v1beta1", "PartialObjectMetadataList", &META_V1BETA1_PARTIAL_OBJECT_METADATA_LIST),
    ("v1", "APIGroup", &META_V1_API_GROUP),
    ("v1", "APIGroupList", &META_V1_API_GROUP_LIST),
    ("v1", "APIResourceList", &META_V1_API_RESOURCE_LIST),
    ("v1", "Service", &CORE_V1_SERVICE),
    ("v1", "Status", &META_V1_STATUS),
];

pub(super) static APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_COLUMN_DEFINITION: Message = Message("CustomResourceColumnDefinition", &[
    Field(1, "Name", "name", Text, One, Keep),
    Field(2, "Type", "type", Text, One, Keep),
    Field(3, "Format", "format", Text, One, Omit),
    Field(4, "Description", "description", Text, One, Omit),
    Field(5, "Priority", "priority", Int32, One, Omit),
    Field(6, "JSONPath", "JSONPath", Text, One, Keep),
]);

pub(super) static APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_CONVERSION: Message = Message("CustomResourceConversion", &[
    Field(1, "Strategy", "strategy", Text, One, Keep),
    Field(2, "WebhookClientConfig", "webhookClientConfig", Of(&APIEXTENSIONS_V1BETA1_WEBHOOK_CLIENT_CONFIG), Pointer, Omit),
    Field(3, "ConversionReviewVersions", "conversionReviewVersions", Text, Several, Omit),
]);

pub(super) static APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_DEFINITION: Message = Message("CustomResourceDefinition", &[
    Field(1, "ObjectMeta", "metadata", Of(&META_V1_OBJECT_META), One, Keep),
    Field(2, "Spec", "spec", Of(&APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_DEFINITION_SPEC), One, Keep),
    Field(3, "Status", "status", Of(&APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_DEFINITION_STATUS), One, Keep),
]);

pub(super) static APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_DEFINITION_CONDITION: Message = Message("CustomResourceDefinitionCondition", &[
    Field(1, "Type", "type", Text, One, Keep),
    Field(2, "Status", "status", Text, One, Keep),
    Field(3, "LastTransitionTime", "lastTransitionTime", Time, One, Keep),
    Field(4, "Reason", "reason", Text, One, Omit),
    Field(5, "Message", "message", Text, One, Omit),
    Field(6, "ObservedGeneration", "observedGeneration", Int64, One, Omit),
]);

pub(super) static APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_DEFINITION_LIST: Message = Message("CustomResourceDefinitionList", &[
    Field(1, "ListMeta", "metadata", Of(&META_V1_LIST_META), One, Keep),
    Field(2, "Items", "items", Of(&APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_DEFINITION), Several, Keep),
]);

pub(super) static APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_DEFINITION_NAMES: Message = Message("CustomResourceDefinitionNames", &[
    Field(1, "Plural", "plural", Text, One, Keep),
    Field(2, "Singular", "singular", Text, One, Omit),
    Field(3, "ShortNames", "shortNames", Text, Several, Omit),
    Field(4, "Kind", "kind", Text, One, Keep),
    Field(5, "ListKind", "listKind", Text, One, Omit),
    Field(6, "Categories", "categories", Text, Several, Omit),
]);

pub(super) static APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_DEFINITION_SPEC: Message = Message("CustomResourceDefinitionSpec", &[
    Field(1, "Group", "group", Text, One, Keep),
    Field(2, "Version", "version", Text, One, Omit),
    Field(3, "Names", "names", Of(&APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_DEFINITION_NAMES), One, Keep),
    Field(4, "Scope", "scope", Text, One, Keep),
    Field(5, "Validation", "validation", Of(&APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_VALIDATION), Pointer, Omit),
    Field(6, "Subresources", "subresources", Of(&APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_SUBRESOURCES), Pointer, Omit),
    Field(7, "Versions", "versions", Of(&APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_DEFINITION_VERSION), Several, Omit),
    Field(8, "AdditionalPrinterColumns", "additionalPrinterColumns", Of(&APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_COLUMN_DEFINITION), Several, Omit),
    Field(9, "Conversion", "conversion", Of(&APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_CONVERSION), Pointer, Omit),
    Field(10, "PreserveUnknownFields", "preserveUnknownFields", Bool, Pointer, Omit),
    Field(11, "SelectableFields", "selectableFields", Of(&APIEXTENSIONS_V1BETA1_SELECTABLE_FIELD), Several, Omit),
]);

pub(super) static APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_DEFINITION_STATUS: Message = Message("CustomResourceDefinitionStatus", &[
    Field(1, "Conditions", "conditions", Of(&APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_DEFINITION_CONDITION), Several, Keep),
    Field(2, "AcceptedNames", "acceptedNames", Of(&APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_DEFINITION_NAMES), One, Keep),
    Field(3, "StoredVersions", "storedVersions", Text, Several, Keep),
    Field(4, "ObservedGeneration", "observedGeneration", Int64, One, Omit),
]);

pub(super) static APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_DEFINITION_VERSION: Message = Message("CustomResourceDefinitionVersion", &[
    Field(1, "Name", "name", Text, One, Keep),
    Field(2, "Served", "served", Bool, One, Keep),
    Field(3, "Storage", "storage", Bool, One, Keep),
    Field(4, "Schema", "schema", Of(&APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_VALIDATION), Pointer, Omit),
    Field(5, "Subresources", "subresources", Of(&APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_SUBRESOURCES), Pointer, Omit),
    Field(6, "AdditionalPrinterColumns", "additionalPrinterColumns", Of(&APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_COLUMN_DEFINITION), Several, Omit),
    Field(7, "Deprecated", "deprecated", Bool, One, Omit),
    Field(8, "DeprecationWarning", "deprecationWarning", Text, Pointer, Omit),
    Field(9, "SelectableFields", "selectableFields", Of(&APIEXTENSIONS_V1BETA1_SELECTABLE_FIELD), Several, Omit),
]);

pub(super) static APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_SUBRESOURCES: Message = Message("CustomResourceSubresources", &[
    Field(1, "Status", "status", Of(&APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_SUBRESOURCE_STATUS), Pointer, Omit),
    Field(2, "Scale", "scale", Of(&APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_SUBRESOURCE_SCALE), Pointer, Omit),
]);

pub(super) static APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_SUBRESOURCE_SCALE: Message = Message("CustomResourceSubresourceScale", &[
    Field(1, "SpecReplicasPath", "specReplicasPath", Text, One, Keep),
    Field(2, "StatusReplicasPath", "statusReplicasPath", Text, One, Keep),
    Field(3, "LabelSelectorPath", "labelSelectorPath", Text, Pointer, Omit),
]);

pub(super) static APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_SUBRESOURCE_STATUS: Message = Message("CustomResourceSubresourceStatus", &[
]);

pub(super) static APIEXTENSIONS_V1BETA1_CUSTOM_RESOURCE_VALIDATION: Message = Message("CustomResourceValidation", &[
    Field(1, "OpenAPIV3Schema", "openAPIV3Schema", Of(&APIEXTENSIONS_V1BETA1_JSON_SCHEMA_PROPS), Pointer, Omit),
]);

pub(super) static APIEXTENSIONS_V1BETA1_EXTERNAL_DOCUMENTATION: Message = Message("ExternalDocumentation", &[
    Field(1, "Description", "description", Text, One, Omit),
    Field(2, "URL", "url", Text, One, Omit),
]);

pub(super) static APIEXTENSIONS_V1BETA1_JSON_SCHEMA_PROPS: Message = Message("JSONSchemaProps", &[
    Field(1, "ID", "id", Text, One, Omit),
    Field(2, "Schema", "$schema", Text, One, Omit),
    Field(3, "Ref", "$ref", Text, Pointer, Omit),
    Field(4, "Description", "description", Text, One, Omit),
    Field(5, "Type", "type", Text, One, Omit),
    Field(6, "Format", "format", Text, One, Omit),
    Field(7, "Title", "title", Text, One, Omit),
    Field(8, "Default", "default", Json, Pointer, Omit),
    Field(9, "Maximum", "maximum", Double, Pointer, Omit),
    Field(10, "ExclusiveMaximum", "exclusiveMaximum", Bool, One, Omit),
    Field(11, "Minimum", "minimum", Double, Pointer, Omit),
    Field(12, "ExclusiveMinimum", "exclusiveMinimum", Bool, One, Omit),
    Field(13, "MaxLength", "maxLength", Int64, Pointer, Omit),
    Field(14, "MinLength", "minLength", Int64, Pointer, Omit),
    Field(15, "Pattern", "pattern", Text, One, Omit),
    Field(16, "MaxItems", "maxItems", Int64, Pointer, Omit),
    Field(17, "MinItems", "minItems", Int64, Pointer, Omit),
    Field(18, "UniqueItems", "uniqueItems", Bool, One, Omit),
    Field(19, "MultipleOf", "multipleOf", Double, Pointer, Omit),
    Field(20, "Enum", "enum", Json, Several, Omit),
    Field(21, "MaxProperties", "maxProperties", Int64, Pointer, Omit),
    Field(22, "MinProperties", "minProperties", Int64, Pointer, Omit),
    Field(23, "Required", "required", Text, Several, Omit),
    Field(24, "Items", "items", SchemaOrArray(&APIEXTENSIONS_V1BETA1_JSON_SCHEMA_PROPS), Pointer, Omit),
    Field(25, "AllOf", "allOf", Of(&APIEXTENSIONS_V1BETA1_JSON_SCHEMA_PROPS), Several, Omit),
    Field(26, "OneOf", "oneOf", Of(&APIEXTENSIONS_V1BETA1_JSON_SCHEMA_PROPS), Several, Omit),
    Field(27, "AnyOf", "anyOf", Of(&APIEXTENSIONS_V1BETA1_JSON_SCHEMA_PROPS), Several, Omit),
    Field(28, "Not", "not", Of(&APIEXTENSIONS_V1BETA1_JSON_SCHEMA_PROPS), Pointer, Omit),
    Field(29, "Properties", "properties", Of(&APIEXTENSIONS_V1BETA1_JSON_SCHEMA_PROPS), Map, Omit),
    Field(30, "AdditionalProperties", "additionalProperties", SchemaOrBool(&APIEXTENSIONS_V1BETA1_JSON_SCHEMA_PROPS), Pointer, Omit),
    Field(31, "PatternProperties", "patternProperties", Of(&APIEXTENSIONS_V1BETA1_JSON_SCHEMA_PROPS), Map, Omit),
    Field(32, "Dependencies", "dependencies", SchemaOrTexts(&APIEXTENSIONS_V1BETA1_JSON_SCHEMA_PROPS), Map, Omit),
    Field(33, "AdditionalItems", "additionalItems", SchemaOrBool(&APIEXTENSIONS_V1BETA1_JSON_SCHEMA_PROPS), Pointer, Omit),
    Field(34, "Definitions", "definitions", Of(&APIEXTENSIONS_V1BETA1_JSON_SCHEMA_PROPS), Map, Omit),
    Field(35, "ExternalDocs", "externalDocs", Of(&APIEXTENSIONS_V1BETA1_EXTERNAL_DOCUMENTATION), Pointer, Omit),
    Field(36, "Example", "example", Json, Pointer, Omit),
    Field(37, "Nullable", "nullable", Bool, One, Omit),
    Field(38, "XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Bool, Pointer, Omit),
    Field(39, "XEmbeddedResource", "x-kubernetes-embedded-resource", Bool, One, Omit),
    Field(40, "XIntOrString", "x-kubernetes-int-or-string", Bool, One, Omit),
    Field(41, "XListMapKeys", "x-kubernetes-list-map-keys", Text, Several, Omit),
    Field(42, "XListType", "x-kubernetes-list-type", Text, Pointer, Omit),
    Field(43, "XMapType", "x-kubernetes-map-type", Text, Pointer, Omit),
    Field(44, "XValidations", "x-kubernetes-validations", Of(&APIEXTENSIONS_V1BETA1_VALIDATION_RULE), Several, Omit),
]);

pub(super) static APIEXTENSIONS_V1BETA1_SELECTABLE_FIELD: Message = Message("SelectableField", &[
    Field(1, "JSONPath", "jsonPath", Text, One, Keep),
]);

pub(super) static APIEXTENSIONS_V1BETA1_SERVICE_REFERENCE: Message = Message("ServiceReference", &[
    Field(1, "Namespace", "namespace", Text, One, Keep),
    Field(2, "Name", "name", Text, One, Keep),
    Field(3, "Path", "path", Text, Pointer, Omit),
    Field(4, "Port", "port", Int32, Pointer, Omit),
]);

pub(super) static APIEXTENSIONS_V1BETA1_VALIDATION_RULE: Message = Message("ValidationRule", &[
    Field(1, "Rule", "rule", Text, One, Keep),
    Field(2, "Message", "message", Text, One, Omit),
    Field(3, "MessageExpression", "messageExpression", Text, One, Omit),
    Field(4, "Reason", "reason", Text, Pointer, Omit),
    Field(5, "FieldPath", "fieldPath", Text, One, Omit),
    Field(6, "OptionalOldSelf", "optionalOldSelf", Bool, Pointer, Omit),
]);

pub(super) static APIEXTENSIONS_V1BETA1_WEBHOOK_CLIENT_CONFIG: Message = Message("WebhookClientConfig", &[
    Field(1, "Service", "service", Of(&APIEXTENSIONS_V1BETA1_SERVICE_REFERENCE), Pointer, Omit),
    Field(2, "CABundle", "caBundle", Bytes, One, Omit),
    Field(3, "URL", "url", Text, Pointer, Omit),
]);

pub(super) static APIEXTENSIONS_V1_CUSTOM_RESOURCE_COLUMN_DEFINITION: Message = Message("CustomResourceColumnDefinition", &[
    Field(1, "Name", "name", Text, One, Keep),
    Field(2, "Type", "type", Text, One, Keep),
    Field(3, "Format", "format", Text, One, Omit),
    Field(4, "Description", "description", Text, One, Omit),
    Field(5, "Priority", "priority", Int32, One, Omit),
    Field(6, "JSONPath", "jsonPath", Text, One, Keep),
]);

pub(super) static APIEXTENSIONS_V1_CUSTOM_RESOURCE_CONVERSION: Message = Message("CustomResourceConversion", &[
    Field(1, "Strategy", "strategy", Text, One, Keep),
    Field(2, "Webhook", "webhook", Of(&APIEXTENSIONS_V1_WEBHOOK_CONVERSION), Pointer, Omit),
]);

pub(super) static APIEXTENSIONS_V1_CUSTOM_RESOURCE_DEFINITION: Message = Message("CustomResourceDefinition", &[
    Field(1, "ObjectMeta", "metadata", Of(&META_V1_OBJECT_META), One, Keep),
    Field(2, "Spec", "spec", Of(&APIEXTENSIONS_V1_CUSTOM_RESOURCE_DEFINITION_SPEC), One, Keep),
    Field(3, "Status", "status", Of(&APIEXTENSIONS_V1_CUSTOM_RESOURCE_DEFINITION_STATUS), One, Keep),
]);

pub(super) static APIEXTENSIONS_V1_CUSTOM_RESOURCE_DEFINITION_CONDITION: Message = Message("CustomResourceDefinitionCondition", &[
    Field(1, "Type", "type", Text, One, Keep),
    Field(2, "Status", "status", Text, One, Keep),
    Field(3, "LastTransitionTime", "lastTransitionTime", Time, One, Keep),
    Field(4, "Reason", "reason", Text, One, Omit),
    Field(5, "Message", "message", Text, One, Omit),
    Field(6, "ObservedGeneration", "observedGeneration", Int64, One, Omit),
]);

pub(super) static APIEXTENSIONS_V1_CUSTOM_RESOURCE_DEFINITION_LIST: Message = Message("CustomResourceDefinitionList", &[
    Field(1, "ListMeta", "metadata", Of(&META_V1_LIST_META), One, Keep),
    Field(2, "Items", "items", Of(&APIEXTENSIONS_V1_CUSTOM_RESOURCE_DEFINITION), Several, Keep),
]);

pub(super) static APIEXTENSIONS_V1_CUSTOM_RESOURCE_DEFINITION_NAMES: Message = Message("CustomResourceDefinitionNames", &[
    Field(1, "Plural", "plural", Text, One, Keep),
    Field(2, "Singular", "singular", Text, One, Omit),
    Field(3, "ShortNames", "shortNames", Text, Several, Omit),
    Field(4, "Kind", "kind", Text, One, Keep),
    Field(5, "ListKind", "listKind", Text, One, Omit),
    Field(6, "Categories", "categories", Text, Several, Omit),
]);

pub(super) static APIEXTENSIONS_V1_CUSTOM_RESOURCE_DEFINITION_SPEC: Message = Message("CustomResourceDefinitionSpec", &[
    Field(1, "Group", "group", Text, One, Keep),
    Field(3, "Names", "names", Of(&APIEXTENSIONS_V1_CUSTOM_RESOURCE_DEFINITION_NAMES), One, Keep),
    Field(4, "Scope", "scope", Text, One, Keep),
    Field(7, "Versions", "versions", Of(&APIEXTENSIONS_V1_CUSTOM_RESOURCE_DEFINITION_VERSION), Several, Keep),
    Field(9, "Conversion", "conversion", Of(&APIEXTENSIONS_V1_CUSTOM_RESOURCE_CONVERSION), Pointer, Omit),
    Field(10, "PreserveUnknownFields", "preserveUnknownFields", Bool, One, Omit),
]);

pub(super) static APIEXTENSIONS_V1_CUSTOM_RESOURCE_DEFINITION_STATUS: Message = Message("CustomResourceDefinitionStatus", &[
    Field(1, "Conditions", "conditions", Of(&APIEXTENSIONS_V1_CUSTOM_RESOURCE_DEFINITION_CONDITION), Several, Keep),
    Field(2, "AcceptedNames", "acceptedNames", Of(&APIEXTENSIONS_V1_CUSTOM_RESOURCE_DEFINITION_NAMES), One, Keep),
    Field(3, "StoredVersions", "storedVersions", Text, Several, Keep),
    Field(4, "ObservedGeneration", "observedGeneration", Int64, One, Omit),
]);

pub(super) static APIEXTENSIONS_V1_CUSTOM_RESOURCE_DEFINITION_VERSION: Message = Message("CustomResourceDefinitionVersion", &[
    Field(1, "Name", "name", Text, One, Keep),
    Field(2, "Served", "served", Bool, One, Keep),
    Field(3, "Storage", "storage", Bool, One, Keep),
    Field(4, "Schema", "schema", Of(&APIEXTENSIONS_V1_CUSTOM_RESOURCE_VALIDATION), Pointer, Omit),
    Field(5, "Subresources", "subresources", Of(&APIEXTENSIONS_V1_CUSTOM_RESOURCE_SUBRESOURCES), Pointer, Omit),
    Field(6, "AdditionalPrinterColumns", "additionalPrinterColumns", Of(&APIEXTENSIONS_V1_CUSTOM_RESOURCE_COLUMN_DEFINITION), Several, Omit),
    Field(7, "Deprecated", "deprecated", Bool, One, Omit),
    Field(8, "DeprecationWarning", "deprecationWarning", Text, Pointer, Omit),
    Field(9, "SelectableFields", "selectableFields", Of(&APIEXTENSIONS_V1_SELECTABLE_FIELD), Several, Omit),
]);

pub(super) static APIEXTENSIONS_V1_CUSTOM_RESOURCE_SUBRESOURCES: Message = Message("CustomResourceSubresources", &[
    Field(1, "Status", "status", Of(&APIEXTENSIONS_V1_CUSTOM_RESOURCE_SUBRESOURCE_STATUS), Pointer, Omit),
    Field(2, "Scale", "scale", Of(&APIEXTENSIONS_V1_CUSTOM_RESOURCE_SUBRESOURCE_SCALE), Pointer, Omit),
]);

pub(super) static APIEXTENSIONS_V1_CUSTOM_RESOURCE_SUBRESOURCE_SCALE: Message = Message("CustomResourceSubresourceScale", &[
    Field(1, "SpecReplicasPath", "specReplicasPath", Text, One, Keep),
    Field(2, "StatusReplicasPath", "statusReplicasPath", Text, One, Keep),
    Field(3, "LabelSelectorPath", "labelSelectorPath", Text, Pointer, Omit),
]);

pub(super) static APIEXTENSIONS_V1_CUSTOM_RESOURCE_SUBRESOURCE_STATUS: Message = Message("CustomResourceSubresourceStatus", &[
]);

pub(super) static APIEXTENSIONS_V1_CUSTOM_RESOURCE_VALIDATION: Message = Message("CustomResourceValidation", &[
    Field(1, "OpenAPIV3Schema", "openAPIV3Schema", Of(&APIEXTENSIONS_V1_JSON_SCHEMA_PROPS), Pointer, Omit),
]);

pub(super) static APIEXTENSIONS_V1_EXTERNAL_DOCUMENTATION: Message = Message("ExternalDocumentation", &[
    Field(1, "Description", "description", Text, One, Omit),
    Field(2, "URL", "url", Text, One, Omit),
]);

pub(super) static APIEXTENSIONS_V1_JSON_SCHEMA_PROPS: Message = Message("JSONSchemaProps", &[
    Field(1, "ID", "id", Text, One, Omit),
    Field(2, "Schema", "$schema", Text, One, Omit),
    Field(3, "Ref", "$ref", Text, Pointer, Omit),
    Field(4, "Description", "description", Text, One, Omit),
    Field(5, "Type", "type", Text, One, Omit),
    Field(6, "Format", "format", Text, One, Omit),
    Field(7, "Title", "title", Text, One, Omit),
    Field(8, "Default", "default", Json, Pointer, Omit),
    Field(9, "Maximum", "maximum", Double, Pointer, Omit),
    Field(10, "ExclusiveMaximum", "exclusiveMaximum", Bool, One, Omit),
    Field(11, "Minimum", "minimum", Double, Pointer, Omit),
    Field(12, "ExclusiveMinimum", "exclusiveMinimum", Bool, One, Omit),
    Field(13, "MaxLength", "maxLength", Int64, Pointer, Omit),
    Field(14, "MinLength", "minLength", Int64, Pointer, Omit),
    Field(15, "Pattern", "pattern", Text, One, Omit),
    Field(16, "MaxItems", "maxItems", Int64, Pointer, Omit),
    Field(17, "MinItems", "minItems", Int64, Pointer, Omit),
    Field(18, "UniqueItems", "uniqueItems", Bool, One, Omit),
    Field(19, "MultipleOf", "multipleOf", Double, Pointer, Omit),
    Field(20, "Enum", "enum", Json, Several, Omit),
    Field(21, "MaxProperties", "maxProperties", Int64, Pointer, Omit),
    Field(22, "MinProperties", "minProperties", Int64, Pointer, Omit),
    Field(23, "Required", "required", Text, Several, Omit),
    Field(24, "Items", "items", SchemaOrArray(&APIEXTENSIONS_V1_JSON_SCHEMA_PROPS), Pointer, Omit),
    Field(25, "AllOf", "allOf", Of(&APIEXTENSIONS_V1_JSON_SCHEMA_PROPS), Several, Omit),
    Field(26, "OneOf", "oneOf", Of(&APIEXTENSIONS_V1_JSON_SCHEMA_PROPS), Several, Omit),
    Field(27, "AnyOf", "anyOf", Of(&APIEXTENSIONS_V1_JSON_SCHEMA_PROPS), Several, Omit),
    Field(28, "Not", "not", Of(&APIEXTENSIONS_V1_JSON_SCHEMA_PROPS), Pointer, Omit),
    Field(29, "Properties", "properties", Of(&APIEXTENSIONS_V1_JSON_SCHEMA_PROPS), Map, Omit),
    Field(30, "AdditionalProperties", "additionalProperties", SchemaOrBool(&APIEXTENSIONS_V1_JSON_SCHEMA_PROPS), Pointer, Omit),
    Field(31, "PatternProperties", "patternProperties", Of(&APIEXTENSIONS_V1_JSON_SCHEMA_PROPS), Map, Omit),
    Field(32, "Dependencies", "dependencies", SchemaOrTexts(&APIEXTENSIONS_V1_JSON_SCHEMA_PROPS), Map, Omit),
    Field(33, "AdditionalItems", "additionalItems", SchemaOrBool(&APIEXTENSIONS_V1_JSON_SCHEMA_PROPS), Pointer, Omit),
    Field(34, "Definitions", "definitions", Of(&APIEXTENSIONS_V1_JSON_SCHEMA_PROPS), Map, Omit),
    Field(35, "ExternalDocs", "externalDocs", Of(&APIEXTENSIONS_V1_EXTERNAL_DOCUMENTATION), Pointer, Omit),
    Field(36, "Example", "example", Json, Pointer, Omit),
    Field(37, "Nullable", "nullable", Bool, One, Omit),
    Field(38, "XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Bool, Pointer, Omit),
    Field(39, "XEmbeddedResource", "x-kubernetes-embedded-resource", Bool, One, Omit),
    Field(40, "XIntOrString", "x-kubernetes-int-or-string", Bool, One, Omit),
    Field(41, "XListMapKeys", "x-kubernetes-list-map-keys", Text, Several, Omit),
    Field(42, "XListType", "x-kubernetes-list-type", Text, Pointer, Omit),
    Field(43, "XMapType", "x-kubernetes-map-type", Text, Pointer, Omit),
    Field(44, "XValidations", "x-kubernetes-validations", Of(&APIEXTENSIONS_V1_VALIDATION_RULE), Several, Omit),
]);

pub(super) static APIEXTENSIONS_V1_SELECTABLE_FIELD: Message = Message("SelectableField", &[
    Field(1, "JSONPath", "jsonPath", Text, One, Keep),
]);

pub(super) static APIEXTENSIONS_V1_SERVICE_REFERENCE: Message = Message("ServiceReference", &[
    Field(1, "Namespace", "namespace", Text, One, Keep),
    Field(2, "Name", "name", Text, One, Keep),
    Field(3, "Path", "path", Text, Pointer, Omit),
    Field(4, "Port", "port", Int32, Pointer, Omit),
]);

pub(super) static APIEXTENSIONS_V1_VALIDATION_RULE: Message = Message("ValidationRule", &[
    Field(1, "Rule", "rule", Text, One, Keep),
    Field(2, "Message", "message", Text, One, Omit),
    Field(3, "MessageExpression", "messageExpression", Text, One, Omit),
    Field(4, "Reason", "reason", Text, Pointer, Omit),
    Field(5, "FieldPath", "fieldPath", Text, One, Omit),
    Field(6, "OptionalOldSelf", "optionalOldSelf", Bool, Pointer, Omit),
]);

pub(super) static APIEXTENSIONS_V1_WEBHOOK_CLIENT_CONFIG: Message = Message("WebhookClientConfig", &[
    Field(1, "Service", "service", Of(&APIEXTENSIONS_V1_SERVICE_REFERENCE), Pointer, Omit),
    Field(2, "CABundle", "caBundle", Bytes, One, Omit),
    Field(3, "URL", "url", Text, Pointer, Omit),
]);

pub(super) static APIEXTENSIONS_V1_WEBHOOK_CONVERSION: Message = Message("WebhookConversion", &[
    Field(2, "ClientConfig", "clientConfig", Of(&APIEXTENSIONS_V1_WEBHOOK_CLIENT_CONFIG), Pointer, Omit),
    Field(3, "ConversionReviewVersions", "conversionReviewVersions", Text, Several, Keep),
]);

pub(super) static AUTOSCALING_V1_SCALE: Message = Message("Scale", &[
    Field(1, "ObjectMeta", "metadata", Of(&META_V1_OBJECT_META), One, Keep),
    Field(2, "Spec", "spec", Of(&AUTOSCALING_V1_SCALE_SPEC), One, Keep),
    Field(3, "Status", "status", Of(&AUTOSCALING_V1_SCALE_STATUS), One, Keep),
]);

pub(super) static AUTOSCALING_V1_SCALE_SPEC: Message = Message("ScaleSpec", &[
    Field(1, "Replicas", "replicas", Int32, One, Omit),
]);

pub(super) static AUTOSCALING_V1_SCALE_STATUS: Message = Message("ScaleStatus", &[
    Field(1, "Replicas", "replicas", Int32, One, Keep),
    Field(2, "Selector", "selector", Text, One, Omit),
]);

pub(super) static CORE_V1_CLIENT_IP_CONFIG: Message = Message("ClientIPConfig", &[
    Field(1, "TimeoutSeconds", "timeoutSeconds", Int32, Pointer, Omit),
]);

pub(super) static CORE_V1_LOAD_BALANCER_INGRESS: Message = Message("LoadBalancerIngress", &[
    Field(1, "IP", "ip", Text, One, Omit),
    Field(2, "Hostname", "hostname", Text, One, Omit),
    Field(3, "IPMode", "ipMode", Text, Pointer, Omit),
    Field(4, "Ports", "ports", Of(&CORE_V1_PORT_STATUS), Several, Omit),
]);

pub(super) static CORE_V1_LOAD_BALANCER_STATUS: Message = Message("LoadBalancerStatus", &[
    Field(1, "Ingress", "ingress", Of(&CORE_V1_LOAD_BALANCER_INGRESS), Several, Omit),
]);

pub(super) static CORE_V1_PORT_STATUS: Message = Message("PortStatus", &[
    Field(1, "Port", "port", Int32, One, Keep),
    Field(2, "Protocol", "protocol", Text, One, Keep),
    Field(3, "Error", "error", Text, Pointer, Omit),
]);

pub(super) static CORE_V1_SERVICE: Message = Message("Service", &[
    Field(1, "ObjectMeta", "metadata", Of(&META_V1_OBJECT_META), One, Keep),
    Field(2, "Spec", "spec", Of(&CORE_V1_SERVICE_SPEC), One, Keep),
    Field(3, "Status", "status", Of(&CORE_V1_SERVICE_STATUS), One, Keep),
]);

pub(super) static CORE_V1_SERVICE_PORT: Message = Message("ServicePort", &[
    Field(1, "Name", "name", Text, One, Omit),
    Field(2, "Protocol", "protocol", Text, One, Omit),
    Field(3, "Port", "port", Int32, One, Keep),
    Field(4, "TargetPort", "targetPort", IntOrString, One, Keep),
    Field(5, "NodePort", "nodePort", Int32, One, Omit),
    Field(6, "AppProtocol", "appProtocol", Text, Pointer, Omit),
]);

pub(super) static CORE_V1_SERVICE_SPEC: Message = Message("ServiceSpec", &[
    Field(1, "Ports", "ports", Of(&CORE_V1_SERVICE_PORT), Several, Omit),
    Field(2, "Selector", "selector", Text, Map, Omit),
    Field(3, "ClusterIP", "clusterIP", Text, One, Omit),
    Field(4, "Type", "type", Text, One, Omit),
    Field(5, "ExternalIPs", "externalIPs", Text, Several, Omit),
    Field(7, "SessionAffinity", "sessionAffinity", Text, One, Omit),
    Field(8, "LoadBalancerIP", "loadBalancerIP", Text, One, Omit),
    Field(9, "LoadBalancerSourceRanges", "loadBalancerSourceRanges", Text, Several, Omit),
    Field(10, "ExternalName", "externalName", Text, One, Omit),
    Field(11, "ExternalTrafficPolicy", "externalTrafficPolicy", Text, One, Omit),
    Field(12, "HealthCheckNodePort", "healthCheckNodePort", Int32, One, Omit),
    Field(13, "PublishNotReadyAddresses", "publishNotReadyAddresses", Bool, One, Omit),
    Field(14, "SessionAffinityConfig", "sessionAffinityConfig", Of(&CORE_V1_SESSION_AFFINITY_CONFIG), Pointer, Omit),
    Field(17, "IPFamilyPolicy", "ipFamilyPolicy", Text, Pointer, Omit),
    Field(18, "ClusterIPs", "clusterIPs", Text, Several, Omit),
    Field(19, "IPFamilies", "ipFamilies", Text, Several, Omit),
    Field(20, "AllocateLoadBalancerNodePorts", "allocateLoadBalancerNodePorts", Bool, Pointer, Omit),
    Field(21, "LoadBalancerClass", "loadBalancerClass", Text, Pointer, Omit),
    Field(22, "InternalTrafficPolicy", "internalTrafficPolicy", Text, Pointer, Omit),
    Field(23, "TrafficDistribution", "trafficDistribution", Text, Pointer, Omit),
]);

pub(super) static CORE_V1_SERVICE_STATUS: Message = Message("ServiceStatus", &[
    Field(1, "LoadBalancer", "loadBalancer", Of(&CORE_V1_LOAD_BALANCER_STATUS), One, Keep),
    Field(2, "Conditions", "conditions", Of(&META_V1_CONDITION), Several, Omit),
]);

pub(super) static CORE_V1_SESSION_AFFINITY_CONFIG: Message = Message("SessionAffinityConfig", &[
    Field(1, "ClientIP", "clientIP", Of(&CORE_V1_CLIENT_IP_CONFIG), Pointer, Omit),
]);

pub(super) static META_V1BETA1_PARTIAL_OBJECT_METADATA_LIST: Message = Message("PartialObjectMetadataList", &[
    Field(1, "Items", "items", Of(&META_V1_PARTIAL_OBJECT_METADATA), Several, Keep),
    Field(2, "ListMeta", "metadata", Of(&META_V1_LIST_META), One, Keep),
]);

pub(super) static META_V1_API_GROUP: Message = Message("APIGroup", &[
    Field(1, "Name", "name", Text, One, Keep),
    Field(2, "Versions", "versions", Of(&META_V1_GROUP_VERSION_FOR_DISCOVERY), Several, Keep),
    Field(3, "PreferredVersion", "preferredVersion", Of(&META_V1_GROUP_VERSION_FOR_DISCOVERY), One, Keep),
    Field(4, "ServerAddressByClientCIDRs", "serverAddressByClientCIDRs", Of(&META_V1_SERVER_ADDRESS_BY_CLIENT_CIDR), Several, Omit),
]);

pub(super) static META_V1_API_GROUP_LIST: Message = Message("APIGroupList", &[
    Field(1, "Groups", "groups", Of(&META_V1_API_GROUP), Several, Keep),
]);

pub(super) static META_V1_API_RESOURCE: Message = Message("APIResource", &[
    Field(1, "Name", "name", Text, One, Keep),
    Field(2, "Namespaced", "namespaced", Bool, One, Keep),
    Field(3, "Kind", "kind", Text, One, Keep),
    Field(4, "Verbs", "verbs", Texts, One, Keep),
    Field(5, "ShortNames", "shortNames", Text, Several, Omit),
    Field(6, "SingularName", "singularName", Text, One, Keep),
    Field(7, "Categories", "categories", Text, Several, Omit),
    Field(8, "Group", "group", Text, One, Omit),
    Field(9, "Version", "version", Text, One, Omit),
    Field(10, "StorageVersionHash", "storageVersionHash", Text, One, Omit),
]);

pub(super) static META_V1_API_RESOURCE_LIST: Message = Message("APIResourceList", &[
    Field(1, "GroupVersion", "groupVersion", Text, One, Keep),
    Field(2, "APIResources", "resources", Of(&META_V1_API_RESOURCE), Several, Keep),
]);

pub(super) static META_V1_API_VERSIONS: Message = Message("APIVersions", &[
    Field(1, "Versions", "versions", Text, Several, Keep),
    Field(2, "ServerAddressByClientCIDRs", "serverAddressByClientCIDRs", Of(&META_V1_SERVER_ADDRESS_BY_CLIENT_CIDR), Several, Keep),
]);

pub(super) static META_V1_CONDITION: Message = Message("Condition", &[
    Field(1, "Type", "type", Text, One, Keep),
    Field(2, "Status", "status", Text, One, Keep),
    Field(3, "ObservedGeneration", "observedGeneration", Int64, One, Omit),
    Field(4, "LastTransitionTime", "lastTransitionTime", Time, One, Keep),
    Field(5, "Reason", "reason", Text, One, Keep),
    Field(6, "Message", "message", Text, One, Keep),
]);

pub(super) static META_V1_DELETE_OPTIONS: Message = Message("DeleteOptions", &[
    Field(1, "GracePeriodSeconds", "gracePeriodSeconds", Int64, Pointer, Omit),
    Field(2, "Preconditions", "preconditions", Of(&META_V1_PRECONDITIONS), Pointer, Omit),
    Field(3, "OrphanDependents", "orphanDependents", Bool, Pointer, Omit),
    Field(4, "PropagationPolicy", "propagationPolicy", Text, Pointer, Omit),
    Field(5, "DryRun", "dryRun", Text, Several, Omit),
    Field(6, "IgnoreStoreReadErrorWithClusterBreakingPotential", "ignoreStoreReadErrorWithClusterBreakingPotential", Bool, Pointer, Omit),
]);

pub(super) static META_V1_GROUP_VERSION_FOR_DISCOVERY: Message = Message("GroupVersionForDiscovery", &[
    Field(1, "GroupVersion", "groupVersion", Text, One, Keep),
    Field(2, "Version", "version", Text, One, Keep),
]);

pub(super) static META_V1_LIST_META: Message = Message("ListMeta", &[
    Field(1, "SelfLink", "selfLink", Text, One, Omit),
    Field(2, "ResourceVersion", "resourceVersion", Text, One, Omit),
    Field(3, "Continue", "continue", Text, One, Omit),
    Field(4, "RemainingItemCount", "remainingItemCount", Int64, Pointer, Omit),
    Field(5, "ShardInfo", "shardInfo", Of(&META_V1_SHARD_INFO), Pointer, Omit),
]);

pub(super) static META_V1_MANAGED_FIELDS_ENTRY: Message = Message("ManagedFieldsEntry", &[
    Field(1, "Manager", "manager", Text, One, Omit),
    Field(2, "Operation", "operation", Text, One, Omit),
    Field(3, "APIVersion", "apiVersion", Text, One, Omit),
    Field(4, "Time", "time", Time, Pointer, Omit),
    Field(6, "FieldsType", "fieldsType", Text, One, Omit),
    Field(7, "FieldsV1", "fieldsV1", Json, Pointer, Omit),
    Field(8, "Subresource", "subresource", Text, One, Omit),
]);

pub(super) static META_V1_OBJECT_META: Message = Message("ObjectMeta", &[
    Field(1, "Name", "name", Text, One, Omit),
    Field(2, "GenerateName", "generateName", Text, One, Omit),
    Field(3, "Namespace", "namespace", Text, One, Omit),
    Field(4, "SelfLink", "selfLink", Text, One, Omit),
    Field(5, "UID", "uid", Text, One, Omit),
    Field(6, "ResourceVersion", "resourceVersion", Text, One, Omit),
    Field(7, "Generation", "generation", Int64, One, Omit),
    Field(8, "CreationTimestamp", "creationTimestamp", Time, One, Omit),
    Field(9, "DeletionTimestamp", "deletionTimestamp", Time, Pointer, Omit),
    Field(10, "DeletionGracePeriodSeconds", "deletionGracePeriodSeconds", Int64, Pointer, Omit),
    Field(11, "Labels", "labels", Text, Map, Omit),
    Field(12, "Annotations", "annotations", Text, Map, Omit),
    Field(13, "OwnerReferences", "ownerReferences", Of(&META_V1_OWNER_REFERENCE), Several, Omit),
    Field(14, "Finalizers", "finalizers", Text, Several, Omit),
    Field(15, "ClusterName", "clusterName", Gone, One, Omit),
    Field(17, "ManagedFields", "managedFields", Of(&META_V1_MANAGED_FIELDS_ENTRY), Several, Omit),
]);

pub(super) static META_V1_OWNER_REFERENCE: Message = Message("OwnerReference", &[
    Field(1, "Kind", "kind", Text, One, Keep),
    Field(3, "Name", "name", Text, One, Keep),
    Field(4, "UID", "uid", Text, One, Keep),
    Field(5, "APIVersion", "apiVersion", Text, One, Keep),
    Field(6, "Controller", "controller", Bool, Pointer, Omit),
    Field(7, "BlockOwnerDeletion", "blockOwnerDeletion", Bool, Pointer, Omit),
]);

pub(super) static META_V1_PARTIAL_OBJECT_METADATA: Message = Message("PartialObjectMetadata", &[
    Field(1, "ObjectMeta", "metadata", Of(&META_V1_OBJECT_META), One, Keep),
]);

pub(super) static META_V1_PARTIAL_OBJECT_METADATA_LIST: Message = Message("PartialObjectMetadataList", &[
    Field(1, "ListMeta", "metadata", Of(&META_V1_LIST_META), One, Keep),
    Field(2, "Items", "items", Of(&META_V1_PARTIAL_OBJECT_METADATA), Several, Keep),
]);

pub(super) static META_V1_PRECONDITIONS: Message = Message("Preconditions", &[
    Field(1, "UID", "uid", Text, Pointer, Omit),
    Field(2, "ResourceVersion", "resourceVersion", Text, Pointer, Omit),
]);

pub(super) static META_V1_SERVER_ADDRESS_BY_CLIENT_CIDR: Message = Message("ServerAddressByClientCIDR", &[
    Field(1, "ClientCIDR", "clientCIDR", Text, One, Keep),
    Field(2, "ServerAddress", "serverAddress", Text, One, Keep),
]);

pub(super) static META_V1_SHARD_INFO: Message = Message("ShardInfo", &[
    Field(1, "Selector", "selector", Text, One, Keep),
]);

pub(super) static META_V1_STATUS: Message = Message("Status", &[
    Field(1, "ListMeta", "metadata", Of(&META_V1_LIST_META), One, Keep),
    Field(2, "Status", "status", Text, One, Omit),
    Field(3, "Message", "message", Text, One, Omit),
    Field(4, "Reason", "reason", Text, One, Omit),
    Field(5, "Details", "details", Of(&META_V1_STATUS_DETAILS), Pointer, Omit),
    Field(6, "Code", "code", Int32, One, Omit),
]);

pub(super) static META_V1_STATUS_CAUSE: Message = Message("StatusCause", &[
    Field(1, "Type", "reason", Text, One, Omit),
    Field(2, "Message", "message", Text, One, Omit),
    Field(3, "Field", "field", Text, One, Omit),
]);

pub(super) static META_V1_STATUS_DETAILS: Message = Message("StatusDetails", &[
    Field(1, "Name", "name", Text, One, Omit),
    Field(2, "Group", "group", Text, One, Omit),
    Field(3, "Kind", "kind", Text, One, Omit),
    Field(4, "Causes", "causes", Of(&META_V1_STATUS_CAUSE), Several, Omit),
    Field(5, "RetryAfterSeconds", "retryAfterSeconds", Int32, One, Omit),
    Field(6, "UID", "uid", Text, One, Omit),
]);
