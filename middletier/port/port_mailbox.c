/* SPDX-License-Identifier: Apache-2.0 */
/* port_mailbox.c -- see port_mailbox.h: main alone writes what is next, the port's thread copies it */
#include "port/port_mailbox.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "cleave/loop.h"
#include "common/alloc.h"

#define MAILBOX_MAGIC 0x6d616c62u

struct mt_port_mailbox {
	uint32_t magic;
	struct loop *loop;
	struct loop_post post;
	void (*fn)(void *arg, const void *value);
	void *arg;
	size_t bytes;
	pthread_mutex_t lock;
	bool is_out;      /* posted; lock */
	uint8_t *next;    /* bytes; main's to write, under lock */
	uint8_t values[]; /* taken, the port's; next */
};

struct mt_port_mailbox *
mt_port_mailbox_create(struct loop *loop, size_t bytes, void (*fn)(void *arg, const void *value),
    void *arg)
{
	struct mt_port_mailbox *mailbox = mt_calloc(1, sizeof(*mailbox) + 2 * bytes);

	assert(loop != NULL && fn != NULL && bytes > 0);
	if (mailbox == NULL)
		return NULL;
	mailbox->magic = MAILBOX_MAGIC;
	mailbox->loop = loop;
	mailbox->fn = fn;
	mailbox->arg = arg;
	mailbox->bytes = bytes;
	mailbox->next = mailbox->values + bytes;
	(void)pthread_mutex_init(&mailbox->lock, NULL); /* of the default kind: cannot fail */
	return mailbox;
}

void
mt_port_mailbox_destroy(struct mt_port_mailbox *mailbox)
{
	if (mailbox == NULL)
		return;
	CHECK_OBJ(mailbox, MAILBOX_MAGIC);
	mailbox->magic = 0;
	(void)pthread_mutex_destroy(&mailbox->lock);
	mt_free(mailbox);
}

static void
mailbox_on_post(struct loop_post *post, void *arg)
{
	struct mt_port_mailbox *mailbox = arg;

	(void)post;
	CHECK_OBJ(mailbox, MAILBOX_MAGIC);
	(void)pthread_mutex_lock(&mailbox->lock);
	assert(mailbox->is_out);
	mailbox->is_out = false;
	memcpy(mailbox->values, mailbox->next, mailbox->bytes);
	(void)pthread_mutex_unlock(&mailbox->lock);
	mailbox->fn(mailbox->arg, mailbox->values);
}

void
mt_port_mailbox_put(struct mt_port_mailbox *mailbox, const void *value)
{
	bool was_out;

	CHECK_OBJ(mailbox, MAILBOX_MAGIC);
	if (memcmp(mailbox->next, value, mailbox->bytes) == 0)
		return;
	(void)pthread_mutex_lock(&mailbox->lock);
	memcpy(mailbox->next, value, mailbox->bytes);
	was_out = mailbox->is_out;
	mailbox->is_out = true;
	(void)pthread_mutex_unlock(&mailbox->lock);
	if (was_out)
		return;
	mailbox->post = (struct loop_post){ .fn = mailbox_on_post, .arg = mailbox };
	loop_post(mailbox->loop, &mailbox->post);
}
