// SPDX-License-Identifier: GPL-2.0
/*
 * Provides an interrupt that arrives in bursts, as that of a busy network card does. Its number is
 * in /proc/interrupts, with the handler's name irq_flood. Its affinity can be changed like that of
 * other interrupts. /proc/irq_flood prints when each burst began and ended.
 *
 * A thread causes the first interrupt of a burst on that CPU. Each handler but the last causes the
 * next interrupt, which arrives when the handler has returned.
 */
#include <linux/cpumask.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irq_work.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/smp.h>

#include "injected.h"

static uint cpu = 1;
module_param(cpu, uint, 0444);
MODULE_PARM_DESC(cpu, "the CPU that handles the interrupt, until its affinity is changed");

static uint length_us = 20;
module_param(length_us, uint, 0444);
MODULE_PARM_DESC(length_us, "microseconds that each handler takes");

static uint burst = 50;
module_param(burst, uint, 0444);
MODULE_PARM_DESC(burst, "interrupts in each burst");

static uint interval_us = 10000;
module_param(interval_us, uint, 0444);
MODULE_PARM_DESC(interval_us, "mean microseconds from the end of a burst to the next");

static uint count = 1000;
module_param(count, uint, 0444);
MODULE_PARM_DESC(count, "number of bursts, after which the thread only waits");

static struct task_struct *thread;
static struct irq_work work;
static int irq;
/* The interrupts of the present burst that are still to come. */
static uint remaining;
static u64 begun;

static irqreturn_t handle(int number, void *unused)
{
	u64 now = ktime_get_ns(), end;

	if (remaining == burst)
		begun = now;
	end = injection_spin(now, length_us);
	if (--remaining)
		irq_work_queue(&work);
	else
		injection_log(begun, end);
	return IRQ_HANDLED;
}

static void raise(struct irq_work *unused)
{
	generic_handle_irq(irq);
}

static void raise_here(void *unused)
{
	irq_work_queue(&work);
}

static call_single_data_t elsewhere = CSD_INIT(raise_here, NULL);

static int set_affinity(struct irq_data *data, const struct cpumask *mask, bool force)
{
	unsigned int target = cpumask_any_and(mask, cpu_online_mask);

	if (target >= nr_cpu_ids)
		return -EINVAL;
	irq_data_update_effective_affinity(data, cpumask_of(target));
	return IRQ_SET_MASK_OK;
}

static void ignore(struct irq_data *data)
{
}

static struct irq_chip chip = {
	.name = "irq-flood",
	.irq_mask = ignore,
	.irq_unmask = ignore,
	.irq_set_affinity = set_affinity,
};

static int run(void *unused)
{
	while (!kthread_should_stop()) {
		/* The previous burst may still last. */
		if (!injection_wait(interval_us, count) || READ_ONCE(remaining))
			continue;
		remaining = burst;
		smp_call_function_single_async(cpumask_first(irq_get_effective_affinity_mask(irq)), &elsewhere);
	}
	return 0;
}

static int __init irq_flood_init(void)
{
	int err;

	if (cpu >= nr_cpu_ids || !cpu_online(cpu) || !burst)
		return -EINVAL;
	err = injections_init(KBUILD_MODNAME, count);
	if (err)
		return err;
	/* Number 0 is not valid everywhere. An owner would keep the module loaded. */
	irq = __irq_alloc_descs(-1, 1, 1, numa_node_id(), NULL, NULL);
	if (irq < 0) {
		err = irq;
		goto no_irq;
	}
	init_irq_work(&work, raise);
	irq_set_chip_and_handler(irq, &chip, handle_simple_irq);
	irq_clear_status_flags(irq, IRQ_NOREQUEST);
	/* Without this flag, x86 changes the affinity at the next interrupt. */
	irq_set_status_flags(irq, IRQ_MOVE_PCNTXT);
	err = request_irq(irq, handle, IRQF_NO_THREAD, KBUILD_MODNAME, &work);
	if (err)
		goto no_handler;
	err = irq_set_affinity(irq, cpumask_of(cpu));
	if (err)
		goto no_thread;
	thread = kthread_run(run, NULL, KBUILD_MODNAME);
	if (IS_ERR(thread)) {
		err = PTR_ERR(thread);
		goto no_thread;
	}
	return 0;

no_thread:
	free_irq(irq, &work);
no_handler:
	irq_free_desc(irq);
no_irq:
	injections_exit(KBUILD_MODNAME);
	return err;
}
module_init(irq_flood_init);

static void __exit irq_flood_exit(void)
{
	kthread_stop(thread);
	/* Ends the present burst. */
	while (READ_ONCE(remaining))
		schedule_timeout_uninterruptible(1);
	irq_work_sync(&work);
	free_irq(irq, &work);
	irq_free_desc(irq);
	injections_exit(KBUILD_MODNAME);
}
module_exit(irq_flood_exit);

MODULE_DESCRIPTION("An interrupt that arrives in bursts, for tests");
MODULE_LICENSE("GPL");
