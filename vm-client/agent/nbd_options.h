/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_options.h -- the options of cleave-agent as they are typed */
#ifndef CLEAVE_VM_CLIENT_NBD_OPTIONS_H
#define CLEAVE_VM_CLIENT_NBD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/daemon.h"
#include "cleave/secure_metrics.h"
#include "cleave/secure_options.h"

/* Values of choices, in the order of their words. */
enum agent_attach { ATTACH_CHANGE, ATTACH_CLIENT };
enum agent_when_held { WHEN_HELD_REFUSE, WHEN_HELD_TAKE };

/* As config_parse fills it: each value is in the range that the table gives. */
struct agent_options {
	struct config_list gateways, listens, volumes;
	uint64_t volume_id; /* of the one volume; 0: whatever has its name */
	struct secure_options secure;
	bool is_read_only, exports_all, is_stdio;
	const char *control, *metrics, *exports, *local;
	struct secure_metrics_words metrics_words;
	bool replaces;
	const char *tls_certificates, *tls_psk;
	bool tls_verifies_peer, tls_is_optional, is_listen_open;
	bool reclaims;
	unsigned resize, attach, when_held;
	uint64_t io_timeout_ns, handshake_ns, stall_ns;
	struct daemon_options log;
};

extern const struct config_program agent_program;

/*
 * nbd_options_check -- do the options fit together? With --check-config also: are the files that they name there?
 *
 * Fills in gateways where none was named. Each problem goes to config_problem. Reads the key, and forgets it; connects to nobody.
 * Returns how many there are.
 */
uint32_t nbd_options_check(struct agent_options *options, struct config_result *result);
/*
 * nbd_options_know_clients -- does each client show who it is, by a certificate or a key? TLS alone does not: whoever reaches
 * the address comes in.
 */
bool nbd_options_know_clients(const struct agent_options *options);
/* nbd_options_listen_fds -- how many sockets systemd has opened for this process. */
int nbd_options_listen_fds(void);

#endif /* CLEAVE_VM_CLIENT_NBD_OPTIONS_H */
