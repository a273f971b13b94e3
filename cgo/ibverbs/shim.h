// The C side of the binding: plain structs and functions that name no type of
// <infiniband/verbs.h>, so that Go sees one small header and the layouts that
// both sides share are written down once more in data.c and layout_cgo.go.
//
// Functions return 0 or a positive errno unless they say otherwise.
#ifndef RMATAIL_IBVERBS_SHIM_H
#define RMATAIL_IBVERBS_SHIM_H

#include <stdint.h>

struct rm_device {
	char     name[64];
	uint64_t guid; // network byte order
	int32_t  node_type;
	int32_t  transport;
};

struct rm_device_attr {
	char     firmware[64];
	uint64_t node_guid; // network byte order
	uint64_t max_mr_size;
	uint32_t vendor_id, vendor_part_id, hw_ver;
	int32_t  max_qp, max_qp_wr, max_cq, max_cqe, max_mr, max_pd;
	int32_t  max_qp_rd_atom, max_qp_init_rd_atom, max_res_rd_atom;
	int32_t  ports;
};

struct rm_port_attr {
	uint32_t state, max_mtu, active_mtu, max_msg_sz;
	int32_t  gid_table_len;
	uint16_t lid, sm_lid;
	uint8_t  link_layer, phys_state, active_width, active_speed;
};

// Same layout as struct ibv_gid_entry, which headers before rdma-core 32 lack.
struct rm_gid {
	uint8_t  raw[16];
	uint32_t index, port, type, ifindex;
};

struct rm_path {
	uint8_t  dgid[16];
	uint32_t flow_label;
	uint16_t dlid;
	uint8_t  global, sgid_index, hop_limit, traffic_class, sl, port;
};

struct rm_rtr {
	struct rm_path path;
	uint32_t       dest_qpn, psn, mtu; // mtu: enum ibv_mtu
	uint8_t        max_dest_rd_atomic, min_rnr_timer;
};

struct rm_rts {
	uint32_t psn;
	uint8_t  max_rd_atomic, timeout, retry_cnt, rnr_retry;
};

struct rm_qp_attr {
	uint32_t state, mtu, dest_qpn, sq_psn, rq_psn, access;
	uint32_t max_send_wr, max_recv_wr;
	uint8_t  max_rd_atomic, max_dest_rd_atomic, timeout, retry_cnt, rnr_retry, min_rnr_timer;
};

// One READ. Shared with Go by layout: struct Read.
struct rm_read {
	uint64_t id;
	uint64_t remote; // address at the peer
	uint64_t local;  // offset in the destination MR
	uint32_t length;
	uint32_t signaled; // 1: a success makes a completion
};

// One completion. Shared with Go by layout: struct WC.
struct rm_wc {
	uint64_t id;
	uint32_t status;
	uint32_t vendor_err;
	uint32_t qpn;
	uint32_t reserved;
};

struct rm_counts {
	int32_t posted, polled;
	int32_t post_err, poll_err;
};

struct rm_event {
	uint32_t type, port, qpn, cq_handle;
};

// 0, or -1 with *why set to a static or thread-local text.
int rm_load(const char **why);

// Number of devices, of which the first cap are filled in; or a negative errno.
int rm_devices(struct rm_device *out, int cap);

int  rm_open(const char *name, void **ctx, int *async_fd, int *vectors);
int  rm_close(void *ctx);
int  rm_query_device(void *ctx, struct rm_device_attr *out);
int  rm_query_port(void *ctx, int port, struct rm_port_attr *out);
// Number of entries filled in, or a negative errno. ENOSYS: not in this library.
int  rm_gid_table(void *ctx, struct rm_gid *out, int cap);
int  rm_query_gid(void *ctx, int port, int index, struct rm_gid *out);

int rm_alloc_pd(void *ctx, void **pd);
int rm_dealloc_pd(void *pd);
int rm_reg_mr(void *pd, void *addr, uint64_t length, int access, void **mr, uint32_t *lkey, uint32_t *rkey);
int rm_dereg_mr(void *mr);

int rm_create_channel(void *ctx, void **ch, int *fd);
int rm_destroy_channel(void *ch);
int rm_create_cq(void *ctx, int entries, void *ch, int vector, void **cq, int *got, uint32_t *handle);
int rm_destroy_cq(void *cq);
int rm_arm(void *cq);
// Takes and acknowledges one event. EAGAIN: none there.
int rm_take_cq_event(void *ch);
int rm_take_async_event(void *ctx, struct rm_event *out);

int rm_create_qp(void *pd, void *send_cq, void *recv_cq, int max_send, int max_recv, void **qp, uint32_t *qpn);
int rm_destroy_qp(void *qp);
int rm_qp_init(void *qp, int port, int access);
int rm_qp_rtr(void *qp, const struct rm_rtr *a);
int rm_qp_rts(void *qp, const struct rm_rts *a);
int rm_qp_err(void *qp);
int rm_qp_query(void *qp, struct rm_qp_attr *out);

// What a call of the fast path gets of the objects that it is about: their address
// as a number. Of an argument that is a pointer to anything, cgo has the runtime
// find out in each call whether it points into Go's memory (cgocheck).
typedef uintptr_t rm_ref;

// Posts n reads (n <= 256) as one list, then polls the CQ until something was
// there, cap completions are taken, or spin_ns have passed (0: one poll; < 0:
// none). A poll happens even when posting failed.
void rm_post_poll(rm_ref qp, const struct rm_read *reads, int n, rm_ref mr, uint32_t rkey,
                  rm_ref cq, struct rm_wc *out, int cap, int64_t spin_ns, struct rm_counts *counts);
// Polls as rm_post_poll does. Number taken, or a negative errno.
int rm_poll(rm_ref cq, struct rm_wc *out, int cap, int64_t spin_ns);
// Arms the CQ, then polls once: what arrived before the arming makes no event.
int rm_arm_poll(rm_ref cq, struct rm_wc *out, int cap);

#endif
