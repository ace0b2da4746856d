// SPDX-License-Identifier: GPL-2.0
/*
 * Opens the processor's cycle counter (PMCCNTR; CCNT on ARM1176) to programs on every CPU of an ARM
 * machine, and closes it again on unload. Does not reserve the counter: perf may take, stop or
 * close it at any time. The module reports that, and opens the counter again when perf has left.
 * In some kernels, KVM closes the counter, too. The module reports that, and does not open the
 * counter again before the administrator requests it.
 *
 * The aarch64 and ARMv7 parts were tested on emulated boards. Not tested, because no emulator has
 * them: the counter of ARM1176, which has its own registers; the cycle counters of Cortex-A5, A8
 * and A9; and PMUv3 under a 32-bit kernel.
 *
 * Arm Architecture Reference Manual for A-profile (DDI 0487), D24.5 Performance Monitors registers;
 * for ARMv7-A and ARMv7-R (DDI 0406C), chapter C12; ARM1176JZF-S Technical Reference Manual (DDI
 * 0301H), pages 3-132 to 3-140.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/version.h>

#if KERNEL_VERSION(5, 10, 0) > LINUX_VERSION_CODE
#error "hpt_cycles needs Linux 5.10 or newer: it was not tested with older kernels, and before 5.7 they have no migrate_disable"
#endif

#include <linux/bitfield.h>
#include <linux/bits.h>
#include <linux/capability.h>
#include <linux/cpu.h>
#include <linux/cpu_pm.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/percpu.h>
#include <linux/ratelimit.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/timekeeping.h>
#include <linux/workqueue.h>
#include <asm/barrier.h>
#include <asm/cputype.h>

/* The cycle counter's bit in the registers that have one for each counter. */
#define CYCLES BIT(31)

/*
 * PMCR, and PMNC of ARM1176: enable all counters; count every 64th cycle only; the cycle counter
 * overflows at 64 bits.
 */
#define CONTROL_E BIT(0)
#define CONTROL_D BIT(3)
#define CONTROL_LC BIT(6)

/*
 * PMUSERENR: access to all registers of the unit except those for interrupts; or (PMUv3) read
 * access to the cycle counter only.
 */
#define USER_EN BIT(0)
#define USER_CR BIT(2)

/* The bits that this module saves, sets and restores. It does not change the others. */
#define USER_OURS (USER_EN | USER_CR)

/*
 * EN, SW, CR and ER: the value that KVM writes to PMUSERENR while a guest has the CPU. No other
 * code sets all four bits.
 */
#define USER_GUEST GENMASK(3, 0)

/*
 * PMCCFILTR: do not count in user mode; invert that for user mode in the Non-secure state; also
 * count in EL2.
 */
#define FILTER_U BIT(30)
#define FILTER_NSU BIT(28)
#define FILTER_NSH BIT(27)

/* The kind of performance monitor unit of the current CPU. */
enum unit {
	UNIT_NONE,
	UNIT_ARM1176,	/* its own registers in c15, 32 bits, no filter */
	UNIT_V1,	/* no filter for the cycle counter */
	UNIT_V2,
	UNIT_V3,
};

#ifdef CONFIG_ARM64

#include <asm/sysreg.h>
#include <asm/virt.h>

/* ID_AA64DFR0_EL1.PMUVer; 0xf is an implementation-defined unit. */
static enum unit unit(void)
{
	u32 version = FIELD_GET(GENMASK_ULL(11, 8), read_sysreg(id_aa64dfr0_el1));

	return version && version != 0xf ? UNIT_V3 : UNIT_NONE;
}

static u32 read_control(void)
{
	return read_sysreg(pmcr_el0);
}

static void write_control(u32 value)
{
	write_sysreg(value, pmcr_el0);
}

static u32 read_enabled(void)
{
	return read_sysreg(pmcntenset_el0);
}

static void enable(void)
{
	write_sysreg(CYCLES, pmcntenset_el0);
}

static void disable(void)
{
	write_sysreg(CYCLES, pmcntenclr_el0);
}

static u32 read_interrupts(void)
{
	return read_sysreg(pmintenset_el1);
}

static void clear_overflow(void)
{
	write_sysreg(CYCLES, pmovsclr_el0);
}

static u32 read_user(void)
{
	return read_sysreg(pmuserenr_el0);
}

static void write_user(u32 value)
{
	write_sysreg(value, pmuserenr_el0);
}

static u32 read_filter(void)
{
	return read_sysreg(pmccfiltr_el0);
}

static void write_filter(u32 value)
{
	write_sysreg(value, pmccfiltr_el0);
}

static u64 read_cycles(void)
{
	return read_sysreg(pmccntr_el0);
}

/* Nothing is computed between two readings. */
static void read_cycles_in_a_row(unsigned long *readings, int count)
{
	int i;

	for (i = 0; i < count; i++)
		readings[i] = read_sysreg(pmccntr_el0);
}

/*
 * Counts in user mode and in the kernel. Without NSH, the counter would stop while a kernel in EL2
 * runs.
 */
static u32 wanted_filter(void)
{
	return is_kernel_in_hyp_mode() ? FILTER_NSH : 0;
}

/* The kernel's own driver sets LC, too. */
#define WANTED_CONTROL (CONTROL_E | CONTROL_LC)

#else /* 32-bit ARM */

#include <asm/cp15.h>

#define PMCR __ACCESS_CP15(c9, 0, c12, 0)
#define PMCNTENSET __ACCESS_CP15(c9, 0, c12, 1)
#define PMCNTENCLR __ACCESS_CP15(c9, 0, c12, 2)
#define PMOVSR __ACCESS_CP15(c9, 0, c12, 3)
#define PMSELR __ACCESS_CP15(c9, 0, c12, 5)
#define PMCCNTR __ACCESS_CP15(c9, 0, c13, 0)
#define PMXEVTYPER __ACCESS_CP15(c9, 0, c13, 1)
#define PMUSERENR __ACCESS_CP15(c9, 0, c14, 0)
#define PMINTENSET __ACCESS_CP15(c9, 0, c14, 1)

/* The value of PMSELR that makes PMXEVTYPER the filter of the cycle counter. */
#define SELECT_CYCLES 31

/*
 * ARM1176. PMNC contains three bits each for interrupts and overflow flags (written as one to
 * clear); the last of each is for the cycle counter.
 */
#define PMNC __ACCESS_CP15(c15, 0, c12, 0)
#define CCNT __ACCESS_CP15(c15, 0, c12, 1)
#define ACCESS_VALIDATION __ACCESS_CP15(c15, 0, c9, 0)
#define PMNC_OTHER_INTERRUPTS GENMASK(5, 4)
#define PMNC_CYCLES_INTERRUPT BIT(6)
#define PMNC_FLAGS GENMASK(10, 8)
#define PMNC_CYCLES_FLAG BIT(10)

/*
 * Uses the part number if ID_DFR0.PerfMon is not conclusive: 0 does not exclude PMUv1 (DDI 0406C,
 * B4.1.82).
 */
static enum unit unit(void)
{
	switch (read_cpuid_part()) {
	case ARM_CPU_PART_ARM1176:
		return UNIT_ARM1176;
	case ARM_CPU_PART_CORTEX_A5:
	case ARM_CPU_PART_CORTEX_A8:
	case ARM_CPU_PART_CORTEX_A9:
		return UNIT_V1;
	}
	/*
	 * Before ARMv7, the field is absent or has another meaning. The kernel identifies ARMv7
	 * with these two registers, too.
	 */
	if (FIELD_GET(GENMASK(19, 16), read_cpuid_id()) != 0xf || FIELD_GET(GENMASK(3, 0), read_cpuid_ext(CPUID_EXT_MMFR0)) < 3)
		return UNIT_NONE;
	switch (FIELD_GET(GENMASK(27, 24), read_cpuid_ext(CPUID_EXT_DFR0))) {
	case 1:
		return UNIT_V1;
	case 2:
		return UNIT_V2;
	case 0:
	case 0xf:
		return UNIT_NONE;
	default:
		return UNIT_V3;
	}
}

static bool is_arm1176(void)
{
	return unit() == UNIT_ARM1176;
}

static u32 read_control(void)
{
	return is_arm1176() ? read_sysreg(PMNC) : read_sysreg(PMCR);
}

/* Writing ones to the flags in PMNC would clear them, including those of perf. */
static void write_control(u32 value)
{
	if (is_arm1176())
		write_sysreg(value & ~PMNC_FLAGS, PMNC);
	else
		write_sysreg(value, PMCR);
}

/* On ARM1176, all counters count as soon as E is set. */
static u32 read_enabled(void)
{
	return is_arm1176() ? CYCLES : read_sysreg(PMCNTENSET);
}

static void enable(void)
{
	if (!is_arm1176())
		write_sysreg(CYCLES, PMCNTENSET);
}

static void disable(void)
{
	if (!is_arm1176())
		write_sysreg(CYCLES, PMCNTENCLR);
}

static u32 read_interrupts(void)
{
	u32 control;

	if (!is_arm1176())
		return read_sysreg(PMINTENSET);
	control = read_sysreg(PMNC);
	return FIELD_GET(PMNC_OTHER_INTERRUPTS, control) | (control & PMNC_CYCLES_INTERRUPT ? CYCLES : 0);
}

static void clear_overflow(void)
{
	if (is_arm1176())
		write_sysreg((read_sysreg(PMNC) & ~PMNC_FLAGS) | PMNC_CYCLES_FLAG, PMNC);
	else
		write_sysreg(CYCLES, PMOVSR);
}

/*
 * Bit 0 (V) of ARM1176's register grants the same access as EN. It can only be written in the
 * Secure state, in which Linux runs on a Pi 1.
 */
static u32 read_user(void)
{
	return is_arm1176() ? read_sysreg(ACCESS_VALIDATION) : read_sysreg(PMUSERENR);
}

static void write_user(u32 value)
{
	if (is_arm1176())
		write_sysreg(value, ACCESS_VALIDATION);
	else
		write_sysreg(value, PMUSERENR);
}

/* Selects the filter with PMSELR, and restores PMSELR. */
static u32 read_filter(void)
{
	u32 selected, value;

	if (unit() < UNIT_V2)
		return 0;
	selected = read_sysreg(PMSELR);
	write_sysreg(SELECT_CYCLES, PMSELR);
	isb();
	value = read_sysreg(PMXEVTYPER);
	write_sysreg(selected, PMSELR);
	isb();
	return value;
}

static void write_filter(u32 value)
{
	u32 selected;

	if (unit() < UNIT_V2)
		return;
	selected = read_sysreg(PMSELR);
	write_sysreg(SELECT_CYCLES, PMSELR);
	isb();
	write_sysreg(value, PMXEVTYPER);
	write_sysreg(selected, PMSELR);
	isb();
}

static u64 read_cycles(void)
{
	return is_arm1176() ? read_sysreg(CCNT) : read_sysreg(PMCCNTR);
}

/* Nothing is computed between two readings. */
static void read_cycles_in_a_row(unsigned long *readings, int count)
{
	int i;

	if (is_arm1176())
		for (i = 0; i < count; i++)
			readings[i] = read_sysreg(CCNT);
	else
		for (i = 0; i < count; i++)
			readings[i] = read_sysreg(PMCCNTR);
}

static u32 wanted_filter(void)
{
	return 0;
}

/* The kernel's own 32-bit driver does not change LC, and neither does this module. */
#define WANTED_CONTROL CONTROL_E

#endif

/* --- one CPU: these functions run on it, with interrupts off ------------------------------------------------------- */

enum state {
	STATE_UNKNOWN,
	STATE_ABSENT,
	STATE_OPEN,
	STATE_PERF,
	STATE_CLOSED,
	STATE_STANDING,
	STATE_TAKEN,
	STATE_GUEST,
	STATES,
};

static const char * const names[STATES] = {
	[STATE_ABSENT] = "absent",
	[STATE_OPEN] = "open",
	[STATE_PERF] = "perf",
	[STATE_CLOSED] = "closed",
	[STATE_STANDING] = "standing",
	[STATE_TAKEN] = "taken",
	[STATE_GUEST] = "guest",
};

static const char * const words[STATES] = {
	[STATE_ABSENT] = "no working cycle counter",
	[STATE_OPEN] = "programs can read the cycle counter",
	[STATE_PERF] = "perf is counting; until it ends, it may set, close or stop the cycle counter",
	[STATE_CLOSED] = "the cycle counter was closed, as perf does: a program that reads it gets SIGILL",
	[STATE_STANDING] = "the cycle counter was stopped, as perf does: programs can read it, but it does not advance",
	[STATE_TAKEN] = "closed by KVM after a guest, or by kernel.perf_user_access: readers get SIGILL; stays closed until check_seconds is written",
	[STATE_GUEST] = "a guest of KVM has the CPU; the module waits until the guest's thread is switched out",
};

struct cpu_counter {
	/* The module has opened the counter; the values before that. */
	bool opened;
	u32 control, enabled, user, filter;
	/* The counter was tried and did not count. */
	bool dead;
	/*
	 * Something other than a perf event closed the counter. It would do so again and end the
	 * next reader, so the counter stays closed until root requests otherwise.
	 */
	bool given_up;
	/* The state that was last reported. */
	enum state said;
};

static DEFINE_PER_CPU(struct cpu_counter, processors);

/* The smallest permission that the unit offers: on PMUv3, read access to the cycle counter. */
static u32 wanted_user(void)
{
	return unit() == UNIT_V3 ? USER_CR : USER_EN;
}

/* Programs may at least read the counter. */
static bool is_given(void)
{
	return read_user() & USER_OURS;
}

/*
 * KVM uses PMUSERENR: the register does not contain the host's value, and KVM overwrites other
 * values. With VHE, this lasts from when the thread that runs the guest is switched in until it is
 * switched out. An interrupt of that thread sees KVM's value. Another thread never does.
 *
 * The value that another thread finds depends on the kernel. Linux 6.4 restores the host's value
 * (commit 8681f7175901), and so do some stable kernels. Others leave 0. With those, the counter
 * cannot be kept open on a CPU that has guests.
 */
static bool is_guests(void)
{
	return unit() == UNIT_V3 && (read_user() & USER_GUEST) == USER_GUEST;
}

/* Perf enables the interrupts of the counters that it uses; no other code does. */
static enum state look(void)
{
	u32 interrupts, filter;
	bool stands;

	if (unit() == UNIT_NONE || this_cpu_read(processors.dead))
		return STATE_ABSENT;
	if (is_guests())
		return this_cpu_read(processors.given_up) ? STATE_TAKEN : STATE_GUEST;
	interrupts = read_interrupts();
	filter = read_filter();
	stands = !(read_control() & CONTROL_E) || !(read_enabled() & CYCLES) || !(filter & FILTER_U) != !(filter & FILTER_NSU);
	if (!(interrupts & CYCLES) && !stands && is_given())
		return STATE_OPEN;
	if (interrupts)
		return STATE_PERF;
	if (is_given())
		return STATE_STANDING;
	/* Perf also stops the counter when it closes it. */
	if (this_cpu_read(processors.given_up) || (this_cpu_read(processors.opened) && !stands))
		return STATE_TAKEN;
	return STATE_CLOSED;
}

static bool counts(void)
{
	u64 before = read_cycles();

	udelay(1);
	isb();
	return read_cycles() != before;
}

/*
 * Restores what the module changed, unless other code has changed it since. Does not restore the
 * value of the counter.
 */
static void close_here(void)
{
	struct cpu_counter *processor = this_cpu_ptr(&processors);
	u32 ours = CONTROL_D | (WANTED_CONTROL & ~CONTROL_E);
	u32 control;

	if (!processor->opened)
		return;
	processor->opened = false;
	if (!is_guests() && read_user() == (processor->user | wanted_user()))
		write_user(processor->user);
	if (read_interrupts() & CYCLES)
		return;
	if (!(processor->enabled & CYCLES))
		disable();
	isb();
	clear_overflow();
	write_filter(processor->filter);
	control = (read_control() & ~ours) | (processor->control & ours);
	/* Perf may be using other counters. */
	if (!(processor->control & CONTROL_E) && !read_interrupts())
		control &= ~CONTROL_E;
	write_control(control);
	isb();
}

/* Restores what the module changed on this CPU, and does not touch the CPU from now on. */
static void give_up_here(void)
{
	close_here();
	this_cpu_write(processors.given_up, true);
}

/*
 * Does nothing while a guest has this CPU, and after the CPU was given up.
 * Does nothing while perf counts anything on this CPU: perf would close the counter at the next
 * opportunity, and perf sets a cycle counter that it uses to its own values. Never writes to the
 * counter, because a program may be measuring with it.
 */
static void open_here(void)
{
	struct cpu_counter *processor = this_cpu_ptr(&processors);
	bool first = !processor->opened;

	if (unit() == UNIT_NONE || processor->dead || processor->given_up || is_guests() || read_interrupts())
		return;
	/* This is an interrupt of a thread that has just left a guest. */
	if (current->flags & PF_VCPU)
		return;
	if (first) {
		processor->control = read_control();
		processor->enabled = read_enabled();
		processor->user = read_user() & USER_OURS;
		processor->filter = read_filter();
		processor->opened = true;
	}
	disable();
	isb();
	clear_overflow();
	write_filter(wanted_filter());
	isb();
	enable();
	write_control((read_control() & ~CONTROL_D) | WANTED_CONTROL);
	isb();
	if (first && !counts()) {
		close_here();
		processor->dead = true;
		return;
	}
	write_user(processor->user | wanted_user());
	isb();
}

/* --- all CPUs ------------------------------------------------------------------------------------------------------ */

enum purpose {
	/* Opens nothing. */
	LOOK,
	/* Opens the counter after perf has left. */
	OPEN,
	/* Also opens the counter if it was given up. */
	OPEN_ANEW,
};

/* A visit to a CPU: its purpose and its result. */
struct visit {
	enum purpose purpose;
	/* Other code had opened the counter before this module did. */
	bool given;
	/* The module has opened the counter for programs of the host, even if a guest has the CPU. */
	bool opened;
	enum state found;
	enum state left;
};

static void visit_here(void *data)
{
	struct visit *visit = data;
	unsigned long flags;

	local_irq_save(flags);
	visit->found = look();
	visit->given = visit->found != STATE_ABSENT && !this_cpu_read(processors.opened) && !is_guests() && is_given();
	if (visit->purpose == OPEN_ANEW)
		this_cpu_write(processors.given_up, false);
	else if (visit->found == STATE_TAKEN)
		give_up_here();
	if (visit->purpose != LOOK && visit->found != STATE_OPEN)
		open_here();
	visit->left = look();
	visit->opened = this_cpu_read(processors.opened);
	local_irq_restore(flags);
}

/* Logs a new state of a CPU. Rate-limited: perf can come and go with every context switch. */
static void say(unsigned int cpu, enum state state)
{
	static DEFINE_RATELIMIT_STATE(limit, 10 * HZ, 64);
	enum state *said = per_cpu_ptr(&processors.said, cpu);

	if (*said == state || !__ratelimit(&limit))
		return;
	if (state == STATE_OPEN)
		pr_info("CPU%u: %s\n", cpu, words[state]);
	else
		pr_warn("CPU%u: %s\n", cpu, words[state]);
	*said = state;
}

/* Serializes checks and queries of the state. */
static DEFINE_MUTEX(visiting);

/*
 * For a CPU where the visit by interrupt found a guest's value. This visit runs in a thread on the
 * CPU, once the guest's thread is switched out, and finds the host's value. The interrupt is tried
 * first, because most CPUs have no guest, and because a thread would have to wait for a real-time
 * thread that never blocks.
 */
static DEFINE_PER_CPU(struct work_struct, second_visits);

static void visit_again(struct work_struct *work)
{
	struct visit visit = { .purpose = OPEN };
	unsigned int cpu;

	mutex_lock(&visiting);
	/* If the CPU went offline, the work runs on another CPU, which is visited instead. */
	migrate_disable();
	cpu = smp_processor_id();
	visit_here(&visit);
	migrate_enable();
	if (visit.left != STATE_GUEST)
		say(cpu, visit.left);
	mutex_unlock(&visiting);
}

static void check_all(enum purpose purpose, struct cpumask *in_state)
{
	struct visit visit = { .purpose = purpose };
	unsigned int cpu;

	mutex_lock(&visiting);
	cpus_read_lock();
	for_each_online_cpu(cpu) {
		if (smp_call_function_single(cpu, visit_here, &visit, 1))
			continue;
		if (visit.left == STATE_GUEST && purpose != LOOK)
			schedule_work_on(cpu, per_cpu_ptr(&second_visits, cpu));
		/*
		 * If the module opened the counter, a guest alone changes nothing for programs. The
		 * second visit finds out whether KVM does.
		 */
		if (visit.left != STATE_GUEST || !visit.opened) {
			if (visit.found != visit.left && visit.found != STATE_GUEST)
				say(cpu, visit.found);
			say(cpu, visit.left);
		}
		if (in_state)
			cpumask_set_cpu(cpu, &in_state[visit.left]);
	}
	cpus_read_unlock();
	mutex_unlock(&visiting);
}

/* The kernel does not report when perf takes a counter, so the CPUs are checked periodically. */
#define MAX_CHECK_SECONDS (24 * 3600)
static unsigned int check_seconds = 10;
static bool loaded;
static DEFINE_MUTEX(loading);

static void check(struct work_struct *work);
static DECLARE_DEFERRABLE_WORK(checking, check);

static void plan_check(void)
{
	if (check_seconds)
		schedule_delayed_work(&checking, check_seconds * HZ);
}

static void check(struct work_struct *work)
{
	check_all(OPEN, NULL);
	plan_check();
}

/* Linux 5.10 has no param_set_uint_minmax. */
static int set_check_seconds(const char *value, const struct kernel_param *parameter)
{
	unsigned int seconds;
	int err = kstrtouint(value, 0, &seconds);

	if (!err && seconds > MAX_CHECK_SECONDS)
		err = -EINVAL;
	mutex_lock(&loading);
	if (loaded)
		cancel_delayed_work_sync(&checking);
	if (!err)
		check_seconds = seconds;
	if (loaded) {
		if (!err)
			check_all(OPEN_ANEW, NULL);
		plan_check();
	}
	mutex_unlock(&loading);
	return err;
}

static const struct kernel_param_ops check_seconds_ops = {
	.set = set_check_seconds,
	.get = param_get_uint,
};
module_param_cb(check_seconds, &check_seconds_ops, &check_seconds, 0644);
MODULE_PARM_DESC(check_seconds,
		 "seconds between checks of every CPU, which open the counter again after perf has left (0: never); writing it checks at once and also opens taken CPUs");

/*
 * The CPUs in each state, as last looked at for a reader. A look interrupts every CPU, also an isolated one, and any
 * user may read the state: users without CAP_SYS_ADMIN together cause at most one look per second, and otherwise get the
 * result of the last one. The kernel locks the parameters of a module while it reads one.
 */
static struct cpumask looked_at[STATES];

static const struct cpumask *look_at_all(void)
{
	static unsigned long next_look;
	static bool has_looked;
	bool is_admin = capable(CAP_SYS_ADMIN);

	if (has_looked && !is_admin && time_before(jiffies, next_look))
		return looked_at;
	memset(looked_at, 0, sizeof(looked_at));
	check_all(LOOK, looked_at);
	if (!is_admin) {
		has_looked = true;
		next_look = jiffies + HZ;
	}
	return looked_at;
}

/* Prints a line for each state: its name, and the CPUs in this state. Opens nothing. */
static int get_state(char *buffer, const struct kernel_param *parameter)
{
	const struct cpumask *in_state = look_at_all();
	int state, length = 0;

	for (state = STATE_ABSENT; state < STATES; state++) {
		if (!cpumask_empty(&in_state[state]))
			length += scnprintf(buffer + length, PAGE_SIZE - length, "%s %*pbl\n", names[state],
					    cpumask_pr_args(&in_state[state]));
	}
	return length;
}

static const struct kernel_param_ops state_ops = { .get = get_state };
module_param_cb(state, &state_ops, NULL, 0444);
MODULE_PARM_DESC(state,
		 "state of the counter of each CPU: open, perf (in use by perf), closed, standing, taken (closed by KVM or root), guest (KVM has it), or absent");

/*
 * Prints a description of each state except open: why reading the counter ends the program, or why
 * the counter does not advance.
 */
static int get_why(char *buffer, const struct kernel_param *parameter)
{
	const struct cpumask *in_state = look_at_all();
	int state, length = 0;

	for (state = STATE_ABSENT; state < STATES; state++) {
		if (state != STATE_OPEN && !cpumask_empty(&in_state[state]))
			length += scnprintf(buffer + length, PAGE_SIZE - length, "CPU %*pbl: %s\n",
					    cpumask_pr_args(&in_state[state]), words[state]);
	}
	return length;
}

static const struct kernel_param_ops why_ops = { .get = get_why };
module_param_cb(why, &why_ops, NULL, 0444);
MODULE_PARM_DESC(why, "why programs cannot read the counter of a CPU; empty if they can read all");

/* --- readings in the kernel ---------------------------------------------------------------------------------------- */

/*
 * Two files in debugfs, which only root may read. Each read from the start of a file makes READINGS readings in a row
 * on the current CPU, and prints their differences, one per line, in the order of the readings. The first difference
 * belongs to the pair of readings that follows the pause of the program before the read. A read takes less than a
 * millisecond, can be preempted, and changes nothing.
 */
#define READINGS 1000

/* Room for all differences: the file is printed once, because printing it again would measure again. */
#define LONGEST_LINE sizeof("-9223372036854775808\n")

static int show_clock(struct seq_file *file, void *unused)
{
	struct timespec64 *readings = kcalloc(READINGS, sizeof(*readings), GFP_KERNEL);
	int i;

	if (!readings)
		return -ENOMEM;
	migrate_disable();
	for (i = 0; i < READINGS; i++)
		ktime_get_real_ts64(&readings[i]);
	migrate_enable();
	for (i = 1; i < READINGS; i++)
		seq_printf(file, "%lld\n", timespec64_to_ns(&readings[i]) - timespec64_to_ns(&readings[i - 1]));
	kfree(readings);
	return 0;
}

/* Fails with EBUSY if the counter of the CPU is not open: perf may have stopped it or may set it. */
static int show_cycles(struct seq_file *file, void *unused)
{
	unsigned long *readings = kcalloc(READINGS, sizeof(*readings), GFP_KERNEL);
	struct visit before = { .purpose = LOOK }, after = { .purpose = LOOK };
	int i, err = 0;

	if (!readings)
		return -ENOMEM;
	migrate_disable();
	visit_here(&before);
	read_cycles_in_a_row(readings, READINGS);
	visit_here(&after);
	migrate_enable();
	if (before.left != STATE_OPEN || after.left != STATE_OPEN)
		err = -EBUSY;
	/* On 32-bit ARM, the counter has 32 bits, too. */
	for (i = 1; !err && i < READINGS; i++)
		seq_printf(file, "%lu\n", readings[i] - readings[i - 1]);
	kfree(readings);
	return err;
}

static int open_clock(struct inode *inode, struct file *file)
{
	return single_open_size(file, show_clock, NULL, READINGS * LONGEST_LINE);
}

static int open_cycles(struct inode *inode, struct file *file)
{
	return single_open_size(file, show_cycles, NULL, READINGS * LONGEST_LINE);
}

static const struct file_operations clock_operations = {
	.owner = THIS_MODULE,
	.open = open_clock,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = single_release,
};

static const struct file_operations cycles_operations = {
	.owner = THIS_MODULE,
	.open = open_cycles,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = single_release,
};

static struct dentry *folder;

/* Without debugfs, these calls do nothing. */
static void create_files(void)
{
	folder = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("clock_ns", 0400, folder, NULL, &clock_operations);
	debugfs_create_file("cycles", 0400, folder, NULL, &cycles_operations);
}

/* --- loading ------------------------------------------------------------------------------------------------------- */

/*
 * The kernel's own driver resets the unit of a CPU before this function is called when the CPU
 * comes online, and before `woken` is called when it wakes up.
 */
static int came_online(unsigned int cpu)
{
	struct visit visit = { .purpose = OPEN_ANEW };

	visit_here(&visit);
	if (visit.given)
		pr_warn("CPU%u: other code already lets programs read the cycle counter; it stays open when this module is unloaded\n", cpu);
	if (visit.left == STATE_OPEN)
		*per_cpu_ptr(&processors.said, cpu) = visit.left;
	else
		say(cpu, visit.left);
	return 0;
}

static int goes_offline(unsigned int cpu)
{
	unsigned long flags;
	bool foreign;

	local_irq_save(flags);
	/* The thread that runs this has no guest, so KVM is not using the register. */
	foreign = this_cpu_read(processors.opened) && is_guests();
	close_here();
	local_irq_restore(flags);
	if (foreign)
		pr_warn("CPU%u: other code has changed PMUSERENR; it stays as it is\n", cpu);
	return 0;
}

/*
 * A core that was powered down has lost its registers. Runs on that core, with interrupts off. A
 * counter that other code closed before the power-down is given up first: if it were opened at
 * every wake-up, a check would never find it closed.
 */
static int woken(struct notifier_block *block, unsigned long event, void *data)
{
	if (event == CPU_PM_ENTER && look() == STATE_TAKEN)
		give_up_here();
	if ((event == CPU_PM_EXIT || event == CPU_PM_ENTER_FAILED) && look() != STATE_OPEN)
		open_here();
	return NOTIFY_OK;
}

/* Runs after the kernel's own driver, whose priority is 0. */
static struct notifier_block waking = {
	.notifier_call = woken,
	.priority = -1,
};

static int online;

static int __init hpt_cycles_init(void)
{
	struct cpumask *in_state = kcalloc(STATES, sizeof(*in_state), GFP_KERNEL);
	unsigned int cpu;
	int err;

	if (!in_state)
		return -ENOMEM;
	for_each_possible_cpu(cpu)
		INIT_WORK(per_cpu_ptr(&second_visits, cpu), visit_again);
	online = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "hpt/cycles:online", came_online, goes_offline);
	if (online < 0) {
		err = online;
		goto free;
	}
	check_all(LOOK, in_state);
	if (cpumask_equal(&in_state[STATE_ABSENT], cpu_online_mask)) {
		pr_err("no CPU has a working cycle counter that this module supports\n");
		err = -ENODEV;
		goto remove;
	}
	err = cpu_pm_register_notifier(&waking);
	if (err)
		goto remove;
	pr_info("programs can read the cycle counter of CPU %*pbl\n", cpumask_pr_args(&in_state[STATE_OPEN]));
	mutex_lock(&loading);
	loaded = true;
	plan_check();
	mutex_unlock(&loading);
	create_files();
	goto free;

remove:
	cpuhp_remove_state(online);
free:
	kfree(in_state);
	return err;
}
module_init(hpt_cycles_init);

static void __exit hpt_cycles_exit(void)
{
	unsigned int cpu;

	debugfs_remove_recursive(folder);
	/* From here on, writing check_seconds does not start a check. */
	mutex_lock(&loading);
	loaded = false;
	mutex_unlock(&loading);
	cancel_delayed_work_sync(&checking);
	for_each_possible_cpu(cpu)
		cancel_work_sync(per_cpu_ptr(&second_visits, cpu));
	cpu_pm_unregister_notifier(&waking);
	cpuhp_remove_state(online);
}
module_exit(hpt_cycles_exit);

MODULE_DESCRIPTION("Lets programs read the processor's cycle counter on ARM");
MODULE_AUTHOR("The hpt authors");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
