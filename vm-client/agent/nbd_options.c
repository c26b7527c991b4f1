/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_options.c -- see nbd_options.h */
#include "nbd_options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/config_check.h"
#include "base/config_value.h"
#include "base/num.h"
#include "base/tcp_address.h"
#include "library/exports_file.h"
#include "library/gateways.h"
#include "library/local.h"
#include "nbd.h"
#include "nbd_tls.h"

#define AGENT_UNIX "unix:" /* a listener's path follows */
#define AGENT_UNIX_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)

#define AGENT_WHY_BYTES 512u

/* enum nbd_resize */
static const char *const resizes[] = { "no", "grow", "any", NULL };
static const char *const attaches[] = { "change", "client", NULL };
static const char *const when_helds[] = { "refuse", "take", NULL };

#define O(member) offsetof(struct agent_options, member)
static const struct config_option option_table[] = {
	{ "gateway", 'g', CONFIG_LIST, O(gateways), "ADDR[,ADDR...]",
	    "A gateway, HOST:PORT or verbs://HOST:PORT; others to turn to behind a comma, or again "
	    "[$CLEAVE_GATEWAY or " CLEAVE_DEFAULT_GATEWAY "].",
	    NULL, false, 0, 0, NULL },
	SECURE_CLIENT_ROWS(struct agent_options, secure),
	{ "listen", 'l', CONFIG_LIST, O(listens), "unix:PATH|tcp://HOST:PORT",
	    "Where NBD clients connect. Sockets in $LISTEN_FDS are used, too.", NULL, false, 0, 0,
	    NULL },
	{ "local", 0, CONFIG_STRING, O(local), "FOLDER",
	    "Gateways of this host are spoken to over their sockets in FOLDER (--local of cleave-gateway) "
	    "[$CLEAVE_LOCAL, or TCP alone].",
	    NULL, false, 0, 0, NULL },
	{ "volume", 'v', CONFIG_LIST, O(volumes), "NAME",
	    "Export this volume; the first one is the default export.", NULL, false, 0, 0, NULL },
	{ "volume-id", 0, CONFIG_U64, O(volume_id), "ID",
	    "The id that the one --volume has: another volume that has its name is not opened.",
	    NULL, false, 1, INT64_MAX, NULL },
	{ "all", 0, CONFIG_FLAG, O(exports_all), NULL, "Export every volume that a client names.",
	    NULL, false, 0, 0, NULL },
	{ "read-only", 'r', CONFIG_FLAG, O(is_read_only), NULL, "Refuse changes.", NULL, false, 0,
	    0, NULL },
	{ "stdio", 's', CONFIG_FLAG, O(is_stdio), NULL,
	    "Serve one client on standard input and output, then exit.", NULL, false, 0, 0, NULL },
	{ "tls-certificates", 0, CONFIG_STRING, O(tls_certificates), "FOLDER",
	    "Require TLS, with ca-cert.pem, server-cert.pem and server-key.pem in FOLDER. Clients need a certificate with "
	    "--tls-verify-peer alone.",
	    NULL, false, 0, 0, NULL },
	{ "tls-verify-peer", 0, CONFIG_FLAG, O(tls_verifies_peer), NULL,
	    "Clients must show a certificate that the CA has signed.", NULL, false, 0, 0, NULL },
	{ "tls-psk", 0, CONFIG_STRING, O(tls_psk), "FILE",
	    "Require TLS, with keys of lines USER:HEX in FILE (psktool makes them).", NULL, false,
	    0, 0, NULL },
	{ "tls-optional", 0, CONFIG_FLAG, O(tls_is_optional), NULL,
	    "With --tls-...: take plain clients, too.", NULL, false, 0, 0, NULL },
	{ "listen-open", 0, CONFIG_FLAG, O(is_listen_open), NULL,
	    "--listen may be an address that other hosts reach, though clients need not show who they are (by --tls-psk, "
	    "or --tls-verify-peer): whoever does reads and writes the volumes.",
	    NULL, false, 0, 0, NULL },
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
	{ "exports", 0, CONFIG_STRING, O(exports), "FILE",
	    "Export what FILE lists as well, a volume a line; `cleave attach --persistent` and `cleave "
	    "detach` change it. SIGHUP has it read again.",
	    NULL, false, 0, 0, NULL },
	{ "replace", 0, CONFIG_FLAG, O(replaces), NULL,
	    "Take sockets and clients from the agent that listens at --control.", NULL, false, 0, 0,
	    NULL },
	{ "metrics", 0, CONFIG_STRING, O(metrics), "HOST:PORT",
	    "Where monitors get metrics, over HTTP at /metrics (OpenMetrics), and whether all exports are "
	    "served, at /healthz.",
	    NULL, false, 0, 0, NULL },
	SECURE_METRICS_ROWS(struct agent_options, metrics_words),
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
	DAEMON_OPTION_ROWS(struct agent_options, log),
	{ 0 },
};
#undef O

const struct config_program agent_program = {
	.name = "cleave-agent",
	.synopsis = "--volume NAME --listen unix:PATH [options]",
	.purpose = "Exports Cleave volumes over NBD, for QEMU, the Linux kernel, libnbd and fio.",
	.options = option_table,
	.has_check = true,
};

int
nbd_options_listen_fds(void)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	uint64_t value;

	if (count == NULL || config_parse_u64(count, &value) != 0 || value > NBD_LISTENERS_MAX)
		return 0;
	if (pid != NULL && strtol(pid, NULL, 10) != (long)getpid())
		return 0;
	return (int)value;
}

bool
nbd_options_know_clients(const struct agent_options *o)
{
	bool asks = o->tls_psk != NULL || (o->tls_certificates != NULL && o->tls_verifies_peer);

	return asks && !o->tls_is_optional;
}

/* For every start; what a name stands for is judged when it is listened at. */
static void
check_open(const struct agent_options *o, struct config_result *result)
{
	bool may_be_open = o->is_listen_open || nbd_options_know_clients(o);

	for (uint32_t i = 0; i < o->listens.count && !may_be_open; i++) {
		const char *text = o->listens.items[i];
		struct sockaddr_storage at;
		socklen_t bytes;

		if (strncmp(text, "tcp://", 6) == 0 &&
		    tcp_address_parse(text + 6, &at, &bytes) == 0 && !tcp_address_is_loopback(&at))
			config_problem(&agent_program, result, "--listen: %s: " NBD_OPEN_TEXT,
			    text);
	}
}

static void
check_twice(const struct config_list *list, const char *option, struct config_result *result)
{
	for (uint32_t i = 0; i < list->count; i++) {
		for (uint32_t k = 0; k < i; k++) {
			if (strcmp(list->items[i], list->items[k]) != 0)
				continue;
			config_problem(&agent_program, result, "--%s: %.100s is given twice",
			    option, list->items[i]);
			break;
		}
	}
}

/* An export of such a name would be there, and nobody could have it: quotes in a configuration are of the name. */
static void
check_volumes(const struct agent_options *o, struct config_result *result)
{
	char error[EXPORTS_FILE_ERROR_BYTES];
	struct exports_line line;

	for (uint32_t i = 0; i < o->volumes.count; i++) {
		const char *name = o->volumes.items[i];

		if (exports_line_parse(name, strlen(name), &line, error) != 1 ||
		    strcmp(line.name, name) != 0)
			config_problem(&agent_program, result,
			    "--volume: '%.100s' is no name of a volume or VOLUME@SNAPSHOT", name);
	}
	check_twice(&o->volumes, "volume", result);
}

/* Each socket is somebody's alone. */
static void
check_sockets(const struct agent_options *o, struct config_result *result)
{
	check_twice(&o->listens, "listen", result);
	for (uint32_t i = 0; i < o->listens.count && o->control != NULL; i++) {
		if (strncmp(o->listens.items[i], AGENT_UNIX, strlen(AGENT_UNIX)) == 0 &&
		    strcmp(o->listens.items[i] + strlen(AGENT_UNIX), o->control) == 0)
			config_problem(&agent_program, result,
			    "--control: %s: --listen has it for NBD clients: give it another path",
			    o->control);
	}
}

/* As the library takes it, with its variable. */
static void
check_local(const struct agent_options *o, struct config_result *result)
{
	const struct cleave_client_options client = { .local = o->local };
	char folder[SPLIT_ADDRESS_BYTES_MAX];
	const char *wrong = local_take(&client, folder);

	if (wrong != NULL)
		config_problem(&agent_program, result, "%s: %s: %s",
		    o->local != NULL ? "--local" : "$CLEAVE_LOCAL", folder, wrong);
}

/* Options that exclude each other, or want another one. */
static void
check_together(const struct agent_options *o, struct config_result *result)
{
	const struct config_program *program = &agent_program;

	if (o->replaces && o->control == NULL)
		config_problem(program, result,
		    "--replace: needs --control, where the other agent is");
	if (o->volumes.count == 0 && !o->exports_all && o->control == NULL && o->exports == NULL)
		config_problem(program, result,
		    "nothing to export: --volume NAME, --all, --exports FILE, or --control PATH");
	if (o->volume_id != 0 && o->volumes.count != 1)
		config_problem(program, result, "--volume-id: needs one --volume, which has it");
	if (o->tls_certificates != NULL && o->tls_psk != NULL)
		config_problem(program, result,
		    "--tls-certificates and --tls-psk exclude each other");
	if (o->tls_verifies_peer && o->tls_certificates == NULL)
		config_problem(program, result, "--tls-verify-peer: needs --tls-certificates");
	if (o->tls_is_optional && o->tls_certificates == NULL && o->tls_psk == NULL)
		config_problem(program, result,
		    "--tls-optional: needs --tls-certificates or --tls-psk");
	if (o->is_stdio && o->listens.count > 0)
		config_problem(program, result, "--stdio and --listen exclude each other");
	check_volumes(o, result);
	check_sockets(o, result);
	check_local(o, result);
	check_open(o, result);
}

static void
check_unix(struct config_result *result, const char *option, const char *path)
{
	struct stat status;

	if (path[0] == '\0' || strlen(path) >= AGENT_UNIX_BYTES)
		config_problem(&agent_program, result,
		    "--%s: '%s': a path of 1 to %zu bytes is wanted", option, path,
		    AGENT_UNIX_BYTES - 1);
	else if (lstat(path, &status) == 0 && !S_ISSOCK(status.st_mode))
		config_problem(&agent_program, result, "--%s: %s: %s", option, path,
		    strerror(EEXIST));
	else
		config_check_place(&agent_program, result, option, path);
}

/* As nbd_server_listen takes it. */
static void
check_listen(struct config_result *result, const char *text)
{
	const char *wrong;

	if (strncmp(text, AGENT_UNIX, strlen(AGENT_UNIX)) == 0) {
		check_unix(result, "listen", text + strlen(AGENT_UNIX));
		return;
	}
	wrong = strncmp(text, "tcp://", 6) == 0 ? tcp_address_check(text, false)
						: "unix:PATH or tcp://HOST:PORT is wanted";
	if (wrong != NULL)
		config_problem(&agent_program, result, "--listen: '%s': %s", text, wrong);
}

static void
check_tls(const struct agent_options *o, struct config_result *result)
{
	const struct nbd_tls_options options = { .certificates = o->tls_certificates,
		.psk_file = o->tls_psk,
		.verifies_peer = o->tls_verifies_peer };
	char why[AGENT_WHY_BYTES];
	struct nbd_tls *tls;

	if ((o->tls_certificates != NULL) == (o->tls_psk != NULL))
		return; /* there is none; or both, which is said */
	tls = nbd_tls_create(&options, why, sizeof(why));
	if (tls == NULL)
		config_problem(&agent_program, result, "--%s: %s",
		    o->tls_psk != NULL ? "tls-psk" : "tls-certificates", why);
	nbd_tls_destroy(tls);
}

static void
check_exports_line(const struct exports_line *line, uint32_t number, const char *error, void *arg)
{
	(void)number;
	if (line == NULL)
		config_problem(&agent_program, arg, "--exports: %s", error);
}

/* None is there: the first `cleave attach --persistent` makes it. */
static void
check_exports(const struct agent_options *o, struct config_result *result)
{
	char why[EXPORTS_FILE_ERROR_BYTES];

	if (o->exports == NULL)
		return;
	if (access(o->exports, F_OK) != 0)
		config_check_place(&agent_program, result, "exports", o->exports);
	else if (exports_file_read(o->exports, check_exports_line, result, why) != 0)
		config_problem(&agent_program, result, "--exports: %s", why);
}

static void
check_files(const struct agent_options *o, struct config_result *result)
{
	for (uint32_t i = 0; i < o->listens.count; i++)
		check_listen(result, o->listens.items[i]);
	if (o->control != NULL)
		check_unix(result, "control", o->control);
	check_tls(o, result);
	check_exports(o, result);
	config_check_metrics(&agent_program, result, o->metrics);
}

static void
check_key(const struct agent_options *o, struct config_result *result)
{
	static const struct split_wanted wanted = { .roles = SPLIT_ROLE_CLIENT | SPLIT_ROLE_ADMIN };
	struct secure secure = { .key = NULL };

	secure_take(&agent_program, result, &o->secure, &wanted, &secure);
	secure_metrics_check(&agent_program, result, &secure, o->metrics, &o->metrics_words);
	secure_close(&secure);
}

uint32_t
nbd_options_check(struct agent_options *options, struct config_result *result)
{
	assert(options != NULL);
	if (gateways_default(agent_program.name, &options->gateways) != 0)
		result->problem_count++; /* it has said what is wrong */
	check_together(options, result);
	check_key(options, result);
	if (result->is_check)
		check_files(options, result);
	return result->problem_count;
}
