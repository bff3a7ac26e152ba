//! What is measured.

use crate::program::cli::{Checksum, Direction, Perf, RunLength, Switch};
use crate::program::exit::Failure;
use nf_state::{Cipher, Lookahead, Scope};

/// One measurement.
#[derive(Clone, Debug)]
pub struct Case {
    /// Which path.
    pub direction: Direction,
    /// Who computes the UDP checksum, outbound.
    pub checksum: Checksum,
    /// Inner packet's bytes.
    pub size: u16,
    /// Pool size in MB.
    pub pool_mb: u32,
    /// Batching, inbound.
    pub batch: bool,
    /// Lookahead.
    pub lookahead: Lookahead,
    /// Cipher.
    pub cipher: Cipher,
    /// Frames in one burst.
    pub burst: u16,
    /// Peers.
    pub peers: u32,
    /// How consecutive records' peers are chosen.
    pub run: RunLength,
}

const SIZES: [u16; 3] = [64, 256, 1400];
const POOLS_MB: [u32; 3] = [8, 24, 400];

/// The cases that the command asks for.
pub fn all(command: &Perf) -> Result<Vec<Case>, Failure> {
    let whole = command.size.is_none() && command.pool.is_none();
    let measured = match command.direction {
        Some(one) => vec![one],
        None if whole => vec![Direction::In, Direction::Out],
        None => vec![Direction::In],
    };
    if command.batch == Some(Switch::Off) && measured.contains(&Direction::Out) {
        return Err(Failure::usage(
            "--batch off: outbound, packets are always sealed in runs; use it with --direction in",
        ));
    }
    if command.checksum.is_some() && !measured.contains(&Direction::Out) {
        return Err(Failure::usage(
            "--checksum: inbound, the path computes none; use it with --direction out",
        ));
    }
    let mut cases = Vec::new();
    for direction in measured {
        match direction {
            Direction::In => inbound(command, whole, &mut cases),
            Direction::Out => outbound(command, whole, &mut cases),
        }
    }
    Ok(cases)
}

fn sizes(command: &Perf) -> Vec<u16> {
    command.size.map_or(SIZES.to_vec(), |s| vec![s])
}

fn pools(command: &Perf) -> Vec<u32> {
    command.pool.map_or(POOLS_MB.to_vec(), |p| vec![p])
}

/// What the command says, or else the default.
fn lookahead(command: &Perf, distance: Option<u8>, scope: Scope) -> Lookahead {
    let distance = command
        .prefetch
        .map_or(distance, |d| Some(d.0))
        .unwrap_or(Lookahead::default().distance);
    Lookahead { distance, scope }
}

/// Pools outermost, since making one takes longest.
fn inbound(command: &Perf, whole: bool, cases: &mut Vec<Case>) {
    let scope = Scope::from(command.scope);
    let chosen = |batch: Option<bool>, distance, scope| {
        let batch = command
            .batch
            .map_or(batch, |b| Some(b == Switch::On))
            .unwrap_or(true);
        (batch, lookahead(command, distance, scope))
    };
    let mut tunings = if whole {
        vec![
            chosen(Some(false), Some(0), scope),
            chosen(Some(true), Some(0), scope),
            chosen(Some(false), Some(2), scope),
            chosen(Some(true), Some(2), Scope::Batch),
            chosen(Some(true), Some(2), scope),
        ]
    } else {
        vec![chosen(None, None, scope)]
    };
    tunings.dedup();
    for pool_mb in pools(command) {
        for size in sizes(command) {
            cases.extend(tunings.iter().map(|&(batch, lookahead)| Case {
                batch,
                ..case(command, Direction::In, size, pool_mb, lookahead)
            }));
        }
    }
}

fn outbound(command: &Perf, whole: bool, cases: &mut Vec<Case>) {
    let scope = Scope::from(command.scope);
    let mut push = |size, pool_mb, checksum, distance| {
        cases.push(Case {
            checksum,
            ..case(
                command,
                Direction::Out,
                size,
                pool_mb,
                lookahead(command, distance, scope),
            )
        });
    };
    let checksums = |both: bool| match command.checksum {
        Some(one) => vec![one],
        None if both => vec![Checksum::Offload, Checksum::Software],
        None => vec![Checksum::Offload],
    };
    if !whole {
        for pool_mb in pools(command) {
            for size in sizes(command) {
                push(size, pool_mb, checksums(false)[0], None);
            }
        }
        return;
    }
    for size in SIZES {
        for checksum in checksums(true) {
            push(size, POOLS_MB[0], checksum, None);
        }
    }
    let distances = if command.prefetch.is_some() {
        vec![None]
    } else {
        vec![Some(0), Some(2)]
    };
    for distance in distances {
        push(SIZES[2], POOLS_MB[2], checksums(false)[0], distance);
    }
}

fn case(command: &Perf, direction: Direction, size: u16, pool_mb: u32, lookahead: Lookahead) -> Case {
    Case {
        direction,
        checksum: Checksum::Offload,
        size,
        pool_mb,
        batch: true,
        lookahead,
        cipher: command.cipher,
        burst: command.burst,
        peers: command.peers,
        run: command.run,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::cli::{Cli, Command};
    use clap::Parser;

    fn cases(arguments: &str) -> Result<Vec<Case>, Failure> {
        let words = format!("ovpn-dpdk perf {arguments}");
        match Cli::try_parse_from(words.split_whitespace()).unwrap().command {
            Command::Perf(command) => all(&command),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_tables_have_both_directions() {
        let all = cases("").unwrap();
        let of = |direction| all.iter().filter(|c| c.direction == direction).count();
        assert_eq!((of(Direction::In), of(Direction::Out)), (45, 8));
        assert_eq!(cases("--direction in").unwrap().len(), 45);
        let out = cases("--direction out").unwrap();
        for size in SIZES {
            for checksum in [Checksum::Offload, Checksum::Software] {
                let rows = out
                    .iter()
                    .filter(|c| (c.size, c.checksum, c.pool_mb) == (size, checksum, 8));
                assert_eq!(rows.count(), 1, "{size} {checksum:?}");
            }
        }
    }

    #[test]
    fn a_size_or_a_pool_selects_cases() {
        let one = cases("--size 300 --pool 8").unwrap();
        assert_eq!(one.len(), 1);
        assert_eq!((one[0].direction, one[0].size), (Direction::In, 300));
        let row = cases("--pool 8 --direction out --checksum software --prefetch 4").unwrap();
        assert_eq!(row.iter().map(|c| c.size).collect::<Vec<_>>(), SIZES);
        assert!(row.iter().all(|c| c.checksum == Checksum::Software));
        assert!(row.iter().all(|c| c.lookahead.distance == 4));
    }

    #[test]
    fn options_of_the_other_direction_are_refused() {
        for bad in [
            "--direction out --batch off",
            "--batch off",
            "--direction in --checksum software",
            "--size 64 --checksum offload",
        ] {
            assert!(matches!(cases(bad), Err(Failure::Usage(_))), "{bad}");
        }
    }
}
