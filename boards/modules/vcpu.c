// SPDX-License-Identifier: GPL-2.0
/*
 * Imitates what KVM with VHE does to PMUSERENR_EL0 on one CPU, without a guest. A thread on that
 * CPU writes 0xf to the register when it is switched in. When it is switched out, it restores the
 * previous value (keeps=1, as KVM does since Linux 6.4) or writes 0 (keeps=0, as KVM did before).
 * Therefore an interrupt of that thread sees 0xf.
 *
 * PF_VCPU is set half of the time, as it is while KVM handles the interrupt that caused the exit
 * from the guest.
 */
#include <linux/delay.h>
#include <linux/irqflags.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <asm/sysreg.h>

#define GUEST 0xf

static uint cpu = 1;
module_param(cpu, uint, 0444);
MODULE_PARM_DESC(cpu, "the CPU that the thread runs on");

static bool keeps;
module_param(keeps, bool, 0444);
MODULE_PARM_DESC(keeps, "restore the value that was found (Linux 6.4 and newer) instead of writing 0");

static struct task_struct *thread;
static u64 found;

/*
 * With interrupts off, as in KVM: a change made by an interrupt between the two accesses would be
 * undone when the thread is switched out.
 */
static void load(struct preempt_notifier *notifier, int here)
{
	unsigned long flags;

	local_irq_save(flags);
	found = read_sysreg(pmuserenr_el0);
	write_sysreg(GUEST, pmuserenr_el0);
	local_irq_restore(flags);
}

static void put(struct preempt_notifier *notifier, struct task_struct *next)
{
	write_sysreg(keeps ? found : 0, pmuserenr_el0);
}

static struct preempt_ops ops = {
	.sched_in = load,
	.sched_out = put,
};

static int run(void *unused)
{
	struct preempt_notifier notifier;

	preempt_notifier_init(&notifier, &ops);
	preempt_disable();
	preempt_notifier_register(&notifier);
	load(&notifier, cpu);
	preempt_enable();
	while (!kthread_should_stop()) {
		current->flags |= PF_VCPU;
		mdelay(1);
		current->flags &= ~PF_VCPU;
		mdelay(1);
		cond_resched();
	}
	preempt_disable();
	put(&notifier, NULL);
	preempt_notifier_unregister(&notifier);
	preempt_enable();
	return 0;
}

static int __init vcpu_init(void)
{
	preempt_notifier_inc();
	thread = kthread_create(run, NULL, "vcpu");
	if (IS_ERR(thread)) {
		preempt_notifier_dec();
		return PTR_ERR(thread);
	}
	kthread_bind(thread, cpu);
	wake_up_process(thread);
	return 0;
}
module_init(vcpu_init);

static void __exit vcpu_exit(void)
{
	kthread_stop(thread);
	preempt_notifier_dec();
}
module_exit(vcpu_exit);

MODULE_DESCRIPTION("Imitates KVM's use of PMUSERENR, for tests");
MODULE_LICENSE("GPL");
