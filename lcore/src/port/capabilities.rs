//! What a port can do, out of `rte_eth_dev_info`.

use dpdk_sys as d;

/// Offloads and limits: of a device ([`crate::Port::capabilities`]) or of a started port ([`crate::Port::enabled`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Receive: verifies the IPv4 header checksum.
    pub rx_ipv4_checksum: bool,
    /// Receive: verifies the UDP checksum.
    pub rx_udp_checksum: bool,
    /// Receive: spreads a packet over buffers when one is too small.
    pub rx_scatter: bool,
    /// Receive: spreads flows over queues by a hash of addresses and UDP ports.
    pub rss: bool,
    /// Transmit: writes the IPv4 header checksum.
    pub tx_ipv4_checksum: bool,
    /// Transmit: writes the UDP checksum.
    pub tx_udp_checksum: bool,
    /// Transmit: takes packets of many segments.
    pub tx_multi_segment: bool,
    /// Receive queues.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
    /// Smallest MTU in bytes.
    pub min_mtu: u16,
    /// Largest MTU in bytes.
    pub max_mtu: u16,
}

impl Capabilities {
    pub(super) fn of(info: &d::rte_eth_dev_info) -> Capabilities {
        Capabilities {
            rss: info.flow_type_rss_offloads & (d::SHIM_RSS_IP | d::SHIM_RSS_UDP) != 0,
            rx_queues: info.max_rx_queues,
            tx_queues: info.max_tx_queues,
            min_mtu: info.min_mtu,
            max_mtu: super::start::largest_mtu(info),
            ..Capabilities::of_offloads(info.rx_offload_capa, info.tx_offload_capa)
        }
    }

    /// From `RTE_ETH_RX_OFFLOAD_*` and `RTE_ETH_TX_OFFLOAD_*` bits.
    pub(super) fn of_offloads(rx: u64, tx: u64) -> Capabilities {
        Capabilities {
            rx_ipv4_checksum: rx & d::SHIM_RX_OFFLOAD_IPV4_CKSUM != 0,
            rx_udp_checksum: rx & d::SHIM_RX_OFFLOAD_UDP_CKSUM != 0,
            rx_scatter: rx & d::SHIM_RX_OFFLOAD_SCATTER != 0,
            tx_ipv4_checksum: tx & d::SHIM_TX_OFFLOAD_IPV4_CKSUM != 0,
            tx_udp_checksum: tx & d::SHIM_TX_OFFLOAD_UDP_CKSUM != 0,
            tx_multi_segment: tx & d::SHIM_TX_OFFLOAD_MULTI_SEGS != 0,
            ..Capabilities::default()
        }
    }
}
