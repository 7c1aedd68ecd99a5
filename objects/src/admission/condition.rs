//! The match conditions of webhooks and policies: expressions on a write (`matchconditions/matcher.go`).

use kindom_api::Value;
use kindom_cel::value::Value as CelValue;

use super::environment::{Composition, Expression, Wanted};
use super::evaluation::{Evaluation, Inputs, OUT_OF_BUDGET, Pending, Stop};

/// The most that all conditions of one webhook or policy may cost (`RuntimeCELCostBudgetMatchConditions`).
const BUDGET: u64 = 2_500_000;

/// The match conditions of a webhook or a policy.
#[derive(Debug)]
pub struct Conditions {
    conditions: Vec<Expression>,
    fails_open: bool,
}

/// The reason why nobody knows if conditions hold.
#[derive(Debug, PartialEq, Eq)]
pub enum Undecided {
    /// The write, or the policy, fails for that.
    Failed(String),
    /// A decision is yet to be asked for.
    Pending,
}

impl Conditions {
    /// Those of a configuration, and if they may name parameters.
    pub(super) fn of(conditions: &[Value], has_params: bool, fails_open: bool) -> Self {
        let composition = Composition::new(has_params, false);
        let condition = |of: &Value| composition.compile(of.text_at(&["expression"]), Wanted::Bool, true);
        Self { conditions: conditions.iter().map(condition).collect(), fails_open }
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Returns true if all of them hold for a write.
    ///
    /// # Errors
    /// See [`Undecided`].
    pub fn hold(&self, inputs: &Inputs<'_>) -> Result<bool, Undecided> {
        let mut errors = Vec::new();
        let undecided = |why: String| if self.fails_open { Ok(false) } else { Err(Undecided::Failed(why)) };
        // Conditions know no namespace.
        let inputs = Inputs { namespace: None, ..*inputs };
        let mut scope = Evaluation::new(&inputs, &[], BUDGET);
        for condition in &self.conditions {
            match scope.evaluate(condition) {
                // Whatever the others say.
                Ok(CelValue::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(Stop::Failed(why)) => errors.push(why),
                Err(Stop::OutOfBudget) => return undecided(OUT_OF_BUDGET.to_owned()),
                Err(Stop::Pending(Pending)) => return Err(Undecided::Pending),
            }
        }
        match errors.len() {
            0 => Ok(true),
            1 => undecided(errors.remove(0)),
            _ => {
                let mut once: Vec<String> = Vec::new();
                for error in errors {
                    if !once.contains(&error) {
                        once.push(error);
                    }
                }
                undecided(format!("[{}]", once.join(", ")))
            }
        }
    }
}

/// Checks that a condition compiles.
///
/// # Errors
/// The reason why not, in upstream's words.
pub(crate) fn check_condition(expression: &str, has_params: bool) -> Result<(), String> {
    let composition = Composition::new(has_params, false);
    composition.compile(expression, Wanted::Bool, true).program.map(drop)
}
