//go:build linux && cgo && !noverbs

#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

_Static_assert(sizeof(struct rm_read) == 32, "rm_read");
_Static_assert(offsetof(struct rm_read, id) == 0, "rm_read.id");
_Static_assert(offsetof(struct rm_read, remote) == 8, "rm_read.remote");
_Static_assert(offsetof(struct rm_read, local) == 16, "rm_read.local");
_Static_assert(offsetof(struct rm_read, length) == 24, "rm_read.length");
_Static_assert(offsetof(struct rm_read, signaled) == 28, "rm_read.signaled");
_Static_assert(sizeof(struct rm_wc) == 24, "rm_wc");
_Static_assert(offsetof(struct rm_wc, status) == 8, "rm_wc.status");
_Static_assert(offsetof(struct rm_wc, vendor_err) == 12, "rm_wc.vendor_err");
_Static_assert(offsetof(struct rm_wc, qpn) == 16, "rm_wc.qpn");
_Static_assert(sizeof(struct rm_gid) == 32, "rm_gid");
_Static_assert(offsetof(struct rm_gid, index) == 16, "rm_gid.index");
_Static_assert(offsetof(struct rm_gid, ifindex) == 28, "rm_gid.ifindex");

enum { MAX_READS = 256 };

// What is called in libibverbs.so.1. ibv_post_send, ibv_poll_cq and
// ibv_req_notify_cq are not there to be found: they are inline functions of the
// header that go through the device's own table.
#define SYMBOLS(X) \
	X(get_device_list) X(free_device_list) X(get_device_guid) X(open_device) \
	X(close_device) X(query_device) X(query_gid) X(alloc_pd) X(dealloc_pd) \
	X(dereg_mr) X(create_comp_channel) X(destroy_comp_channel) X(create_cq) \
	X(destroy_cq) X(get_cq_event) X(ack_cq_events) X(create_qp) X(modify_qp) \
	X(query_qp) X(destroy_qp) X(get_async_event) X(ack_async_event)

static struct {
#define FIELD(name) __typeof__(ibv_##name) *name;
	SYMBOLS(FIELD)
#undef FIELD
	// Named apart, as the header has macros of these names.
	struct ibv_mr *(*reg_mr_fn)(struct ibv_pd *, void *, size_t, int);
	int (*query_port_fn)(struct ibv_context *, uint8_t, void *);
	// NULL before rdma-core 32.
	ssize_t (*query_gid_table_fn)(struct ibv_context *, void *, size_t, uint32_t, size_t);
} lib;

static const char *load_error;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

static void load(void)
{
	// Providers are plug-ins that need the one shared copy of the library,
	// hence no static linking; it is never closed, as threads may be in it.
	void *h = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!h) {
		const char *why = dlerror();
		load_error = strdup(why ? why : "dlopen of libibverbs.so.1 refused");
		return;
	}
#define FIND(name) \
	lib.name = (__typeof__(lib.name))dlsym(h, "ibv_" #name); \
	if (!lib.name) { load_error = "libibverbs.so.1 lacks ibv_" #name; return; }
	SYMBOLS(FIND)
#undef FIND
	lib.reg_mr_fn = (__typeof__(lib.reg_mr_fn))dlsym(h, "ibv_reg_mr");
	lib.query_port_fn = (__typeof__(lib.query_port_fn))dlsym(h, "ibv_query_port");
	lib.query_gid_table_fn = (__typeof__(lib.query_gid_table_fn))dlsym(h, "_ibv_query_gid_table");
	if (!lib.reg_mr_fn || !lib.query_port_fn)
		load_error = "libibverbs.so.1 lacks ibv_reg_mr or ibv_query_port";
}

int rm_load(const char **why)
{
	pthread_once(&load_once, load);
	*why = load_error;
	return load_error ? -1 : 0;
}

// The errno of a call that failed; some providers leave it unset.
static int errno_or(int fallback)
{
	return errno > 0 ? errno : fallback;
}

// A call that returns an errno or, in some providers, -1 with errno set.
static int as_errno(int rc)
{
	return rc < 0 ? errno_or(-rc) : rc;
}

// Signals of the Go runtime interrupt C at any time, and not every path in the
// kernel restarts by itself (CALL is evaluated again after EINTR).
#define RETRY_NULL(VAR, CALL) \
	do { errno = 0; (VAR) = (CALL); } while (!(VAR) && errno == EINTR)
#define RETRY_RC(VAR, CALL) \
	do { errno = 0; (VAR) = as_errno(CALL); } while ((VAR) == EINTR)

static int nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return errno_or(EIO);
	return 0;
}

int rm_devices(struct rm_device *out, int cap)
{
	struct ibv_device **list;
	int n = 0;

	RETRY_NULL(list, lib.get_device_list(&n));
	if (!list)
		return -errno_or(EIO);
	for (int i = 0; i < n && i < cap; i++) {
		memset(&out[i], 0, sizeof out[i]);
		strncpy(out[i].name, list[i]->name, sizeof out[i].name - 1);
		out[i].guid = lib.get_device_guid(list[i]);
		out[i].node_type = list[i]->node_type;
		out[i].transport = list[i]->transport_type;
	}
	lib.free_device_list(list);
	return n;
}

int rm_open(const char *name, void **out, int *async_fd, int *vectors)
{
	struct ibv_device **list;
	struct ibv_context *ctx = NULL;
	int err = ENODEV, n = 0;

	RETRY_NULL(list, lib.get_device_list(&n));
	if (!list)
		return errno_or(EIO);
	for (int i = 0; i < n; i++) {
		if (strcmp(list[i]->name, name))
			continue;
		RETRY_NULL(ctx, lib.open_device(list[i]));
		err = ctx ? 0 : errno_or(EIO);
		break;
	}
	lib.free_device_list(list);
	if (!ctx)
		return err;
	err = nonblocking(ctx->async_fd);
	if (err) {
		lib.close_device(ctx);
		return err;
	}
	*out = ctx;
	*async_fd = ctx->async_fd;
	*vectors = ctx->num_comp_vectors;
	return 0;
}

int rm_close(void *ctx)
{
	errno = 0;
	return as_errno(lib.close_device(ctx));
}

int rm_query_device(void *ctx, struct rm_device_attr *out)
{
	struct ibv_device_attr a;
	int err;

	memset(&a, 0, sizeof a);
	RETRY_RC(err, lib.query_device(ctx, &a));
	if (err)
		return err;
	memset(out, 0, sizeof *out);
	memcpy(out->firmware, a.fw_ver, sizeof out->firmware - 1);
	out->node_guid = a.node_guid;
	out->max_mr_size = a.max_mr_size;
	out->vendor_id = a.vendor_id;
	out->vendor_part_id = a.vendor_part_id;
	out->hw_ver = a.hw_ver;
	out->max_qp = a.max_qp;
	out->max_qp_wr = a.max_qp_wr;
	out->max_cq = a.max_cq;
	out->max_cqe = a.max_cqe;
	out->max_mr = a.max_mr;
	out->max_pd = a.max_pd;
	out->max_qp_rd_atom = a.max_qp_rd_atom;
	out->max_qp_init_rd_atom = a.max_qp_init_rd_atom;
	out->max_res_rd_atom = a.max_res_rd_atom;
	out->ports = a.phys_port_cnt;
	return 0;
}

// What the header's own inline ibv_query_port does: the exported symbol fills
// only the first, old part of the struct.
static int query_port(struct ibv_context *ctx, int port, struct ibv_port_attr *a)
{
	struct verbs_context *v = verbs_get_ctx_op(ctx, query_port);

	memset(a, 0, sizeof *a);
	return v ? v->query_port(ctx, port, a, sizeof *a) : lib.query_port_fn(ctx, port, a);
}

int rm_query_port(void *ctx, int port, struct rm_port_attr *out)
{
	struct ibv_port_attr a;
	int err;

	RETRY_RC(err, query_port(ctx, port, &a));
	if (err)
		return err;
	memset(out, 0, sizeof *out);
	out->state = a.state;
	out->max_mtu = a.max_mtu;
	out->active_mtu = a.active_mtu;
	out->max_msg_sz = a.max_msg_sz;
	out->gid_table_len = a.gid_tbl_len;
	out->lid = a.lid;
	out->sm_lid = a.sm_lid;
	out->link_layer = a.link_layer;
	out->phys_state = a.phys_state;
	out->active_width = a.active_width;
	out->active_speed = a.active_speed;
	return 0;
}

int rm_gid_table(void *ctx, struct rm_gid *out, int cap)
{
	ssize_t n;

	if (!lib.query_gid_table_fn)
		return -ENOSYS;
	do {
		n = lib.query_gid_table_fn(ctx, out, cap, 0, sizeof *out);
	} while (n == -EINTR);
	return n;
}

int rm_query_gid(void *ctx, int port, int index, struct rm_gid *out)
{
	union ibv_gid g;
	int err;

	RETRY_RC(err, lib.query_gid(ctx, port, index, &g));
	if (err)
		return err;
	memset(out, 0, sizeof *out);
	memcpy(out->raw, g.raw, sizeof out->raw);
	out->index = index;
	out->port = port;
	return 0;
}

int rm_alloc_pd(void *ctx, void **pd)
{
	RETRY_NULL(*pd, lib.alloc_pd(ctx));
	return *pd ? 0 : errno_or(ENOMEM);
}

int rm_dealloc_pd(void *pd)
{
	int err;
	RETRY_RC(err, lib.dealloc_pd(pd));
	return err;
}

int rm_reg_mr(void *pd, void *addr, uint64_t length, int access, void **out, uint32_t *lkey, uint32_t *rkey)
{
	struct ibv_mr *mr;

	RETRY_NULL(mr, lib.reg_mr_fn(pd, addr, length, access));
	if (!mr)
		return errno_or(ENOMEM);
	*out = mr;
	*lkey = mr->lkey;
	*rkey = mr->rkey;
	return 0;
}

int rm_dereg_mr(void *mr)
{
	int err;
	RETRY_RC(err, lib.dereg_mr(mr));
	return err;
}

int rm_create_channel(void *ctx, void **out, int *fd)
{
	struct ibv_comp_channel *ch;
	int err;

	RETRY_NULL(ch, lib.create_comp_channel(ctx));
	if (!ch)
		return errno_or(ENOMEM);
	err = nonblocking(ch->fd);
	if (err) {
		lib.destroy_comp_channel(ch);
		return err;
	}
	*out = ch;
	*fd = ch->fd;
	return 0;
}

int rm_destroy_channel(void *ch)
{
	int err;
	RETRY_RC(err, lib.destroy_comp_channel(ch));
	return err;
}

int rm_create_cq(void *ctx, int entries, void *ch, int vector, void **out, int *got, uint32_t *handle)
{
	struct ibv_cq *cq;

	RETRY_NULL(cq, lib.create_cq(ctx, entries, NULL, ch, vector));
	if (!cq)
		return errno_or(ENOMEM);
	*out = cq;
	*got = cq->cqe;
	*handle = cq->handle;
	return 0;
}

int rm_destroy_cq(void *cq)
{
	int err;
	RETRY_RC(err, lib.destroy_cq(cq));
	return err;
}

int rm_arm(void *cq)
{
	int err;
	RETRY_RC(err, ibv_req_notify_cq(cq, 0));
	return err;
}

// Acknowledged at once: an event that is never acknowledged makes
// ibv_destroy_cq wait for ever.
int rm_take_cq_event(void *ch)
{
	struct ibv_cq *cq;
	void *arg;
	int rc;

	do {
		errno = 0;
		rc = lib.get_cq_event(ch, &cq, &arg);
	} while (rc && errno == EINTR);
	if (rc)
		return errno_or(EAGAIN);
	lib.ack_cq_events(cq, 1);
	return 0;
}

// The pointers in an event live until it is acknowledged (destroying the object
// waits for that), so numbers are read out first.
int rm_take_async_event(void *ctx, struct rm_event *out)
{
	struct ibv_async_event e;
	int rc;

	do {
		errno = 0;
		rc = lib.get_async_event(ctx, &e);
	} while (rc && errno == EINTR);
	if (rc)
		return errno_or(EAGAIN);
	memset(out, 0, sizeof *out);
	out->type = e.event_type;
	switch (e.event_type) {
	case IBV_EVENT_CQ_ERR:
		out->cq_handle = e.element.cq->handle;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		out->qpn = e.element.qp->qp_num;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		out->port = e.element.port_num;
		break;
	default:
		break;
	}
	lib.ack_async_event(&e);
	return 0;
}

int rm_create_qp(void *pd, void *send_cq, void *recv_cq, int max_send, int max_recv, void **out, uint32_t *qpn)
{
	struct ibv_qp_init_attr a;
	struct ibv_qp *qp;

	memset(&a, 0, sizeof a);
	a.send_cq = send_cq;
	a.recv_cq = recv_cq;
	a.cap.max_send_wr = max_send;
	a.cap.max_recv_wr = max_recv;
	a.cap.max_send_sge = 1;
	a.cap.max_recv_sge = 1;
	a.qp_type = IBV_QPT_RC;
	RETRY_NULL(qp, lib.create_qp(pd, &a));
	if (!qp)
		return errno_or(ENOMEM);
	*out = qp;
	*qpn = qp->qp_num;
	return 0;
}

int rm_destroy_qp(void *qp)
{
	int err;
	RETRY_RC(err, lib.destroy_qp(qp));
	return err;
}

int rm_qp_init(void *qp, int port, int access)
{
	struct ibv_qp_attr a;
	int err;

	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_INIT;
	a.port_num = port;
	a.qp_access_flags = access;
	RETRY_RC(err, lib.modify_qp(qp, &a,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	return err;
}

int rm_qp_rtr(void *qp, const struct rm_rtr *r)
{
	struct ibv_qp_attr a;
	int err;

	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = r->mtu;
	a.dest_qp_num = r->dest_qpn;
	a.rq_psn = r->psn;
	a.max_dest_rd_atomic = r->max_dest_rd_atomic;
	a.min_rnr_timer = r->min_rnr_timer;
	a.ah_attr.port_num = r->path.port;
	a.ah_attr.dlid = r->path.dlid;
	a.ah_attr.sl = r->path.sl;
	a.ah_attr.is_global = r->path.global;
	if (r->path.global) {
		memcpy(a.ah_attr.grh.dgid.raw, r->path.dgid, 16);
		a.ah_attr.grh.flow_label = r->path.flow_label;
		a.ah_attr.grh.sgid_index = r->path.sgid_index;
		a.ah_attr.grh.hop_limit = r->path.hop_limit;
		a.ah_attr.grh.traffic_class = r->path.traffic_class;
	}
	RETRY_RC(err, lib.modify_qp(qp, &a,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	return err;
}

int rm_qp_rts(void *qp, const struct rm_rts *r)
{
	struct ibv_qp_attr a;
	int err;

	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = r->psn;
	a.max_rd_atomic = r->max_rd_atomic;
	a.timeout = r->timeout;
	a.retry_cnt = r->retry_cnt;
	a.rnr_retry = r->rnr_retry;
	RETRY_RC(err, lib.modify_qp(qp, &a,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
	return err;
}

int rm_qp_err(void *qp)
{
	struct ibv_qp_attr a;
	int err;

	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_ERR;
	RETRY_RC(err, lib.modify_qp(qp, &a, IBV_QP_STATE));
	return err;
}

int rm_qp_query(void *qp, struct rm_qp_attr *out)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	int err;

	memset(&a, 0, sizeof a);
	memset(&init, 0, sizeof init);
	RETRY_RC(err, lib.query_qp(qp, &a,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_SQ_PSN |
		IBV_QP_RQ_PSN | IBV_QP_ACCESS_FLAGS | IBV_QP_CAP | IBV_QP_MAX_QP_RD_ATOMIC |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER, &init));
	if (err)
		return err;
	memset(out, 0, sizeof *out);
	out->state = a.qp_state;
	out->mtu = a.path_mtu;
	out->dest_qpn = a.dest_qp_num;
	out->sq_psn = a.sq_psn;
	out->rq_psn = a.rq_psn;
	out->access = a.qp_access_flags;
	out->max_send_wr = init.cap.max_send_wr;
	out->max_recv_wr = init.cap.max_recv_wr;
	out->max_rd_atomic = a.max_rd_atomic;
	out->max_dest_rd_atomic = a.max_dest_rd_atomic;
	out->timeout = a.timeout;
	out->retry_cnt = a.retry_cnt;
	out->rnr_retry = a.rnr_retry;
	out->min_rnr_timer = a.min_rnr_timer;
	return 0;
}

// The list is built on this stack (37 KiB at most): Go memory never reaches the
// library, and the chain of pointers that ibv_send_wr wants never exists in Go.
static int post(struct ibv_qp *qp, const struct rm_read *reads, int n, const struct ibv_mr *mr,
                uint32_t rkey, int32_t *posted)
{
	struct ibv_send_wr wr[MAX_READS], *bad = NULL;
	struct ibv_sge sge[MAX_READS];
	int err;

	*posted = 0;
	if (n < 1 || n > MAX_READS)
		return EINVAL;
	for (int i = 0; i < n; i++) {
		const struct rm_read *r = &reads[i];
		if (r->local > mr->length || r->length > mr->length - r->local)
			return ERANGE;
		sge[i].addr = (uintptr_t)mr->addr + r->local;
		sge[i].length = r->length;
		sge[i].lkey = mr->lkey;
		memset(&wr[i], 0, sizeof wr[i]);
		wr[i].wr_id = r->id;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].opcode = IBV_WR_RDMA_READ;
		wr[i].send_flags = r->signaled ? IBV_SEND_SIGNALED : 0;
		wr[i].wr.rdma.remote_addr = r->remote;
		wr[i].wr.rdma.rkey = rkey;
	}
	// Not repeated on EINTR: a prefix may be on the queue already.
	errno = 0;
	err = as_errno(ibv_post_send(qp, wr, &bad));
	if (!err)
		*posted = n;
	else if (bad >= wr && bad < wr + n)
		*posted = bad - wr;
	return err;
}

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static int poll_once(struct ibv_cq *cq, struct rm_wc *out, int cap)
{
	struct ibv_wc wc[32];
	int got = 0;

	while (got < cap) {
		int want = cap - got < 32 ? cap - got : 32;
		int n = ibv_poll_cq(cq, want, wc);
		if (n < 0)
			return got ? got : -errno_or(EIO);
		for (int i = 0; i < n; i++) {
			struct rm_wc *o = &out[got + i];
			o->id = wc[i].wr_id;
			o->status = wc[i].status;
			o->vendor_err = wc[i].vendor_err;
			o->qpn = wc[i].qp_num;
			o->reserved = 0;
		}
		got += n;
		if (n < want)
			break;
	}
	return got;
}

int rm_poll(void *cq, struct rm_wc *out, int cap, int64_t spin_ns)
{
	int64_t end = 0;
	int n;

	if (cap < 1)
		return -EINVAL;
	for (unsigned i = 1;; i++) {
		errno = 0;
		n = poll_once(cq, out, cap);
		if (n || spin_ns <= 0)
			return n;
		relax();
		if (i % 8)
			continue; // the clock costs more than a poll
		int64_t now = now_ns();
		if (!end)
			end = now + spin_ns;
		else if (now >= end)
			return 0;
	}
}

int rm_arm_poll(void *cq, struct rm_wc *out, int cap)
{
	int err = rm_arm(cq);
	return err ? -err : rm_poll(cq, out, cap, 0);
}

void rm_post_poll(void *qp, const struct rm_read *reads, int n, void *mr, uint32_t rkey,
                  void *cq, struct rm_wc *out, int cap, int64_t spin_ns, struct rm_counts *c)
{
	int got = 0;

	c->polled = c->poll_err = 0;
	c->post_err = post(qp, reads, n, mr, rkey, &c->posted);
	if (spin_ns >= 0)
		got = rm_poll(cq, out, cap, c->post_err ? 0 : spin_ns);
	if (got < 0)
		c->poll_err = -got;
	else
		c->polled = got;
}
