/* The static inline calls in use, as functions; the layout of rte_mbuf that mbuf.rs and shim.c both hold
 * themselves to; and constants whose macros bindgen cannot evaluate. */
#ifndef DPDK_SYS_SHIM_H
#define DPDK_SYS_SHIM_H

#include <stdint.h>
#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_ip_frag.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <rte_telemetry.h>

/* Byte offsets in struct rte_mbuf: the one place that states them. */
#define SHIM_MBUF_SIZE 128
#define SHIM_MBUF_BUF_ADDR 0
#define SHIM_MBUF_DATA_OFF 16
#define SHIM_MBUF_REFCNT 18
#define SHIM_MBUF_NB_SEGS 20
#define SHIM_MBUF_PORT 22
#define SHIM_MBUF_OL_FLAGS 24
#define SHIM_MBUF_PACKET_TYPE 32
#define SHIM_MBUF_PKT_LEN 36
#define SHIM_MBUF_DATA_LEN 40
#define SHIM_MBUF_VLAN_TCI 42
#define SHIM_MBUF_HASH 44
#define SHIM_MBUF_VLAN_TCI_OUTER 52
#define SHIM_MBUF_BUF_LEN 54
#define SHIM_MBUF_POOL 56
#define SHIM_MBUF_NEXT 64
#define SHIM_MBUF_TX_OFFLOAD 72
#define SHIM_MBUF_SHINFO 80
#define SHIM_MBUF_PRIV_SIZE 88

static const uint64_t SHIM_RX_IP_CKSUM_MASK = RTE_MBUF_F_RX_IP_CKSUM_MASK;
static const uint64_t SHIM_RX_IP_CKSUM_BAD = RTE_MBUF_F_RX_IP_CKSUM_BAD;
static const uint64_t SHIM_RX_IP_CKSUM_GOOD = RTE_MBUF_F_RX_IP_CKSUM_GOOD;
static const uint64_t SHIM_RX_L4_CKSUM_MASK = RTE_MBUF_F_RX_L4_CKSUM_MASK;
static const uint64_t SHIM_RX_L4_CKSUM_BAD = RTE_MBUF_F_RX_L4_CKSUM_BAD;
static const uint64_t SHIM_RX_L4_CKSUM_GOOD = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
static const uint64_t SHIM_RX_L4_CKSUM_NONE = RTE_MBUF_F_RX_L4_CKSUM_NONE;
static const uint64_t SHIM_RX_VLAN = RTE_MBUF_F_RX_VLAN;
static const uint64_t SHIM_RX_VLAN_STRIPPED = RTE_MBUF_F_RX_VLAN_STRIPPED;
static const uint64_t SHIM_RX_LRO = RTE_MBUF_F_RX_LRO;
static const uint64_t SHIM_RX_RSS_HASH = RTE_MBUF_F_RX_RSS_HASH;
static const uint64_t SHIM_TX_TCP_SEG = RTE_MBUF_F_TX_TCP_SEG;
static const uint64_t SHIM_TX_IP_CKSUM = RTE_MBUF_F_TX_IP_CKSUM;
static const uint64_t SHIM_TX_UDP_CKSUM = RTE_MBUF_F_TX_UDP_CKSUM;
static const uint64_t SHIM_TX_TCP_CKSUM = RTE_MBUF_F_TX_TCP_CKSUM;
static const uint64_t SHIM_TX_IPV4 = RTE_MBUF_F_TX_IPV4;
static const uint64_t SHIM_TX_IPV6 = RTE_MBUF_F_TX_IPV6;
static const uint64_t SHIM_MBUF_INDIRECT = RTE_MBUF_F_INDIRECT;
static const uint64_t SHIM_MBUF_EXTERNAL = RTE_MBUF_F_EXTERNAL;

static const uint64_t SHIM_RX_OFFLOAD_IPV4_CKSUM = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
static const uint64_t SHIM_RX_OFFLOAD_UDP_CKSUM = RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
static const uint64_t SHIM_RX_OFFLOAD_TCP_CKSUM = RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
static const uint64_t SHIM_RX_OFFLOAD_SCATTER = RTE_ETH_RX_OFFLOAD_SCATTER;
static const uint64_t SHIM_RX_OFFLOAD_RSS_HASH = RTE_ETH_RX_OFFLOAD_RSS_HASH;
static const uint64_t SHIM_RX_OFFLOAD_TCP_LRO = RTE_ETH_RX_OFFLOAD_TCP_LRO;
static const uint64_t SHIM_TX_OFFLOAD_IPV4_CKSUM = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
static const uint64_t SHIM_TX_OFFLOAD_UDP_CKSUM = RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
static const uint64_t SHIM_TX_OFFLOAD_TCP_CKSUM = RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
static const uint64_t SHIM_TX_OFFLOAD_MULTI_SEGS = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
static const uint64_t SHIM_TX_OFFLOAD_MBUF_FAST_FREE = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
static const uint64_t SHIM_RSS_IP = RTE_ETH_RSS_IP;
static const uint64_t SHIM_RSS_UDP = RTE_ETH_RSS_UDP;
static const uint32_t SHIM_MQ_RX_RSS = RTE_ETH_MQ_RX_RSS;
static const uint32_t SHIM_MQ_RX_NONE = RTE_ETH_MQ_RX_NONE;
static const uint32_t SHIM_LCORE_ID_ANY = LCORE_ID_ANY;
static const uint16_t SHIM_MAX_ETHPORTS = RTE_MAX_ETHPORTS;
static const uint32_t SHIM_PTYPE_L2_ETHER = RTE_PTYPE_L2_ETHER;
static const uint32_t SHIM_PTYPE_L2_ETHER_VLAN = RTE_PTYPE_L2_ETHER_VLAN;
static const uint32_t SHIM_PTYPE_L3_IPV4 = RTE_PTYPE_L3_IPV4;
static const uint32_t SHIM_PTYPE_L3_IPV6 = RTE_PTYPE_L3_IPV6;
static const uint32_t SHIM_PTYPE_L4_UDP = RTE_PTYPE_L4_UDP;

uint16_t shim_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **pkts, uint16_t n);
uint16_t shim_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **pkts, uint16_t n);
struct rte_mbuf *shim_pktmbuf_alloc(struct rte_mempool *pool);
int shim_pktmbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **pkts, unsigned int n);
void shim_pktmbuf_free(struct rte_mbuf *m);
void shim_pktmbuf_refcnt_update(struct rte_mbuf *m, int16_t by);
int shim_pktmbuf_linearize(struct rte_mbuf *m);
uint16_t shim_pktmbuf_data_room_size(struct rte_mempool *pool);
uint32_t shim_mempool_capacity(const struct rte_mempool *pool);
uint32_t shim_mempool_element_size(const struct rte_mempool *pool);
uint32_t shim_mempool_cache_size(const struct rte_mempool *pool);
uint64_t shim_mempool_page_size(const struct rte_mempool *pool);
uint64_t shim_page_size(void);
uint32_t shim_lcore_id(void);
int shim_errno(void);
unsigned int shim_ring_enqueue_burst(struct rte_ring *r, void *const *objects, unsigned int n);
unsigned int shim_ring_dequeue_burst(struct rte_ring *r, void **objects, unsigned int n);
unsigned int shim_ring_count(const struct rte_ring *r);
int shim_ipv4_is_fragment(const void *ipv4_header);
struct rte_ipv6_fragment_ext *shim_ipv6_fragment_header(void *ipv6_header);
int shim_tel_data_add_dict_u64(struct rte_tel_data *d, const char *name, uint64_t value);
int shim_tel_data_start_array_u64(struct rte_tel_data *d);
int shim_tel_data_start_array_string(struct rte_tel_data *d);
int shim_tel_data_add_array_u64(struct rte_tel_data *d, uint64_t value);
const char *shim_device_driver(const struct rte_eth_dev_info *info);

#endif
