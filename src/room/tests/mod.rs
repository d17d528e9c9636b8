//! Behaviour of a room, rule by rule. Whole worlds of rooms are in the crate `yrelay-sim`.

mod alone;
mod found;
mod relay;
mod rules;
mod sim;
