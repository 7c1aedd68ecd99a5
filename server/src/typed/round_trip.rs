//! The proof, by trial, that the versions of a kind hold the same (B-20).

use std::fmt;
use std::sync::Arc;

use kindom_api::Value;
use kindom_objects::Convert as _;
use kindom_schema::Schema;
use kindom_schema::samples::Samples;

use super::kind::Versions;
use super::strategy::Strategy;

/// The samples that are made up for each one that is wanted, at most: some break a rule of the schema that is no structure.
const TRIES: usize = 50;

/// A version that has no form of an object that another has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// The object is another once it was converted there and back.
    Changed {
        /// As it was, JSON.
        before: String,
        /// The version between.
        through: String,
        /// As it came back, JSON.
        after: String,
    },
    /// The object cannot be converted, or is refused in the other version.
    Refused {
        /// JSON.
        object: String,
        /// The other version.
        version: String,
        /// The reason.
        why: String,
    },
    /// No object could be made up that the schema of this version accepts, so nothing was tried.
    NoSample {
        /// The version.
        version: String,
        /// The reason why the last one was refused.
        why: String,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { before, through, after } => {
                write!(
                    f,
                    "an object changes on the way through {through}\n before: {before}\n after:  {after}"
                )
            }
            Self::Refused { object, version, why } => {
                write!(f, "an object has no form in {version}: {why}\n object: {object}")
            }
            Self::NoSample { version, why } => {
                write!(f, "no object of {version} could be made up that its schema accepts: {why}")
            }
        }
    }
}

impl std::error::Error for Loss {}

impl<H: Strategy> Versions<H> {
    /// Converts so many made-up objects of each version to each other one and back, and finds one that is another object then. The
    /// objects are the same whenever it is called with the same `seed`.
    ///
    /// Call it in a test of a kind with several versions.
    ///
    /// # Errors
    /// [`Loss`], with the object.
    pub fn round_trips(&self, samples: usize, seed: u64) -> Result<(), Loss> {
        let versions: Vec<Tried> = self.registered().iter().filter_map(Tried::new).collect();
        for from in &versions {
            for object in self.samples(from, samples, seed)? {
                for to in versions.iter().filter(|to| to.name != from.name) {
                    self.round_trip(&object, from, to)?;
                }
            }
        }
        Ok(())
    }

    /// Objects of a version as they are stored in it.
    fn samples(&self, of: &Tried, count: usize, seed: u64) -> Result<Vec<Value>, Loss> {
        let (definition, forms) = (self.definition(), self.forms());
        let api_version = format!("{}/{}", definition.group, of.name);
        let mut samples = Samples::new(seed);
        let (mut made, mut why) = (Vec::new(), String::new());
        for _ in 0..count.saturating_mul(TRIES) {
            if made.len() == count {
                break;
            }
            let mut object = samples.object(of.structure, &api_version, definition.kind);
            if let Some(refused) = of.refusal(&mut object) {
                why = refused;
                continue;
            }
            // The type may hold less than its schema lets through.
            match forms.convert(&object, of.name, of.name) {
                Ok(object) => made.push(object),
                Err(refused) => why = refused,
            }
        }
        match made.is_empty() && count > 0 {
            true => Err(Loss::NoSample { version: of.name.to_owned(), why }),
            false => Ok(made),
        }
    }

    fn round_trip(&self, object: &Value, from: &Tried, to: &Tried) -> Result<(), Loss> {
        let refused = |why| Loss::Refused { object: object.to_string(), version: to.name.to_owned(), why };
        let mut there = self.forms().convert(object, from.name, to.name).map_err(refused)?;
        if let Some(why) = to.refusal(&mut there) {
            return Err(refused(why));
        }
        let mut back = self.forms().convert(&there, to.name, from.name).map_err(refused)?;
        if let Some(why) = from.refusal(&mut back) {
            return Err(refused(format!("on the way back: {why}")));
        }
        if &back == object {
            return Ok(());
        }
        let (before, after) = (object.to_string(), back.to_string());
        Err(Loss::Changed { before, through: to.name.to_owned(), after })
    }
}

/// A version that is tried.
struct Tried<'a> {
    name: &'a str,
    structure: &'a Value,
    schema: Arc<Schema>,
}

impl<'a> Tried<'a> {
    /// A version of a registration; none if its schema does not compile, which the server says when it starts.
    fn new(version: &'a Value) -> Option<Self> {
        let structure = version.at(&["schema", "openAPIV3Schema"])?;
        let schema = Schema::shared(Some(structure), false).ok()?;
        Some(Self { name: version.get("name")?.as_str()?, structure, schema })
    }

    /// The reason why an object is refused, once it has lost what its schema does not know.
    fn refusal(&self, object: &mut Value) -> Option<String> {
        self.schema.prune(object, None);
        if self.schema.fill_defaults(object).is_err() {
            return Some("its defaults have no room".to_owned());
        }
        self.schema.validate(object).iter().next().map(ToString::to_string)
    }
}
