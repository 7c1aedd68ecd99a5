//! A type's rules, as the pipeline calls them: on trees.

use std::marker::PhantomData;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::{Value, json};
use kindom_objects::RuleContext;
use kindom_objects::kinds::typed::Hooks;

use super::changes::carry_over;
use super::errors::Errors;
use super::strategy::{Context, Strategy};

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
        let Ok(mut value) = json::from_value::<T>(tree) else { return };
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
        if let Ok(old) = json::from_value::<T>(old) {
            Self::change(object, |object| object.prepare_for_update(&Context::new(cx), &old));
        }
    }

    fn validate(&self, cx: &RuleContext<'_>, object: &Value, old: Option<&Value>) -> ErrorList {
        let object: T = match json::from_value(object) {
            Ok(object) => object,
            // The schema lets something through that the type does not hold.
            Err(error) => return Error::invalid_part(&Path::root(), error.to_string()).into(),
        };
        // An object from before the type was what it is now may become anything that is valid.
        let old = old.and_then(|old| json::from_value::<T>(old).ok());
        let cx = Context::new(cx);
        let mut errors = Errors::none();
        if !cx.is_of_status() {
            errors.extend(object.validate(&cx));
        }
        if let Some(old) = old {
            errors.extend(object.validate_update(&cx, &old));
        }
        errors.into_list()
    }

    fn canonicalize(&self, _: &RuleContext<'_>, object: &mut Value) {
        Self::change(object, T::canonicalize);
    }
}
