//go:build linux && cgo && !noverbs

#include "shim.h"
#include "lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

struct rm_lib rm_lib;

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
	rm_lib.name = (__typeof__(rm_lib.name))dlsym(h, "ibv_" #name); \
	if (!rm_lib.name) { load_error = "libibverbs.so.1 lacks ibv_" #name; return; }
	SYMBOLS(FIND)
#undef FIND
	rm_lib.reg_mr_fn = (__typeof__(rm_lib.reg_mr_fn))dlsym(h, "ibv_reg_mr");
	rm_lib.query_port_fn = (__typeof__(rm_lib.query_port_fn))dlsym(h, "ibv_query_port");
	rm_lib.query_gid_table_fn = (__typeof__(rm_lib.query_gid_table_fn))dlsym(h, "_ibv_query_gid_table");
	if (!rm_lib.reg_mr_fn || !rm_lib.query_port_fn)
		load_error = "libibverbs.so.1 lacks ibv_reg_mr or ibv_query_port";
}

int rm_load(const char **why)
{
	pthread_once(&load_once, load);
	*why = load_error;
	return load_error ? -1 : 0;
}
