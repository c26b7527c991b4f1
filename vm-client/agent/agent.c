/* SPDX-License-Identifier: Apache-2.0 */
/* agent.c -- cleave-agent: volumes as NBD exports, for QEMU, the kernel, libnbd, fio */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/config.h"
#include "base/daemon.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/num.h"
#include "base/output.h"
#include "base/signals.h"
#include "base/watchdog.h"
#include "nbd.h"
#include "nbd_control.h"
#include "nbd_handover.h"
#include "nbd_options.h"
#include "nbd_persistent.h"
#include "nbd_tls.h"

#define EXIT_USAGE 2
#define AGENT_LISTEN_FD_FIRST 3 /* systemd's */
#define AGENT_MESSAGES 512u
#define AGENT_STOP_NS NUM_S(10)
#define AGENT_MMAP_BYTES (128 << 10) /* what is allocated by itself, and goes back when freed */
#define AGENT_TRIM_BYTES (1 << 20)   /* free at the heap's end, and not given back */
/* A client that speaks TLS needs three; a volume, one for each port that has shards of it. */
#define AGENT_CONNECTIONS_MAX (3u * NBD_CONNECTIONS_MAX + 4096u)

struct agent {
	const struct agent_options *options;
	struct loop *loop;
	struct cleave_client *client;
	struct nbd_tls *tls;
	struct nbd_server *server;
	struct nbd_control *control;
	struct nbd_metrics *metrics;
	struct nbd_persistent *persistent;
	struct signals signals;
	struct watchdog watchdog;
	struct daemon daemon;
	const char *why; /* it stops, for its last line */
	char why_text[SIGNALS_TEXT_BYTES];
	struct loop_timer stop_timer;
	bool is_stopping;
};

/* ---- stopping ---- */

static void
agent_on_empty(void *arg)
{
	struct agent *agent = arg;

	assert(agent->loop != NULL && agent->server != NULL);
	loop_stop(agent->loop);
}

static void
agent_on_stop_timer(struct loop_timer *timer, void *arg)
{
	struct agent *agent = arg;

	(void)timer;
	assert(timer == &agent->stop_timer && agent->is_stopping);
	log_warn(
	    "agent: stopping with requests in flight, whose clients get no answer, or with a volume open, "
	    "which stays held until its session times out");
	loop_stop(agent->loop);
}

static void
agent_rekey(struct agent *agent)
{
	char error[CLEAVE_ERROR_BYTES_MAX] = "";
	int rc = cleave_client_rekey(agent->client, error);

	if (rc > 0)
		log_info("audit: agent: its key was read again");
	else if (rc < 0)
		log_error("agent: its key was not read again, the one before stays: %s", error);
}

static void
agent_on_signal(int number, void *arg)
{
	struct agent *agent = arg;

	/* Standard input alone is served no longer than the terminal lives that it came from. */
	if (number == SIGHUP && !agent->options->is_stdio) {
		(void)daemon_reload(&agent->daemon, agent->signals.text, NULL, NULL);
		agent_rekey(agent);
		if (agent->persistent != NULL)
			nbd_persistent_load(agent->persistent);
		return;
	}
	assert(agent->server != NULL);
	daemon_tell_stopping(&agent->daemon, agent->signals.text);
	memcpy(agent->why_text, agent->signals.text, sizeof(agent->why_text));
	agent->why = agent->why_text;
	if (agent->is_stopping) {
		loop_stop(agent->loop);
		return;
	}
	agent->is_stopping = true;
	loop_timer_start(agent->loop, &agent->stop_timer, AGENT_STOP_NS);
	nbd_server_stop(agent->server);
}

/* ---- starting ---- */

static int
agent_add_exports(struct agent *agent)
{
	const struct config_list *volumes = &agent->options->volumes;

	assert(agent->server != NULL);
	for (uint32_t i = 0; i < volumes->count; i++) {
		struct nbd_export *export =
		    nbd_export_add(agent->server, volumes->items[i], agent->options->is_read_only);

		if (export == NULL) {
			log_error("agent: --volume %s: %s", volumes->items[i], strerror(errno));
			return -errno;
		}
		export->wanted_id = agent->options->volume_id;
	}
	if (agent->options->exports == NULL)
		return 0;
	agent->persistent = nbd_persistent_create(agent->server, agent->options->exports);
	if (agent->persistent == NULL) {
		log_error("agent: out of memory");
		return -ENOMEM;
	}
	nbd_persistent_load(agent->persistent);
	return 0;
}

static int
agent_serve_stdio(struct agent *agent)
{
	int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);

	assert(agent->options->is_stdio && agent->server->listener_count == 0);
	if (in < 0 || out < 0 || fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK) < 0 ||
	    fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK) < 0) {
		log_error("agent: standard input or output: %s", strerror(errno));
		return -errno;
	}
	agent->server->is_single = true;
	return nbd_connection_create(agent->server, in, out, "stdio", true) == NULL ? -ENOMEM : 0;
}

static int
agent_listen(struct agent *agent)
{
	const struct config_list *listens = &agent->options->listens;
	char bound[160], error[512];
	int count = nbd_options_listen_fds();

	assert(!agent->options->is_stdio);
	for (int i = 0; i < count; i++) {
		int rc;

		if (nbd_server_is_exposed(agent->server, AGENT_LISTEN_FD_FIRST + i)) {
			log_error("agent: LISTEN_FDS: descriptor %d: " NBD_OPEN_TEXT,
			    AGENT_LISTEN_FD_FIRST + i);
			return -EPERM;
		}
		rc = nbd_server_adopt(agent->server, AGENT_LISTEN_FD_FIRST + i, "");
		if (rc != 0) {
			log_error("agent: LISTEN_FDS: descriptor %d: %s", AGENT_LISTEN_FD_FIRST + i,
			    strerror(-rc));
			return rc;
		}
		log_info("agent: ready listen=fd:%d", AGENT_LISTEN_FD_FIRST + i);
	}
	/* A predecessor's sockets are ours already. */
	for (uint32_t i = 0; i < listens->count && !agent->options->replaces; i++) {
		if (nbd_server_listen(agent->server, listens->items[i], bound, sizeof(bound), error,
			sizeof(error)) != 0) {
			log_error("agent: --listen %s", error);
			return -EINVAL;
		}
		log_info("agent: ready listen=%s", bound);
	}
	if (agent->server->listener_count == 0) {
		log_error(
		    "agent: nowhere to listen: --listen unix:PATH, tcp://HOST:PORT, or --stdio");
		return -EINVAL;
	}
	return 0;
}

static int
agent_load_tls(struct agent *agent)
{
	const struct agent_options *o = agent->options;
	const struct nbd_tls_options options = { .certificates = o->tls_certificates,
		.psk_file = o->tls_psk,
		.verifies_peer = o->tls_verifies_peer };
	char error[512];

	assert(o->tls_certificates == NULL || o->tls_psk == NULL);
	if (o->tls_certificates == NULL && o->tls_psk == NULL)
		return 0;
	agent->tls = nbd_tls_create(&options, error, sizeof(error));
	if (agent->tls == NULL) {
		log_error("agent: --%s: %s", o->tls_psk != NULL ? "tls-psk" : "tls-certificates",
		    error);
		return -EINVAL;
	}
	return 0;
}

static void
agent_on_given(void *arg)
{
	struct agent *agent = arg;

	assert(agent->control != NULL && agent->client != NULL);
	/* The volumes are the successor's; clients under TLS are relayed to it until they go. */
	nbd_control_destroy(agent->control);
	agent->control = NULL;
	nbd_metrics_stop(agent->metrics);
	agent->metrics = NULL;
	cleave_client_destroy(agent->client);
	agent->client = NULL;
	agent->why = "its successor has its sockets and clients";
	if (agent->server->relay_count > 0)
		log_info("agent: relaying TLS clients to the successor count=%u",
		    agent->server->relay_count);
	nbd_server_give_up(agent->server);
}

static int
agent_start_control(struct agent *agent)
{
	const struct agent_options *o = agent->options;
	char error[512];

	assert(agent->server != NULL && agent->control == NULL);
	if (o->control == NULL)
		return 0;
	if (o->replaces &&
	    nbd_handover_take(agent->server, o->control, error, sizeof(error)) != 0) {
		log_error("agent: --replace: %s", error);
		return -EINVAL;
	}
	if (o->replaces)
		log_info("agent: ready replaces=%s connections=%u", o->control,
		    agent->server->connection_count);
	/* The predecessor's path is ours now, and it does not remove it. */
	if (o->replaces && unlink(o->control) != 0)
		log_warn("agent: --control %s: %s", o->control, strerror(errno));
	agent->control = nbd_control_create(agent->server, o->control, agent_on_given, agent, error,
	    sizeof(error));
	if (agent->control == NULL) {
		log_error("agent: --control %s", error);
		return -EINVAL;
	}
	nbd_control_persist(agent->control, agent->persistent);
	return 0;
}

/* A guest sees a disk that hangs: who looks for the reason finds it here. */
static void
agent_on_stall(const struct cleave_stall *stall, void *arg)
{
	struct agent *agent = arg;

	assert(stall->volume != NULL && (stall->is_over || stall->reason != NULL));
	nbd_metrics_on_stall(agent->server, stall);
	if (stall->is_over && stall->reason[0] != '\0')
		log_warn("agent: volume '%s': %s after_ms=%llu", stall->volume, stall->reason,
		    (unsigned long long)(stall->waited_ns / NUM_MS(1)));
	else if (stall->is_over)
		log_info("agent: volume '%s' is answered again after_ms=%llu", stall->volume,
		    (unsigned long long)(stall->waited_ns / NUM_MS(1)));
	else
		log_warn("agent: volume '%s' gets no answers requests=%u waited_ms=%llu: %s",
		    stall->volume, stall->request_count,
		    (unsigned long long)(stall->waited_ns / NUM_MS(1)), stall->reason);
}

static int
agent_start_metrics(struct agent *agent)
{
	const struct agent_options *o = agent->options;
	const struct nbd_metrics_options options = { .address = o->metrics,
		.words = o->metrics_words,
		.may_wait = o->replaces };
	char error[512];

	assert(agent->server != NULL && agent->metrics == NULL);
	if (o->metrics == NULL)
		return 0;
	agent->metrics = nbd_metrics_start(agent->server, &options, error, sizeof(error));
	if (agent->metrics != NULL)
		return 0;
	log_error("agent: --metrics: %s", error);
	return -EINVAL;
}

/* All that others reach it by. It has said why not. */
static int
agent_begin(struct agent *agent)
{
	int rc = agent_add_exports(agent);

	assert(agent->server != NULL);
	if (rc == 0)
		rc = agent_start_control(agent);
	if (rc == 0)
		rc = agent_start_metrics(agent);
	if (rc == 0)
		rc = agent->options->is_stdio ? agent_serve_stdio(agent) : agent_listen(agent);
	return rc;
}

static int
agent_run(struct agent *agent)
{
	const struct agent_options *o = agent->options;
	struct nbd_server_options server = { .is_read_only = o->is_read_only,
		.allows_any = o->exports_all,
		.resize = (enum nbd_resize)o->resize,
		.attaches_at_once = o->attach == ATTACH_CLIENT,
		.takes = o->when_held == WHEN_HELD_TAKE,
		.reclaims = o->reclaims,
		.handshake_ns = o->handshake_ns,
		.stall_ns = o->stall_ns,
		.on_empty = agent_on_empty,
		.arg = agent };
	struct cleave_client_options client = { .gateways = o->gateways.items,
		.gateway_count = o->gateways.count,
		.message_count_max = AGENT_MESSAGES,
		.connection_depth_max = AGENT_MESSAGES,
		.io_timeout_ns = o->io_timeout_ns == 0 ? CLEAVE_FOREVER : o->io_timeout_ns,
		.on_stall = agent_on_stall,
		.stall_arg = agent,
		.key = o->secure.key,
		.security = o->secure.security,
		.revoked = o->secure.revoked,
		.local = o->local };
	char error[CLEAVE_ERROR_BYTES_MAX] = "";
	int rc;

	assert(agent->loop == NULL && o->gateways.count > 0);
	agent->loop = loop_ev_create(0);
	rc = agent->loop == NULL
	    ? -errno
	    : signals_init(&agent->signals, agent->loop, agent_on_signal, agent);
	if (rc != 0) {
		log_error("agent: no event loop: %s", strerror(-rc));
		return EXIT_FAILURE;
	}
	loop_timer_init(&agent->stop_timer, agent_on_stop_timer, agent);
	client.loop = server.loop = agent->loop;
	rc = cleave_client_create(&client, &agent->client, error);
	if (rc != 0) {
		log_error("agent: client: %s", error[0] != '\0' ? error : strerror(-rc));
		return EXIT_FAILURE;
	}
	if (agent_load_tls(agent) != 0)
		return EXIT_FAILURE;
	server.tls = agent->tls;
	server.is_open = o->is_listen_open;
	server.requires_tls = agent->tls != NULL && !o->tls_is_optional;
	server.knows_clients = nbd_options_know_clients(o);
	server.client = agent->client;
	agent->server = nbd_server_create(&server);
	if (agent->server == NULL) {
		log_error("agent: out of memory");
		return EXIT_FAILURE;
	}
	if (agent_begin(agent) != 0)
		return EXIT_FAILURE;
	watchdog_start(&agent->watchdog, agent->loop, "agent");
	(void)notify_ready("agent"); /* it has said why not */
	(void)loop_run(agent->loop, NULL, NULL);
	return EXIT_SUCCESS;
}

static void
agent_fini(struct agent *agent)
{
	if (agent->loop == NULL)
		return;
	watchdog_stop(&agent->watchdog);
	nbd_control_destroy(agent->control);
	nbd_metrics_stop(agent->metrics);
	/* Requests that are in flight even now end with the client, unheard. */
	cleave_client_destroy(agent->client);
	nbd_persistent_destroy(agent->persistent);
	nbd_server_destroy(agent->server);
	nbd_tls_destroy(agent->tls);
	if (agent->server != NULL)
		loop_timer_stop(agent->loop, &agent->stop_timer);
	signals_fini(&agent->signals);
	loop_destroy(agent->loop);
}

int
main(int argc, char *argv[])
{
	struct agent_options options = { 0 };
	struct config_result result = { 0 };
	struct agent agent = { .options = &options,
		.why = "its client has left",
		.daemon = { .noun = "agent",
		    .program = &agent_program,
		    .argc = argc,
		    .argv = argv,
		    .values = &options,
		    .values_bytes = sizeof(options),
		    .options_offset = offsetof(struct agent_options, log) } };
	int rc;

	descriptors_hold_standard();
	rc = config_parse(&agent_program, argc, argv, &options, &result);
	if (rc != 0)
		return rc > 0 ? output_finish("cleave-agent", EXIT_SUCCESS, EXIT_FAILURE)
			      : EXIT_USAGE;
	daemon_begin(&agent.daemon);
	/* Fixed, or what a large buffer was once allocated by is kept for ever after. */
	(void)mallopt(M_MMAP_THRESHOLD, AGENT_MMAP_BYTES); /* as it was before, else */
	(void)mallopt(M_TRIM_THRESHOLD, AGENT_TRIM_BYTES);
	if (nbd_options_check(&options, &result) > 0) {
		rc = result.is_check ? EXIT_FAILURE : EXIT_USAGE;
	} else if (!result.is_check) {
		daemon_tell_start(&agent.daemon, &result);
		if (!options.is_stdio)
			descriptors_prepare("agent", AGENT_CONNECTIONS_MAX);
		rc = agent_run(&agent);
		agent_fini(&agent);
		if (rc == EXIT_SUCCESS)
			daemon_tell_stop(&agent.daemon, agent.why);
	}
	config_result_fini(&result);
	return rc;
}
