/* SPDX-License-Identifier: Apache-2.0 */
/* seed_command.c -- the command that runs a seed again, as it was run */
#include <inttypes.h>
#include <stdio.h>

#include "base/num.h"
#include "run.h"

void
sim_run_command(const struct sim_run_options *options, char *ret_text, size_t text_bytes)
{
	size_t used =
	    (size_t)snprintf(ret_text, text_bytes, "./dev sim --seed %" PRIu64, options->seed);
	const struct {
		const char *name;
		uint32_t value;
	} counts[] = { { "gateways", options->gateway_count }, { "nodes", options->node_count },
		{ "clients", options->client_count }, { "operations", options->op_count } };
	const char *separator = " --faults ";

	for (uint32_t i = 0; i < NUM_COUNT(counts) && used < text_bytes; i++)
		if (counts[i].value != 0)
			used += (size_t)snprintf(ret_text + used, text_bytes - used, " --%s %u",
			    counts[i].name, counts[i].value);
	if (options->faults == SIM_FAULTS_NONE && used < text_bytes)
		(void)snprintf(ret_text + used, text_bytes - used, " --faults none");
	if (options->snapshots != SIM_SNAPSHOTS_BY_SEED && used < text_bytes)
		used += (size_t)snprintf(ret_text + used, text_bytes - used, " --snapshots %s",
		    options->snapshots == SIM_SNAPSHOTS_YES ? "yes" : "no");
	if (options->meta != SIM_META_BY_SEED && used < text_bytes)
		used += (size_t)snprintf(ret_text + used, text_bytes - used, " --meta %s",
		    options->meta == SIM_META_ETCD ? "etcd" : "memory");
	if (options->members != SIM_MEMBERS_BY_SEED && used < text_bytes)
		used += (size_t)snprintf(ret_text + used, text_bytes - used, " --members %s",
		    options->members == SIM_MEMBERS_YES ? "yes" : "no");
	if (options->balance != SIM_BALANCE_BY_SEED && used < text_bytes)
		used += (size_t)snprintf(ret_text + used, text_bytes - used, " --balance %s",
		    options->balance == SIM_BALANCE_YES ? "yes" : "no");
	if (options->keys != SIM_KEYS_BY_SEED && used < text_bytes)
		used += (size_t)snprintf(ret_text + used, text_bytes - used, " --keys %s",
		    options->keys == SIM_KEYS_YES ? "yes" : "no");
	for (uint32_t i = 0; i < SIM_FAULT_NR && used < text_bytes; i++) {
		if ((options->faults >> i & 1) == 0)
			continue;
		used += (size_t)snprintf(ret_text + used, text_bytes - used, "%s%s", separator,
		    sim_fault_name((enum sim_fault)i));
		separator = ",";
	}
}
