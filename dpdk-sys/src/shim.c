/* DPDK's static inline functions as real ones: a call per burst or per control action, never per packet where it
 * matters. Compiled with the flags of the libdpdk that is linked. */
#include <stddef.h>
#include <rte_bus_vdev.h>
#include <rte_errno.h>
#include <rte_fbarray.h>
#include <rte_memory.h>
#include <rte_mempool.h>
#include <rte_version.h>
#include "shim.h"

#define CHECK(field, at) \
	_Static_assert(offsetof(struct rte_mbuf, field) == (at), \
		"rte_mbuf." #field " is elsewhere in this DPDK: shim.h and mbuf.rs do not fit it")

_Static_assert(sizeof(struct rte_mbuf) == SHIM_MBUF_SIZE, "rte_mbuf has another size in this DPDK");
_Static_assert(_Alignof(struct rte_mbuf) == 64, "rte_mbuf has another alignment in this DPDK");
CHECK(buf_addr, SHIM_MBUF_BUF_ADDR);
CHECK(data_off, SHIM_MBUF_DATA_OFF);
CHECK(refcnt, SHIM_MBUF_REFCNT);
CHECK(nb_segs, SHIM_MBUF_NB_SEGS);
CHECK(port, SHIM_MBUF_PORT);
CHECK(ol_flags, SHIM_MBUF_OL_FLAGS);
CHECK(packet_type, SHIM_MBUF_PACKET_TYPE);
CHECK(pkt_len, SHIM_MBUF_PKT_LEN);
CHECK(data_len, SHIM_MBUF_DATA_LEN);
CHECK(vlan_tci, SHIM_MBUF_VLAN_TCI);
CHECK(hash, SHIM_MBUF_HASH);
CHECK(vlan_tci_outer, SHIM_MBUF_VLAN_TCI_OUTER);
CHECK(buf_len, SHIM_MBUF_BUF_LEN);
CHECK(pool, SHIM_MBUF_POOL);
/* At 16 bytes less when DPDK was built with enable_iova_as_pa=false, a layout that is not supported. */
CHECK(next, SHIM_MBUF_NEXT);
CHECK(tx_offload, SHIM_MBUF_TX_OFFLOAD);
CHECK(shinfo, SHIM_MBUF_SHINFO);
CHECK(priv_size, SHIM_MBUF_PRIV_SIZE);
/* mbuf.rs composes tx_offload as l2_len | l3_len << 7. */
_Static_assert(RTE_MBUF_L2_LEN_BITS == 7 && RTE_MBUF_L3_LEN_BITS == 9, "tx_offload has another layout in this DPDK");

uint16_t shim_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **pkts, uint16_t n)
{
	return rte_eth_rx_burst(port, queue, pkts, n);
}

uint16_t shim_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **pkts, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, pkts, n);
}

struct rte_mbuf *shim_pktmbuf_alloc(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

int shim_pktmbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **pkts, unsigned int n)
{
	return rte_pktmbuf_alloc_bulk(pool, pkts, n);
}

void shim_pktmbuf_free(struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
}

void shim_pktmbuf_refcnt_update(struct rte_mbuf *m, int16_t by)
{
	rte_pktmbuf_refcnt_update(m, by);
}

int shim_pktmbuf_linearize(struct rte_mbuf *m)
{
	return rte_pktmbuf_linearize(m);
}

uint16_t shim_pktmbuf_data_room_size(struct rte_mempool *pool)
{
	return rte_pktmbuf_data_room_size(pool);
}

uint32_t shim_mempool_capacity(const struct rte_mempool *pool)
{
	return pool->size;
}

uint32_t shim_mempool_element_size(const struct rte_mempool *pool)
{
	return pool->header_size + pool->elt_size + pool->trailer_size;
}

uint32_t shim_mempool_cache_size(const struct rte_mempool *pool)
{
	return pool->cache_size;
}

uint64_t shim_mempool_page_size(const struct rte_mempool *pool)
{
	return pool->mz == NULL ? 0 : pool->mz->hugepage_sz;
}

static int largest_page(const struct rte_memseg_list *list, void *arg)
{
	uint64_t *largest = arg;

	if (!list->external && list->memseg_arr.count > 0 && list->page_sz > *largest)
		*largest = list->page_sz;
	return 0;
}

/* The largest page that EAL has memory in, 0 before it has any. */
uint64_t shim_page_size(void)
{
	uint64_t largest = 0;

	rte_memseg_list_walk(largest_page, &largest);
	return largest;
}

uint32_t shim_lcore_id(void)
{
	return rte_lcore_id();
}

int shim_errno(void)
{
	return rte_errno;
}

unsigned int shim_ring_enqueue_burst(struct rte_ring *r, void *const *objects, unsigned int n)
{
	return rte_ring_enqueue_burst(r, objects, n, NULL);
}

unsigned int shim_ring_dequeue_burst(struct rte_ring *r, void **objects, unsigned int n)
{
	return rte_ring_dequeue_burst(r, objects, n, NULL);
}

unsigned int shim_ring_count(const struct rte_ring *r)
{
	return rte_ring_count(r);
}

int shim_ipv4_is_fragment(const void *ipv4_header)
{
	return rte_ipv4_frag_pkt_is_fragmented(ipv4_header);
}

struct rte_ipv6_fragment_ext *shim_ipv6_fragment_header(void *ipv6_header)
{
	return rte_ipv6_frag_get_ipv6_fragment_header(ipv6_header);
}

const char *shim_device_driver(const struct rte_eth_dev_info *info)
{
	return info->driver_name;
}

/* DPDK 23.03 renamed u64 to uint here. */
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
#define TEL_U64(call) call##_uint
#define TEL_U64_VALUE RTE_TEL_UINT_VAL
#else
#define TEL_U64(call) call##_u64
#define TEL_U64_VALUE RTE_TEL_U64_VAL
#endif

int shim_tel_data_add_dict_u64(struct rte_tel_data *d, const char *name, uint64_t value)
{
	return TEL_U64(rte_tel_data_add_dict)(d, name, value);
}

int shim_tel_data_start_array_u64(struct rte_tel_data *d)
{
	return rte_tel_data_start_array(d, TEL_U64_VALUE);
}

int shim_tel_data_start_array_string(struct rte_tel_data *d)
{
	return rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
}

int shim_tel_data_add_array_u64(struct rte_tel_data *d, uint64_t value)
{
	return TEL_U64(rte_tel_data_add_array)(d, value);
}
