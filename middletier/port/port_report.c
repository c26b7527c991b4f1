/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port_report.c -- what a port tells main of its own life: failed, stopped, once each at most
 *
 *	the port's thread: mt_port_fail, mt_port_tell_stopped --post--> main: port->life->host
 */
#include "port/port_report.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "base/sm.h"
#include "cleave/loop.h"
#include "common/port.h"
#include "port/port.h"
#include "port/port_life.h"

static void
report_on_failed(struct loop_post *post, void *arg)
{
	struct mt_port *port = arg;

	(void)post;
	CHECK_OBJ(port, MT_PORT_MAGIC);
	port->life->host->on_failed(port, port->life->failure);
}

static void
report_on_stopped(struct loop_post *post, void *arg)
{
	struct mt_port *port = arg;

	(void)post;
	CHECK_OBJ(port, MT_PORT_MAGIC);
	port->life->host->on_stopped(port);
}

/* A report is made once. */
static void
report_make(struct mt_port *port, struct mt_port_report *report,
    void (*fn)(struct loop_post *post, void *arg))
{
	assert(fn != NULL);
	if (report->is_out)
		return;
	report->is_out = true;
	report->post = (struct loop_post){ .fn = fn, .arg = port };
	loop_post(port->main_loop, &report->post);
}

void
mt_port_fail(struct mt_port *port, const char *format, ...)
{
	va_list args;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	if (port->life->failed_report.is_out)
		return;
	va_start(args, format);
	(void)vsnprintf(port->life->failure, sizeof(port->life->failure), format, args);
	va_end(args);
	report_make(port, &port->life->failed_report, report_on_failed);
}

void
mt_port_tell_stopped(struct mt_port *port)
{
	assert(port->sm.state == MT_PORT_STOPPED);
	report_make(port, &port->life->stopped_report, report_on_stopped);
}
