/* SPDX-License-Identifier: Apache-2.0 */
/* agent.c -- cleave-agent: volumes as NBD exports, for QEMU, the kernel, libnbd, fio */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/config.h"
#include "base/config_value.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/num.h"
#include "base/signals.h"
#include "library/gateways.h"
#include "nbd.h"
#include "nbd_control.h"
#include "nbd_handover.h"
#include "nbd_tls.h"

#define EXIT_USAGE 2
#define AGENT_LISTEN_FD_FIRST 3 /* systemd's */
#define AGENT_MESSAGES 512u
#define AGENT_STOP_NS NUM_S(10)
#define AGENT_MMAP_BYTES (128 << 10) /* what is allocated by itself, and goes back when freed */
#define AGENT_TRIM_BYTES (1 << 20)   /* free at the heap's end, and not given back */
/* A client that speaks TLS needs three; a volume, one for each port that has shards of it. */
#define AGENT_CONNECTIONS_MAX (3u * NBD_CONNECTIONS_MAX + 4096u)

struct agent_options {
	struct config_list gateways, listens, volumes;
	bool is_read_only, exports_all, is_stdio;
	const char *control;
	bool replaces;
	const char *tls_certificates, *tls_psk;
	bool tls_verifies_peer, tls_is_optional;
	bool reclaims;
	unsigned resize, attach, when_held;
	uint64_t io_timeout_ns, handshake_ns, stall_ns;
	unsigned log_level;
};

struct agent {
	const struct agent_options *options;
	struct loop *loop;
	struct cleave_client *client;
	struct nbd_tls *tls;
	struct nbd_server *server;
	struct nbd_control *control;
	struct signals signals;
	struct loop_timer stop_timer;
	bool is_stopping;
};

/* enum nbd_resize */
static const char *const resizes[] = { "no", "grow", "any", NULL };
enum agent_attach { ATTACH_CHANGE, ATTACH_CLIENT };
static const char *const attaches[] = { "change", "client", NULL };
enum agent_when_held { WHEN_HELD_REFUSE, WHEN_HELD_TAKE };
static const char *const when_helds[] = { "refuse", "take", NULL };
static const char *const log_levels[] = { "trace", "debug", "info", "warn", "error", "off", NULL };

#define O(member) offsetof(struct agent_options, member)
static const struct config_option option_table[] = {
	{ "gateway", 'g', CONFIG_LIST, O(gateways), "ADDR[,ADDR...]",
	    "A gateway, HOST:PORT or verbs://HOST:PORT; others to turn to behind a comma, or again "
	    "[$CLEAVE_GATEWAY or " CLEAVE_DEFAULT_GATEWAY "].",
	    NULL, false, 0, 0, NULL },
	{ "listen", 'l', CONFIG_LIST, O(listens), "unix:PATH|tcp://HOST:PORT",
	    "Where NBD clients connect. Sockets in $LISTEN_FDS are used, too.", NULL, false, 0, 0,
	    NULL },
	{ "volume", 'v', CONFIG_LIST, O(volumes), "NAME",
	    "Export this volume; the first one is the default export.", NULL, false, 0, 0, NULL },
	{ "all", 0, CONFIG_FLAG, O(exports_all), NULL, "Export every volume that a client names.",
	    NULL, false, 0, 0, NULL },
	{ "read-only", 'r', CONFIG_FLAG, O(is_read_only), NULL, "Refuse changes.", NULL, false, 0,
	    0, NULL },
	{ "stdio", 's', CONFIG_FLAG, O(is_stdio), NULL,
	    "Serve one client on standard input and output, then exit.", NULL, false, 0, 0, NULL },
	{ "tls-certificates", 0, CONFIG_STRING, O(tls_certificates), "FOLDER",
	    "Require TLS, with ca-cert.pem, server-cert.pem and server-key.pem in FOLDER.", NULL,
	    false, 0, 0, NULL },
	{ "tls-verify-peer", 0, CONFIG_FLAG, O(tls_verifies_peer), NULL,
	    "Clients must show a certificate that the CA has signed.", NULL, false, 0, 0, NULL },
	{ "tls-psk", 0, CONFIG_STRING, O(tls_psk), "FILE",
	    "Require TLS, with keys of lines USER:HEX in FILE (psktool makes them).", NULL, false,
	    0, 0, NULL },
	{ "tls-optional", 0, CONFIG_FLAG, O(tls_is_optional), NULL,
	    "With --tls-...: take plain clients, too.", NULL, false, 0, 0, NULL },
	{ "resize", 0, CONFIG_CHOICE, O(resize), "no|grow|any",
	    "What clients may do by NBD_CMD_RESIZE; with any, also make volumes smaller.", "grow",
	    false, 0, 0, resizes },
	{ "attach", 0, CONFIG_CHOICE, O(attach), "change|client",
	    "Open a volume for writing with a client's first change, or with the first client.",
	    "change", false, 0, 0, attaches },
	{ "when-held", 0, CONFIG_CHOICE, O(when_held), "refuse|take",
	    "A volume that another client writes: changes are refused, or it is taken from that "
	    "one (live migration).",
	    "refuse", false, 0, 0, when_helds },
	{ "reclaim", 0, CONFIG_FLAG, O(reclaims), NULL,
	    "Get a volume that was taken back when the taker leaves; until then its clients get "
	    "errors.",
	    NULL, false, 0, 0, NULL },
	{ "control", 'c', CONFIG_STRING, O(control), "PATH",
	    "Unix socket on which `cleave attach`, `cleave detach` and a successor ask.", NULL,
	    false, 0, 0, NULL },
	{ "replace", 0, CONFIG_FLAG, O(replaces), NULL,
	    "Take sockets and clients from the agent that listens at --control.", NULL, false, 0, 0,
	    NULL },
	{ "io-timeout", 't', CONFIG_DURATION, O(io_timeout_ns), "DURATION",
	    "How long nothing of a request may be done before its client gets an error; 0: for ever.",
	    "0s", false, 0, NUM_S(86400), NULL },
	{ "handshake-timeout", 0, CONFIG_DURATION, O(handshake_ns), "DURATION",
	    "A client that has not agreed upon an export by then is cut off.", "10s", false,
	    NUM_MS(100), NUM_S(3600), NULL },
	{ "stall-timeout", 0, CONFIG_DURATION, O(stall_ns), "DURATION",
	    "A client that moves less than 1 MiB of its replies and payload in that time is cut off "
	    "while others wait for memory.",
	    "10s", false, NUM_MS(100), NUM_S(3600), NULL },
	{ "log-level", 0, CONFIG_CHOICE, O(log_level), "LEVEL", "Least level to log.", "info",
	    false, 0, 0, log_levels },
	{ 0 },
};
#undef O

static const struct config_program program = {
	.name = "cleave-agent",
	.synopsis = "--volume NAME --listen unix:PATH [options]",
	.purpose = "Exports Cleave volumes over NBD, for QEMU, the Linux kernel, libnbd and fio.",
	.options = option_table,
};

/* ---- options ---- */

static int
check_options(struct agent_options *o)
{
	if (gateways_default("cleave-agent", &o->gateways) != 0)
		return -EINVAL;
	if (o->replaces && o->control == NULL) {
		log_error("agent: --replace: needs --control, where the other agent is");
		return -EINVAL;
	}
	if (o->volumes.count == 0 && !o->exports_all && o->control == NULL) {
		log_error("agent: nothing to export: --volume NAME, --all, or --control PATH");
		return -EINVAL;
	}
	if (o->tls_certificates != NULL && o->tls_psk != NULL) {
		log_error("agent: --tls-certificates and --tls-psk exclude each other");
		return -EINVAL;
	}
	if ((o->tls_verifies_peer && o->tls_certificates == NULL) ||
	    (o->tls_is_optional && o->tls_certificates == NULL && o->tls_psk == NULL)) {
		log_error("agent: --%s: needs --tls-certificates%s",
		    o->tls_verifies_peer ? "tls-verify-peer" : "tls-optional",
		    o->tls_verifies_peer ? "" : " or --tls-psk");
		return -EINVAL;
	}
	if (o->is_stdio && o->listens.count > 0) {
		log_error("agent: --stdio and --listen exclude each other");
		return -EINVAL;
	}
	return 0;
}

/* How many sockets systemd has opened for this process. */
static int
listen_fd_count(void)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	uint64_t value;

	if (count == NULL || config_parse_u64(count, &value) != 0 || value > NBD_LISTENERS_MAX)
		return 0;
	if (pid != NULL && strtol(pid, NULL, 10) != (long)getpid())
		return 0;
	return (int)value;
}

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
	log_warn("agent: stopping with requests in flight: their clients get no answer");
	loop_stop(agent->loop);
}

static void
agent_on_signal(int number, void *arg)
{
	struct agent *agent = arg;

	assert(agent->server != NULL);
	log_info("agent: stopping signal=%d", number);
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
		if (nbd_export_add(agent->server, volumes->items[i],
			agent->options->is_read_only) == NULL) {
			log_error("agent: --volume %s: %s", volumes->items[i], strerror(errno));
			return -errno;
		}
	}
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
	char bound[160], error[256];
	int count = listen_fd_count();

	assert(!agent->options->is_stdio);
	for (int i = 0; i < count; i++) {
		int rc = nbd_server_adopt(agent->server, AGENT_LISTEN_FD_FIRST + i, "");

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
		log_error("agent: TLS: %s", error);
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
	cleave_client_destroy(agent->client);
	agent->client = NULL;
	if (agent->server->relay_count > 0)
		log_info("agent: relaying TLS clients to the successor count=%u",
		    agent->server->relay_count);
	nbd_server_give_up(agent->server);
}

static int
agent_start_control(struct agent *agent)
{
	const struct agent_options *o = agent->options;
	char error[256];

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
	return 0;
}

/* A guest sees a disk that hangs: who looks for the reason finds it here. */
static void
agent_on_stall(const struct cleave_stall *stall, void *arg)
{
	(void)arg;
	assert(stall->volume != NULL && (stall->is_over || stall->reason != NULL));
	if (stall->is_over)
		log_warn("agent: volume '%s' is answered again after_ms=%llu", stall->volume,
		    (unsigned long long)(stall->waited_ns / NUM_MS(1)));
	else
		log_warn("agent: volume '%s' gets no answers requests=%u waited_ms=%llu: %s",
		    stall->volume, stall->request_count,
		    (unsigned long long)(stall->waited_ns / NUM_MS(1)), stall->reason);
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
		.on_stall = agent_on_stall };
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
	server.requires_tls = agent->tls != NULL && !o->tls_is_optional;
	server.client = agent->client;
	agent->server = nbd_server_create(&server);
	if (agent->server == NULL) {
		log_error("agent: out of memory");
		return EXIT_FAILURE;
	}
	rc = agent_add_exports(agent);
	if (rc == 0)
		rc = agent_start_control(agent);
	if (rc == 0)
		rc = o->is_stdio ? agent_serve_stdio(agent) : agent_listen(agent);
	if (rc != 0)
		return EXIT_FAILURE;
	(void)notify_ready("agent"); /* it has said why not */
	(void)loop_run(agent->loop, NULL, NULL);
	return EXIT_SUCCESS;
}

static void
agent_fini(struct agent *agent)
{
	if (agent->loop == NULL)
		return;
	nbd_control_destroy(agent->control);
	/* Requests that are in flight even now end with the client, unheard. */
	cleave_client_destroy(agent->client);
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
	struct agent agent = { .options = &options };
	int rc = config_parse(&program, argc, argv, &options, &result);

	if (rc != 0)
		return rc > 0 ? EXIT_SUCCESS : EXIT_USAGE;
	log_set_level((enum log_level)options.log_level);
	/* Fixed, or what a large buffer was once allocated by is kept for ever after. */
	(void)mallopt(M_MMAP_THRESHOLD, AGENT_MMAP_BYTES); /* as it was before, else */
	(void)mallopt(M_TRIM_THRESHOLD, AGENT_TRIM_BYTES);
	if (check_options(&options) != 0) {
		rc = EXIT_USAGE;
	} else {
		if (!options.is_stdio)
			descriptors_prepare("agent", AGENT_CONNECTIONS_MAX);
		rc = agent_run(&agent);
		agent_fini(&agent);
	}
	config_result_fini(&result);
	return rc;
}
