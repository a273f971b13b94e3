//go:build linux && cgo && !noverbs

#include "shim.h"
#include "lib.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(struct rm_gid) == 32, "rm_gid");
_Static_assert(offsetof(struct rm_gid, index) == 16, "rm_gid.index");
_Static_assert(offsetof(struct rm_gid, ifindex) == 28, "rm_gid.ifindex");

int rm_nonblocking(int fd)
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

	RETRY_NULL(list, rm_lib.get_device_list(&n));
	if (!list)
		return -errno_or(EIO);
	for (int i = 0; i < n && i < cap; i++) {
		memset(&out[i], 0, sizeof out[i]);
		strncpy(out[i].name, list[i]->name, sizeof out[i].name - 1);
		out[i].guid = rm_lib.get_device_guid(list[i]);
		out[i].node_type = list[i]->node_type;
		out[i].transport = list[i]->transport_type;
	}
	rm_lib.free_device_list(list);
	return n;
}

int rm_open(const char *name, void **out, int *async_fd, int *vectors)
{
	struct ibv_device **list;
	struct ibv_context *ctx = NULL;
	int err = ENODEV, n = 0;

	RETRY_NULL(list, rm_lib.get_device_list(&n));
	if (!list)
		return errno_or(EIO);
	for (int i = 0; i < n; i++) {
		if (strcmp(list[i]->name, name))
			continue;
		RETRY_NULL(ctx, rm_lib.open_device(list[i]));
		err = ctx ? 0 : errno_or(EIO);
		break;
	}
	rm_lib.free_device_list(list);
	if (!ctx)
		return err;
	err = rm_nonblocking(ctx->async_fd);
	if (err) {
		rm_lib.close_device(ctx);
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
	return as_errno(rm_lib.close_device(ctx));
}

int rm_query_device(void *ctx, struct rm_device_attr *out)
{
	struct ibv_device_attr a;
	int err;

	memset(&a, 0, sizeof a);
	RETRY_RC(err, rm_lib.query_device(ctx, &a));
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
	return v ? v->query_port(ctx, port, a, sizeof *a) : rm_lib.query_port_fn(ctx, port, a);
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

	if (!rm_lib.query_gid_table_fn)
		return -ENOSYS;
	do {
		n = rm_lib.query_gid_table_fn(ctx, out, cap, 0, sizeof *out);
	} while (n == -EINTR);
	return n;
}

int rm_query_gid(void *ctx, int port, int index, struct rm_gid *out)
{
	union ibv_gid g;
	int err;

	RETRY_RC(err, rm_lib.query_gid(ctx, port, index, &g));
	if (err)
		return err;
	memset(out, 0, sizeof *out);
	memcpy(out->raw, g.raw, sizeof out->raw);
	out->index = index;
	out->port = port;
	return 0;
}
