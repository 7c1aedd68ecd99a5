//! The kinds of {{ domain }}.

#[cfg(test)]
#[path = "samples_test.rs"]
mod tests;
{% for group in groups %}
/// Kinds of {{ group.name }}.
pub mod {{ group.module }} {
{%- for version, kinds in group.versions|dictsort %}
    /// Version {{ version }}.
    pub mod {{ version }} {
{%- for kind in kinds %}
        pub mod {{ kind.module }};
{%- for file in kind.files %}
        pub mod {{ file }};
{%- endfor %}
{%- endfor %}
{% for kind in kinds %}
        pub use {{ kind.module }}::{{ kind.kind }};
{%- endfor %}
    }
{% endfor %}
{%- for kind in group.kinds %}
    /// The versions of {{ kind.kind }}: objects are stored as {{ kind.hub }}.
    pub fn {{ kind.module }}() -> kindom_server::Versions<{{ kind.hub }}::{{ kind.kind }}> {
        kindom_server::Versions::stored_as::<{{ kind.hub }}::{{ kind.kind }}>()
{%- for version in kind.others %}
            .with::<{{ version }}::{{ kind.kind }}>()
{%- endfor %}
{%- for served in kind.subresources %}
            .subresource("{{ served.name }}", &[{% for verb in served.verbs %}"{{ verb }}"{% if not loop.last %}, {% endif %}{% endfor %}], {{ kind.hub }}::{{ served.file }}::{{ served.function }})
{%- endfor %}
    }
{% endfor -%}
}
{% endfor %}
/// Every kind, for the API server and for tests.
pub fn kinds() -> kindom_server::Group {
    kindom_server::Group::new()
{%- for group in groups %}{% for kind in group.kinds %}
        .versions({{ group.module }}::{{ kind.module }}())
{%- endfor %}{% endfor %}
}
