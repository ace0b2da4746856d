// SPDX-License-Identifier: GPL-2.0
/*
 * Offers the System Timer of a Raspberry Pi as a UIO device: one page, which every user with
 * access to the device node can map.
 *
 * Debian's ARM kernels have uio, but not uio_pdrv_genirq, which would do this from a device tree
 * node. The address is a parameter, so that nothing is bound or claimed: the kernel's own driver of
 * the timer keeps working.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/uio_driver.h>

static ulong address;
module_param(address, ulong, 0444);
MODULE_PARM_DESC(address, "physical address of the page to offer");

static struct platform_device *pdev;

static struct uio_info info = {
	.name = "hpt-systimer",
	.version = "1",
	.irq = UIO_IRQ_NONE,
	.mem[0] = {
		.name = "timer",
		.size = PAGE_SIZE,
		.memtype = UIO_MEM_PHYS,
	},
};

static int __init uio_systimer_init(void)
{
	int err;

	if (!address || !PAGE_ALIGNED(address))
		return -EINVAL;
	info.mem[0].addr = address;

	pdev = platform_device_register_simple("uio_systimer", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(pdev))
		return PTR_ERR(pdev);

	err = uio_register_device(&pdev->dev, &info);
	if (err)
		platform_device_unregister(pdev);
	return err;
}
module_init(uio_systimer_init);

static void __exit uio_systimer_exit(void)
{
	uio_unregister_device(&info);
	platform_device_unregister(pdev);
}
module_exit(uio_systimer_exit);

MODULE_DESCRIPTION("The System Timer of a Raspberry Pi as a UIO device, for tests");
MODULE_LICENSE("GPL");
