//! The parts of the outbound path that make packets themselves: answers, finished frames and segments,
//! fragments.

mod answer;
mod finish;
mod fragment;
mod packets;
mod pool;
mod segments;
