// SPDX-License-Identifier: GPL-2.0
/*
 * Work for a kworker of one CPU that takes long, again and again, as that of a careless driver. A
 * kernel thread hands it over. /proc/slow_work prints when it ran.
 */
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/workqueue.h>

#include "injected.h"

static uint cpu = 1;
module_param(cpu, uint, 0444);
MODULE_PARM_DESC(cpu, "the CPU whose kworker does the work");

static uint length_us = 1200;
module_param(length_us, uint, 0444);
MODULE_PARM_DESC(length_us, "microseconds that the work takes");

static uint interval_us = 20000;
module_param(interval_us, uint, 0444);
MODULE_PARM_DESC(interval_us, "mean microseconds between the ends and the beginnings of the work");

static uint count = 1000;
module_param(count, uint, 0444);
MODULE_PARM_DESC(count, "number of injections, after which the thread only waits");

static struct task_struct *thread;

static void slow_work(struct work_struct *unused)
{
	u64 begin = ktime_get_ns();

	injection_log(begin, injection_spin(begin, length_us));
}
static DECLARE_WORK(work, slow_work);

static int run(void *unused)
{
	while (!kthread_should_stop()) {
		if (!injection_wait(interval_us, count))
			continue;
		queue_work_on(cpu, system_wq, &work);
		flush_work(&work);
	}
	return 0;
}

static int __init slow_work_init(void)
{
	int err;

	if (cpu >= nr_cpu_ids || !cpu_online(cpu))
		return -EINVAL;
	err = injections_init(KBUILD_MODNAME, count);
	if (err)
		return err;
	thread = kthread_run(run, NULL, KBUILD_MODNAME);
	if (IS_ERR(thread)) {
		injections_exit(KBUILD_MODNAME);
		return PTR_ERR(thread);
	}
	return 0;
}
module_init(slow_work_init);

static void __exit slow_work_exit(void)
{
	kthread_stop(thread);
	injections_exit(KBUILD_MODNAME);
}
module_exit(slow_work_exit);

MODULE_DESCRIPTION("Lets a kworker work for a given time, for tests");
MODULE_LICENSE("GPL");
