/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join.c -- `cleave-storage join`: an empty disk becomes a node of a cluster that runs
 *
 *	look at the disk --> ask the cluster (node.find) --> join_plan
 *	     ^                                                  |
 *	     |    FORMAT: node.list (its slots' size), open  <--+--> MEMBER: said; LEFT, TAKEN: refused
 *	     |            and lock, node.reserve, write         |
 *	     +------- then, where somebody serves it:        <--+
 *	          ADD: node.add, which connects to the node
 *
 * A run does what can be done now, and says what comes next; the same command again goes on. It is not the daemon: what
 * formats disks is not what a service manager runs again and again.
 *
 * Killed at any step: before the last page is written the disk is as empty as it was, and a number is lost; afterwards
 * the disk says which number it has. Two at once: the disk is locked from before its number is asked for until it is
 * written, and no number is given twice.
 */
#include "join.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/config.h"
#include "base/domain.h"
#include "base/num.h"
#include "base/reader.h"
#include "base/tcp_address.h"
#include "cleave/client.h"
#include "cleave/loop.h"
#include "cleave/secure_options.h"
#include "format/format.h"
#include "format/ondisk.h"
#include "join_options.h"
#include "join_plan.h"

#define JOIN_PAUSE_NS NUM_S(1) /* between two looks whether it is served */
#define JOIN_AGAIN_MAX 10u     /* changes of others that come first */

struct join {
	struct join_options options;
	const char *address; /* where gateways find the node */
	struct loop *loop;
	struct cleave_client *client;
	struct join_disk disk;
	struct join_cluster cluster;
	uint64_t begun_ns;
	uint32_t again_count;
	uint32_t step_count;
	bool has_formatted, has_told;
	/* The last answer. */
	bool is_answered;
	int rc;
	char *reply; /* NULL: none came */
	char error[CLEAVE_ERROR_BYTES_MAX];
};

static int __attribute__((format(printf, 1, 2))) join_error(const char *format, ...)
{
	va_list args;

	assert(format != NULL);
	(void)fflush(stdout);
	(void)fprintf(stderr, "cleave-storage join: ");
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fprintf(stderr, "\n");
	return -1;
}

/* Behind each thing that was read or done, for tests that kill it there. */
static void
join_did_step(struct join *join)
{
	assert(join->step_count < UINT32_MAX);
	join->step_count++;
#ifdef CLEAVE_TEST_BUILD
	if (join->step_count == join->options.kill_at)
		(void)raise(SIGKILL);
#endif
}

/* ---- a gateway is asked ---- */

static void
join_on_answer(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct join *join = arg;

	assert(rc <= 0);
	(void)call;
	assert(!join->is_answered && join->reply == NULL);
	join->is_answered = true;
	join->rc = rc;
	if (rc != 0)
		(void)snprintf(join->error, sizeof(join->error), "%s",
		    error != NULL ? error : cleave_error_text(rc));
	else if (reply == NULL || (join->reply = strdup(reply)) == NULL)
		join->rc = -ENOMEM;
}

static bool
join_is_answered(void *arg)
{
	return ((const struct join *)arg)->is_answered;
}

/* Returns 0, and join->reply; else a negative errno, and join->error. @request is taken over. */
static int
join_ask(struct join *join, json_t *request, bool must_not_repeat)
{
	struct cleave_call call = { .must_not_repeat = must_not_repeat,
		.fn = join_on_answer,
		.arg = join };
	char *text = request == NULL ? NULL : json_dumps(request, JSON_COMPACT);
	int rc = -ENOMEM;

	assert(join->client != NULL && join->loop != NULL);
	json_decref(request);
	free(join->reply);
	join->reply = NULL;
	join->is_answered = false;
	(void)snprintf(join->error, sizeof(join->error),
	    "out of memory, or an option that is no UTF-8");
	if (text != NULL)
		rc = cleave_control(join->client, &call, text);
	free(text);
	if (rc != 0)
		return rc;
	(void)loop_run(join->loop, join_is_answered, join);
	join_did_step(join);
	return join->rc;
}

static void
join_on_timer(struct loop_timer *timer, void *arg)
{
	assert(!*(const bool *)arg);
	(void)timer;
	*(bool *)arg = true;
}

static bool
join_is_over(void *arg)
{
	return *(const bool *)arg;
}

static void
join_pause(struct join *join)
{
	struct loop_timer timer;
	bool is_over = false;

	assert(join->client != NULL && join->is_answered);
	loop_timer_init(&timer, join_on_timer, &is_over);
	loop_timer_start(join->loop, &timer, JOIN_PAUSE_NS);
	(void)loop_run(join->loop, join_is_over, &is_over);
	loop_timer_stop(join->loop, &timer);
}

/* ---- what there is ---- */

/* Read without its lock: the node that serves it has that. */
static int
join_look(struct join *join)
{
	const char *path = join->options.format.disk;
	struct join_disk disk = { .content = FORMAT_EMPTY };
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;

	assert(join->options.format.disk != NULL);
	if (fd < 0 && errno != ENOENT)
		return join_error("%s: %s", path, strerror(errno));
	if (fd >= 0) {
		rc = format_look(fd, &disk.content, &disk.format);
		(void)close(fd); /* nothing was written */
	}
	if (rc != 0)
		return join_error("%s: cannot read: %s", path, strerror(-rc));
	if (disk.content == FORMAT_DISK)
		ondisk_uuid_text(disk.format.disk_uuid, disk.uuid);
	join->disk = disk;
	return 0;
}

/* Returns 0; 1: not now, ask again; -1. */
static int
join_find(struct join *join)
{
	uint64_t wanted = 0;
	int rc = join_ask(join,
	    json_pack("{s:s, s:I, s:s}", "op", "node.find", "node",
		(json_int_t)join->disk.format.node_id, "disk", join->disk.uuid),
	    false);

	assert(join->disk.content == FORMAT_DISK || join->disk.format.node_id == 0);
	/* The gateways have not heard all of their --node yet, and do within seconds where all run. */
	if (rc == -EBUSY && join->again_count++ < JOIN_AGAIN_MAX) {
		join_pause(join);
		return 1;
	}
	/* All that it can mean by EINVAL is the op itself. */
	if (rc == -EINVAL)
		return join_error(
		    "the gateway's release knows no join: install this release there, or format the "
		    "disk with a number that no node had, start it, and run cleave node add (%s)",
		    join->error);
	if (rc != 0)
		return join_error("%s; the disk is as it was", join->error);
	if (join_plan_read(join->reply, &join->cluster) != 0)
		return join_error("%s: the gateway's answer cannot be read", join->options.gateway);
	if (join->options.cluster_id != NULL &&
	    storage_parse_hex(join->options.cluster_id, &wanted) == 0 &&
	    wanted != join->cluster.cluster_id)
		return join_error("%s is of cluster %016" PRIx64
				  ", and --cluster-id says %016" PRIx64,
		    join->options.gateway, join->cluster.cluster_id, wanted);
	return 0;
}

/* ---- steps ---- */

static void
join_print_start(const struct join *join)
{
	const struct secure_options *secure = &join->options.secure;
	bool has_key = secure->key != NULL || getenv("CLEAVE_KEY") != NULL;
	uint32_t id = join->disk.format.node_id;

	(void)printf("  cleave-storage --disk %s --listen %s", join->options.format.disk,
	    join->options.listen);
	if (secure->security != NULL)
		(void)printf(" --security %s", secure->security);
	if (has_key) /* another one than that of whoever types this */
		(void)printf(" --key node-%u.key\n"
			     "  (made by: cleave key issue node/%u --out node-%u.key)",
		    id, id, id);
	(void)printf("\n");
	(void)fflush(stdout);
}

/* A number of its own: nobody else is ever given it. */
static int
join_reserve(struct join *join, uint32_t *ret_id)
{
	struct reader reader = { 0 };
	int rc = join_ask(join, json_pack("{s:s}", "op", "node.reserve"), false);
	json_t *reply = rc == 0 ? reader_load(&reader, join->reply, strlen(join->reply)) : NULL;
	uint64_t id = reply != NULL ? reader_range(&reader, reply, "node", 1, UINT32_MAX) : 0;

	assert(join->cluster.cluster_id != 0 && !join->has_formatted);
	json_decref(reply);
	if (rc != 0)
		return join_error("no number for the node: %s; the disk is as it was", join->error);
	if (id == 0)
		return join_error("%s: the gateway's answer cannot be read", join->options.gateway);
	*ret_id = (uint32_t)id;
	return 0;
}

/* The slot size of the nodes that there are; 0: no node tells, as where none was reached so far. */
static int
join_ask_slots(struct join *join)
{
	uint64_t *slot_size = &join->options.format.others_slot_size;
	int rc = join_ask(join, json_pack("{s:s}", "op", "node.list"), false);

	assert(!join->has_formatted);
	if (rc != 0)
		return join_error("no list of the nodes: %s; the disk is as it was", join->error);
	if (join_plan_read_slots(join->reply, slot_size) != 0)
		return join_error("%s: the gateway's answer cannot be read", join->options.gateway);
	return 0;
}

/* Is the disk, which is locked now, what it was when it was looked at? */
static int
join_check_same(const struct join *join, const struct format_disk *disk)
{
	struct join_disk now = { 0 };
	int rc = format_look(disk->fd, &now.content, &now.format);

	assert(join->cluster.cluster_id != 0);
	assert(disk->fd >= 0);
	if (rc == 0 && now.content == join->disk.content &&
	    memcmp(now.format.disk_uuid, join->disk.format.disk_uuid,
		sizeof(now.format.disk_uuid)) == 0)
		return 0;
	return join_error("%s: somebody else has written it meanwhile: run this again",
	    join->options.format.disk);
}

static int
join_format(struct join *join)
{
	const struct format_options *options = &join->options.format;
	/* The node's number is known when the disk is, and is good for it. */
	struct node_format format = { .cluster_id = join->cluster.cluster_id,
		.node_id = UINT32_MAX };
	struct format_disk disk;
	int rc;

	assert(join->cluster.cluster_id != 0);
	if (join->has_formatted)
		return join_error("%s: does not hold what was written to it", options->disk);
	if (join_ask_slots(join) != 0)
		return -1;
	rc = format_open(options, &format, &disk);
	join_did_step(join);
	if (rc == 0)
		rc = join_check_same(join, &disk);
	if (rc == 0)
		rc = join_reserve(join, &format.node_id);
	if (rc == 0)
		rc = format_write(options, &format, &disk);
	join_did_step(join);
	rc = format_close(options, &disk, rc);
	if (rc != 0)
		return rc;
	join->has_formatted = true;
	format_say(options, &format);
	return 0;
}

static bool
join_is_time_left(const struct join *join)
{
	assert(loop_now_ns(join->loop) >= join->begun_ns);
	return loop_now_ns(join->loop) - join->begun_ns < join->options.wait_ns;
}

/* Nobody serves it yet. Returns 1: look again; 0: the rest is for the next run; -1. */
static int
join_wait(struct join *join)
{
	assert(join->disk.format.node_id != 0 && join->address != NULL);
	if (join_is_time_left(join)) {
		if (!join->has_told) {
			(void)printf("node %u: waiting until it is served at %s:\n",
			    join->disk.format.node_id, join->address);
			join_print_start(join);
		}
		join->has_told = true;
		join_pause(join);
		return 1;
	}
	if (join->has_formatted && join->options.wait_ns == 0) {
		(void)printf("node %u: start it, then run this again, which adds it:\n",
		    join->disk.format.node_id);
		join_print_start(join);
		return 0;
	}
	(void)join_error("node %u is not added: %s: start it, then run this again:",
	    join->disk.format.node_id, join->error);
	join_print_start(join);
	return -1;
}

/* Returns as join_wait; 0 also when it is added. */
static int
join_add(struct join *join)
{
	const struct join_options *options = &join->options;
	int rc = -ENOENT;

	assert(join->disk.content == FORMAT_DISK &&
	    join->disk.format.cluster_id == join->cluster.cluster_id);
	/* Whoever has just formatted it had it locked: nobody serves it. */
	if (!join->has_formatted || options->wait_ns > 0)
		rc = join_ask(join,
		    json_pack("{s:s, s:s, s:s, s:I, s:s*, s:s*}", "op", "node.add", "address",
			join->address, "disk", join->disk.uuid, "weight",
			(json_int_t)options->weight, "domain", options->domain, "note",
			options->note),
		    true);
	if (rc == -ENOENT)
		return join_wait(join);
	/* Another run was faster; another change came first; the answer is lost: the cluster knows. */
	if ((rc == -EEXIST || rc == -EBUSY || rc == -ECONNRESET) &&
	    join->again_count++ < (rc == -EEXIST ? 1 : JOIN_AGAIN_MAX)) {
		if (rc != -EEXIST)
			join_pause(join);
		return 1;
	}
	if (rc != 0)
		return join_error("node %u is not added: %s", join->disk.format.node_id,
		    join->error);
	(void)printf("node %u at %s: added\n", join->disk.format.node_id, join->address);
	return 0;
}

/*
 * The disk says that it is @node's, which the cluster has elsewhere. Either it was moved, and comes up here; or it is a copy, of
 * which a cluster must never believe that it is the node. While that one answers nothing is to be done here.
 */
static int
join_say_elsewhere(struct join *join, const struct join_node *node)
{
	const char *disk = join->options.format.disk;
	uint32_t id = node->id;
	int is_up = join_ask(join, json_pack("{s:s}", "op", "node.list"), false);

	assert(strcmp(node->address, join->address) != 0);
	if (is_up == 0)
		is_up = join_plan_read_up(join->reply, id);
	else
		(void)join_error("does node %u answer? %s", id, join->error);
	if (is_up == 1)
		return join_error(
		    "node %u answers at %s: %s is a copy of its disk, or is served there. A copy is of no use to "
		    "the cluster: join an empty disk instead. To move the disk to %s: end its node, start it "
		    "there, then cleave node set %u --address %s",
		    id, node->address, disk, join->address, id, join->address);
	(void)printf("to have it at %s, if %s is its disk and no copy: start it, then cleave node "
		     "set %u --address %s\n",
	    join->address, disk, id, join->address);
	join_print_start(join);
	return 0;
}

static int
join_say_member(struct join *join, const struct join_node *node)
{
	const char *domain = join->options.domain;

	assert(node >= join->cluster.nodes && node < join->cluster.nodes + join->cluster.count);
	(void)printf("node %u at %s: a member already, %s\n", node->id, node->address,
	    node->member);
	/* Where copies may lie hangs on it: what was said is not done, and that is told. */
	if (node->has_domain && domain != NULL && strcmp(domain, node->domain) != 0)
		(void)printf("its domain stays '%s': cleave node set %u --domain %s changes it\n",
		    node->domain, node->id, domain);
	return strcmp(node->address, join->address) == 0 ? 0 : join_say_elsewhere(join, node);
}

static int
join_refuse(const struct join *join, enum join_step step, const struct join_node *node)
{
	const char *disk = join->options.format.disk;

	assert(step == JOIN_LEFT || step == JOIN_TAKEN);
	assert(node != NULL && join->disk.content == FORMAT_DISK);
	if (step == JOIN_LEFT)
		return join_error(
		    "%s: formatted as node %u of this cluster, which has left it (node %u is %s) and never "
		    "comes back; --force formats it with a new number, and its copies are lost",
		    disk, join->disk.format.node_id, node->id, node->member);
	return join_error(
	    "%s: formatted as node %u, disk %s, and the cluster's node %u at %s has disk %s; --force "
	    "formats it with a new number, and its copies are lost",
	    disk, join->disk.format.node_id, join->disk.uuid, node->id, node->address, node->disk);
}

/* The next step. Returns 1: there is another; 0: no more; -1: it was told. */
static int
join_step(struct join *join)
{
	const struct join_node *node;
	enum join_step step;

	int rc;

	assert(join->client != NULL && join->address != NULL);
	if (join_look(join) != 0)
		return -1;
	rc = join_find(join);
	if (rc != 0)
		return rc;
	step = join_plan(&join->disk, &join->cluster, &node);
	assert((node != NULL) == (step == JOIN_MEMBER || step == JOIN_LEFT || step == JOIN_TAKEN));
	if (step == JOIN_MEMBER)
		return join_say_member(join, node);
	if (step == JOIN_ADD)
		return join_add(join);
	if (step != JOIN_FORMAT && !join->options.format.is_forced)
		return join_refuse(join, step, node);
	return join_format(join) == 0 ? 1 : -1;
}

/* ---- begin and end ---- */

static int
join_open(struct join *join)
{
	const char *gateways[1] = { join->options.gateway };
	struct cleave_client_options options = { .gateways = gateways,
		.gateway_count = NUM_COUNT(gateways),
		.is_impatient = true,
		.forgets_gateways = true,
		.key = join->options.secure.key,
		.security = join->options.secure.security,
		.revoked = join->options.secure.revoked };
	int rc;

	assert(join->loop == NULL && join->address != NULL);
	join->loop = loop_ev_create(0);
	if (join->loop == NULL)
		return join_error("cannot make an event loop: %s", strerror(errno));
	join->begun_ns = loop_now_ns(join->loop);
	options.loop = join->loop;
	rc = cleave_client_create(&options, &join->client, join->error);
	return rc == 0 ? 0 : join_error("--gateway: %s", join->error);
}

static int
join_check_options(struct join *join)
{
	const struct join_options *options = &join->options;
	const char *wrong = tcp_address_check(options->listen, false);
	uint64_t id;

	assert(options->listen != NULL && options->gateway != NULL);
	if (wrong != NULL)
		return join_error("--listen: '%s': %s", options->listen, wrong);
	join->address = options->advertise != NULL ? options->advertise : options->listen;
	wrong = tcp_address_check(join->address, true);
	if (wrong != NULL && options->advertise != NULL)
		return join_error("--advertise: '%s': %s", join->address, wrong);
	if (wrong != NULL || tcp_address_is_any(join->address))
		return join_error(
		    "gateways find nobody at '%s': say where, with --advertise tcp://HOST:PORT",
		    join->address);
	if (options->domain != NULL && (wrong = domain_check(options->domain)) != NULL)
		return join_error("--domain: '%s': %s", options->domain, wrong);
	if (options->cluster_id != NULL && storage_parse_hex(options->cluster_id, &id) != 0)
		return join_error("--cluster-id: '%s': 1 to 16 hex digits are wanted, and not 0",
		    options->cluster_id);
	return 0;
}

int
join_main(int argc, char *const argv[])
{
	struct join join = { .rc = 0 };
	struct config_result result = { 0 };
	int rc = config_parse(&join_program, argc, argv, &join.options, &result);

	assert(argc > 0);
	if (rc != 0) {
		config_result_fini(&result);
		return rc == 1 ? 0 : STORAGE_EXIT_USAGE;
	}
	join.options.format.command = "join";
	if (join_check_options(&join) != 0) {
		config_result_fini(&result);
		return STORAGE_EXIT_USAGE;
	}
	rc = join_open(&join);
	if (rc == 0) {
		do
			rc = join_step(&join);
		while (rc > 0);
	}
	cleave_client_destroy(join.client);
	if (join.loop != NULL)
		loop_destroy(join.loop);
	free(join.reply);
	config_result_fini(&result);
	return rc == 0 ? 0 : STORAGE_EXIT_FAILURE;
}
