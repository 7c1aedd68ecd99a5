//! The places of one worker's connections: who has to leave when there is no room.
//!
//! - Whoever has not yet sent the head of a request is a newcomer. Newcomers have a bound of their own, beyond which the oldest
//!   one leaves: those who say nothing cannot keep others from coming.
//! - Where all places are taken, the oldest newcomer leaves, or else the connection that has had no request under way for the
//!   longest time. A client opens another one when it needs one.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The most newcomers of a worker; fewer if it has fewer places.
const NEWCOMERS_MAX: usize = 1024;

/// The connections of one worker.
pub(super) struct Places {
    most: usize,
    newcomers_max: usize,
    next: Cell<u64>,
    guests: RefCell<HashMap<u64, Rc<Guest>>>,
    /// The oldest first.
    newcomers: RefCell<BTreeMap<u64, Rc<Guest>>>,
}

/// A connection.
pub(super) struct Guest {
    number: u64,
    is_newcomer: Cell<bool>,
    under_way: Cell<usize>,
    /// The time since which nothing is under way.
    idle_since: Cell<Instant>,
    is_leaving: Cell<bool>,
    told: Notify,
}

impl Places {
    /// At most so many connections, if the ones that must leave do so at once.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            newcomers_max: NEWCOMERS_MAX.min(most / 2).max(1),
            next: Cell::new(0),
            guests: RefCell::default(),
            newcomers: RefCell::default(),
        }
    }

    /// Gives a place to a connection until it is dropped, and lets another leave if there is no room.
    pub(super) fn enter(self: &Rc<Self>) -> Place {
        if self.guests.borrow().len() >= self.most && !self.oldest_newcomer_leaves() {
            self.idlest_leaves();
        } else if self.newcomers.borrow().len() >= self.newcomers_max {
            self.oldest_newcomer_leaves();
        }
        let number = self.next.replace(self.next.get() + 1);
        let guest = Rc::new(Guest {
            number,
            is_newcomer: Cell::new(true),
            under_way: Cell::new(0),
            idle_since: Cell::new(Instant::now()),
            is_leaving: Cell::new(false),
            told: Notify::new(),
        });
        self.guests.borrow_mut().insert(number, Rc::clone(&guest));
        self.newcomers.borrow_mut().insert(number, Rc::clone(&guest));
        Place { places: Rc::clone(self), guest }
    }

    fn oldest_newcomer_leaves(&self) -> bool {
        let oldest = self.newcomers.borrow_mut().pop_first();
        oldest.map(|(_, guest)| guest.leave()).is_some()
    }

    fn idlest_leaves(&self) {
        let guests = self.guests.borrow();
        let idle = guests.values().filter(|guest| guest.under_way.get() == 0 && !guest.is_leaving.get());
        if let Some(guest) = idle.min_by_key(|guest| guest.idle_since.get()) {
            guest.leave();
        }
    }
}

impl Guest {
    fn leave(&self) {
        self.is_leaving.set(true);
        self.told.notify_one();
    }

    /// Returns true if a request is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.get() > 0
    }

    /// Returns true if nothing was under way for so long.
    pub(super) fn is_idle_for(&self, time: Duration) -> bool {
        self.under_way.get() == 0 && self.idle_since.get().elapsed() >= time
    }

    /// Returns once the connection has to leave.
    pub(super) async fn told_to_leave(&self) {
        while !self.is_leaving.get() {
            self.told.notified().await;
        }
    }
}

/// The place of a connection, which is free again when this is dropped.
pub(super) struct Place {
    places: Rc<Places>,
    guest: Rc<Guest>,
}

impl Place {
    pub(super) fn guest(&self) -> &Rc<Guest> {
        &self.guest
    }

    /// A request has come whole, up to its body; it is under way until this is dropped.
    pub(super) fn begin(&self) -> UnderWay {
        let guest = &self.guest;
        if guest.is_newcomer.replace(false) {
            self.places.newcomers.borrow_mut().remove(&guest.number);
        }
        guest.under_way.set(guest.under_way.get() + 1);
        UnderWay(Rc::clone(guest))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.newcomers.borrow_mut().remove(&self.guest.number);
        self.places.guests.borrow_mut().remove(&self.guest.number);
    }
}

/// A request that is under way.
pub(super) struct UnderWay(Rc<Guest>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.set(self.0.under_way.get() - 1);
        if self.0.under_way.get() == 0 {
            self.0.idle_since.set(Instant::now());
        }
    }
}

/// The number of connections from each address, where it is bounded.
pub(super) struct Addresses {
    most: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

impl Addresses {
    /// At most so many connections from an address.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default() })
    }

    /// Counts a connection until it is dropped; `None` if there are too many from its address.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<FromAddress> {
        // The same address in IPv6's notation is the same address.
        let address = address.to_canonical();
        let mut open = self.open.lock();
        let count = open.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        drop(open);
        Some(FromAddress { addresses: Arc::clone(self), address })
    }
}

/// A connection that counts for its address.
pub(super) struct FromAddress {
    addresses: Arc<Addresses>,
    address: IpAddr,
}

impl Drop for FromAddress {
    fn drop(&mut self) {
        let mut open = self.addresses.open.lock();
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaving(places: &[&Place]) -> Vec<bool> {
        places.iter().map(|place| place.guest.is_leaving.get()).collect()
    }

    #[test]
    fn the_oldest_who_says_nothing_leaves_first() {
        let places = Rc::new(Places::new(4));
        let (first, second) = (places.enter(), places.enter());
        assert_eq!(leaving(&[&first, &second]), [false, false]);
        let third = places.enter();
        assert_eq!(leaving(&[&first, &second, &third]), [true, false, false], "two newcomers at most");
        drop(second.begin());
        drop(first);
        let fourth = places.enter();
        assert_eq!(leaving(&[&second, &third, &fourth]), [false; 3], "the second is no newcomer any more");
    }

    #[test]
    fn the_idlest_leaves_if_all_are_known_and_never_one_with_a_request() {
        let places = Rc::new(Places::new(3));
        let all = [(); 3].map(|()| {
            let place = places.enter();
            drop(place.begin());
            place
        });
        let busy = all[0].begin();
        drop(all[2].begin());
        drop(all[1].begin());
        let fourth = places.enter();
        assert_eq!(leaving(&[&all[0], &all[1], &all[2]]), [false, false, true], "idle for the longest time");
        drop(fourth.begin());
        drop(all[1].begin());
        let fifth = places.enter();
        assert_eq!(leaving(&[&all[0], &all[1], &fourth]), [false, false, true]);
        drop((busy, fifth));
    }

    #[tokio::test]
    async fn who_has_to_leave_is_told_before_or_after_it_asks() {
        let places = Rc::new(Places::new(2));
        let first = places.enter();
        let mut told = Box::pin(first.guest().told_to_leave());
        assert!(futures::poll!(&mut told).is_pending());
        let second = places.enter();
        told.await;
        let _third = places.enter();
        second.guest().told_to_leave().await;
    }

    #[test]
    fn an_address_has_its_share() {
        let addresses = Addresses::new(2);
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let first = addresses.enter(one);
        let mapped = addresses.enter("::ffff:192.0.2.1".parse().unwrap());
        assert!(first.is_some() && mapped.is_some());
        assert!(addresses.enter(one).is_none());
        assert!(addresses.enter(other).is_some());
        drop(mapped);
        assert!(addresses.enter(one).is_some());
        drop(first);
        assert!(addresses.open.lock().is_empty());
    }
}
