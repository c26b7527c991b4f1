/* SPDX-License-Identifier: Apache-2.0 */
/* subject.c -- see subject.h */
#include "subject.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

#define SUBJECT_SCHEME "cleave://"
#define SUBJECT_CLUSTER_DIGITS 16u
#define SUBJECT_NUMBER_DIGITS_MAX 10u

static const struct {
	enum split_role role;
	const char *name;
	bool is_numbered; /* its name is its number */
} subject_roles[] = {
	{ SPLIT_ROLE_GATEWAY, "gateway", true },
	{ SPLIT_ROLE_NODE, "node", true },
	{ SPLIT_ROLE_CLIENT, "client", false },
	{ SPLIT_ROLE_ADMIN, "admin", false },
	{ SPLIT_ROLE_MONITOR, "monitor", false },
};

const char *
subject_role_name(unsigned role)
{
	for (uint32_t i = 0; i < NUM_COUNT(subject_roles); i++)
		if (role == (unsigned)subject_roles[i].role)
			return subject_roles[i].name;
	return NULL;
}

void
subject_roles_text(unsigned roles, char *out, size_t bytes)
{
	size_t at = 0;

	assert(bytes > 0);
	out[0] = '\0';
	for (uint32_t i = 0; i < NUM_COUNT(subject_roles) && at < bytes; i++) {
		if ((roles & (unsigned)subject_roles[i].role) != 0)
			at += (size_t)snprintf(out + at, bytes - at, "%s%s", at > 0 ? " or " : "",
			    subject_roles[i].name);
	}
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Lower case alone: there is one way to write each number. */
static int
cluster_parse(const char *text, uint64_t *ret_id)
{
	uint64_t id = 0;

	for (uint32_t i = 0; i < SUBJECT_CLUSTER_DIGITS; i++) {
		char c = text[i];

		if (!is_digit(c) && !(c >= 'a' && c <= 'f'))
			return -EINVAL;
		id = id << 4 | (uint64_t)(is_digit(c) ? c - '0' : c - 'a' + 10);
	}
	*ret_id = id;
	return id != 0 ? 0 : -EINVAL;
}

static bool
name_is_number(const char *name, size_t bytes)
{
	if (bytes == 0 || bytes > SUBJECT_NUMBER_DIGITS_MAX || name[0] == '0')
		return false;
	for (size_t i = 0; i < bytes; i++)
		if (!is_digit(name[i]))
			return false;
	return true;
}

static bool
name_is_valid(const char *name, size_t bytes)
{
	if (bytes == 0 || bytes >= SPLIT_NAME_BYTES_MAX || name[0] == '.' || name[0] == '-')
		return false;
	for (size_t i = 0; i < bytes; i++) {
		char c = name[i];

		if (!is_digit(c) && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
		    c != '.' && c != '_' && c != '-')
			return false;
	}
	return true;
}

int
subject_parse(const char *uri, size_t bytes, struct split_subject *ret_subject)
{
	const size_t head_bytes = strlen(SUBJECT_SCHEME) + SUBJECT_CLUSTER_DIGITS + 1;
	struct split_subject subject = { 0 };

	if (bytes <= head_bytes || bytes >= SUBJECT_URI_BYTES_MAX ||
	    memcmp(uri, SUBJECT_SCHEME, strlen(SUBJECT_SCHEME)) != 0 ||
	    uri[head_bytes - 1] != '/' ||
	    cluster_parse(uri + strlen(SUBJECT_SCHEME), &subject.cluster_id) != 0)
		return -EINVAL;
	uri += head_bytes;
	bytes -= head_bytes;
	for (uint32_t i = 0; i < NUM_COUNT(subject_roles); i++) {
		size_t role_bytes = strlen(subject_roles[i].name);
		const char *name = uri + role_bytes + 1;
		size_t name_bytes;

		if (bytes <= role_bytes + 1 || uri[role_bytes] != '/' ||
		    memcmp(uri, subject_roles[i].name, role_bytes) != 0)
			continue;
		name_bytes = bytes - role_bytes - 1;
		if (!name_is_valid(name, name_bytes) ||
		    (subject_roles[i].is_numbered && !name_is_number(name, name_bytes)))
			return -EINVAL;
		subject.role = subject_roles[i].role;
		memcpy(subject.name, name, name_bytes);
		*ret_subject = subject;
		return 0;
	}
	return -EINVAL;
}

void
subject_format(const struct split_subject *subject, char out[SUBJECT_URI_BYTES_MAX])
{
	const char *role = subject_role_name(subject->role);

	assert(role != NULL);
	(void)snprintf(out, SUBJECT_URI_BYTES_MAX, SUBJECT_SCHEME "%016" PRIx64 "/%s/%s",
	    subject->cluster_id, role, subject->name);
}

void
subject_text(const struct split_subject *subject, char out[SUBJECT_TEXT_BYTES_MAX])
{
	const char *role = subject_role_name(subject->role);

	assert(role != NULL);
	(void)snprintf(out, SUBJECT_TEXT_BYTES_MAX, "%s/%s", role, subject->name);
}

static bool
role_is_numbered(enum split_role role)
{
	for (uint32_t i = 0; i < NUM_COUNT(subject_roles); i++)
		if (role == subject_roles[i].role)
			return subject_roles[i].is_numbered;
	return false;
}

uint64_t
split_subject_number(const struct split_subject *subject)
{
	return role_is_numbered(subject->role) ? strtoull(subject->name, NULL, 10) : 0;
}

int
split_subject_check(const struct split_subject *subject, const struct split_wanted *wanted,
    char *why)
{
	char text[SUBJECT_TEXT_BYTES_MAX], roles[SUBJECT_TEXT_BYTES_MAX];

	assert(wanted->roles != 0);
	why[0] = '\0';
	subject_text(subject, text);
	subject_roles_text(wanted->roles, roles, sizeof(roles));
	if (wanted->cluster_id != 0 && subject->cluster_id != wanted->cluster_id)
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
		    "%s is of cluster %016" PRIx64 ", not %016" PRIx64, text, subject->cluster_id,
		    wanted->cluster_id);
	else if ((wanted->roles & (unsigned)subject->role) == 0)
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX, "%s is no %s", text, roles);
	else if (wanted->number != 0 && split_subject_number(subject) != wanted->number)
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX, "%s is not %s %" PRIu64, text, roles,
		    wanted->number);
	else
		return 0;
	return -EKEYREJECTED;
}

const char *
split_subject_text(const struct split_subject *subject, char *out)
{
	subject_text(subject, out);
	return out;
}

int
split_security_parse(const char *text, enum split_security *ret_security)
{
	static const char *const names[] = {
		[SPLIT_SECURITY_OPEN] = "open",
		[SPLIT_SECURITY_SIGN] = "sign",
		[SPLIT_SECURITY_SEAL] = "seal",
	};

	for (uint32_t i = SPLIT_SECURITY_OPEN; i < NUM_COUNT(names); i++) {
		if (strcmp(text, names[i]) != 0)
			continue;
		*ret_security = (enum split_security)i;
		return 0;
	}
	return -EINVAL;
}
