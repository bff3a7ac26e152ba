//! Takes the stock OpenVPN daemon's netlink to ovpn-dpdk.
