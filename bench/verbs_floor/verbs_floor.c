// The floor of reads over RDMA: the same READs as rmatail's, in plain C on libibverbs, with nothing around them.
//
//   verbs_floor serve DEVICE GID_INDEX ADDRESS BYTES
//       exports BYTES of a memfd, prints "port N", and serves connections one after the other until its standard input ends
//   verbs_floor read DEVICE GID_INDEX ADDRESS PORT MAX_READS TIMEOUT RETRIES BYTES
//       connects (max_rd_atomic, ACK timeout exponent and retry_cnt as given; BYTES are the other end's), prints "ready MTU READS", then measures what
//       each line of its standard input asks for, and answers with one line of JSON:
//           run SIZE BATCH IN_FLIGHT COUNT STRIDE NS
//       read k is of SIZE bytes at offset (k mod COUNT) x STRIDE; IN_FLIGHT batches of BATCH READs are
//       on their way; for NS nanoseconds
//
// A batch is one ibv_post_send of a list, its last READ signalled, and is over when that one's completion was polled. Nothing is
// allocated and no event is waited for. Each batch is timed, by the clock read once between two batches, as perftest does it.
//
// Exit code: 0 standard input ended, 1 an error, which standard error says, 2 usage.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	PORT = 1,             // of the device
	MAX_BATCH = 256,      // READs of one list
	MAX_IN_FLIGHT = 16,   // batches
	MAX_SIZE = 4096,      // bytes of one READ
	SAMPLES = 1 << 22,    // batches that one run can time
	BLOCKS = 20,          // of a run, the fastest of which is the peak
	PATIENCE_S = 10,      // for one batch, and for one message of the other end
	MIB = 1 << 20,        // perftest's MB
};

static _Noreturn void die(const char *what, ...)
{
	va_list args;
	int err = errno;
	va_start(args, what);
	fputs("verbs_floor: ", stderr);
	vfprintf(stderr, what, args);
	va_end(args);
	if (err)
		fprintf(stderr, ": %s", strerror(err));
	fputc('\n', stderr);
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// What one end tells the other. Both are built from this file and run on one host, or on two of one byte order.
struct hello {
	uint8_t  gid[16];
	uint64_t addr;
	uint32_t rkey, qpn, psn, mtu, reads;
	uint16_t lid;
	uint16_t reserved;
};

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *mem;
	size_t bytes;
	int gid_index;
	struct hello own, peer;
};

static struct ibv_context *open_device(const char *name)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);
	if (!list)
		die("list of devices");
	for (int i = 0; i < n; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name))
			continue;
		struct ibv_context *ctx = ibv_open_device(list[i]);
		if (!ctx)
			die("open %s", name);
		ibv_free_device_list(list);
		return ctx;
	}
	errno = ENODEV;
	die("%s", name);
}

// A memfd, mapped shared, as the arena of a node is.
static char *memory(size_t bytes)
{
	int fd = memfd_create("verbs_floor", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		die("memory of %zu bytes", bytes);
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		die("map %zu bytes", bytes);
	close(fd);
	for (size_t i = 0; i < bytes; i++)
		p[i] = (char)(i * 2654435761u >> 24);
	return p;
}

static void make(struct end *e, const char *device, int gid_index, size_t bytes, int depth, int access)
{
	struct ibv_port_attr port;
	union ibv_gid gid;

	e->ctx = open_device(device);
	e->gid_index = gid_index;
	e->bytes = bytes;
	e->mem = memory(bytes);
	if (!(e->pd = ibv_alloc_pd(e->ctx)))
		die("protection domain");
	if (!(e->mr = ibv_reg_mr(e->pd, e->mem, bytes, access)))
		die("register %zu bytes", bytes);
	if (!(e->cq = ibv_create_cq(e->ctx, depth + 1, NULL, NULL, 0)))
		die("completion queue");
	struct ibv_qp_init_attr init = {
		.send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = (uint32_t)depth, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	if (!(e->qp = ibv_create_qp(e->pd, &init)))
		die("queue pair");
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = access & IBV_ACCESS_REMOTE_READ };
	if ((errno = ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)))
		die("queue pair to INIT");
	if ((errno = ibv_query_port(e->ctx, PORT, &port)))
		die("port %d of %s", PORT, device);
	if (ibv_query_gid(e->ctx, PORT, gid_index, &gid))
		die("GID %d of %s", gid_index, device);
	memcpy(e->own.gid, gid.raw, sizeof e->own.gid);
	e->own.lid = port.lid;
	e->own.mtu = port.active_mtu;
	e->own.qpn = e->qp->qp_num;
	e->own.psn = (uint32_t)now_ns() & 0xffffff;
	e->own.addr = (uintptr_t)e->mem;
	e->own.rkey = e->mr->rkey;
}

static void unmake(struct end *e)
{
	ibv_destroy_qp(e->qp);
	ibv_destroy_cq(e->cq);
	ibv_dereg_mr(e->mr);
	ibv_dealloc_pd(e->pd);
	ibv_close_device(e->ctx);
	munmap(e->mem, e->bytes);
}

static void connect_qp(struct end *e, int timeout, int retries)
{
	uint32_t mtu = e->own.mtu < e->peer.mtu ? e->own.mtu : e->peer.mtu;
	uint32_t reads = e->own.reads < e->peer.reads ? e->own.reads : e->peer.reads;
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = (enum ibv_mtu)mtu, .dest_qp_num = e->peer.qpn, .rq_psn = e->peer.psn,
		.max_dest_rd_atomic = (uint8_t)reads, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = PORT, .dlid = e->peer.lid,
			.grh = { .sgid_index = (uint8_t)e->gid_index, .hop_limit = 64 } },
	};
	memcpy(rtr.ah_attr.grh.dgid.raw, e->peer.gid, 16);
	if ((errno = ibv_modify_qp(e->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)))
		die("queue pair to RTR");
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .sq_psn = e->own.psn, .max_rd_atomic = (uint8_t)reads,
		.timeout = (uint8_t)timeout, .retry_cnt = (uint8_t)retries, .rnr_retry = 6,
	};
	if ((errno = ibv_modify_qp(e->qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
	                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)))
		die("queue pair to RTS");
	e->own.mtu = mtu;
	e->own.reads = reads;
}

static void send_hello(int fd, const struct hello *h)
{
	if (write(fd, h, sizeof *h) != sizeof *h)
		die("send to the other end");
}

static int receive_hello(int fd, struct hello *h)
{
	ssize_t n = recv(fd, h, sizeof *h, MSG_WAITALL);
	if (n == 0)
		return 0;
	if (n != sizeof *h)
		die("%zd bytes from the other end, want %zu", n, sizeof *h);
	return 1;
}

static struct addrinfo *resolve(const char *address, const char *port, int flags)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICHOST | AI_NUMERICSERV }, *a;
	int err = getaddrinfo(address, port, &hints, &a);
	errno = 0;
	if (err)
		die("address %s: %s", address, gai_strerror(err));
	return a;
}

// --- The exporting end.

// ended says whether standard input has ended: it has nothing to say.
static int ended(int events) { return events & (POLLIN | POLLHUP | POLLERR); }

// One connection: it lives until the other end closes it, or standard input ends (0).
static int serve_one(int fd, const char *device, int gid_index, size_t bytes)
{
	struct end e = { 0 };
	struct timeval patience = { .tv_sec = PATIENCE_S };
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	make(&e, device, gid_index, bytes, 1, IBV_ACCESS_REMOTE_READ);
	if (!receive_hello(fd, &e.peer))
		die("the other end left in the handshake");
	e.own.reads = e.peer.reads;
	connect_qp(&e, 14, 6);
	send_hello(fd, &e.own);
	struct pollfd p[2] = { { .fd = fd, .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };
	while (poll(p, 2, -1) < 0)
		if (errno != EINTR)
			die("poll");
	unmake(&e);
	return !ended(p[1].revents);
}

static void serve(char **arg)
{
	struct addrinfo *a = resolve(arg[2], "0", AI_PASSIVE);
	struct sockaddr_storage at;
	socklen_t len = sizeof at;
	char port[NI_MAXSERV];
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 1) || getsockname(fd, (struct sockaddr *)&at, &len))
		die("listen at %s", arg[2]);
	freeaddrinfo(a);
	if (getnameinfo((struct sockaddr *)&at, len, NULL, 0, port, sizeof port, NI_NUMERICSERV))
		die("port of the listening socket");
	printf("port %s\n", port);
	fflush(stdout);
	for (;;) {
		struct pollfd p[2] = { { .fd = fd, .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };
		if (poll(p, 2, -1) < 0) {
			if (errno == EINTR)
				continue;
			die("poll");
		}
		if (ended(p[1].revents))
			return;
		int c = accept(fd, NULL, NULL);
		if (c < 0)
			continue;
		int more = serve_one(c, arg[0], atoi(arg[1]), strtoull(arg[3], NULL, 10));
		close(c);
		if (!more)
			return;
	}
}

// --- The reading end.

struct list {
	struct ibv_send_wr wr[MAX_BATCH];
	struct ibv_sge sge[MAX_BATCH];
	int64_t posted; // when
};

struct run {
	int size, batch, in_flight;
	uint64_t count, stride;
	int64_t ns;
};

static struct list lists[MAX_IN_FLIGHT];
static int64_t sample[SAMPLES];

static void plan(struct end *e, const struct run *r)
{
	int room = (r->size + 7) & ~7;
	for (int l = 0; l < r->in_flight; l++) {
		memset(&lists[l], 0, sizeof lists[l]);
		for (int i = 0; i < r->batch; i++) {
			struct ibv_send_wr *w = &lists[l].wr[i];
			lists[l].sge[i] = (struct ibv_sge){ (uintptr_t)e->mem + (uint64_t)(l * r->batch + i) * room, (uint32_t)r->size, e->mr->lkey };
			w->wr_id = (uint64_t)l;
			w->next = i + 1 < r->batch ? w + 1 : NULL;
			w->sg_list = &lists[l].sge[i];
			w->num_sge = 1;
			w->opcode = IBV_WR_RDMA_READ;
			w->send_flags = i + 1 < r->batch ? 0 : IBV_SEND_SIGNALED;
			w->wr.rdma.rkey = e->peer.rkey;
		}
	}
}

static uint64_t post(struct end *e, const struct run *r, struct list *l, uint64_t k)
{
	struct ibv_send_wr *bad;
	for (int i = 0; i < r->batch; i++) {
		l->wr[i].wr.rdma.remote_addr = e->peer.addr + k * r->stride;
		if (++k == r->count)
			k = 0;
	}
	if ((errno = ibv_post_send(e->qp, l->wr, &bad)))
		die("post %d READs", r->batch);
	return k;
}

static void wait_one(struct end *e)
{
	struct ibv_wc wc;
	int n;
	int64_t end = 0;
	for (uint64_t i = 1; !(n = ibv_poll_cq(e->cq, 1, &wc)); i++) {
		if (i % 4096)
			continue;
		if (!end)
			end = now_ns() + PATIENCE_S * (int64_t)1000000000;
		else if (now_ns() > end) {
			errno = ETIMEDOUT;
			die("READ");
		}
	}
	errno = 0;
	if (n < 0)
		die("poll");
	if (wc.status != IBV_WC_SUCCESS)
		die("READ: %s", ibv_wc_status_str(wc.status));
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

// The smallest value that a fraction q of the n sorted ones does not exceed, in microseconds.
static double quantile(int64_t n, double q)
{
	int64_t rank = (int64_t)ceil(q * (double)n);
	if (rank < 1)
		rank = 1;
	return (double)sample[rank - 1] / 1e3;
}

static void measure(struct end *e, const struct run *r)
{
	int64_t batches = 0, blocked = 0;
	uint64_t k = 0;
	double peak = 0, sum = 0, squares = 0, bytes = (double)r->size * r->batch;

	plan(e, r);
	int64_t cpu = cpu_ns(), begin = now_ns(), last = begin, block = begin, end = begin + r->ns, now;
	int next = 0, flying = 0;
	do {
		while (flying < r->in_flight) {
			k = post(e, r, &lists[(next + flying) % r->in_flight], k);
			flying++;
		}
		wait_one(e);
		flying--;
		next = (next + 1) % r->in_flight;
		now = now_ns();
		if (batches < SAMPLES)
			sample[batches] = now - last;
		last = now;
		batches++;
		blocked++;
		if (now - block >= r->ns / BLOCKS) {
			double rate = (double)blocked * bytes / ((double)(now - block) / 1e9);
			if (rate > peak)
				peak = rate;
			block = now;
			blocked = 0;
		}
	} while (now < end);
	for (; flying; flying--)
		wait_one(e);
	cpu = cpu_ns() - cpu;

	double seconds = (double)(now - begin) / 1e9, reads = (double)batches * r->batch;
	printf("{\"reads\":%.0f,\"seconds\":%.9f,\"client_cpu_usec_per_read\":%.6f,\"bw_average_mbps\":%.6f,\"bw_peak_mbps\":%.6f,\"msg_rate_mpps\":%.9f",
	       reads, seconds, (double)cpu / 1e3 / reads, (double)batches * bytes / seconds / MIB, peak / MIB, reads / seconds / 1e6);
	int64_t n = batches < SAMPLES ? batches : SAMPLES;
	for (int64_t i = 0; i < n; i++)
		sum += (double)sample[i];
	for (int64_t i = 0; i < n; i++)
		squares += ((double)sample[i] - sum / (double)n) * ((double)sample[i] - sum / (double)n);
	qsort(sample, (size_t)n, sizeof *sample, by_value);
	printf(",\"t_min_usec\":%.3f,\"t_max_usec\":%.3f,\"t_typical_usec\":%.3f,\"t_avg_usec\":%.3f,\"t_stdev_usec\":%.3f"
	       ",\"p10_usec\":%.3f,\"p90_usec\":%.3f,\"p99_usec\":%.3f,\"p99_9_usec\":%.3f",
	       quantile(n, 0), quantile(n, 1), quantile(n, 0.5), sum / (double)n / 1e3, sqrt(squares / (double)n) / 1e3,
	       quantile(n, 0.1), quantile(n, 0.9), quantile(n, 0.99), quantile(n, 0.999));
	printf("}\n");
	fflush(stdout);
}

static void check(const struct run *r, uint64_t remote)
{
	errno = EINVAL;
	if (r->size < 1 || r->size > MAX_SIZE || r->batch < 1 || r->batch > MAX_BATCH || r->in_flight < 1 || r->in_flight > MAX_IN_FLIGHT || r->ns < 1)
		die("size %d, batch %d, %d in flight", r->size, r->batch, r->in_flight);
	if (r->count < 1 || r->stride > remote || (r->count - 1) > (remote - (uint64_t)r->size) / (r->stride ? r->stride : 1))
		die("%" PRIu64 " places of stride %" PRIu64 " in %" PRIu64 " bytes", r->count, r->stride, remote);
}

static void read_end(char **arg)
{
	struct end e = { 0 };
	struct addrinfo *a = resolve(arg[2], arg[3], 0);
	char line[256];
	uint64_t remote = 0;

	make(&e, arg[0], atoi(arg[1]), (size_t)MAX_BATCH * MAX_IN_FLIGHT * MAX_SIZE, MAX_BATCH * MAX_IN_FLIGHT, IBV_ACCESS_LOCAL_WRITE);
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, a->ai_addr, a->ai_addrlen))
		die("connect to %s port %s", arg[2], arg[3]);
	freeaddrinfo(a);
	e.own.reads = (uint32_t)atoi(arg[4]);
	send_hello(fd, &e.own);
	if (!receive_hello(fd, &e.peer))
		die("the exporting end left in the handshake");
	connect_qp(&e, atoi(arg[5]), atoi(arg[6]));
	remote = strtoull(arg[7], NULL, 10);
	printf("ready %d %u\n", 128 << e.own.mtu, e.own.reads);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		struct run r;
		if (sscanf(line, "run %d %d %d %" SCNu64 " %" SCNu64 " %" SCNd64, &r.size, &r.batch, &r.in_flight, &r.count, &r.stride, &r.ns) != 6) {
			errno = EINVAL;
			die("line %s", line);
		}
		check(&r, remote);
		measure(&e, &r);
	}
	close(fd);
	unmake(&e);
}

int main(int argc, char **argv)
{
	if (argc == 6 && !strcmp(argv[1], "serve"))
		serve(argv + 2);
	else if (argc == 10 && !strcmp(argv[1], "read"))
		read_end(argv + 2);
	else {
		fputs("usage: verbs_floor serve DEVICE GID_INDEX ADDRESS BYTES\n"
		      "       verbs_floor read DEVICE GID_INDEX ADDRESS PORT MAX_READS TIMEOUT RETRIES BYTES\n", stderr);
		return 2;
	}
	return 0;
}
