// SPDX-License-Identifier: GPL-2.0
/*
 * A CPU frequency driver with the governors performance and powersave. Under powersave, which is
 * active at first, a timer takes half of the time of one CPU, as if the CPU ran at half of its
 * frequency. Emulated boards have no real frequency driver.
 */
#include <linux/cpufreq.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/smp.h>

#include "injected.h"

#define LOWEST_KHZ 500000
#define HIGHEST_KHZ 1000000
/* Not in phase with the periods of programs. */
#define PERIOD_US 700

static uint cpu = 1;
module_param(cpu, uint, 0444);
MODULE_PARM_DESC(cpu, "the CPU that powersave slows down");

static struct hrtimer timer;

static enum hrtimer_restart slow_down(struct hrtimer *unused)
{
	injection_spin(ktime_get_ns(), PERIOD_US / 2);
	hrtimer_forward_now(&timer, ns_to_ktime(PERIOD_US * NSEC_PER_USEC));
	return HRTIMER_RESTART;
}

/* Runs on the CPU. */
static void start(void *unused)
{
	hrtimer_start(&timer, ns_to_ktime(PERIOD_US * NSEC_PER_USEC), HRTIMER_MODE_REL_PINNED_HARD);
}

static int slow_init(struct cpufreq_policy *policy)
{
	policy->cpuinfo.min_freq = LOWEST_KHZ;
	policy->cpuinfo.max_freq = HIGHEST_KHZ;
	policy->min = LOWEST_KHZ;
	policy->max = HIGHEST_KHZ;
	policy->policy = CPUFREQ_POLICY_POWERSAVE;
	return 0;
}

static int slow_exit(struct cpufreq_policy *policy)
{
	if (policy->cpu == cpu)
		hrtimer_cancel(&timer);
	return 0;
}

static int slow_verify(struct cpufreq_policy_data *policy)
{
	cpufreq_verify_within_cpu_limits(policy);
	return 0;
}

static int slow_set_policy(struct cpufreq_policy *policy)
{
	if (policy->cpu != cpu)
		return 0;
	hrtimer_cancel(&timer);
	if (policy->policy == CPUFREQ_POLICY_POWERSAVE)
		return smp_call_function_single(cpu, start, NULL, true);
	return 0;
}

static struct cpufreq_driver slow_driver = {
	.name = KBUILD_MODNAME,
	.init = slow_init,
	.exit = slow_exit,
	.verify = slow_verify,
	.setpolicy = slow_set_policy,
};

static int __init slow_powersave_init(void)
{
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	timer.function = slow_down;
	return cpufreq_register_driver(&slow_driver);
}
module_init(slow_powersave_init);

static void __exit slow_powersave_exit(void)
{
	cpufreq_unregister_driver(&slow_driver);
}
module_exit(slow_powersave_exit);

MODULE_DESCRIPTION("A governor that makes a CPU slow, for tests");
MODULE_LICENSE("GPL");
