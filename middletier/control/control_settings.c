/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_settings.c -- gateway.set: options of the gateway that is asked, while it runs
 *
 *	{"op":"gateway.set","log_level":"debug","slow_op_ns":100000000}
 *	{"gateway":"0000000000000001","log_level":"debug","slow_op_ns":100000000}
 *
 * What is not named stays, and is told. It holds until the gateway ends, or reads its options again (SIGHUP).
 */
#include "control/control_settings.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/check.h"
#include "base/num.h"
#include "base/reader.h"
#include "catalog/json.h"
#include "cleave/loop.h"
#include "cluster/gateway_state.h"
#include "common/event.h"
#include "control/control_request.h"

#define SLOW_OP_NS_MAX NUM_S(3600) /* as --slow-op has it */
#define SLOW_OP_UNSET UINT64_MAX

void
mt_settings_log_level(struct mt_gateway *gateway, enum log_level level, const char *why,
    const struct mt_event_who *who)
{
	enum log_level old = log_level_get();

	assert(level <= LOG_OFF);
	if (level == old)
		return;
	/* By the more talkative of both: who goes quiet says so, and who speaks up. */
	log_set_level(level < old ? level : old);
	mt_event_by(gateway->shared.events, loop_now_ns(gateway->options.loop),
	    CLEAVE_EVENT_GATEWAY_SET, "gateway", who, "gateway: log level %s, was %s: %s",
	    log_level_choices[level], log_level_choices[old], why);
	log_set_level(level);
}

void
mt_settings_slow_op(struct mt_gateway *gateway, uint64_t slow_op_ns, const char *why,
    const struct mt_event_who *who)
{
	uint64_t old_ns = atomic_load_explicit(&gateway->shared.slow_op_ns, memory_order_relaxed);

	if (slow_op_ns == old_ns)
		return;
	atomic_store_explicit(&gateway->shared.slow_op_ns, slow_op_ns, memory_order_relaxed);
	mt_event_by(gateway->shared.events, loop_now_ns(gateway->options.loop),
	    CLEAVE_EVENT_GATEWAY_SET, "gateway", who,
	    "gateway: slow-op %" PRIu64 " us, was %" PRIu64 " us: %s", slow_op_ns / NUM_US(1),
	    old_ns / NUM_US(1), why);
}

void
mt_control_gateway_set(struct mt_control_request *request)
{
	struct mt_gateway *gateway = request->gateway;
	const char *level_text = NULL;
	uint64_t slow_op_ns = SLOW_OP_UNSET;
	enum log_level level = log_level_get();
	const struct reader_member members[] = {
		{ "log_level", READER_TEXT, false, 0, 0, { .text = &level_text } },
		{ "slow_op_ns", READER_U64, false, 0, SLOW_OP_NS_MAX, { .u64 = &slow_op_ns } },
	};
	const struct mt_event_who who = { .by = request->by, .from = request->peer };
	char error[MT_ERROR_BYTES], id[17];
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == 0 && level_text != NULL && log_level_parse(level_text, &level) != 0) {
		(void)snprintf(error, sizeof(error), "log_level: '%.64s' is none", level_text);
		rc = -EINVAL;
	}
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	if (level_text != NULL)
		mt_settings_log_level(gateway, level, "cleave gateway set", &who);
	if (slow_op_ns != SLOW_OP_UNSET)
		mt_settings_slow_op(gateway, slow_op_ns, "cleave gateway set", &who);
	(void)snprintf(id, sizeof(id), "%016" PRIx64, gateway->options.gateway_id);
	mt_control_finish(request,
	    json_pack("{s:s, s:s, s:I}", "gateway", id, "log_level",
		log_level_choices[log_level_get()], "slow_op_ns",
		(json_int_t)atomic_load_explicit(&gateway->shared.slow_op_ns,
		    memory_order_relaxed)));
}
