// The loaded library, and how its calls are made. Private to the C files.
#ifndef RMATAIL_IBVERBS_LIB_H
#define RMATAIL_IBVERBS_LIB_H

#include <errno.h>

#include <infiniband/verbs.h>

// What is called in libibverbs.so.1. ibv_post_send, ibv_poll_cq and
// ibv_req_notify_cq are not there to be found: they are inline functions of the
// header that go through the device's own table.
#define SYMBOLS(X) \
	X(get_device_list) X(free_device_list) X(get_device_guid) X(open_device) \
	X(close_device) X(query_device) X(query_gid) X(alloc_pd) X(dealloc_pd) \
	X(dereg_mr) X(create_comp_channel) X(destroy_comp_channel) X(create_cq) \
	X(destroy_cq) X(get_cq_event) X(ack_cq_events) X(create_qp) X(modify_qp) \
	X(query_qp) X(destroy_qp) X(get_async_event) X(ack_async_event)

struct rm_lib {
#define FIELD(name) __typeof__(ibv_##name) *name;
	SYMBOLS(FIELD)
#undef FIELD
	// Named apart, as the header has macros of these names.
	struct ibv_mr *(*reg_mr_fn)(struct ibv_pd *, void *, size_t, int);
	int (*query_port_fn)(struct ibv_context *, uint8_t, void *);
	// NULL before rdma-core 32.
	ssize_t (*query_gid_table_fn)(struct ibv_context *, void *, size_t, uint32_t, size_t);
};

extern struct rm_lib rm_lib;

// The errno of a call that failed; some providers leave it unset.
static inline int errno_or(int fallback)
{
	return errno > 0 ? errno : fallback;
}

// A call that returns an errno or, in some providers, -1 with errno set.
static inline int as_errno(int rc)
{
	return rc < 0 ? errno_or(-rc) : rc;
}

// Signals of the Go runtime interrupt C at any time, and not every path in the
// kernel restarts by itself (CALL is evaluated again after EINTR).
#define RETRY_NULL(VAR, CALL) \
	do { errno = 0; (VAR) = (CALL); } while (!(VAR) && errno == EINTR)
#define RETRY_RC(VAR, CALL) \
	do { errno = 0; (VAR) = as_errno(CALL); } while ((VAR) == EINTR)

int rm_nonblocking(int fd);

#endif
