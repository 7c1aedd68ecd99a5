//! A prefix read page by page, so that only a page of it is in memory at a time. Pages are bounded by bytes: they hold more
//! objects the smaller these are.

use kindom_storage::{KeyRange, KeyValue, RangeRequest, Revision, Storage, StorageError};

/// The bytes that a page aims for, and the most objects on it.
const PAGE_BYTES: usize = 1 << 20;
const PAGE_MAX: usize = 1000;
/// The first page is small, as nothing is known of the objects' size.
const PAGE_FIRST: usize = 32;

/// A prefix that is being read.
pub struct Pages {
    request: RangeRequest,
    limit: usize,
    more: bool,
    as_of_first: bool,
    /// The number of keys behind the last page, as the first page counted them.
    after: usize,
}

/// One page.
pub struct Page {
    /// In key order.
    pub kvs: Vec<KeyValue>,
    /// The number of keys behind the page, if they are [counted](Pages::counted); else more than 0 if there are any. They are
    /// counted with the first page alone: a count takes as long as reading all keys.
    pub after: usize,
    /// The revision that it was read at.
    pub revision: Revision,
}

impl Pages {
    /// Each page as it is when it is read.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        let request = RangeRequest::prefix(prefix.as_bytes());
        Self { request, limit: PAGE_FIRST, more: true, as_of_first: false, after: 0 }
    }

    /// With the number of keys behind each page.
    #[must_use]
    pub fn counted(mut self) -> Self {
        self.request.count_all = true;
        self
    }

    /// All pages as they are when the first one is read.
    #[must_use]
    pub fn as_of_first(prefix: &str) -> Self {
        Self { as_of_first: true, ..Self::new(prefix) }
    }

    /// The pages of a range as of a revision.
    pub(crate) fn at(range: KeyRange, revision: Revision) -> Self {
        let pages = Self::new("");
        Self { request: RangeRequest { range, revision: Some(revision), ..pages.request }, ..pages }
    }

    /// `true` if the last page was read.
    #[must_use]
    pub fn at_end(&self) -> bool {
        !self.more
    }

    /// The next page; none at the end. The first one may be empty.
    ///
    /// # Errors
    /// The store's: [`StorageError::Compacted`] if reading as of the first page took longer than history lasts.
    pub async fn next(&mut self, storage: &dyn Storage) -> Result<Option<Page>, StorageError> {
        self.next_of(storage, usize::MAX).await
    }

    /// As [`Pages::next`], of at most so many objects.
    pub(crate) async fn next_of(
        &mut self,
        storage: &dyn Storage,
        objects_max: usize,
    ) -> Result<Option<Page>, StorageError> {
        if !self.more {
            return Ok(None);
        }
        self.request.limit = Some(self.limit.min(objects_max));
        let found = storage.range(self.request.clone()).await?;
        let revision = self.request.revision.unwrap_or(found.revision);
        if self.as_of_first {
            self.request.revision = Some(revision);
        }
        if let Some(last) = found.kvs.last() {
            self.request.range.start = KeyRange::single(&last.key).end.unwrap_or_else(|| last.key.clone());
        }
        let bytes = found.kvs.iter().filter_map(|kv| kv.value.as_ref().ok()).map(bytes::Bytes::len).sum();
        self.limit = page_size(self.limit, found.kvs.len(), bytes);
        let behind = found.count.saturating_sub(found.kvs.len());
        self.more = behind > 0 && !found.kvs.is_empty();
        let counted = std::mem::take(&mut self.request.count_all);
        self.after = if counted { behind } else { self.after.saturating_sub(found.kvs.len()) };
        // Keys may have come, or gone, since.
        self.after = if self.more { self.after.max(1) } else { behind };
        Ok(Some(Page { kvs: found.kvs, after: self.after, revision }))
    }
}

/// The number of objects that the next page should have, after one of so many objects and bytes.
fn page_size(limit: usize, objects: usize, bytes: usize) -> usize {
    let each = bytes.checked_div(objects).unwrap_or(0).max(1);
    // At most doubled: the next objects may be larger than the last ones.
    (PAGE_BYTES / each).clamp(1, PAGE_MAX).min(limit.saturating_mul(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_grow_with_small_objects_and_shrink_with_large_ones() {
        assert_eq!(page_size(32, 32, 32 << 10), 64);
        assert_eq!(page_size(640, 640, 640 << 10), 1000);
        assert_eq!(page_size(1000, 1000, 1000 << 20), 1);
        assert_eq!(page_size(1, 0, 0), 2);
        assert_eq!(page_size(1000, 1000, 0), 1000);
    }
}
