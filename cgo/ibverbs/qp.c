//go:build linux && cgo && !noverbs

#include "shim.h"
#include "lib.h"

#include <string.h>

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
	RETRY_NULL(qp, rm_lib.create_qp(pd, &a));
	if (!qp)
		return errno_or(ENOMEM);
	*out = qp;
	*qpn = qp->qp_num;
	return 0;
}

int rm_destroy_qp(void *qp)
{
	int err;
	RETRY_RC(err, rm_lib.destroy_qp(qp));
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
	RETRY_RC(err, rm_lib.modify_qp(qp, &a,
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
	RETRY_RC(err, rm_lib.modify_qp(qp, &a,
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
	RETRY_RC(err, rm_lib.modify_qp(qp, &a,
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
	RETRY_RC(err, rm_lib.modify_qp(qp, &a, IBV_QP_STATE));
	return err;
}

int rm_qp_query(void *qp, struct rm_qp_attr *out)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	int err;

	memset(&a, 0, sizeof a);
	memset(&init, 0, sizeof init);
	RETRY_RC(err, rm_lib.query_qp(qp, &a,
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
