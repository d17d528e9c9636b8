//! Behaviour of a room, rule by rule, and a simulator of rooms with clients and storage.

mod alone;
mod found;

mod relay;
mod rules;
mod sim;
mod worlds;
