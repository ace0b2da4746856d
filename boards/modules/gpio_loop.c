// SPDX-License-Identifier: GPL-2.0
/*
 * A GPIO chip with lines that are wired together: line 0 drives line 1, and line 2 drives line 3.
 * Line 4 is not connected, and the module itself uses line 5. Only lines 1 and 3 support
 * interrupts.
 *
 * Debian's kernels have neither gpio-sim nor gpio-mockup. An edge raises an interrupt at once, in
 * hard interrupt context. To test what is measured, the interrupt can be delayed by a given time,
 * or be omitted for one of every N edges.
 */
#include <linux/gpio/consumer.h>
#include <linux/gpio/driver.h>
#include <linux/gpio/machine.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irq_work.h>
#include <linux/irqdomain.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/spinlock.h>

#define LINES 6
#define KEPT 5

static uint delay_us;
module_param(delay_us, uint, 0644);
MODULE_PARM_DESC(delay_us, "microseconds from an edge to its interrupt");

static uint lose_every;
module_param(lose_every, uint, 0644);
MODULE_PARM_DESC(lose_every, "one of every N edges raises no interrupt (0: none is lost)");

static uint changes;
module_param(changes, uint, 0444);
MODULE_PARM_DESC(changes, "number of level changes of the lines that can be driven");

/* Line `out` drives line out + 1. */
struct wire {
	struct gpio_loop *loop;
	unsigned int out;
	struct irq_work now;
	struct hrtimer later;
	uint edges;
};

struct gpio_loop {
	struct gpio_chip chip;
	/* Protects the fields below. */
	raw_spinlock_t lock;
	unsigned long levels;
	unsigned long driven;
	unsigned int sense[LINES];
	struct wire wires[2];
	struct gpio_desc *kept;
};

static struct platform_device *pdev;

static const char *const names[LINES] = {
	"LOOP_OUT", "LOOP_IN", "LOOP_OUT2", "LOOP_IN2", "LOOP_OPEN", "LOOP_KEPT",
};

static bool hears(unsigned int line)
{
	return line == 1 || line == 3;
}

static void interrupt(struct wire *wire)
{
	generic_handle_domain_irq(wire->loop->chip.irq.domain, wire->out + 1);
}

static void interrupt_now(struct irq_work *work)
{
	interrupt(container_of(work, struct wire, now));
}

static enum hrtimer_restart interrupt_later(struct hrtimer *timer)
{
	interrupt(container_of(timer, struct wire, later));
	return HRTIMER_NORESTART;
}

/* The caller holds the lock. */
static void drive(struct gpio_loop *loop, unsigned int line, int value)
{
	struct wire *wire = &loop->wires[line / 2];
	uint lose = READ_ONCE(lose_every), delay = READ_ONCE(delay_us);
	unsigned int edge = value ? IRQ_TYPE_EDGE_RISING : IRQ_TYPE_EDGE_FALLING;
	bool changes_level = test_bit(line, &loop->levels) != !!value;

	__assign_bit(line, &loop->levels, value);
	changes += changes_level;
	if (line % 2 || line > 2)
		return;
	__assign_bit(line + 1, &loop->levels, value);
	if (!changes_level || !(loop->sense[line + 1] & edge))
		return;

	/* Counts from the time when edges begin to be lost, so that the first one arrives. */
	wire->edges = lose ? wire->edges + 1 : 0;
	if (lose && !(wire->edges % lose))
		return;
	if (delay)
		hrtimer_start(&wire->later, ns_to_ktime((u64)delay * NSEC_PER_USEC), HRTIMER_MODE_REL_HARD);
	else
		irq_work_queue(&wire->now);
}

static int loop_get(struct gpio_chip *chip, unsigned int line)
{
	struct gpio_loop *loop = gpiochip_get_data(chip);

	return test_bit(line, &loop->levels);
}

static void loop_set(struct gpio_chip *chip, unsigned int line, int value)
{
	struct gpio_loop *loop = gpiochip_get_data(chip);
	unsigned long flags;

	raw_spin_lock_irqsave(&loop->lock, flags);
	drive(loop, line, value);
	raw_spin_unlock_irqrestore(&loop->lock, flags);
}

static int loop_get_direction(struct gpio_chip *chip, unsigned int line)
{
	struct gpio_loop *loop = gpiochip_get_data(chip);

	return test_bit(line, &loop->driven) ? GPIO_LINE_DIRECTION_OUT : GPIO_LINE_DIRECTION_IN;
}

static int loop_direction_input(struct gpio_chip *chip, unsigned int line)
{
	struct gpio_loop *loop = gpiochip_get_data(chip);
	unsigned long flags;

	raw_spin_lock_irqsave(&loop->lock, flags);
	__clear_bit(line, &loop->driven);
	raw_spin_unlock_irqrestore(&loop->lock, flags);
	return 0;
}

static int loop_direction_output(struct gpio_chip *chip, unsigned int line, int value)
{
	struct gpio_loop *loop = gpiochip_get_data(chip);
	unsigned long flags;

	/* Two outputs on one wire would be a short circuit. */
	if (hears(line))
		return -EPERM;

	raw_spin_lock_irqsave(&loop->lock, flags);
	__set_bit(line, &loop->driven);
	drive(loop, line, value);
	raw_spin_unlock_irqrestore(&loop->lock, flags);
	return 0;
}

static void loop_irq_mask(struct irq_data *data)
{
	gpiochip_disable_irq(irq_data_get_irq_chip_data(data), irqd_to_hwirq(data));
}

static void loop_irq_unmask(struct irq_data *data)
{
	gpiochip_enable_irq(irq_data_get_irq_chip_data(data), irqd_to_hwirq(data));
}

static int loop_irq_set_type(struct irq_data *data, unsigned int type)
{
	struct gpio_loop *loop = gpiochip_get_data(irq_data_get_irq_chip_data(data));
	unsigned long flags;

	if (type & ~IRQ_TYPE_EDGE_BOTH)
		return -EINVAL;

	raw_spin_lock_irqsave(&loop->lock, flags);
	loop->sense[irqd_to_hwirq(data)] = type;
	raw_spin_unlock_irqrestore(&loop->lock, flags);
	return 0;
}

static const struct irq_chip loop_irq_chip = {
	.name = "gpio-loop",
	.irq_mask = loop_irq_mask,
	.irq_unmask = loop_irq_unmask,
	.irq_set_type = loop_irq_set_type,
	.flags = IRQCHIP_IMMUTABLE,
	GPIOCHIP_IRQ_RESOURCE_HELPERS,
};

static void loop_valid_irqs(struct gpio_chip *chip, unsigned long *valid, unsigned int lines)
{
	unsigned int line;

	for (line = 0; line < lines; line++)
		__assign_bit(line, valid, hears(line));
}

/* Runs after the chip is removed, so that no more work is queued. */
static void loop_quiet(void *data)
{
	struct gpio_loop *loop = data;
	int i;

	for (i = 0; i < ARRAY_SIZE(loop->wires); i++) {
		hrtimer_cancel(&loop->wires[i].later);
		irq_work_sync(&loop->wires[i].now);
	}
}

static int loop_probe(struct platform_device *device)
{
	struct gpio_irq_chip *girq;
	struct gpio_loop *loop;
	int i, err;

	loop = devm_kzalloc(&device->dev, sizeof(*loop), GFP_KERNEL);
	if (!loop)
		return -ENOMEM;

	raw_spin_lock_init(&loop->lock);
	for (i = 0; i < ARRAY_SIZE(loop->wires); i++) {
		loop->wires[i].loop = loop;
		loop->wires[i].out = 2 * i;
		loop->wires[i].now = IRQ_WORK_INIT_HARD(interrupt_now);
		hrtimer_init(&loop->wires[i].later, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
		loop->wires[i].later.function = interrupt_later;
	}
	err = devm_add_action(&device->dev, loop_quiet, loop);
	if (err)
		return err;

	loop->chip.label = "gpio-loop";
	loop->chip.parent = &device->dev;
	loop->chip.owner = THIS_MODULE;
	loop->chip.base = -1;
	loop->chip.ngpio = LINES;
	loop->chip.names = names;
	loop->chip.get = loop_get;
	loop->chip.set = loop_set;
	loop->chip.get_direction = loop_get_direction;
	loop->chip.direction_input = loop_direction_input;
	loop->chip.direction_output = loop_direction_output;

	girq = &loop->chip.irq;
	gpio_irq_chip_set_chip(girq, &loop_irq_chip);
	girq->handler = handle_simple_irq;
	girq->default_type = IRQ_TYPE_NONE;
	girq->init_valid_mask = loop_valid_irqs;

	err = devm_gpiochip_add_data(&device->dev, &loop->chip, loop);
	if (err)
		return err;

	loop->kept = gpiochip_request_own_desc(&loop->chip, KEPT, "gpio-loop-itself", GPIO_ACTIVE_HIGH, GPIOD_OUT_LOW);
	if (IS_ERR(loop->kept))
		return PTR_ERR(loop->kept);

	platform_set_drvdata(device, loop);
	return 0;
}

static int loop_remove(struct platform_device *device)
{
	struct gpio_loop *loop = platform_get_drvdata(device);

	gpiochip_free_own_desc(loop->kept);
	return 0;
}

static struct platform_driver loop_driver = {
	.probe = loop_probe,
	.remove = loop_remove,
	.driver.name = "gpio_loop",
};

static int __init gpio_loop_init(void)
{
	int err = platform_driver_register(&loop_driver);

	if (err)
		return err;
	pdev = platform_device_register_simple("gpio_loop", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(pdev)) {
		platform_driver_unregister(&loop_driver);
		return PTR_ERR(pdev);
	}
	return 0;
}
module_init(gpio_loop_init);

static void __exit gpio_loop_exit(void)
{
	platform_device_unregister(pdev);
	platform_driver_unregister(&loop_driver);
}
module_exit(gpio_loop_exit);

MODULE_DESCRIPTION("GPIO lines that are wired together, for tests");
MODULE_LICENSE("GPL");
