/* SPDX-License-Identifier: Apache-2.0 */
/* qos.c -- a volume's limits as JSON: in its key, in answers, and in the request that changes them */
#include "catalog/qos.h"

#include "base/check.h"
#include "base/num.h"
#include "common/limits.h"

static const struct {
	const char *name;
	uint64_t least, most;
} qos_ranges[] = {
#define QOS_RANGE(name, least, most) { #name, least, most },
	CLEAVE_LIMIT_LIST(QOS_RANGE)
#undef QOS_RANGE
};
_Static_assert(NUM_COUNT(qos_ranges) == MT_LIMIT_COUNT, "all members");

void
mt_qos_members(struct cleave_limits *limits, struct reader_member ret_members[MT_LIMIT_COUNT])
{
	uint32_t count = 0;

#define QOS_MEMBER(member, least, most)                                                            \
	ret_members[count++] = (struct reader_member){ .name = #member,                            \
		.kind = READER_U64,                                                                \
		.max = (most),                                                                     \
		.ret.u64 = &limits->member };
	CLEAVE_LIMIT_LIST(QOS_MEMBER)
#undef QOS_MEMBER
	assert(count == MT_LIMIT_COUNT);
}

bool
mt_qos_is_any(const struct cleave_limits *limits)
{
	const uint64_t *values = (const uint64_t *)limits;
	uint64_t all = 0;

	for (uint32_t i = 0; i < MT_LIMIT_COUNT; i++)
		all |= values[i];
	return all != 0;
}

const char *
mt_qos_check(const struct cleave_limits *limits)
{
	static _Thread_local char problem[READER_ERROR_BYTES];
	struct reader reader = { 0 };
	const uint64_t *values = (const uint64_t *)limits;

	for (uint32_t i = 0; i < MT_LIMIT_COUNT && reader.field == NULL; i++) {
		if (values[i] == 0 ||
		    (values[i] >= qos_ranges[i].least && values[i] <= qos_ranges[i].most))
			continue;
		reader = (struct reader){ .field = qos_ranges[i].name,
			.problem = READER_WANTS_RANGE,
			.min = qos_ranges[i].least,
			.max = qos_ranges[i].most };
	}
	if (reader.field == NULL)
		return NULL;
	reader_say(&reader, problem);
	return problem;
}

int
mt_json_put_qos(json_t *object, const struct cleave_limits *limits)
{
	const uint64_t *values = (const uint64_t *)limits;
	json_t *qos = NULL;

	assert(json_is_object(object));
	for (uint32_t i = 0; i < MT_LIMIT_COUNT; i++) {
		if (values[i] == 0)
			continue;
		if (qos == NULL)
			qos = json_object();
		if (json_object_set_new(qos, qos_ranges[i].name,
			json_integer((json_int_t)values[i])) != 0) {
			json_decref(qos);
			return -1;
		}
	}
	return qos == NULL ? 0 : json_object_set_new(object, "qos", qos);
}

const char *
mt_json_take_qos(const json_t *object, struct cleave_limits *ret_limits)
{
	static _Thread_local char error[READER_ERROR_BYTES];
	struct reader_member members[MT_LIMIT_COUNT];
	struct cleave_limits limits = { 0 };
	const char *problem;

	if (object == NULL) {
		*ret_limits = limits;
		return NULL;
	}
	mt_qos_members(&limits, members);
	if (reader_strict(object, members, NUM_COUNT(members), error) != 0)
		return error;
	problem = mt_qos_check(&limits);
	if (problem == NULL)
		*ret_limits = limits;
	return problem;
}
