/* SPDX-License-Identifier: Apache-2.0 */
/* gateway_state.c -- what every part of a gateway's main loop does with it: it fails, it tells the time */
#include "cluster/gateway_state.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/loop.h"

void
mt_gateway_fail(struct mt_gateway *gateway, int rc, const char *format, ...)
{
	va_list args;

	assert(rc < 0);
	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	if (gateway->sm.state >= MT_GATEWAY_FAILED)
		return;
	gateway->failure_rc = rc;
	va_start(args, format);
	(void)vsnprintf(gateway->failure, sizeof(gateway->failure), format, args);
	va_end(args);
	sm_move(&gateway->sm, MT_GATEWAY_FAILED);
	log_error("gateway: cannot serve: %s", gateway->failure);
	if (gateway->options.on_failed != NULL)
		gateway->options.on_failed(rc, gateway->failure, gateway->options.arg);
}

uint64_t
mt_gateway_time_s(const struct mt_gateway *gateway)
{
	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	if (gateway->options.sim_host != NULL)
		return loop_now_ns(gateway->options.loop) / NUM_S(1);
	return log_wall_s();
}
