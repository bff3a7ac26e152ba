//! What the tests share.
#![allow(dead_code)]

pub mod child;
pub mod daemon;
pub mod gateway;
pub mod packets;
