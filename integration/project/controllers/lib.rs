// Written by kindom. Once edited, it is yours to keep up to date. ea476fa9a2dccc7b2a956fb3e0c31692
//! The controllers of the kinds of example.com.

pub mod harbour;
pub mod sloop;

/// Has every controller run by a manager.
pub fn register(manager: kindom_controller::Manager) -> kindom_controller::Manager {
    manager
        .controller::<harbour::HarbourController>()
        .controller::<sloop::SloopController>()
}
