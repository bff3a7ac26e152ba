//! Rings between workers, for frames that another worker seals.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;

use crate::Mbuf;

/// Frames that may wait in one ring.
pub const RING: usize = 1024;

/// A frame with the index of the tunnel that it came from.
pub type Steered = (u8, Mbuf);

/// One worker's ends of the rings: one to and one from each other worker, so each has one producer and one consumer.
#[derive(Debug)]
pub struct Steering {
    me: u8,
    to: Vec<Arc<ArrayQueue<Steered>>>,
    from: Vec<Arc<ArrayQueue<Steered>>>,
}

impl Steering {
    /// The ends for each of `workers` workers, in order. One has no rings.
    pub fn mesh(workers: u8) -> Vec<Steering> {
        let n = usize::from(workers);
        // ring[producer][consumer]; a worker's ring to itself has one place, which nobody uses.
        let ring = |from: usize, to: usize| Arc::new(ArrayQueue::new(if from == to { 1 } else { RING }));
        let rings: Vec<Vec<_>> = (0..n)
            .map(|from| (0..n).map(|to| ring(from, to)).collect())
            .collect();
        (0..n)
            .map(|me| Steering {
                me: me as u8,
                to: rings[me].clone(),
                from: (0..n)
                    .filter(|&o| o != me)
                    .map(|o| rings[o][me].clone())
                    .collect(),
            })
            .collect()
    }

    /// This worker's number.
    pub fn me(&self) -> u8 {
        self.me
    }

    /// How many workers there are.
    pub fn count(&self) -> u8 {
        self.to.len() as u8
    }

    /// Leaves a frame for another worker; gives it back when that one has [`RING`] of them to read.
    #[inline]
    pub fn give(&self, worker: u8, tunnel: u8, frame: Mbuf) -> Result<(), Mbuf> {
        match self.to.get(usize::from(worker)) {
            Some(ring) => ring.push((tunnel, frame)).map_err(|(_, frame)| frame),
            None => Err(frame),
        }
    }

    /// The rings from the other workers.
    pub fn from(&self) -> &[Arc<ArrayQueue<Steered>>] {
        &self.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_a_ring_of_its_own() {
        let mesh = Steering::mesh(3);
        assert_eq!(mesh.iter().map(Steering::me).collect::<Vec<_>>(), [0, 1, 2]);
        for steering in &mesh {
            assert_eq!((steering.count(), steering.from().len()), (3, 2));
            for ring in steering.from() {
                let producers = mesh
                    .iter()
                    .filter(|other| other.me != steering.me)
                    .filter(|other| Arc::ptr_eq(&other.to[usize::from(steering.me)], ring));
                assert_eq!(producers.count(), 1);
            }
        }
        assert!(Steering::mesh(1)[0].from().is_empty());
    }
}
