//! A type's rules, as the pipeline calls them: on trees.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_objects::kinds::typed::Hooks;
use kindom_objects::{ReadValue, RuleContext};

use super::absent::{Absent, Hook};
use super::form::{Form, Forms};
use super::strategy::{Context, Strategy};

/// The rules of the hub `H`.
pub(super) struct Rules<H> {
    forms: Arc<Forms<H>>,
    absent: Absent,
}

impl<H: Strategy> Rules<H> {
    pub(super) fn new(forms: Arc<Forms<H>>) -> Self {
        Self { forms, absent: Absent::default() }
    }

    /// The form of the request's version. A registration has the program's versions alone; until one that was made by hand is the
    /// program's, it may have others, which have no hooks.
    fn form(&self, cx: &RuleContext<'_>) -> Option<&Form<H>> {
        self.forms.get(cx.version_name)
    }

    /// The value in an object that its schema accepts; none if its version has no hooks.
    ///
    /// # Errors
    /// The schema lets something through that the type does not hold.
    fn accepted(&self, cx: &RuleContext<'_>, tree: &Value) -> Result<Option<H>, ErrorList> {
        let read = self.form(cx).map(|form| form.read(tree)).transpose();
        read.map_err(|error| Error::invalid_part(&Path::root(), error.to_string()).into())
    }

    /// Changes a tree by a hook, unless the type has none.
    fn change(&self, cx: &RuleContext<'_>, hook: Hook, tree: &mut Value, call: impl FnMut(&mut H)) {
        self.change_read(cx, hook, tree, None, call);
    }

    /// The same, with the value in the tree where it was read before.
    fn change_read(
        &self,
        cx: &RuleContext<'_>,
        hook: Hook,
        tree: &mut Value,
        read: Option<H>,
        call: impl FnMut(&mut H),
    ) {
        if let Some(form) = self.form(cx) {
            self.absent.unless::<H>(hook, || form.change(tree, read, call));
        }
    }
}

impl<H: Strategy> Hooks for Rules<H> {
    fn apply_defaults(&self, cx: &RuleContext<'_>, object: &mut Value) {
        if let Some(form) = self.form(cx) {
            form.apply_defaults(object);
        }
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, object: &mut Value) {
        let context = Context::new(cx);
        self.change(cx, Hook::PrepareForCreate, object, |object| object.prepare_for_create(&context));
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        let context = Context::new(cx);
        self.change(cx, Hook::PrepareForUpdate, object, |object| {
            if let Ok(Some(old)) = self.accepted(cx, old) {
                object.prepare_for_update(&context, &old);
            }
        });
    }

    fn validate(&self, cx: &RuleContext<'_>, object: &Value) -> (ErrorList, Option<ReadValue>) {
        match self.accepted(cx, object) {
            Ok(Some(object)) => {
                let errors = object.validate(&Context::new(cx)).into_list();
                let is_read_again = !self.absent.knows(Hook::Canonicalize);
                (errors, is_read_again.then(|| Box::new(object) as ReadValue))
            }
            Ok(None) => (ErrorList::new(), None),
            Err(errors) => (errors, None),
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        warnings: &mut Vec<String>,
    ) -> ErrorList {
        let object = match self.accepted(cx, object) {
            Ok(Some(object)) => object,
            Ok(None) => return ErrorList::new(),
            Err(errors) => return errors,
        };
        // An object from before the type was what it is now may become anything that is valid.
        let before = OnceCell::new();
        let before = || before.get_or_init(|| self.accepted(cx, old).ok().flatten()).as_ref();
        let context = Context::new(cx);
        let mut errors = match context.is_of_status() {
            true => ErrorList::new(),
            false => object.validate(&context).into_list(),
        };
        // Where there were too many errors to list, nobody knows whether the others are new.
        if !errors.is_empty()
            && !errors.is_full()
            && let Some(before) = before()
        {
            let known = before.validate(&context).into_list();
            let known: HashSet<String> = known.iter().map(ToString::to_string).collect();
            let mut new = ErrorList::new();
            for error in errors {
                let text = error.to_string();
                if known.contains(&text) { warnings.push(text) } else { new.push(error) }
            }
            errors = new;
        }
        self.absent.unless::<H>(Hook::ValidateUpdate, || {
            if let Some(before) = before() {
                errors.extend(object.validate_update(&context, before).into_list());
            }
        });
        errors
    }

    fn canonicalize(&self, cx: &RuleContext<'_>, object: &mut Value, read: Option<ReadValue>) {
        let read = read.and_then(|read| read.downcast().ok()).map(|read| *read);
        self.change_read(cx, Hook::Canonicalize, object, read, H::canonicalize);
    }
}
