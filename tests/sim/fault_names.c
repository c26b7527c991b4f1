/* SPDX-License-Identifier: Apache-2.0 */
/* fault_names.c -- what classes of faults are called: see run.h */
#include <errno.h>
#include <string.h>

#include "run.h"

static const struct {
	const char *name, *text;
} fault_infos[] = {
#define SIM_FAULT_INFO(name, text) { #name, text },
	SIM_FAULT_LIST(SIM_FAULT_INFO) SIM_ETCD_FAULT_LIST(SIM_FAULT_INFO)
#undef SIM_FAULT_INFO
};

const char *
sim_fault_name(enum sim_fault fault)
{
	return fault_infos[fault].name;
}

const char *
sim_fault_text(enum sim_fault fault)
{
	return fault_infos[fault].text;
}

int
sim_faults_parse(const char *text, uint64_t *ret_faults)
{
	uint64_t faults = 0;

	if (strcmp(text, "none") == 0 || strcmp(text, "all") == 0) {
		*ret_faults = text[0] == 'n' ? SIM_FAULTS_NONE : SIM_FAULTS_ALL;
		return 0;
	}
	while (*text != 0) {
		size_t bytes = strcspn(text, ",");
		uint32_t i;

		for (i = 0; i < SIM_FAULT_NR; i++)
			if (strlen(fault_infos[i].name) == bytes &&
			    memcmp(fault_infos[i].name, text, bytes) == 0)
				break;
		if (i == SIM_FAULT_NR)
			return -EINVAL;
		faults |= UINT64_C(1) << i;
		text += bytes + (text[bytes] == ',');
	}
	*ret_faults = faults;
	return faults != 0 ? 0 : -EINVAL;
}
