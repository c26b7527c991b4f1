/* SPDX-License-Identifier: Apache-2.0 */
/* join_options.c -- see join_options.h */
#include "join_options.h"

#include <stddef.h>

#include "base/num.h"

static const struct config_option join_table[] = {
	{ "disk", 0, CONFIG_STRING, offsetof(struct join_options, format.disk), "PATH",
	    "The file (made when it is absent) or block device.", NULL, true, 0, 0, NULL },
	{ "gateway", 0, CONFIG_STRING, offsetof(struct join_options, gateway), "HOST:PORT,...",
	    "The cluster's gateways, which are asked in turn.", NULL, true, 0, 0, NULL },
	SECURE_CLIENT_ROWS(struct join_options, secure),
	{ "listen", 0, CONFIG_STRING, offsetof(struct join_options, listen), "tcp://HOST:PORT",
	    "Where the node will listen.", NULL, true, 0, 0, NULL },
	{ "advertise", 0, CONFIG_STRING, offsetof(struct join_options, advertise),
	    "tcp://HOST:PORT", "Where gateways find the node; by default where it listens.", NULL,
	    false, 0, 0, NULL },
	{ "domain", 0, CONFIG_STRING, offsetof(struct join_options, domain), "PATH",
	    "What fails together with it: up to four names, such as dc1/rack2/host8.", NULL, false,
	    0, 0, NULL },
	{ "weight", 0, CONFIG_U64, offsetof(struct join_options, weight), "PERCENT",
	    "The share of its free space that counts.", "100", false, 1, 1000, NULL },
	{ "note", 0, CONFIG_STRING, offsetof(struct join_options, note), "TEXT",
	    "For people; cleave node list shows it.", NULL, false, 0, 0, NULL },
	{ "cluster-id", 0, CONFIG_STRING, offsetof(struct join_options, cluster_id), "HEX",
	    "Refuse gateways of another cluster.", NULL, false, 0, 0, NULL },
	{ "size", 0, CONFIG_SIZE, offsetof(struct join_options, format.size), "SIZE",
	    "Size of the file; by default what it has. Not for a block device.", NULL, false, 0,
	    NUM_GIB(1024) * 64, NULL },
	{ "slot-size", 0, CONFIG_SIZE, offsetof(struct join_options, format.slot_size), "SIZE",
	    "Bytes of a slot, which holds one extent; by default what the cluster's nodes have. Another "
	    "wastes room.",
	    NULL, false, NUM_KIB(64), NUM_MIB(64), NULL },
	{ "fill", 0, CONFIG_FLAG, offsetof(struct join_options, format.is_filled), NULL,
	    "As of format: write zeros over all of a file.", NULL, false, 0, 0, NULL },
	{ "wait", 0, CONFIG_DURATION, offsetof(struct join_options, wait_ns), "TIME",
	    "Wait so long for somebody to serve the disk, to add it then.", "0s", false, 0, 0,
	    NULL },
	{ "force", 0, CONFIG_FLAG, offsetof(struct join_options, format.is_forced), NULL,
	    "Format what holds something else, or is another cluster's, or has left this one. Never "
	    "what the cluster has, or what it was formatted for.",
	    NULL, false, 0, 0, NULL },
#ifdef CLEAVE_TEST_BUILD
	{ "kill-at", 0, CONFIG_U64, offsetof(struct join_options, kill_at), "N",
	    "Test builds: die behind the N-th step.", "0", false, 0, 100, NULL },
#endif
	{ .name = NULL },
};

const struct config_program join_program = {
	.name = "cleave-storage join",
	.synopsis = "--disk PATH --gateway HOST:PORT --listen tcp://HOST:PORT [options]",
	.purpose =
	    "Makes an empty disk a storage node's of a cluster that runs. Run it again when the "
	    "node serves: then it is added.",
	.options = join_table,
};
