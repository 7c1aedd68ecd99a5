//! `#[derive(Resource)]`: the names of a kind, beside the type of its objects. `kindom_server::Resource` documents it.

use proc_macro::TokenStream;
use quote::quote;
use syn::{DeriveInput, parse_macro_input};

mod attribute;

use attribute::Attribute;

/// Implements `kindom_server::Resource` and `kube::Resource` for a struct with a field `metadata: ObjectMeta`.
///
/// `#[resource(…)]` takes
/// - `group = "sails.example.com"` and `version = "v1beta1"`, which are needed;
/// - `namespaced` or `cluster`, one of which is needed;
/// - `plural`, `singular`, `kind`: by default as Kubernetes' tools derive them from the struct's name;
/// - `short = "sl"` and `category = "all"`, any number of times;
/// - `status`: the field of that name is written through `/status` alone;
/// - `scale(spec = ".spec.crew", status = ".status.crew", selector = ".status.selector")`, the last of which may be absent;
/// - `deprecated`, or `deprecated = "…"` with words of your own: clients of this version get a warning;
/// - `column(name = "Crew", type = "integer", path = ".spec.crew", description = "…", format = "…", priority = 1)`, any number of
///   times, the last three of which may be absent;
/// - `json_schema`: objects match all that schemars says of the type, and not just what a structural schema can hold of it.
#[proc_macro_derive(Resource, attributes(resource))]
pub fn resource(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

fn expand(input: &DeriveInput) -> syn::Result<proc_macro2::TokenStream> {
    let attribute = Attribute::of(input)?;
    let (ident, generics) = (&input.ident, &input.generics);
    if !generics.params.is_empty() {
        return Err(syn::Error::new_spanned(generics, "a kind has no parameters"));
    }
    let Attribute { group, version, kind, plural, singular, short_names, categories, .. } = &attribute;
    let (namespaced, status, json_schema) = (attribute.namespaced, attribute.status, attribute.json_schema);
    let scope = match namespaced {
        true => quote!(NamespaceResourceScope),
        false => quote!(ClusterResourceScope),
    };
    let scale = match &attribute.scale {
        Some(scale) => {
            let (spec, status) = (&scale.spec, &scale.status);
            let selector = optional(scale.selector.as_ref());
            quote!(::core::option::Option::Some(::kindom_server::Scale { spec: #spec, status: #status, selector: #selector }))
        }
        None => quote!(::core::option::Option::None),
    };
    let deprecated = optional(attribute.deprecated.as_ref());
    let columns = attribute.columns.iter().map(|column| {
        let (name, kind, path, priority) = (&column.name, &column.kind, &column.path, column.priority);
        let (description, format) = (&column.description, &column.format);
        quote!(::kindom_server::Column {
            name: #name, kind: #kind, path: #path, description: #description, format: #format, priority: #priority,
        })
    });
    let borrowed = |text: &String| quote!(::std::borrow::Cow::Borrowed(#text));
    let [kind_text, group_text, version_text, plural_text] = [kind, group, version, plural].map(borrowed);
    let meta = quote!(::kindom_server::kube::core::ObjectMeta);
    Ok(quote! {
        #[automatically_derived]
        impl ::kindom_server::kube::Resource for #ident {
            type DynamicType = ();
            type Scope = ::kindom_server::kube::core::#scope;

            fn kind((): &()) -> ::std::borrow::Cow<'_, str> { #kind_text }
            fn group((): &()) -> ::std::borrow::Cow<'_, str> { #group_text }
            fn version((): &()) -> ::std::borrow::Cow<'_, str> { #version_text }
            fn plural((): &()) -> ::std::borrow::Cow<'_, str> { #plural_text }
            fn meta(&self) -> &#meta { &self.metadata }
            fn meta_mut(&mut self) -> &mut #meta { &mut self.metadata }
        }

        #[automatically_derived]
        impl ::kindom_server::Resource for #ident {
            const DEFINITION: ::kindom_server::Definition = ::kindom_server::Definition {
                group: #group,
                version: #version,
                kind: #kind,
                plural: #plural,
                singular: #singular,
                short_names: &[#(#short_names),*],
                categories: &[#(#categories),*],
                namespaced: #namespaced,
                status: #status,
                scale: #scale,
                deprecated: #deprecated,
                columns: &[#(#columns),*],
                json_schema: #json_schema,
            };
        }
    })
}

fn optional(text: Option<&String>) -> proc_macro2::TokenStream {
    match text {
        Some(text) => quote!(::core::option::Option::Some(#text)),
        None => quote!(::core::option::Option::None),
    }
}
