//go:build linux && cgo && !noverbs

#include "shim.h"
#include "lib.h"

#include <stddef.h>
#include <time.h>

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
enum { MAX_READS = 256 };

// The list is built on this stack (37 KiB at most, and no more than it needs, so
// that a short one stays on pages that are used anyway): Go memory never reaches
// the library, and the chain of pointers that ibv_send_wr wants never exists in Go.
static int post(struct ibv_qp *qp, const struct rm_read *reads, int n, const struct ibv_mr *mr,
                uint32_t rkey, int32_t *posted)
{
	struct ibv_send_wr *bad = NULL;
	int err;

	*posted = 0;
	if (n < 1 || n > MAX_READS)
		return EINVAL;
	struct ibv_send_wr wr[n];
	struct ibv_sge sge[n];
	for (int i = 0; i < n; i++) {
		const struct rm_read *r = &reads[i];
		if (r->local > mr->length || r->length > mr->length - r->local)
			return ERANGE;
		sge[i].addr = (uintptr_t)mr->addr + r->local;
		sge[i].length = r->length;
		sge[i].lkey = mr->lkey;
		// Only what a READ has: compilers clear 128 bytes by a loop in the processor
		// that takes longer than all the rest.
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

static int spin_poll(struct ibv_cq *cq, struct rm_wc *out, int cap, int64_t spin_ns)
{
	int64_t end = 0;
	int n;

	if (cap < 1)
		return -EINVAL;
	for (unsigned i = 1;; i++) {
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

int rm_poll(rm_ref cq, struct rm_wc *out, int cap, int64_t spin_ns)
{
	errno = 0; // some providers fail without setting it
	return spin_poll((struct ibv_cq *)cq, out, cap, spin_ns);
}

int rm_arm_poll(rm_ref cq, struct rm_wc *out, int cap)
{
	int err = rm_arm((void *)cq);
	return err ? -err : rm_poll(cq, out, cap, 0);
}

void rm_post_poll(rm_ref qp, const struct rm_read *reads, int n, rm_ref mr, uint32_t rkey,
                  rm_ref cq, struct rm_wc *out, int cap, int64_t spin_ns, struct rm_counts *c)
{
	int got = 0;

	errno = 0; // some providers fail without setting it
	c->polled = c->poll_err = 0;
	c->post_err = post((struct ibv_qp *)qp, reads, n, (const struct ibv_mr *)mr, rkey, &c->posted);
	if (spin_ns >= 0)
		got = spin_poll((struct ibv_cq *)cq, out, cap, c->post_err ? 0 : spin_ns);
	if (got < 0)
		c->poll_err = -got;
	else
		c->polled = got;
}
