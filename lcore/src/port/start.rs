//! Configuring and starting a port with what it has.

use std::mem::MaybeUninit;

use dpdk_sys as d;

use super::{Capabilities, Inner};
use crate::{Error, Mempool};

/// How a port is to be set up. What the port lacks is left off and reported, except queues: at least one each way is
/// needed.
#[derive(Clone, Copy, Debug)]
pub struct PortConfig {
    /// Receive queues.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
    /// Descriptors per receive queue; the driver's limits apply.
    pub rx_desc: u16,
    /// Descriptors per transmit queue; the driver's limits apply.
    pub tx_desc: u16,
    /// MTU in bytes; `None` leaves the driver's.
    pub mtu: Option<u16>,
    /// Receive frames to any address.
    pub promiscuous: bool,
    /// Offloads wanted.
    pub want: Want,
}

/// Offloads wanted of a port.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// Receive-side scaling over addresses and UDP ports, with more receive queues than one.
    pub rss: bool,
    /// IPv4 and UDP checksums, both ways.
    pub checksum: bool,
    /// Packets over several buffers, both ways.
    pub scatter: bool,
    /// Receive: TCP and UDP checksums that the sender left partial, and TCP super-frames that it left whole
    /// ([`nf_path::buf::Unfinished`]). A virtio port that is asked for it lets the kernel keep its interface's offloads
    /// on.
    pub unfinished: bool,
}

impl Default for PortConfig {
    /// One queue each way of 1024 descriptors, promiscuous, with checksums and scatter.
    fn default() -> Self {
        PortConfig {
            rx_queues: 1,
            tx_queues: 1,
            rx_desc: 1024,
            tx_desc: 1024,
            mtu: None,
            promiscuous: true,
            want: Want {
                rss: true,
                checksum: true,
                scatter: true,
                unfinished: false,
            },
        }
    }
}

/// Starts the port; returns what is in use, and what was wanted and is off.
pub(super) fn start(
    port: &Inner,
    config: &PortConfig,
    pool: &Mempool,
) -> Result<(Capabilities, Vec<String>), Error> {
    let info = port.info()?;
    if let Some(mtu) = config.mtu.filter(|mtu| *mtu > largest_mtu(&info)) {
        return Err(Error::Mtu {
            port: port.name.clone(),
            mtu,
            most: largest_mtu(&info),
        });
    }
    let mut off = Vec::new();
    let rx_queues = queues("receive", config.rx_queues, info.max_rx_queues, &mut off);
    let tx_queues = queues("transmit", config.tx_queues, info.max_tx_queues, &mut off);
    let (rx, tx) = offloads(config.want, &info, &mut off);
    let hash = if config.want.rss && rx_queues > 1 {
        let hash = info.flow_type_rss_offloads & (d::SHIM_RSS_IP | d::SHIM_RSS_UDP);
        if hash == 0 {
            off.push("no RSS: all flows arrive on one queue".into());
        }
        hash
    } else {
        0
    };
    configure(port, config, [rx_queues, tx_queues], [rx, tx], hash)?;
    set_up_queues(port, config, pool, &info, [rx_queues, tx_queues], [rx, tx])?;
    // SAFETY: the port is configured and its queues are set up.
    port.check("rte_eth_dev_start", unsafe { d::rte_eth_dev_start(port.id) })?;
    if config.promiscuous {
        // SAFETY: the port is started.
        if unsafe { d::rte_eth_promiscuous_enable(port.id) } != 0 {
            off.push("no promiscuous mode: frames to other addresses do not arrive".into());
        }
    }
    let enabled = Capabilities {
        rss: hash != 0,
        rx_queues,
        tx_queues,
        min_mtu: info.min_mtu,
        max_mtu: largest_mtu(&info),
        ..Capabilities::of_offloads(rx, tx)
    };
    Ok((
        enabled,
        off.into_iter()
            .map(|line| format!("port {}: {line}", port.name))
            .collect(),
    ))
}

/// The largest MTU that DPDK lets through (`rte_eth_dev_configure`, `rte_eth_dev_set_mtu`): the driver's, and that of its
/// longest frame. net_tap says that it takes 65535, and 1522 bytes of frame.
pub(super) fn largest_mtu(info: &d::rte_eth_dev_info) -> u16 {
    /// Ethernet header and frame check sequence (`RTE_ETHER_HDR_LEN`, `RTE_ETHER_CRC_LEN`).
    const OVERHEAD: u32 = 18;
    let (longest, most) = (info.max_rx_pktlen, u32::from(info.max_mtu));
    let overhead = if info.max_mtu != u16::MAX && longest > most {
        longest - most
    } else {
        OVERHEAD
    };
    longest.saturating_sub(overhead).min(most) as u16
}

fn queues(what: &str, wanted: u16, most: u16, off: &mut Vec<String>) -> u16 {
    if wanted > most {
        off.push(format!("{most} {what} queues instead of {wanted}"));
    }
    wanted.clamp(1, most.max(1))
}

/// The receive and transmit offloads to ask for.
fn offloads(want: Want, info: &d::rte_eth_dev_info, off: &mut Vec<String>) -> (u64, u64) {
    let (mut rx, mut tx) = (0, 0);
    let mut ask = |wanted: bool, has: u64, bit: u64, to: &mut u64, line: &str| {
        if !wanted {
        } else if has & bit != 0 {
            *to |= bit;
        } else {
            off.push(line.into());
        }
    };
    let (can_rx, can_tx) = (info.rx_offload_capa, info.tx_offload_capa);
    ask(
        want.checksum,
        can_rx,
        d::SHIM_RX_OFFLOAD_IPV4_CKSUM,
        &mut rx,
        "IPv4 checksums are verified in software",
    );
    ask(
        want.checksum,
        can_rx,
        d::SHIM_RX_OFFLOAD_UDP_CKSUM,
        &mut rx,
        "UDP checksums are not verified by the port",
    );
    ask(
        want.checksum,
        can_tx,
        d::SHIM_TX_OFFLOAD_IPV4_CKSUM,
        &mut tx,
        "IPv4 checksums are computed in software",
    );
    ask(
        want.checksum,
        can_tx,
        d::SHIM_TX_OFFLOAD_UDP_CKSUM,
        &mut tx,
        "UDP checksums are computed in software",
    );
    ask(
        want.scatter,
        can_rx,
        d::SHIM_RX_OFFLOAD_SCATTER,
        &mut rx,
        "no scattered receive: a frame must fit one buffer",
    );
    ask(
        want.scatter,
        can_tx,
        d::SHIM_TX_OFFLOAD_MULTI_SEGS,
        &mut tx,
        "no transmit of frames in several buffers",
    );
    if want.unfinished {
        rx |= unfinished(can_rx, off);
    }
    (rx, tx)
}

/// What a virtio port is asked for so that its other end may leave work undone: all of it or nothing, since a super-frame
/// has a partial checksum.
fn unfinished(can_rx: u64, off: &mut Vec<String>) -> u64 {
    let all = d::SHIM_RX_OFFLOAD_TCP_CKSUM | d::SHIM_RX_OFFLOAD_UDP_CKSUM | d::SHIM_RX_OFFLOAD_TCP_LRO;
    if can_rx & all == all {
        return all;
    }
    off.push("checksums and segments are finished by the sender".into());
    0
}

fn configure(
    port: &Inner,
    config: &PortConfig,
    [rx_queues, tx_queues]: [u16; 2],
    [rx, tx]: [u64; 2],
    hash: u64,
) -> Result<(), Error> {
    // SAFETY: zeroed is a valid rte_eth_conf: integers, bit fields, and null pointers that DPDK reads as "default".
    let mut conf = unsafe { MaybeUninit::<d::rte_eth_conf>::zeroed().assume_init() };
    conf.rxmode.offloads = rx;
    conf.txmode.offloads = tx;
    if hash != 0 {
        conf.rxmode.mq_mode = d::SHIM_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf = hash;
    }
    if let Some(mtu) = config.mtu {
        conf.rxmode.mtu = mtu.into();
    }
    // SAFETY: the configuration lives during the call.
    let code = unsafe { d::rte_eth_dev_configure(port.id, rx_queues, tx_queues, &conf) };
    port.check("rte_eth_dev_configure", code)?;
    if let Some(mtu) = config.mtu {
        // Drivers that ignore rxmode.mtu (net_tap) have it set here.
        // SAFETY: no pointer involved; the port is configured.
        match unsafe { d::rte_eth_dev_set_mtu(port.id, mtu) } {
            code if code == -libc::ENOTSUP => {}
            code => port.check("rte_eth_dev_set_mtu", code)?,
        }
    }
    Ok(())
}

fn set_up_queues(
    port: &Inner,
    config: &PortConfig,
    pool: &Mempool,
    info: &d::rte_eth_dev_info,
    [rx_queues, tx_queues]: [u16; 2],
    [rx, tx]: [u64; 2],
) -> Result<(), Error> {
    let (mut rx_desc, mut tx_desc) = (config.rx_desc, config.tx_desc);
    // SAFETY: places for the two numbers.
    let code = unsafe { d::rte_eth_dev_adjust_nb_rx_tx_desc(port.id, &mut rx_desc, &mut tx_desc) };
    port.check("rte_eth_dev_adjust_nb_rx_tx_desc", code)?;
    // SAFETY: no pointer involved. -1 (unknown) becomes SOCKET_ID_ANY, which is -1 as well.
    let socket = unsafe { d::rte_eth_dev_socket_id(port.id) } as u32;
    let mut rx_conf = info.default_rxconf;
    rx_conf.offloads = rx;
    let mut tx_conf = info.default_txconf;
    tx_conf.offloads = tx;
    for q in 0..rx_queues {
        // SAFETY: the port keeps the pool until it is closed (Inner::control).
        let code = unsafe { d::rte_eth_rx_queue_setup(port.id, q, rx_desc, socket, &rx_conf, pool.as_ptr()) };
        port.check("rte_eth_rx_queue_setup", code)?;
    }
    for q in 0..tx_queues {
        // SAFETY: the configuration lives during the call.
        let code = unsafe { d::rte_eth_tx_queue_setup(port.id, q, tx_desc, socket, &tx_conf) };
        port.check("rte_eth_tx_queue_setup", code)?;
    }
    Ok(())
}
