//! From exec to ready, and what an empty server holds.

use super::Setup;
use crate::client::{Ask, Protocol};
use crate::error::LoadError;
use crate::load::median;
use crate::report::{Row, mib};

const NEW_MS_MAX: f64 = 250.0;
const EXISTING_MS_MAX: f64 = 100.0;
const MEMORY_MAX: u64 = 25 << 20;

/// Starts on new folders, then on the same ones again.
pub(crate) async fn starts(setup: &Setup, report: &mut dyn FnMut(Row)) -> Result<(), LoadError> {
    let mut memory = 0;
    for (what, most) in [("new", NEW_MS_MAX), ("existing", EXISTING_MS_MAX)] {
        let mut times = Vec::new();
        for i in 0..setup.counts.starts {
            let kindom = setup.kindom(&setup.data(&format!("start-{i}"))).await?;
            let mut connection = kindom.endpoint()?.connect(Protocol::Http1).await?;
            connection.expect(&Ask::get("/readyz")).await?;
            times.push(kindom.age().as_secs_f64() * 1e3);
            memory = memory.max(kindom.memory()?);
            drop(connection);
            kindom.end().await?;
        }
        let middle = median(times.iter().copied());
        let worst = times.iter().copied().fold(0.0, f64::max);
        report(
            Row::new(
                format!("exec to /readyz on {} folder", if what == "new" { "a new" } else { "an existing" }),
                format!("{middle:.0} ms"),
            )
            .target(format!("≤ {most:.0} ms"), middle <= most)
            .remark(format!("the middle one of {}; the worst {worst:.0} ms", times.len())),
        );
    }
    report(
        Row::new("memory of an empty server", mib(memory))
            .target(format!("≤ {}", mib(MEMORY_MAX)), memory <= MEMORY_MAX)
            .remark("right after /readyz, the most of all starts"),
    );
    Ok(())
}
