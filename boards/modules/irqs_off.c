// SPDX-License-Identifier: GPL-2.0
/*
 * Turns interrupts off on one CPU, again and again, as a driver does that holds a lock for too
 * long. A kernel thread that is pinned to that CPU does it. /proc/irqs_off prints when.
 */
#include <linux/irqflags.h>
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

static int run(void *unused)
{
	unsigned long flags;
	u64 begin;

	sched_set_fifo(current);
	while (!kthread_should_stop()) {
		if (!injection_wait(interval_us, count))
			continue;
		local_irq_save(flags);
		begin = ktime_get_ns();
		injection_log(begin, injection_spin(begin, length_us));
		local_irq_restore(flags);
	}
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
