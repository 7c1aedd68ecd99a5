//! A type's rules, as the pipeline calls them: on trees.

use std::collections::HashSet;
use std::marker::PhantomData;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::{Value, json};
use kindom_objects::RuleContext;
use kindom_objects::kinds::typed::Hooks;

use super::changes::carry_over;
use super::read::read;
use super::strategy::{Context, Strategy};

/// The value in a tree that its schema accepts.
///
/// # Errors
/// The schema lets something through that the type does not hold.
fn accepted<T: Strategy>(tree: &Value) -> Result<T, ErrorList> {
    read(tree).map_err(|error| Error::invalid_part(&Path::root(), error.to_string()).into())
}

/// The rules of `T`.
pub(super) struct Rules<T>(PhantomData<fn() -> T>);

impl<T> Rules<T> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Strategy> Rules<T> {
    /// Changes a tree as `hook` changes the value in it. A tree that holds no such value stays as it is: validation refuses it.
    fn change(tree: &mut Value, hook: impl FnOnce(&mut T)) {
        let Ok(mut value) = read::<T>(tree) else { return };
        let Ok(before) = serde_json::to_vec(&value) else { return };
        hook(&mut value);
        let Ok(after) = serde_json::to_vec(&value) else { return };
        if before == after {
            return;
        }
        if let (Ok(before), Ok(after)) = (json::parse_own(&before), json::parse_own(&after)) {
            carry_over(tree, &before, after);
        }
    }
}

impl<T: Strategy> Hooks for Rules<T> {
    fn apply_defaults(&self, _: &RuleContext<'_>, object: &mut Value) {
        Self::change(object, T::apply_defaults);
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, object: &mut Value) {
        Self::change(object, |object| object.prepare_for_create(&Context::new(cx)));
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        if let Ok(old) = read::<T>(old) {
            Self::change(object, |object| object.prepare_for_update(&Context::new(cx), &old));
        }
    }

    fn validate(&self, cx: &RuleContext<'_>, object: &Value) -> ErrorList {
        match accepted::<T>(object) {
            Ok(object) => object.validate(&Context::new(cx)).into_list(),
            Err(errors) => errors,
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        warnings: &mut Vec<String>,
    ) -> ErrorList {
        let object = match accepted::<T>(object) {
            Ok(object) => object,
            Err(errors) => return errors,
        };
        let cx = Context::new(cx);
        // An object from before the type was what it is now may become anything that is valid.
        let old = read::<T>(old).ok();
        let mut errors = match cx.is_of_status() {
            true => ErrorList::new(),
            false => object.validate(&cx).into_list(),
        };
        // Where there were too many errors to list, nobody knows whether the others are new.
        if let Some(old) = &old
            && !errors.is_empty()
            && !errors.is_full()
        {
            let before = old.validate(&cx).into_list();
            let before: HashSet<String> = before.iter().map(ToString::to_string).collect();
            let mut new = ErrorList::new();
            for error in errors {
                let text = error.to_string();
                if before.contains(&text) { warnings.push(text) } else { new.push(error) }
            }
            errors = new;
        }
        if let Some(old) = &old {
            errors.extend(object.validate_update(&cx, old).into_list());
        }
        errors
    }

    fn canonicalize(&self, _: &RuleContext<'_>, object: &mut Value) {
        Self::change(object, T::canonicalize);
    }
}
