/* SPDX-License-Identifier: Apache-2.0 */
/* command_options.c -- the options of a gateway as they are typed: their table, for command_line.h */
#include <stddef.h>

#include "base/config.h"
#include "base/num.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "common/replica.h"
#include "start/command_line.h"
#include "worker/worker.h"

/* From MT_BALANCE_COUNT on. */
static const char *const balances[] = { "count", "load", NULL };

/* As enum mt_run_codec. */
static const char *const run_codecs[] = { "auto", "zstd", "lz4", NULL };

static const char *const off_on[] = { "off", "on", NULL };

static const char *const yes_no[] = { "no", "yes", NULL };

static const struct config_option option_table[] = {
	{ "meta", 0, CONFIG_STRING, offsetof(struct mt_command_line, meta),
	    "DIR|etcd[s]://HOST:PORT[,...][/PREFIX]",
	    "The metadata store: a directory, for the gateways of one host, which --create and --recover "
	    "make; or an etcd of version 3.4 or newer, for those of several.",
	    NULL, true, 0, 0, NULL },
	{ "meta-ca", 0, CONFIG_STRING, offsetof(struct mt_command_line, meta_ca), "FILE",
	    "With etcds://: who signs its certificates, in PEM; by default the system's authorities.",
	    NULL, false, 0, 0, NULL },
	{ "meta-cert", 0, CONFIG_STRING, offsetof(struct mt_command_line, meta_cert), "FILE",
	    "With etcds://: the certificate to show it, in PEM, without a common name.", NULL,
	    false, 0, 0, NULL },
	{ "meta-key", 0, CONFIG_STRING, offsetof(struct mt_command_line, meta_key), "FILE",
	    "With etcds://: that certificate's key, in PEM.", NULL, false, 0, 0, NULL },
	{ "meta-user", 0, CONFIG_STRING, offsetof(struct mt_command_line, meta_user), "NAME",
	    "With an etcd that has users: which one this is.", NULL, false, 0, 0, NULL },
	{ "meta-password-file", 0, CONFIG_STRING,
	    offsetof(struct mt_command_line, meta_password_file), "FILE",
	    "That user's password: the first line of FILE.", NULL, false, 0, 0, NULL },
	{ "meta-compact", 0, CONFIG_CHOICE, offsetof(struct mt_command_line, meta_compact),
	    "WHETHER",
	    "With an etcd: shorten its history to the last minutes, since it keeps all by default; no: "
	    "others who use it do.",
	    "yes", false, 0, 0, yes_no },
	{ "port", 0, CONFIG_LIST, offsetof(struct mt_command_line, ports),
	    "tcp://HOST:PORT[,cpu=N][,advertise=HOST:PORT] or verbs://...",
	    "Listen here for clients; one thread each. They, and other gateways, are told what it "
	    "advertises: needed where HOST is 0.0.0.0 or [::].",
	    NULL, false, 0, 0, NULL },
	{ "local", 0, CONFIG_STRING, offsetof(struct mt_command_line, local), "FOLDER",
	    "For clients of this host each port has a unix socket in FOLDER, too, for its owner and group. Made where "
	    "it is missing.",
	    NULL, false, 0, 0, NULL },
	{ "advertise-outside", 0, CONFIG_FLAG, offsetof(struct mt_command_line, is_outside), NULL,
	    "What ports advertise need not lead back to this host, as behind a router that does not "
	    "reflect (hairpin NAT): that nobody answers it there is no warning.",
	    NULL, false, 0, 0, NULL },
	{ "node", 0, CONFIG_LIST, offsetof(struct mt_command_line, nodes),
	    "tcp://HOST:PORT[,domain=NAME]",
	    "A storage node and its failure domain: dc/rack/host, or a part of it. Once the metadata store "
	    "names the nodes (cleave node list), these are not needed.",
	    NULL, false, 0, 0, NULL },
	{ "cluster-id", 0, CONFIG_STRING, offsetof(struct mt_command_line, cluster_id), "HEX",
	    "The cluster, as the nodes' disks were formatted for it: 16 hex digits. Required, but for "
	    "--dump and --release with a directory.",
	    NULL, false, 0, 0, NULL },
	{ "shards", 0, CONFIG_U64, offsetof(struct mt_command_line, shards), "N",
	    "Number of shards of a new cluster (8); an old one must agree.", "0", false, 0,
	    CLEAVE_SHARDS_MAX, NULL },
	{ "device-memory", 0, CONFIG_SIZE, offsetof(struct mt_command_line, device_memory), "SIZE",
	    "Device memory of each port.", "256M", false, NUM_MIB(2), NUM_GIB(256), NULL },
	{ "huge-pages", 0, CONFIG_FLAG, offsetof(struct mt_command_line, wants_huge_pages), NULL,
	    "Device memory of the system's reserved huge pages (vm.nr_hugepages), if they suffice.",
	    NULL, false, 0, 0, NULL },
	{ "engine-threads", 0, CONFIG_U64, offsetof(struct mt_command_line, engine_threads), "N",
	    "Engine threads of each port; 0: engines run on the port's own thread.", "0", false, 0,
	    64, NULL },
	{ "merge-threads", 0, CONFIG_U64, offsetof(struct mt_command_line, merge_threads), "N",
	    "Threads of each port, of the lowest priority, for merges that are in no hurry; 0: they "
	    "run where writes do.",
	    "1", false, 0, 64, NULL },
	{ "min-replicas", 0, CONFIG_U64, offsetof(struct mt_command_line, min_replicas), "N",
	    "Fewest nodes that writes go on with. 3: never fewer than three copies of what is "
	    "acknowledged. 1 also lets a take-over believe a lone replica.",
	    "2", false, 1, MT_REPLICAS_MAX, NULL },
	{ "node-timeout", 0, CONFIG_DURATION, offsetof(struct mt_command_line, node_timeout),
	    "DURATION", "A storage node that does not answer for this long is given up.", "5s",
	    false, NUM_MS(10), NUM_S(600), NULL },
	{ "slow-op", 0, CONFIG_DURATION, offsetof(struct mt_command_line, slow_op), "DURATION",
	    "A client's read or write that takes this long is logged, and kept for cleave slow, with what "
	    "its time went to; 0s: none is. SIGHUP has it read again.",
	    "500ms", false, 0, NUM_S(3600), NULL },
	{ "gateway-id", 0, CONFIG_U64, offsetof(struct mt_command_line, gateway_id), "N",
	    "Which of several gateways this is, for those that share a store. By default the one "
	    "of the key; without a key, the one whose number the store's directory holds.",
	    "0", false, 0, INT64_MAX, NULL },
	{ "lease-ms", 0, CONFIG_U64, offsetof(struct mt_command_line, lease_ms), "MS",
	    "A gateway that is silent for this long loses its shards to the others (3000; with an etcd "
	    "10000, and at least 5000: it answers nothing while it elects a leader).",
	    NULL, false, 200, 600000, NULL },
	{ "session-timeout", 0, CONFIG_DURATION, offsetof(struct mt_command_line, session_timeout),
	    "DURATION",
	    "A writer that did not close its volume and is silent for this long has left it. The same "
	    "for all gateways of a cluster, and longer than clients take to find another gateway.",
	    "10s", false, NUM_MS(100), NUM_S(3600), NULL },
	{ "repair-after", 0, CONFIG_DURATION, offsetof(struct mt_command_line, repair_after),
	    "DURATION", "Copies on a node that is away for this long are made anew elsewhere.",
	    "60s", false, NUM_MS(100), NUM_S(86400), NULL },
	{ "repair-rate", 0, CONFIG_SIZE, offsetof(struct mt_command_line, repair_rate), "SIZE",
	    "Bytes a second that each port copies for repairs.", "64M", false, NUM_KIB(64),
	    NUM_GIB(64), NULL },
	{ "scrub-interval", 0, CONFIG_DURATION, offsetof(struct mt_command_line, scrub_interval),
	    "DURATION", "Every copy is read and verified once in this time.", "168h", false,
	    NUM_S(1), NUM_S(UINT64_C(365) * 86400), NULL },
	{ "sweep-interval", 0, CONFIG_DURATION, offsetof(struct mt_command_line, sweep_interval),
	    "DURATION", "Between two looks at a node for extents that nobody owns.", "10m", false,
	    NUM_S(1), NUM_S(86400), NULL },
	{ "orphan-grace", 0, CONFIG_DURATION, offsetof(struct mt_command_line, orphan_grace),
	    "DURATION",
	    "An extent at a node that no manifest names is deleted when it was seen for this long, and "
	    "at most a sixteenth of a node's extents in that time; `cleave sweep` lists them.",
	    "1h", false, 0, NUM_S(UINT64_C(365) * 86400), NULL },
	{ "log-bytes", 0, CONFIG_SIZE, offsetof(struct mt_command_line, log_bytes), "SIZE",
	    "Length of a shard's log beyond which writes are slowed down; less on small disks.",
	    "256M", false, NUM_MIB(1), NUM_GIB(64), NULL },
	{ "flush-age", 0, CONFIG_DURATION, offsetof(struct mt_command_line, flush_age), "DURATION",
	    "What was written so long ago, or up to twice that, leaves the log, however short it is; "
	    "until then reads find the newest of it in memory.",
	    "60s", false, NUM_S(1), NUM_S(86400), NULL },
	{ "index-cache", 0, CONFIG_SIZE, offsetof(struct mt_command_line, index_cache), "SIZE",
	    "Host memory for the indexes of what is on the nodes, all ports together.", "64M",
	    false, NUM_KIB(64), NUM_GIB(64), NULL },
	{ "hot-bytes", 0, CONFIG_SIZE, offsetof(struct mt_command_line, hot_bytes), "SIZE",
	    "Device memory for blocks that are read again and again, decompressed, all ports together, "
	    "beside --device-memory; 0: none.",
	    "64M", false, 0, NUM_GIB(64), NULL },
	{ "mirror-heads", 0, CONFIG_SIZE, offsetof(struct mt_command_line, mirror_heads), "SIZE",
	    "Host memory, all ports together, for the heads of batches that other gateways tell of while they "
	    "write: what a take-over needs of their logs. It tells them of its own, too. 0: neither.",
	    "0", false, 0, NUM_GIB(64), NULL },
	{ "offload", 0, CONFIG_CHOICE, offsetof(struct mt_command_line, offload), "WHETHER",
	    "on: merges go to other gateways that have room for them (--worker-jobs); what they have made is "
	    "read back before it counts, and made here where it is not right.",
	    "off", false, 0, 0, off_on },
	{ "worker-jobs", 0, CONFIG_U64, offsetof(struct mt_command_line, worker_jobs), "N",
	    "Merges of other gateways that each port executes at a time, each in device memory of its own, "
	    "and as fast as the log of its owner wants it; 0: none.",
	    "0", false, 0, WORKER_JOBS_MAX, NULL },
	{ "frame-bytes", 0, CONFIG_SIZE, offsetof(struct mt_command_line, frame_bytes), "SIZE",
	    "Neighbouring blocks up to this much are compressed together when they leave the log: a "
	    "power of two.",
	    "16K", false, CLEAVE_BLOCK_BYTES, ENGINE_RECORD_BYTES_MAX, NULL },
	{ "read-frame-bytes", 0, CONFIG_SIZE, offsetof(struct mt_command_line, read_frame_bytes),
	    "SIZE",
	    "Likewise for what is read again and again, where --run-codec is auto: a read fetches no more "
	    "than that. At most --frame-bytes.",
	    "4K", false, CLEAVE_BLOCK_BYTES, ENGINE_RECORD_BYTES_MAX, NULL },
	{ "run-codec", 0, CONFIG_CHOICE, offsetof(struct mt_command_line, run_codec), "CODEC",
	    "What compresses them: zstd, which is small; lz4, which takes a quarter more space and is read "
	    "with a fraction of the CPU time; auto, lz4 for what is read again and again, zstd for the rest.",
	    "auto", false, 0, 0, run_codecs },
	{ "balance", 0, CONFIG_CHOICE, offsetof(struct mt_command_line, balance), "HOW",
	    "How shards are shared out between gateways: count, as many to each; load, and then one that "
	    "has more to do than the others gives them one shard after the other. With count, shards "
	    "that it was given so go back.",
	    "count", false, 0, 0, balances },
	{ "balance-interval", 0, CONFIG_DURATION,
	    offsetof(struct mt_command_line, balance_interval), "DURATION",
	    "Between two looks at the load. After 12 of them in which nothing has changed a shard may "
	    "move, and then stays where it is for 30.",
	    "10s", false, NUM_MS(100), NUM_S(3600), NULL },
	{ "metrics", 0, CONFIG_STRING, offsetof(struct mt_command_line, metrics), "HOST:PORT",
	    "Tell what there is to know, over HTTP, to whoever can reach it: a page for people at /, to "
	    "monitors at /metrics (OpenMetrics) and /healthz; by default nowhere.",
	    NULL, false, 0, 0, NULL },
	SECURE_METRICS_ROWS(struct mt_command_line, metrics_words),
	{ "kek", 0, CONFIG_LIST, offsetof(struct mt_command_line, keks),
	    "[NAME=]file:PATH|credential:NAME|command:PATH",
	    "A KEK, which wraps the keys of encrypted volumes: in a file, as cleave key kek makes it; a "
	    "credential of systemd; or a program's, which is asked each time. NAME: default. All gateways of a "
	    "cluster need the same ones.",
	    NULL, false, 0, 0, NULL },
	SECURE_OPTION_ROWS(struct mt_command_line, secure),
	DAEMON_OPTION_ROWS(struct mt_command_line, log),
	{ "create", 0, CONFIG_FLAG, offsetof(struct mt_command_line, is_creation), NULL,
	    "Do not serve: make a new cluster, its metadata store and all, over nodes that hold "
	    "nothing, and end.",
	    NULL, false, 0, 0, NULL },
	{ "recover", 0, CONFIG_FLAG, offsetof(struct mt_command_line, is_recovery), NULL,
	    "Do not serve: make a lost or stale metadata store anew from all the nodes, and end.",
	    NULL, false, 0, 0, NULL },
	{ "accept-copy", 0, CONFIG_FLAG, offsetof(struct mt_command_line, is_accepting), NULL,
	    "Do not serve: the metadata store is a copy, was moved to another file system, or is an "
	    "etcd that was restored from a snapshot; the original is gone for good and was not newer. Note that down, and end.",
	    NULL, false, 0, 0, NULL },
	{ "release", 0, CONFIG_FLAG, offsetof(struct mt_command_line, is_release), NULL,
	    "Do not serve: the gateway of these options has died; end its lease at once, so that "
	    "others have its shards, and end. Refused while its process lives.",
	    NULL, false, 0, 0, NULL },
	{ "dump", 0, CONFIG_FLAG, offsetof(struct mt_command_line, is_dump), NULL,
	    "Do not serve: write all keys of the metadata store to standard output, and end; see "
	    "cleave meta dump.",
	    NULL, false, 0, 0, NULL },
	{ "load", 0, CONFIG_FLAG, offsetof(struct mt_command_line, is_load), NULL,
	    "Do not serve: make an empty metadata store of what --dump wrote, from standard input, "
	    "and end; see cleave meta load.",
	    NULL, false, 0, 0, NULL },
	{ "move-to", 0, CONFIG_STRING, offsetof(struct mt_command_line, move_to), "STORE",
	    "Do not serve: move the metadata store to this empty one, and end; see cleave meta move.",
	    NULL, false, 0, 0, NULL },
	{ "force", 0, CONFIG_FLAG, offsetof(struct mt_command_line, is_forced), NULL,
	    "With --recover: also where newer data may exist that was not found. With --accept-copy: also "
	    "where the nodes know more than the copy does.",
	    NULL, false, 0, 0, NULL },
	{ "take", 0, CONFIG_FLAG, offsetof(struct mt_command_line, must_take), NULL,
	    "With --recover, --load and --move-to: also while gateways are connected to the nodes. The "
	    "nodes refuse them from then on, for good. With --accept-copy: also while they are, or no "
	    "node answers.",
	    NULL, false, 0, 0, NULL },
	{ .name = NULL },
};

const struct config_program mt_command_line_program = {
	.name = "cleave-gateway",
	.synopsis = "--meta STORE --port ADDR --node ADDR --cluster-id HEX [options]\n"
		    "--create --meta STORE --node ADDR --cluster-id HEX [--shards N]\n"
		    "--recover --meta STORE --node ADDR --cluster-id HEX [--force] [--take]\n"
		    "--accept-copy --meta STORE --node ADDR --cluster-id HEX [--force] [--take]\n"
		    "--release --meta STORE [--cluster-id HEX] [--gateway-id N]\n"
		    "--dump --meta STORE [--cluster-id HEX]\n"
		    "--load --meta STORE --node ADDR --cluster-id HEX [--take]\n"
		    "--move-to STORE --meta STORE --node ADDR --cluster-id HEX [--take]",
	.purpose = "The middle tier of a Cleave cluster: takes blocks from clients, compresses and "
		   "replicates them.",
	.options = option_table,
	.has_check = true,
};

const char *const mt_command_line_reload[] = { "key", "slow-op", NULL };
