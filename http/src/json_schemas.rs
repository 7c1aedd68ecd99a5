//! The JSON Schema of a type, for editors: `/schemas/<group>/<version>/<kind>.json`.

use kindom_actor_kit::dear;
use kindom_api::json;
use kindom_schema::openapi::json_schema;
use kindom_schema::whole::with_whole_schema;

use crate::RequestError;
use crate::app::App;
use crate::audience::Audience;
use crate::cost;
use crate::groups::fresh;
use crate::head::Head;
use crate::openapi::{hash, served};
use crate::respond::{PieceTurns, send};
use crate::response::Response;
use crate::status::Failure;
use crate::tagged::start_tagged;

const MEDIA_TYPE: &str = "application/schema+json";

/// The schemas that all types share, which are read for each, roughly.
const SHARED_BYTES: usize = 64 << 10;

/// The name of the core group in a path.
const CORE: &str = "core";

/// The type that a path below `/schemas` names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wanted<'a> {
    group: &'a str,
    version: &'a str,
    /// In any case.
    kind: &'a str,
}

impl<'a> Wanted<'a> {
    /// `<group>/<version>/<kind>.json`, or `<group>/<kind>_<version>.json`, as in catalogues that editors know
    /// (`yaml.kubernetesCRDStore.url` of yaml-language-server).
    pub(crate) fn of(path: &[&'a str]) -> Option<Self> {
        let (group, version, kind) = match *path {
            [group, version, file] => (group, version, file.strip_suffix(".json")?),
            [group, file] => {
                let (kind, version) = file.strip_suffix(".json")?.split_once('_')?;
                (group, version, kind)
            }
            _ => return None,
        };
        Some(Self { group: if group == CORE { "" } else { group }, version, kind })
    }
}

/// The JSON Schema of a type.
pub(crate) async fn serve(
    app: &App,
    request: &Head,
    audience: Audience,
    wanted: Wanted<'_>,
    turns: PieceTurns,
) -> Result<Response, Failure> {
    fresh(app, audience).await?;
    let mut types = served(app.state.registry.routes().table().group(wanted.group), wanted.version, audience);
    types.retain(|described| described.spec.names.kind.eq_ignore_ascii_case(wanted.kind));
    // Of two that differ in case alone, the one that is named exactly.
    let exact = types.iter().position(|described| described.spec.names.kind == wanted.kind);
    let described = types.into_iter().nth(exact.unwrap_or_default()).ok_or(RequestError::NotFound)?;
    let (is_known, mut builder) =
        start_tagged(request, &hash(std::slice::from_ref(&described), &[]), MEDIA_TYPE);
    if is_known {
        return Ok(builder.finish());
    }
    let stored =
        described.spec.registration.as_ref().map_or(0, |registration| registration.object.json().len());
    let cost = cost::parse(SHARED_BYTES + stored) + cost::zip(stored);
    let made = turns.processors.run(turns.flow, async move {
        dear(cost).await?;
        let stored = described.spec.registration.as_ref().map(|registration| registration.object.json());
        let registration = stored.and_then(|stored| json::parse_own(stored).ok()).unwrap_or_default();
        let schema = described.docs(&registration).next().map(|(gv, doc)| json_schema(&gv, &doc));
        let schema = schema.map(|schema| with_whole_schema(schema, &registration).to_vec());
        schema.ok_or_else(|| Failure::from(RequestError::NotFound))
    });
    let schema = made.await.map_err(|lost| RequestError::Internal(lost.to_string()))??;
    builder.insert_header(("x-content-type-options", "nosniff"));
    Ok(send(request, builder, schema))
}

#[cfg(test)]
mod tests {
    use super::Wanted;

    #[test]
    fn both_layouts_name_a_type() {
        let wanted = |path: &str| {
            let path: Vec<&str> = path.split('/').collect();
            Wanted::of(&path).map(|Wanted { group, version, kind }| format!("{group} {version} {kind}"))
        };
        assert_eq!(wanted("g.example.com/v1/Ox.json").as_deref(), Some("g.example.com v1 Ox"));
        assert_eq!(wanted("g.example.com/ox_v1.json").as_deref(), Some("g.example.com v1 ox"));
        assert_eq!(wanted("core/v1/pod.json").as_deref(), Some(" v1 pod"));
        for other in ["", "g", "g/v1/Ox", "g/ox.json", "g/v1/w/Ox.json"] {
            assert_eq!(wanted(other), None, "{other}");
        }
    }
}
