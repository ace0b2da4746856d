// SPDX-License-Identifier: GPL-2.0
/*
 * Turns interrupts off on one CPU, again and again, as a driver does that holds a lock for too
 * long. A kernel thread that is pinned to that CPU does it. /proc/irqs_off prints when.
 *
 * The interval varies, so that the injections do not stay in phase with a periodic timer.
 */
#include <linux/irqflags.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>

#include "injected.h"

static uint cpu = 1;
module_param(cpu, uint, 0444);
MODULE_PARM_DESC(cpu, "the CPU whose interrupts are turned off");

static uint length_us = 200;
module_param(length_us, uint, 0444);
MODULE_PARM_DESC(length_us, "microseconds for which interrupts are off");

static uint interval_us = 10000;
module_param(interval_us, uint, 0444);
MODULE_PARM_DESC(interval_us, "mean microseconds between two injections");

static uint count = 1000;
module_param(count, uint, 0444);
MODULE_PARM_DESC(count, "number of injections, after which the thread only waits");

static struct task_struct *thread;

/* The interval before the given injection: from 3/4 to 5/4 of the mean, in steps of 1/64. */
static ktime_t interval(uint number)
{
	return ns_to_ktime((u64)interval_us * NSEC_PER_USEC / 64 * (48 + number * 37 % 33));
}

static int run(void *unused)
{
	unsigned long flags;
	ktime_t next;
	u64 begin;

	sched_set_fifo(current);
	while (!kthread_should_stop()) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (kthread_should_stop())
			break;
		if (injected == count) {
			schedule();
			continue;
		}
		next = interval(injected);
		schedule_hrtimeout_range(&next, 0, HRTIMER_MODE_REL);
		if (kthread_should_stop())
			break;
		local_irq_save(flags);
		begin = ktime_get_ns();
		injection_log(begin, injection_spin(begin, length_us));
		local_irq_restore(flags);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static int __init irqs_off_init(void)
{
	int err;

	if (cpu >= nr_cpu_ids || !cpu_online(cpu))
		return -EINVAL;
	err = injections_init(KBUILD_MODNAME, count);
	if (err)
		return err;
	thread = kthread_create_on_cpu(run, NULL, cpu, KBUILD_MODNAME "/%u");
	if (IS_ERR(thread)) {
		injections_exit(KBUILD_MODNAME);
		return PTR_ERR(thread);
	}
	wake_up_process(thread);
	return 0;
}
module_init(irqs_off_init);

static void __exit irqs_off_exit(void)
{
	kthread_stop(thread);
	injections_exit(KBUILD_MODNAME);
}
module_exit(irqs_off_exit);

MODULE_DESCRIPTION("Turns interrupts off for a given time, for tests");
MODULE_LICENSE("GPL");
