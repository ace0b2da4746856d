// SPDX-License-Identifier: GPL-2.0
/*
 * Notifies the drivers on every CPU that the core is powered down and up again, as deep idle states
 * do. The kernel's driver then resets the performance monitors. Nothing is powered down: emulated
 * boards have no such idle states.
 */
#include <linux/cpu.h>
#include <linux/cpu_pm.h>
#include <linux/module.h>
#include <linux/workqueue.h>

/* Runs in a task with interrupts off, as in the idle task. */
static long power_down(void *unused)
{
	unsigned long flags;
	int err;

	local_irq_save(flags);
	err = cpu_pm_enter();
	if (!err)
		err = cpu_pm_exit();
	local_irq_restore(flags);
	return err;
}

static int __init power_down_init(void)
{
	unsigned int cpu;
	long err = 0;

	cpus_read_lock();
	for_each_online_cpu(cpu) {
		err = work_on_cpu(cpu, power_down, NULL);
		if (err)
			break;
	}
	cpus_read_unlock();
	return err;
}
module_init(power_down_init);

static void __exit power_down_exit(void)
{
}
module_exit(power_down_exit);

MODULE_DESCRIPTION("Notifies drivers of a simulated core power-down, for tests");
MODULE_LICENSE("GPL");
