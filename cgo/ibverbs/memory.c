//go:build linux && cgo && !noverbs

#include "shim.h"
#include "lib.h"

#include <string.h>

int rm_alloc_pd(void *ctx, void **pd)
{
	RETRY_NULL(*pd, rm_lib.alloc_pd(ctx));
	return *pd ? 0 : errno_or(ENOMEM);
}

int rm_dealloc_pd(void *pd)
{
	int err;
	RETRY_RC(err, rm_lib.dealloc_pd(pd));
	return err;
}

int rm_reg_mr(void *pd, void *addr, uint64_t length, int access, void **out, uint32_t *lkey, uint32_t *rkey)
{
	struct ibv_mr *mr;

	RETRY_NULL(mr, rm_lib.reg_mr_fn(pd, addr, length, access));
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
	RETRY_RC(err, rm_lib.dereg_mr(mr));
	return err;
}

int rm_create_channel(void *ctx, void **out, int *fd)
{
	struct ibv_comp_channel *ch;
	int err;

	RETRY_NULL(ch, rm_lib.create_comp_channel(ctx));
	if (!ch)
		return errno_or(ENOMEM);
	err = rm_nonblocking(ch->fd);
	if (err) {
		rm_lib.destroy_comp_channel(ch);
		return err;
	}
	*out = ch;
	*fd = ch->fd;
	return 0;
}

int rm_destroy_channel(void *ch)
{
	int err;
	RETRY_RC(err, rm_lib.destroy_comp_channel(ch));
	return err;
}

int rm_create_cq(void *ctx, int entries, void *ch, int vector, void **out, int *got, uint32_t *handle)
{
	struct ibv_cq *cq;

	RETRY_NULL(cq, rm_lib.create_cq(ctx, entries, NULL, ch, vector));
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
	RETRY_RC(err, rm_lib.destroy_cq(cq));
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
		rc = rm_lib.get_cq_event(ch, &cq, &arg);
	} while (rc && errno == EINTR);
	if (rc)
		return errno_or(EAGAIN);
	rm_lib.ack_cq_events(cq, 1);
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
		rc = rm_lib.get_async_event(ctx, &e);
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
	rm_lib.ack_async_event(&e);
	return 0;
}
