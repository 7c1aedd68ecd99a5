//! The members of a v2 document, by gnostic's messages (`openapiv2/OpenAPIv2.proto` of gnostic-models 0.7.0).

/// A message: its fields by their JSON names.
pub(super) struct Message {
    pub(super) fields: &'static [Field],
    /// The number of the field that `x-…` members go to; 0 if they go nowhere.
    pub(super) extensions: u32,
}

/// The JSON name, the number, and the content.
pub(super) struct Field(pub(super) &'static str, pub(super) u32, pub(super) Kind);

/// The content of a field.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Texts,
    Bool,
    Integer,
    Double,
    /// Any value, as YAML.
    Any,
    /// A list of any values.
    Anys,
    One(&'static Message),
    /// A map of messages.
    Named(&'static Message),
    /// Text or a list of texts.
    Type,
    /// A schema, in a message of its own.
    Items,
    /// A list of schemas.
    Schemas,
    /// A schema or a boolean.
    SchemaOrBool,
    Parameters,
    /// By status code.
    Responses,
    ResponseSchema,
}

pub(super) static INFO: Message =
    Message { fields: &[Field("title", 1, Kind::Text), Field("version", 2, Kind::Text)], extensions: 7 };

static EXTERNAL_DOCS: Message =
    Message { fields: &[Field("description", 1, Kind::Text), Field("url", 2, Kind::Text)], extensions: 3 };

pub(super) static SCHEMA: Message = Message {
    fields: &[
        Field("$ref", 1, Kind::Text),
        Field("format", 2, Kind::Text),
        Field("title", 3, Kind::Text),
        Field("description", 4, Kind::Text),
        Field("default", 5, Kind::Any),
        Field("multipleOf", 6, Kind::Double),
        Field("maximum", 7, Kind::Double),
        Field("exclusiveMaximum", 8, Kind::Bool),
        Field("minimum", 9, Kind::Double),
        Field("exclusiveMinimum", 10, Kind::Bool),
        Field("maxLength", 11, Kind::Integer),
        Field("minLength", 12, Kind::Integer),
        Field("pattern", 13, Kind::Text),
        Field("maxItems", 14, Kind::Integer),
        Field("minItems", 15, Kind::Integer),
        Field("uniqueItems", 16, Kind::Bool),
        Field("maxProperties", 17, Kind::Integer),
        Field("minProperties", 18, Kind::Integer),
        Field("required", 19, Kind::Texts),
        Field("enum", 20, Kind::Anys),
        Field("additionalProperties", 21, Kind::SchemaOrBool),
        Field("type", 22, Kind::Type),
        Field("items", 23, Kind::Items),
        Field("allOf", 24, Kind::Schemas),
        Field("properties", 25, Kind::Named(&SCHEMA)),
        Field("discriminator", 26, Kind::Text),
        Field("readOnly", 27, Kind::Bool),
        Field("externalDocs", 29, Kind::One(&EXTERNAL_DOCS)),
        Field("example", 30, Kind::Any),
    ],
    extensions: 31,
};

pub(super) static BODY_PARAMETER: Message = Message {
    fields: &[
        Field("description", 1, Kind::Text),
        Field("name", 2, Kind::Text),
        Field("in", 3, Kind::Text),
        Field("required", 4, Kind::Bool),
        Field("schema", 5, Kind::One(&SCHEMA)),
    ],
    extensions: 6,
};

pub(super) static QUERY_PARAMETER: Message = Message {
    fields: &[
        Field("required", 1, Kind::Bool),
        Field("in", 2, Kind::Text),
        Field("description", 3, Kind::Text),
        Field("name", 4, Kind::Text),
        Field("type", 6, Kind::Text),
        Field("format", 7, Kind::Text),
        Field("uniqueItems", 20, Kind::Bool),
    ],
    extensions: 23,
};

pub(super) static PATH_PARAMETER: Message = Message {
    fields: &[
        Field("required", 1, Kind::Bool),
        Field("in", 2, Kind::Text),
        Field("description", 3, Kind::Text),
        Field("name", 4, Kind::Text),
        Field("type", 5, Kind::Text),
        Field("format", 6, Kind::Text),
        Field("uniqueItems", 19, Kind::Bool),
    ],
    extensions: 22,
};

pub(super) static REFERENCE: Message = Message { fields: &[Field("$ref", 1, Kind::Text)], extensions: 0 };

pub(super) static RESPONSE: Message = Message {
    fields: &[Field("description", 1, Kind::Text), Field("schema", 2, Kind::ResponseSchema)],
    extensions: 5,
};

static OPERATION: Message = Message {
    fields: &[
        Field("tags", 1, Kind::Texts),
        Field("summary", 2, Kind::Text),
        Field("description", 3, Kind::Text),
        Field("externalDocs", 4, Kind::One(&EXTERNAL_DOCS)),
        Field("operationId", 5, Kind::Text),
        Field("produces", 6, Kind::Texts),
        Field("consumes", 7, Kind::Texts),
        Field("parameters", 8, Kind::Parameters),
        Field("responses", 9, Kind::Responses),
        Field("schemes", 10, Kind::Texts),
        Field("deprecated", 11, Kind::Bool),
    ],
    extensions: 13,
};

pub(super) static PATH_ITEM: Message = Message {
    fields: &[
        Field("get", 2, Kind::One(&OPERATION)),
        Field("put", 3, Kind::One(&OPERATION)),
        Field("post", 4, Kind::One(&OPERATION)),
        Field("delete", 5, Kind::One(&OPERATION)),
        Field("options", 6, Kind::One(&OPERATION)),
        Field("head", 7, Kind::One(&OPERATION)),
        Field("patch", 8, Kind::One(&OPERATION)),
        Field("parameters", 9, Kind::Parameters),
    ],
    extensions: 10,
};
