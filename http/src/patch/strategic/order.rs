//! The order of merged lists: `$setElementOrder` goes before the order of the patch, and that before the order that there
//! was.

use std::collections::HashMap;

use kindom_api::decode::Shape;
use kindom_api::json::{Map, Value};
use kindom_formats::go;

use super::merge::{
    DIRECTIVE, Error, Items, Lookup, SET_ORDER, identities, identity, items_of, keyed, lists, target,
    without_directives,
};

/// Up to this many items Go's stable sort is an insertion sort.
const INSERTION_MAX: usize = 20;

/// Follows `$setElementOrder` directives, and merges the lists that they are about (`mergePatchIntoOriginal`). Both are
/// taken out of the patch.
pub(super) fn apply(original: &mut Map, patch: &mut Map, of: &Shape) -> Result<(), Error> {
    let directives: Vec<String> =
        patch.keys().filter(|key| key.starts_with(SET_ORDER)).map(str::to_owned).collect();
    for directive in directives {
        let order = patch.remove(&directive).unwrap_or_default();
        let order = order.as_array().ok_or_else(|| Error::not_a_list(&order))?;
        let name = target(&directive, SET_ORDER).ok_or_else(Error::malformed_order)?;
        let list = |found: &'_ Value| match found {
            Value::Array(items) => Ok(items.to_vec()),
            other => Err(Error::not_a_list(other)),
        };
        let current = original.get(name).map(list).transpose()?;
        let patched_list = patch.get(name).map(list).transpose()?;
        let field = Lookup::list(of, name)?;
        let key = field.key();
        check(patched_list.as_deref().unwrap_or_default(), order, key)?;
        let merged = match (&current, &patched_list) {
            (None, None) => continue,
            (Some(current), None) => current.clone(),
            (None, Some(patched_list)) => {
                let mut added = Value::Array(patched_list.clone().into());
                without_directives(&mut added);
                added.as_array().unwrap_or_default().to_vec()
            }
            (Some(current), Some(patched_list)) if field.merges() => {
                lists(current.clone(), patched_list, &field, false)?
            }
            (Some(_), Some(patched_list)) => patched_list.clone(),
        };
        let (ordered, server_only) = partition(merged, order, key)?;
        let current = current.unwrap_or_default();
        let items = items_of([&current, patched_list.as_deref().unwrap_or_default()])?;
        let all = normalize(ordered, server_only, order, &current, key, items)?;
        original.insert(name, Value::Array(all.into()));
        patch.remove(name);
    }
    Ok(())
}

/// Go's `==`, which panics at lists and maps of one type.
fn is_equal(a: &Value, b: &Value) -> Result<bool, Error> {
    match (a, b) {
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => {
            Err(Error::incomparable())
        }
        (a, b) => Ok(a == b),
    }
}

/// The items of the patch must stand in the order in the order's own sequence (`validatePatchWithSetOrderList`); those to
/// be deleted need not.
fn check(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Error> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    if key.is_some()
        && let Some(wrong) = patch.iter().find(|item| item.as_object().is_none())
    {
        return Err(Error::not_a_map(wrong));
    }
    let directive = |item: &'_ Value| item.get(DIRECTIVE).cloned();
    let deletes =
        |item: &&Value| key.is_some() && directive(item).is_some_and(|d| d.as_str() == Some("delete"));
    let same = |item: &Value, place: &Value| match key {
        None => is_equal(item, place),
        Some(key) => {
            // A missing key is an error in either item before the values are compared.
            place.as_object().ok_or_else(|| Error::not_a_map(place))?;
            let ((_, item), (_, place)) = (keyed(item, key)?, keyed(place, key)?);
            is_equal(item, place)
        }
    };
    let mut items = patch.iter().filter(|item| !deletes(item)).peekable();
    for place in order {
        while items.next_if(|item| directive(item).is_some()).is_some() {}
        let Some(item) = items.peek() else { return Ok(()) };
        if same(item, place)? {
            items.next();
        }
    }
    if items.peek().is_none() {
        return Ok(());
    }
    let (patch, order) = (go::list(patch), go::list(order));
    Err(Error::Other(format!(
        "The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n"
    )))
}

/// The items that are in a list, and the others (`partitionPrimitivesByPresentInList`, `partitionMapsByPresentInList`).
pub(super) fn partition(
    items: Vec<Value>,
    by: &[Value],
    key: Option<&str>,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let present = match key {
        None => identities(by)?,
        Some(key) => by.iter().filter_map(|item| item.get(key)).map(ToString::to_string).collect(),
    };
    let not_a_map = by.iter().position(|item| key.is_some() && item.as_object().is_none());
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for item in items {
        let value = match key {
            None => &item,
            Some(key) => keyed(&item, key)?.1,
        };
        if let Some(place) = not_a_map {
            return Err(Error::Other(format!("value for key {place} is not a map")));
        }
        let is_present = present.contains(&identity(value)?);
        if is_present { inside.push(item) } else { outside.push(item) }
    }
    Ok((inside, outside))
}

/// The positions of a list's items, by the text that identifies them.
struct Order<'a> {
    places: HashMap<String, usize>,
    key: Option<&'a str>,
}

impl<'a> Order<'a> {
    fn of(list: &[Value], key: Option<&'a str>) -> Self {
        let mut order = Self { places: HashMap::new(), key };
        for (place, item) in list.iter().enumerate() {
            let identity = order.identity(item);
            order.places.entry(identity).or_insert(place);
        }
        order
    }

    fn identity(&self, item: &Value) -> String {
        match self.key {
            None => item.to_string(),
            Some(key) => item.get(key).map_or_else(|| "null".to_owned(), ToString::to_string),
        }
    }

    fn place(&self, item: &Value) -> Option<usize> {
        self.places.get(&self.identity(item)).copied()
    }
}

/// `normalizeElementOrder`: items of the patch in the patch's order, items that only the server has in theirs, both
/// interleaved as they were.
pub(super) fn normalize(
    patched: Vec<Value>,
    server_only: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    key: Option<&str>,
    items: Items,
) -> Result<Vec<Value>, Error> {
    if items == Items::Maps {
        let key = key.unwrap_or_default();
        for (list, order) in [(&patched, patch_order), (&server_only, server_order)] {
            for item in list.iter().chain(order) {
                keyed(item, key)?;
            }
        }
    }
    let (in_patch, on_server) = (Order::of(patch_order, key), Order::of(server_order, key));
    let sort = |list: Vec<Value>, order: &Order<'_>| {
        let placed = list.into_iter().map(|item| (order.place(&item), item)).collect();
        sorted(placed).into_iter().map(|item| (on_server.place(&item), item)).collect::<Vec<_>>()
    };
    let patched = sort(patched, &in_patch);
    let server_only = sort(server_only, &on_server);

    // `mergeSortedSlice`: an item of the server goes before the first one that stood behind it.
    let mut all = Vec::with_capacity(patched.len() + server_only.len());
    let mut left = server_only.into_iter().peekable();
    for (place, item) in patched {
        while let (Some((Some(before), _)), Some(place)) = (left.peek(), place)
            && *before < place
        {
            all.extend(left.next().map(|(_, item)| item));
        }
        all.push(item);
    }
    all.extend(left.map(|(_, item)| item));
    Ok(all)
}

/// Sorts as upstream's stable sort does with its own order: an item without a place is less than anything before it.
fn sorted(mut items: Vec<(Option<usize>, Value)>) -> Vec<Value> {
    if items.iter().all(|(place, _)| place.is_some()) {
        items.sort_by_key(|(place, _)| *place);
    } else if items.len() <= INSERTION_MAX {
        let less = |a: Option<usize>, b: Option<usize>| a.zip(b).is_none_or(|(a, b)| a < b);
        for end in 1..items.len() {
            let mut at = end;
            while at > 0
                && let (Some((before, _)), Some((place, _))) = (items.get(at - 1), items.get(at))
                && less(*place, *before)
            {
                items.swap(at - 1, at);
                at -= 1;
            }
        }
    } else {
        // Go's order is one of its merge sort here, and nothing to rely on.
        items.sort_by_key(|(place, _)| *place);
    }
    items.into_iter().map(|(_, item)| item).collect()
}
