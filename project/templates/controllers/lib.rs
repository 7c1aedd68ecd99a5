//! The controllers of the kinds of {{ domain }}.
{% for kind in controllers %}
pub mod {{ kind.module }};
{%- endfor %}

/// Has every controller run by a manager.
pub fn register(manager: kindom_controller::Manager) -> kindom_controller::Manager {
    manager
{%- for kind in controllers %}
        .controller::<{{ kind.module }}::{{ kind.kind }}Controller>()
{%- endfor %}
}
