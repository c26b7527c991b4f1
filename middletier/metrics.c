/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c -- the names of what a port counts; all of them only grow */
#include "internal.h"

const struct metric_info mt_metric_infos[MT_METRIC_NR] = {
#define MT_METRIC_INFO(name, unit, help) [MT_METRIC_##name] = { #name, unit, help, METRIC_COUNTER },
	MT_METRIC_LIST(MT_METRIC_INFO)
#undef MT_METRIC_INFO
};
